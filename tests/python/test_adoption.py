"""What dead workers have left is written to their files by whoever comes first, and removed."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import Profiler, RunError, merge_run

if TYPE_CHECKING:
    from conftest import Child

    from lineprofiler.run import Worker

pytestmark = pytest.mark.core

WaitUntil = Callable[[Callable[[], bool]], None]
IMAGES = Path(f"/dev/shm/lineprofiler-{os.geteuid()}")

KILLED = """
import os, signal, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "actor", run_id="one")
with profiler.phase("iteration"):
    for _ in range(5):
        with profiler.phase("mcts"):
            profiler.count("games", 2)
    with profiler.phase("stuck"):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def images_of(run_dir: Path) -> list[str]:
    """Return the images whose workers recorded into the run directory."""
    found = []
    for path in IMAGES.glob("*.img"):
        try:
            if os.fsencode(run_dir) in path.read_bytes()[: 1 << 16]:
                found.append(path.name)
        except FileNotFoundError:  # another program's, which went at that moment
            pass
    return found


def leave_a_dead_one(child: Child, run_dir: Path) -> None:
    child.run(KILLED, run_dir, status=-signal.SIGKILL)
    assert len(images_of(run_dir)) == 1


def assert_told(worker: Worker) -> None:
    assert (worker.source, worker.closed, worker.ended) == ("file", False, True)
    assert [entry.path for entry in worker.open] == ["iteration/stuck"]


def assert_adopted(run_dir: Path) -> None:
    assert images_of(run_dir) == []
    run = merge_run(run_dir)
    [worker] = [worker for worker in run.workers if worker.role == "actor"]
    assert_told(worker)
    mcts = run.tree_of("actor")[("iteration", "mcts")]
    assert (mcts.calls, mcts.counters) == (5, {"games": 10})
    kinds = [path.suffix for path in (run_dir / "workers").rglob("w_*")]
    assert kinds.count(".json") == len(run.workers)
    assert set(kinds) <= {".json", ".samples", ".gpu_samples"}


def lineprofiler(command: str, run_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "lineprofiler", command, str(run_dir)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_by_a_report_F7(child: Child, run_dir: Path) -> None:
    leave_a_dead_one(child, run_dir)
    text = lineprofiler("report", run_dir).stdout
    caveats = " ".join(text.split("CAVEATS")[1].split())
    assert re.search(r"actor pid \d+ on \S+ ended without close inside iteration/stuck", caveats)
    assert_adopted(run_dir)


def test_by_merge_run_F7(child: Child, run_dir: Path) -> None:
    leave_a_dead_one(child, run_dir)
    assert_told(merge_run(run_dir).workers[0])
    assert_adopted(run_dir)


def test_by_the_next_profiler_F7(child: Child, run_dir: Path, wait_until: WaitUntil) -> None:
    leave_a_dead_one(child, run_dir)
    with Profiler(run_dir, "learner", run_id="one") as profiler, profiler.phase("step"):
        wait_until(lambda: len(images_of(run_dir)) == 1)  # its own
    assert_adopted(run_dir)


def test_by_a_worker_that_closes_F7(child: Child, run_dir: Path) -> None:
    leave_a_dead_one(child, run_dir)
    with Profiler(
        run_dir, "learner", run_id="one", snapshot_interval_s=None, sample_interval_s=None
    ):
        pass
    assert_adopted(run_dir)


def test_by_a_flush_of_a_worker_that_lives_F7(
    child: Child, run_dir: Path, wait_until: WaitUntil
) -> None:
    with (
        Profiler(run_dir, "learner", run_id="one", snapshot_interval_s=0.05) as profiler,
        profiler.phase("step"),
    ):
        child.run(KILLED, run_dir, status=-signal.SIGKILL)
        wait_until(lambda: len(images_of(run_dir)) == 1)
    assert_adopted(run_dir)


def test_what_cannot_be_written_is_read_where_it_lies_F7(child: Child, run_dir: Path) -> None:
    leave_a_dead_one(child, run_dir)
    (run_dir / "workers").rename(run_dir / "aside")
    (run_dir / "workers").write_text("")
    [worker] = merge_run(run_dir).workers
    assert (worker.source, worker.ended) == ("dead", True)
    assert len(images_of(run_dir)) == 1
    (run_dir / "workers").unlink()
    merge_run(run_dir)
    assert_adopted(run_dir)


PARENT = """
import multiprocessing, os, signal, sys, time
from lineprofiler.accounting import Profiler

def actor(run_dir, ready, how):
    with Profiler(run_dir, "actor") as profiler, profiler.phase("iteration"):
        with profiler.phase("stuck"):
            ready.send(None)
            ready.recv()
            os._exit(7) if how == "exit" else os.kill(os.getpid(), getattr(signal, how))

def target(name):
    try:
        return os.readlink("/proc/self/fd/" + name)
    except FileNotFoundError:  # another thread has closed it meanwhile
        return ""

def is_watched():
    return any("pidfd" in target(name) for name in os.listdir("/proc/self/fd"))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(sys.argv[1], sample_interval_s=0.01) as profiler, profiler.phase("main"):
        ours, theirs = context.Pipe()
        args = (sys.argv[1], theirs, sys.argv[3])
        process = context.Process(target=actor, args=args, daemon=True)
        process.start()
        ours.recv()
        deadline = time.monotonic() + 60
        while not is_watched():
            assert time.monotonic() < deadline
        ours.send(None)
        process.join()
"""


def kernel_tells() -> bool:
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)


@pytest.mark.skipif(not kernel_tells(), reason="the kernel tells the end of others from 6.15 on")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("SIGKILL", "ended without close, killed by SIGKILL, inside iteration/stuck"),
        ("SIGSEGV", "ended without close, killed by SIGSEGV, inside iteration/stuck"),
        ("exit", "ended without close, with exit status 7, inside iteration/stuck"),
    ],
)
def test_a_parent_tells_how_a_worker_ended_F7_K10(
    child: Child, run_dir: Path, method: str, how: str, told: str
) -> None:
    child.run(PARENT, run_dir, method, how)
    run = merge_run(run_dir)
    [worker] = run.workers_of("actor")
    number = None if how == "exit" else int(getattr(signal, how))
    assert (worker.end_signal, worker.exit_status) == (number, 7 if how == "exit" else None)
    [caveat] = [caveat for caveat in run.caveats if caveat.kind != "dropped"]  # I/O, of children
    assert told in caveat.text
    assert images_of(run_dir) == []


# ---- of another version ----------------------------------------------------------------

VERSION_AT = 8  # in the image's header


def of_another_version(run_dir: Path) -> Path:
    """Make the dead worker's image one that a later version has written."""
    [name] = images_of(run_dir)
    path = IMAGES / name
    with path.open("r+b") as file:
        file.seek(VERSION_AT)
        [version] = struct.unpack("<I", file.read(4))
        file.seek(VERSION_AT)
        file.write(struct.pack("<I", version + 1))
    return path


@pytest.fixture
def foreign(child: Child, run_dir: Path) -> Iterator[Path]:
    leave_a_dead_one(child, run_dir)
    path = of_another_version(run_dir)
    yield path
    path.unlink()


def test_an_image_of_another_version_is_named_and_kept(run_dir: Path, foreign: Path) -> None:
    before = foreign.read_bytes()
    named = f"{foreign}: recorded by another version of lineprofiler"
    with pytest.raises(RunError, match=named):
        merge_run(run_dir)
    for command in ("where", "report"):
        assert named in lineprofiler(command, run_dir).stderr
    with Profiler(run_dir, "learner", run_id="one"):
        pass
    run = merge_run(run_dir)
    assert [worker.role for worker in run.workers] == ["learner"]
    reason = "recorded by another version of lineprofiler: read the run with that one"
    assert [(one.path, one.reason) for one in run.unreadable] == [(str(foreign), reason)]
    assert any(reason in caveat.text for caveat in run.caveats)
    assert foreign.read_bytes() == before


@pytest.mark.usefixtures("foreign")
def test_an_image_of_another_version_and_another_run(
    child: Child, run_dir: Path, tmp_path: Path
) -> None:
    with Profiler(tmp_path / "other", "learner", run_id="one"):
        pass
    assert not merge_run(tmp_path / "other").unreadable
    # The same by another path to it, and of an attempt that is over.
    child.run(KILLED.replace("SIGKILL)", "SIGTERM)"), run_dir, status=-signal.SIGTERM)
    with Profiler(run_dir, "learner", run_id="two"):
        pass
    link = tmp_path / "link"
    link.symlink_to(run_dir)
    run = merge_run(link)
    assert (run.run_id, run.unreadable) == ("two", [])
    assert "1 unreadable file" in " ".join(caveat.text for caveat in run.caveats)


def test_a_file_stands_in_for_an_image_of_another_version(child: Child, run_dir: Path) -> None:
    flushed = KILLED.replace(
        '    with profiler.phase("stuck"):',
        '    profiler.snapshot()\n    with profiler.phase("stuck"):',
    )
    child.run(flushed, run_dir, status=-signal.SIGKILL)
    image = of_another_version(run_dir)
    try:
        run = merge_run(run_dir)
        [worker] = run.workers
        assert (worker.source, worker.closed, worker.ended) == ("file", False, False)
        assert (run.tree[("iteration", "mcts")].calls, run.unreadable) == (5, [])
    finally:
        image.unlink()

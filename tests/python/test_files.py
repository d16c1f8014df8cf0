"""The files of a run: names, modes, facts, periodic flushes (F1 to F6)."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import Profiler, merge_run

if TYPE_CHECKING:
    from conftest import Child

Wait = Callable[[Callable[[], bool]], None]

ONE_PHASE = """
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1]) as profiler, profiler.phase("a"):
    pass
"""


def test_the_names_of_files_F1(run_dir: Path) -> None:
    with Profiler(run_dir, run_id="20260813T2241-471c94") as profiler:
        name = profiler.worker
        path = profiler.path
    assert name is not None
    assert re.fullmatch(rf"w_20260813T2241-471c94_{os.getpid()}_[0-9a-f]{{8}}", name)
    found = sorted(str(p.relative_to(run_dir)) for p in run_dir.rglob("*") if p.is_file())
    assert found == ["metadata.json", f"workers/{socket.gethostname()}/{name}.json"]
    assert path == str(run_dir / found[1])


def test_a_parent_of_a_link_is_its_targets(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = run_dir / "a" / "b"
    deep.mkdir(parents=True)
    (run_dir / "link").symlink_to(deep)
    monkeypatch.chdir(run_dir)
    for given, meant in {
        "link/../run": run_dir / "a" / "run",
        "link/../../run": run_dir / "run",
        f"{run_dir}/./link//../run/": run_dir / "a" / "run",
        "../run": run_dir.parent / "run",
        "..": run_dir.parent,
        "a..b/run": run_dir / "a..b" / "run",
    }.items():
        with Profiler(given) as profiler:
            assert profiler.run_dir == str(meant)
        assert merge_run(given).workers


def test_a_run_id_is_made_F4(run_dir: Path) -> None:
    with Profiler(run_dir) as profiler:
        assert profiler.run_id is not None
        assert re.fullmatch(r"\d{8}T\d{4}-[0-9a-f]{6}", profiler.run_id)
    run = merge_run(run_dir)
    assert run.run_id == profiler.run_id
    assert run.workers[0].run_id_generated
    assert list(run.metadata["runs"]) == [profiler.run_id]


def test_a_run_id_that_is_no_file_name(run_dir: Path) -> None:
    with Profiler(run_dir, run_id="../a b/ü") as profiler:
        assert profiler.run_id == "../a b/ü"
    [path] = run_dir.glob("workers/*/*")
    assert re.fullmatch(r"w_[A-Za-z0-9_][A-Za-z0-9._-]*\.json", path.name)
    assert merge_run(run_dir).run_id == "../a b/ü"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_modes_follow_the_umask_F1(child: Child, run_dir: Path, umask: int, mode: int) -> None:
    child.run(f"import os; os.umask({umask})\n" + ONE_PHASE, run_dir)
    for path in run_dir.rglob("*"):
        wanted = mode if path.is_file() else mode | (mode & 0o444) >> 2
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_two_workers_never_share_a_file_F5(run_dir: Path) -> None:
    for _ in range(5):
        with Profiler(run_dir, run_id="one") as profiler, profiler.phase("a"):
            pass
    run = merge_run(run_dir)
    assert len(run.workers) == 5
    assert {worker.pid for worker in run.workers} == {os.getpid()}
    assert run.tree[("a",)].calls == 5


LAUNCHERS = {
    "slurm": (
        {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "RANK": "1", "SLURM_JOB_ID": "77"},
        (3, 8, "slurm", "slurm", "77"),
    ),
    "torchrun": (
        {"RANK": "1", "WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "PBS_JOBID": "5.x"},
        (1, 4, "torchrun", "pbs", "5.x"),
    ),
    "openmpi": (
        {
            "OMPI_COMM_WORLD_RANK": "2",
            "OMPI_COMM_WORLD_SIZE": "3",
            "PMI_RANK": "0",
            "LSB_JOBID": "9",
        },
        (2, 3, "openmpi", "lsf", "9"),
    ),
    "pmi": (
        {"PMI_RANK": "0", "PMI_SIZE": "2", "FLUX_JOB_ID": "f1"},
        (0, 2, "pmi", "flux", "f1"),
    ),
    "none": ({}, (None, None, None, None, None)),
    "nonsense": (
        {"SLURM_PROCID": "-1", "RANK": "x", "OMPI_COMM_WORLD_RANK": ""},
        (None, None, None, None, None),
    ),
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rank_and_job_come_from_the_launcher_F2(child: Child, run_dir: Path, launcher: str) -> None:
    variables, expected = LAUNCHERS[launcher]
    child.run(ONE_PHASE, run_dir, env=variables)
    [worker] = merge_run(run_dir).workers
    facts = (
        worker.rank,
        worker.world_size,
        worker.launcher,
        worker.job_system,
        worker.job_id,
    )
    assert facts == expected


def test_what_a_worker_says_of_itself_F2(child: Child, run_dir: Path) -> None:
    process = child.start(ONE_PHASE, run_dir, "an argument", env={"LINEPROFILER_ROLE": "actor"})
    process.communicate()
    [worker] = merge_run(run_dir).workers
    assert worker.pid == process.pid
    assert worker.parent_pid == os.getpid()
    assert worker.host == socket.gethostname()
    assert worker.role == "actor"
    assert worker.runtime == "CPython " + sys.version.split()[0]
    assert worker.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert worker.started_at <= worker.written_at
    assert worker.closed
    [path] = run_dir.glob("workers/*/*.json")
    assert json.loads(path.read_text())["command"][1:] == [
        str(child.folder / "main.py"),
        str(run_dir),
        "an argument",
    ]


def test_periodic_flushes_F6(run_dir: Path, wait_until: Wait) -> None:
    with Profiler(run_dir, snapshot_interval_s=0.01) as profiler:
        path = Path(str(profiler.path))
        with profiler.phase("open"):
            wait_until(path.exists)
            first = json.loads(path.read_text())
            wait_until(lambda: json.loads(path.read_text())["flush"] > first["flush"] + 2)
            run = merge_run(run_dir)
            assert run.tree[("open",)].calls == 0
            assert run.tree[("open",)].open_calls == 1
            assert run.tree[("open",)].wall_ns == run.tree[("open",)].open_wall_ns > 0
            assert run.workers[0].open[0].path == "open"
            assert not run.workers[0].closed
            with profiler.phase("done"):
                pass
        before = json.loads(path.read_text())["flush"]
        wait_until(lambda: json.loads(path.read_text())["flush"] > before + 1)
        assert merge_run(run_dir).tree[("open", "done")].calls == 1
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("open",)].open_calls == 0


def test_a_failing_flush_does_not_stop_the_next_F6(tmp_path: Path, wait_until: Wait) -> None:
    run_dir, link, in_the_way = tmp_path / "run", tmp_path / "link", tmp_path / "file"
    run_dir.mkdir()
    in_the_way.write_text("")

    def point_to(target: Path) -> None:
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").replace(link)

    point_to(run_dir)
    with Profiler(link, snapshot_interval_s=0.01) as profiler, profiler.phase("a"):
        path = Path(str(profiler.path))

        def failed() -> int:
            document = json.loads(profiler.document() or b"{}")
            return int(document.get("troubles", {}).get("failed_flushes", 0))

        wait_until(path.exists)
        assert failed() == 0
        point_to(in_the_way)
        wait_until(lambda: failed() > 2)
        point_to(run_dir)
        wait_until(lambda: json.loads(path.read_text()).get("troubles", {}) != {})
    run = merge_run(run_dir)
    assert run.workers[0].troubles["failed_flushes"] > 2
    assert "failed_flushes" in {caveat.kind for caveat in run.caveats}
    assert run.tree[("a",)].calls == 1


def test_a_file_size_limit_does_not_end_the_program_F6(child: Child, run_dir: Path) -> None:
    done = child.run(
        """
import resource, signal, sys
from lineprofiler.accounting import Profiler
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as in programs that are not Python's
profiler = Profiler(sys.argv[1], snapshot_interval_s=None)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
with profiler.phase("a"):
    pass
try:
    profiler.snapshot()
except OSError as error:
    print(error.errno)
profiler.close()
print(signal.SIGXFSZ in signal.sigpending(), signal.SIGXFSZ in signal.pthread_sigmask(0, []))
""",
        run_dir,
        options=("-W", "ignore"),
    )
    assert done.stdout.splitlines() == [str(errno.EFBIG), "False False"]


def test_a_snapshot_on_demand(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        path = Path(str(profiler.path))
        assert not path.exists()
        with profiler.phase("a"):
            profiler.snapshot()
        document = json.loads(path.read_text())
        assert document["state"] == "running"
        assert document["flush"] == 1
        assert document["threads"][0]["nodes"][1]["open_calls"] == 1
        shown = json.loads(profiler.document() or b"{}")
        assert shown["threads"][0]["nodes"][1]["calls"] == 1
        inode = path.stat().st_ino
        profiler.snapshot()
        assert path.stat().st_ino != inode, "a file is replaced, never written over"
    assert json.loads(path.read_text())["state"] == "closed"


def test_the_thread_that_flushes_never_needs_the_gil_F6(child: Child, run_dir: Path) -> None:
    # One long call into C that keeps the GIL, far beyond several flushes.
    code = """
import json, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], snapshot_interval_s=0.01)
with profiler.phase("a"):
    flushes = 0
    while flushes < 3:
        before = json.loads(profiler.document())["flush"]
        sum(range(30_000_000))
        flushes = json.loads(profiler.document())["flush"] - before
profiler.close()
"""
    child.run(code, run_dir)
    assert merge_run(run_dir).workers[0].flush > 3


def test_thread_names_F1_G4(run_dir: Path) -> None:
    import threading

    with Profiler(run_dir, thread_names=True, snapshot_interval_s=None) as profiler:

        def work() -> None:
            with profiler.phase("work"):
                pass

        for name in ("collector", "sämpler \udcff", "collector"):
            thread = threading.Thread(target=work, name=name)
            thread.start()
            thread.join()
        work()
    run = merge_run(run_dir)
    assert {path: node.calls for path, node in run.tree.items() if len(path) == 2} == {
        ("collector", "work"): 2,
        ("sämpler \udcff", "work"): 1,
        ("MainThread", "work"): 1,
    }
    assert run.tree[("collector",)].is_thread
    assert not run.tree[("collector", "work")].is_thread


def test_a_thread_may_be_given_another_name_G4(run_dir: Path) -> None:
    import threading

    with Profiler(run_dir, thread_names=True, snapshot_interval_s=None) as profiler:

        def work() -> None:
            with profiler.phase("work"):
                pass
            threading.current_thread().name = "learner"
            profiler.snapshot()  # a flush

        for name in ("Thread-1", "Thread-2", "Thread-3"):
            thread = threading.Thread(target=work, name=name)
            thread.start()
            thread.join()
    names = {path[0]: node.calls for path, node in merge_run(run_dir).tree.items() if path[1:]}
    assert names == {"learner": 3}


def test_the_name_is_looked_at_after_each_flush_G4(child: Child, run_dir: Path) -> None:
    code = """
import os, sys, threading
from lineprofiler.accounting import Profiler, merge_run
profiler = Profiler(sys.argv[1], thread_names=True, snapshot_interval_s=0.005)
with profiler.phase("work"):
    pass
threading.current_thread().name = "learner"
while not any(path[0] == "learner" for path in profiler.merged_tree()):
    with profiler.phase("work"):
        pass
os._exit(0)
"""
    child.run(code, run_dir)


def test_a_thread_takes_its_name_without_threading(child: Child, run_dir: Path) -> None:
    code = """
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], thread_names=True) as profiler, profiler.phase("a"):
    pass
assert "threading" not in sys.modules
"""
    child.run(code, run_dir)
    [name] = {path[0] for path in merge_run(run_dir).tree}
    assert name == Path(sys.executable).name[:15]


def test_a_removed_run_directory_comes_back_whole(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        with profiler.phase("a"):
            pass
        shutil.rmtree(run_dir)
    run = merge_run(run_dir)
    assert run.tree[("a",)].calls == 1
    assert run.run_id in run.metadata["runs"]

"""Faults that people met in other tools, by the ID of the case, where no other file has them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler.accounting import Profiler, merge_run

if TYPE_CHECKING:
    from conftest import Child

COMMAND = str(Path(sys.executable).parent / "lineprofiler")


def report(run_dir: Path, *options: str) -> str:
    """Return what the command prints of a run."""
    command = [COMMAND, "report", str(run_dir), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines_of(text: str, heading: str) -> list[str]:
    """Return the lines below a heading up to the next empty one."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading)) + 1
    end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
    return lines[start:end]


def busy(profiler: Profiler, name: str, turns: int) -> None:
    """Spend time in a phase, the more turns the more."""
    with profiler.phase(name):
        sum(range(turns))


def test_the_dominant_phases_come_first_RP03(run_dir: Path) -> None:
    with Profiler(run_dir) as profiler:
        for name, turns in (("a", 1_000), ("b", 10_000_000), ("c", 1_000_000)):
            busy(profiler, name, turns)
    lines = lines_of(report(run_dir), "DOMINANT PHASES")
    rows = [line.split()[0] for line in lines if not line.startswith("  ")]
    assert rows[:2] == ["b", "c"]


def test_self_and_inclusive_time_are_told_apart_RP04(run_dir: Path) -> None:
    with Profiler(run_dir) as profiler, profiler.phase("outer"):
        busy(profiler, "inner", 3_000_000)
    text = report(run_dir)
    assert " self " in text.split("DOMINANT PHASES")[1].splitlines()[0]
    assert "self        wall time outside child phases" in text
    [role] = json.loads(report(run_dir, "--json"))["roles"]
    outer, inner = role["phases"]
    assert outer["wall_ns"] == outer["self_ns"] + inner["wall_ns"]


def test_a_run_of_a_moment_is_reported_RP08(run_dir: Path) -> None:
    with Profiler(run_dir) as profiler, profiler.phase("only"):
        pass
    text = report(run_dir)
    assert "MAIN  (1 process" in text
    lines = lines_of(text, "DOMINANT PHASES")
    assert [line.split()[0] for line in lines if not line.startswith("  ")] == ["only"]


def test_what_was_folded_is_said_SC02(child: Child, run_dir: Path) -> None:
    child.run(
        f"""
from lineprofiler.accounting import Profiler
with Profiler({str(run_dir)!r}) as profiler:
    for i in range(5000):
        with profiler.phase("outer"), profiler.phase(f"episode_{{i}}"):
            pass
"""
    )
    caveats = " ".join(lines_of(report(run_dir), "CAVEATS")).split()
    assert "905" in caveats  # 5,000 names and their parent, 4,096 places
    assert merge_run(run_dir).tree[("outer",)].calls == 5000


def test_what_found_no_name_is_said_SC02(child: Child, run_dir: Path) -> None:
    child.run(
        f"""
from lineprofiler.accounting import Profiler
with Profiler({str(run_dir)!r}) as profiler:
    with profiler.phase("outer"):
        for i in range(70000):
            with profiler.phase(f"episode_{{i}}"):
                pass
        for i in range(5):
            profiler.count(f"counter {{i}}")
"""
    )
    run = merge_run(run_dir)
    [worker] = run.workers
    assert worker.troubles["folded_paths"] == 70001 - 4096  # also those whose name was not kept
    assert worker.troubles["lost_counters"] == 5
    assert "5 counts were lost" in " ".join(caveat.text for caveat in run.caveats)


def test_an_idle_worker_takes_little_memory_SC03(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        folder = Path(f"/dev/shm/lineprofiler-{os.geteuid()}")
        [image] = folder.glob(f"w_{profiler.run_id}_{os.getpid()}_*.img")  # pids come again
        assert image.stat().st_blocks * 512 <= 64 << 10
        with profiler.phase("a"):
            pass
        assert image.stat().st_blocks * 512 <= 64 << 10


def test_fifty_phases_on_four_threads_take_little_memory(run_dir: Path) -> None:
    """Each at durations of many orders, since a histogram grows where it is hit."""

    def work(profiler: Profiler) -> None:
        for i in range(50):
            for wait_s in (0, 1e-6, 1e-5, 1e-4, 1e-3):
                with profiler.phase(f"phase {'abcdefghij'[i % 10]} {'klmno'[i // 10]}"):
                    profiler.count("n")
                    time.sleep(wait_s)

    with Profiler(run_dir, thread_names=True) as profiler:
        threads = [threading.Thread(target=work, args=(profiler,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        folder = Path(f"/dev/shm/lineprofiler-{os.geteuid()}")
        [image] = folder.glob(f"w_{profiler.run_id}_{os.getpid()}_*.img")
        assert image.stat().st_blocks * 512 < 2 << 20


def test_every_worker_says_who_it_is_NM03(child: Child, run_dir: Path) -> None:
    child.run(
        f"from lineprofiler.accounting import Profiler\n"
        f"with Profiler({str(run_dir)!r}, 'actor') as profiler, profiler.phase('a'): pass",
        env={"SLURM_PROCID": "3"},
    )
    [worker] = json.loads(report(run_dir, "--json"))["workers"]
    assert (worker["role"], worker["rank"]) == ("actor", 3)
    assert worker["pid"] > 0
    assert worker["host"] == os.uname().nodename


def test_times_of_files_mean_nothing_CK05(run_dir: Path) -> None:
    for run_id in ("older", "newer"):
        with Profiler(run_dir, run_id=run_id) as profiler, profiler.phase(run_id):
            pass
    for file in run_dir.glob("workers/*/w_newer_*.json"):
        os.utime(file, (0, 0))
    run = merge_run(run_dir)
    assert run.run_id == "newer"
    assert not [worker for worker in run.workers if worker.stale]


CONTENDED = """
import os, sys, time
from lineprofiler.accounting import Profiler
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
rival = os.fork()
if rival == 0:
    parent = os.getppid()
    while os.getppid() == parent:
        pass
    os._exit(0)
with Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None) as profiler:
    with profiler.phase("rollout"):
        for _ in range(1000):
            with profiler.phase("step"):
                until = time.perf_counter_ns() + 1_000_000
                while time.perf_counter_ns() < until:
                    pass
os.kill(rival, 9)
os.waitpid(rival, 0)
"""


@pytest.mark.parametrize("clock", ["token", "bounded", "plain"])
def test_waiting_for_a_core_is_the_phase_that_computes(
    child: Child, run_dir: Path, clock: str
) -> None:
    """A thread is preempted where it enters the kernel, and reading the CPU clock enters it."""
    child.run(CONTENDED, run_dir, env={"LINEPROFILER_CLOCK_CPU": clock})
    rollout = merge_run(run_dir).tree[("rollout",)]
    # Half of the time when the waits fell between the steps; next to nothing where they belong.
    assert rollout.self_ns < rollout.wall_ns / 4


def test_a_forked_child_starts_its_cpu_clock_anew_CK07_FK15(child: Child, run_dir: Path) -> None:
    child.run(
        f"""
import os, time
from lineprofiler.accounting import Profiler
profiler = Profiler({str(run_dir)!r}, snapshot_interval_s=None, sample_interval_s=None)
with profiler.phase("parent"):
    start = time.thread_time_ns()
    while time.thread_time_ns() - start < 50_000_000:
        pass
    pid = os.fork()
    if pid == 0:
        with profiler.phase("child"):
            pass
        profiler.close()
        os._exit(0)
    os.waitpid(pid, 0)
profiler.close()
"""
    )
    tree = merge_run(run_dir).tree
    child_phase, parent_phase = tree[("child",)], tree[("parent",)]
    # Not the parent's 50 ms, and nothing below zero that an unsigned difference would make huge.
    assert (child_phase.cpu_ns or 0) <= child_phase.wall_ns + 100_000
    assert (parent_phase.cpu_ns or 0) >= 40_000_000


def test_a_forked_child_flushes_by_itself_FK06(child: Child, run_dir: Path) -> None:
    """The thread that flushes does not exist in a child; one of its own begins there."""
    child.run(
        f"""
import json, os, pathlib
from lineprofiler.accounting import Profiler
profiler = Profiler({str(run_dir)!r}, snapshot_interval_s=0.01)
with profiler.phase("parent"):
    pid = os.fork()
    if pid == 0:
        with profiler.phase("child"):
            path = pathlib.Path(profiler.path)
            while not path.exists() or json.loads(path.read_text())["flush"] < 3:
                pass
        profiler.close()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
assert status == 0
"""
    )
    run = merge_run(run_dir)
    assert len(run.workers) == 2
    assert {path: node.calls for path, node in run.tree.items()} == {("parent",): 1, ("child",): 1}


TERMINATED = """
import os, signal, sys, threading
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "terminated")
def work():
    for _ in range(10):
        with profiler.phase("step"):
            profiler.count("n")
def end():
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
if sys.argv[2] == "threaded":
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    end()
elif sys.argv[2] == "plain":
    work()
    end()
pid = os.fork()
if pid == 0:
    work()
    end()
assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
"""


@pytest.mark.parametrize("how", ["plain", "threaded", "forked"])
def test_sigterm_loses_nothing_FK17(child: Child, run_dir: Path, how: str) -> None:
    """Without a handler of ours, the state in shared memory outlives the process."""
    child.run(TERMINATED, run_dir, how, status=0 if how == "forked" else -signal.SIGTERM)
    run = merge_run(run_dir)
    step = run.tree[("step",)]
    assert (step.calls, step.counters) == (10, {"n": 10})
    [worker] = [worker for worker in run.workers if not worker.closed]
    assert (worker.source, worker.ended) == ("file", True)
    assert not Path(f"/dev/shm/lineprofiler-{os.geteuid()}/{worker.name}.img").exists()


def test_started_on_another_thread_FK19(child: Child, run_dir: Path) -> None:
    done = child.run(
        """
import sys, threading
def run():
    from lineprofiler import accounting
    accounting.start(sys.argv[1])
    with accounting.phase("a"):
        pass
    accounting.stop()
thread = threading.Thread(target=run)
thread.start()
thread.join()
""",
        run_dir,
        options=("-W", "error"),
    )
    assert done.stderr == ""
    assert merge_run(run_dir).tree[("a",)].calls == 1


def test_begun_before_the_loop_or_inside_AS06(tmp_path: Path) -> None:
    async def work(profiler: Profiler) -> None:
        with profiler.phase("outer"):
            await asyncio.sleep(0)
            with profiler.phase("inner"):
                await asyncio.sleep(0)

    async def main(profiler: Profiler) -> None:
        await asyncio.gather(*(work(profiler) for _ in range(3)))

    async def begin_inside() -> None:
        with Profiler(tmp_path / "inside") as profiler:
            await main(profiler)

    with Profiler(tmp_path / "before") as before:
        asyncio.run(main(before))
    asyncio.run(begin_inside())
    for run_dir in (tmp_path / "before", tmp_path / "inside"):
        tree = merge_run(run_dir).tree
        assert {path: node.calls for path, node in tree.items()} == {
            ("outer",): 3,
            ("outer", "inner"): 3,
        }


def test_no_number_is_no_count_HG02(profiler: Profiler, run_dir: Path) -> None:
    count: Any = profiler.count
    profiler.count("n", 3)
    for bad in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(TypeError, match="float"):
            count("n", bad)
    profiler.close()
    [n] = merge_run(run_dir).tree.root.counters.values()
    assert (n, n.calls, n.min, n.max) == (3, 1, 3, 3)


def test_a_histogram_of_other_buckets_is_never_added_HG04(run_dir: Path) -> None:
    paths = []
    for _ in range(2):
        with Profiler(run_dir, run_id="one") as profiler, profiler.phase("a"):
            pass
        paths.append(Path(str(profiler.path)))
    document = json.loads(paths[0].read_text())
    document["threads"][0]["nodes"][1]["hist"] = "512:1"
    paths[0].write_text(json.dumps(document))
    run = merge_run(run_dir)
    assert len(run.workers) == len(run.unreadable) == 1
    assert run.tree[("a",)].calls == run.tree[("a",)].hist.total == 1

"""Why a thread waited: blocked, or pushed off its core (wait_detail=)."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, Run, merge_run
from lineprofiler.run import Node

if TYPE_CHECKING:
    from conftest import Child

Finish = Callable[[], Run]

# What all the programs below begin with. busy() uses the CPU, however long that takes.
PRELUDE = """
import os, queue, signal, subprocess, sys, threading, time
from lineprofiler.accounting import Profiler

def busy(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

def share_the_core(n):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # Each ends with us, and works on when we do.
    endless = "import os\\nparent = os.getppid()\\nwhile os.getppid() == parent: pass"
    return [subprocess.Popen([sys.executable, "-c", endless]) for _ in range(n)]

def end(others):
    for other in others:
        other.kill()
        other.wait()

def slow_queue(n):
    items = queue.Queue()
    def produce():
        for i in range(n):
            time.sleep(0.03)
            items.put(i)
    threading.Thread(target=produce).start()
    return items
"""


def assert_parts(node: Node) -> tuple[int, int, int]:
    """Blocked and preempted are measured, and no more than the wait; returns all three."""
    assert node.wait_ns is not None
    assert node.blocked_ns is not None
    assert node.preempted_ns is not None
    assert node.blocked_ns + node.preempted_ns <= node.wait_ns
    return node.blocked_ns, node.preempted_ns, node.wait_ns


SHORT_OF_CORES = """
others = share_the_core(3)
with Profiler(sys.argv[1], snapshot_interval_s=None) as profiler:
    for _ in range(5):
        with profiler.phase("search"):
            busy(0.02)
end(others)
"""


def test_more_busy_processes_than_cores(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + SHORT_OF_CORES, run_dir)
    blocked, preempted, wait = assert_parts(merge_run(run_dir).tree[("search",)])
    assert preempted > 0.9 * wait
    assert blocked < 0.1 * wait
    text = report(run_dir)
    assert "% preempted - more busy threads than cores" in text
    assert "could have run but found no core" in " ".join(text.split())


def report(run_dir: Path, *options: str) -> str:
    command = [sys.executable, "-P", "-m", "lineprofiler", "report", str(run_dir), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


SLOW_QUEUE = """
with Profiler(sys.argv[1], snapshot_interval_s=None) as profiler:
    items = slow_queue(10)
    for _ in range(10):
        with profiler.phase("step"):
            with profiler.phase("queue_wait"):
                items.get()
            with profiler.phase("learn"):
                busy(0.001)
"""


def test_a_slow_queue(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + SLOW_QUEUE, run_dir)
    tree = merge_run(run_dir).tree
    blocked, preempted, wait = assert_parts(tree[("step", "queue_wait")])
    assert blocked > 0.5 * wait
    assert blocked > preempted
    # Inclusive, like wall and CPU time: what holds of the phase inside is in the one around it.
    outer_blocked, outer_preempted, _ = assert_parts(tree[("step",)])
    inner = [assert_parts(tree[("step", name)]) for name in ("queue_wait", "learn")]
    assert outer_blocked >= sum(parts[0] for parts in inner)
    assert outer_preempted >= sum(parts[1] for parts in inner)

    text = report(run_dir)
    reasons = " ".join(line for line in text.splitlines() if line.startswith("    wait "))
    assert "% blocked" in reasons
    shown = json.loads(report(run_dir, "--json"))
    [phase] = [p for p in shown["roles"][0]["phases"] if p["path"] == ["step", "queue_wait"]]
    assert (phase["blocked_ns"], phase["preempted_ns"]) == (blocked, preempted)
    assert phase["blocked_share"] == pytest.approx(blocked / phase["wait_base_ns"])
    assert phase["preempted_share"] == pytest.approx(preempted / phase["wait_base_ns"])


BOTH = """
others = share_the_core(2)
with Profiler(sys.argv[1], snapshot_interval_s=None) as profiler:
    items = slow_queue(8)
    for _ in range(8):
        with profiler.phase("queue_wait"):
            items.get()
        with profiler.phase("search"):
            busy(0.02)
end(others)
"""


def test_both_at_once(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + BOTH, run_dir)
    tree = merge_run(run_dir).tree
    _, preempted, wait = assert_parts(tree[("search",)])
    assert preempted > 0.9 * wait
    # The queue is filled while the search has no core, so there the two may be of any size.
    assert_parts(tree[("queue_wait",)])


FORKS = """
profiler = Profiler(sys.argv[1], snapshot_interval_s=None)
with profiler.phase("start"):
    time.sleep(0.02)
pid = os.fork()
if pid == 0:
    with profiler.phase("child"):
        time.sleep(0.05)
    with profiler.phase("child", sample=0.5):
        pass
    profiler.close()
    os._exit(0)
with profiler.phase("parent"):
    os.waitpid(pid, 0)
profiler.close()
links = [f"/proc/self/fd/{fd}" for fd in range(3, 16)]
left = [os.readlink(link) for link in links if os.path.lexists(link)]
assert not any(target.endswith("/schedstat") for target in left), left
"""


def test_parent_and_child(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + FORKS, run_dir)
    tree = merge_run(run_dir).tree
    for name, least_ns in (("start", 20e6), ("child", 50e6), ("parent", 50e6)):
        blocked, _, _ = assert_parts(tree[(name,)])
        assert blocked >= 0.9 * least_ns  # asleep at least that long


def test_descriptors_end_with_their_threads(run_dir: Path) -> None:
    def work() -> None:
        with profiler.phase("work"):
            time.sleep(0.001)

    before = set(os.listdir("/proc/self/fd"))
    tasks = set(os.listdir("/proc/self/task"))
    profiler = Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None)
    with profiler.phase("main"):
        for _ in range(3):
            threads = [threading.Thread(target=work) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    while set(os.listdir("/proc/self/task")) - tasks:  # join() does not wait for the system's side
        time.sleep(0.001)
    targets = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{fd}")
    ]
    assert sum(target.endswith("/schedstat") for target in targets) == 1  # that of this thread
    profiler.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)
    blocked, _, _ = assert_parts(merge_run(run_dir).tree[("work",)])
    assert blocked >= 30 * 900_000


CLOSES_ALL = """
with Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None) as profiler:
    with profiler.phase("before"):
        time.sleep(0.05)
    os.closerange(3, 1024)
    ours = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(16)]
    for _ in range(10):
        with profiler.phase("after"):
            time.sleep(0.005)
    assert [os.lseek(fd, 0, os.SEEK_CUR) for fd in ours] == [0] * 16
    assert len({os.fstat(fd).st_ino for fd in ours}) == 1
for fd in ours:
    os.close(fd)  # OSError if somebody closed it
"""


def test_a_host_that_closes_all_descriptors(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + CLOSES_ALL, run_dir)
    tree = merge_run(run_dir).tree
    blocked, _, _ = assert_parts(tree[("before",)])
    assert blocked >= 45_000_000
    blocked, _, wait = assert_parts(tree[("after",)])
    assert blocked < wait  # the first second without a descriptor is not measured, and not guessed


KILLED = """
profiler = Profiler(sys.argv[1], snapshot_interval_s=None)
for _ in range(3):
    with profiler.phase("ended"):
        time.sleep(0.01)
with profiler.phase("open"):
    with profiler.phase("ended"):
        time.sleep(0.01)
    time.sleep(0.05)
    with profiler.phase("ended"):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_in_the_middle(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + KILLED, run_dir, status=-9)
    tree = merge_run(run_dir).tree
    blocked, _, _ = assert_parts(tree[("ended",)])
    assert blocked >= 27_000_000
    # How long the open one waited is known by nobody any more, so neither is why.
    assert tree[("open",)].wait_ns is None
    assert tree[("open",)].blocked_ns is None
    blocked, _, _ = assert_parts(tree[("open", "ended")])
    assert blocked >= 9_000_000


def test_open_entries_have_their_part(profiler: Profiler) -> None:
    with profiler.phase("open"):
        time.sleep(0.02)
        with profiler.phase("inside"):
            pass
        node = profiler.merged_tree()[("open",)]
        blocked, _, _ = assert_parts(node)
        assert blocked >= 18_000_000


def test_deltas_add_up(profiler: Profiler, finish: Finish) -> None:
    handed_out = 0
    for _ in range(3):
        with profiler.phase("step"):
            time.sleep(0.005)
        handed_out += profiler.deltas()[("step",)].blocked_ns or 0
    assert handed_out == finish().tree[("step",)].blocked_ns
    assert handed_out >= 13_500_000


def test_what_is_not_measured_is_none(run_dir: Path) -> None:
    for name, options in (
        ("off", {"wait_detail": False}),
        ("no_cpu", {"measure_cpu": False, "wait_detail": True}),
    ):
        with Profiler(run_dir / name, **options) as profiler, profiler.phase("a"):  # type: ignore[arg-type]
            time.sleep(0.002)
        node = merge_run(run_dir / name).tree[("a",)]
        assert node.blocked_ns is None
        assert node.preempted_ns is None
    shown = json.loads(report(run_dir / "off", "--json"))
    [phase] = shown["roles"][0]["phases"]
    for key in ("blocked_ns", "preempted_ns", "blocked_share", "preempted_share"):
        assert phase[key] is None
    assert "wait n%:" not in report(run_dir / "off")


def test_without_schedstat_only_what_can_be_told(child: Child, run_dir: Path) -> None:
    env = {"LINEPROFILER_CLOCK_WAIT": "switches"}
    child.run(PRELUDE + SHORT_OF_CORES, run_dir / "busy", env=env)
    node = merge_run(run_dir / "busy").tree[("search",)]
    assert node.blocked_ns is None
    assert node.wait_ns is not None
    assert node.preempted_ns is not None
    assert 0.5 * node.wait_ns < node.preempted_ns <= node.wait_ns
    child.run(PRELUDE + SLOW_QUEUE, run_dir / "queue", env=env)
    node = merge_run(run_dir / "queue").tree[("step", "queue_wait")]
    assert node.blocked_ns is None  # blocked, or waiting for a core after that: who knows


def test_tasks_are_billed_for_what_they_ran(profiler: Profiler, finish: Finish) -> None:
    async def polite() -> None:
        with profiler.phase("polite"):
            await asyncio.sleep(0.05)

    async def greedy() -> None:
        await asyncio.sleep(0)
        with profiler.phase("greedy"):
            time.sleep(0.02)  # blocks the thread, and with it the loop

    async def both() -> None:
        await asyncio.gather(polite(), greedy())

    with profiler.phase("loop"):
        asyncio.run(both())
    tree = finish().tree
    blocked, _, _ = assert_parts(tree[("greedy",)])
    assert blocked >= 18_000_000
    blocked, _, wait = assert_parts(tree[("polite",)])
    assert blocked < 18_000_000  # suspended, it waits for the loop: not for a core, nor in a call
    assert wait >= 45_000_000
    blocked, _, _ = assert_parts(tree[("loop",)])
    assert blocked >= 45_000_000  # the thread was


def test_an_exit_on_another_thread_is_not_measured(profiler: Profiler, finish: Finish) -> None:
    with profiler.phase("outer"):
        entry = profiler.phase("entry")
        entry.__enter__()
        time.sleep(0.01)
        with profiler.phase("inside"):
            pass
        thread = threading.Thread(target=entry.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
    node = finish().tree[("outer", "entry")]
    assert node.wait_ns is None
    assert node.blocked_ns is None


def test_a_queue_between_threads_of_one_process(profiler: Profiler, finish: Finish) -> None:
    items: queue.Queue[int] = queue.Queue()

    def drain() -> None:
        for _ in range(5):
            with profiler.phase("drain"):
                items.get()

    thread = threading.Thread(target=drain)
    thread.start()
    for i in range(5):
        time.sleep(0.01)
        items.put(i)
    thread.join()
    blocked, preempted, _ = assert_parts(finish().tree[("drain",)])
    assert blocked > preempted


def test_the_option_goes_along(run_dir: Path) -> None:
    with Profiler(run_dir, wait_detail=False) as profiler:
        copy = pickle.loads(pickle.dumps(profiler))
        assert copy is profiler
    started = accounting.start(run_dir / "started", wait_detail=False)
    with accounting.phase("a"):
        time.sleep(0.002)
    accounting.stop()
    assert started.worker is not None
    assert merge_run(run_dir / "started").tree[("a",)].blocked_ns is None
    with pytest.raises(TypeError):
        Profiler(run_dir, wait_detail=type("NoTruth", (), {"__bool__": lambda _: None})())

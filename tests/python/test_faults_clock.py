"""Clocks that are set, stand apart or begin anew: durations are right all the same."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import OWN_SHM, PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

HOUR_S = 3600

STEPPED = """
import ctypes
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
shim.faulty_set_clock.argtypes = [ctypes.c_int64]
run_dir, step = sys.argv[1], int(sys.argv[2])
before = time.time()
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
began = time.perf_counter_ns()
with profiler.phase("outer"):
    with profiler.phase("inner"):
        time.sleep(0.05)
        shim.faulty_set_clock(step)
        time.sleep(0.05)
        open_ns = profiler.merged_tree()[("outer", "inner")].open_wall_ns
    old = flush_of(profiler.path)
    wait_until(lambda: flush_of(profiler.path) > old + 2)
    live = merge_run(run_dir)
took = time.perf_counter_ns() - began
interval = profiler.deltas()[("outer",)].wall_ns
pid = os.fork()
if pid == 0:
    with profiler.phase("child"):
        pass
    profiler.close()
    os._exit(0)
os.waitpid(pid, 0)
profiler.close()
tell(took=took, open_ns=open_ns, interval=interval, live=live.tree[("outer",)].wall_ns,
     live_runtime=live.runtime_ns, before=before)
"""


@pytest.mark.parametrize("hours", [-1, 1, -400_000])
def test_the_wall_clock_is_set_CK01(
    child: Child, run_dir: Path, faulty_calls: str, hours: int
) -> None:
    step = hours * HOUR_S
    found = child.json(PRELUDE + STEPPED, run_dir, step, env={"LD_PRELOAD": faulty_calls})
    run = merge_run(run_dir)
    outer, inner = run.tree[("outer",)], run.tree[("outer", "inner")]
    assert 100_000_000 <= inner.wall_ns <= outer.wall_ns <= found["took"]
    assert 100_000_000 <= found["open_ns"] <= inner.wall_ns
    assert 100_000_000 <= found["live"] <= outer.wall_ns
    assert found["interval"] == outer.wall_ns
    assert inner.cpu_ns is not None
    assert inner.cpu_ns <= inner.wall_ns
    first = min(run.workers, key=lambda worker: worker.started_at)
    assert run.workers_of("main"), "nobody is lost"
    assert len(run.workers) == 2
    if hours == -1:
        # The stamps are what the clock said: the child began, by that, before its parent.
        assert first.started_at < found["before"] - HOUR_S / 2
    # The run lasted as long as it lasted, by a clock that nobody sets.
    assert run.runtime_ns < 60e9
    assert found["live_runtime"] < 60e9
    assert [caveat for caveat in run.caveats if caveat.kind not in ("clock", "host_clocks")] == []


ATTEMPT = """
import ctypes
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
shim.faulty_set_clock.argtypes = [ctypes.c_int64]
shim.faulty_set_clock(int(sys.argv[2]))
with Profiler(sys.argv[1], run_id=sys.argv[3]) as profiler, profiler.phase("a"):
    pass
"""


def test_the_newest_attempt_after_the_clock_was_set_back_CK01(
    child: Child, run_dir: Path, faulty_calls: str
) -> None:
    for step, run_id in ((0, "first"), (-HOUR_S, "second")):
        child.run(PRELUDE + ATTEMPT, run_dir, step, run_id, env={"LD_PRELOAD": faulty_calls})
    run = merge_run(run_dir)
    assert run.run_id == "second"
    assert [attempt.run_id for attempt in run.superseded] == ["first"]


OLD_FILES = """
run_dir = sys.argv[1]
profiler = Profiler(run_dir, snapshot_interval_s=None)
with profiler.phase("a"):
    profiler.snapshot()
    for file in Path(run_dir).rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a temporary one
            os.utime(file, (int(sys.argv[2]),) * 2)
    run = merge_run(run_dir)
    tell(live=run.live, caveats=[caveat.kind for caveat in run.caveats])
profiler.close()
"""


@pytest.mark.parametrize("ahead_s", [-HOUR_S, HOUR_S])
def test_what_a_file_server_says_of_time_counts_nothing_CK05(
    child: Child, run_dir: Path, ahead_s: int
) -> None:
    found = child.json(PRELUDE + OLD_FILES, run_dir, int(time.time()) + ahead_s)
    assert found == {"live": True, "caveats": []}
    for file in run_dir.rglob("*"):
        os.utime(file, (time.time() + ahead_s,) * 2)
    run = merge_run(run_dir)
    assert run.tree[("a",)].calls == 1
    assert run.caveats == []


FORKED = """
run_dir = sys.argv[1]

def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

profiler = Profiler(run_dir, snapshot_interval_s=None)
with profiler.phase("parent"):
    burn(0.3)
    assert time.process_time() >= 0.3
    pid = os.fork()
    if pid == 0:
        assert time.process_time() < 0.2, "the kernel's clocks begin anew"
        with profiler.phase("child"):
            burn(0.1)
        profiler.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
profiler.close()
"""


@pytest.mark.parametrize("way", ["", "plain", "bounded"])
def test_cpu_clocks_begin_anew_in_a_forked_child_CK07(
    child: Child, run_dir: Path, way: str
) -> None:
    child.run(PRELUDE + FORKED, run_dir, env={"LINEPROFILER_CLOCK_CPU": way} if way else {})
    tree = merge_run(run_dir).tree
    parent, forked = tree[("parent",)], tree[("child",)]
    assert parent.cpu_ns is not None
    assert forked.cpu_ns is not None
    between = 100_000  # the two clocks are read one after the other
    assert 300_000_000 - between <= parent.cpu_ns <= parent.wall_ns + between
    assert 100_000_000 - between <= forked.cpu_ns <= forked.wall_ns + between
    assert parent.calls == forked.calls == 1


APART = """
import subprocess
run_dir = sys.argv[1]
apart = sys.argv[2:]
tool = '''
import sys, time
from lineprofiler.accounting import Profiler
with Profiler(role="apart", snapshot_interval_s=0.05) as profiler, profiler.phase("apart"):
    print("open", flush=True)
    sys.stdin.readline()
'''
profiler = Profiler(run_dir, "here", snapshot_interval_s=0.05)
with profiler.phase("here"):
    process = subprocess.Popen([*apart, sys.executable, "-c", tool], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "open\\n"
    shm = f"/dev/shm/lineprofiler-{os.getuid()}"
    images = sorted(os.listdir(shm))
    assert len(images) == 2, images
    old = flush_of(profiler.path)
    wait_until(lambda: flush_of(profiler.path) > old + 3)
    live = merge_run(run_dir)
    assert sorted(os.listdir(shm)) == images, "an image was taken from its owner"
    process.communicate("go on\\n")
    assert process.returncode == 0
profiler.close()
tell(live=facts(live), live_ns=live.tree[("apart",)].wall_ns, live_runtime=live.runtime_ns)
"""


@pytest.mark.parametrize(
    "clocks",
    [
        ["--monotonic=1000000000"],
        ["--boottime=1000000000"],
        ["--monotonic=86400", "--boottime=86400"],
    ],
)
def test_monotonic_clocks_that_are_far_apart_CK03(
    child: Child, run_dir: Path, clocks: list[str]
) -> None:
    """As on two machines, or in containers with clocks of their own: here with one boot id."""
    apart = ("unshare", "--time", "--fork", *clocks)
    within("true", apart)
    found = child.json(PRELUDE + APART, run_dir, *apart, within=within(OWN_SHM))
    run = merge_run(run_dir)
    assert {path[0]: node.calls for path, node in run.tree.items()} == {"here": 1, "apart": 1}
    assert len(run.workers) == 2
    assert all(worker.closed for worker in run.workers)
    assert run.runtime_ns < 60e9
    assert run.tree[("apart",)].wall_ns < 60e9
    early, late = run.workers_of("here")[0], run.workers_of("apart")[0]
    assert early.started_at < late.started_at
    assert found["live"]["open"] == {"here": 1, "apart": 1}
    assert found["live_ns"] < 60e9
    assert found["live_runtime"] < 60e9
    [caveat] = [caveat for caveat in run.caveats if caveat.kind == "host_clocks"]
    assert "several time namespaces" in caveat.text

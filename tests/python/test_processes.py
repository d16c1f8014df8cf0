"""Several processes, one run (E3, F1, F3, F9)."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

JOIN = """
import multiprocessing, os, sys
from lineprofiler.accounting import Profiler

def work(i):
    os.mkdir(f"own{i}")
    os.chdir(f"own{i}")
    with Profiler(role="actor", snapshot_interval_s=None) as profiler:
        with profiler.phase("iteration"), profiler.phase("mcts"):
            profiler.count("games", i)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with Profiler(enabled=True, role="learner", snapshot_interval_s=0.05) as profiler:
        with profiler.phase("all"):
            children = [context.Process(target=work, args=(i,)) for i in range(int(sys.argv[2]))]
            for child in children:
                child.start()
            for child in children:
                child.join()
        assert [child.exitcode for child in children] == [0] * len(children)
"""


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore")
def test_children_join_through_the_environment_E3_F9(child: Child, method: str, n: int) -> None:
    child.run(JOIN, method, n, options=("-W", "ignore"))
    run = merge_run(child.folder / "profile")
    assert list(run.roles) == ["actor", "learner"]
    assert len(run.workers_of("actor")) == n
    assert len({worker.name for worker in run.workers}) == n + 1
    assert {worker.run_id for worker in run.workers} == {run.run_id}
    actor = run.tree_of("actor")
    assert actor[("iteration", "mcts")].calls == n
    assert actor[("iteration", "mcts")].counters == {"games": n * (n - 1) // 2}
    assert actor[("iteration", "mcts")].workers == n
    assert run.tree_of("learner")[("all",)].calls == 1
    assert all(worker.closed for worker in run.workers)
    assert not run.superseded
    assert not run.unreadable
    assert {caveat.kind for caveat in run.caveats} <= {"dropped"}


START_TOGETHER = """
import os, sys
from lineprofiler.accounting import Profiler
os.read(0, 1)
with Profiler(sys.argv[1], "rank", run_id=sys.argv[2]) as profiler, profiler.phase("a"):
    pass
"""


def test_many_start_at_once_F3(child: Child, run_dir: Path) -> None:
    read, write = os.pipe()
    script = child.folder / "main.py"
    script.write_text(START_TOGETHER)
    import subprocess
    import sys

    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(run_dir), ("one", "two")[i % 2]],
            stdin=read,
            env={**os.environ, "SLURM_PROCID": str(i)},
        )
        for i in range(16)
    ]
    os.close(read)
    os.write(write, b"x" * 16)
    assert [rank.wait(120) for rank in ranks] == [0] * 16
    os.close(write)
    document = json.loads((run_dir / "metadata.json").read_text())
    assert sorted(document["runs"]) == ["one", "two"]
    assert not list(run_dir.glob("*.lock"))
    run = merge_run(run_dir)
    [superseded] = run.superseded
    assert len(run.workers) == superseded.workers == 8
    assert run.metadata == document
    assert {worker.rank for worker in run.workers} in (set(range(0, 16, 2)), set(range(1, 16, 2)))


def test_a_child_about_to_exec_leaves_no_trace_F9(child: Child, run_dir: Path) -> None:
    code = """
import os, subprocess, sys
from lineprofiler import accounting
accounting.start(sys.argv[1])
with accounting.phase("a"):
    subprocess.run(["true"], check=True)
    subprocess.run(["true"], check=True, preexec_fn=lambda: None)
    os.system("true")
    os.posix_spawn("/bin/true", ["true"], os.environ)
    os.wait()
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert run.tree[("a",)].calls == 1


def test_a_forked_child_ignores_what_was_open_F9(child: Child, run_dir: Path) -> None:
    code = """
import os, sys
from lineprofiler import accounting
profiler = accounting.start(sys.argv[1])
handle = profiler.phase("handle")
with accounting.phase("open"), handle:
    pid = os.fork()
    if pid == 0:
        assert accounting.current() == ""
    with handle:
        accounting.count("n")
        inside = accounting.current()
if pid == 0:
    assert inside == "handle", inside
    assert accounting.current() == ""
    sys.exit(0)
assert inside == "open/handle/handle"
assert os.waitpid(pid, 0)[1] == 0
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert {path: node.calls for path, node in run.tree.items()} == {
        ("open",): 1,
        ("open", "handle"): 1,
        ("open", "handle", "handle"): 1,
        ("handle",): 1,
    }


def test_a_forked_child_takes_a_role_of_its_own_F9(child: Child, run_dir: Path) -> None:
    code = """
import os, sys, warnings
from lineprofiler import accounting
from lineprofiler.accounting import Profiler
warnings.simplefilter("error")
parent = accounting.start(sys.argv[1], "learner")
for make in (lambda: Profiler(role="actor", install=True), lambda: accounting.start(None, "actor")):
    pid = os.fork()
    if pid == 0:
        with make() as own:
            assert accounting.installed_profiler() is own
            with accounting.phase("play"):
                pass
        assert accounting.installed_profiler() is None
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
assert accounting.installed_profiler() is parent
with accounting.phase("learn"):
    pass
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert {caveat.kind for caveat in run.caveats} <= {"dropped"}
    assert [len(run.workers_of(role)) for role in ("actor", "learner")] == [2, 1]
    assert run.tree_of("actor")[("play",)].calls == 2
    assert list(run.tree_of("learner")) == [("learn",)]


def test_200_forks_beside_a_recording_thread_F9(child: Child, run_dir: Path) -> None:
    code = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
from lineprofiler import accounting
accounting.start(sys.argv[1], snapshot_interval_s=0.01)
stop = threading.Event()
def record():
    i = 0
    while not stop.is_set():
        with accounting.phase(f"p{i % 50}"):
            accounting.count(f"c{i % 7}")
        i += 1
thread = threading.Thread(target=record)
thread.start()
for i in range(200):
    pid = os.fork()
    if pid == 0:
        with accounting.phase("child"):
            accounting.count("n")
        accounting.stop()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
thread.join()
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 201
    assert run.tree[("child",)].calls == 200
    assert run.tree[("child",)].counters == {"n": 200}
    assert all(worker.closed for worker in run.workers)


def test_closed_is_final_across_a_fork_E7(child: Child, run_dir: Path) -> None:
    code = """
import os, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1])
handle = profiler.phase("a")
with handle:
    pass
profiler.close()
pid = os.fork()
with handle, profiler.phase("after"):
    profiler.count("n")
assert profiler.current() == ""
profiler.close()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert list(run.tree) == [("a",)]
    assert run.tree.root.counters == {}


def test_a_child_whose_only_thread_returns_F9(child: Child, run_dir: Path) -> None:
    """As one that a thread has forked: it ends with that, though it has a thread of ours."""
    code = """
import os, sys, threading
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], sample_interval_s=0.05)

def fork():
    pid = os.fork()
    with profiler.phase("child" if pid == 0 else "parent"):
        pass
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        ended.append(pid)

ended = []
thread = threading.Thread(target=fork)
thread.start()
thread.join()
assert ended
profiler.close()
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert {path: node.calls for path, node in run.tree.items()} == {("child",): 1, ("parent",): 1}


def test_a_fork_before_the_first_phase_F9(child: Child, run_dir: Path) -> None:
    code = """
import os, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1])
worker = profiler.worker
for silent in (True, False):
    pid = os.fork()
    if pid == 0:
        assert profiler.document() is None
        profiler.snapshot()
        if not silent:
            with profiler.phase("a"):
                pass
            assert profiler.worker != worker
            assert profiler.document() is not None
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 2
    assert run.tree[("a",)].calls == 1

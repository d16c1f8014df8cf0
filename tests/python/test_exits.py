"""What a process recorded is complete however it ends in Python's own ways (E7, EX02)."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

# None of them closes its profiler.
START = """
import atexit, os, sys, threading
from lineprofiler import accounting
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1])
with profiler.phase("a"):
    pass
"""

ENDS = {
    "at the end": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "sys.exit in a phase": ("with profiler.phase('open'): sys.exit(3)", 3),
    "an exception": ("1 / 0", 1),
    "an exception in a phase": ("with profiler.phase('open'): 1 / 0", 1),
    "an interrupt": ("raise KeyboardInterrupt", None),
    "no reference left": ("del profiler", 0),
    "a cycle": ("x = [profiler]; x.append(x); del profiler, x", 0),
    "a thread still counting": (
        "t = threading.Thread(target=lambda: [profiler.count('n') for i in range(100000)]);"
        " t.start()",
        0,
    ),
    "a daemon thread for ever": (
        """
ready = threading.Event()
def forever():
    while True:
        with profiler.phase("daemon"):
            ready.set()
t = threading.Thread(target=forever, daemon=True)
t.start()
ready.wait()
""",
        0,
    ),
    "an atexit function": (
        """
def last():
    with profiler.phase("last"):
        pass
atexit.register(last)
""",
        0,
    ),
    "close in an atexit function": ("atexit.register(profiler.close)", 0),
    "installed": ("accounting.start(sys.argv[1] + '2'); profiler.close()", 0),
    "a suspended generator": (
        """
def generator():
    with profiler.phase("suspended"):
        yield
g = generator()
next(g)
""",
        0,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_ends_of_a_process_E7(child: Child, run_dir: Path, end: str) -> None:
    code, status = ENDS[end]
    done = child.run(START + code, run_dir, status=status)
    run = merge_run(run_dir)
    [worker] = run.workers
    assert worker.closed
    assert worker.source == "file"
    assert run.tree[("a",)].calls == 1
    if "in a phase" in end:
        assert run.tree[("open",)].calls == 1
    if end == "an atexit function":
        assert run.tree[("last",)].calls == 1
    if end == "a thread still counting":
        assert run.tree.root.counters == {"n": 100_000}
    assert "lineprofiler" not in done.stderr or end.startswith("an exception")
    assert not list(run_dir.glob("workers/*/*.tmp"))


MULTIPROCESSING = """
import multiprocessing, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(how, run_dir):
    if how == "own":
        profiler = Profiler(run_dir, "child", enabled=True)
    elif how == "module":
        profiler = at_import
    else:
        profiler = accounting.installed_profiler()
    with profiler.phase("in the child"):
        profiler.count("n", 7)
    if how.endswith("raise"):
        raise ValueError("on purpose")
    if how.endswith("exit"):
        sys.exit(5)

if __name__ == "__mp_main__" and sys.argv[3:] == ["module"]:
    at_import = Profiler(sys.argv[1], "child")

if __name__ == "__main__":
    run_dir, method, *hows = sys.argv[1:]
    multiprocessing.set_start_method(method)
    if hows[0].startswith("inherited"):
        accounting.start(run_dir, "parent")
        with accounting.phase("in the parent"):
            pass
    children = [multiprocessing.Process(target=work, args=(how, run_dir)) for how in hows]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children])
"""


def children(run: Run) -> int:
    assert all(worker.closed for worker in run.workers)
    assert not run.unreadable
    node = run.tree[("in the child",)]
    assert node.counters == {"n": 7 * node.calls}
    return node.calls


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_children_of_multiprocessing_E7_EX02(child: Child, run_dir: Path, method: str) -> None:
    child.run(
        MULTIPROCESSING, run_dir, method, "own", "own", "own", env={"LINEPROFILER_RUN_ID": "one"}
    )
    run = merge_run(run_dir)
    assert len(run.workers) == 3
    assert children(run) == 3


def test_forked_children_inherit_the_profiler_E7_EX02(child: Child, run_dir: Path) -> None:
    hows = ("inherited", "inherited raise", "inherited exit")
    done = child.run(MULTIPROCESSING, run_dir, "fork", *hows)
    assert done.stdout.strip() == "[0, 1, 5]"
    run = merge_run(run_dir)
    assert len(run.workers) == 4
    assert children(run) == 3
    assert run.tree[("in the parent",)].calls == 1


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_profiler_made_while_the_main_module_is_imported_E7(
    child: Child, run_dir: Path, method: str
) -> None:
    # Before multiprocessing forgets the finalizers of before.
    child.run(MULTIPROCESSING, run_dir, method, "module", env={"LINEPROFILER_RUN_ID": "one"})
    assert children(merge_run(run_dir)) == 1


def test_multiprocessing_loaded_after_the_profiler_E7(child: Child, run_dir: Path) -> None:
    code = """
import sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1])
assert "multiprocessing" not in sys.modules
import multiprocessing

def work():
    with profiler.phase("in the child"):
        profiler.count("n", 7)
    if sys.argv[2] == "grandchild":
        sys.argv[2] = ""
        grandchild = multiprocessing.Process(target=work)
        grandchild.start()
        grandchild.join()

multiprocessing.set_start_method("fork")
for _ in range(2):
    child = multiprocessing.Process(target=work)
    child.start()
    child.join()
"""
    child.run(code, run_dir, "")
    assert children(merge_run(run_dir)) == 2
    child.run(code, run_dir, "grandchild")
    run = merge_run(run_dir)
    assert children(run) == 4
    # The parent recorded nothing, and says so by a file of its own.
    assert len(run.workers) == 5


def test_a_pool_E7(child: Child, run_dir: Path) -> None:
    code = """
import multiprocessing, sys
from lineprofiler import accounting

def work(i):
    with accounting.phase("in the child"):
        accounting.count("n", 7)

if __name__ == "__main__":
    accounting.start(sys.argv[1])
    multiprocessing.set_start_method("fork")
    pool = multiprocessing.Pool(2)
    pool.map(work, range(40), chunksize=1)
    pool.close()
    pool.join()
"""
    child.run(code, run_dir)
    assert children(merge_run(run_dir)) == 40


def test_a_queue_is_recorded_to_its_end_E7(child: Child, run_dir: Path) -> None:
    code = """
import multiprocessing, sys, threading
from lineprofiler import accounting

class Noted:
    def __reduce__(self):
        with accounting.phase("in the child"):
            accounting.count("n", 7)
        return Noted, ()

def work(queue):
    for i in range(20):
        queue.put(Noted())

if __name__ == "__main__":
    accounting.start(sys.argv[1])
    multiprocessing.set_start_method("fork")
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=work, args=(queue,))
    child.start()
    for i in range(20):
        queue.get()
    child.join()
"""
    child.run(code, run_dir)
    assert children(merge_run(run_dir)) == 20


def test_hooks_are_given_back(child: Child, run_dir: Path) -> None:
    code = """
import atexit, multiprocessing.util, sys
from lineprofiler import _exits
from lineprofiler.accounting import Profiler
before = dict(multiprocessing.util._finalizer_registry)
profilers = [Profiler(sys.argv[1] + str(i)) for i in range(3)]
for profiler in profilers:
    profiler.close()
assert dict(multiprocessing.util._finalizer_registry) == before
assert _exits.watched() == []
called = []
_exits.watched = lambda: called.append(1) or []
atexit._run_exitfuncs()
assert not called
"""
    child.run(code, run_dir)


def test_fork_does_not_warn_of_threads(child: Child, run_dir: Path) -> None:
    code = """
import os, sys, warnings
from lineprofiler import accounting
accounting.start(sys.argv[1], snapshot_interval_s=0.01)
for i in range(20):
    with accounting.phase("a"):
        pass
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""
    done = child.run(code, run_dir, options=("-W", "error"))
    assert done.stderr == ""
    run = merge_run(run_dir)
    assert run.tree[("a",)].calls == 20
    assert len(run.workers) == 1


def test_use_while_the_interpreter_is_taken_apart(child: Child, run_dir: Path) -> None:
    code = """
import sys
from lineprofiler import _core, accounting
from lineprofiler.accounting import Profiler

class Late:
    def __init__(self, *things):
        self.things = things
    def __del__(self):
        for phase, count in self.things:
            for name in ("late", "later"):
                try:
                    with phase(name), phase(name, io=True):
                        count(name)
                        count(name, n=2)
                except RuntimeError:
                    pass

profiler = Profiler(sys.argv[1])
off = Profiler(enabled=False)
late = Late(
    (profiler.phase, profiler.count), (off.phase, off.count), (_core.phase, _core.count)
)
late.cycle = late
sys.late = late
sys.kept = profiler.phase("kept"), off.phase("kept"), profiler.phase("entered").__enter__()
"""
    done = child.run(code, run_dir)
    assert done.stderr == ""
    assert merge_run(run_dir).workers[0].closed

"""@on_snapshot: called by the thread that flushes, and never in anybody's way (I1, I2, O6)."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler.accounting import Profiler, Tree, merge_run

if TYPE_CHECKING:
    from conftest import Child

Wait = Callable[[Callable[[], bool]], None]

START = """
import atexit, json, os, sys, threading
from lineprofiler.accounting import Profiler
run_dir = sys.argv[1]
profiler = Profiler(run_dir, snapshot_interval_s=0.01, sample_interval_s=None)
entered = threading.Event()
"""


@pytest.fixture
def flushing(run_dir: Path) -> Any:
    with Profiler(run_dir, snapshot_interval_s=0.01, sample_interval_s=None) as made:
        yield made


# ---- when they are called -------------------------------------------------------


def test_they_are_called_with_the_tree_so_far_I1_I2(flushing: Profiler, wait_until: Wait) -> None:
    trees: list[Tree] = []
    names: set[str] = set()

    @flushing.on_snapshot
    def keep(tree: Tree) -> None:
        names.add(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text())
        trees.append(tree)

    others: list[Tree] = []
    assert flushing.on_snapshot(others.append) is not None
    assert callable(keep), "the decorator returns the function"
    with flushing.phase("a"):
        wait_until(lambda: len(others) >= 3)
    seen = len(trees)
    wait_until(lambda: len(trees) > seen + 1)
    assert type(trees[0]) is Tree
    assert trees[0][("a",)].open_calls == 1
    assert trees[-1][("a",)].calls == 1
    assert names == {"lp-keeper\n"}


def test_never_from_snapshot_or_close_I2(run_dir: Path) -> None:
    calls: list[Tree] = []
    profiler = Profiler(run_dir, snapshot_interval_s=1000, sample_interval_s=None)
    # The first flush comes a second after the first phase: none here.
    profiler.on_snapshot(calls.append)
    profiler.snapshot()
    profiler.close()
    assert calls == []
    with Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        profiler.on_snapshot(calls.append)
        with profiler.phase("a"):
            profiler.snapshot()
    assert calls == []


def test_deltas_in_them_miss_nothing_and_repeat_nothing_I1(
    flushing: Profiler, wait_until: Wait
) -> None:
    calls: list[int] = []

    @flushing.on_snapshot
    def export(_tree: Tree) -> None:
        calls.extend(stats.calls for stats in flushing.deltas().values())

    for _ in range(500):
        with flushing.phase("a"):
            pass
    wait_until(lambda: sum(calls) == 500)


def test_what_cannot_be_called_is_refused_I1(run_dir: Path) -> None:
    for enabled in (True, False):
        profiler = Profiler(run_dir, enabled=enabled)
        with pytest.raises(TypeError, match="on_snapshot takes a function to call, not int"):
            profiler.on_snapshot(3)  # type: ignore[type-var]
        profiler.close()


def test_a_profiler_that_is_off_takes_them_and_never_calls_them(run_dir: Path) -> None:
    calls: list[Tree] = []
    threads = threading.active_count()
    with Profiler(run_dir, enabled=False, snapshot_interval_s=0.001) as off:

        @off.on_snapshot
        def keep(tree: Tree) -> None:
            calls.append(tree)

        with off.phase("a"):
            assert off.callback_error is None
    off.on_snapshot(keep)
    assert calls == []
    assert threads == threading.active_count()


# ---- those that fail --------------------------------------------------------------


def test_one_that_raises_is_counted_and_the_timer_goes_on_I2(child: Child, run_dir: Path) -> None:
    code = (
        START
        + """
calls = []
@profiler.on_snapshot
def broken(tree):
    calls.append(1)
    if len(calls) == 3:
        entered.set()
    if len(calls) == 2:
        sys.exit(7)
    raise ConnectionError("no such host")
@profiler.on_snapshot
def sound(tree):
    calls_of_sound.append(tree)
calls_of_sound = []
with profiler.phase("a"):
    entered.wait()
error = profiler.callback_error
profiler.close()
print(json.dumps([len(calls), len(calls_of_sound), error]))
"""
    )
    done = child.run(code, run_dir)
    assert done.stderr == ""
    failed, sound, error = child.json(code, run_dir.with_name("again"))
    assert failed >= 3
    assert sound >= failed - 1
    assert error == "ConnectionError: no such host"
    run = merge_run(run_dir.with_name("again"))
    assert run.workers[0].troubles == {"failed_callbacks": failed}
    [caveat] = run.caveats
    assert caveat.kind == "failed_callbacks"
    assert caveat.text.startswith(f"{failed} calls of on_snapshot functions raised")


def test_an_exception_without_a_text_is_counted_too(flushing: Profiler, wait_until: Wait) -> None:
    class AwkwardError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @flushing.on_snapshot
    def broken(_tree: Tree) -> None:
        raise AwkwardError

    with flushing.phase("a"):
        wait_until(lambda: flushing.callback_error is not None)
    assert flushing.callback_error == "AwkwardError"


def test_an_unwritable_file_does_not_stop_them(flushing: Profiler, wait_until: Wait) -> None:
    calls: list[Tree] = []
    folder = Path(str(flushing.path)).parent
    folder.rmdir()
    folder.symlink_to("/nowhere/at/all")
    flushing.on_snapshot(calls.append)
    with flushing.phase("a"):
        wait_until(lambda: len(calls) >= 2)
    folder.unlink()


# ---- what they may do ---------------------------------------------------------------

DEEDS = {
    "close": "profiler.close()",
    "snapshot": "profiler.snapshot()",
    "deltas": "profiler.deltas(); profiler.merged_tree()",
    "phases": "\n".join(
        ["for _ in range(3):", "    with profiler.phase('export'): profiler.count('n')"]
    ),
    "threads": "t = threading.Thread(target=profiler.snapshot); t.start(); t.join()",
    "another profiler": "Profiler(run_dir + '2').close()",
    "collection": "import gc; gc.collect()",
    "more callbacks": "profiler.on_snapshot(lambda tree: None)",
    "deep calls": "import json; json.loads('[' * 900 + ']' * 900)",
    "a new process": """
import subprocess
status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
assert int(status.split("SigBlk:")[1].split()[0], 16) == 0, status
""",
}


@pytest.mark.parametrize("deed", DEEDS)
def test_what_they_do_does_not_get_in_the_way_I2(child: Child, run_dir: Path, deed: str) -> None:
    code = f"""
import threading
{START}
done = threading.Event()
def watch():
    import weakref
    reference = weakref.ref(profiler)
    def act(tree):
        if done.is_set():
            return
        try:
            profiler = reference()
            {DEEDS[deed].strip().replace(chr(10), chr(10) + " " * 12)}
        except BaseException as failure:
            print(repr(failure))
        finally:
            done.set()
    return act
profiler.on_snapshot(watch())
with profiler.phase("a"):
    pass
assert done.wait(60)
"""
    done = child.run(code, run_dir)
    assert (done.stdout, done.stderr) == ("", "")
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("a",)].calls == 1
    assert "failed_callbacks" not in run.workers[0].troubles
    if deed == "phases":
        assert run.tree[("export",)].calls == 3


def test_collected_on_the_thread_that_flushes_E8(child: Child, run_dir: Path) -> None:
    """The last reference goes in the callback: the profiler closes on its own thread."""
    code = (
        START
        + """
holder, gone = [profiler], threading.Event()
import weakref
weakref.finalize(profiler, gone.set)
@profiler.on_snapshot
def last(tree):
    entered.wait()
    holder.clear()
with profiler.phase("a"):
    pass
del profiler
entered.set()
assert gone.wait(60)
"""
    )
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("a",)].calls == 1


def test_a_callback_that_holds_its_profiler_is_no_leak_E8(run_dir: Path, wait_until: Wait) -> None:
    profiler = Profiler(run_dir, snapshot_interval_s=0.01, sample_interval_s=None)
    calls: list[Tree] = []

    def register(held: Profiler) -> None:
        @held.on_snapshot
        def export(_tree: Tree) -> None:
            calls.append(held.deltas())

    register(profiler)
    with profiler.phase("a"):
        wait_until(lambda: len(calls) > 2)
    gone = weakref.ref(profiler)
    del profiler

    def collected() -> bool:
        gc.collect()
        return gone() is None

    wait_until(collected)
    seen = len(calls)
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("a",)].calls == 1
    assert len(calls) == seen


# ---- the end of the process -----------------------------------------------------------


def test_the_exit_waits_for_one_that_runs_I2(child: Child, run_dir: Path) -> None:
    code = (
        START
        + """
@profiler.on_snapshot
def slow(tree):
    entered.set()
    while not profiler.closed: # closing has begun, at exit
        pass
    with open(run_dir + "/done", "x") as file:
        file.write(json.dumps(list(map("/".join, tree))))
with profiler.phase("a"):
    pass
entered.wait()
"""
    )
    done = child.run(code, run_dir)
    assert done.stderr == ""
    assert (run_dir / "done").read_text() == '["a"]', "finished, and never begun again"
    assert merge_run(run_dir).workers[0].closed


@pytest.mark.parametrize("how", ["threading.Event().wait()", "while True: pass"])
def test_one_that_never_returns_does_not_hold_the_exit_up_I2(
    child: Child, run_dir: Path, how: str
) -> None:
    code = (
        START
        + f"""
@profiler.on_snapshot
def hang(tree):
    entered.set()
    {how}
with profiler.phase("a"):
    pass
entered.wait()
with profiler.phase("b"):
    pass
"""
    )
    done = child.run(code, run_dir)
    assert done.stderr == ""
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("b",)].calls == 1


def test_none_begins_once_closing_has_begun_I2(child: Child, run_dir: Path) -> None:
    code = (
        START
        + """
begun = []
@profiler.on_snapshot
def first(tree):
    entered.set()
    while not profiler.closed:
        pass
    begun.append(1)
@profiler.on_snapshot
def second(tree):
    begun.append(2)
with profiler.phase("a"):
    pass
entered.wait()
profiler.close()
print(json.dumps(begun))
"""
    )
    assert child.json(code, run_dir) == [1]


def test_many_ends_at_any_moment_I2(child: Child, run_dir: Path) -> None:
    """The interpreter ends while a call is about to begin, runs, or has just ended."""
    code = """
import sys, threading
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], snapshot_interval_s=0.001, sample_interval_s=None)
profiler.on_snapshot(lambda tree: profiler.deltas())
with profiler.phase("a"):
    threading.Event().wait(0.002 * int(sys.argv[2]))
"""
    for i in range(12):
        done = child.run(code, run_dir / str(i), i)
        assert (done.stdout, done.stderr) == ("", "")
        run = merge_run(run_dir / str(i))
        assert run.workers[0].closed
        assert run.tree[("a",)].calls == 1


# ---- forks ------------------------------------------------------------------------------


def test_a_fork_in_a_callback_I2(child: Child, run_dir: Path) -> None:
    code = (
        START
        + """
children = []
@profiler.on_snapshot
def fork(tree):
    if children:
        if len(children) == 1:
            children.append(os.waitpid(children[0], 0)[1])
            entered.set()
        return
    pid = os.fork()
    if pid == 0:
        with profiler.phase("in the child"):
            pass
        profiler.close()
        os._exit(5)
    children.append(pid)
while not entered.is_set():
    with profiler.phase("a"):
        pass
profiler.close()
print(json.dumps(os.waitstatus_to_exitcode(children[1])))
"""
    )
    assert child.json(code, run_dir) == 5
    run = merge_run(run_dir)
    assert len(run.workers) == 2
    assert all(worker.closed for worker in run.workers)
    assert run.tree[("in the child",)].calls == 1


def test_a_child_forked_in_a_callback_may_return_from_it(child: Child, run_dir: Path) -> None:
    """As from any function of a thread: the child's only thread ends, and with it the child."""
    code = (
        START
        + """
@profiler.on_snapshot
def fork(tree):
    global pid
    if not entered.is_set():
        pid = os.fork()
        if pid:
            entered.set()
pid = None
with profiler.phase("a"):
    entered.wait()
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
"""
    )
    assert child.json(code, run_dir) == 0


BUSY = """
@profiler.on_snapshot
def busy(tree):
    pids.add(os.getpid())
    entered.set()
    if os.getpid() == parent:
        sum(range(2_000_000))  # with the GIL, again and again
parent, pids = os.getpid(), set()
with profiler.phase("a"):
    pass
entered.wait()
"""


def test_a_fork_while_one_runs_I2(child: Child, run_dir: Path) -> None:
    code = (
        START
        + BUSY
        + """
pid = os.fork()
if pid == 0:
    entered.clear()
    with profiler.phase("in the child"):
        entered.wait()  # its own thread calls what was registered in the parent
    assert os.getpid() in pids
    profiler.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
entered.clear()
with profiler.phase("b"):  # the thread is back
    entered.wait()
"""
    )
    # A thread that is left running across the fork would be warned of.
    done = child.run(code, run_dir, options=("-W", "error::DeprecationWarning"))
    assert done.stderr == ""
    run = merge_run(run_dir)
    assert [worker.closed for worker in run.workers] == [True, True]
    assert run.tree[("in the child",)].calls == 1


def test_a_fork_is_not_held_up_by_one_that_hangs_I2(child: Child, run_dir: Path) -> None:
    code = (
        START
        + """
@profiler.on_snapshot
def hang(tree):
    entered.set()
    release.wait()
release = threading.Event()
with profiler.phase("a"):
    pass
entered.wait()
pid = os.fork()
if pid == 0:
    with profiler.phase("in the child"):
        pass
    release.set()
    profiler.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
release.set()
"""
    )
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert [worker.closed for worker in run.workers] == [True, True]
    assert run.tree[("in the child",)].calls == 1


# ---- interpreters -------------------------------------------------------------------------


def test_in_a_subinterpreter(child: Child, run_dir: Path) -> None:
    code = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
inside = '''
import sys, threading
from lineprofiler.accounting import Profiler
profiler = Profiler(RUN_DIR, snapshot_interval_s=0.01, sample_interval_s=None)
called = threading.Event()
@profiler.on_snapshot
def call(tree):
    assert tree[("a",)].open_calls == 1
    assert sys.modules["__main__"].profiler is profiler
    called.set()
with profiler.phase("a"):
    assert called.wait(60)
profiler.close()
assert profiler.callback_error is None, profiler.callback_error
'''
made = interpreters.create()
failed = interpreters.run_string(made, inside.replace("RUN_DIR", repr(sys.argv[1])))
assert not failed, failed
interpreters.destroy(made)
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("a",)].calls == 1


def test_without_callbacks_the_gil_is_never_asked_for_O6(child: Child, run_dir: Path) -> None:
    """Also where there could be some: only what is registered makes the thread enter Python."""
    code = (
        START
        + """
def flushes():
    return json.loads(profiler.document())["flush"]
sys.setswitchinterval(1000)
with profiler.phase("a"):
    seen = 0
    while seen < 3:
        before = flushes()
        sum(range(10_000_000))  # one call, which keeps the GIL
        seen = flushes() - before
"""
    )
    child.run(code, run_dir)
    assert merge_run(run_dir).workers[0].flush > 3

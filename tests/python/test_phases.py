"""Phases: paths, exceptions, recursion, threads, folding, kept handles (B1 to B7, B11)."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler import _core
from lineprofiler.accounting import Profiler, Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

Finish = Callable[[], Run]


def calls(run: Run) -> dict[tuple[str, ...], int]:
    return {path: node.calls for path, node in run.tree.items()}


def test_phases_nest_by_path_and_siblings_accumulate_B1(profiler: Profiler, finish: Finish) -> None:
    for _ in range(3):
        with profiler.phase("iteration"):
            for _ in range(2):
                with profiler.phase("mcts"):
                    pass
            with profiler.phase("learn"), profiler.phase("mcts"):
                pass
    assert calls(finish()) == {
        ("iteration",): 3,
        ("iteration", "learn"): 3,
        ("iteration", "learn", "mcts"): 3,
        ("iteration", "mcts"): 6,
    }


def test_a_node_keeps_its_figures_B2(profiler: Profiler, finish: Finish) -> None:
    with profiler.phase("outer"), profiler.phase("inner"):
        time.sleep(0.002)
        profiler.count("items", 3)
    tree = finish().tree
    outer, inner = tree[("outer",)], tree[("outer", "inner")]
    assert outer.child_wall_ns == inner.wall_ns >= 2_000_000
    assert outer.self_ns == outer.wall_ns - inner.wall_ns
    assert inner.cpu_ns is not None
    assert inner.wait_ns == inner.wall_ns - inner.cpu_ns
    assert inner.hist.total == 1
    assert inner.counters == {"items": 3}
    # The one duration lies in its bucket.
    [bucket] = inner.hist.buckets
    assert bucket.begin_ns <= inner.wall_ns < bucket.begin_ns + bucket.width_ns
    assert bucket.width_ns <= inner.wall_ns / 8
    for q in (0, 0.5, 1):
        assert bucket.begin_ns <= inner.hist.quantile(q) < bucket.begin_ns + bucket.width_ns


def test_an_exception_closes_the_phase_and_goes_on_B3(profiler: Profiler, finish: Finish) -> None:
    with (
        pytest.raises(KeyError, match="in the body"),
        profiler.phase("a"),
        profiler.phase("b"),
    ):
        raise KeyError("in the body")
    with pytest.raises(SystemExit), profiler.phase("a"):
        sys.exit(3)
    with contextlib.suppress(GeneratorExit), profiler.phase("a"):
        raise GeneratorExit
    assert profiler.current() == ""
    assert calls(finish()) == {("a",): 3, ("a", "b"): 1}


def test_recursion_makes_a_deeper_path_B4(profiler: Profiler, finish: Finish) -> None:
    def descend(depth: int) -> None:
        with profiler.phase("f"):
            if depth > 1:
                descend(depth - 1)

    descend(4)
    descend(2)
    tree = finish().tree
    assert {len(path): node.calls for path, node in tree.items()} == {1: 2, 2: 2, 3: 1, 4: 1}
    assert all(set(path) == {"f"} for path in tree)
    for depth in (1, 2, 3):
        assert tree[("f",) * depth].child_wall_ns == tree[("f",) * (depth + 1)].wall_ns
    assert sum(node.self_ns for node in tree.values()) == tree[("f",)].wall_ns


def test_threads_do_not_interfere_B5(profiler: Profiler, finish: Finish) -> None:
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        for _ in range(50):
            with profiler.phase(name):
                barrier.wait()
                assert profiler.current() == name
                with profiler.phase("inner"):
                    barrier.wait()
                    assert profiler.current() == f"{name}/inner"
                    profiler.count(name)

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run = finish()
    assert calls(run) == {path: 50 for i in range(4) for path in ((f"t{i}",), (f"t{i}", "inner"))}
    for i in range(4):
        assert run.tree[(f"t{i}", "inner")].counters == {f"t{i}": 50}


def test_a_thread_that_ends_leaves_its_place_B5(profiler: Profiler, finish: Finish) -> None:
    def work() -> None:
        with profiler.phase("work"):
            pass

    for _ in range(300):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    run = finish()
    assert run.tree[("work",)].calls == 300
    assert run.workers[0].threads < 30  # the next one may begin before the last has quite gone


def test_a_thread_that_python_did_not_start(profiler: Profiler, finish: Finish) -> None:
    import _thread

    done = threading.Event()

    def work() -> None:
        with profiler.phase("foreign"):
            pass
        done.set()

    before = set(threading.enumerate())
    _thread.start_new_thread(work, ())
    assert done.wait(60)
    assert not [t for t in threading.enumerate() if t not in before], "a dummy thread was made up"
    assert finish().tree[("foreign",)].calls == 1


def test_depth_over_32_folds_and_loses_no_time_B6(profiler: Profiler, finish: Finish) -> None:
    with contextlib.ExitStack() as stack:
        for i in range(40):
            stack.enter_context(profiler.phase(f"d{i}"))
        profiler.count("deep")
        time.sleep(0.005)
        assert profiler.current() == "/".join(f"d{i}" for i in range(32))
    run = finish()
    assert max(map(len, run.tree)) == 32 == len(run.tree)
    deepest = run.tree[tuple(f"d{i}" for i in range(32))]
    assert deepest.self_ns >= 5_000_000
    assert deepest.counters == {"deep": 1}
    assert sum(node.self_ns for node in run.tree.values()) == run.tree[("d0",)].wall_ns
    assert run.workers[0].troubles["folded_depth"] == 8


def test_paths_over_4096_fold_and_warn_once_B6(profiler: Profiler, finish: Finish) -> None:
    with warnings.catch_warnings(record=True) as caught, profiler.phase("root"):
        warnings.simplefilter("always")
        for i in range(5000):
            with profiler.phase(f"episode {i}"), profiler.phase("step"):
                pass
        with profiler.phase("episode 1"):
            time.sleep(0.001)
    [of_names, warning] = caught
    assert "'episode #'" in str(of_names.message)
    assert warning.category is RuntimeWarning
    # Two paths an episode, and one for the root.
    assert "'root/episode 2047/step'" in str(warning.message)
    assert "4096" in str(warning.message)
    assert warning.filename == __file__
    run = finish()
    assert len(run.tree) == 4096
    assert run.tree[("root", "episode 1")].calls == 2
    assert run.workers[0].troubles["folded_paths"] > 0
    assert sum(node.self_ns for node in run.tree.values()) == run.tree[("root",)].wall_ns


def test_the_warning_may_be_an_exception_B6(profiler: Profiler) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "128 distinct phase names")
        for i in range(4096):
            with profiler.phase(f"episode {i}"):
                pass
        with pytest.raises(RuntimeWarning, match="episode 4096"), profiler.phase("episode 4096"):
            pytest.fail("the body ran")
        with profiler.phase("episode 4097"):
            pass
    assert profiler.current() == ""


WARNING_ENTERS = """
import warnings
from lineprofiler.accounting import Profiler

with Profiler("run", snapshot_interval_s=None, sample_interval_s=None) as profiler:
    warnings.simplefilter("ignore")
    for i in range(4096):
        with profiler.phase(f"episode {i}"):
            pass
    folded = profiler.phase("folded")

    def show(*args, **kwargs):
        for _ in range(8):
            folded.__enter__()

    warnings.simplefilter("always")
    warnings.showwarning = show
    folded.__enter__()
    for _ in range(9):
        folded.__exit__(None, None, None)
"""


def test_the_warning_may_enter_the_same_handle_B6_B11(child: Child) -> None:
    child.run(WARNING_ENTERS, env={"PYTHONMALLOC": "debug"})


def test_without_cpu_time_B7(run_dir: Path) -> None:
    profiler = Profiler(run_dir, measure_cpu=False, snapshot_interval_s=None)
    with profiler, profiler.phase("a"), profiler.phase("b"):
        pass
    run = merge_run(run_dir)
    for node in run.tree.values():
        assert node.calls == 1
        assert node.wall_ns > 0
        assert node.cpu_ns is None
        assert node.wait_ns is None
    assert not run.workers[0].measure_cpu


def test_a_handle_is_entered_again_and_again_B11(profiler: Profiler, finish: Finish) -> None:
    handle = profiler.phase("h")
    for _ in range(5):
        with handle as entered:
            assert entered is handle
    with handle, handle, handle:
        assert profiler.current() == "h/h/h"
    assert calls(finish()) == {("h",): 6, ("h", "h"): 1, ("h", "h", "h"): 1}


def test_a_handle_is_entered_by_several_threads_at_once_B11(
    profiler: Profiler, finish: Finish
) -> None:
    handle = profiler.phase("h")
    barrier = threading.Barrier(3)

    def work(repeat: int) -> None:
        for _ in range(repeat):
            with handle:
                barrier.wait()
                with handle:
                    barrier.wait()

    threads = [threading.Thread(target=work, args=(40,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls(finish()) == {("h",): 120, ("h", "h"): 120}


def test_entries_of_one_handle_close_what_they_opened(profiler: Profiler, finish: Finish) -> None:
    handle = profiler.phase("h")

    def generator(wait_ns: int) -> Generator[None, None, None]:
        with handle:
            until = time.perf_counter_ns() + wait_ns
            while time.perf_counter_ns() < until:
                pass
            yield

    began = time.perf_counter_ns()
    first = generator(2_000_000)
    next(first)
    second = generator(0)
    next(second)
    first.close()
    # However busy the machine is: `second` is open for longer than `first` was.
    first_ns = time.perf_counter_ns() - began
    time.sleep(0.003 + first_ns / 1e9)
    second.close()
    tree = finish().tree
    # `first` is the outer one, and it ended first.
    assert tree[("h",)].wall_ns - tree[("h", "h")].wall_ns < tree[("h", "h")].wall_ns
    assert tree[("h",)].wall_ns < first_ns + 1_000_000
    assert tree[("h", "h")].wall_ns >= first_ns + 3_000_000
    assert tree[("h", "h")].late_wall_ns >= first_ns + 3_000_000


def test_exit_stack(profiler: Profiler, finish: Finish) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(profiler.phase("a"))
        handle = profiler.phase("b")
        stack.enter_context(handle)
        stack.enter_context(handle)
        assert profiler.current() == "a/b/b"
    assert profiler.current() == ""
    assert calls(finish()) == {("a",): 1, ("a", "b"): 1, ("a", "b", "b"): 1}


def test_exit_stacks_that_close_in_any_order_B8(profiler: Profiler, finish: Finish) -> None:
    handle = profiler.phase("h")
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(handle)
    second.enter_context(handle)
    first.close()  # the outer one: the inner goes on in its place
    with profiler.phase("x"):
        assert profiler.current() == "h/h/x"
    second.close()
    with profiler.phase("x"):
        assert profiler.current() == "x"
    off = Profiler(enabled=False).phase("off")
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(off) is stack.enter_context(off) is off
    assert calls(finish()) == {("h",): 1, ("h", "h"): 1, ("h", "h", "x"): 1, ("x",): 1}


def test_called_by_name(profiler: Profiler, finish: Finish) -> None:
    phase = profiler.phase("x")
    assert phase.__enter__() is phase
    assert profiler.current() == "x"
    phase.__exit__(None, None, None)
    enter, leave = phase.__enter__, phase.__exit__
    enter()
    enter()
    leave(None, None, None)
    leave(None, None, None)
    assert type(phase).__enter__(phase) is phase
    type(phase).__exit__(phase, None, None, None)
    assert profiler.current() == ""
    assert calls(finish()) == {("x",): 3, ("x", "x"): 1}


def test_misuse_neither_crashes_nor_records(profiler: Profiler, finish: Finish) -> None:
    phase: Any = profiler.phase("x")
    arguments: tuple[object, ...]
    phase.__exit__(None, None, None)
    leave = phase.__exit__
    with phase:
        pass
    leave(None, None, None)
    leave(None, None, None)
    kind: Any = type(phase)
    kind.__exit__(phase, None, None, None)
    for arguments in [(1,), (None, None, None)]:
        with pytest.raises(TypeError):
            phase.__enter__(*arguments)
    for arguments in ((), (None,)):
        with pytest.raises(TypeError):
            phase.__exit__(*arguments)
    for call, arguments in (
        (kind.__enter__, ()),
        (kind.__enter__, (3,)),
        (kind.__exit__, (phase, None)),
        (kind.__exit__, (3, None, None, None)),
        (kind.__dict__["__enter__"].__get__, (3, int)),
        (phase, ()),
        (kind, ()),
        (type(leave), ()),
        (type(kind.__dict__["__exit__"]), ()),
    ):
        with pytest.raises(TypeError):
            call(*arguments)
    with pytest.raises(TypeError):
        phase.__enter__(now=1)
    with pytest.raises(AttributeError):
        phase.other = 1
    assert profiler.current() == ""
    assert calls(finish()) == {("x",): 1}


def test_an_entry_that_nobody_can_leave_ends(profiler: Profiler, finish: Finish) -> None:
    profiler.phase("dropped").__enter__()
    assert profiler.current() == ""
    leave = profiler.phase("kept").__enter__().__exit__
    assert profiler.current() == "kept"
    leave(None, None, None)
    assert profiler.current() == ""
    assert calls(finish()) == {("dropped",): 1, ("kept",): 1}


def test_an_exit_on_another_thread_touches_no_other_entry(
    profiler: Profiler, finish: Finish
) -> None:
    phase = profiler.phase("moved")

    def generator() -> Generator[None, None, None]:
        with phase:
            yield

    began_ns = time.perf_counter_ns()
    opened = generator()
    next(opened)

    def close() -> None:
        with profiler.phase("other"):
            opened.close()
            assert profiler.current() == "other"

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    ended_ns = time.perf_counter_ns()
    time.sleep(0.01)
    with profiler.phase("later"):
        pass
    run = finish()
    assert calls(run) == {("moved",): 1, ("other",): 1, ("later",): 1}
    moved = run.tree[("moved",)]
    assert moved.nocpu_wall_ns == moved.wall_ns < ended_ns - began_ns
    assert moved.cpu_ns is None


def test_objects_are_used_again_and_nothing_leaks(profiler: Profiler) -> None:
    handle = profiler.phase("h")
    name = "".join(["a", " name"])

    def work() -> None:
        for _ in range(1000):
            with profiler.phase(name), handle, handle:
                profiler.count(name)

    work()
    before = [sys.getrefcount(thing) for thing in (profiler, handle, name, type(handle))]
    blocks = sys.getallocatedblocks()
    work()
    assert [sys.getrefcount(thing) for thing in (profiler, handle, name, type(handle))] == before
    assert abs(sys.getallocatedblocks() - blocks) < 100


def test_more_phases_at_once_than_are_kept_free(profiler: Profiler, finish: Finish) -> None:
    for _ in range(3):
        phases = [profiler.phase("x") for _ in range(1000)]
        for phase in phases:
            with phase:
                pass
        del phases
    assert calls(finish()) == {("x",): 3000}


def test_cycles_through_phases_are_collected(run_dir: Path) -> None:
    class Program(Profiler):
        handle: object
        leave: object
        loop: object

    def generator(profiler: Profiler) -> Iterator[None]:
        with profiler.phase("suspended"):
            yield

    program = Program(run_dir, snapshot_interval_s=None)
    program.handle = program.phase("h")
    program.leave = program.phase("h").__exit__
    program.loop = generator(program)
    next(program.loop)
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None
    [worker] = merge_run(run_dir).workers
    assert worker.closed


def test_what_phases_are(profiler: Profiler) -> None:
    phase = profiler.phase("a name")
    assert isinstance(phase, contextlib.AbstractContextManager)
    assert phase.name == "a name"
    assert repr(phase) == "<lineprofiler phase 'a name'>"
    assert isinstance(phase, _core.Phase)
    assert not callable(phase)


@pytest.mark.parametrize("option", ["io", "sync", "gpu", "async_work"])
def test_options_are_accepted_and_checked(profiler: Profiler, finish: Finish, option: str) -> None:
    phase: Any = profiler.phase
    for value in (True, False):
        with phase("x", **{option: value}):
            pass
    for bad in (1, 0, None, "yes", 0.5):
        with pytest.raises(TypeError, match=f"{option} must be bool, not {type(bad).__name__}"):
            phase("x", **{option: bad})
    assert calls(finish()) == {("x",): 2}


def test_sample_is_accepted_and_checked(profiler: Profiler, finish: Finish) -> None:
    from fractions import Fraction

    phase: Any = profiler.phase
    wrong: object
    for good in (1, 1.0, 0.5, 1e-9, Fraction(1, 3), True):
        with phase(repr(good), sample=good):
            pass
    for bad in (0, 0.0, -0.5, 1.0000001, 2, float("nan"), float("inf"), 10**400, -(10**400)):
        with pytest.raises(ValueError, match="sample must be over 0 and at most 1"):
            phase("x", sample=bad)
    for wrong in ("0.5", None, [], 1j):
        with pytest.raises(TypeError):
            phase("x", sample=wrong)
    # The first entry of each is measured, and stands for so many.
    stands_for = {"1": 1, "1.0": 1, "0.5": 2, "1e-09": 10**9, "Fraction(1, 3)": 3, "True": 1}
    assert {path[0]: n for path, n in calls(finish()).items()} == stands_for


def test_arguments_are_bound_as_python_does(profiler: Profiler, finish: Finish) -> None:
    phase: Any = profiler.phase
    with phase("x", True, False, 1.0, True, False), phase(name="x"), phase(sample=1, name="x"):
        pass
    with pytest.raises(TypeError, match=r"phase\(\) is missing its argument 'name'"):
        phase()
    with pytest.raises(TypeError, match=r"phase\(\) is missing its argument 'name'"):
        phase(io=True)
    with pytest.raises(TypeError, match=r"at most 6 arguments, 7 were given"):
        phase("x", True, True, 1.0, True, True, True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'smaple'"):
        phase("x", smaple=0.5)
    with pytest.raises(TypeError, match="multiple values for argument 'name'"):
        phase("x", name="y")
    # A keyword that is not the interned text.
    with phase(**{"".join(["na", "me"]): "x"}):
        pass
    assert sum(calls(finish()).values()) == 4


@pytest.mark.parametrize("isolated", [False, True])
def test_the_extension_loads_into_another_interpreter(run_dir: Path, isolated: bool) -> None:
    if sys.version_info >= (3, 13):
        interpreters = importlib.import_module("_interpreters")
        ident = interpreters.create("isolated" if isolated else "legacy")
    else:
        interpreters = importlib.import_module("_xxsubinterpreters")
        ident = interpreters.create(isolated=isolated)
    code = f"""
from lineprofiler.accounting import Profiler
with Profiler({str(run_dir)!r}, snapshot_interval_s=None) as profiler:
    with profiler.phase("elsewhere"):
        pass
"""
    assert interpreters.run_string(ident, code) is None
    interpreters.destroy(ident)
    assert merge_run(run_dir).tree[("elsewhere",)].calls == 1

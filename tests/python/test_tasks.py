"""Tasks have stacks of their own: asyncio, anyio, trio, greenlets (B8, B9, B11, C1, D3; AS06, AS08).

CPU times are held against the thread's own CPU clock, read around the same code: what a phase burns is
ten tolerances, so that time that went to the wrong entry cannot hide in one. No test bounds wall time.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import functools
import gc
import json
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler.accounting import Profiler, Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

Finish = Callable[[], Run]
Main = Callable[[], Coroutine[Any, Any, None]]
Paths = dict[tuple[str, ...], int]

TOLERANCE_NS = 2_000_000
BURN_NS = 10 * TOLERANCE_NS


def need(name: str) -> Any:
    """Import a package, or skip the test and say why."""
    return pytest.importorskip(name, reason=f"{name} is not installed for this Python")


def calls(run: Run) -> Paths:
    return {path: node.calls for path, node in run.tree.items()}


def cpu_of(run: Run, *path: str) -> int:
    cpu_ns = run.tree[path].cpu_ns
    assert cpu_ns is not None
    return cpu_ns


def unplaced(run: Run) -> int:
    return run.workers[0].troubles.get("unplaced_cpu_ns", 0)


def burn(cpu_ns: int = BURN_NS) -> int:
    """Use CPU time; return how much, by the thread's own clock."""
    began_ns = time.thread_time_ns()
    while time.thread_time_ns() - began_ns < cpu_ns:
        pass
    return time.thread_time_ns() - began_ns


@pytest.fixture
def no_gc() -> Iterator[None]:
    """A collection in the middle of a phase is the phase's CPU time, and no news."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- the frameworks ----------------------------------------------------------------------


class HashedLoop(asyncio.SelectorEventLoop):
    """A loop with a hash of its own making, and equal to none but itself."""

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return self is other


class PlainLoop(asyncio.SelectorEventLoop):
    """A loop of a subclass."""


def run_asyncio(
    main: Main,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    task_factory: Any = None,
) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        if task_factory:
            runner.get_loop().set_task_factory(task_factory)
        runner.run(main())


def run_uvloop(main: Main) -> None:
    run_asyncio(main, need("uvloop").new_event_loop)


def make_python_task(loop: Any, coroutine: Any, **options: Any) -> Any:
    """Make a task of the class that is written in Python."""
    python_task: Any = vars(asyncio.tasks)["_PyTask"]
    return python_task(coroutine, loop=loop, **options)


def run_eager(main: Main) -> None:
    if sys.version_info < (3, 12):
        pytest.skip("there are no eager tasks before Python 3.12")
    run_asyncio(main, task_factory=vars(asyncio)["eager_task_factory"])


def run_anyio(backend: str, main: Main) -> None:
    if backend == "trio":
        need("trio")
    need("anyio").run(main, backend=backend)


def run_trio(main: Main) -> None:
    need("trio").run(main)


ASYNCIO: dict[str, Callable[[Main], None]] = {
    "asyncio": run_asyncio,
    "uvloop": run_uvloop,
    "python": functools.partial(run_asyncio, task_factory=make_python_task),
    "eager": run_eager,
    "subclass": functools.partial(run_asyncio, loop_factory=PlainLoop),
    "anyio": functools.partial(run_anyio, "asyncio"),
}
ANY: dict[str, Callable[[Main], None]] = {
    **ASYNCIO,
    "hashed": functools.partial(run_asyncio, loop_factory=HashedLoop),
    "anyio-trio": functools.partial(run_anyio, "trio"),
    "trio": run_trio,
}


@pytest.fixture(params=ASYNCIO)
def run_exact(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Run a coroutine on asyncio; the CPU time of its tasks is exact."""
    return ASYNCIO[request.param]


@pytest.fixture(params=ANY)
def run_any(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Run a coroutine on any framework."""
    return ANY[request.param]


def on_trio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def new_event() -> Any:
    return need("trio").Event() if on_trio() else asyncio.Event()


async def pause() -> None:
    """Let the others run."""
    await (need("trio").sleep(0) if on_trio() else asyncio.sleep(0))


async def sleep(seconds: float) -> None:
    await (need("trio").sleep(seconds) if on_trio() else asyncio.sleep(seconds))


@contextlib.asynccontextmanager
async def group() -> AsyncIterator[Callable[..., None]]:
    """Tasks of the framework that runs: yield what starts one of them, and wait for all."""
    if on_trio():
        async with need("trio").open_nursery() as nursery:
            yield nursery.start_soon
    else:
        async with asyncio.TaskGroup() as tasks:

            def start(main: Any, *args: object) -> None:
                kept.add(tasks.create_task(main(*args)))

            kept: set[object] = set()
            yield start


class Meeting:
    """Where n tasks wait for each other, again and again."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.here = 0
        self.all_here: Any = None

    async def wait(self) -> None:
        if self.all_here is None:
            self.all_here = new_event()
        met = self.all_here
        self.here += 1
        if self.here == self.n:
            self.here, self.all_here = 0, None
            met.set()
        await met.wait()


# ---- B9 ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gc")
def test_64_tasks_hold_a_phase_across_an_await_B9(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    inner, outer, burned = [0] * 64, [0] * 64, []

    async def main() -> None:
        meeting = Meeting(65)
        clock = time.perf_counter_ns

        async def sleeper(i: int) -> None:
            outer[i] = -clock()
            with profiler.phase("handle"):
                inner[i] = -clock()
                with profiler.phase(str(i)):
                    await meeting.wait()
                    await meeting.wait()
                    await sleep(i / 10_000)
                inner[i] += clock()
            outer[i] += clock()

        async def burner() -> None:
            await meeting.wait()
            with profiler.phase("burn"):
                for _ in range(3):
                    burned.append(burn())
                    await pause()
                await meeting.wait()

        async with group() as start:
            for i in range(64):
                start(sleeper, i)
            start(burner)

    run_any(main)
    run = finish()
    assert calls(run) == {
        ("burn",): 1,
        ("handle",): 64,
        **{("handle", str(i)): 1 for i in range(64)},
    }
    handle = run.tree[("handle",)]
    assert sum(inner) <= handle.wall_ns <= sum(outer)
    ends = [bucket.begin_ns + bucket.width_ns for b in handle.hist.buckets for bucket in [b] * b.count]
    begins = [bucket.begin_ns for b in handle.hist.buckets for bucket in [b] * b.count]
    assert len(begins) == 64
    for least, most, begin, end in zip(sorted(inner), sorted(outer), begins, ends, strict=True):
        assert begin <= most
        assert end > least
    for i in range(64):
        assert cpu_of(run, "handle", str(i)) < 1_000_000
        assert run.tree[("handle", str(i))].wall_ns <= outer[i]
    assert abs(cpu_of(run, "burn") - sum(burned)) < TOLERANCE_NS + unplaced(run)


def test_entries_nest_in_their_own_task_B9_C1_D3(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    async def main() -> None:
        meeting = Meeting(5)

        async def work(name: str) -> None:
            profiler.count("started")
            assert profiler.current() == ""
            for _ in range(3):
                with profiler.phase(name):
                    await meeting.wait()
                    assert profiler.current() == name
                    with profiler.phase("inner"):
                        await meeting.wait()
                        assert profiler.current() == f"{name}/inner"
                        profiler.count(name)
                        await meeting.wait()
                    await meeting.wait()
                    assert profiler.current() == name
                    profiler.count("rounds")
            assert profiler.current() == ""

        async with group() as start:
            for i in range(5):
                start(work, f"t{i}")

    run_any(main)
    run = finish()
    assert calls(run) == {path: 3 for i in range(5) for path in [(f"t{i}",), (f"t{i}", "inner")]}
    assert run.tree.root.counters == {"started": 5}
    for i in range(5):
        assert run.tree[(f"t{i}",)].counters == {"rounds": 3}
        assert run.tree[(f"t{i}", "inner")].counters == {f"t{i}": 3}


@pytest.mark.usefixtures("no_gc")
def test_the_threads_own_phases_are_no_tasks_parents_B9(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    burned = []

    async def main() -> None:
        assert profiler.current() == ""
        with profiler.phase("task"):
            await pause()
            burned.append(burn())
        profiler.count("in the task")

    with profiler.phase("thread"):
        assert profiler.current() == "thread"
        run_any(main)
        assert profiler.current() == "thread"
        profiler.count("in the thread")
    run = finish()
    assert calls(run) == {("thread",): 1, ("task",): 1}
    assert run.tree.root.counters == {"in the task": 1}
    assert run.tree[("thread",)].counters == {"in the thread": 1}
    # The thread's own entry spans all that the thread does.
    assert cpu_of(run, "thread") >= cpu_of(run, "task") >= sum(burned)


def test_a_task_made_inside_a_phase_is_not_inside_it_B9(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    async def main() -> None:
        met = new_event()

        async def made() -> None:
            assert profiler.current() == ""
            with profiler.phase("made"):
                await met.wait()

        async with group() as start:
            with profiler.phase("maker"):
                start(made)
                assert profiler.current() == "maker"
                await pause()
                met.set()
            assert profiler.current() == ""

    run_any(main)
    assert calls(finish()) == {("maker",): 1, ("made",): 1}


def test_cancelled_in_the_middle_of_a_phase_B9(profiler: Profiler, finish: Finish) -> None:
    async def main() -> None:
        async def victim(open_now: asyncio.Event) -> None:
            with profiler.phase("a"), profiler.phase("b"):
                open_now.set()
                await asyncio.Event().wait()

        with profiler.phase("main"):
            for _ in range(3):
                open_now = asyncio.Event()
                task = asyncio.create_task(victim(open_now))
                await open_now.wait()
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert profiler.current() == "main"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(victim(asyncio.Event()), 0.001)
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as tasks:
                    others = [tasks.create_task(victim(asyncio.Event())) for _ in range(4)]
                    await asyncio.sleep(0)
                    tasks.create_task(fail())
            assert all(task.cancelled() for task in others)
            assert profiler.current() == "main"

    async def fail() -> None:
        with profiler.phase("fails"):
            raise KeyError("as it should")

    asyncio.run(main())
    tree = finish().tree
    # wait_for() runs what it waits for in the task itself since Python 3.12.
    inner = ("main",) if sys.version_info >= (3, 12) else ()
    expected = {("a",): 7, ("a", "b"): 7, ("main",): 1, ("fails",): 1}
    for path in [(*inner, "a"), (*inner, "a", "b")]:
        expected[path] = expected.get(path, 0) + 1
    assert {path: node.calls for path, node in tree.items()} == expected
    assert all(node.open_calls == 0 for node in tree.values())


def test_trio_cancels_in_the_middle_of_a_phase_B9(profiler: Profiler, finish: Finish) -> None:
    trio, testing = need("trio"), need("trio.testing")

    async def victim() -> None:
        with profiler.phase("victim"):
            await trio.sleep_forever()

    async def main() -> None:
        with profiler.phase("main"):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(victim)
                await testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            assert profiler.current() == "main"

    trio.run(main)
    assert calls(finish()) == {("main",): 1, ("victim",): 5}


# ---- CPU time ----------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gc")
def test_a_task_counts_the_cpu_time_of_its_own_steps_B9(
    profiler: Profiler, finish: Finish, run_exact: Callable[[Main], None]
) -> None:
    """No boundary of a phase falls between the changes from task to task."""
    burned = {"a": 0, "b": 0}

    async def main() -> None:
        meeting = Meeting(3)

        async def work(name: str) -> None:
            with profiler.phase(name):
                await meeting.wait()
                for _ in range(5):
                    burned[name] += burn(BURN_NS // 5)
                    await pause()
                await meeting.wait()

        async def unseen() -> None:
            await meeting.wait()
            for _ in range(5):
                burn(BURN_NS // 2)
                await pause()
            await meeting.wait()

        async with group() as start:
            start(work, "a")
            start(work, "b")
            start(unseen)

    run_exact(main)
    run = finish()
    for name in burned:
        assert abs(cpu_of(run, name) - burned[name]) < TOLERANCE_NS
    assert unplaced(run) == 0


@pytest.mark.usefixtures("no_gc")
def test_a_callback_of_the_loop_is_no_tasks_time(
    profiler: Profiler, finish: Finish, run_exact: Callable[[Main], None]
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        called = asyncio.Event()

        def callback() -> None:
            assert profiler.current() == ""
            with profiler.phase("callback"):
                burn()
            burn()
            called.set()

        with profiler.phase("task"):
            loop.call_soon(callback)
            await called.wait()

    run_exact(main)
    run = finish()
    assert calls(run) == {("task",): 1, ("callback",): 1}
    assert cpu_of(run, "task") < TOLERANCE_NS
    assert abs(cpu_of(run, "callback") - BURN_NS) < TOLERANCE_NS


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("run_late", [run_trio, ANY["hashed"]])
def test_cpu_time_that_nobody_can_place_is_counted(
    profiler: Profiler, finish: Finish, run_late: Callable[[Main], None]
) -> None:
    own = others = 0

    async def main() -> None:
        meeting = Meeting(2)

        async def work() -> None:
            nonlocal own
            with profiler.phase("work"):
                await meeting.wait()
                own += burn()
                await meeting.wait()

        async def unseen() -> None:
            nonlocal others
            await meeting.wait()
            others += burn()
            await meeting.wait()

        async with group() as start:
            start(work)
            start(unseen)

    run_late(main)
    run = finish()
    if run_late is run_trio or sys.version_info < (3, 12):
        assert cpu_of(run, "work") - unplaced(run) < TOLERANCE_NS
    else:
        assert unplaced(run) == 0
        assert abs(cpu_of(run, "work") - own) < TOLERANCE_NS
    assert cpu_of(run, "work") < own + others + TOLERANCE_NS


@pytest.mark.usefixtures("no_gc")
def test_two_profilers_at_once_count_the_same(profiler: Profiler, tmp_path: Path) -> None:
    """Which of the two was used last on the thread makes no difference."""
    second = Profiler(tmp_path / "second", snapshot_interval_s=None, sample_interval_s=None)
    burned = 0

    async def main() -> None:
        meeting = Meeting(2)

        async def work() -> None:
            nonlocal burned
            with second.phase("outer"), profiler.phase("work"), second.phase("work"):
                await meeting.wait()
                burned += burn()
                await meeting.wait()
                await pause()

        async def other() -> None:
            await meeting.wait()
            with profiler.phase("other"):
                burn()
            burn()
            await meeting.wait()
            with second.phase("other"):
                burn()
            burn()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work())
            tasks.create_task(other())

    asyncio.run(main())
    profiler.close()
    second.close()
    for run_dir, path in (Path(profiler.path or "").parents[2], ("work",)), (
        tmp_path / "second",
        ("outer", "work"),
    ):
        run = merge_run(run_dir)
        assert unplaced(run) == 0
        assert abs(cpu_of(run, *path) - burned) < TOLERANCE_NS
        assert abs(cpu_of(run, "other") - BURN_NS) < TOLERANCE_NS


@pytest.mark.usefixtures("no_gc")
def test_after_another_threads_exit_tasks_are_told_apart(
    profiler: Profiler, finish: Finish
) -> None:
    """What another thread ends makes this thread look its entries up anew."""
    burned = 0

    async def main() -> None:
        nonlocal burned
        done = asyncio.Event()
        moved = contextlib.ExitStack()
        moved.enter_context(profiler.phase("moved"))

        async def work() -> None:
            nonlocal burned
            with profiler.phase("work"):
                burned += burn()
                thread = threading.Thread(target=moved.close)
                thread.start()
                thread.join()
                await done.wait()

        async def other() -> None:
            burn()
            done.set()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work())
            tasks.create_task(other())

    asyncio.run(main())
    run = finish()
    assert calls(run) == {("moved",): 1, ("work",): 1}
    assert abs(cpu_of(run, "work") - burned) < TOLERANCE_NS
    assert unplaced(run) == 0


def test_without_cpu_time_B7(run_dir: Path, run_any: Callable[[Main], None]) -> None:
    profiler = Profiler(run_dir, measure_cpu=False, snapshot_interval_s=None)

    async def main() -> None:
        meeting = Meeting(3)

        async def work(i: int) -> None:
            with profiler.phase(f"t{i}"), profiler.phase("inner"):
                await meeting.wait()
                await meeting.wait()

        async with group() as start:
            for i in range(3):
                start(work, i)

    with profiler:
        run_any(main)
    run = merge_run(run_dir)
    assert calls(run) == {path: 1 for i in range(3) for path in [(f"t{i}",), (f"t{i}", "inner")]}
    assert all(node.cpu_ns is None for node in run.tree.values())
    assert unplaced(run) == 0


@pytest.mark.usefixtures("no_gc")
def test_a_snapshot_shows_suspended_tasks(
    profiler: Profiler, run_dir: Path, run_exact: Callable[[Main], None]
) -> None:
    burned = 0

    async def main() -> None:
        meeting = Meeting(2)

        async def work() -> None:
            nonlocal burned
            with profiler.phase("open"):
                burned += burn()
                await meeting.wait()
                await meeting.wait()

        async def watch() -> None:
            await meeting.wait()
            burn()
            profiler.snapshot()
            [node] = merge_run(run_dir).tree.values()
            assert node.path == ("open",)
            assert (node.calls, node.open_calls) == (0, 1)
            assert node.cpu_ns is not None
            assert abs(node.cpu_ns - burned) < TOLERANCE_NS
            await meeting.wait()

        async with group() as start:
            start(work)
            start(watch)

    run_exact(main)
    profiler.close()
    [node] = merge_run(run_dir).tree.values()
    assert (node.calls, node.open_calls) == (1, 0)


# ---- contexts ----------------------------------------------------------------------------

variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")


def test_a_context_that_appears_is_no_task(profiler: Profiler, finish: Finish) -> None:
    """A thread has no context until a variable is set, and none of it is a task's."""

    def work() -> None:
        with profiler.phase("a"):
            variable.set(1)
            assert profiler.current() == "a"
            with profiler.phase("b"):
                variable.set(2)
                profiler.count("n")
                contextvars.copy_context().run(inside, "a/b")
        assert profiler.current() == ""

    def inside(path: str) -> None:
        assert profiler.current() == path
        with profiler.phase("c"):
            variable.set(3)
            contextvars.Context().run(lambda: profiler.count("m"))

    work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    run = finish()
    assert calls(run) == {("a",): 2, ("a", "b"): 2, ("a", "b", "c"): 2}
    assert run.tree[("a", "b")].counters == {"n": 2}
    assert run.tree[("a", "b", "c")].counters == {"m": 2}
    assert unplaced(run) == 0


def test_a_context_inside_a_task_is_the_tasks(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    async def main() -> None:
        def inside() -> None:
            assert profiler.current() == "task"
            with profiler.phase("in context"):
                variable.set(1)

        with profiler.phase("task"):
            contextvars.copy_context().run(inside)
            variable.set(2)
            contextvars.Context().run(inside)
            await pause()
            assert profiler.current() == "task"

    run_any(main)
    assert calls(finish()) == {("task",): 1, ("task", "in context"): 2}


def test_tasks_that_share_a_context(profiler: Profiler, finish: Finish) -> None:
    async def main() -> None:
        shared = contextvars.copy_context()
        meeting = Meeting(3)

        async def work(i: int) -> None:
            with profiler.phase(f"t{i}"):
                await meeting.wait()
                variable.set(i)
                assert profiler.current() == f"t{i}"
                await meeting.wait()

        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.create_task(work(i), context=shared) for i in range(3)))

    asyncio.run(main())
    assert calls(finish()) == {(f"t{i}",): 1 for i in range(3)}


def test_a_tasks_context_run_in_threads(profiler: Profiler, finish: Finish) -> None:
    async def main() -> None:
        def inside() -> None:
            assert profiler.current() == ""
            with profiler.phase("in thread"):
                barrier.wait()

        barrier = threading.Barrier(3)
        with profiler.phase("task"):
            contexts = [contextvars.copy_context() for _ in range(3)]
            threads = [threading.Thread(target=c.run, args=(inside,)) for c in contexts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert profiler.current() == "task"

    asyncio.run(main())
    assert calls(finish()) == {("task",): 1, ("in thread",): 3}


def test_executors_run_on_threads_of_their_own(profiler: Profiler, finish: Finish) -> None:
    async def main() -> None:
        def work() -> None:
            with profiler.phase("in thread"):
                assert profiler.current() == "in thread"

        async def ask() -> None:
            with profiler.phase("ask"):
                await asyncio.to_thread(work)
                await asyncio.get_running_loop().run_in_executor(None, work)
                assert profiler.current() == "ask"

        await asyncio.gather(*(ask() for _ in range(8)))

    asyncio.run(main())
    assert calls(finish()) == {("ask",): 8, ("in thread",): 16}


def test_trio_threads(profiler: Profiler, finish: Finish) -> None:
    trio = need("trio")

    def back() -> None:
        with profiler.phase("back"):
            pass

    def work() -> None:
        with profiler.phase("in thread"):
            trio.from_thread.run_sync(back)

    async def main() -> None:
        with profiler.phase("task"):
            await trio.to_thread.run_sync(work)
            assert profiler.current() == "task"

    trio.run(main)
    paths = calls(finish())
    assert paths.pop(("back",), 0) + paths.pop(("task", "back"), 0) == 1
    assert paths == {("task",): 1, ("in thread",): 1}


# ---- addresses, lives --------------------------------------------------------------------


def test_1000_tasks_one_after_another_at_one_address(profiler: Profiler, finish: Finish) -> None:
    kept: list[contextlib.ExitStack] = []
    addresses = set()

    async def work() -> None:
        addresses.add(id(asyncio.current_task()))
        assert profiler.current() == ""
        stack = contextlib.ExitStack()
        stack.enter_context(profiler.phase("kept"))
        await asyncio.sleep(0)
        assert profiler.current() == "kept"
        with profiler.phase("left"):
            await asyncio.sleep(0)
        kept.append(stack)

    async def main() -> None:
        for _ in range(1000):
            await asyncio.create_task(work())

    asyncio.run(main())
    assert len(addresses) < 1000, "no address came twice: this shows nothing"
    profiler.count("after")
    for stack in kept:
        stack.close()
    run = finish()
    assert calls(run) == {("kept",): 1000, ("kept", "left"): 1000}
    assert run.tree.root.counters == {"after": 1}
    assert all(not count for name, count in run.workers[0].troubles.items()), run.workers[0].troubles


def test_tasks_and_loops_are_not_kept_alive(
    profiler: Profiler, run_any: Callable[[Main], None]
) -> None:
    gone: list[weakref.ref[Any]] = []

    async def main() -> None:
        async def work() -> None:
            if on_trio():
                gone.append(weakref.ref(need("trio").lowlevel.current_task()))
            else:
                gone.append(weakref.ref(asyncio.get_running_loop()))
                task = asyncio.current_task()
                assert task is not None
                gone.append(weakref.ref(task))
            with profiler.phase("work"):
                await pause()
            kept.enter_context(profiler.phase("kept"))

        async with group() as start:
            for _ in range(3):
                start(work)

    kept = contextlib.ExitStack()
    run_any(main)
    gc.collect()
    assert len(gone) >= 3
    assert [reference() for reference in gone] == [None] * len(gone)
    kept.close()


def test_a_task_that_is_collected_while_its_phase_is_open(
    profiler: Profiler, finish: Finish
) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)

        async def forgotten() -> None:
            with profiler.phase("forgotten"):
                await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(forgotten())
        await asyncio.sleep(0)
        gone = weakref.ref(task)
        with profiler.phase("main"):
            del task
            gc.collect()
            assert gone() is None
            assert profiler.current() == "main"
            with profiler.phase("later"):
                pass

    asyncio.run(main())
    run = finish()
    assert calls(run) == {("forgotten",): 1, ("main",): 1, ("main", "later"): 1}
    assert run.tree[("forgotten",)].open_calls == 0


def test_a_loop_that_goes_with_its_tasks_open(profiler: Profiler, finish: Finish) -> None:
    async def forgotten() -> None:
        with profiler.phase("forgotten"):
            await asyncio.get_running_loop().create_future()

    def make() -> weakref.ref[Any]:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)
        task = loop.create_task(forgotten())
        loop.call_later(0, loop.stop)
        loop.run_forever()
        loop.close()
        return weakref.ref(task)

    gone = make()
    gc.collect()
    assert gone() is None
    assert profiler.current() == ""
    assert calls(finish()) == {("forgotten",): 1}


# ---- exits elsewhere (B8) ----------------------------------------------------------------


def test_another_task_exits_a_phase_B8(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    async def main() -> None:
        first, second = contextlib.ExitStack(), contextlib.ExitStack()
        met = new_event()

        async def opens() -> None:
            first.enter_context(profiler.phase("h"))
            second.enter_context(profiler.phase("h"))
            assert profiler.current() == "h/h"
            await met.wait()
            assert profiler.current() == "h/h"
            with profiler.phase("inside"):
                pass
            second.close()

        async def closes() -> None:
            with profiler.phase("h"):
                first.close()
                assert profiler.current() == "h"
                await pause()
            met.set()

        async with group() as start:
            start(opens)
            await pause()
            start(closes)

    run_any(main)
    tree = finish().tree
    paths = {path: node.calls for path, node in tree.items()}
    # The outer entry ended first: what is left below it goes on where it is.
    assert paths.pop(("h", "h", "inside"), 0) == 1
    assert paths == {("h",): 2, ("h", "h"): 1}
    assert tree[("h", "h")].late_wall_ns > 0
    assert all(node.open_calls == 0 for node in tree.values())


def test_an_exit_stack_of_each_task_holds_one_handle_B8_B11(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    handle = profiler.phase("h")

    async def main() -> None:
        meeting = Meeting(3)

        async def work(i: int) -> None:
            with contextlib.ExitStack() as stack:
                stack.enter_context(handle)
                await meeting.wait()
                stack.enter_context(handle)
                for turn in range(3):
                    await meeting.wait()
                    assert profiler.current() == ("h/h" if turn <= i else "")
                    await meeting.wait()
                    if turn == i:
                        stack.close()

        async with group() as start:
            for i in range(3):
                start(work, i)

    run_any(main)
    run = finish()
    assert calls(run) == {("h",): 3, ("h", "h"): 3}
    assert run.tree[("h", "h")].late_wall_ns == 0


def test_a_handle_is_entered_by_tasks_at_once_B11(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    handle = profiler.phase("h")

    async def main() -> None:
        meeting = Meeting(4)

        async def work() -> None:
            for _ in range(10):
                with handle:
                    await meeting.wait()
                    with handle:
                        await meeting.wait()
                        assert profiler.current() == "h/h"

        async with group() as start:
            for _ in range(4):
                start(work)

    run_any(main)
    assert calls(finish()) == {("h",): 40, ("h", "h"): 40}


@pytest.mark.usefixtures("no_gc")
def test_another_thread_exits_a_tasks_phase_B8(profiler: Profiler, finish: Finish) -> None:
    async def main() -> None:
        opened = contextlib.ExitStack()
        closed = asyncio.Event()

        async def opens() -> None:
            opened.enter_context(profiler.phase("moved"))
            await closed.wait()
            assert profiler.current() == ""
            with profiler.phase("later"):
                burn()

        def close() -> None:
            with profiler.phase("closes"):
                opened.close()
                assert profiler.current() == "closes"

        task = asyncio.create_task(opens())
        await asyncio.sleep(0)
        with profiler.phase("main"):
            await asyncio.to_thread(close)
            assert profiler.current() == "main"
        closed.set()
        await task

    began_ns = time.perf_counter_ns()
    asyncio.run(main())
    elapsed_ns = time.perf_counter_ns() - began_ns
    tree = finish().tree
    assert {path: node.calls for path, node in tree.items()} == {
        (name,): 1 for name in ("moved", "later", "closes", "main")
    }
    moved = tree[("moved",)]
    assert moved.nocpu_wall_ns == moved.wall_ns < elapsed_ns - tree[("later",)].wall_ns


def test_exits_that_their_thread_has_not_met_are_in_the_file_B8(
    profiler: Profiler, finish: Finish
) -> None:
    """However many there are: no boundary of the thread comes between them and the end."""

    async def main() -> None:
        async def opens() -> None:
            stack.enter_context(profiler.phase("moved"))

        await asyncio.gather(*(opens() for _ in range(200)))

    stack = contextlib.ExitStack()
    asyncio.run(main())
    thread = threading.Thread(target=stack.close)
    thread.start()
    thread.join()
    run = finish()
    assert calls(run) == {("moved",): 200}
    assert run.tree[("moved",)].hist.total == 200
    assert run.workers[0].troubles["foreign_exits"] == 200


def test_async_generators_that_nobody_finished_B8(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    """The loop closes them, in a task of its own making."""

    async def numbers(name: str) -> AsyncGenerator[int, None]:
        with profiler.phase(name):
            for i in range(3):
                yield i

    async def main() -> None:
        with profiler.phase("main"):
            for i in range(3):
                async for _ in numbers(f"left {i}"):
                    break
                gc.collect()
                await pause()
            generator = numbers("open at the end")
            assert await generator.asend(None) == 0
            waiting.append(generator)

    waiting: list[object] = []
    run_any(main)
    waiting.clear()
    gc.collect()
    assert profiler.current() == ""
    run = finish()
    ends = sorted(path[-1] for path in run.tree)
    assert ends == ["left 0", "left 1", "left 2", "main", "open at the end"]
    assert all(node.calls == 1 and node.open_calls == 0 for node in run.tree.values())


def test_generators_interleaved_over_tasks_B8(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    """Each is begun in one task and ended in the other."""

    def generator(name: str) -> Iterator[None]:
        with profiler.phase(name):
            yield

    async def main() -> None:
        meeting = Meeting(2)
        begun: dict[str, Iterator[None]] = {}

        async def work(mine: str, others: str) -> None:
            with profiler.phase("around"):
                begun[mine] = generator(mine)
                next(begun[mine])
                assert profiler.current() == f"around/{mine}"
                await meeting.wait()
                list(begun[others])
                await meeting.wait()
                assert profiler.current() == "around"

        async with group() as start:
            start(work, "a", "b")
            start(work, "b", "a")

    run_any(main)
    assert calls(finish()) == {("around",): 2, ("around", "a"): 1, ("around", "b"): 1}


# ---- threads, signals, forks -------------------------------------------------------------


def test_a_loop_on_each_of_several_threads(
    profiler: Profiler, finish: Finish, run_any: Callable[[Main], None]
) -> None:
    barrier = threading.Barrier(4)
    failed = []

    async def main() -> None:
        meeting = Meeting(3)
        name = threading.current_thread().name

        async def work(i: int) -> None:
            for _ in range(20):
                with profiler.phase(name):
                    await meeting.wait()
                    with profiler.phase(str(i)):
                        await pause()
                        assert profiler.current() == f"{name}/{i}"
                        profiler.count("n")

        barrier.wait()
        async with group() as start:
            for i in range(3):
                start(work, i)

    def on_thread() -> None:
        try:
            run_any(main)
        except BaseException as error:
            failed.append(error)
            barrier.abort()
            raise

    threads = [threading.Thread(target=on_thread, name=f"t{i}") for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    run = finish()
    expected = {(f"t{i}",): 60 for i in range(4)}
    expected |= {(f"t{i}", str(k)): 20 for i in range(4) for k in range(3)}
    assert calls(run) == expected
    assert all(run.tree[path].counters == {"n": 20} for path in expected if len(path) == 2)
    assert not run.workers[0].troubles.get("foreign_exits")


def test_a_loop_that_moves_to_another_thread(profiler: Profiler, finish: Finish) -> None:
    async def work(go: asyncio.Event) -> None:
        with profiler.phase("moved"):
            await go.wait()
            with profiler.phase("there"):
                assert profiler.current() == "there"

    async def begin() -> None:
        await asyncio.sleep(0)

    async def end() -> None:
        go.set()
        await task

    loop = asyncio.new_event_loop()
    go = asyncio.Event()
    task = loop.create_task(work(go))
    loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_until_complete, args=(end(),))
    thread.start()
    thread.join()
    loop.close()
    assert profiler.current() == ""
    tree = finish().tree
    assert {path: node.calls for path, node in tree.items()} == {("moved",): 1, ("there",): 1}
    assert tree[("moved",)].nocpu_wall_ns == tree[("moved",)].wall_ns


def test_signal_handlers(profiler: Profiler, finish: Finish) -> None:
    handled = []

    def handler(*_: object) -> None:
        with profiler.phase("handler"):
            handled.append(profiler.current())

    async def main() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, handler)
        with profiler.phase("task"):
            os.kill(os.getpid(), signal.SIGUSR2)
            while len(handled) < 1:
                await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGUSR1)
            while len(handled) < 2:
                await asyncio.sleep(0)
            assert profiler.current() == "task"

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGUSR2, before)
    # One runs wherever the program is, the other is called by the loop.
    assert handled[0] in ("task/handler", "handler")
    assert handled[1] == "handler"
    assert sum(calls(finish()).values()) == 3


def test_a_keyboard_interrupt_ends_what_it_leaves(profiler: Profiler, finish: Finish) -> None:
    async def main() -> None:
        async def other() -> None:
            with profiler.phase("other"):
                await asyncio.Event().wait()

        task = asyncio.create_task(other())
        with profiler.phase("main"):
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        assert task

    with pytest.raises(KeyboardInterrupt), profiler.phase("around"):
        asyncio.run(main())
    assert profiler.current() == ""
    assert calls(finish()) == {("around",): 1, ("main",): 1, ("other",): 1}


def test_a_fork_while_tasks_are_open_F9(run_dir: Path, child: Child) -> None:
    result = child.json(
        """
import asyncio, json, os, sys
from lineprofiler.accounting import Profiler, merge_run

profiler = Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None)
handle = profiler.phase("handle")

async def work(go):
    with handle:
        await go.wait()
        with profiler.phase("inner"):
            await asyncio.sleep(0)

async def again():
    go = asyncio.Event()
    tasks = [asyncio.create_task(work(go)) for _ in range(5)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*tasks)

async def main():
    go = asyncio.Event()
    tasks = [asyncio.create_task(work(go)) for _ in range(5)]
    await asyncio.sleep(0)
    with profiler.phase("forks"):
        child = os.fork()
        if child == 0:
            with profiler.phase("in the child"):
                pass
            asyncio.run(again())
            profiler.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    go.set()
    await asyncio.gather(*tasks)

asyncio.run(main())
profiler.close()
run = merge_run(sys.argv[1])
print(json.dumps([len(run.workers), {"/".join(path): node.calls for path, node in run.tree.items()}]))
""",
        run_dir,
    )
    # What was open across the fork is the parent's alone.
    expected = {"handle": 10, "handle/inner": 10, "forks": 1, "in the child": 1}
    assert result == [2, expected]


# ---- giving back -------------------------------------------------------------------------

TP_HASH = 120  # where a type keeps its hash function


def hash_function(kind: type) -> int | None:
    return ctypes.c_void_p.from_address(id(kind) + TP_HASH).value


def free_watchers() -> int:
    """Count the watchers of dicts that can be had."""
    if sys.version_info < (3, 12):
        return 0
    callback = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.py_object] * 3)(lambda *_: 0)
    kept.append(callback)
    taken = []
    with contextlib.suppress(RuntimeError):
        while True:
            taken.append(ctypes.pythonapi.PyDict_AddWatcher(callback))
    for watcher in taken:
        ctypes.pythonapi.PyDict_ClearWatcher(watcher)
    return len(taken)


kept: list[object] = []


@pytest.mark.usefixtures("no_gc")
def test_hooks_are_given_back_and_had_again(run_dir: Path) -> None:
    class Before(asyncio.SelectorEventLoop):
        pass

    during: list[type] = []
    watchers = free_watchers()
    exits = contextlib.ExitStack()

    def run(profiler: Profiler, kind: Any) -> int:
        burned = 0

        async def work(meeting: Meeting) -> None:
            nonlocal burned
            exits.enter_context(profiler.phase("kept"))
            with profiler.phase("work"):
                await meeting.wait()
                burned += burn()
                await meeting.wait()
                during.append(type("During", (kind,), {}))

        async def other(meeting: Meeting) -> None:
            await meeting.wait()
            burn()
            await meeting.wait()

        async def main() -> None:
            meeting = Meeting(2)
            await asyncio.gather(work(meeting), other(meeting))

        run_asyncio(main, kind)
        return burned

    for i in range(12):
        folder = run_dir / str(i)
        kind = during[-1] if i % 3 == 2 else Before
        with Profiler(folder, snapshot_interval_s=None, sample_interval_s=None) as profiler:
            burned = run(profiler, kind)
        merged = merge_run(folder)
        assert unplaced(merged) == 0
        assert abs(cpu_of(merged, "kept", "work") - burned) < TOLERANCE_NS
    assert free_watchers() == watchers
    assert hash_function(Before) == hash_function(object)
    exits.close()


def test_no_python_code_runs_at_a_boundary(
    profiler: Profiler, run_any: Callable[[Main], None]
) -> None:
    """Nothing of ours is in the program's trace, and no signal handler runs within a boundary."""
    entered: list[str] = []

    async def main() -> None:
        await pause()
        handle = profiler.phase("h")
        sys.settrace(lambda frame, event, argument: entered.append(frame.f_code.co_name))
        try:
            with handle:
                profiler.count("n")
                profiler.current()
        finally:
            sys.settrace(None)

    run_any(main)
    # asyncio's dict of tasks asks for a loop's hash, too.
    assert set(entered) <= {"__hash__"}


# ---- greenlets ---------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gc")
def test_greenlets_have_stacks_of_their_own_AS08(profiler: Profiler, finish: Finish) -> None:
    greenlet = need("greenlet")
    main = greenlet.getcurrent()

    def work(name: str) -> None:
        assert profiler.current() == ""
        with profiler.phase(name):
            main.switch()
            assert profiler.current() == name
            with profiler.phase("inner"):
                profiler.count("n")
                main.switch()
                assert profiler.current() == f"{name}/inner"
                burn()

    with profiler.phase("thread"):
        greenlets = [greenlet.greenlet(work) for _ in range(3)]
        for i, each in enumerate(greenlets):
            each.switch(f"g{i}")
            assert profiler.current() == "thread"
        for _ in range(2):
            for each in greenlets:
                each.switch()
                assert profiler.current() == "thread"
    assert all(each.dead for each in greenlets)
    run = finish()
    expected: Paths = {("thread",): 1}
    for i in range(3):
        expected |= {(f"g{i}",): 1, (f"g{i}", "inner"): 1}
        assert run.tree[(f"g{i}", "inner")].counters == {"n": 1}
        assert abs(cpu_of(run, f"g{i}", "inner") - BURN_NS) < TOLERANCE_NS
    assert calls(run) == expected
    assert cpu_of(run, "thread") >= 3 * BURN_NS


def test_a_greenlet_that_is_collected_ends_its_phases(profiler: Profiler, finish: Finish) -> None:
    greenlet = need("greenlet")
    main = greenlet.getcurrent()

    def work() -> None:
        with profiler.phase("forgotten"):
            main.switch()

    forgotten = greenlet.greenlet(work)
    forgotten.switch()
    gone = weakref.ref(forgotten)
    with profiler.phase("main"):
        del forgotten
        assert gone() is None
        assert profiler.current() == "main"
    assert calls(finish()) == {("forgotten",): 1, ("main",): 1}


def test_gevent_AS08(profiler: Profiler, finish: Finish) -> None:
    gevent = need("gevent")

    def work(name: str) -> None:
        for _ in range(10):
            with profiler.phase(name):
                gevent.sleep(0)
                with profiler.phase("inner"):
                    gevent.sleep(0)
                    assert profiler.current() == f"{name}/inner"

    with profiler.phase("main"):
        gevent.joinall([gevent.spawn(work, f"g{i}") for i in range(5)], raise_error=True)
        assert profiler.current() == "main"
    expected = {(f"g{i}",): 10 for i in range(5)} | {(f"g{i}", "inner"): 10 for i in range(5)}
    assert calls(finish()) == {("main",): 1, **expected}


def test_a_greenlet_inside_a_task_is_the_task(profiler: Profiler, finish: Finish) -> None:
    """As where a library runs code that awaits nothing on a greenlet of the task."""
    greenlet = need("greenlet")

    async def main() -> None:
        async def work(name: str) -> None:
            def inside() -> None:
                assert profiler.current() == name
                with profiler.phase("inside"):
                    greenlet.getcurrent().parent.switch()
                    assert profiler.current() == f"{name}/inside"

            with profiler.phase(name):
                each = greenlet.greenlet(inside)
                each.switch()
                await asyncio.sleep(0)
                each.switch()
                assert profiler.current() == name

        await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    expected = {("a",): 1, ("a", "inside"): 1, ("b",): 1, ("b", "inside"): 1}
    assert calls(finish()) == expected


# ---- loops in loops ----------------------------------------------------------------------


def test_loops_inside_loops(child: Child, run_dir: Path) -> None:
    need("nest_asyncio")
    result = child.json(
        """
import asyncio, json, sys
import nest_asyncio
from lineprofiler.accounting import Profiler, merge_run

nest_asyncio.apply()
profiler = Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None)

async def inner(name):
    with profiler.phase(name):
        await asyncio.sleep(0)
        assert profiler.current() == name

async def outer(name):
    with profiler.phase(name):
        await asyncio.sleep(0)
        assert profiler.current() == name
        asyncio.get_event_loop().run_until_complete(inner("inner"))
        assert profiler.current() == name, profiler.current()
        with profiler.phase("after"):
            pass

async def main():
    await asyncio.gather(outer("a"), outer("b"))

asyncio.run(main())
profiler.close()
tree = merge_run(sys.argv[1]).tree
print(json.dumps({"/".join(path): node.calls for path, node in tree.items()}))
""",
        run_dir,
    )
    assert result == {"a": 1, "b": 1, "inner": 2, "a/after": 1, "b/after": 1}


def test_subinterpreters_have_tasks_of_their_own(child: Child, run_dir: Path) -> None:
    """One after the other, for 3.11 has one running loop for all of a thread."""
    if sys.version_info[:2] == (3, 12):
        pytest.skip("CPython 3.12 itself crashes where two interpreters have used asyncio")
    result = child.json(
        """
import asyncio, importlib, json, sys
from lineprofiler.accounting import Profiler, merge_run

interpreters = importlib.import_module(
    "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
)
profiler = Profiler(sys.argv[1], "main", snapshot_interval_s=None, sample_interval_s=None)
code = '''
import asyncio
from lineprofiler.accounting import Profiler
profiler = Profiler(%r, "sub", run_id=%r, snapshot_interval_s=None, sample_interval_s=None)

async def work(name):
    with profiler.phase(name):
        await asyncio.sleep(0)
        with profiler.phase("inner"):
            await asyncio.sleep(0)
            assert profiler.current() == name + "/inner"

async def main():
    await asyncio.gather(*(work(f"t{i}") for i in range(3)))

asyncio.run(main())
profiler.close()
''' % (sys.argv[1], profiler.run_id)

def run():
    made = interpreters.create()
    failed = interpreters.run_string(made, code)
    assert failed is None, failed
    interpreters.destroy(made)

async def work(name):
    with profiler.phase(name):
        await asyncio.sleep(0)
        assert profiler.current() == name

asyncio.run(work("a"))
run()
asyncio.run(work("a"))
run()
asyncio.run(work("b"))
profiler.close()
run = merge_run(sys.argv[1])
print(json.dumps({role: {"/".join(p): n.calls for p, n in run.roles[role].tree.items()} for role in run.roles}))
""",
        run_dir,
    )
    paths = {f"t{i}{inner}": 2 for i in range(3) for inner in ("", "/inner")}
    assert result == {"main": {"a": 2, "b": 1}, "sub": paths}

"""Tasks have stacks of their own: asyncio, anyio, trio, greenlets (B9, B11, C1, D3; AS06, AS08)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from frameworks import (
    BURN_NS,
    TOLERANCE_NS,
    Finish,
    Main,
    Meeting,
    Paths,
    burn,
    calls,
    cpu_of,
    group,
    need,
    new_event,
    on_trio,
    pause,
    sleep,
    unplaced,
)

from lineprofiler.accounting import Profiler

if TYPE_CHECKING:
    from conftest import Child


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
    expected: Paths = {("burn",): 1, ("handle",): 64}
    expected |= {("handle", str(i)): 1 for i in range(64)}
    assert calls(run) == expected
    handle = run.tree[("handle",)]
    assert sum(inner) <= handle.wall_ns <= sum(outer)
    buckets = [bucket for bucket in handle.hist.buckets for _ in range(bucket.count)]
    assert len(buckets) == 64
    for least, most, bucket in zip(sorted(inner), sorted(outer), buckets, strict=True):
        assert bucket.begin_ns <= most
        assert bucket.begin_ns + bucket.width_ns > least
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
    async def victim(open_now: asyncio.Event) -> None:
        with profiler.phase("a"), profiler.phase("b"):
            open_now.set()
            await asyncio.Event().wait()

    async def fail() -> None:
        with profiler.phase("fails"):
            raise KeyError("as it should")

    async def fail_together(others: list[asyncio.Task[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            others += [tasks.create_task(victim(asyncio.Event())) for _ in range(4)]
            await asyncio.sleep(0)
            tasks.create_task(fail())

    async def main() -> None:
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
            others: list[asyncio.Task[None]] = []
            with pytest.raises(ExceptionGroup):
                await fail_together(others)
            assert all(task.cancelled() for task in others)
            assert profiler.current() == "main"

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
    assert all(not count for name, count in run.workers[0].troubles.items()), run.workers[
        0
    ].troubles


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
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)

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
        loop.set_exception_handler(lambda *_: None)
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
trees = {name: role.tree.items() for name, role in run.roles.items()}
print(json.dumps({name: {"/".join(p): n.calls for p, n in tree} for name, tree in trees.items()}))
""",
        run_dir,
    )
    paths = {f"t{i}{inner}": 2 for i in range(3) for inner in ("", "/inner")}
    assert result == {"main": {"a": 2, "b": 1}, "sub": paths}

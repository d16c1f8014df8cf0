"""Phases of tasks that end elsewhere: in other tasks, on other threads, at signals, forks (B8)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from frameworks import (
    Finish,
    Main,
    Meeting,
    Paths,
    burn,
    calls,
    group,
    new_event,
    pause,
)

from lineprofiler.accounting import Profiler

if TYPE_CHECKING:
    from conftest import Child


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


def test_another_thread_exits_a_kept_handle_B8_B11(profiler: Profiler, finish: Finish) -> None:
    handle = profiler.phase("h")
    handle.__enter__()
    handle.__enter__()

    def closes() -> None:
        handle.__enter__()
        for _ in range(3):  # its own goes first
            handle.__exit__(None, None, None)

    closer = threading.Thread(target=closes)
    closer.start()
    closer.join()
    assert profiler.current() == ""
    with profiler.phase("after"):
        pass
    run = finish()
    assert calls(run) == {("h",): 2, ("h", "h"): 1, ("after",): 1}
    assert run.workers[0].troubles == {"foreign_exits": 2}


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

    threads = [threading.Thread(target=on_thread, name=f"t{i}") for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    run = finish()
    expected: Paths = {(f"t{i}",): 60 for i in range(4)}
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
tree = {"/".join(path): node.calls for path, node in run.tree.items()}
print(json.dumps([len(run.workers), tree]))
""",
        run_dir,
    )
    # What was open across the fork is the parent's alone.
    expected = {"handle": 10, "handle/inner": 10, "forks": 1, "in the child": 1}
    assert result == [2, expected]

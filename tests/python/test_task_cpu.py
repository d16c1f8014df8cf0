"""A task's phases count the CPU time of that task alone (B9).

Held against the thread's own CPU clock, read around the same code. What a phase burns is ten
tolerances, so that time that went to the wrong entry cannot hide in one. No test bounds wall time.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from frameworks import (
    ANY,
    BURN_NS,
    TOLERANCE_NS,
    Finish,
    Main,
    Meeting,
    burn,
    calls,
    cpu_of,
    group,
    pause,
    run_asyncio,
    run_trio,
    unplaced,
)

from lineprofiler.accounting import Profiler, merge_run

if TYPE_CHECKING:
    pass


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
    for run_dir, path in (
        (Path(profiler.path or "").parents[2], ("work",)),
        (
            tmp_path / "second",
            ("outer", "work"),
        ),
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
        sys.settrace(lambda frame, *_: entered.append(frame.f_code.co_name))
        try:
            with handle:
                profiler.count("n")
                profiler.current()
        finally:
            sys.settrace(None)

    run_any(main)
    # asyncio's dict of tasks asks for a loop's hash, too.
    assert set(entered) <= {"__hash__"}

"""Plays programs on a real profiler under a fake clock; a child process of test_model.py.

Each line read is a program as JSON, see programs.py; the line written for it says what came of each
operation. Run under LD_PRELOAD of fake_clock.c.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import gc
import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from lineprofiler import _core, accounting
from lineprofiler.accounting import Profiler

Order = Callable[[], Any]

FIRST_WALL_NS = 1_000_000_000_000

clock = ctypes.PyDLL(None)
clock.fake_clock_begin.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
clock.fake_clock_pass.argtypes = [ctypes.c_uint64, ctypes.c_uint64]


class Place:
    """Where things are done: the main thread."""

    def __init__(self) -> None:
        self.thread = self
        self.tasks: list[Task] = []

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    @cached_property
    def shared(self) -> contextvars.Context:
        """A context that several tasks run in."""
        return contextvars.copy_context()

    def do(self, order: Order) -> Any:
        return order()

    def finish_tasks(self) -> None:
        for task in self.tasks:
            task.finish()
        if "loop" in vars(self):
            self.loop.close()

    def end(self) -> None:
        self.do(self.finish_tasks)


class Worker(Place):
    """A thread that does one thing at a time, when it is told to."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.system_thread = threading.Thread(target=self.run, name=name, daemon=True)
        self.system_thread.start()

    def run(self) -> None:
        while (order := self.orders.get()) is not None:
            self.results.put(order())

    def do(self, order: Order) -> Any:
        self.orders.put(order)
        return self.results.get()

    def end(self) -> None:
        """End it, and wait until the system has: join() may return before."""
        super().end()
        task = f"/proc/self/task/{self.system_thread.native_id}"
        self.orders.put(None)
        self.system_thread.join()
        while os.path.exists(task):
            time.sleep(0)


class Task(Place):
    """A task of asyncio on a thread whose loop runs while the task does something only."""

    def __init__(self, thread: Place, shared: bool) -> None:
        self.thread = thread
        self.orders: asyncio.Queue[tuple[Order, asyncio.Future[Any]] | None] = asyncio.Queue()
        context = thread.shared if shared else None
        self.task = thread.loop.create_task(self.run(), context=context)
        thread.tasks.append(self)

    async def run(self) -> None:
        while (ordered := await self.orders.get()) is not None:
            order, result = ordered
            result.set_result(order())
            del order, ordered

    def do(self, order: Order) -> Any:
        return self.thread.do(lambda: self.step(order))

    def step(self, order: Order) -> Any:
        result = self.thread.loop.create_future()
        self.orders.put_nowait((order, result))
        return self.thread.loop.run_until_complete(result)

    def finish(self) -> None:
        """On its thread. What is open in it stays open."""
        self.orders.put_nowait(None)
        self.thread.loop.run_until_complete(self.task)


def steps(phases: list[Any]) -> Iterator[None]:
    """Enter one phase more with each step, and then leave one with each."""
    with phases[0]:
        yield
        if phases[1:]:
            yield from steps(phases[1:])
            yield


def outcome(function: Callable[[], Any]) -> Any:
    """Return what a function returned, or the name of what it raised."""
    try:
        return function()
    except Exception as error:
        return " ".join([type(error).__name__, *map(str, error.args)])


class Holder:
    """What a program keeps to leave what it entered. Forgotten when dropped."""

    def __init__(self, way: str, phases: list[Any]) -> None:
        self.way = way
        self.box: list[Any] = []
        if way == "call":
            for phase in phases:
                phase.__enter__()
            self.box = phases
        elif way == "bound":
            for phase in phases:
                enter, leave = phase.__enter__, phase.__exit__
                enter()
                self.box.append(leave)
        elif way == "stack":
            stack = contextlib.ExitStack()
            for phase in phases:
                stack.enter_context(phase)
            self.box = [stack]
        else:
            self.box = [steps(phases)]

    def advance(self) -> bool:
        return next(self.box[0], "ended") is None

    def leave(self, how: str) -> Any:
        if how == "cycle":
            self.box.append(self.box)
        if how in ("drop", "cycle"):
            while self.way in ("call", "bound") and self.box:
                self.box.pop()
            del self.box
            return gc.collect() if how == "cycle" else None
        if self.way == "generator":
            return self.box[0].close() if how == "exit" else self.box[0].throw(ValueError())
        if self.way == "stack":
            return self.box[0].__exit__(*self.reason(how))
        exits = [one.__exit__ if self.way == "call" else one for one in self.box]
        return any(leave(*self.reason(how)) for leave in reversed(exits))

    @staticmethod
    def reason(how: str) -> tuple[Any, Any, Any]:
        return (None, None, None) if how == "exit" else (ValueError, ValueError(), None)


class Player:
    """One program."""

    def __init__(self, folder: str, measure_cpu: bool, thread_names: bool, installed: bool) -> None:
        self.folder = folder
        self.profiler = Profiler(
            os.path.join(folder, "run"),
            install=installed,
            measure_cpu=measure_cpu,
            thread_names=thread_names,
            snapshot_interval_s=None,
            sample_interval_s=None,
        )
        self.api: Any = accounting if installed else self.profiler
        self.places: dict[str, Place] = {"main": Place()}
        self.handles: dict[tuple[str, float], Any] = {}
        self.holders: dict[int, Holder] = {}
        self.copies = 0

    def play(self, operations: list[list[Any]]) -> list[Any]:
        outcomes = []
        for verb, place, *rest in operations:
            if hasattr(self, f"make_{verb}"):
                outcomes.append(getattr(self, f"make_{verb}")(place, *rest))
                continue

            def order(verb: str = verb, rest: list[Any] = rest) -> Any:
                return outcome(lambda: getattr(self, verb)(*rest))

            outcomes.append(self.places[place].do(order))
        return outcomes

    def clear(self) -> None:
        for place in self.places.values():
            if place.thread is place:
                place.end()
        self.holders.clear()
        self.handles.clear()

    def make_start(self, place: str, name: str) -> None:
        self.places[place] = Worker(name)

    def make_end(self, place: str) -> None:
        self.places.pop(place).end()

    def make_task(self, place: str, task: str, shared: bool) -> None:
        parent = self.places[place]

        def make() -> None:
            self.places[task] = Task(parent.thread, shared)

        parent.do(make)

    def make_finish(self, place: str) -> None:
        task = self.places.pop(place)
        assert isinstance(task, Task)
        task.thread.tasks.remove(task)
        task.thread.do(task.finish)

    def pass_time(self, wall_ns: int, cpu_ns: int) -> None:
        clock.fake_clock_pass(wall_ns, cpu_ns)

    def phases(self, names: list[str], kept: bool, sample: float = 1.0) -> list[Any]:
        if kept:
            for name in names:
                if (name, sample) not in self.handles:
                    self.handles[name, sample] = self.phase(name, sample)
            return [self.handles[name, sample] for name in names]
        return [self.phase(name, sample) for name in names]

    def phase(self, name: str, sample: float) -> Any:
        return self.api.phase(name) if sample == 1 else self.api.phase(name, sample=sample)

    def enter(
        self, number: int, way: str, names: list[str], kept: bool, sample: float, apart: bool
    ) -> None:
        def enter() -> None:
            self.holders[number] = Holder(way, self.phases(names, kept, sample))
            if way == "generator":
                self.holders[number].advance()

        contextvars.copy_context().run(enter) if apart else enter()

    def advance(self, number: int) -> bool:
        return self.holders[number].advance()

    def leave(self, number: int, how: str) -> Any:
        result = self.holders.pop(number).leave(how)
        return None if how == "cycle" else result

    def block(
        self, names: list[str], kept: bool, wall_ns: int, cpu_ns: int, error: bool = False
    ) -> None:
        clock.fake_clock_pass(wall_ns, cpu_ns)
        if not names:
            if error:
                raise ValueError
            return
        with self.phases(names[:1], kept)[0]:
            self.block(names[1:], kept, wall_ns, cpu_ns, error)
            clock.fake_clock_pass(wall_ns, cpu_ns)

    def count(self, name: str, n: int) -> None:
        self.api.count(name, n)

    def current(self) -> str:
        return str(self.api.current())

    def copy(self) -> str:
        """Return where a copy of the worker's file is to stand, in a run directory of its own."""
        copied = f"copy {self.copies}"
        self.copies += 1
        path = os.path.join(
            self.folder, copied, os.path.relpath(str(self.profiler.path), self.profiler.run_dir)
        )
        os.makedirs(os.path.dirname(path))
        return path

    def snapshot(self) -> None:
        self.profiler.snapshot()
        shutil.copyfile(str(self.profiler.path), self.copy())

    def document(self) -> None:
        document = self.profiler.document()
        assert document is not None
        with open(self.copy(), "wb") as file:
            file.write(document)

    def close(self) -> None:
        self.profiler.close()


def main() -> None:
    threading.current_thread().name = "main"
    gc.disable()
    gc.freeze()
    if clock.fake_clock_begin(os.fsencode(_core.__file__), FIRST_WALL_NS) != 0:
        sys.exit("the fake clock is not loaded, or does not see the extension")
    for line in sys.stdin:
        program = json.loads(line)
        operations = program.pop("operations")
        player = Player(**program)
        outcomes = player.play(operations)
        player.clear()
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main()

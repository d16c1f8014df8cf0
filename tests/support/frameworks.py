"""What tests of tasks share: the frameworks, and a clock to hold figures against."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from lineprofiler.accounting import Run

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
    # Debugging, a loop keeps a traceback of each call that it schedules: CPU time of the task's.
    with asyncio.Runner(debug=False, loop_factory=loop_factory) as runner:
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
    options = {} if backend == "trio" else {"debug": False}
    need("anyio").run(main, backend=backend, backend_options=options)


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

"""Starting, watching and ending the processes of a run.

Whatever happens - the run ends well, a process dies, someone presses Ctrl-C - nothing is left
running: the launcher ends its children, and a child ends when its launcher is gone.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from types import TracebackType
from typing import Any

GRACE_S = 2.0
"""How long a child may take to end when it is told to."""


class ChildFailedError(Exception):
    """A process of the run ended before its work was done."""


class Crew:
    """The children of one launcher. On leaving the `with` block all of them have ended."""

    def __init__(self, context: SpawnContext) -> None:
        self._context = context
        self._members: list[SpawnProcess] = []
        self._working: list[SpawnProcess] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.terminate()
        for member in self._members:
            member.join(GRACE_S)
            if member.is_alive():
                member.kill()
                member.join()

    def start(self, name: str, work: Callable[..., None], *arguments: Any) -> None:
        """Run `work` in a new process."""
        process = self._context.Process(
            target=_follow_launcher, args=(work, *arguments), name=name, daemon=True
        )
        with _interrupts_held_back():
            process.start()
            self._members.append(process)
            self._working.append(process)

    def pids(self) -> dict[str, int | None]:
        return {member.name: member.pid for member in self._members}

    def wait(self, timeout_s: float) -> bool:
        """Have all children finished their work? Look again whenever one ends or time is up."""
        connection.wait([member.sentinel for member in self._working], timeout_s)
        for member in [member for member in self._working if not member.is_alive()]:
            self._working.remove(member)
            if member.exitcode:
                raise ChildFailedError(f"{member.name} {_how_it_ended(member.exitcode)}")
        return not self._working


def _how_it_ended(exit_code: int) -> str:
    if exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"failed with exit code {exit_code}"


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Children inherit the mask: Ctrl-C reaches the launcher alone, which then ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_launcher(work: Callable[..., None], *arguments: Any) -> None:
    """A child's main function: work, but never longer than the launcher lives."""
    threading.Thread(target=_end_after_launcher, daemon=True).start()
    work(*arguments)


def _end_after_launcher() -> None:
    launcher = parent_process()
    assert launcher is not None
    launcher.join()
    os.kill(os.getpid(), signal.SIGTERM)

"""Closes profilers that nobody closed, in all ways in which a Python process ends.

Holds also the lock under which a process joins a run, which a fork must not leave taken.

Costs one atexit hook while there is an open profiler, and one fork hook for ever: that one cannot
be taken back, and does nothing where no profiler is open.

Children of multiprocessing end by os._exit() and, before 3.13, do not run atexit; they run the
finalizers of multiprocessing.util, but forget those that they inherited. So a finalizer is made
anew in each child, and multiprocessing is never imported for it: a child of it has it loaded.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import RLock
from _weakref import ref  # as weakref has it, which is written in Python and loads more

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Closable(Protocol):
        """What is closed."""

        def close(self) -> None:
            """Close it; further calls do nothing."""

        def set_child_index(self, index: int | None, /) -> None:
            """Say which of its role a forked child is."""


# The last finalizers of all: a queue's feeder thread is joined by one of priority -5.
_PRIORITY = -100


class _Watch:
    """An open profiler, and its finalizer in this process if it is a child of multiprocessing."""

    __slots__ = ("finalizer", "reference", "registered")

    def __init__(self, profiler: Closable) -> None:
        self.reference = ref(profiler)
        self.registered = False
        self.finalizer: Any = None


_watches: dict[int, _Watch] = {}
_hooked_fork = False
_joining = RLock()
_called_before_forks: set[Any] = set()


def watch(profiler: Closable) -> None:
    """Have the profiler closed at the end of the process, and of forked children."""
    if not _watches:
        atexit.register(_close_all)
    _hook_forks()
    _watches[id(profiler)] = _Watch(profiler)
    _tell_multiprocessing(profiler)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _finalize_with_process(profiler)


def forget(profiler: Closable) -> None:
    """Take the hooks back, once."""
    found = _watches.pop(id(profiler), None)
    if found is None:
        return
    if found.finalizer is not None:
        found.finalizer.cancel()
    if not _watches:
        atexit.unregister(_close_all)


def joining() -> RLock:
    """Return the lock that a thread holds while it makes this process a worker of a run."""
    _hook_forks()
    return _joining


def _hook_forks() -> None:
    global _hooked_fork
    if not _hooked_fork:
        os.register_at_fork(after_in_child=_after_fork_in_child)
        _hooked_fork = True


def call_before_forks(function: Callable[[], None]) -> None:
    """Have it called before each fork of this process from now on, once however often asked."""
    if function not in _called_before_forks:
        os.register_at_fork(before=function)
        _called_before_forks.add(function)


def watched() -> list[Closable]:
    """Return the open profilers, the oldest first."""
    found = [watch.reference() for watch in _watches.values()]
    return [profiler for profiler in found if profiler is not None]


def in_fork_server() -> bool:
    """Whether this process only serves to be forked, and is no worker of any run.

    It may import the program's modules, and with them make the profiler that its children use.
    """
    if not any("multiprocessing.forkserver import main" in text for text in sys.orig_argv):
        return False
    process = sys.modules.get("multiprocessing.process")
    return process is None or process.parent_process() is None


def process_number() -> int | None:
    """Return the number in which the name of this process of multiprocessing ends, or None."""
    process = sys.modules.get("multiprocessing.process")
    name = process.current_process().name if process is not None else ""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) < 10 else None


def _close_all() -> None:
    for profiler in reversed(watched()):
        profiler.close()


def _close(reference: ref[Closable]) -> None:
    profiler = reference()
    if profiler is not None:
        profiler.close()


def _after_fork_in_child() -> None:
    global _joining
    _joining = RLock()  # a thread that is not here may have held it
    for profiler in watched():
        _tell_multiprocessing(profiler)


def _tell_multiprocessing(profiler: Closable) -> None:
    """Have a finalizer made in each child, when multiprocessing has forgotten its parent's."""
    util = sys.modules.get("multiprocessing.util")
    found = _watches[id(profiler)]
    if util is not None and not found.registered:
        util.register_after_fork(profiler, _begin_in_child)
        found.registered = True


def _begin_in_child(profiler: Closable) -> None:
    """Do what only the process that multiprocessing made of the fork can: it has a name now."""
    profiler.set_child_index(process_number())
    _finalize_with_process(profiler)


def _finalize_with_process(profiler: Closable) -> None:
    found = _watches.get(id(profiler))
    util = sys.modules.get("multiprocessing.util")
    if found is None or util is None:
        return
    if found.finalizer is not None:
        found.finalizer.cancel()
    found.finalizer = util.Finalize(None, _close, args=(found.reference,), exitpriority=_PRIORITY)

"""Phases with something around each entry: annotations, or a heavy profiler for a window.

A profiler with such options has its phases made over by `Hooks.wrap` (src/python/wrap.c); all
others never come here. What is handed out behaves as a Phase does: it may be kept, and entered
several times at once on several threads and tasks, each exit closing what its own entry opened.
"""

from __future__ import annotations

import contextlib
from _thread import get_ident

from lineprofiler import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from lineprofiler._annotate import Annotation, Range
    from lineprofiler._backend import Window
    from lineprofiler.accounting import Profiler

_ENTER, _EXIT, _BOTH = 1, 2, 3


def make_hooks(annotate: object, backend: object, window: object, phase_name: object) -> Hooks:
    """Check these options of a Profiler; TypeError, ValueError."""
    if not isinstance(annotate, bool):
        raise TypeError(f"annotate must be bool, not {type(annotate).__name__}")
    annotation = opened = None
    if annotate:
        from lineprofiler._annotate import Annotation

        annotation = Annotation()
    if backend is not None:
        from lineprofiler._backend import make_window

        opened = make_window(backend, window, phase_name)
    return Hooks(annotation, opened)


class Hooks:
    """What happens around the entries of one profiler's phases, in each process that it is in."""

    __slots__ = ("annotation", "closed", "window")

    def __init__(self, annotation: Annotation | None, window: Window | None) -> None:
        self.annotation = annotation
        self.window = window
        self.closed = False

    def attach(self, recorder: _core.Recorder) -> None:
        """Have this recorder's phases wrapped: all, or those whose entries are counted."""
        if self.annotation is None and self.window is not None:
            recorder.wrap_phases(self.wrap, self.window.phase_name)
        else:
            recorder.wrap_phases(self.wrap)

    def close(self, profiler: Profiler) -> None:
        """Do nothing more, and end what is open; the profiler is about to be closed."""
        if self.window is not None:
            with contextlib.suppress(Exception):
                self.window.close(profiler)
        if self.annotation is not None:
            self.annotation.close(profiler)
        self.closed = True

    def wrap(self, phase: _core.Phase) -> WrappedPhase:
        """Return what stands for the phase."""
        return WrappedPhase(phase, self)

    def open(self, phase: _core.Phase, name: str) -> Opened:
        """Enter the phase, and whatever belongs around it first."""
        ranges: tuple[Range, ...] = ()
        if not self.closed:
            window = self.window
            if window is not None and name == window.phase_name:
                with contextlib.suppress(Exception):  # its own errors it has noted
                    phase = window.entering(phase)
            if self.annotation is not None:
                ranges = self.annotation.begin(name)
        enter, leave = phase.__enter__, phase.__exit__
        opened = Opened(leave, ranges, self)
        enter()
        return opened


class Opened:
    """One entry that was opened."""

    __slots__ = ("_hooks", "_leave", "_ranges")

    def __init__(
        self, leave: Callable[[None, None, None], None], ranges: tuple[Range, ...], hooks: Hooks
    ) -> None:
        self._leave = leave
        self._ranges = ranges
        self._hooks = hooks

    def close(self) -> None:
        """Leave the phase, and then what is around it."""
        self._leave(None, None, None)
        self._end_ranges()

    def _end_ranges(self) -> None:
        ranges, self._ranges = self._ranges, ()
        if ranges and self._hooks.annotation is not None:
            self._hooks.annotation.end(ranges)

    def __del__(self) -> None:
        self._end_ranges()  # nobody can close it any more; the phase's own entry sees to itself


class _Entry:
    """What `with` gets: one object for both of its sides, see src/python/boundary.c."""

    __slots__ = ("_opened", "_wrapped", "sides")

    def __init__(self, wrapped: WrappedPhase) -> None:
        self._wrapped = wrapped
        self._opened: Opened | None = None
        self.sides = 0

    def enter(self) -> WrappedPhase:
        wrapped = self._wrapped
        wrapped._pending.pop(get_ident(), None)
        if self.sides == _BOTH and self._opened is None:
            self._opened = wrapped._open()
        else:
            wrapped._enter_loose()
        return wrapped

    def leave(self, *_exception: object) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
        else:
            self._wrapped._leave_loose()


class _Boundary:
    """A descriptor: WrappedPhase.__enter__ or __exit__."""

    __slots__ = ("_side",)

    def __init__(self, side: int) -> None:
        self._side = side

    def __get__(self, wrapped: WrappedPhase | None, owner: object = None) -> Callable[..., Any]:
        if wrapped is None:
            return self
        entry = wrapped._hand_out(self._side)
        return entry.enter if self._side == _ENTER else entry.leave

    def __call__(self, wrapped: WrappedPhase, *_exception: object) -> WrappedPhase | None:
        """Act as a function of the class, which is contextlib.ExitStack's way."""
        if self._side == _ENTER:
            wrapped._enter_loose()
            return wrapped
        wrapped._leave_loose()
        return None


class WrappedPhase:
    """Stands for a Phase; a context manager that measures its body."""

    __slots__ = ("__weakref__", "_hooks", "_loose", "_pending", "name", "phase")

    def __init__(self, phase: _core.Phase, hooks: Hooks) -> None:
        self.phase = phase
        self.name = phase.name
        self._hooks = hooks
        self._pending: dict[int, _Entry] = {}
        self._loose: list[tuple[int, Opened]] = []

    if TYPE_CHECKING:

        def __enter__(self) -> Self: ...
        def __exit__(self, *exception: object) -> None: ...

    else:
        __enter__ = _Boundary(_ENTER)
        __exit__ = _Boundary(_EXIT)

    def _hand_out(self, side: int) -> _Entry:
        """Return the entry of this thread that was handed out for the other side, or a new one."""
        thread = get_ident()
        entry = self._pending.get(thread)
        if entry is None or entry.sides & side:
            entry = self._pending[thread] = _Entry(self)
        entry.sides |= side
        if entry.sides == _BOTH or side == _EXIT:
            del self._pending[thread]
        return entry

    def _open(self) -> Opened:
        return self._hooks.open(self.phase, self.name)

    def _enter_loose(self) -> None:
        opened = self._open()
        self._loose.append((get_ident(), opened))

    def _leave_loose(self) -> None:
        """Close the last one of this thread, else the last one."""
        thread = get_ident()
        loose = self._loose
        at = next((i for i in reversed(range(len(loose))) if loose[i][0] == thread), -1)
        if loose:
            loose.pop(at)[1].close()

    def __reduce__(self) -> tuple[Any, ...]:
        from lineprofiler import _pickling

        return _pickling.reduce_phase(self.phase)

    def __repr__(self) -> str:
        return repr(self.phase)


def unwrapped(phase: Any) -> _core.Phase:
    """Return the Phase itself, whether it was made over or not."""
    found: _core.Phase = phase.phase if isinstance(phase, WrappedPhase) else phase
    return found

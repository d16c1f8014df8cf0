"""A heavy profiler - torch's, VizTracer, JAX's - for a bounded window of a worker's iterations.

Entries into one phase are counted in each process by itself. The tool starts at entering the
start-th and stops at entering the end-th, or at close(); what it wrote lies below
``<run_dir>/backend/`` beside a note (docs/format.md) of what became of the window. Starting and
exporting is time of the phases lineprofiler/backend/start and .../export, and entries inside the
window are a phase of their own, as "iteration [torch]": the tool slows them down.

Of all such tools in a process one can be at work, whoever started it: they contend for the
interpreter's hooks. What fails is noted and warned of, and never reaches the program.
"""

from __future__ import annotations

import builtins
import contextlib
import enum
import gc
import os
import sys
import warnings
from _thread import RLock, get_ident

from lineprofiler import _core
from lineprofiler._backend_files import Files
from lineprofiler._backend_tools import TOOLS, missing
from lineprofiler._wrapped import unwrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lineprofiler._backend_tools import Tool
    from lineprofiler.accounting import Profiler


class Backend(enum.StrEnum):
    """A heavy profiler, of which a Profiler can have one."""

    TORCH = "torch"
    VIZTRACER = "viztracer"
    JAX = "jax"


_here = os.path.dirname(__file__)
_lock = RLock()
_running: Window | None = None  # of this process; guarded by _lock
_hooked_fork = False


def make_window(backend: object, window: object, phase_name: object) -> Window:
    """Check the options of a Profiler and return its window.

    TypeError, ValueError: one is not what it should be.
    """
    if not isinstance(backend, str):
        raise TypeError(f"backend must be one of {_names()}, not {type(backend).__name__}")
    if backend not in list(Backend):
        raise ValueError(f"backend must be one of {_names()}, not {backend!r}")
    if not isinstance(phase_name, str):
        raise TypeError(f"window_phase must be str, not {type(phase_name).__name__}")
    if not phase_name:
        raise ValueError("window_phase must not be empty")
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise TypeError(f"backend_window must be (start, end), not {window!r}")
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in window):
        raise TypeError(f"backend_window must be two integers, not {window!r}")
    start, end = window
    if not 1 <= start < end:
        raise ValueError(f"backend_window must be (start, end), 1 <= start < end, not {window!r}")
    return Window(str(Backend(backend)), start, end, phase_name)


def _names() -> str:
    return ", ".join(f'"{name}"' for name in Backend)


class Window:
    """The window of one profiler: in each process that the profiler is in, one of its own."""

    def __init__(self, backend: str, start: int, end: int, phase_name: str) -> None:
        self.backend = backend
        self.phase_name = phase_name
        self._start = start
        self._end = end
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._counting = RLock()  # guards the next three; held for a moment only
        self._entered = 0
        self._tool: Tool | None = None
        self._over = False
        self._started: tuple[int, Tool] | None = None  # on which thread, until that has settled
        self._failed: list[str] = []
        self._files: Files | None = None

    # --- called by the profiler ---

    def look(self, profiler: Profiler) -> None:
        """Say at once, when the profiler is made, that the package is missing (M2)."""
        reason = missing(self.backend)
        if reason is not None:
            self._unavailable(profiler, reason)

    def entering(self, phase: _core.Phase) -> _core.Phase:
        """Count an entry; start or stop what is due, and return the phase to enter."""
        if self._pid != os.getpid():
            self._renew()
        with self._counting:
            self._entered = n = self._entered + 1
        if self._over and self._started is not None:
            self._settle()
        if n >= self._start and not self._over:
            profiler: Any = _core.phase_parts(phase)[0]
            if n == self._start:
                self._begin(profiler)
            elif n >= self._end:
                self._finish(profiler, "")
        return phase if self._tool is None else self._marked(phase)

    def close(self, profiler: Profiler) -> None:
        """End the window if it is open, and note it if there was none."""
        if self._pid != os.getpid() or self._over:
            return
        seen = f"was entered {self._entered} times" if self._entered else "was never entered"
        if self._entered == 1:
            seen = "was entered once"
        self._finish(profiler, f'"{self.phase_name}" {seen} before the profiler was closed')
        with _lock:
            if not self._over:
                self._over = True
                self._note(profiler, "none", f'"{self.phase_name}" {seen}')

    # --- the window ---

    def _begin(self, profiler: Profiler) -> None:
        with _own_phase(profiler, "start"), _lock:
            if not self._over:
                self._start_tool(profiler)

    def _start_tool(self, profiler: Profiler) -> None:
        """Start it; otherwise note why not."""
        global _running
        reason = missing(self.backend)
        if reason is not None:
            self._unavailable(profiler, reason)
            return
        other = "the window of another profiler" if _running is not None else another_tool()
        if other is not None:
            only = "is at work in this process already, and only one heavy profiler can be"
            self._refuse(profiler, f"{other} {only}")
            return
        begun = None
        try:
            tool = TOOLS[self.backend]()
            path = self._open_files(profiler).temporary
            begun = tool
            tool.start(path)
        except ImportError as error:
            self._unavailable(profiler, _say(error))
        except BaseException as error:
            if begun is not None:
                with contextlib.suppress(Exception):  # it may be at work all the same
                    begun.stop()
            self._failed.append(_say(error))
            self._refuse(profiler, f"could not be started: {_say(error)}")
            if not isinstance(error, Exception):  # the program's: a KeyboardInterrupt, an exit
                raise
        else:
            _see_forks()
            _running = self
            self._tool = tool
            self._started = (get_ident(), tool)
            self._note(profiler, "open", "")

    def _finish(self, profiler: Profiler, remark: str) -> None:
        """Stop the tool, if it is at work and no other thread does so meanwhile."""
        with self._counting:
            tool, self._tool = self._tool, None
            self._over = self._over or tool is not None
        if tool is not None:
            with _own_phase(profiler, "export"), _lock:
                self._stop_tool(profiler, tool, remark)

    def _stop_tool(self, profiler: Profiler, tool: Tool, remark: str) -> None:
        global _running
        files = self._open_files(profiler)
        try:
            tool.stop()
            _running = None
            tool.export(files.temporary)
            files.publish()
        except BaseException as error:
            _running = None
            self._failed.append(_say(error))
            files.discard()
            self._refuse(profiler, f"could not be written: {_say(error)}")
            if not isinstance(error, Exception):
                raise
        else:
            self._note(profiler, "written", remark)

    def _settle(self) -> None:
        started = self._started
        if started is not None and self._tool is None and started[0] == get_ident():
            self._started = None
            started[1].settle()

    def _open_files(self, profiler: Profiler) -> Files:
        if self._files is None:
            name, suffix = TOOLS[self.backend].artifact
            self._files = Files(profiler.run_dir, profiler.worker or "", name, suffix)
        return self._files

    def _marked(self, phase: _core.Phase) -> _core.Phase:
        """Return the phase that entries inside the window are recorded as."""
        recorder, options = _core.phase_parts(phase)
        if recorder is None:
            return phase
        return unwrapped(recorder.phase(f"{self.phase_name} [{self.backend}]", **options))

    # --- what became of it ---

    def _unavailable(self, profiler: Profiler, reason: str) -> None:
        try:
            profiler.note_in_metadata("backend", self.backend)
            profiler.note_in_metadata("unavailable_reason", reason)
        except Exception as error:
            self._failed.append(_say(error))
        self._refuse(profiler, reason)

    def _refuse(self, profiler: Profiler, reason: str) -> None:
        self._over = True
        self._note(profiler, "none", reason)
        _warn(f"no {self.backend} window in this process: {reason}")

    def _note(self, profiler: Profiler, state: str, reason: str) -> None:
        written = state == "written"
        try:
            files = self._open_files(profiler)
            files.note(
                {
                    "run_id": profiler.run_id,
                    "role": profiler.role,
                    "backend": self.backend,
                    "window_phase": self.phase_name,
                    "window": [self._start, self._end],
                    "entries": self._entered,
                    "state": state,
                    "artifact": files.artifact if written else None,
                    "bytes": files.size_bytes() if written else None,
                    "reason": reason or None,
                    "errors": len(self._failed),
                    "error": self._failed[-1] if self._failed else None,
                }
            )
        except Exception as error:
            self._failed.append(_say(error))
            _warn(f"what became of the {self.backend} window could not be noted: {_say(error)}")

    def _forget_in_child(self) -> None:
        """After a fork: the tool that came along belongs to the parent."""
        tool = self._tool
        self._renew()
        self._pid = 0  # nobody's, until the child has entered the phase and is a worker of its own
        if tool is not None:
            try:
                tool.abandon()
            except Exception as error:
                self._failed.append(_say(error))


def another_tool() -> str | None:
    """Return the name of a heavy profiler that the program runs in this process, or None."""
    monitoring = getattr(sys, "monitoring", None)
    tool = monitoring.get_tool(monitoring.PROFILER_ID) if monitoring is not None else None
    function = sys.getprofile()
    if tool is not None:
        return str(tool)
    if function is not None:
        kind = function if hasattr(function, "__qualname__") else type(function)
        return f"{kind.__module__}.{kind.__qualname__}"
    if getattr(getattr(builtins, "__viz_tracer__", None), "enable", False):
        return "viztracer"
    if getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", False):
        return "torch.profiler"
    if _torch_warms_up():
        return "torch.profiler, in the warmup of its schedule,"
    state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
    sessions = (getattr(state, name, None) for name in ("session", "profile_session"))
    return "jax.profiler" if any(session is not None for session in sessions) else None


def _torch_warms_up() -> bool:
    """Return whether a torch.profiler of the program is about to record.

    It counts as none yet, but one that starts and stops beside it takes away what it has prepared,
    and the process ends by a segmentation fault. Only its own object knows.
    """
    module = sys.modules.get("torch.profiler.profiler")
    kind = getattr(module, "profile", None)
    warmup = getattr(getattr(module, "ProfilerAction", None), "WARMUP", None)
    if not isinstance(kind, type) or warmup is None:
        return False
    return any(
        issubclass(type(thing), kind)
        and getattr(thing, "current_action", None) == warmup
        and getattr(thing, "profiler", None) is not None  # it has begun
        for thing in gc.get_objects()
    )


class _own_phase:  # noqa: N801
    """A phase in which the time is that of a tool, and not the program's."""

    def __init__(self, profiler: Profiler, what: str) -> None:
        names = ("lineprofiler", "backend", what)
        self._phases = [unwrapped(profiler.phase(name)) for name in names]
        self._leave: list[Any] = []

    def __enter__(self) -> None:
        for phase in self._phases:
            enter, leave = phase.__enter__, phase.__exit__
            with contextlib.suppress(RuntimeWarning):  # of too many paths
                enter()
                self._leave.append(leave)

    def __exit__(self, *exception: object) -> None:
        while self._leave:
            self._leave.pop()(None, None, None)


def _say(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:1000]


def _warn(text: str) -> None:
    """Warn the program, but not where warnings are exceptions: a trace is no reason to stop."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_here):
        level, frame = level + 1, frame.f_back
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=level)


def _see_forks() -> None:
    global _hooked_fork
    if not _hooked_fork:
        os.register_at_fork(after_in_child=_after_fork_in_child)
        _hooked_fork = True


def _after_fork_in_child() -> None:
    global _lock, _running
    _lock = RLock()  # another thread of the parent may have held it
    window, _running = _running, None
    if window is not None:
        window._forget_in_child()

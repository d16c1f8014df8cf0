"""Names of phases for other tools' traces: NVTX ranges, and torch's record_function.

Nothing is imported for it but the small package nvtx, where torch has no NVTX of its own; torch
only counts once the program has imported it. Ranges are begun and ended by their handles, not
pushed and popped: entries of generators and tasks end in any order, and on any thread.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lineprofiler.accounting import Profiler

    # How to end it, and what to hand over.
    Range = tuple[Callable[[Any], object], Any]
    Begin = Callable[[str], Range]


class Annotation:
    """Begins and ends ranges; what fails is counted, and never reaches the program."""

    __slots__ = ("_begins", "_torch", "error", "errors")

    def __init__(self) -> None:
        self.errors = 0
        self.error = ""
        self._torch: Any = None
        self._begins: list[Begin] | None = None

    def begin(self, name: str) -> tuple[Range, ...]:
        """Begin a range of that name for each tool that is there."""
        torch = sys.modules.get("torch")
        if self._begins is None or torch is not self._torch:
            self._find(torch)
        ranges: list[Range] = []
        for begin in self._begins or ():
            try:
                ranges.append(begin(name))
            except Exception as error:
                self._count(error)
        return tuple(ranges)

    def end(self, ranges: tuple[Range, ...]) -> None:
        """End them, the last one first."""
        for end, handle in reversed(ranges):
            try:
                end(handle)
            except Exception as error:
                self._count(error)

    def close(self, profiler: Profiler) -> None:
        """Say what failed, if anything did."""
        errors, self.errors = self.errors, 0
        if errors:
            text = f"annotations of phases failed, {errors} in all, the last one with {self.error}"
            with contextlib.suppress(Exception):
                profiler.note_in_metadata("annotate_error", text)
            with contextlib.suppress(RuntimeWarning):  # where warnings are exceptions
                warnings.warn(text, RuntimeWarning, stacklevel=5)

    def _find(self, torch: Any) -> None:
        """See what is there; again once the program has imported torch to the end."""
        begins = []
        spec = getattr(torch, "__spec__", None)
        if torch is not None and getattr(spec, "_initializing", False):
            torch = None
        nvtx = _torch_nvtx(torch) or _nvtx()
        if nvtx is not None:
            begins.append(nvtx)
        record = _record_function(torch)
        if record is not None:
            begins.append(record)
        self._torch, self._begins = torch, begins

    def _count(self, error: Exception) -> None:
        self.errors += 1
        self.error = f"{type(error).__name__}: {error}"


def _torch_nvtx(torch: Any) -> Begin | None:
    """Return torch's, if it was built with it."""
    if torch is None:
        return None
    try:
        nvtx = torch.cuda.nvtx
        start, end = nvtx.range_start, nvtx.range_end
        end(start("lineprofiler"))
    except Exception:  # a build without CUDA says so here
        return None
    return lambda name: (end, start(name))


def _nvtx() -> Begin | None:
    try:
        nvtx: Any = importlib.import_module("nvtx")
        start, end = nvtx.start_range, nvtx.end_range
    except Exception:  # not there, or not for this machine
        return None
    return lambda name: (end, start(name))


def _record_function(torch: Any) -> Begin | None:
    profiler = getattr(torch, "profiler", None)
    record_function = getattr(profiler, "record_function", None)
    if record_function is None:
        return None

    def begin(name: str) -> Range:
        entered = record_function(name)
        entered.__enter__()
        return _exit, entered

    return begin


def _exit(entered: Any) -> None:
    entered.__exit__(None, None, None)

"""What a line profiler has to show, for those who show it: figures, sources, and what to know."""

from __future__ import annotations

import os
import sys

from lineprofiler import _lines_source
from lineprofiler._record import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lineprofiler._lines_source import Signature, Source
    from lineprofiler.lines import FunctionStats, LineStats

__all__ = ["WAIT_FROM_NS", "View", "wait_share"]

WAIT_FROM_NS = 100_000
"""Of less time than this no share is told that was spent waiting: clocks are not that exact."""


COST_CHANGE = 1.5
"""From such a change on of what an event costs a reader is told."""


def wait_share(figures: LineStats | FunctionStats) -> float | None:
    """Return the part of the wall time, with calls, that its thread was on no CPU."""
    if figures.wall_ns < WAIT_FROM_NS:
        return None
    return figures.wait_ns / figures.wall_ns


def _cell_name(file: str) -> str:
    """Return what a notebook calls the cell that is kept under a file's name: In[3]; "": none."""
    ipython = sys.modules.get("IPython")
    try:
        found: Any = ipython.get_ipython().compile.format_code_name(file)  # type: ignore[union-attr]
        return str(found[1])
    except (AttributeError, IndexError, TypeError):  # no shell, another version's, or no cell
        return ""


class View(_Record):
    """The figures at one moment."""

    __slots__ = (
        "folder",
        "functions",
        "globs",
        "problems",
        "region",
        "running",
        "signatures",
        "sources",
        "switched_off",
        "totals",
    )
    folder: str
    functions: list[FunctionStats]
    """By file and first line."""
    globs: list[str]
    """Of functions: others were not measured."""
    problems: dict[tuple[str, str, int], str]
    """Those of `problem()` that are known."""
    region: str | None
    running: bool
    signatures: dict[str, Signature | None]
    sources: dict[str, Source]
    """Those that were read."""
    switched_off: str | None
    """What LINEPROFILER_ENABLED was where it forbade to measure."""
    totals: dict[str, Any]

    def source(self, file: str) -> Source:
        """Return the text of a file as it is now."""
        if file not in self.sources:
            self.sources[file] = _lines_source.read_source(file, self.signatures.get(file))
        return self.sources[file]

    def problem(self, function: FunctionStats) -> str:
        """Return why the source of a function cannot be shown; "" if it can."""
        key = (function.filename, function.function_name, function.first_line)
        if key not in self.problems:
            self.problems[key] = self.source(key[0]).problem(*key[1:], list(function.line_stats))
        return self.problems[key]

    def shown_path(self, file: str) -> str:
        """Return a file's path, below the project's folder if it is there; of a cell, its name."""
        folder = os.path.realpath(self.folder)
        for path in (file, os.path.realpath(file) if os.path.isabs(file) else file):
            if path.startswith(folder.rstrip("/") + "/"):
                return os.path.relpath(path, folder)
        return _cell_name(file) or file

    @property
    def self_ns(self) -> int:
        """The time of all lines, each moment of a thread once."""
        return sum(line.self_ns for each in self.functions for line in each.line_stats.values())

    def caveats(self) -> list[tuple[str, str]]:
        """Return what a reader must know before trusting the rest: a word and a sentence each."""
        found = []
        if self.running:
            found.append(("running", "The block is still running."))
        if not self.totals["complete"]:
            text = "Memory ran out: what ran after that is in no figure."
            found.append(("incomplete", text))
        change = self.totals["cost_change"]
        if change and not 1 / COST_CHANGE < change < COST_CHANGE:
            text = (
                f"At the end of the block an event cost {change:.1f} times what it did at the "
                "beginning: the machine was busy, and times of short lines are rough."
            )
            found.append(("costs", text))
        if self.totals["calls_missed"]:
            text = (
                "Another tool changed how the interpreter runs frames: calls that other code made "
                "meanwhile may be missing."
            )
            found.append(("evaluator", text))
        if self.totals["backend"] == "settrace":
            text = "Threads that ran before the block are not seen before Python 3.12."
            found.append(("threads", text))
        return found

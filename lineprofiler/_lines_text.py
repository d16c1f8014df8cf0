"""The figures of a line profiler as tables of text.

Numbers and labels are made by the native report's functions, so they read alike everywhere.
"""

from __future__ import annotations

import math
import operator

from lineprofiler import _nearest
from lineprofiler._core import show_duration, show_percent, show_share, show_text
from lineprofiler._lines_view import wait_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, SupportsFloat, SupportsIndex

    from lineprofiler._lines_view import View
    from lineprofiler.lines import FunctionStats, LineStats

    Cell = tuple[str, int]
    """A text as it is shown, and its columns."""

__all__ = [
    "AWAITED",
    "BACKENDS",
    "FIGURES",
    "TAB",
    "Chosen",
    "duration",
    "functions_text",
    "source_cell",
    "summary",
    "top_places",
    "top_text",
]

BACKENDS = {"monitoring": "sys.monitoring", "settrace": "a trace function"}
ORDERS = ("time", "hits", "line")
TAB = 8
SOURCE_LEAST = 32
WHERE_LEAST = 24
"""Columns of a line's source, and of its place, that are shown in any case."""


class Chosen:
    """Which lines to show, in which order: what a caller has asked for, checked."""

    __slots__ = ("min_ns", "n", "sort_by")

    def __init__(
        self,
        min_time_us: SupportsFloat,
        n: SupportsIndex | None,
        sort_by: str,
        name: str = "top_n_lines",
    ) -> None:
        self.min_ns = _microseconds(min_time_us) * 1000
        self.n = None if n is None else _number(name, n)
        if sort_by not in ORDERS:
            names = _nearest.nearest_names(sort_by, ORDERS) if isinstance(sort_by, str) else []
            near = _nearest.did_you_mean(map(repr, names), map(repr, ORDERS))
            raise ValueError(f"cannot sort by {_nearest.short_repr(sort_by)}{near}")
        self.sort_by = sort_by

    def cut(self, lines: list[Any], rank: Callable[[Any], Any]) -> list[Any]:
        """Return the first n of the lines, in the order of rank."""
        return sorted(lines, key=rank)[: self.n]


def _microseconds(value: SupportsFloat) -> float:
    if isinstance(value, str | bytes | bool) or not hasattr(value, "__float__"):
        raise TypeError(f"min_time_us must be a number, not {type(value).__name__}")
    number = float(value)
    if math.isnan(number) or number < 0:
        raise ValueError(f"min_time_us must not be negative: {number}")
    return number


def _number(name: str, value: SupportsIndex) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int or None, not {type(value).__name__}")
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{name} must not be negative: {number}")
    return number


# ---- cells -----------------------------------------------------------------


def duration(ns: float) -> str:
    """Return a time as it is shown everywhere: 9.4ms."""
    return show_duration(ns)


def _plain(text: str) -> Cell:
    return text, len(text)


def _wait(figures: LineStats | FunctionStats) -> str:
    share = wait_share(figures)
    return "" if share is None else show_percent(share)


def _figures(line: LineStats, awaits: bool) -> list[str]:
    found = [f"{line.hits:,}", duration(line.self_ns), duration(line.wall_ns), _wait(line)]
    if awaits:
        awaited = line.awaited_ns > 0
        found.append(duration(line.awaited_ns) if awaited else "")
        found.append(f"{line.most_awaiting:,}" if awaited else "")
    return found


FIGURES = ["hits", "self", "total", "wait"]
AWAITED = ["awaited", "at once"]


def _awaits(lines: Iterable[LineStats]) -> bool:
    return any(line.awaited_ns for line in lines)


def source_cell(view: View, function: FunctionStats, number: int) -> Cell:
    """Return a line of the source, or why there is none."""
    problem = view.problem(function)
    if problem:
        return show_text(f"({problem})")
    return show_text(view.source(function.filename).line(number).rstrip().expandtabs(TAB))


def _rows(rows: Sequence[Sequence[Cell]], width: int, left: Iterable[int] = ()) -> list[str]:
    """Lay out a table: columns two apart, the last one and those named at the left.

    The last one is cut where the rows would be longer than the width, but not below some columns.
    """
    n = len(rows[0])
    widths = [max(row[i][1] for row in rows) for i in range(n)]
    room = max(SOURCE_LEAST, width - sum(widths[:-1]) - 2 * (n - 1))
    lefts = {*left, n - 1}
    lines = []
    for row in rows:
        cells = []
        for i, (text, columns) in enumerate([*row[:-1], _cut(row[-1], room)]):
            space = " " * (widths[i] - columns)
            cells.append(text + space if i in lefts else space + text)
        lines.append("  ".join(cells).rstrip())
    return lines


def _cut(cell: Cell, columns: int) -> Cell:
    """Return what fits, with an ellipsis if that is not all."""
    text, taken = cell
    if taken <= columns:
        return cell
    text = text[: columns - 1]
    while (taken := show_text(text)[1]) > columns - 1:
        text = text[:-1]
    return f"{text}…", taken + 1


def _cut_front(text: str, columns: int) -> Cell:
    """Return its end, with an ellipsis before it if that is not all."""
    text, taken = show_text(text)
    if taken <= columns:
        return text, taken
    text = text[1 - columns :]
    while (taken := show_text(text)[1]) > columns - 1:
        text = text[1:]
    return f"…{text}", taken + 1


# ---- pages -----------------------------------------------------------------


def summary(view: View, width: int | None = None) -> list[str]:
    """Return the lines at the head of each page: how long, how exact, what to know.

    Sentences are wrapped to the width, if any; paths are not.
    """
    import textwrap

    totals = view.totals
    if view.switched_off is not None:
        return [f"Nothing was measured: LINEPROFILER_ENABLED is {view.switched_off!r}."]
    if not totals["wall_ns"] and not view.running:
        return ["Nothing was measured yet."]
    overhead = duration(max(0, totals["overhead_ns"]))
    head = f"Block {duration(totals['wall_ns'])}"
    head += f", of which ~{overhead} were the profiler's own and are in no figure below"
    folder, _ = show_text(view.folder)
    lines = [head, f"Measured by {BACKENDS[totals['backend']]} in {folder}"]
    if view.region is not None:
        lines.append(f"Only what was done in the region {show_text(view.region)[0]}")
    for _, text in view.caveats():
        lines += textwrap.wrap(text, width) if width else [text]
    return lines


def _nothing(view: View) -> list[str]:
    """Return why there are no figures, where the head does not say so."""
    if not view.totals["wall_ns"]:
        return []
    where = show_text(view.folder)[0]
    what = "no function that matches" if view.globs else "no code below"
    named = _nearest.listing(view.globs) if view.globs else where
    return ["", f"No figures: {what} {named} was run in the block."]


def _page(lines: list[str]) -> str:
    """Return them with a blank line behind, as another page may follow."""
    return "\n".join([*lines, "", ""])


def functions_text(view: View, chosen: Chosen, width: int) -> str:
    """Return the lines of each function."""
    lines = summary(view, width)
    shown = [(function, _shown_lines(function, chosen)) for function in view.functions]
    shown = [pair for pair in shown if pair[1]]
    if chosen.sort_by == "time":
        shown.sort(key=lambda pair: -pair[0].wall_ns)
    elif chosen.sort_by == "hits":
        shown.sort(key=lambda pair: -sum(line.hits for line in pair[1]))
    if not view.functions:
        lines += _nothing(view)
    elif not shown:
        lines += ["", "No line took as long." if chosen.n != 0 else "No line was asked for."]
    for function, some in shown:
        lines += ["", *_function(view, function, some, width)]
    return _page(lines)


def _shown_lines(function: FunctionStats, chosen: Chosen) -> list[LineStats]:
    lines = [line for line in function.line_stats.values() if line.wall_ns >= chosen.min_ns]
    if chosen.sort_by == "hits":
        return chosen.cut(lines, lambda line: (-line.hits, -line.wall_ns))
    lines = chosen.cut(lines, lambda line: (-line.wall_ns, line.line_number))
    return lines if chosen.sort_by == "time" else sorted(lines, key=lambda line: line.line_number)


def _calls(n: int) -> str:
    """Return how often it was called; nothing of what ran already when the block began."""
    return f"{n:,} call{'' if n == 1 else 's'}, " if n else ""


def _function(view: View, function: FunctionStats, lines: list[LineStats], width: int) -> list[str]:
    name, _ = show_text(function.function_name)
    where, _ = show_text(f"{view.shown_path(function.filename)}:{function.first_line}")
    title = f"{name}  {where}  {_calls(function.calls)}{duration(function.wall_ns)}"
    note = view.source(function.filename).note
    if note and not view.problem(function):
        title += f"  ({note})"
    awaits = _awaits(lines)
    names = ["line", *FIGURES, *(AWAITED if awaits else []), "source"]
    rows = [[_plain(name) for name in names]]
    sources = [source_cell(view, function, line.line_number) for line in lines]
    indent = min((_indent(text) for text, _ in sources if text), default=0)
    for line, (text, columns) in zip(lines, sources, strict=True):
        cells = [str(line.line_number), *_figures(line, awaits)]
        rows.append([*map(_plain, cells), (text[indent:], max(0, columns - indent))])
    return [title, *_rows(rows, width)]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


# ---- the hottest lines -----------------------------------------------------

Place = tuple["FunctionStats", "LineStats"]


def _by_time(place: Place) -> tuple[int, int]:
    return -place[1].self_ns, -place[1].wall_ns


def _by_hits(place: Place) -> tuple[int, int]:
    return -place[1].hits, -place[1].self_ns


def _by_line(place: Place) -> tuple[str, int, int]:
    function, line = place
    return function.filename, line.line_number, function.first_line


def top_places(view: View, chosen: Chosen) -> list[Place]:
    """Return the lines that were asked for, with their functions."""
    places = [
        (function, line)
        for function in view.functions
        for line in function.line_stats.values()
        if line.wall_ns >= chosen.min_ns
    ]
    if chosen.sort_by == "hits":
        return chosen.cut(places, _by_hits)
    hottest = chosen.cut(places, _by_time)
    return hottest if chosen.sort_by == "time" else sorted(hottest, key=_by_line)


def top_text(view: View, chosen: Chosen, width: int) -> str:
    """Return the hottest lines of all functions."""
    lines = summary(view, width)
    if not view.functions:
        return _page([*lines, *_nothing(view)])
    places = top_places(view, chosen)
    awaits = _awaits(line for _, line in places)
    names = ["share", "self", "total", "hits", "wait", *(AWAITED if awaits else [])]
    rows = [[_plain(name) for name in names]]
    all_ns = view.self_ns
    for _, line in places:
        hits, own, total, *others = _figures(line, awaits)
        cells = [_share(line.self_ns, all_ns), own, total, hits, *others]
        rows.append(list(map(_plain, cells)))
    totals = _totals(view, [line for _, line in places], all_ns, len(names))
    room = width - sum(max(row[i][1] for row in rows + totals) + 2 for i in range(len(names)))
    rows[0] += [_plain("where"), _plain("source")]
    for row, (function, line) in zip(rows[1:], places, strict=True):
        source, columns = source_cell(view, function, line.line_number)
        indent = _indent(source)
        where = _where(view, function, line, max(WHERE_LEAST, room - 2 - SOURCE_LEAST))
        row += [where, (source[indent:], columns - indent)]
    rows += totals
    return _page([*lines, "", *_rows(rows, width, left=[len(names)])])


def _lines(n: int, which: str = "") -> str:
    return f"{n:,} {which}line{'' if n == 1 else 's'}"


def _share(ns: int, all_ns: int) -> str:
    return show_share(ns / all_ns) if all_ns else ""


def _where(view: View, function: FunctionStats, line: LineStats, most: int) -> Cell:
    """Return file, line and function; of each the end if they take more columns than that."""
    place, columns = show_text(f"{view.shown_path(function.filename)}:{line.line_number}")
    name, more = show_text(function.function_name)
    if columns + 1 + more > most:
        place, columns = _cut_front(place, max(most // 2, most - 1 - more))
        name, more = _cut_front(name, most - 1 - columns)
    return f"{place} {name}", columns + 1 + more


def _totals(view: View, shown: list[LineStats], all_ns: int, n_figures: int) -> list[list[Cell]]:
    """Return the rows that make the shares add up: the lines that are not shown, and all."""
    n_all = sum(len(function.line_stats) for function in view.functions)
    rest_ns = all_ns - sum(line.self_ns for line in shown)
    rows = []
    if n_all > len(shown):
        rows.append((rest_ns, _lines(n_all - len(shown), "other ")))
    rows.append((all_ns, f"all {_lines(n_all)}, all threads"))
    return [
        [
            _plain(_share(ns, all_ns)),
            _plain(duration(ns)),
            *[_plain("")] * (n_figures - 2),
            _plain(what),
            _plain(""),
        ]
        for ns, what in rows
    ]

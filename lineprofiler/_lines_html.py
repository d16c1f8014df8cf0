"""One page with the annotated source of all files: no script, and nothing from elsewhere.

Each line of a file is a row. Where several code objects have figures for one line, as with a
lambda, those within the first have rows of their own below, for their times would not add up.
"""

from __future__ import annotations

import html

from lineprofiler import _core, _lines_text
from lineprofiler._core import show_percent, show_share, show_text
from lineprofiler._lines_view import wait_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lineprofiler._lines_source import Source
    from lineprofiler._lines_text import Place
    from lineprofiler._lines_view import View
    from lineprofiler.lines import FunctionStats

__all__ = ["page"]

HOTTEST = 15

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --dim: #6b7280; --rule: #d8dce1;
  --head: #f3f4f6; --heat: 224, 72, 24; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --text: #e4e6ea; --dim: #8b919b;
  --rule: #33373e; --head: #1f2227; --heat: 255, 110, 50; } }
body { margin: 2rem; background: var(--back); color: var(--text); font: 15px/1.45 sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .2rem 0; } .note { color: var(--dim); } a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font: 13px/1.4 monospace; }
th { background: var(--head); font-weight: normal; color: var(--dim); text-align: right;
  position: sticky; top: 0; }
td, th { padding: 0 .6rem; white-space: pre; text-align: right; vertical-align: top; }
td.s, th.s { text-align: left; }
td.n { color: var(--dim); border-right: 1px solid var(--rule); }
td.h { background: rgba(var(--heat), var(--share)); }
tr.never td.s { color: var(--dim); opacity: .6; }
tr.within td { color: var(--dim); }
tr.all td { border-top: 1px solid var(--rule); }
tr:target td { outline: 1px solid var(--text); }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(view: View) -> str:
    """Return the whole page."""
    title = f"Lines of {_shown(view.folder)}"
    files = _by_file(view)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        *(f"<p>{_shown(text)}</p>" for text in _lines_text.summary(view)),
        f'<p class="note">lineprofiler {_shown(_core.__version__)}. hits: how often the line was '
        "begun; self: time in it without other lines of the project that it called; total: with "
        "them; wait: the part of total in which the thread was on no CPU; awaited: how long "
        "coroutines were suspended in the line, in no other figure; at once: how many at most. The "
        "warmer a line, the nearer its self is to that of the hottest line of the page. Within a "
        "line: another function's part of it. Grey lines have code that was not reached in the "
        "block.</p>",
    ]
    if files:
        parts += _hottest(view, files)
    most_ns = max((line.self_ns for _, line in _places(view.functions)), default=0)
    for number, (file, functions) in enumerate(files.items()):
        parts += _file(view, number, file, functions, most_ns)
    return "\n".join([*parts, "</body></html>", ""])


def _shown(text: str) -> str:
    """Return a text as it may stand anywhere in the page."""
    return html.escape(show_text(text)[0])


def _places(functions: list[FunctionStats]) -> Iterator[Place]:
    for function in functions:
        for line in function.line_stats.values():
            yield function, line


def _by_file(view: View) -> dict[str, list[FunctionStats]]:
    files: dict[str, list[FunctionStats]] = {}
    for function in view.functions:
        files.setdefault(function.filename, []).append(function)
    return files


# ---- cells -----------------------------------------------------------------


def _cell(text: str) -> str:
    return f"<td>{html.escape(text)}</td>"


def _heat(text: str, share: float) -> str:
    return f'<td class="h" style="--share:{0.75 * share**0.5:.2f}">{html.escape(text)}</td>'


def _figures(place: Place, most_ns: int, awaits: bool) -> list[str]:
    _, line = place
    share = wait_share(line)
    cells = [
        _cell(f"{line.hits:,}"),
        _heat(_lines_text.duration(line.self_ns), line.self_ns / most_ns if most_ns else 0.0),
        _cell(_lines_text.duration(line.wall_ns)),
        _cell("" if share is None else show_percent(share)),
    ]
    if awaits:
        awaited = line.awaited_ns > 0
        cells.append(_cell(_lines_text.duration(line.awaited_ns) if awaited else ""))
        cells.append(_cell(f"{line.most_awaiting:,}" if awaited else ""))
    return cells


def _head(names: list[str]) -> str:
    cells = [
        f'<th class="s">{name}</th>' if name in _LEFT else f"<th>{name}</th>" for name in names
    ]
    return f"<tr>{''.join(cells)}</tr>"


_LEFT = ("where", "source")


# ---- the hottest lines -----------------------------------------------------


def _hottest(view: View, files: dict[str, list[FunctionStats]]) -> list[str]:
    numbers = {file: number for number, file in enumerate(files)}
    places = _lines_text.top_places(view, _lines_text.Chosen(0, HOTTEST, "time"))
    all_ns = view.self_ns
    most_ns = max((line.self_ns for _, line in places), default=0)
    awaits = any(line.awaited_ns for _, line in places)
    names = ["share", *_lines_text.FIGURES, *(_lines_text.AWAITED if awaits else [])]
    rows = [_head([*names, "where", "source"])]
    for function, line in places:
        share = show_share(line.self_ns / all_ns) if all_ns else ""
        where = f"{view.shown_path(function.filename)}:{line.line_number} {function.function_name}"
        link = f'<a href="#f{numbers[function.filename]}-{line.line_number}">{_shown(where)}</a>'
        cells = [_cell(share), *_figures((function, line), most_ns, awaits)]
        source = html.escape(_lines_text.source_cell(view, function, line.line_number)[0].lstrip())
        rows.append(
            f'<tr>{"".join(cells)}<td class="s">{link}</td><td class="s">{source}</td></tr>'
        )
    total = _lines_text.duration(all_ns)
    rows.append(
        f'<tr class="all"><td>100.0%</td><td></td><td>{total}</td>'
        f'<td colspan="{len(names) - 1}" class="s">all lines, all threads</td></tr>'
    )
    return ["<h2>Hottest lines</h2>", *_table(rows)]


def _table(rows: list[str]) -> list[str]:
    return ['<div class="wide"><table>', *rows, "</table></div>"]


# ---- a file ----------------------------------------------------------------


def _file(
    view: View, number: int, file: str, functions: list[FunctionStats], most_ns: int
) -> list[str]:
    source = view.source(file)
    problems = [view.problem(function) for function in functions]
    shown = bool(source.lines) and not any(problems)
    note = source.note if shown else next(problem for problem in problems if problem)
    parts = [f"<h2>{_shown(view.shown_path(file))}</h2>"]
    if note:
        parts.append(f'<p class="note">{_shown(note)}</p>')
    rows = _file_rows(view, number, functions, source if shown else None, most_ns)
    return parts + _table(list(rows))


def _file_rows(
    view: View,
    number: int,
    functions: list[FunctionStats],
    source: Source | None,
    most_ns: int,
) -> Iterator[str]:
    places: dict[int, list[Place]] = {}
    for function, line in _places(functions):
        places.setdefault(line.line_number, []).append((function, line))
    awaits = any(line.awaited_ns for _, line in _places(functions))
    never = _never_reached(view, functions, source, places)
    names = [*_lines_text.FIGURES, *(_lines_text.AWAITED if awaits else [])]
    yield _head(["line", *names, "source"])
    for at in range(1, len(source.lines) + 1) if source else sorted(places):
        text = _shown(source.line(at).expandtabs(_lines_text.TAB)) if source else ""
        here = places.get(at, [])
        cells = _figures(here[0], most_ns, awaits) if here else ["<td></td>"] * len(names)
        kind = ' class="never"' if at in never else ""
        yield (
            f'<tr id="f{number}-{at}"{kind}><td class="n">{at}</td>{"".join(cells)}'
            f'<td class="s">{text}</td></tr>'
        )
        for place in here[1:]:
            figures = "".join(_figures(place, most_ns, awaits))
            name = _shown(place[0].function_name)
            yield (
                f'<tr class="within"><td class="n"></td>{figures}<td class="s">'
                f"&#8195;within: {name}</td></tr>"
            )


def _never_reached(
    view: View,
    functions: list[FunctionStats],
    source: Source | None,
    places: dict[int, list[Place]],
) -> set[int]:
    """Return the lines with code that did not run; of what was not measured nothing is known."""
    if source is None or view.globs or not view.totals["complete"]:
        return set()
    ran = {*places, *(function.first_line for function in functions)}
    return {line for lines in source.codes.values() for line in lines} - ran

"""What a LineProfiler prints and writes: tables, the column of the source, a page, .lprof, JSON."""

from __future__ import annotations

import fcntl
import html
import html.parser
import io
import json
import linecache
import os
import pickle
import pty
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lineprofiler import LineProfiler, _core, start_profiling, stop_profiling
from lineprofiler._core import show_text
from lineprofiler.accounting import decode_text
from lines import Project, load, only

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """\
    import time

    def nap():
        time.sleep(0.02)
        return 1

    def work():
        a = nap()
        b = sum(range(10))
        return a + b
    """


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def profiler(project: Project) -> LineProfiler:
    """One that has measured PROGRAM."""
    module = project.load("mod.py", PROGRAM)
    made = project.profiler()
    with made:
        module.work()
    return made


def printed(call: Callable[..., None], *args: Any, **options: Any) -> str:
    out = io.StringIO()
    call(*args, stream=out, **options)
    return out.getvalue()


def rows(text: str, begin: str) -> list[list[str]]:
    """Return the cells of the table that follows a line that begins so, without its head."""
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(begin))
    table = []
    for line in lines[at + 2 :]:
        if not line:
            break
        table.append(re.split(r" {2,}", line.strip(), maxsplit=6))
    return table


# ---- tables (N2) -----------------------------------------------------------


def test_print_stats_N2(profiler: LineProfiler, project: Project) -> None:
    """RP01, RP03, RP04."""
    text = printed(profiler.print_stats)
    head = text.split("\n")
    assert re.fullmatch(
        r"Block \d\d\.\dms, of which ~[\d.]+[nu]s were the profiler's own and are in no .* below",
        head[0],
    )
    assert head[1].startswith("Measured by ")
    assert head[1].endswith(f" in {project.folder}")
    assert re.search(r"(?m)^nap  mod\.py:3  1 call, \d\d+\.\dms$", text)
    assert re.search(r"(?m)^work  mod\.py:7  1 call, \d\d+\.\dms$", text)
    assert text.index("\nnap ") < text.index("\nwork ")
    nap = rows(text, "nap ")
    assert [row[0] for row in nap] == ["4", "5"]
    assert nap[0][1] == "1"
    assert re.fullmatch(r"\d\d+\.\dms", nap[0][2])
    assert re.fullmatch(r">?\d\d%", nap[0][4])
    assert nap[0][5] == "time.sleep(0.02)"
    called = rows(text, "work ")[0]
    assert called[5] == "a = nap()"
    assert re.fullmatch(r"[\d.]+[nu]s", called[2])
    assert re.fullmatch(r"\d\d+\.\dms", called[3])
    assert "awaited" not in text


def test_columns_stand_under_their_names_N2(profiler: LineProfiler) -> None:
    lines = printed(profiler.print_stats).split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("nap "))
    head, first, second = lines[at + 1 : at + 4]
    for name in ("line", "hits", "self", "total"):
        end = head.index(name) + len(name)
        for line in (first, second):
            assert line[end - 1] not in " "
            assert line[end : end + 2] == "  "
    assert head.index("source") == first.index("time.sleep") == second.index("return 1")


def test_which_lines_and_in_which_order_N2(profiler: LineProfiler) -> None:
    by_time = printed(profiler.print_stats, sort_by="time")
    assert by_time.index("\nwork ") < by_time.index("\nnap ")
    assert rows(by_time, "work ")[0][0] == "8"
    assert rows(printed(profiler.print_stats, 1000), "nap ")[0][0] == "4"
    assert len(rows(printed(profiler.print_stats, min_time_us=1000), "nap ")) == 1
    assert "No line took as long." in printed(profiler.print_stats, 1e9)
    assert len(rows(printed(profiler.print_stats, 0, 1), "work ")) == 1
    assert printed(profiler.print_stats, 0, 0).count("source") == 0
    assert "No line was asked for." in printed(profiler.print_stats, 0, 0)
    lines = [int(row[0]) for row in rows(printed(profiler.print_stats, sort_by="line"), "work ")]
    assert lines == sorted(lines) == [8, 9, 10]


def test_sort_by_hits_N2(project: Project) -> None:
    module = project.load("mod.py", "def f():\n    for i in range(9):\n        i + 1\n        i\n")
    with project.profiler() as profiler:
        module.f()
    assert rows(printed(profiler.print_stats, sort_by="hits"), "f ")[0][0] == "2"
    text = printed(profiler.print_stats, top_n_lines=1, sort_by="hits")
    assert [row[:2] for row in rows(text, "f ")] == [["2", "10"]]
    top = printed(profiler.print_global_top_stats, 1, sort_by="hits")
    assert "mod.py:2 f" in top


def test_the_hottest_lines_N2(profiler: LineProfiler) -> None:
    """RP03: the line that takes the time comes first, not its caller; shares make 100 %."""
    text = printed(profiler.print_global_top_stats)
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.split()[:2] == ["share", "self"])
    assert lines[-2:] == ["", ""], "a blank line, as another table may follow"
    table = lines[at + 1 : -2]
    assert "mod.py:4 nap" in table[0]
    assert "time.sleep(0.02)" in table[0]
    assert len(table) == 6
    assert table[-1].split()[0] == "100.0%"
    assert table[-1].endswith("all 5 lines, all threads")
    few = printed(profiler.print_global_top_stats, 2).split("\n")
    assert few[-4].endswith("3 other lines")
    assert few[-3].endswith("all 5 lines, all threads")
    by_line = printed(profiler.print_global_top_stats, sort_by="line")
    places = re.findall(r"mod\.py:(\d+)", by_line)
    assert places == ["4", "5", "8", "9", "10"]


def test_standard_output_is_the_default_N2(
    profiler: LineProfiler, capsys: pytest.CaptureFixture[str]
) -> None:
    profiler.print_stats()
    assert capsys.readouterr().out == printed(profiler.print_stats)
    profiler.print_global_top_stats()
    assert capsys.readouterr().out == printed(profiler.print_global_top_stats)


def test_a_stream_that_cannot_show_all_N2(project: Project) -> None:
    module = project.load("mod.py", "def 训练():\n    return 'é'\n")
    with project.profiler() as profiler:
        module.训练()
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1")
    profiler.print_stats(stream=stream)
    stream.flush()
    assert "??  mod.py:1  1 call" in raw.getvalue().decode("latin-1")
    assert "return 'é'" in raw.getvalue().decode("latin-1")


LONG = """
    def a_function_with_a_name_that_is_longer_than_most_of_them_are():
        return sum([len("a text that takes so much room that the line of it"), len("does not fit")])
    def short():
        if True:
            total = "文" * 60 and "a line of a wide script, cut at the same place as the others are"
        return a_function_with_a_name_that_is_longer_than_most_of_them_are()
    """


def test_no_table_is_wider_than_100_columns(project: Project) -> None:
    module = project.load("a_package_with_a_long_name/with_a_long_module.py", LONG)
    with project.profiler() as profiler:
        module.short()
    text, top = printed(profiler.print_stats), printed(profiler.print_global_top_stats)
    for table in (text, top):
        rows_of_figures = re.findall(r"(?m)^ .*", table)
        assert len(rows_of_figures) >= 4
        assert max(show_text(row)[1] for row in rows_of_figures) == 100
    assert re.search(r'return sum\(\[len\("a text that takes so much room .*…$', text, re.MULTILINE)
    assert re.search(r" …\S+:3 …\w+_are  return sum\(.*…$", top, re.MULTILINE)


def test_lines_of_a_function_keep_their_indentation_only_within_it(project: Project) -> None:
    module = project.load("mod.py", LONG)
    with project.profiler() as profiler:
        module.short()
    text = printed(profiler.print_stats)
    text = text[text.index("\nshort ") :]
    column = re.search(r"(?m)^.*(?=if True:$)", text)
    assert column is not None
    at = column.end() - column.start()
    sources = [line[at:] for line in text.split("\n") if line[at:]]
    assert [source.split(" = ")[0][:12] for source in sources] == [
        "source",
        "if True:",
        "    total",
        "return a_fun",
    ]


def test_a_terminal_s_width_is_used(project: Project) -> None:
    module = project.load("mod.py", LONG)
    with project.profiler() as profiler:
        module.short()
    theirs, ours = pty.openpty()
    with open(ours, "w", encoding="utf-8") as stream:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 220, 0, 0))
        profiler.print_stats(stream=stream)
        stream.flush()
        text = os.read(theirs, 100_000).decode()
    os.close(theirs)
    assert 'len("does not fit")])' in text
    assert 'len("does not fit")])' not in printed(profiler.print_stats)


@pytest.mark.parametrize("encoding", ["no-such-codec", 7, None])
def test_a_stream_of_an_unknown_encoding(profiler: LineProfiler, encoding: object) -> None:
    class Odd(io.StringIO):
        pass

    setattr(Odd, "encoding", encoding)  # noqa: B010 - another type than its parent's
    stream = Odd()
    profiler.print_stats(stream=stream)
    assert stream.getvalue() == printed(profiler.print_stats)


@pytest.mark.parametrize("stream", [io.BytesIO(), "x.txt", 1], ids=["binary", "path", "number"])
def test_a_stream_that_takes_no_text(profiler: LineProfiler, stream: Any) -> None:
    for call in (profiler.print_stats, profiler.print_global_top_stats):
        with pytest.raises(TypeError, match=r"^stream must be an open text file, not "):
            call(stream=stream)
    if not isinstance(stream, str):
        with pytest.raises(TypeError, match=r"^to must be a path or an open text file, not "):
            profiler.to_json(stream)


def test_without_standard_output_nothing_is_printed(
    profiler: LineProfiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    profiler.print_stats()


def test_regions_are_printed(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    with project.profiler() as profiler:
        module.nap()
        with profiler.region("sel\nect"):
            module.work()
    text = printed(profiler.print_stats, region="sel\nect")
    assert "Only what was done in the region sel\ufffdect\n" in text
    assert re.search(r"(?m)^nap  mod\.py:3  1 call, ", text)
    assert re.search(r"(?m)^nap  mod\.py:3  2 calls, ", printed(profiler.print_stats))


def test_the_path_of_no_region_is_the_whole(profiler: LineProfiler) -> None:
    assert printed(profiler.print_stats, region=()) == printed(profiler.print_stats)


def test_nothing_was_measured(project: Project, tmp_path: Path) -> None:
    profiler = project.profiler()
    for call in (profiler.print_stats, profiler.print_global_top_stats):
        assert printed(call) == "Nothing was measured yet.\n\n"
    profiler.to_html(tmp_path / "x.html")
    assert "Nothing was measured yet." in (tmp_path / "x.html").read_text()


def test_it_is_told_that_measuring_is_switched_off(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEPROFILER_ENABLED", "No")
    profiler = start_profiling(project.folder)
    assert stop_profiling() is profiler
    assert printed(profiler.print_stats) == (
        "Nothing was measured: LINEPROFILER_ENABLED is 'No'.\n\n"
    )


def test_nothing_was_run(project: Project) -> None:
    with project.profiler() as profiler:
        pass
    for call in (profiler.print_stats, profiler.print_global_top_stats):
        assert f"No figures: no code below {project.folder} was run in the block." in printed(call)
    with project.profiler(functions=["Search.*"]) as profiler:
        pass
    text = printed(profiler.print_stats)
    assert "No figures: no function that matches Search.* was run in the block." in text


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the monitoring of 3.12 sees all threads")
def test_threads_that_are_not_seen_are_told(profiler: LineProfiler) -> None:
    assert "Threads that ran before the block are not seen" in printed(profiler.print_stats)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a trace function sees new threads only")
def test_nothing_is_said_of_threads_that_are_seen(profiler: LineProfiler) -> None:
    assert "hreads that" not in printed(profiler.print_stats)


def test_awaited_time_has_columns_of_its_own_N5(project: Project) -> None:
    module = project.load(
        "mod.py",
        """\
        import asyncio

        async def one():
            await asyncio.sleep(0.02)

        async def main():
            await asyncio.gather(*(one() for _ in range(8)))
        """,
    )
    with project.profiler() as profiler:
        import asyncio

        asyncio.run(module.main())
    line = only(profiler, "one").line_stats[4]
    assert line.most_awaiting == 8
    assert line.awaited_ns >= 8 * 19e6
    assert line.wall_ns < line.awaited_ns
    text = printed(profiler.print_stats)
    assert re.search(r"(?m)^ *line +hits +self +total +wait +awaited +at once +source$", text)
    assert re.search(r"(?m)\d\d\d\.\dms +8 +await asyncio\.sleep", text)
    assert "at once" in printed(profiler.print_global_top_stats)


def test_small_times_have_no_wait_N5() -> None:
    from lineprofiler._lines_view import wait_share
    from lineprofiler.lines import LineStats

    def share(wall_ns: int, cpu_ns: int) -> float | None:
        figures = dict.fromkeys(LineStats.__slots__, 0)
        return wait_share(LineStats(**{**figures, "wall_ns": wall_ns, "cpu_ns": cpu_ns}))

    assert share(99_999, 0) is None
    assert share(200_000, 50_000) == 0.75
    assert share(200_000, 200_300) == 0.0


# ---- numbers and texts as the report has them ------------------------------


def test_cells_are_those_of_the_report() -> None:
    assert _core.show_duration(721_673_000) == "721.7ms"
    assert _core.show_duration(0) == "0ns"
    assert _core.show_percent(0.996) == ">99%"
    assert _core.show_share(0.0001) == "<0.1%"
    assert _core.show_text("a\tb\x1b\u2028\udc80训e\u0301") == (
        "a\ufffdb\ufffd\ufffd\ufffd训e\u0301",
        9,
    )
    with pytest.raises(TypeError):
        _core.show_text(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _core.show_duration("x")  # type: ignore[arg-type]


# ---- the column of the source (LN13) ---------------------------------------


def measure(code: Any, name: str, project: Project, *args: Any) -> LineProfiler:
    """Run a function of a code object."""
    made: dict[str, Any] = {}
    exec(code, made)
    profiler = project.profiler(include=["*"])
    with profiler:
        made[name](*args)
    return profiler


def test_what_is_in_linecache_is_shown_LN13(project: Project) -> None:
    text = "def f():\n    return 1 + 1\n"
    linecache.cache["<cell 7>"] = (len(text), None, text.splitlines(keepends=True), "<cell 7>")
    try:
        shown = printed(measure(compile(text, "<cell 7>", "exec"), "f", project).print_stats)
    finally:
        del linecache.cache["<cell 7>"]
    assert "f  <cell 7>:1  1 call" in shown
    assert "return 1 + 1" in shown
    gone = printed(measure(compile(text, "<other>", "exec"), "f", project).print_stats)
    assert rows(gone, "f ")[0][-1] == "(source not available)"
    assert rows(gone, "f ")[0][:2] == ["2", "1"]


@pytest.mark.parametrize("how", ["deleted", "changed", "moved", "changed before"])
def test_a_file_that_is_another_one_now_LN13(project: Project, how: str) -> None:
    path = project.write("mod.py", PROGRAM)
    module = load(path)
    if how == "changed before":
        path.write_text("# a new line\n" + path.read_text())
    profiler = project.profiler()
    with profiler:
        module.work()
    if how != "changed before":
        assert "time.sleep(0.02)" in printed(profiler.print_stats)
    if how == "deleted":
        path.unlink()
    elif how == "changed":
        path.write_text("x = 1\n" * 20)
    elif how == "moved":
        path.write_text("# a new line\n" + path.read_text())
    why = "source not available" if how == "deleted" else "file changed since"
    for call in (profiler.print_stats, profiler.print_global_top_stats):
        text = printed(call)
        assert text.count(f"({why})") == 5
        assert "time.sleep" not in text
    profiler.to_html(project.folder / "page.html")
    page = (project.folder / "page.html").read_text()
    assert why in page
    assert "time.sleep" not in page
    assert only(profiler, "nap").line_stats[4].hits == 1


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_stands_where_a_file_was_is_left_alone_LN13(project: Project, kind: str) -> None:
    path = project.write("mod.py", PROGRAM)
    profiler = project.profiler()
    module = load(path)
    with profiler:
        module.work()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)  # to open it would be to wait for a writer
    else:
        path.mkdir()
    assert printed(profiler.print_stats).count("(source not available)") == 5


@pytest.mark.parametrize(
    ("content", "shown", "note"),
    [
        ("# coding: latin-1\ndef f():\n    return 'é'\n".encode("latin-1"), "return 'é'", ""),
        ("\ufeffdef f():\n    return 'é'\n".encode(), "return 'é'", ""),
        (b"def f():\r\n    return 1\r\n", "return 1", ""),
        (b"def f():\r    return 1\r", "return 1", ""),
        (b"\x0cdef f():\n\x0c\n    return '\x0c'\n", "return '\ufffd'", ""),
        ("def f():\n    return '\u2028\x85'\n".encode(), "return '\ufffd\ufffd'", ""),
        ("def f():\n\treturn '训练'\n".encode(), "return '训练'", ""),
    ],
    ids=["latin-1", "bom", "crlf", "cr", "form feed", "no ends of lines", "wide"],
)
def test_encodings_and_ends_of_lines_LN13(
    project: Project, content: bytes, shown: str, note: str
) -> None:
    path = project.folder / "mod.py"
    path.write_bytes(content)
    module = load(path)
    with project.profiler() as profiler:
        module.f()
    text = printed(profiler.print_stats)
    assert rows(text, "f ")[-1][-1] == shown
    assert note in text
    profiler.to_html(project.folder / "page.html")
    assert html.escape(shown) in (project.folder / "page.html").read_text()


@pytest.mark.parametrize("codec", ["zlib", "rot13", "undefined"])
def test_a_declared_codec_that_decodes_no_text_LN13(project: Project, codec: str) -> None:
    path = project.write("mod.py", "def f():\n    return 1\n")
    module = load(path)
    with project.profiler() as profiler:
        module.f()
    path.write_text(f"# coding: {codec}\ndef f():\n    return 1\n")
    assert "(file changed since)" in printed(profiler.print_stats)


def test_bytes_that_are_no_text_LN13(project: Project) -> None:
    """Compiled from what it is without its comment."""
    path = project.folder / "mod.py"
    content = b"def f():  # \xff\n    return 1\n"
    path.write_bytes(content)
    code = compile(content.replace(b"\xff", b"?"), str(path), "exec")
    text = printed(measure(code, "f", project).print_stats)
    assert rows(text, "f ")[0][-1] == "return 1"
    assert "(not in the encoding that it declares: other bytes are shown as U+FFFD)" in text


def test_source_lines_are_aligned_by_what_they_take_on_a_screen(project: Project) -> None:
    module = project.load("mod.py", "def 训练():\n    return '训'\n\ndef f():\n    return 训练()\n")
    with project.profiler() as profiler:
        module.f()
    text = printed(profiler.print_global_top_stats)
    where = [line for line in text.split("\n") if "mod.py" in line]
    columns = {_core.show_text(line[: line.index("return")])[1] for line in where}
    assert len(columns) == 1


# ---- the page (N6) ---------------------------------------------------------


class Page(html.parser.HTMLParser):
    """What a browser would make of it: tags, their attributes, texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.rows: dict[str, tuple[str, list[str]]] = {}
        self._row: tuple[str, list[str]] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self._row = (attributes.get("class") or "", [])
            self.rows[attributes.get("id") or f"row {len(self.rows)}"] = self._row
        if tag == "td" and self._row is not None:
            self._row[1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)
        if "td" in self.open and self._row is not None:
            self._row[1][-1] += data


def page_of(profiler: LineProfiler, path: Path, **options: Any) -> Page:
    profiler.to_html(path, **options)
    parsed = Page(path.read_text(encoding="utf-8"))
    assert parsed.open == []
    return parsed


def test_the_page_N6(profiler: LineProfiler, project: Project, tmp_path: Path) -> None:
    page = page_of(profiler, tmp_path / "page.html")
    source = (project.folder / "mod.py").read_text().splitlines()
    for number, text in enumerate(source, 1):
        kind, cells = page.rows[f"f0-{number}"]
        assert cells[0] == str(number)
        assert cells[-1] == text
        assert bool(cells[1]) == (number in (4, 5, 8, 9, 10))
        assert (kind == "never") == (number == 1)
    sleep = page.rows["f0-4"][1]
    assert sleep[1] == "1"
    assert re.fullmatch(r"\d\d+\.\dms", sleep[2])
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links[0] == "#f0-4"
    assert {link for link in links if link} <= {f"#{name}" for name in page.rows}
    assert "Hottest lines" in page.texts


def test_the_page_needs_nothing_else_N6(profiler: LineProfiler, tmp_path: Path) -> None:
    text = (page_of(profiler, tmp_path / "p.html"), (tmp_path / "p.html").read_text())[1]
    parsed = Page(text)
    assert {tag for tag, _ in parsed.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "a"),
        *("div", "table", "tr", "th", "td"),
    }
    for _, attributes in parsed.tags:
        assert not {"src", "onload", "onclick"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_lines_that_were_never_reached_N6(project: Project, tmp_path: Path) -> None:
    module = project.load(
        "mod.py",
        """\
        def f(x):
            # a comment
            if x:
                return [y for y in x]
            return None

        def g():
            return 1
        """,
    )
    with project.profiler() as profiler:
        module.f(0)
    rows_of = page_of(profiler, tmp_path / "page.html").rows
    never = {name for name, (kind, _) in rows_of.items() if kind == "never"}
    assert never == {"f0-4", "f0-7", "f0-8"}
    # Of what was not to be measured nothing is known.
    with project.profiler(functions=["f"]) as profiler:
        module.f(0)
    rows_of = page_of(profiler, tmp_path / "page.html").rows
    assert not [name for name, (kind, _) in rows_of.items() if kind == "never"]


def test_heat_is_the_same_for_all_files_N6(project: Project, tmp_path: Path) -> None:
    hot = project.load("hot.py", "import time\ndef nap():\n    time.sleep(0.2)\n")
    cold = project.load("cold.py", "def f():\n    return 1\n")
    with project.profiler() as profiler:
        hot.nap()
        cold.f()
    profiler.to_html(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    files = page[page.index("<h2>cold.py</h2>") :].split("<h2>hot.py</h2>")
    heats = [re.findall(r"--share:([\d.]+)", file) for file in files]
    assert max(map(float, heats[1])) == 0.75
    assert max(map(float, heats[0])) < 0.4


def test_several_figures_of_one_line_N6(project: Project, tmp_path: Path) -> None:
    """LN01, DC04: a lambda on its caller's line has a row of its own."""
    module = project.load("mod.py", "def f():\n    return sorted([2, 1], key=lambda x: -x)\n")
    with project.profiler() as profiler:
        module.f()
    page = page_of(profiler, tmp_path / "page.html")
    within = [cells for kind, cells in page.rows.values() if kind == "within"]
    assert len(within) == 1
    assert within[0][1] == "2"
    assert within[0][-1].endswith("within: f.<locals>.<lambda>")
    assert page.rows["f0-2"][1][1] == "1"


HOSTILE = "</td></script><script>alert(1)</script><!-- \u202e \u2028 & \" ' ]]> </style>"


def test_hostile_texts_N6(project: Project, tmp_path: Path) -> None:
    name = "</title><img src=x onerror=alert(1)>\n'\"&\u2028.py".replace("/", "\u2215")
    text = f"def f():\n    return {HOSTILE!r}  # {HOSTILE.replace(chr(0x2028), '')}\n"
    module = project.load(name, text)
    with project.profiler() as profiler, profiler.region(HOSTILE):
        module.f()
    for options in ({}, {"region": HOSTILE}):
        page = page_of(profiler, tmp_path / "page.html", **options)
        assert {tag for tag, _ in page.tags} & {"script", "img"} == set()
        cells = page.rows["f0-2"][1]
        assert "</script><script>alert(1)</script>" in cells[-1]
        raw = (tmp_path / "page.html").read_text()
        assert "\u2028" not in raw
        assert "\u202e" not in raw
        assert "onerror=alert(1)>" in "".join(page.texts)
    assert "\x1b" not in printed(profiler.print_stats)


# ---- files are written whole or not at all ---------------------------------

WRITE: list[Callable[[LineProfiler, Path], None]] = [
    lambda profiler, path: profiler.to_html(path),
    lambda profiler, path: profiler.to_json(path),
    lambda profiler, path: profiler.dump_stats(path),
]
WRITES = pytest.mark.parametrize("write", WRITE, ids=["html", "json", "lprof"])


@WRITES
def test_where_nothing_can_be_written(
    profiler: LineProfiler, tmp_path: Path, write: Callable[[LineProfiler, Path], None]
) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match=r"nowhere/x'$"):
        write(profiler, tmp_path / "nowhere" / "x")
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))):
        write(profiler, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"file/x'$"):
        write(profiler, tmp_path / "file" / "x")
    (tmp_path / "file").unlink()
    assert sorted(tmp_path.iterdir()) == before


@WRITES
def test_a_file_is_replaced_and_keeps_its_permissions(
    profiler: LineProfiler, tmp_path: Path, write: Callable[[LineProfiler, Path], None]
) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    target.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(target)
    write(profiler, link)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert len(target.read_bytes()) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "project", "target"]


def test_a_full_disk_leaves_the_old_file(profiler: LineProfiler, tmp_path: Path) -> None:
    target = tmp_path / "x.html"
    target.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            profiler.to_html(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "x.html"]


def test_a_pipe_is_written_to(profiler: LineProfiler) -> None:
    reading, writing = os.pipe()
    profiler.to_json(f"/dev/fd/{writing}")
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert json.load(pipe)["format"] == "lineprofiler-lines"


# ---- .lprof (N6) -----------------------------------------------------------


def test_the_real_line_profiler_reads_it_N6(
    profiler: LineProfiler, project: Project, tmp_path: Path
) -> None:
    pytest.importorskip("line_profiler")
    path = tmp_path / "x.lprof"
    profiler.dump_stats(path)
    command = [sys.executable, "-P", "-m", "line_profiler", "-rmt", str(path)]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert f"File: {project.folder / 'mod.py'}" in done.stdout
    assert re.search(r"Function: nap at line 3\n", done.stdout)
    assert re.search(r"\n +4 +1 +\d\d+\.\d .*time\.sleep\(0\.02\)", done.stdout)
    assert re.search(r"\n +8 +1 +\d\d+\.\d .*a = nap\(\)", done.stdout)
    code = (
        "import sys, line_profiler\n"
        "stats = line_profiler.load_stats(sys.argv[1])\n"
        "print(type(stats).__module__, type(stats).__name__, stats.unit)\n"
        "print(sorted(stats.timings)[0][1:])\n"
    )
    command = [sys.executable, "-P", "-c", code, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "line_profiler.line_profiler LineStats 1e-09\n(3, 'nap')\n"


def test_lprof_times_are_those_with_calls_N6(profiler: LineProfiler, tmp_path: Path) -> None:
    pytest.importorskip("line_profiler")
    profiler.dump_stats(tmp_path / "x.lprof")
    stats = pickle.loads((tmp_path / "x.lprof").read_bytes())
    for (file, first_line, name), lines in stats.timings.items():
        function = profiler.get_stats()[file, name, first_line]
        assert lines == [
            (line.line_number, line.hits, line.wall_ns) for line in function.line_stats.values()
        ]


# ---- JSON ------------------------------------------------------------------


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "lines.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_json_LN20(profiler: LineProfiler, project: Project, validator: Any) -> None:
    out = io.StringIO()
    profiler.to_json(out)
    document = json.loads(out.getvalue())
    validator.validate(document)
    assert document["format"] == "lineprofiler-lines"
    assert document["version"] == 1
    assert document["backend"] == ("monitoring" if sys.version_info >= (3, 12) else "settrace")
    assert document["regions"] == []
    assert document["project_folder"] == str(project.folder)
    nap, work = document["functions"]
    assert (nap["name"], nap["first_line"], nap["calls"]) == ("nap", 3, 1)
    stats = only(profiler, "work")
    assert [(line["line"], line["wall_ns"]) for line in work["lines"]] == [
        (number, line.wall_ns) for number, line in stats.line_stats.items()
    ]
    assert document["wall_ns"] >= nap["wall_ns"]


def test_json_of_regions_and_strange_names(project: Project, validator: Any) -> None:
    name = "mod\\x00\udcff\n训.py"
    module = project.load(name, PROGRAM)
    with project.profiler() as profiler, profiler.region("a"):
        module.nap()
        with profiler.region("b"):
            module.nap()
    path = project.folder / "x.json"
    profiler.to_json(path)
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    validator.validate(document)
    text.encode("ascii")
    [function] = document["functions"]
    assert decode_text(function["file"]) == str(project.folder / name)
    assert not re.search("[\ud800-\udfff]", function["file"])
    assert [region["path"] for region in document["regions"]] == [["a"], ["a", "b"]]
    assert [region["functions"][0]["calls"] for region in document["regions"]] == [2, 1]


def test_the_schema_refuses_what_is_wrong(profiler: LineProfiler, validator: Any) -> None:
    out = io.StringIO()
    profiler.to_json(out)
    for path, value in (
        (("version",), 2),
        (("backend",), "perf"),
        (("functions", 0, "lines", 0, "hits"), -1),
        (("functions", 0, "lines", 0, "wall_ns"), None),
    ):
        document = json.loads(out.getvalue())
        at = document
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        assert not validator.is_valid(document), path

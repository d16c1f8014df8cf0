"""Line by line, where the time of a block of code goes.

::

    from lineprofiler import LineProfiler

    with LineProfiler() as profiler:
        play(games)
    profiler.print_global_top_stats()

Figures are those of the project's code: of lines in files below its folder. ``wall_ns``,
``cpu_ns`` and the like are integers in nanoseconds; what has ``time`` in its name is in seconds.
The profiler's own time is in none of them.
"""

from __future__ import annotations

import os
import sys

from lineprofiler import _core, _nearest
from lineprofiler._record import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Any, Literal, NoReturn, Self, SupportsFloat, SupportsIndex, TextIO

    from lineprofiler._lines_source import Signature
    from lineprofiler._lines_view import View

    SortBy = Literal["time", "hits", "line"]
    Key = tuple[str, str, int]
    Region = str | tuple[str, ...]

__all__ = [
    "FunctionStats",
    "LineProfiler",
    "LineStats",
    "start_profiling",
    "stop_profiling",
]

_OFF = frozenset(("", "0", "false", "no", "off"))


# ---- figures ---------------------------------------------------------------


class LineStats(_Record):
    """One line of one function."""

    __slots__ = (
        "awaited_ns",
        "cpu_ns",
        "hits",
        "line_number",
        "most_awaiting",
        "self_cpu_ns",
        "self_ns",
        "wall_ns",
    )
    line_number: int
    hits: int
    """How often the line was begun. That is not how often a loop on one line went round."""
    wall_ns: int
    """Time in the line, with all that it called; recursion counts each moment once."""
    cpu_ns: int
    """The part of it in which the thread was on a CPU."""
    self_ns: int
    """Time in the line without other lines of the project that it called."""
    self_cpu_ns: int
    awaited_ns: int
    """How long coroutines were suspended in the line, added up over them; in no other figure."""
    most_awaiting: int
    """How many were at once."""

    @property
    def total_time(self) -> float:
        """`wall_ns` in seconds."""
        return self.wall_ns / 1e9

    @property
    def average_time(self) -> float:
        """`total_time` / `hits`; 0.0 without hits."""
        return self.total_time / self.hits if self.hits else 0.0

    @property
    def wait_ns(self) -> int:
        """The part of `wall_ns` in which the thread was on no CPU."""
        return max(0, self.wall_ns - self.cpu_ns)

    @property
    def self_wait_ns(self) -> int:
        """The same of `self_ns`."""
        return max(0, self.self_ns - self.self_cpu_ns)


class FunctionStats(_Record):
    """One function, class body, module or cell: what is compiled to one code object."""

    __slots__ = (
        "calls",
        "cpu_ns",
        "filename",
        "first_line",
        "function_name",
        "line_stats",
        "wall_ns",
    )
    filename: str
    function_name: str
    """Qualified, as in "Search.select"; "<module>" for the lines outside functions."""
    first_line: int
    """That of its first decorator, or of its `def`."""
    calls: int
    """How often it was called; a generator, how often one was begun."""
    wall_ns: int
    """Time in it, with all that it called; recursion counts each moment once."""
    cpu_ns: int
    line_stats: dict[int, LineStats]
    """By line number, in order; the lines that were run."""

    @property
    def total_time(self) -> float:
        """`wall_ns` in seconds."""
        return self.wall_ns / 1e9

    @property
    def wait_ns(self) -> int:
        """The part of `wall_ns` in which the thread was on no CPU."""
        return max(0, self.wall_ns - self.cpu_ns)


class _Region:
    """What LineProfiler.region() returns: may be entered again, and within itself."""

    __slots__ = ("_name", "_profiler", "_tokens")

    def __init__(self, profiler: LineProfiler, name: str) -> None:
        self._profiler = profiler
        self._name = name
        self._tokens: dict[int, list[int]] = {}

    def __enter__(self) -> Self:
        from _thread import get_ident

        token = self._profiler.region_enter(self._name)
        self._tokens.setdefault(get_ident(), []).append(token)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from _thread import get_ident

        tokens = self._tokens.get(get_ident())
        if not tokens:
            raise RuntimeError(f"the region {self._name!r} was not entered on this thread")
        token = tokens.pop()
        if not tokens:
            del self._tokens[get_ident()]
        self._profiler.region_exit(token)

    def __repr__(self) -> str:
        return f"<region {_nearest.short_repr(self._name)}>"


# ---- the profiler ----------------------------------------------------------


class LineProfiler(_core.LineEngine):
    """Measures, line by line, what the project's code does in a ``with`` block.

    project_folder:
        Code in files below it is measured; not the standard library, nor installed packages, even
        if they lie in there. By default the nearest folder with a ``.git``, upwards from the file
        that makes the profiler, else that file's own folder. Cells of a notebook, and code that is
        typed in, are measured too.
    include, exclude:
        Globs over the paths of files, relative to that folder; ``*`` also stands for slashes, and
        a folder for all that is in it. With any `include`, one must match.
    functions:
        Globs over qualified names of functions, such as ``"Search.*"``; one must match.

    What is not given of the last three stands in the ``[tool.lineprofiler]`` of the folder's
    pyproject.toml, if anywhere.

    A profiler may be entered again, and adds up. One runs at a time in a process: to enter while
    one does is a RuntimeError. All threads are measured; on Python 3.11, those that begin in the
    block, and the block's own. A child process measures nothing.

    OSError: there is no such folder. TypeError, ValueError: an argument, or pyproject.toml, is not
    what it should be.
    """

    _folder = ""

    def __init__(
        self,
        project_folder: str | os.PathLike[str] | None = None,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        functions: Iterable[str] | None = None,
    ) -> None:
        from lineprofiler import _lines_config

        if project_folder is None:
            folder = _lines_config.find_project(sys._getframe(1).f_code.co_filename)
        else:
            folder = os.path.abspath(_folder_name(project_folder))
        given = {"include": include, "exclude": exclude, "functions": functions}
        globs = _lines_config.read_globs(folder, given)
        super().__init__(folder, _lines_config.outside_folders(), **globs)
        self._folder = folder
        self._functions = globs["functions"]
        self._switched_off: str | None = None
        self._signatures: dict[str, Signature | None] = {}
        _heed_forks()

    @property
    def project_folder(self) -> str:
        """The folder whose code is measured; absolute."""
        return self._folder

    def __repr__(self) -> str:
        if not self._folder:
            return "<LineProfiler, without its __init__()>"
        state = "running" if self.running else "not running"
        return f"<LineProfiler of {_nearest.short_repr(self._folder)}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a LineProfiler can be neither copied nor pickled; what get_stats() returns can"
        )

    # ---- while it runs

    def region(self, name: str) -> _Region:
        """Return a context manager: what this thread does in it is also kept apart under the name.

        Regions nest: figures of one include those of the regions within it. Where no profiler
        runs it does nothing. ValueError: the name is empty.
        """
        if not isinstance(name, str):
            raise TypeError(f"a region's name must be str, not {type(name).__name__}")
        if not name:
            raise ValueError("a region's name must not be empty")
        return _Region(self, str.__str__(name))  # that of a subclass may compare as it likes

    def clear(self) -> None:
        """Forget all figures. RuntimeError: it is running."""
        super().clear()
        self._signatures.clear()

    def reset(self) -> None:
        """The same as clear()."""
        self.clear()

    # ---- figures

    def get_stats(self, *, region: Region | None = None) -> dict[Key, FunctionStats]:
        """Return the figures of all functions that ran: {(filename, function, first_line): ...}.

        Functions that share all three, as twins on one line do, are added up. Sorted by file and
        line. While the profiler runs, what is going on counts up to now.

        region: only what was done in the region of this name, wherever it was; or on this path, a
        tuple of names from the outside in. ValueError: there was no such region.
        """
        return {
            (function.filename, function.function_name, function.first_line): function
            for function in self._functions_in(self.results(), region)
        }

    def print_stats(
        self,
        min_time_us: SupportsFloat = 0.0,
        top_n_lines: SupportsIndex | None = None,
        sort_by: SortBy = "line",
        *,
        stream: TextIO | None = None,
        region: Region | None = None,
    ) -> None:
        """Print the lines of each function.

        min_time_us: leave out lines whose total time, calls included, is less.
        top_n_lines: of each function, only so many lines, those with the most total time.
        sort_by: "line", the order of the source; "time", the total time; or "hits". Functions
        are in that order too.
        stream: a text file to print to, instead of standard output. Lines are as long as its
        terminal is wide, elsewhere up to 100 columns; what of the source is cut off ends in "…".
        region: as in get_stats().
        """
        from lineprofiler import _lines_text

        chosen = _lines_text.Chosen(min_time_us, top_n_lines, sort_by)
        stream = _text_file("stream", sys.stdout if stream is None else stream)
        _print(_lines_text.functions_text(self._view(region), chosen, _width(stream)), stream)

    def print_global_top_stats(
        self,
        top_n: SupportsIndex | None = 20,
        min_time_us: SupportsFloat = 0.0,
        sort_by: SortBy = "time",
        *,
        stream: TextIO | None = None,
        region: Region | None = None,
    ) -> None:
        """Print the hottest lines of all functions together.

        top_n: how many; None: all.
        min_time_us: leave out lines whose total time, calls included, is less.
        sort_by: "time", the time in the line itself, without other lines of the project that it
        calls, so that a caller does not come before what takes the time; "hits"; or "line".
        stream, region: as in print_stats().
        """
        from lineprofiler import _lines_text

        chosen = _lines_text.Chosen(min_time_us, top_n, sort_by, name="top_n")
        stream = _text_file("stream", sys.stdout if stream is None else stream)
        _print(_lines_text.top_text(self._view(region), chosen, _width(stream)), stream)

    # ---- files

    def to_html(self, path: str | os.PathLike[str], *, region: Region | None = None) -> None:
        """Write one page with the annotated source of all files; it needs nothing else.

        The file is written whole or not at all. OSError: it cannot be written.
        """
        from lineprofiler import _lines_files, _lines_html

        text = _lines_html.page(self._view(region))
        _lines_files.write_whole(path, text.encode("utf-8"))

    def to_json(self, to: str | os.PathLike[str] | TextIO) -> None:
        """Write all figures as JSON, to a path or a text file; see docs/line-profiler.md.

        A file is written whole or not at all. OSError: it cannot be written.
        """
        from lineprofiler import _lines_files

        if to is None or not isinstance(to, str | bytes | os.PathLike):
            _text_file("to", to, "a path or ")
        results = self.results()
        paths = sorted({path[:n] for _, _, _, path, *_ in results for n in range(1, len(path) + 1)})
        regions = [(path, self._functions_in(results, path)) for path in paths]
        text = _lines_files.json_text(self._view(None), regions)
        if isinstance(to, str | bytes | os.PathLike):
            _lines_files.write_whole(to, text.encode("utf-8"))
        else:
            to.write(text)

    def dump_stats(self, path: str | os.PathLike[str]) -> None:
        """Write what ``python -m line_profiler`` reads, an .lprof file; times include calls.

        The file is written whole or not at all. OSError: it cannot be written.
        """
        from lineprofiler import _lines_files

        _lines_files.write_whole(path, _lines_files.lprof_bytes(self._view(None)))

    # ---- within

    def _functions_in(self, results: list[Any], region: Region | None) -> list[FunctionStats]:
        if region is not None:
            _check_region(results, region)
        sums: dict[Key, _Sum] = {}
        for file, name, first_line, path, calls, wall_ns, cpu_ns, lines in results:
            if _is_within(path, region):
                found = sums.setdefault((file, name, first_line), _Sum())
                found.add(calls, wall_ns, cpu_ns, lines)
        keys = sorted(sums, key=lambda key: (key[0], key[2], key[1]))
        functions = [sums[key].function(key) for key in keys]
        return [function for function in functions if function.line_stats]

    def _view(self, region: Region | None) -> View:
        """Return all that is to be shown."""
        from lineprofiler import _lines_source
        from lineprofiler._lines_view import View

        totals = self.totals()
        functions = self._functions_in(self.results(), region)
        if not self.running:
            for function in functions:
                file = function.filename
                if file not in self._signatures:
                    self._signatures[file] = _lines_source.sign(file)
        return View(
            folder=self._folder,
            functions=functions,
            globs=self._functions,
            problems={},
            region="/".join(region) or None if isinstance(region, tuple) else region,
            running=self.running,
            signatures=self._signatures,
            sources={},
            switched_off=self._switched_off,
            totals=totals,
        )


class _Sum:
    """Figures of code objects that share their names, added up."""

    __slots__ = ("calls", "cpu_ns", "lines", "wall_ns")

    def __init__(self) -> None:
        self.calls = self.wall_ns = self.cpu_ns = 0
        self.lines: dict[int, list[int]] = {}

    def add(self, calls: int, wall_ns: int, cpu_ns: int, lines: list[tuple[int, ...]]) -> None:
        self.calls += calls
        self.wall_ns += wall_ns
        self.cpu_ns += cpu_ns
        for number, *figures in lines:
            there = self.lines.get(number)
            if there is None:
                self.lines[number] = figures
            else:
                most = max(there[-1], figures[-1])
                self.lines[number] = [a + b for a, b in zip(there, figures, strict=True)]
                self.lines[number][-1] = most

    def function(self, key: Key) -> FunctionStats:
        return FunctionStats(
            filename=key[0],
            function_name=key[1],
            first_line=key[2],
            calls=self.calls,
            wall_ns=max(0, self.wall_ns),
            cpu_ns=max(0, self.cpu_ns),
            line_stats={number: _line(number, self.lines[number]) for number in sorted(self.lines)},
        )


def _line(number: int, figures: list[int]) -> LineStats:
    # A time below zero is what is left when the profiler's own was taken out of next to nothing.
    hits, self_ns, self_cpu_ns, wall_ns, cpu_ns, awaited_ns, most_awaiting = figures
    return LineStats(
        line_number=number,
        hits=hits,
        self_ns=max(0, self_ns),
        self_cpu_ns=max(0, self_cpu_ns),
        wall_ns=max(0, wall_ns),
        cpu_ns=max(0, cpu_ns),
        awaited_ns=max(0, awaited_ns),
        most_awaiting=most_awaiting,
    )


def _is_within(path: tuple[str, ...], region: Region | None) -> bool:
    if region is None:
        return True
    if isinstance(region, str):
        return region in path
    return path[: len(region)] == region


def _check_region(results: list[Any], region: Region) -> None:
    if not isinstance(region, str) and not (
        isinstance(region, tuple) and all(isinstance(name, str) for name in region)
    ):
        raise TypeError(f"region must be str, tuple of str or None, not {type(region).__name__}")
    paths = {path for _, _, _, path, *_ in results}
    if any(_is_within(path, region) for path in paths):
        return
    names = sorted({name for path in paths for name in path})
    last = region if isinstance(region, str) else "/".join(region)
    near = _nearest.did_you_mean(map(repr, _nearest.nearest_names(last, names)), map(repr, names))
    raise ValueError(f"no region {region!r}{near}")


def _text_file(name: str, given: TextIO | None, other: str = "") -> TextIO | None:
    """Return an argument if one can write text to it; None, which prints nothing, as it is."""
    import io

    is_binary = isinstance(given, io.RawIOBase | io.BufferedIOBase)
    if given is not None and (is_binary or not hasattr(given, "write")):
        raise TypeError(f"{name} must be {other}an open text file, not {type(given).__name__}")
    return given


def _width(stream: TextIO | None) -> int:
    """Return how long lines may be there."""
    try:
        if stream is not None and stream.isatty():
            return max(80, os.get_terminal_size(stream.fileno()).columns)
    except (AttributeError, OSError, ValueError):
        pass
    return 100


def _print(text: str, stream: TextIO | None) -> None:
    """Print it; what the stream's encoding does not have becomes question marks."""
    encoding = getattr(stream, "encoding", None)
    if isinstance(encoding, str):
        import contextlib

        with contextlib.suppress(LookupError):  # a name of its own, which it may know
            text = text.encode(encoding, "replace").decode(encoding)
    print(text, end="", file=stream)


def _folder_name(folder: str | os.PathLike[str]) -> str:
    if not isinstance(folder, str | bytes | os.PathLike):
        kind = type(folder).__name__
        raise TypeError(f"project_folder must be a path or None, not {kind}")
    name = os.fsdecode(folder)
    if not name:
        raise ValueError("project_folder must not be empty; None stands for the program's own")
    return name


_heeds_forks = False


def _heed_forks() -> None:
    global _heeds_forks
    if not _heeds_forks:
        _heeds_forks = True
        os.register_at_fork(after_in_child=_core.lines_after_fork)


# ---- without a block -------------------------------------------------------

_started: LineProfiler | None = None


def start_profiling(
    project_folder: str | os.PathLike[str] | None = None,
    *,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    functions: Iterable[str] | None = None,
) -> LineProfiler:
    """Make a LineProfiler, begin to measure, and return it; see there for the arguments.

    If ``LINEPROFILER_ENABLED`` is empty, 0, false, no or off, it measures nothing.

    RuntimeError: a LineProfiler is running.
    """
    global _started
    if project_folder is None:
        from lineprofiler import _lines_config

        project_folder = _lines_config.find_project(sys._getframe(1).f_code.co_filename)
    made = LineProfiler(project_folder, include=include, exclude=exclude, functions=functions)
    enabled = os.environ.get("LINEPROFILER_ENABLED", "1")
    if enabled.strip().lower() in _OFF:
        made._switched_off = enabled
    else:
        made.__enter__()
    _started = made
    return made


def stop_profiling() -> LineProfiler | None:
    """Cease to measure what start_profiling() began, and return its LineProfiler.

    None: nothing was begun.
    """
    global _started
    stopped, _started = _started, None
    if stopped is not None:
        stopped.__exit__(None, None, None)
    return stopped

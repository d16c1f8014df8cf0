"""Files that a line profiler writes: whole or not at all; JSON, and the form of line_profiler."""

from __future__ import annotations

import contextlib
import errno
import os

from lineprofiler import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from lineprofiler._lines_view import View
    from lineprofiler.lines import FunctionStats, LineStats

__all__ = ["check_writable", "is_special", "json_text", "lprof_bytes", "write_whole"]

FORMAT = "lineprofiler-lines"
VERSION = 1


# ---- whole or not at all ---------------------------------------------------


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file beside the path and rename it to that. OSError: it cannot be written.

    What is there but is no regular file, as a pipe, is written to.
    """
    name = os.fsdecode(path)
    if is_special(name):
        with _naming(name), open(name, "wb") as file:
            file.write(content)
        return
    target = os.path.realpath(name)
    with _naming(name), _beside(target) as (file_number, beside):
        with open(file_number, "wb") as file:
            file.write(content)
        os.replace(beside, target)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise what write_whole() would, as far as it can be told beforehand."""
    name = os.fsdecode(path)
    if os.path.isdir(name):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not is_special(name):
        with _naming(name), _beside(os.path.realpath(name)) as (file_number, _):
            os.close(file_number)


def is_special(name: str) -> bool:
    """Whether something is there that must not be replaced."""
    return os.path.exists(name) and not os.path.isfile(name)


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Have errors name the file that was asked for."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None


@contextlib.contextmanager
def _beside(target: str) -> Iterator[tuple[int, str]]:
    """Make a file beside the target, with its permissions; what is left of it goes in the end."""
    folder, base = os.path.split(target)
    beside = os.path.join(folder, f".{base[:100]}.{os.urandom(4).hex()}.tmp")
    file_number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):
            os.fchmod(file_number, os.stat(target).st_mode & 0o777)
        yield file_number, beside
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)


# ---- JSON ------------------------------------------------------------------


def json_text(view: View, regions: Iterable[tuple[tuple[str, ...], list[FunctionStats]]]) -> str:
    """Return the document that docs/lines.schema.json describes."""
    import json
    import platform

    totals = view.totals
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": _core.__version__,
        "python": platform.python_version(),
        "backend": totals["backend"],
        "project_folder": _text(view.folder),
        "wall_ns": totals["wall_ns"],
        "overhead_ns": totals["overhead_ns"],
        "events": totals["events"],
        "line_cost_ns": totals["line_cost_ns"],
        "call_cost_ns": totals["call_cost_ns"],
        "complete": totals["complete"],
        "caveats": [{"kind": kind, "text": _text(text)} for kind, text in view.caveats()],
        "functions": [_function(function) for function in view.functions],
        "regions": [
            {"path": [_text(name) for name in path], "functions": list(map(_function, functions))}
            for path, functions in regions
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _function(function: FunctionStats) -> dict[str, Any]:
    return {
        "file": _text(function.filename),
        "name": _text(function.function_name),
        "first_line": function.first_line,
        "calls": function.calls,
        "wall_ns": function.wall_ns,
        "cpu_ns": function.cpu_ns,
        "lines": [_line(line) for line in function.line_stats.values()],
    }


def _line(line: LineStats) -> dict[str, int]:
    return {
        "line": line.line_number,
        "hits": line.hits,
        "self_ns": line.self_ns,
        "self_cpu_ns": line.self_cpu_ns,
        "wall_ns": line.wall_ns,
        "cpu_ns": line.cpu_ns,
        "awaited_ns": line.awaited_ns,
        "most_awaiting": line.most_awaiting,
    }


def _text(text: str) -> str:
    """Return it as accounting.decode_text() reads it: some readers refuse lone surrogates."""
    text = text.replace("\\", "\\\\").replace("\0", "\\x00")
    if text.isascii():
        return text
    return "".join(f"\\u{ord(char):04x}" if 0xD800 <= ord(char) < 0xE000 else char for char in text)


# ---- line_profiler's form --------------------------------------------------

_CLASS = b"cline_profiler.line_profiler\nLineStats\n"


def lprof_bytes(view: View) -> bytes:
    """Return what line_profiler would pickle: times are those with calls, in nanoseconds.

    Its class is named and not imported, so that it need not be there.
    """
    import pickle

    timings = {
        (function.filename, function.first_line, function.function_name): [
            (line.line_number, line.hits, line.wall_ns) for line in function.line_stats.values()
        ]
        for function in view.functions
    }
    state = pickle.dumps({"timings": timings, "unit": 1e-9}, protocol=3)
    head, body = state[:2], state[2:-1]
    # The class, called with no arguments, and then the dict of its attributes.
    return head + _CLASS + b")\x81" + body + b"b."

"""The text of what was measured, and what can be said of it where there is none or another one.

The figures never depend on this: where the text is gone, or is not the text that ran, only the
column of the source says so.
"""

from __future__ import annotations

import os

from lineprofiler._record import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

    Signature = tuple[int, int, int]

__all__ = ["CHANGED", "GONE", "Source", "read_source", "sign"]

GONE = "source not available"
CHANGED = "file changed since"


class Source(_Record):
    """The text of a file, or of a cell of a notebook, as lines without their ends."""

    __slots__ = ("codes", "is_file", "lines", "note", "signature")
    lines: list[str]
    note: str
    """What is wrong with the text; "" if nothing is. Where lines is empty: why it is."""
    is_file: bool
    signature: Signature | None
    codes: dict[tuple[str, int], frozenset[int]]
    """The lines that have code, of each code object by qualified name and first line; empty if it
    does not compile, or is no file."""

    def problem(self, name: str, first_line: int, lines: list[int]) -> str:
        """Return why the text is not that of a code object, with these lines; "" if it is."""
        if not self.lines:
            return self.note
        if not self.is_file:
            return ""
        there = self.codes.get((name, first_line))
        if there is None or any(not 0 < line <= len(self.lines) for line in lines):
            return CHANGED
        return ""

    def line(self, number: int) -> str:
        """Return a line, from 1; "" if there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


def sign(file: str) -> Signature | None:
    """Return what changes when a file does; None if there is no such file."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_source(file: str, signature: Signature | None) -> Source:
    """Read the text of code whose file has this name, and had this signature."""
    if not _is_file(file):
        return _of_lines(_remembered(file), GONE, is_file=False)
    now = sign(file)
    if signature is not None and now != signature:
        return _of_lines([], CHANGED)
    try:
        text, note = _read_text(file)
    except OSError as error:
        return _of_lines([], f"{GONE}: {error.strerror}")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return Source(lines=lines, note=note, is_file=True, signature=now, codes=_codes_of(text, file))


def _of_lines(lines: list[str], why_none: str, is_file: bool = True) -> Source:
    note = "" if lines else why_none
    return Source(lines=lines, note=note, is_file=is_file, signature=None, codes={})


def _is_file(file: str) -> bool:
    try:
        return os.path.isfile(file)
    except ValueError:  # a NUL in it
        return False


def _remembered(file: str) -> list[str]:
    """Return what was left with linecache, as interactive shells and notebooks do."""
    import linecache

    if sign(file) is not None:
        return []  # no file, but there: linecache would wait for what comes through a pipe
    return [line.removesuffix("\n") for line in linecache.getlines(file)]


def _read_text(file: str) -> tuple[str, str]:
    """Return a text with ends of lines as Python sees them, and what is wrong with it."""
    import io
    import tokenize

    with open(file, "rb") as raw:
        content = raw.read()
    note = ""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError):  # the last: it encodes no text, like zlib
        text = content.decode("utf-8", errors="replace")
        note = "not in the encoding that it declares: other bytes are shown as U+FFFD"
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n"), note


# ---- lines with code -------------------------------------------------------


def _codes_of(text: str, file: str) -> dict[tuple[str, int], frozenset[int]]:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return {}
    codes: dict[tuple[str, int], set[int]] = {}
    waiting = [code]
    while waiting:
        code = waiting.pop()
        key = (code.co_qualname, code.co_firstlineno)
        codes.setdefault(key, set()).update(_lines_of(code))
        waiting += [const for const in code.co_consts if isinstance(const, type(code))]
    return {key: frozenset(lines) for key, lines in codes.items()}


def _lines_of(code: CodeType) -> set[int]:
    """Return its lines, without that of what the interpreter does at the beginning of a call."""
    begin = _begin_of(code)
    return {line for start, _, line in code.co_lines() if line and start > begin}


def _begin_of(code: CodeType) -> int:
    import dis

    resume = dis.opmap.get("RESUME")
    units = code.co_code[::2]
    return 2 * units.index(resume) if resume is not None and resume in units else -1

"""Names for people: paths and lists in a bounded form, and what was probably meant by a wrong one.

Costs nothing until something is wrong; then it looks at no more than a thousand names.
"""

from __future__ import annotations

import reprlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Path = tuple[str, ...]

_LOOKED_AT = 1000
_LENGTH = 120

_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = _LENGTH
_shortener.maxtuple = 33
_shortener.maxdict = _shortener.maxlist = 6


def short_repr(value: object) -> str:
    """Return its repr, with long texts and containers cut."""
    return _shortener.repr(value)


def show_path(path: Path) -> str:
    """Return a path on one line: joined by "/", or as a tuple where a name has one itself."""
    if not path or any("/" in name for name in path):
        return short_repr(path)
    return short_repr("/".join(path))


def listing(words: Iterable[str], limit: int = 8) -> str:
    """Return the words joined by commas, those beyond the limit as their number."""
    every = list(words)
    # One more word takes no more room than to say that there is one more.
    shown = every if len(every) <= limit + 1 else every[:limit]
    more = len(every) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def nearest_names(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three of the names that are written alike, the nearest first."""
    import difflib
    from itertools import islice

    by_start = {other[:_LENGTH].casefold(): other for other in islice(names, _LOOKED_AT)}
    found = difflib.get_close_matches(name[:_LENGTH].casefold(), by_start, cutoff=0.6)
    return [by_start[start] for start in found]


def nearest_paths(path: Path, paths: Collection[Path]) -> list[Path]:
    """Return up to three paths that may be meant: written alike, or of the same last name."""
    joined: dict[str, Path] = {}
    for other in paths:
        joined.setdefault("/".join(other), other)
    found = [joined[text] for text in nearest_names("/".join(map(str, path)), joined)]
    found += [other for other in paths if path and other[-1:] == path[-1:]]
    return list(dict.fromkeys(found))[:3]


def did_you_mean(shown: Iterable[str], there: Iterable[str]) -> str:
    """Return the end of a sentence: what was probably meant, or else what there is."""
    near = list(shown)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    every = listing(there)
    return f"; there are {every}" if every else "; there are none"


def short_name(name: str) -> str:
    """Return a name as it is, if it is short and plain."""
    return name if name.isprintable() and len(name) <= 60 else short_repr(name)

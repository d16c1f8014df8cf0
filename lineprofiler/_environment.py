"""Variables that an enabled profiler shows to child processes, and takes back when it is closed."""

from __future__ import annotations

import os

# Of all profilers of this process that are not closed, in the order in which they began.
_exports: list[Export] = []


class Export:
    """Values put into the environment, and what stood there before.

    Several may lie on top of each other and be taken back in any order. What the program set
    meanwhile is left alone.
    """

    __slots__ = ("_before", "_values")

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        self._before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        _exports.append(self)

    def take_back(self) -> None:
        """Restore what stood there before, once."""
        if self not in _exports:
            return
        index = _exports.index(self)
        above = _exports[index + 1 : index + 2]
        del _exports[index]
        for name, ours in self._values.items():
            if above:
                above[0]._replace_before(name, ours, self._before[name])
            elif os.environ.get(name) == ours:
                _put(name, self._before[name])

    def _replace_before(self, name: str, old: str, new: str | None) -> None:
        if self._before.get(name) == old:
            self._before[name] = new


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value

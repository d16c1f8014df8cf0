"""What a victim does, operation by operation, and what must be on record after each of them.

A program has a line of operations for each stream (a thread of a process), which is played over and
over. A stream writes one byte to its victim's pipe after each operation that has returned, so the
number of its bytes says how far it has come for certain: `done` operations are on record, and the
next one is, is not, or is in part.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Path = tuple[str, ...]


class Operation(NamedTuple):
    """Enter a phase (`+`), leave the innermost one (`-`), or count (`#`)."""

    kind: str
    name: str = ""
    n: int = 0

    def __str__(self) -> str:
        return f"#{self.name}:{self.n}" if self.kind == "#" else self.kind + self.name


@dataclass
class Figures:
    """What one stream has on record of one phase."""

    calls: int = 0
    open_calls: int = 0


@dataclass
class Count:
    """What one stream has on record of one counter."""

    total: int = 0
    calls: int = 0
    min: int = 2**63 - 1
    max: int = -(2**63)

    def add(self, n: int) -> None:
        self.total += n
        self.calls += 1
        self.min = min(self.min, n)
        self.max = max(self.max, n)


@dataclass
class State:
    """What one stream has on record."""

    phases: dict[Path, Figures] = field(default_factory=dict)
    counters: dict[tuple[Path, str], Count] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def play(self, operation: Operation) -> None:
        path = tuple(self.open)
        if operation.kind == "+":
            self.open.append(operation.name)
            self.phases.setdefault(tuple(self.open), Figures()).open_calls += 1
        elif operation.kind == "-":
            self.open.pop()
            figures = self.phases[path]
            figures.open_calls -= 1
            figures.calls += 1
        else:
            self.counters.setdefault((path, operation.name), Count()).add(operation.n)

    def ended(self) -> State:
        """The thread has ended while its process went on: what it had open has ended with it."""
        while self.open:
            self.play(Operation("-"))
        return self


class Line:
    """The operations of one stream, played over and over; nothing is open at the end of a round."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)
        self._round = self._played(self.operations)
        assert not self._round.open

    @staticmethod
    def _played(operations: list[Operation]) -> State:
        state = State()
        for operation in operations:
            state.play(operation)
        return state

    def after(self, done: int) -> State:
        """Return what is on record after so many operations."""
        rounds, rest = divmod(done, len(self.operations))
        state = self._played(self.operations[:rest])
        if not rounds:
            return state
        for path, figures in self._round.phases.items():
            state.phases.setdefault(path, Figures()).calls += rounds * figures.calls
        for key, count in self._round.counters.items():
            kept = state.counters.setdefault(key, Count())
            kept.total += rounds * count.total
            kept.calls += rounds * count.calls
            kept.min, kept.max = count.min, count.max
        return state


class Program:
    """One line for each stream of a victim."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def text(self) -> str:
        """As the victims read it: operations parted by blanks."""
        return "".join(" ".join(map(str, line.operations)) + "\n" for line in self.lines)


COUNTS = (1, 1, 1, 7, -3, 0, 10**12)


def small_line(rng: random.Random, top: str) -> Line:
    """Nested phases and counters, on few paths; of counters outside phases too."""
    operations: list[Operation] = []
    depth = 0
    for _ in range(rng.randint(4, 40)):
        turn = rng.random()
        if turn < 0.35 and depth < 6:
            operations.append(Operation("+", rng.choice("abc") if depth else top))
            depth += 1
        elif turn < 0.65 and depth:
            operations.append(Operation("-"))
            depth -= 1
        else:
            operations.append(Operation("#", rng.choice(("moves", "games")), rng.choice(COUNTS)))
    operations += [Operation("+", top), Operation("-")]
    operations += [Operation("-")] * depth
    return Line(operations)


def wide_line(rng: random.Random, top: str, paths: int) -> Line:
    """Ever new phases and counters, so that the image has to grow."""
    operations = [Operation("+", top)]
    for i in range(paths):
        operations.append(Operation("+", f"phase_{i}"))
        if rng.random() < 0.3:
            operations.append(Operation("#", f"counter_{i}", rng.choice(COUNTS)))
        operations.append(Operation("-"))
    return Line([*operations, Operation("-")])


def small(rng: random.Random, streams: int) -> Program:
    """Few paths; the streams have them for themselves, or share them."""
    shared = rng.random() < 0.3
    return Program([small_line(rng, "top" if shared else f"top_{i}") for i in range(streams)])


def wide(rng: random.Random, streams: int) -> Program:
    """More than fit into the image as it is at first, and within the bound of 4096 paths."""
    return Program([wide_line(rng, f"top_{i}", 3600 // streams) for i in range(streams)])

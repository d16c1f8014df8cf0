"""What should be recorded of a program: the reference that the recorder is held against.

Slow on purpose and short enough to be believed: it forgets no entry, and adds all of them up anew
whenever somebody asks for the figures. Words as in docs/format.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

Path = tuple[str, ...]

DEEPEST = 32
GREATEST = 2**63 - 1


@dataclass(eq=False)
class Stack:
    """What runs by itself and nests its phases by itself: a thread."""

    thread: str
    """The thread's name."""
    cpu_ns: int = 0
    """CPU time that it has used."""
    open: list[Entry] = field(default_factory=list)
    """Its open entries in the order in which they were entered."""


@dataclass(eq=False)
class Entry:
    """One entry of a phase."""

    path: Path
    stack: Stack
    parent: Entry | None
    start_wall_ns: int
    start_cpu_ns: int
    end_wall_ns: int | None = None
    end_cpu_ns: int = 0


@dataclass
class Tally:
    """The figures of a counter."""

    sum: int = 0
    calls: int = 0
    min: int = GREATEST
    max: int = -GREATEST - 1


@dataclass
class Figures:
    """The figures of a path. Those called open are not contained in the others."""

    calls: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0
    child_wall_ns: int = 0
    late_wall_ns: int = 0
    open_calls: int = 0
    open_wall_ns: int = 0
    open_cpu_ns: int = 0
    open_child_wall_ns: int = 0
    open_late_wall_ns: int = 0
    hist: Counter[int] = field(default_factory=Counter)
    counters: dict[str, Tally] = field(default_factory=dict)


def bucket_of(ns: int) -> int:
    """Return the bucket of a duration: exact below 16 ns, else eight buckets an octave."""
    if ns < 16:
        return ns
    octave = ns.bit_length() - 1
    eighth = (ns - (1 << octave)) * 8 >> octave
    return (octave - 2) * 8 + eighth


class Reference:
    """Everything that a profiler has been told.

    thread_names: the first name of each path is that of the thread.
    """

    def __init__(self, thread_names: bool = False) -> None:
        self.thread_names = thread_names
        self.now_ns = 0
        self.entries: list[Entry] = []
        self.counts: list[tuple[Stack, Path, str, int]] = []
        self.folded = 0

    def pass_time(self, stack: Stack, wall_ns: int, cpu_ns: int) -> None:
        """Let time go by, in which that stack ran for cpu_ns."""
        self.now_ns += wall_ns
        stack.cpu_ns += cpu_ns

    def path(self, stack: Stack) -> Path:
        """Return the path of the innermost open phase."""
        return stack.open[-1].path if stack.open else ()

    def enter(self, stack: Stack, name: str) -> Entry | None:
        """Return the new entry below the innermost open one; None if that is too deep."""
        path = (*self.path(stack), name)
        if len(path) > DEEPEST:
            self.folded += 1
            return None
        parent = stack.open[-1] if stack.open else None
        entry = Entry(path, stack, parent, self.now_ns, stack.cpu_ns)
        stack.open.append(entry)
        self.entries.append(entry)
        return entry

    def leave(self, entry: Entry | None) -> None:
        """End this entry, whichever others are open. Once is enough."""
        if entry is None or entry.end_wall_ns is not None:
            return
        entry.end_wall_ns = self.now_ns
        entry.end_cpu_ns = entry.stack.cpu_ns
        entry.stack.open.remove(entry)

    def end(self, stack: Stack) -> None:
        """End a thread, and with it what is open on it."""
        for entry in list(stack.open):
            self.leave(entry)

    def count(self, stack: Stack, name: str, n: int) -> None:
        """Add n in the innermost open phase. OverflowError: the thread's sum leaves 64 bits."""
        where = (stack, self.path(stack), name)
        total = n + sum(count[3] for count in self.counts if count[:3] == where)
        if not -GREATEST - 1 <= total <= GREATEST:
            raise OverflowError
        self.counts.append((*where, n))

    def figures(self) -> dict[Path, Figures]:
        """Return what stands now, by path; () is what was counted outside any phase."""
        figures: dict[Path, Figures] = {(): Figures()}
        for entry in self.entries:
            self._add(self._at(figures, entry.stack, entry.path), entry)
        for stack, path, name, n in self.counts:
            tally = self._at(figures, stack, path).counters.setdefault(name, Tally())
            tally.sum += n
            tally.calls += 1
            tally.min = min(tally.min, n)
            tally.max = max(tally.max, n)
        return figures

    def _at(self, figures: dict[Path, Figures], stack: Stack, path: Path) -> Figures:
        if self.thread_names:
            figures.setdefault((stack.thread,), Figures())
            path = (stack.thread, *path)
        return figures.setdefault(path, Figures())

    def _end_ns(self, entry: Entry) -> int:
        return self.now_ns if entry.end_wall_ns is None else entry.end_wall_ns

    def _add(self, figures: Figures, entry: Entry) -> None:
        end_ns = self._end_ns(entry)
        wall_ns = end_ns - entry.start_wall_ns
        child_ns = sum(
            min(end_ns, self._end_ns(child)) - child.start_wall_ns
            for child in self.entries
            if child.parent is entry
        )
        late_ns = max(0, end_ns - self._end_ns(entry.parent)) if entry.parent else 0
        if entry.end_wall_ns is None:
            figures.open_calls += 1
            figures.open_wall_ns += wall_ns
            figures.open_cpu_ns += entry.stack.cpu_ns - entry.start_cpu_ns
            figures.open_child_wall_ns += child_ns
            figures.open_late_wall_ns += late_ns
        else:
            figures.calls += 1
            figures.wall_ns += wall_ns
            figures.cpu_ns += entry.end_cpu_ns - entry.start_cpu_ns
            figures.child_wall_ns += child_ns
            figures.late_wall_ns += late_ns
            figures.hist[bucket_of(wall_ns)] += 1

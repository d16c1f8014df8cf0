"""What should be recorded of a program: the reference that the recorder is held against.

Slow on purpose and short enough to be believed: it forgets no entry, and adds all of them up anew
whenever somebody asks for the figures. Words as in docs/format.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod

Path = tuple[str, ...]

DEEPEST = 32
GREATEST = 2**63 - 1


@dataclass(eq=False)
class Stack:
    """What nests its phases by itself: a thread, or a task that runs on one."""

    name: str = ""
    """A thread's name."""
    host: Stack | None = None
    """The thread of a task."""
    cpu_ns: int = 0
    """CPU time that it has used; a thread's is that of its tasks, too."""
    open: list[Entry] = field(default_factory=list)
    """Its open entries in the order in which they were entered."""
    skipped: Entry | None = None
    """The open entry that is not measured, with all that is inside."""

    @property
    def thread(self) -> Stack:
        return self.host or self


@dataclass(eq=False)
class Entry:
    """One entry of a phase."""

    line: tuple[tuple[str, int], ...]
    """Names and sampling strides from the root."""
    stack: Stack
    parent: Entry | None
    start_wall_ns: int
    start_cpu_ns: int
    end_wall_ns: int | None = None
    end_cpu_ns: int | None = None
    """None: still open, or not measured."""

    @property
    def path(self) -> Path:
        return tuple(name for name, stride in self.line)

    @property
    def stands_for(self) -> int:
        """How many entries it is measured for."""
        return prod(stride for name, stride in self.line)


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
    nocpu_wall_ns: int = 0
    child_wall_ns: int = 0
    late_wall_ns: int = 0
    open_calls: int = 0
    open_wall_ns: int = 0
    open_cpu_ns: int = 0
    open_child_wall_ns: int = 0
    open_late_wall_ns: int = 0
    hist: Counter[int] = field(default_factory=Counter)
    counters: dict[str, Tally] = field(default_factory=dict)
    strides: set[int] = field(default_factory=set)


@dataclass
class Reading:
    """What stands at a moment."""

    figures: dict[Path, Figures]
    inside_ns: int
    """For how long anything was open, all stacks together."""


def bucket_of(ns: int) -> int:
    """Return the bucket of a duration: exact below 16 ns, else eight buckets an octave."""
    if ns < 16:
        return ns
    octave = ns.bit_length() - 1
    eighth = (ns - (1 << octave)) * 8 >> octave
    return (octave - 2) * 8 + eighth


def fits(number: int) -> bool:
    """Whether it is one of signed 64 bits."""
    return -GREATEST - 1 <= number <= GREATEST


def outlives_a_sampled(entry: Entry | None) -> bool:
    """Whether what is open lies in an entry of a sampled phase that has ended."""
    while entry is not None:
        if entry.end_wall_ns is not None and entry.line[-1][1] > 1:
            return True
        entry = entry.parent
    return False


class Reference:
    """Everything that a profiler has been told.

    thread_names: the first name of each path is that of the thread.
    """

    def __init__(self, thread_names: bool = False) -> None:
        self.thread_names = thread_names
        self.now_ns = 0
        self.entries: list[Entry] = []
        self.counts: list[tuple[Stack, tuple[tuple[str, int], ...], str, int]] = []
        self.times_entered: Counter[tuple[Stack, tuple[tuple[str, int], ...]]] = Counter()
        self.folded = 0

    def pass_time(self, stack: Stack, wall_ns: int, cpu_ns: int) -> None:
        """Let time go by, in which that stack ran for cpu_ns."""
        self.now_ns += wall_ns
        for running in {stack, stack.thread}:
            running.cpu_ns += cpu_ns

    def line(self, stack: Stack) -> tuple[tuple[str, int], ...]:
        """Return the names and strides of the innermost open phase that is measured."""
        return stack.open[-1].line if stack.open else ()

    def path(self, stack: Stack) -> Path:
        """Return the names only."""
        return tuple(name for name, stride in self.line(stack))

    def enter(self, stack: Stack, name: str, stride: int = 1) -> Entry | None:
        """Return the new entry below the innermost open one; None if nothing comes of it."""
        line = (*self.line(stack), (name, stride))
        if stack.skipped:
            return None
        if len(line) > DEEPEST:
            self.folded += 1
            return None
        parent = stack.open[-1] if stack.open else None
        entry = Entry(line, stack, parent, self.now_ns, stack.cpu_ns)
        if stride > 1 and outlives_a_sampled(parent):
            stack.skipped = entry
            return entry
        if self.times_entered[stack.thread, line] % stride == 0:
            stack.open.append(entry)
            self.entries.append(entry)
        else:
            stack.skipped = entry
        self.times_entered[stack.thread, line] += 1
        return entry

    def leave(self, stack: Stack, entry: Entry | None) -> None:
        """End this entry, whichever others are open, from that stack. Once is enough."""
        if entry is None or entry.end_wall_ns is not None:
            return
        entry.end_wall_ns = self.now_ns
        if stack.thread is entry.stack.thread:
            entry.end_cpu_ns = entry.stack.cpu_ns
        if entry is entry.stack.skipped:
            entry.stack.skipped = None
        else:
            entry.stack.open.remove(entry)

    def end(self, thread: Stack) -> None:
        """End a thread, and with it what is open on it."""
        for entry in self.entries:
            if entry.stack.thread is thread:
                self.leave(thread, entry)

    def count(self, stack: Stack, name: str, n: int) -> None:
        """Add n in the innermost open phase. OverflowError: the thread's sum leaves 64 bits."""
        if stack.skipped:
            return
        where = (stack.thread, self.line(stack), name)
        if not fits(n + sum(count[3] for count in self.counts if count[:3] == where)):
            raise OverflowError
        self.counts.append((*where, n))

    def figures(self) -> dict[Path, Figures]:
        """Return what stands now, by path; () is what was counted outside any phase."""
        figures: dict[Path, Figures] = {(): Figures()}
        for entry in self.entries:
            self._add(self._at(figures, entry.stack, entry.path), entry)
        for thread, line, name, n in self.counts:
            times = prod(stride for _, stride in line)
            path = tuple(name for name, _ in line)
            tally = self._at(figures, thread, path).counters.setdefault(name, Tally())
            tally.sum += n * times
            tally.calls += times
            tally.min = min(tally.min, n)
            tally.max = max(tally.max, n)
        return figures

    def _at(self, figures: dict[Path, Figures], stack: Stack, path: Path) -> Figures:
        if self.thread_names:
            name = stack.thread.name
            figures.setdefault((name,), Figures())
            path = (name, *path)
        return figures.setdefault(path, Figures())

    def _end_ns(self, entry: Entry) -> int:
        return self.now_ns if entry.end_wall_ns is None else entry.end_wall_ns

    def _child_ns(self, entry: Entry) -> int:
        """Return how much of an entry's time others stand for: those directly in it, at any moment.

        That is its children, and theirs once these have ended.
        """
        covered_ns = 0
        for inner in self.entries:
            start_ns, around = inner.start_wall_ns, inner.parent
            while around is not None and around is not entry:
                start_ns = max(start_ns, self._end_ns(around))
                around = around.parent
            if around is not None:
                both_open = entry.end_wall_ns is inner.end_wall_ns is None
                times = 1 if both_open else inner.stands_for // entry.stands_for
                end_ns = min(self._end_ns(entry), self._end_ns(inner))
                covered_ns += times * max(0, end_ns - start_ns)
        return covered_ns

    def read(self) -> Reading:
        """Return all that stands now."""
        return Reading(self.figures(), self._inside_ns())

    def _inside_ns(self) -> int:
        inside_ns = 0
        for stack in {entry.stack for entry in self.entries}:
            until_ns = 0
            for entry in self.entries:  # in the order of their beginning
                if entry.stack is stack:
                    start_ns, end_ns = max(until_ns, entry.start_wall_ns), self._end_ns(entry)
                    inside_ns += max(0, end_ns - start_ns)
                    until_ns = max(until_ns, end_ns)
        return inside_ns

    def _add(self, figures: Figures, entry: Entry) -> None:
        end_ns, child_ns = self._end_ns(entry), self._child_ns(entry)
        wall_ns = end_ns - entry.start_wall_ns
        late_ns = max(0, end_ns - self._end_ns(entry.parent)) if entry.parent else 0
        figures.strides.add(entry.stands_for)
        if entry.end_wall_ns is None:  # stands for itself only
            figures.open_calls += 1
            figures.open_wall_ns += wall_ns
            figures.open_cpu_ns += entry.stack.cpu_ns - entry.start_cpu_ns
            figures.open_child_wall_ns += child_ns  # over wall_ns where sampled ones stand for more
            figures.open_late_wall_ns += late_ns
            return
        times = entry.stands_for
        figures.calls += times
        figures.wall_ns += times * wall_ns
        figures.child_wall_ns += times * child_ns
        figures.late_wall_ns += times * late_ns
        figures.hist[bucket_of(wall_ns)] += times
        if entry.end_cpu_ns is None:
            figures.nocpu_wall_ns += times * wall_ns
        else:
            figures.cpu_ns += times * (entry.end_cpu_ns - entry.start_cpu_ns)

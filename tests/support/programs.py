"""Random programs: lists of operations, and what the reference says of them.

An operation is a list [verb, place, argument...]: at a place - "main" or the name of a thread -
something is done. What a program keeps to leave what it entered is a holder, known by a number.

enter number way names kept   enter phases, of new objects or of kept ones: by calls of __enter__
                              ("call"), by the two halves of a `with` ("bound"), by an ExitStack
                              ("stack") or, the first of them, in a generator
advance number                run the generator to where it has entered one more, or left one
leave number how              "exit", with an exception ("raise"), by forgetting all references
                              ("drop") or a cycle of them ("cycle")
block names kept wall cpu error  recursive `with`, time passing around each, an exception at last
pass_time wall cpu, count name n, current, snapshot, document, close, start name, end
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from hypothesis import strategies as st
from reference import Entry, Reading, Reference, Stack

Operation = list[Any]

MOST_PLACES = 5


@dataclass
class Holder:
    """What was entered, and is left together."""

    way: str
    names: list[str]
    kept: bool
    sample: float
    entries: list[Entry | None] = field(default_factory=list)
    entered: int = 0


class Expected:
    """Plays a program on the reference."""

    def __init__(self, thread_names: bool = False) -> None:
        self.reference = Reference(thread_names)
        self.stacks = {"main": Stack("main")}
        self.holders: dict[int, Holder] = {}
        self.loose: dict[tuple[str, float], list[tuple[Stack, Entry | None]]] = {}
        self.copies: list[Reading] = []
        self.final: Reading | None = None

    def play(self, operations: list[Operation]) -> list[Any]:
        return [getattr(self, verb)(place, *rest) for verb, place, *rest in operations]

    def start(self, place: str, name: str) -> None:
        self.stacks[place] = Stack(name)

    def end(self, place: str) -> None:
        self.reference.end(self.stacks.pop(place))

    def task(self, place: str, task: str, _shared: bool) -> None:
        self.stacks[task] = Stack(host=self.stacks[place].thread)

    def finish(self, place: str) -> None:
        self.stacks.pop(place)

    def pass_time(self, place: str, wall_ns: int, cpu_ns: int) -> None:
        self.reference.pass_time(self.stacks[place], wall_ns, cpu_ns)

    def enter(
        self,
        place: str,
        number: int,
        way: str,
        names: list[str],
        kept: bool,
        sample: float,
        _apart: bool,
    ) -> None:
        holder = self.holders[number] = Holder(way, names, kept, sample)
        for name in names[:1] if way == "generator" else names:
            self._enter_one(place, holder, name)

    def _enter_one(self, place: str, holder: Holder, name: str) -> None:
        stack = self.stacks[place]
        entry = self.reference.enter(stack, name, round(1 / holder.sample))
        holder.entries.append(entry)
        holder.entered += 1
        if holder.kept and holder.way == "call":
            self.loose.setdefault((name, holder.sample), []).append((stack, entry))

    def advance(self, place: str, number: int) -> bool:
        holder = self.holders[number]
        if holder.entered < len(holder.names):
            self._enter_one(place, holder, holder.names[holder.entered])
            return True
        self.reference.leave(self.stacks[place], holder.entries.pop())
        return bool(holder.entries)

    def leave(self, place: str, number: int, how: str) -> Any:
        holder = self.holders.pop(number)
        if holder.kept and holder.way == "call":
            for name in reversed(holder.names if how in ("exit", "raise") else []):
                self._leave_loose(self.stacks[place], self.loose[name, holder.sample])
        else:
            for entry in reversed(holder.entries):
                self.reference.leave(self.stacks[place], entry)
        if how == "raise" and holder.way == "generator":
            return "ValueError"
        return False if holder.way != "generator" and how in ("exit", "raise") else None

    def _leave_loose(self, stack: Stack, loose: list[tuple[Stack, Entry | None]]) -> None:
        """A kept object's own __exit__ leaves the last entry: of its task, thread, or any."""
        of_thread = [i for i in range(len(loose)) if loose[i][0].thread is stack.thread]
        of_task = [i for i in of_thread if loose[i][0] is stack]
        for last in (of_task or of_thread or list(range(len(loose))))[-1:]:
            self.reference.leave(stack, loose.pop(last)[1])

    def block(
        self, place: str, names: list[str], kept: bool, wall_ns: int, cpu_ns: int, error: bool
    ) -> str | None:
        stack = self.stacks[place]
        self.reference.pass_time(stack, wall_ns, cpu_ns)
        if not names:
            return "ValueError" if error else None
        entry = self.reference.enter(stack, names[0])
        result = self.block(place, names[1:], kept, wall_ns, cpu_ns, error)
        if not error:
            self.reference.pass_time(stack, wall_ns, cpu_ns)
        self.reference.leave(stack, entry)
        return result

    def count(self, place: str, name: str, n: int) -> str | None:
        try:
            self.reference.count(self.stacks[place], name, n)
        except OverflowError:
            text = f"OverflowError counter '{name}': the sum is outside signed 64 bits"
            return None if self.final else text
        return None

    def current(self, place: str) -> str:
        stack = self.stacks[place]
        path = stack.skipped.path if stack.skipped else self.reference.path(stack)
        return "" if self.final else "/".join(path)

    def snapshot(self, _place: str) -> None:
        self.copies.append(self.reference.read())

    document = snapshot

    def close(self, _place: str) -> None:
        self.final = self.final or self.reference.read()


class Draft:
    """Makes operations out of drawn ones, which name places and holders by any number at all."""

    def __init__(self, features: frozenset[str]) -> None:
        self.features = features
        self.operations: list[Operation] = []
        self.threads = {"main": "main"}  # of each place
        self.started = 0
        self.entered = 0
        self.holders: list[tuple[int, str, str, int]] = []  # number, place, way, steps left
        self.closed = False

    def draft(self, verb: str, which: int, *rest: Any) -> None:
        """Add what was drawn, if it can be done at this point."""
        place = self._place(which)
        if hasattr(self, f"_{verb}"):
            getattr(self, f"_{verb}")(place, which, *rest)
        else:
            self._add(verb, place, *rest)

    def _place(self, which: int) -> str:
        return list(self.threads)[which % len(self.threads)]

    def _add(self, verb: str, place: str, *rest: Any) -> None:
        self.operations.append([verb, place, *rest])

    def _start(self, place: str, which: int) -> None:
        if len(self.threads) == MOST_PLACES:
            return
        self.started += 1
        if "tasks" in self.features and which % 3:
            self.threads[f"task {self.started}"] = self.threads[place]
            self._add("task", place, f"task {self.started}", which % 2 == 0)
        else:
            self.threads[f"thread {self.started}"] = f"thread {self.started}"
            self._add("start", f"thread {self.started}", f"name {self.started % 2}")

    def _end(self, place: str, _which: int) -> None:
        if place.startswith("task"):
            del self.threads[place]
            self._add("finish", place)
        # Of a thread that takes over another's place it is not said where in its stride it begins.
        elif place != "main" and "sampling" not in self.features:
            self.threads = {one: host for one, host in self.threads.items() if host != place}
            self._add("end", place)

    def _times(self, wall_ns: int, cpu_ns: int) -> tuple[int, int]:
        """Sampled inside of sampled, long times would be scaled beyond 64 bits."""
        wall_ns = wall_ns % 2**24 if "sampling" in self.features else wall_ns
        return wall_ns, min(wall_ns, cpu_ns)

    def _pass_time(self, place: str, _which: int, wall_ns: int, cpu_ns: int) -> None:
        if wall_ns:
            self._add("pass_time", place, *self._times(wall_ns, cpu_ns))

    def _block(
        self,
        place: str,
        _which: int,
        names: list[str],
        kept: bool,
        wall_ns: int,
        cpu_ns: int,
        error: bool,
    ) -> None:
        self._add("block", place, names, kept, *self._times(wall_ns, cpu_ns), error)

    def _enter(
        self,
        place: str,
        _which: int,
        way: str,
        names: list[str],
        kept: bool,
        sample: float,
        apart: bool,
    ) -> None:
        self.entered += 1
        self.holders.append((self.entered, place, way, 2 * len(names) - 1))
        sample = sample if "sampling" in self.features else 1
        self._add("enter", place, self.entered, way, names, kept, sample, apart)

    def _leave(self, _place: str, which: int, how: str, elsewhere: int | None) -> None:
        if not self.holders:
            return
        number, place, way, left = holder = self.holders[which % len(self.holders)]
        self.holders.remove(holder)
        if elsewhere is not None and "elsewhere" in self.features:
            place = self._place(elsewhere)
        if place not in self.threads:
            return
        if how == "advance" and way == "generator":
            self._add(how, place, number)
            if left > 1:
                self.holders.append((number, place, way, left - 1))
            return
        if how == "advance" or (how == "cycle" and way != "generator"):
            how = "exit"
        self._add("leave", place, number, how)

    def _count(self, place: str, _which: int, name: str, n: int) -> None:
        # Threads share slots in turn, and with them what would leave 64 bits; scaled it does.
        if name == "near":
            self._add("count", place, name, n)
        elif "sampling" not in self.features:
            self._add("count", "main", name, n)

    def _snapshot(self, place: str, _which: int) -> None:
        if not self.closed:
            self._add("snapshot", place)

    def _document(self, place: str, _which: int) -> None:
        if not self.closed:
            self._add("document", place)

    def _close(self, place: str, _which: int) -> None:
        self.closed = True
        self._add("close", place)


anywhere = st.integers(0, 11)
phases = st.sampled_from(["a", "b", "c", "a/b", "\0", "\udcff"])
durations_ns = st.one_of(
    st.integers(0, 40),
    st.integers(0, 44).map(lambda power: 2**power),
    st.integers(0, 44).map(lambda power: 2**power - 1),
    st.integers(0, 10**13),
)


@st.composite
def times(draw: st.DrawFn) -> tuple[int, int]:
    """A duration and how much of it a thread ran."""
    wall_ns = draw(durations_ns)
    return wall_ns, draw(st.one_of(st.just(0), st.just(wall_ns), st.integers(0, wall_ns)))


def _drawn(verb: str, *rest: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(verb), anywhere, *rest)


some = st.lists(phases, min_size=1, max_size=3)
many = st.builds(
    lambda names, n: (names * n)[:40], some, st.sampled_from([1, 1, 1, 1, 1, 2, 12, 40])
)
near = st.tuples(st.just("near"), st.integers(-1000, 1000))
far = st.tuples(st.just("far"), st.sampled_from([2**62, 2**63 - 1, -(2**63), -(2**62), -1]))
ways = st.sampled_from(["call", "bound", "stack", "generator"])
pauses = _drawn("pass_time", times()).map(lambda drawn: (*drawn[:2], *drawn[2]))
samples = st.sampled_from([1, 1, 0.5, 0.34])
enters = _drawn("enter", ways, some, st.booleans(), samples, st.booleans())
hows = st.sampled_from([*["advance"] * 3, "exit", "raise", "drop", "cycle"])
leaves = _drawn("leave", hows, st.none() | anywhere)
blocks = _drawn("block", many, st.booleans(), times(), st.booleans()).map(
    lambda drawn: (*drawn[:4], *drawn[4], drawn[5])
)
counts = _drawn("count", near | far).map(lambda drawn: (*drawn[:2], *drawn[2]))
verbs = ["start", "start", "end", "current", "snapshot", "document"]
rest = st.one_of(blocks, counts, st.tuples(st.sampled_from(verbs), anywhere))
operations = st.one_of(pauses, enters, enters, leaves, leaves, rest)


@st.composite
def programs(draw: st.DrawFn, *features: str) -> list[Operation]:
    """Draw a program, closed at last and perhaps going on after that.

    features: "elsewhere" (what was entered is left on other threads and in other tasks), "tasks",
    "sampling".
    """
    draft = Draft(frozenset(features))
    # A list of lists, for lists are short.
    for drawn in chain.from_iterable(draw(st.lists(st.lists(operations, max_size=20)))):
        draft.draft(*drawn)
    draft.draft("close", draw(anywhere))
    for drawn in draw(st.lists(st.one_of(pauses, enters, leaves, counts), max_size=3)):
        draft.draft(*drawn)
    return draft.operations

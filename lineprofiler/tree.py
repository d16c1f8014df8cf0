"""The tree of the phases of a process, a role or a run, with the figures of each.

`Profiler.merged_tree` and `Profiler.deltas` return one, and `lineprofiler.run` has many; what is
said there of units, of None and of what these objects can do holds here.
"""

from __future__ import annotations

# The module itself, which the interpreter has loaded: collections would load much beside.
from _collections_abc import Iterator, Mapping

from lineprofiler import _core, _nearest
from lineprofiler._record import _Frozen, _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    Path = tuple[str, ...]

__all__ = ["Bucket", "Counter", "Hist", "Node", "Tree", "decode_text"]


def decode_text(text: str) -> str:
    r"""Return the true text of a string marked *text* in a file of a run.

    There a backslash is written as two, a NUL as ``\x00`` and a lone surrogate as ``\udcff``,
    because readers of JSON refuse some of them. Other backslashes are left as they are.
    """
    if "\\" not in text:
        return text
    out = []
    i = 0
    while i < len(text):
        at = text.find("\\", i)
        if at < 0:
            out.append(text[i:])
            break
        out.append(text[i:at])
        char, i = _unescape(text, at)
        out.append(char)
    return "".join(out)


def _unescape(text: str, at: int) -> tuple[str, int]:
    """Return the character that an escape stands for, and where the text goes on."""
    if text.startswith("\\\\", at):
        return "\\", at + 2
    if text.startswith("\\x00", at):
        return "\0", at + 4
    if text.startswith("\\u", at):
        digits = text[at + 2 : at + 6]
        if len(digits) == 4 and all(digit in "0123456789abcdef" for digit in digits):
            code = int(digits, 16)
            if 0xD800 <= code <= 0xDFFF:
                return chr(code), at + 6
    return "\\", at + 1


class Counter(int):
    """The sum of a counter, as an int, with what is known of its calls."""

    calls: int
    """How often count() was called."""
    min: int | None
    """The least n of a call; None: not known, in what `deltas` returns."""
    max: int | None
    """The greatest n of a call; None like min."""
    saturated: bool
    """The sum over workers ran out of 64 bits and stands at the limit."""

    def __new__(
        cls,
        value: int = 0,
        calls: int = 0,
        least: int | None = 0,
        most: int | None = 0,
        saturated: bool = False,
    ) -> Self:
        """Make one; `least` and `most` are its min and max."""
        self = super().__new__(cls, value)
        self.calls = calls
        self.min = least
        self.max = most
        self.saturated = saturated
        return self

    def __repr__(self) -> str:
        return f"Counter({int(self)}, calls={self.calls}, min={self.min}, max={self.max})"

    __str__ = int.__repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (int(self), self.calls, self.min, self.max, self.saturated)


class Bucket(_Record):
    """One bucket of a histogram: `count` durations from `begin_ns`, over `width_ns`."""

    __slots__ = ("begin_ns", "count", "width_ns")
    begin_ns: int
    width_ns: int
    count: int


class Hist(_Frozen):
    """Durations of the entries that ended, in 512 buckets, each an eighth of an octave wide.

    Below 16 ns a bucket is one nanosecond.
    """

    __slots__ = ("counts",)

    counts: dict[int, int]
    """The buckets that were hit: their number to their count."""

    def __init__(self, counts: dict[int, int]) -> None:
        self._set(counts=counts)

    @property
    def total(self) -> int:
        """The number of durations."""
        return sum(self.counts.values())

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets that were hit, the shortest durations first."""
        found = []
        for number in sorted(self.counts):
            begin_ns, width_ns = _core.hist_bounds(number)
            found.append(Bucket(begin_ns=begin_ns, width_ns=width_ns, count=self.counts[number]))
        return found

    def quantile(self, q: float) -> float:
        """Return the q-quantile in nanoseconds, right to the width of its bucket; NaN if empty.

        ValueError: q is not in [0, 1].
        """
        if not 0 <= q <= 1:
            raise ValueError(f"q must be from 0 to 1, not {q!r}")
        return _core.hist_quantile(self.counts, q) if self.counts else float("nan")

    def __eq__(self, other: object) -> bool:
        return self.counts == other.counts if isinstance(other, Hist) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.counts,)

    def __repr__(self) -> str:
        if not self.counts:
            return "<Hist of nothing>"
        p50, p99 = self.quantile(0.5), self.quantile(0.99)
        return f"<Hist of {self.total}: p50={p50:.0f} ns, p99={p99:.0f} ns>"


class Node(_Record):
    """The figures of one path: a phase below the phases around it."""

    __slots__ = (
        "async_work",
        "blocked_ns",
        "calls",
        "child_wall_ns",
        "counters",
        "cpu_ns",
        "ended_wall_ns",
        "estimated",
        "gpu_calls",
        "gpu_hist",
        "gpu_ns",
        "hist",
        "is_thread",
        "late_wall_ns",
        "nocpu_wall_ns",
        "open_calls",
        "open_wall_ns",
        "path",
        "preempted_ns",
        "saturated",
        "stride",
        "wall_ns",
        "workers",
    )

    path: Path
    """The names from the root; () is the root itself, which has counters only."""
    calls: int
    """Entries that ended."""
    wall_ns: int
    """Wall time, that of open entries up to the flush included."""
    cpu_ns: int | None
    """CPU time of the thread in them; None: not measured."""
    blocked_ns: int | None
    """The part of wait_ns that the thread is known to have been blocked; None: not measured."""
    preempted_ns: int | None
    """The part of wait_ns that it could have run but found no core; None: not measured."""
    nocpu_wall_ns: int
    """The part of wall_ns for which CPU time was not measured."""
    child_wall_ns: int
    """The part of wall_ns that child phases covered."""
    late_wall_ns: int
    """The part of wall_ns beyond the end of the parent's entry (exits out of order)."""
    open_calls: int
    """Entries that were open at the last flush of their worker."""
    open_wall_ns: int
    """The part of wall_ns that belongs to them."""
    ended_wall_ns: int
    """Wall time of the entries that ended."""
    stride: tuple[int, int]
    """Least and greatest sampling stride of the contributions; (1, 1): every entry was measured."""
    workers: int
    """How many workers have this path."""
    estimated: bool
    """Some contribution was sampled, so the figures are estimates."""
    saturated: bool
    """A sum ran out of 64 bits and stands at the limit."""
    is_thread: bool
    """A thread's name standing as a phase (thread_names=True): the sum of what is below it."""
    hist: Hist
    """Durations of the entries that ended."""
    gpu_calls: int | None
    """Entries of phase(gpu=True) whose device time is known; None: nowhere asked for."""
    gpu_ns: int | None
    """Time that the device took for what those entries enqueued; None likewise."""
    gpu_hist: Hist | None
    """Those times, one for each entry; None likewise."""
    async_work: bool
    """Marked by phase(async_work=True): its wall time is that of submission only."""
    counters: dict[str, Counter]
    """Counted directly in this phase, by name."""

    @property
    def name(self) -> str:
        """The last name of the path; "" on the root."""
        return self.path[-1] if self.path else ""

    @property
    def self_ns(self) -> int:
        """Wall time outside the child phases."""
        return max(0, self.wall_ns - self.child_wall_ns)

    @property
    def wait_ns(self) -> int | None:
        """Wall time in which the thread did not run on a CPU; None: not measured.

        It pairs with wall time, children included, never with self time.
        """
        if self.cpu_ns is None:
            return None
        return max(0, self.wall_ns - self.nocpu_wall_ns - self.cpu_ns)

    @property
    def mean_ns(self) -> float | None:
        """Mean wall time of the entries that ended; None if none did."""
        return self.ended_wall_ns / self.calls if self.calls else None

    def __repr__(self) -> str:
        names = ["calls", "wall_ns", "self_ns", "wait_ns"]
        names += [name for name in ("open_calls", "counters") if getattr(self, name)]
        figures = [f"{name}={_nearest.short_repr(getattr(self, name))}" for name in names]
        figures += [word for word in ("estimated", "saturated") if getattr(self, word)]
        return f"<Node {_nearest.show_path(self.path)}: {', '.join(figures)}>"


class Tree(_Frozen, Mapping["Path", Node]):
    """The phases by path, parents first, siblings by name.

    A path is a tuple of names: ``tree[("iteration", "mcts")]``. The root, ``tree[()]``, holds what
    was counted outside any phase; it is no phase and is not iterated over.

    KeyError: there is no such path; the nearest are named. TypeError: what was given is no tuple,
    also for `in` and `get`: ``"iteration/mcts" in tree`` would be wrong for ever, in silence.
    """

    __slots__ = ("_nodes", "root")

    root: Node
    _nodes: dict[Path, Node]

    def __init__(self, nodes: list[Node]) -> None:
        self._set(root=nodes[0], _nodes={node.path: node for node in nodes[1:]})

    def __getitem__(self, path: Path) -> Node:
        node = self._find(path)
        if node is None:
            show = _nearest.short_repr
            near = map(show, _nearest.nearest_paths(path, self._nodes))
            raise KeyError(f"no phase {show(path)}{_nearest.did_you_mean(near, map(show, self))}")
        return node

    def __contains__(self, path: object) -> bool:
        return self._find(path) is not None

    if not TYPE_CHECKING:  # Mapping has the types

        def get(self, path, /, default=None):
            """Return the phase of a path, or the default if there is none."""
            node = self._find(path)
            return default if node is None else node

    def _find(self, path: object) -> Node | None:
        if not isinstance(path, tuple):
            raise TypeError(self._no_path(path))
        return self._nodes.get(path) if path else self.root

    def _no_path(self, wrong: object) -> str:
        """Say of what is not a path how to write the one that is meant."""
        text = f"a path is a tuple of names, not {type(wrong).__name__}"
        meant: tuple[Any, ...] = ()
        if isinstance(wrong, str):
            meant = next(
                (path for path in self if "/".join(path) == wrong), tuple(wrong.split("/"))
            )
        elif isinstance(wrong, list):
            meant = tuple(wrong)
        if not meant:
            return text
        return f"{text}: tree[{_nearest.short_repr(meant)}], not tree[{_nearest.short_repr(wrong)}]"

    def __iter__(self) -> Iterator[Path]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def children(self, path: Path = ()) -> list[Node]:
        """Return the phases directly below a path. KeyError: there is no such path."""
        depth = len(self[path].path) + 1
        return [n for n in self._nodes.values() if len(n.path) == depth and n.path[:-1] == path]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self.root == other.root and self._nodes == other._nodes

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ([self.root, *self._nodes.values()],)

    def __repr__(self) -> str:
        inside = _nearest.listing(map(_nearest.show_path, self), limit=6)
        return f"<Tree of {_phases(self)}{': ' if inside else ''}{inside}>"


def _phases(tree: Tree) -> str:
    return "1 phase" if len(tree) == 1 else f"{len(tree)} phases"


def _make_tree(pairs: list[tuple[Path, dict[str, Any]]]) -> Tree:
    nodes = []
    for path, figures in pairs:
        figures["hist"] = Hist(figures["hist"])
        if figures["gpu_hist"] is not None:
            figures["gpu_hist"] = Hist(figures["gpu_hist"])
        figures["counters"] = {name: Counter(*rest) for name, *rest in figures["counters"]}
        nodes.append(Node(path=path, **figures))
    return Tree(nodes)


def _decode_all(value: Any) -> Any:
    if isinstance(value, str):
        return decode_text(value)
    if isinstance(value, list):
        return [_decode_all(element) for element in value]
    if isinstance(value, dict):
        return {decode_text(key): _decode_all(element) for key, element in value.items()}
    return value

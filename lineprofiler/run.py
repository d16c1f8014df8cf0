"""A run that was read back: plain objects with the figures of its workers and phases.

`lineprofiler.accounting.merge_run` makes them. Times named ``*_ns`` are integers in nanoseconds;
`started_at` and `written_at` are seconds since the epoch. None means *not measured*; zero means
*measured, and zero*. All objects compare by value, can be copied and pickled, and are not to be
changed; so they cannot be hashed where they hold lists and dicts. Their repr is one short line.
"""

from __future__ import annotations

import operator

# The module itself, which the interpreter has loaded: collections would load much beside.
from _collections_abc import Iterable, Iterator, Mapping

from lineprofiler import _core, _nearest, usage
from lineprofiler._record import _Frozen, _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Literal, Self

    from lineprofiler.usage import IO, Device, Memory, Sampled, Usage

    Path = tuple[str, ...]

__all__ = [
    "Bucket",
    "Caveat",
    "Counter",
    "Gpu",
    "Hist",
    "Machine",
    "Node",
    "OpenPhase",
    "Role",
    "Run",
    "Superseded",
    "Tree",
    "Unreadable",
    "Worker",
    "decode_text",
    "merge_run",
]


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


class OpenPhase(_Record):
    """A phase that was open on a thread when its worker last wrote: the deepest one."""

    __slots__ = ("open_ns", "path", "thread")
    thread: str
    path: str
    """The names joined by "/"."""
    open_ns: int


class Machine(_Record):
    """What a worker said of the machine it ran on, and what of it was its to use.

    None: not known.
    """

    __slots__ = (
        "cores",
        "cores_usable",
        "cores_usable_list",
        "cpu_limit_cores",
        "cpu_model",
        "kernel",
        "memory_limit_bytes",
        "ram_bytes",
    )
    cores: int | None
    """Online."""
    cores_usable: int | None
    """In the process's affinity mask."""
    cores_usable_list: str | None
    """Which those are, such as "0-3,8"."""
    cpu_limit_cores: float | None
    """By the control groups, such as 1.5; infinite: no limit."""
    ram_bytes: int | None
    memory_limit_bytes: float | None
    """By the control groups, an int unless it is infinite: no limit."""
    kernel: str | None
    cpu_model: str | None


class Gpu(_Record):
    """A device of the machine that a worker ran on, as NVIDIA's management library has it.

    None: not known.
    """

    __slots__ = ("index", "memory_bytes", "name", "own", "state", "uuid")
    index: int
    """Of the machine's physical devices; CUDA_VISIBLE_DEVICES does not change it."""
    name: str | None
    uuid: str | None
    memory_bytes: int | None
    state: str
    """"ok"; "lost": it stopped working; "timed_out": the driver did not answer at the last look."""
    own: str
    """Why figures of this process on it are missing: "pid_namespace", "not_supported" or
    "no_permission"; "ok": they are not."""


class Worker(_Record):
    """One process that recorded."""

    __slots__ = (
        "boot_id",
        "closed",
        "cpu_clock",
        "end_signal",
        "ended",
        "exit_status",
        "flush",
        "gpus",
        "host",
        "index",
        "job_id",
        "job_system",
        "launcher",
        "library",
        "machine",
        "measure_cpu",
        "name",
        "open",
        "parent_pid",
        "path",
        "peak_rss_bytes",
        "pid",
        "private_image",
        "pss_bytes",
        "rank",
        "role",
        "root_wall_ns",
        "run_id",
        "run_id_generated",
        "runtime",
        "silent_ns",
        "snapshot_interval_s",
        "source",
        "stale",
        "started_monotonic_ns",
        "started_realtime_ns",
        "threads",
        "troubles",
        "usage",
        "wall_clock",
        "world_size",
        "written_monotonic_ns",
        "written_realtime_ns",
    )

    name: str
    """w_<run>_<pid>_<uuid8>"""
    run_id: str
    role: str
    host: str
    pid: int
    """In the worker's own pid namespace."""
    parent_pid: int
    rank: int | None
    world_size: int | None
    index: int | None
    """Which of its role it is, such as the environment or the loader; None: nobody said so."""
    launcher: str | None
    """Whose variable gave the rank."""
    job_system: str | None
    job_id: str | None
    runtime: str | None
    library: str | None
    """The version of the writer."""
    boot_id: str
    """Monotonic times of equal boot ids can be compared."""
    path: str
    """The file or image that it was read from."""
    source: Literal["file", "live", "dead"]
    """Its file, the memory of the running process, or the memory that a dead one left."""
    started_realtime_ns: int
    started_monotonic_ns: int
    written_realtime_ns: int
    written_monotonic_ns: int
    snapshot_interval_s: float | None
    """None: no periodic flush."""
    flush: int
    """How often it had written, this time included."""
    threads: int
    root_wall_ns: int
    """Wall time of its top-level phases: what imbalance compares."""
    closed: bool
    """It was closed, and nothing is missing."""
    ended: bool
    """Its process is gone without having closed it. Nothing is missing but what was in flight."""
    end_signal: int | None
    """The number of the signal that killed it, where its parent could tell."""
    exit_status: int | None
    """The status with which it exited without closing, where its parent could tell."""
    measure_cpu: bool
    private_image: bool
    """Without shared memory: not safe against a kill."""
    run_id_generated: bool
    silent_ns: int
    """From its last write to the end of the run."""
    stale: bool
    """Not closed, and silent for more than 60 s and three flush intervals."""
    wall_clock: str | None
    cpu_clock: str | None
    troubles: dict[str, int]
    """Things that went wrong, to how often they did."""
    open: list[OpenPhase]
    """What was open when it last wrote, one for each thread."""
    usage: Usage | None
    """What it used besides time, by its samples; None: it has none, or they were left out."""
    machine: Machine
    gpus: list[Gpu]
    """The devices of its machine; empty: none, or the worker ended before it looked."""
    peak_rss_bytes: int | None
    """The most memory that it has had, shared pages included; as of its last write. None: not
    measured."""
    pss_bytes: int | None
    """Its memory when it last wrote, each shared page counted by its share: what adds up over
    processes. None: not measured, as without ``measure_pss=True`` or in a process with more than
    1.5 GiB."""

    @property
    def started_at(self) -> float:
        """When the worker began, in seconds since the epoch."""
        return self.started_realtime_ns / 1e9

    @property
    def written_at(self) -> float:
        """When the worker last wrote, in seconds since the epoch."""
        return self.written_realtime_ns / 1e9

    def __repr__(self) -> str:
        state = "stale" if self.stale else "not closed"
        if self.closed or self.ended:
            state = "closed" if self.closed else "ended without close"
        rank = "" if self.rank is None else f"rank {self.rank}, "
        index = "" if self.index is None else f"index {self.index}, "
        where = f"{rank}{index}pid {self.pid} on {_short(self.host)}"
        return f"<Worker {_short(self.role)}: {where}, {state}>"


class Role(_Record):
    """The workers that play one role, and their phases merged."""

    __slots__ = ("imbalance", "memory", "name", "sampled", "tree", "workers")
    name: str
    tree: Tree
    workers: list[Worker]
    imbalance: float
    """Greatest over mean `root_wall_ns` of the workers; NaN if nothing was recorded."""
    memory: Memory | None
    """Its resident memory; None: there are no samples of it."""
    sampled: list[Sampled]
    """What samples say of each phase, in the order of the tree, then of what was in none."""

    def __repr__(self) -> str:
        return f"<Role {_short(self.name)} x{len(self.workers)}: {_phases(self.tree)}>"


class Unreadable(_Record):
    """A file that could not be read, relative to the run directory, and why."""

    __slots__ = ("path", "reason")
    path: str
    reason: str


class Superseded(_Record):
    """An earlier attempt in the same directory, which is not part of the figures."""

    __slots__ = (
        "run_id",
        "run_id_generated",
        "started_realtime_ns",
        "unreadable",
        "workers",
        "written_realtime_ns",
    )
    run_id: str
    workers: int
    """Its workers that could be read."""
    unreadable: int
    """Its files that could not."""
    started_realtime_ns: int
    written_realtime_ns: int
    run_id_generated: bool

    @property
    def started_at(self) -> float:
        """When its first worker began, in seconds since the epoch."""
        return self.started_realtime_ns / 1e9

    @property
    def written_at(self) -> float:
        """When a worker of it last wrote, in seconds since the epoch."""
        return self.written_realtime_ns / 1e9


class Caveat(_Record):
    """What a reader of the figures must know: a stable word for programs, and a line of text."""

    __slots__ = ("kind", "text")
    kind: str
    text: str


class Run(_Record):
    """The newest attempt of a run directory."""

    __slots__ = (
        "caveats",
        "dir",
        "gpu",
        "hosts",
        "io",
        "left_out",
        "live",
        "metadata",
        "roles",
        "run_id",
        "runtime_ns",
        "started_realtime_ns",
        "superseded",
        "tree",
        "unreadable",
        "workers",
        "written_realtime_ns",
    )

    dir: str
    run_id: str
    started_realtime_ns: int
    written_realtime_ns: int
    runtime_ns: int
    """From the first start to the last write."""
    left_out: int
    """Workers of this attempt that roles=, hosts= and ranks= of merge_run did not choose."""
    live: bool
    """Some worker still runs."""
    tree: Tree
    """The phases of all roles merged."""
    roles: dict[str, Role]
    """By name, in alphabetical order."""
    workers: list[Worker]
    """By host, rank, index and start."""
    hosts: list[str]
    unreadable: list[Unreadable]
    superseded: list[Superseded]
    """Earlier attempts, the newest first."""
    caveats: list[Caveat]
    metadata: dict[str, Any]
    """What metadata.json says, its texts decoded; empty if it could not be read."""
    io: IO | None
    """Its traffic by samples; None: there are none, or they were left out."""
    gpu: list[Device]
    """The devices that its workers saw, by host and index."""

    @property
    def started_at(self) -> float:
        """When the first worker began, in seconds since the epoch."""
        return self.started_realtime_ns / 1e9

    @property
    def written_at(self) -> float:
        """When a worker last wrote, in seconds since the epoch."""
        return self.written_realtime_ns / 1e9

    @property
    def memory(self) -> dict[str, Memory]:
        """For each role that has samples, its resident memory."""
        return {name: role.memory for name, role in self.roles.items() if role.memory is not None}

    @property
    def imbalance(self) -> dict[str, float]:
        """For each role, the greatest over the mean wall time of its workers."""
        return {name: role.imbalance for name, role in self.roles.items()}

    def workers_of(self, role: str) -> list[Worker]:
        """Return the workers of a role. KeyError: nobody plays it."""
        return self._role(role).workers

    def tree_of(self, role: str) -> Tree:
        """Return the phases of a role. KeyError: nobody plays it."""
        return self._role(role).tree

    def _role(self, role: str) -> Role:
        if role in self.roles:
            return self.roles[role]
        show = _nearest.short_repr
        near = map(show, _nearest.nearest_names(str(role), self.roles))
        raise KeyError(f"no role {show(role)}{_nearest.did_you_mean(near, map(show, self.roles))}")

    def __repr__(self) -> str:
        roles = [f"{_short(name)} x{len(role.workers)}" for name, role in self.roles.items()]
        of = f"{_nearest.listing(roles)}: {_phases(self.tree)}"
        return f"<{type(self).__name__} {_short(self.run_id)} of {of}>"


def _phases(tree: Tree) -> str:
    return "1 phase" if len(tree) == 1 else f"{len(tree)} phases"


def _short(name: str) -> str:
    """Return a name as it is, if it is short and plain."""
    return name if name.isprintable() and len(name) <= 60 else _nearest.short_repr(name)


def _make_tree(pairs: list[tuple[Path, dict[str, Any]]]) -> Tree:
    nodes = []
    for path, figures in pairs:
        figures["hist"] = Hist(figures["hist"])
        if figures["gpu_hist"] is not None:
            figures["gpu_hist"] = Hist(figures["gpu_hist"])
        figures["counters"] = {name: Counter(*rest) for name, *rest in figures["counters"]}
        nodes.append(Node(path=path, **figures))
    return Tree(nodes)


def _make_worker(raw: dict[str, Any], used: dict[str, Any] | None) -> Worker:
    started, written = raw.pop("started"), raw.pop("written")
    raw["troubles"] = dict(raw["troubles"])
    raw["machine"] = Machine(**raw["machine"])
    raw["gpus"] = [
        Gpu(index=index, name=name, uuid=uuid, memory_bytes=size, state=state, own=own)
        for index, name, uuid, size, state, own in raw["gpus"]
    ]
    raw["open"] = [OpenPhase(thread=t, path=p, open_ns=ns) for t, p, ns in raw["open"]]
    return Worker(
        usage=usage._make_usage(used),
        started_realtime_ns=started[0],
        started_monotonic_ns=started[1],
        written_realtime_ns=written[0],
        written_monotonic_ns=written[1],
        **raw,
    )


def _make_superseded(raw: tuple[Any, ...]) -> Superseded:
    run_id, workers, unreadable, started, written, generated = raw
    return Superseded(
        run_id=run_id,
        workers=workers,
        unreadable=unreadable,
        started_realtime_ns=started,
        written_realtime_ns=written,
        run_id_generated=generated,
    )


def _decode_all(value: Any) -> Any:
    if isinstance(value, str):
        return decode_text(value)
    if isinstance(value, list):
        return [_decode_all(element) for element in value]
    if isinstance(value, dict):
        return {decode_text(key): _decode_all(element) for key, element in value.items()}
    return value


def _make_metadata(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    import json

    try:
        document = _decode_all(json.loads(text))
    except (ValueError, RecursionError):  # JSON that the core could read, but nests too deep here
        return {}
    return document if isinstance(document, dict) else {}


def _names(what: str, wanted: str | Iterable[str] | None) -> tuple[bytes, ...]:
    """Return names or globs as the core takes them."""
    names = () if wanted is None else (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what}: a text is expected, not {type(name).__name__}")
    if wanted is not None and not names:
        raise ValueError(f"{what}: none is named; leave it out for all")
    return tuple(name.encode("utf-8", "surrogatepass") for name in names)


def _ranks(wanted: int | str | range | Iterable[int | str] | None) -> tuple[bytes, ...]:
    """Return ranks as the core takes them."""
    if isinstance(wanted, int):
        wanted = (wanted,)
    if wanted is None or isinstance(wanted, str):
        return _names("ranks", wanted)
    if isinstance(wanted, range) and len(wanted) > 0 and wanted.step == 1:
        return _names("ranks", f"{wanted[0]}-{wanted[-1]}")
    try:
        ranks = list(wanted)
    except TypeError:
        raise TypeError(f"ranks: {_nearest.short_repr(wanted)} is no rank") from None
    return _names("ranks", [r if isinstance(r, str) else str(operator.index(r)) for r in ranks])


def merge_run(
    run_dir: str | os.PathLike[str],
    with_samples: bool = True,
    *,
    roles: str | Iterable[str] | None = None,
    hosts: str | Iterable[str] | None = None,
    ranks: int | str | range | Iterable[int | str] | None = None,
) -> Run:
    """Read a run directory: the newest attempt in it, all its workers merged.

    with_samples=False leaves the resource samples out, which saves most of the memory.

    roles, hosts and ranks choose workers: those of any of these roles (names or globs), on any of
    these hosts, of any of these ranks (numbers, a range, or texts such as "0-7"). `left_out` of the
    run says how many others there are. LookupError: one of them is of no worker.

    A run in progress may be read at any time. Workers that run on this machine, or died here, are
    read from their memory where that is newer than their file.

    FileNotFoundError: there is no such directory. NotADirectoryError: it is a file. RunError: no
    worker has written to it yet, or none of its files could be read; the text says which. A single
    file that cannot be read is named in `unreadable` and costs that worker only.
    """
    raw = _core.load_run(
        run_dir, with_samples, _names("roles", roles), _names("hosts", hosts), _ranks(ranks)
    )
    used = raw["usage"]
    workers = [
        _make_worker(worker, figures)
        for worker, figures in zip(raw["workers"], used["workers"], strict=True)
    ]
    roles = {
        name: Role(
            name=name,
            tree=_make_tree(tree),
            workers=[workers[index] for index in indices],
            imbalance=imbalance,
            memory=usage._make_memory(memory),
            sampled=[usage._make_sampled(phase) for phase in sampled],
        )
        for (name, tree, indices, imbalance), (memory, sampled) in zip(
            raw["roles"], used["roles"], strict=True
        )
    }
    return Run(
        dir=raw["dir"],
        run_id=raw["run_id"],
        started_realtime_ns=raw["started_ns"],
        written_realtime_ns=raw["written_ns"],
        runtime_ns=raw["runtime_ns"],
        left_out=raw["left_out"],
        live=raw["live"],
        tree=_make_tree(raw["tree"]),
        roles=roles,
        workers=workers,
        hosts=list(raw["hosts"]),
        unreadable=[Unreadable(path=path, reason=reason) for path, reason in raw["unreadable"]],
        superseded=[_make_superseded(attempt) for attempt in raw["superseded"]],
        caveats=[Caveat(kind=kind, text=text) for kind, text in raw["caveats"]],
        metadata=_make_metadata(raw["metadata"]),
        io=usage._make_io(used["io"]),
        gpu=[usage.Device(**device) for device in used["gpus"]],
    )

"""A run that was read back: plain objects with the figures of its workers and phases.

`lineprofiler.accounting.merge_run` makes them. Times named ``*_ns`` are integers in nanoseconds;
`started_at` and `written_at` are seconds since the epoch. None means *not measured*; zero means
*measured, and zero*. All objects compare by value, can be copied and pickled, and are not to be
changed; so they cannot be hashed where they hold lists and dicts. Their repr is one short line.
"""

from __future__ import annotations

import operator

# The module itself, which the interpreter has loaded: collections would load much beside.
from _collections_abc import Iterable

from lineprofiler import _core, _nearest, usage
from lineprofiler._record import _Record
from lineprofiler.tree import (
    Bucket,
    Counter,
    Hist,
    Node,
    Tree,
    _decode_all,
    _make_tree,
    _phases,
    decode_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Literal

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
    """Wall time of its top-level phases, and of what went on beyond their end.

    What imbalance compares.
    """
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
        where = f"{rank}{index}pid {self.pid} on {_nearest.short_name(self.host)}"
        return f"<Worker {_nearest.short_name(self.role)}: {where}, {state}>"


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
        return f"<Role {_nearest.short_name(self.name)} x{len(self.workers)}: {_phases(self.tree)}>"


class Unreadable(_Record):
    """A file that could not be read, relative to the run directory, and why."""

    __slots__ = ("path", "reason")
    path: str
    reason: str


class Superseded(_Record):
    """Another attempt in the same directory, which is not part of the figures."""

    __slots__ = (
        "later",
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
    later: bool
    """It began after the run, which is so only where an earlier one was asked for."""

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
        short = _nearest.short_name
        roles = [f"{short(name)} x{len(role.workers)}" for name, role in self.roles.items()]
        of = f"{_nearest.listing(roles)}: {_phases(self.tree)}"
        return f"<{type(self).__name__} {short(self.run_id)} of {of}>"


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
    run_id, workers, unreadable, started, written, generated, later = raw
    return Superseded(
        run_id=run_id,
        workers=workers,
        unreadable=unreadable,
        started_realtime_ns=started,
        written_realtime_ns=written,
        run_id_generated=generated,
        later=later,
    )


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


def _run_id(wanted: str | None) -> bytes | None:
    if wanted is not None and not isinstance(wanted, str):
        raise TypeError(f"run_id: a text is expected, not {type(wanted).__name__}")
    return None if wanted is None else _names("run_id", wanted)[0]


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
    run_id: str | None = None,
) -> Run:
    """Read a run directory: the newest attempt in it, all its workers merged.

    run_id chooses another attempt, by its id or a glob; of several that match, the newest.

    with_samples=False leaves the resource samples out, which saves most of the memory.

    roles, hosts and ranks choose workers: those of any of these roles (names or globs), on any of
    these hosts, of any of these ranks (numbers, a range, or texts such as "0-7"). `left_out` of the
    run says how many others there are. LookupError: one of them is of no worker, or run_id of no
    attempt.

    A run in progress may be read at any time. Workers that run on this machine, or died here, are
    read from their memory where that is newer than their file.

    FileNotFoundError: there is no such directory. NotADirectoryError: it is a file. RunError: no
    worker has written to it yet, or none of its files could be read; the text says which. A single
    file that cannot be read is named in `unreadable` and costs that worker only.
    """
    raw = _core.load_run(
        run_dir,
        with_samples,
        _names("roles", roles),
        _names("hosts", hosts),
        _ranks(ranks),
        _run_id(run_id),
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

"""Runs with samples, written by hand, and what should be made of them in obvious Python.

The writer spells docs/format.md out and can be told to break it; the reference holds all rows at
once and goes over them again for every figure.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

S = 10**9
EPOCH = 1_780_000_000 * S
START = 1000 * S
"""Monotonic time at which workers begin."""

PROCESS = [
    *((name, "u8") for name in ("monotonic_ns", "cpu_ns", "rss_bytes")),
    *((name, "u8") for name in ("read_chars", "write_chars", "read_bytes", "write_bytes")),
    *((name, "u8") for name in ("minor_faults", "major_faults")),
    *((name, "u8") for name in ("voluntary_switches", "involuntary_switches", "run_delay_ns")),
    *((name, "u8") for name in ("cuda_allocated_bytes", "cuda_reserved_bytes")),
    *((name, "u4") for name in ("open_files", "phase", "sequence")),
    *((name, "u2") for name in ("threads", "gaps")),
]
GPU = [
    *((name, "u8") for name in ("monotonic_ns", "device_used_bytes", "own_used_bytes")),
    *((name, "u4") for name in ("device", "sequence", "phase")),
    *((name, "u4") for name in ("busy_permille", "own_busy_permille", "flags")),
    *((name, "u8") for name in ("reserved", "reserved2")),
]
FIELDS = {"process": PROCESS, "gpu": GPU}
CODES = {"u8": "Q", "u4": "I", "u2": "H"}
FLOWS = ("read_chars", "write_chars", "read_bytes", "write_bytes")

Row = Mapping[str, int | None]
"""A row; None, and what is not there, is not measured."""


def header(kind: str, worker: str, **changes: Any) -> bytes:
    """Return the header of a samples file, with keys changed."""
    fields = changes.pop("fields", FIELDS[kind])
    record_bytes = sum(int(type_[1:]) for _, type_ in fields)
    document = {
        "format": "lineprofiler-samples",
        "version": 1,
        "kind": kind,
        "worker": worker,
        "byte_order": "little",
        "header_bytes": 2048,
        "record_bytes": record_bytes,
        "fields": [list(pair) for pair in fields],
        **changes,
    }
    line = json.dumps(document, separators=(",", ":")).encode()
    return line.ljust(2047) + b"\n"


def pack(rows: Iterable[Row], fields: list[tuple[str, str]]) -> bytes:
    """Return the records of rows."""
    form = struct.Struct("<" + "".join(CODES[type_] for _, type_ in fields))
    most = {name: 256 ** int(type_[1:]) - 1 for name, type_ in fields}
    zero = {"gaps", "phase", "flags", "reserved", "reserved2"}

    def figure(row: Row, name: str) -> int:
        value = row.get(name, 0 if name in zero else None)
        return most[name] if value is None else value

    return b"".join(form.pack(*(figure(row, name) for name, _ in fields)) for row in rows)


@dataclass
class Worker:
    """One worker of a run, its phases by id."""

    name: str = "w_r1_4242_00000001"
    role: str = "learner"
    host: str = "node07"
    pid: int = 4242
    rank: int | None = None
    seconds: int = 100
    phases: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    rows: Sequence[Row] = field(default_factory=list)
    gpu_rows: Sequence[Row] = field(default_factory=list)
    boot: str = "b1"
    clock_offset_ns: int = 0
    """How far its monotonic clock is from the others'."""
    counters: Mapping[tuple[str, ...], Mapping[str, int]] = field(default_factory=dict)
    memory: Mapping[str, int | None] | None = None
    taken: int | None = None

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes of its one thread."""
        places: dict[tuple[str, ...], int] = {(): 0}
        nodes: list[dict[str, Any]] = [{}]
        for path in [*self.phases.values(), *self.counters]:
            for depth in range(1, len(path) + 1):
                part = path[:depth]
                if part in places:
                    continue
                places[part] = len(nodes)
                parent = places[part[:-1]]
                wall = self.seconds * S // 2**depth
                figures = {"calls": 1, "wall_ns": wall, "cpu_ns": wall // 2}
                nodes.append({"parent": parent, "name": part[-1], **figures})
        for node in nodes[1:]:
            node["hist"] = f"{bucket_of(node['wall_ns'])}:1"
            below = [n["wall_ns"] for n in nodes[1:] if nodes[n["parent"]] is node]
            node["child_wall_ns"] = min(node["wall_ns"], sum(below))
        for number, path in self.phases.items():
            nodes[places[path]]["id"] = number
        for path, counters in self.counters.items():
            nodes[places[path]]["counters"] = {k: [n, 1, n, n] for k, n in counters.items()}
        return nodes

    def document(self) -> dict[str, Any]:
        """Return its JSON document."""

        def stamp(seconds: int) -> dict[str, int]:
            at = START + seconds * S + self.clock_offset_ns
            real = EPOCH + seconds * S
            return {"realtime_ns": real, "monotonic_ns": at, "boottime_ns": at}

        taken = len(self.rows) if self.taken is None else self.taken
        return {
            "format": "lineprofiler-worker",
            "version": 1,
            "worker": self.name,
            "run_id": "r1",
            "role": self.role,
            "pid": self.pid,
            "parent_pid": 1,
            "host": self.host,
            "rank": self.rank,
            "world_size": None,
            "launcher": None,
            "job": None,
            "boot_id": self.boot,
            "pid_namespace": 1,
            "process_start_ticks": 5,
            "library": "0.4.0",
            "runtime": None,
            "command": [],
            "run_id_origin": "inherited",
            "settings": {
                "measure_cpu": True,
                "thread_names": False,
                "snapshot_interval_s": 30.0,
                "sample_interval_s": 1.0,
            },
            "started": stamp(0),
            "written": stamp(self.seconds),
            "state": "closed",
            "ended": None,
            "flush": 3,
            "clock": {"wall": "tsc", "cpu": "token"},
            "image": "shared",
            "troubles": {},
            "samples": {"taken": taken, "lost": 0} if taken else {},
            "memory": self.memory,
            "threads": [{"name": "MainThread", "tid": 7, "alive": True, "nodes": self.nodes()}],
        }

    def write(self, run_dir: Path) -> Path:
        """Write its files; return the samples file."""
        folder = run_dir / "workers" / self.host
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(self.document()))
        for kind, rows, suffix in (
            ("process", self.rows, "samples"),
            ("gpu", self.gpu_rows, "gpu_samples"),
        ):
            if rows:
                data = header(kind, self.name) + pack(rows, FIELDS[kind])
                (folder / f"{self.name}.{suffix}").write_bytes(data)
        return folder / f"{self.name}.samples"


def bucket_of(ns: int) -> int:
    """Return the bucket of a duration."""
    if ns < 16:
        return ns
    octave = ns.bit_length() - 1
    return (octave - 2) * 8 + ((ns >> (octave - 3)) & 7)


def row(second: float, sequence: int | None = None, **figures: int | None) -> dict[str, int | None]:
    """Return a row of a process; what is not given is zero."""
    base: dict[str, int | None] = {name: 0 for name, _ in PROCESS}
    base |= {"monotonic_ns": START + round(second * S), "threads": 1}
    base["sequence"] = round(second) if sequence is None else sequence
    return base | figures


def gpu_row(second: float, device: int = 0, **figures: int | None) -> dict[str, int | None]:
    """Return a row of a device; what is not given is zero."""
    base: dict[str, int | None] = {name: 0 for name, _ in GPU}
    base |= {"monotonic_ns": START + round(second * S), "device": device}
    base["sequence"] = round(second)
    return base | figures


# --- the reference -----------------------------------------------------------------------------

MEMORY_MOST = 2**50


@dataclass
class Expected:
    """What one worker's rows come to."""

    rows: int = 0
    repeated: int = 0
    unsorted: int = 0
    beyond: int = 0
    enormous: int = 0
    moved: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FLOWS, 0))
    cached: int | None = None
    """Of the intervals in which both layers are known; None without one."""
    used: dict[str, int] = field(default_factory=lambda: {"chars": 0, "bytes": 0})
    dropped: dict[str, int] = field(default_factory=lambda: {"chars": 0, "bytes": 0})
    by_phase: dict[int | None, dict[str, int]] = field(default_factory=dict)
    growth_by_phase: dict[int | None, int] = field(default_factory=dict)
    cpu_ns: int | None = None
    cpu_wall_ns: int = 0
    heaviest: float | None = None
    rss: list[int] = field(default_factory=list)
    slope: float | None = None


def accept(rows: Sequence[Row], expected: Expected, first_ns: int, last_ns: int) -> list[Row]:
    """Return the rows that can be used."""
    used: list[Row] = []
    for given in rows:
        at, number = given["monotonic_ns"], given["sequence"]
        if at is None or number is None or not first_ns <= at <= last_ns:
            expected.beyond += 1
            continue
        if used:
            before, previous = used[-1]["monotonic_ns"], used[-1]["sequence"]
            assert before is not None
            assert previous is not None
            if number <= previous:
                expected.repeated += 1
                continue
            if at <= before:
                expected.unsorted += 1
                continue
            if number - previous - 1 > (at - before) // 10**6:
                expected.beyond += 1
                continue
        copy = dict(given)
        for name in ("rss_bytes", "cuda_allocated_bytes", "cuda_reserved_bytes"):
            value = copy[name]
            if value is not None and value > MEMORY_MOST:
                copy[name] = None
                expected.enormous += 1
        used.append(copy)
    return used


def difference(before: Row, after: Row, names: tuple[str, ...], most: int) -> list[int] | None:
    """Return what figures grew by; None: not known."""
    if after["sequence"] != (before["sequence"] or 0) + 1:
        return None
    grown = []
    for name in names:
        one, other = before[name], after[name]
        if one is None or other is None or not 0 <= other - one <= most:
            return None
        grown.append(other - one)
    return grown


def expect(rows: Sequence[Row], ids: Iterable[int], seconds: int) -> Expected:
    """Return what the rows of one worker come to."""
    expected = Expected()
    known = {0, *ids}
    used = accept(rows, expected, max(0, START - 3600 * S), START + seconds * S + 86400 * S)
    expected.rows = len(used)
    pairs = [0, 0]
    for before, after in pairwise(used):
        ns = (after["monotonic_ns"] or 0) - (before["monotonic_ns"] or 0)
        lost = (after["sequence"] or 0) - (before["sequence"] or 0) - 1
        phase = before["phase"] if before["phase"] in known else None
        totals = expected.by_phase.setdefault(phase, dict.fromkeys(FLOWS, 0))
        moved: dict[str, int] = {}
        for layer, bit in (("chars", 1), ("bytes", 2)):
            names = (f"read_{layer}", f"write_{layer}")
            grown = difference(before, after, names, ns * 10_000 + 10**9)
            gaps = after["gaps"]
            if grown is None or gaps is None or gaps & bit:
                expected.dropped[layer] += 1 + lost
                continue
            expected.used[layer] += 1
            moved |= dict(zip(names, grown, strict=True))
        for name, count in moved.items():
            expected.moved[name] += count
            totals[name] += count
        if len(moved) == len(FLOWS):
            pairs = [pairs[0] + moved["read_chars"], pairs[1] + moved["read_bytes"]]
            expected.cached = max(0, pairs[0] - pairs[1])
        cpu = difference(before, after, ("cpu_ns",), ns * 65_536 + 10**9)
        if cpu is not None:
            expected.cpu_ns = (expected.cpu_ns or 0) + cpu[0]
            expected.cpu_wall_ns += ns
            if ns >= 40 * 10**6:
                expected.heaviest = max(expected.heaviest or 0.0, cpu[0] / ns)
        one, other = before["rss_bytes"], after["rss_bytes"]
        if one is not None and other is not None and not lost:
            growth = expected.growth_by_phase.get(phase, 0)
            expected.growth_by_phase[phase] = growth + other - one
    points = [(r["monotonic_ns"] or 0, r["rss_bytes"]) for r in used]
    expected.rss = [rss for _, rss in points if rss is not None]
    expected.slope = slope([(at, rss) for at, rss in points if rss is not None])
    return expected


def slope(points: list[tuple[int, int]]) -> float | None:
    """Return the least-squares slope in units per second; None: too few, or over too little."""
    if len(points) < 8 or points[-1][0] - points[0][0] < 60 * S:
        return None
    n = len(points)
    xs, ys = [at for at, _ in points], [y for _, y in points]
    mean_x, mean_y = sum(xs), sum(ys)
    # Exact whole numbers, each deviation times n.
    sxy = sum((n * x - mean_x) * (n * y - mean_y) for x, y in zip(xs, ys, strict=True))
    sxx = sum((n * x - mean_x) ** 2 for x in xs)
    return sxy / sxx * S

#!/usr/bin/env python3
"""Make a run directory of any size, for benchmarks and tests of the reader.

    benchmarks/make_run.py DIR --workers 10000 --phases 30 --hosts 64

The files satisfy docs/worker.schema.json and agree with themselves as those of closed workers do:
a node's histogram adds up to its calls, its children's time to its `child_wall_ns`. The values are
made up but shaped like those of a training run - an iteration that repeats, phases of microseconds
to seconds, log-normal durations, a few counters - and depend on nothing but the seed. Needs only
the standard library.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from pathlib import Path

NAMES = (
    "self_play",
    "mcts",
    "forward",
    "backward",
    "optimizer",
    "collate",
    "data wait",
    "all_reduce",
    "checkpoint",
    "evaluate",
    "replay",
    "augment",
    "decode",
    "tokenize",
    "broadcast",
)
COUNTERS = ("games", "tokens", "bytes in")
ROLES = (("actor", 12), ("learner", 2), ("evaluator", 1), ("data", 1))
BASE_REALTIME_NS = 1_780_000_000_000_000_000


def bucket_of(ns: int) -> int:
    """The histogram bucket of a duration; docs/format.md has the formula."""
    if ns < 16:
        return ns
    exponent = ns.bit_length() - 1
    return (exponent - 2) * 8 + ((ns >> (exponent - 3)) & 7)


def spread(calls: int, mean_ns: float, width: int) -> str:
    """A histogram of `calls` entries with a bell over the buckets around `mean_ns`."""
    centre = bucket_of(max(1, int(mean_ns)))
    counts: dict[int, int] = {}
    left = calls
    for step in range(width, 0, -1):
        share = int(calls * math.exp(-((4 * step / (width + 1)) ** 2) / 2) / width)
        for bucket in (centre - step, centre + step):
            take = min(share, left)
            if take > 0 and 0 <= bucket < 496:
                counts[bucket] = counts.get(bucket, 0) + take
                left -= take
    if left:
        counts[centre] = counts.get(centre, 0) + left
    return " ".join(f"{bucket}:{counts[bucket]}" for bucket in sorted(counts))


class Shape:
    """The tree of phases of one role: parents, names, entries and own time of an entry."""

    def __init__(self, rng: random.Random, phases: int) -> None:
        self.parents: list[int] = []
        self.names: list[str] = []
        self.calls: list[int] = []
        self.own_ns: list[float] = []
        self.counters: list[list[str]] = []
        depth = [0]
        for index in range(1, phases + 1):
            parent = (
                0 if index == 1 else rng.choice([i for i in range(1, index) if depth[i] < 8] + [0])
            )
            depth.append(depth[parent] + 1)
            self.parents.append(parent)
            self.names.append(
                "iteration"
                if index == 1
                else f"{rng.choice(NAMES)} {chr(96 + index % 26 + 1)}{index}"
            )
            self.calls.append(
                rng.randint(50, 400)
                if parent == 0
                else self.calls[parent - 1] * rng.choice((1, 1, 2, 8, 30))
            )
            self.own_ns.append(rng.lognormvariate(13.0, 2.0))
            self.counters.append(rng.sample(COUNTERS, rng.choice((0, 0, 1, 1, 2))))

    def nodes(self, rng: random.Random) -> list[dict[str, object]]:
        """The nodes of one worker of this shape: the same tree, other figures."""
        count = len(self.names)
        calls = [max(1, int(c * rng.uniform(0.9, 1.1))) for c in self.calls]
        own = [int(calls[i] * self.own_ns[i] * rng.lognormvariate(0.0, 0.1)) for i in range(count)]
        child = [0] * (count + 1)
        wall = [0] * (count + 1)
        for i in range(count - 1, -1, -1):
            wall[i + 1] = own[i] + child[i + 1]
            child[self.parents[i]] += wall[i + 1]
        nodes: list[dict[str, object]] = [{}]
        for i in range(count):
            node: dict[str, object] = {
                "parent": self.parents[i],
                "name": self.names[i],
                "calls": calls[i],
                "wall_ns": wall[i + 1],
                "cpu_ns": int(wall[i + 1] * rng.uniform(0.2, 1.0)),
            }
            if child[i + 1]:
                node["child_wall_ns"] = child[i + 1]
            node["hist"] = spread(calls[i], wall[i + 1] / calls[i], rng.randint(5, 11))
            if self.counters[i]:
                node["counters"] = {
                    name: [calls[i] * 3, calls[i], 1, rng.randint(4, 4000)]
                    for name in self.counters[i]
                }
            nodes.append(node)
        return nodes


def worker(
    rng: random.Random, args: argparse.Namespace, number: int, role: str, shape: Shape
) -> dict[str, object]:
    """One worker's document."""
    host = number % args.hosts
    pid = 1000 + number // args.hosts
    began = rng.randrange(0, 5_000_000_000)
    ended = 3_600_000_000_000 + rng.randrange(0, 5_000_000_000)
    boot_ns = 10**15 + host * 10**13

    def stamp(at: int) -> dict[str, int]:
        return {
            "realtime_ns": BASE_REALTIME_NS + at,
            "monotonic_ns": boot_ns + at,
            "boottime_ns": boot_ns + at,
        }

    return {
        "format": "lineprofiler-worker",
        "version": 1,
        "worker": f"w_{args.run_id}_{pid}_{rng.getrandbits(32):08x}",
        "run_id": args.run_id,
        "role": role,
        "pid": pid,
        "parent_pid": 999,
        "host": f"node{host:04d}",
        "rank": number,
        "world_size": args.workers,
        "launcher": "slurm",
        "job": {"system": "slurm", "id": "271828"},
        "boot_id": f"{host:08x}-0000-4000-8000-000000000000",
        "pid_namespace": 4026531836,
        "process_start_ticks": 100_000 + number,
        "library": "0.4.0",
        "runtime": "CPython 3.12.1",
        "command": ["python", "train.py", "--role", role],
        "run_id_origin": "inherited" if number else "generated",
        "settings": {
            "measure_cpu": True,
            "thread_names": False,
            "snapshot_interval_s": 30.0,
            "sample_interval_s": 1.0,
        },
        "started": stamp(began),
        "written": stamp(ended),
        "state": "closed",
        "flush": 121,
        "clock": {"wall": "tsc", "cpu": "token"},
        "image": "shared",
        "troubles": {},
        "threads": [{"name": "MainThread", "tid": pid, "alive": True, "nodes": shape.nodes(rng)}],
    }


def role_of(number: int) -> str:
    """Roles in the proportions of ROLES."""
    place = number % sum(share for _, share in ROLES)
    for role, share in ROLES:
        if place < share:
            return role
        place -= share
    raise AssertionError


def write_run(args: argparse.Namespace) -> None:
    """Writes the whole directory."""
    shapes = {role: Shape(random.Random(f"{args.seed} {role}"), args.phases) for role, _ in ROLES}
    rng = random.Random(args.seed)
    top = Path(args.dir)
    for host in range(min(args.hosts, args.workers)):
        (top / "workers" / f"node{host:04d}").mkdir(parents=True, exist_ok=True)
    first: dict[str, object] = {}
    for number in range(args.workers):
        role = role_of(number)
        document = worker(rng, args, number, role, shapes[role])
        first = first or document
        path = top / "workers" / str(document["host"]) / f"{document['worker']}.json"
        path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
    entry = {
        key: first[key]
        for key in ("run_id", "started", "host", "pid", "command", "library")
        if key in first
    }
    head = '{"format": "lineprofiler-metadata", "version": 1, "runs": {'
    text = f"{head}\n{json.dumps(args.run_id)}: {json.dumps(entry)}\n}}}}\n"
    (top / "metadata.json").write_text(text, encoding="utf-8")


def main() -> int:
    """Parses the command line and writes the run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dir", help="the run directory to make; must not hold a run yet")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--phases", type=int, default=30)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--run-id", default="20260601T0000-5eed00")
    args = parser.parse_args()
    if args.workers < 1 or args.phases < 1 or args.hosts < 1:
        parser.error("workers, phases and hosts must be positive")
    if os.path.exists(os.path.join(args.dir, "workers")):
        parser.error(f"{args.dir} already holds a run")
    began = time.monotonic()
    write_run(args)
    print(
        f"{args.workers} workers in {args.dir}, {time.monotonic() - began:.1f} s", file=sys.stderr
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

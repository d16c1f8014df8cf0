"""How often `lineprofiler compare` errs (L1): false alarms, and planted changes that it misses.

    python benchmarks/bench_compare.py [--rounds N] [--markdown] [--command PATH] [--seed N]

Runs are made whose phases are noisy in the ways that training runs are, written as worker files
and compared by the command itself. A/A: both runs are of one program, so every phase called slower
or faster is a false alarm, and a comparison with any is a false comparison; the stated rate is 1 in
100 comparisons. Then one phase after another becomes 5% slower in B, with 10,000 entries in each
run, and must be found.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from make_run import bucket_of

BASE_NS = 2e6
RATE = 0.01
SHIFT = 0.05
PLANTED_ENTRIES = 10_000

# A noise makes the durations of one process's entries, given its generator and their number; 1 is
# about the usual duration.
Noise = Callable[[random.Random, int], list[float]]


def log_normal(sigma: float) -> Noise:
    """A bell with a tail."""
    return lambda rng, n: [rng.lognormvariate(0, sigma) for _ in range(n)]


def bimodal(rng: random.Random, n: int) -> list[float]:
    """A cache that hits 19 times in 20; a miss takes three times as long."""
    return [(3 if rng.random() < 0.05 else 1) * (1 + 0.05 * rng.gauss(0, 1)) for _ in range(n)]


def stalls(rng: random.Random, n: int) -> list[float]:
    """One entry in 200 takes 100 times as long."""
    return [rng.lognormvariate(0, 0.2) * (100 if rng.random() < 0.005 else 1) for _ in range(n)]


def pareto(alpha: float) -> Noise:
    """A tail so heavy that under 2 there is no variance."""
    return lambda rng, n: [rng.paretovariate(alpha) for _ in range(n)]


def steady(rng: random.Random, n: int) -> list[float]:
    """Within a percent, and so often inside one bucket."""
    return [1 + 0.01 * rng.gauss(0, 1) for _ in range(n)]


def uneven(rng: random.Random, n: int) -> list[float]:
    """Processes differ by 5%, all entries of one alike."""
    speed = rng.lognormvariate(0, 0.05)
    return [speed * rng.lognormvariate(0, 0.2) for _ in range(n)]


def drifting(rng: random.Random, n: int) -> list[float]:
    """Each entry is much like the one before it."""
    level, levels = rng.gauss(0, 0.3), []
    for _ in range(n):
        level = 0.99 * level + 0.3 * math.sqrt(1 - 0.99**2) * rng.gauss(0, 1)
        levels.append(math.exp(level))
    return levels


def warming_up(rng: random.Random, n: int) -> list[float]:
    """The first entries of a process take up to 30 times as long."""
    return [rng.lognormvariate(0, 0.3) * (1 + 29 * math.exp(-i / 3)) for i in range(n)]


INDEPENDENT: dict[str, Noise] = {
    "log-normal 0.3": log_normal(0.3),
    "log-normal 1.0": log_normal(1.0),
    "bimodal": bimodal,
    "rare stalls": stalls,
    "Pareto 1.5": pareto(1.5),
    "Pareto 4": pareto(4),
    "steady": steady,
}
DEPENDENT: dict[str, Noise] = {"uneven processes": uneven, "drifting": drifting}
# Not where runs differ in length: there their means are different indeed.
SAME_LENGTH: dict[str, Noise] = {"warming up": warming_up}


class Plan(NamedTuple):
    """What two runs look like: noises by phase; processes and entries of a process in A and B."""

    name: str
    noises: dict[str, Noise]
    processes: tuple[int, int]
    entries: tuple[int, int]


UNEQUAL = INDEPENDENT | DEPENDENT
EVERY = UNEQUAL | SAME_LENGTH
PLANS = (
    Plan("16 and 16 processes", EVERY, (16, 16), (60, 60)),
    Plan("8 and 5 processes, entries 5 : 1", UNEQUAL, (8, 5), (200, 40)),
    Plan("3 and 2 processes", EVERY, (3, 2), (300, 300)),
    Plan("2 and 1 processes", EVERY, (2, 1), (300, 300)),
    Plan("1 and 1 process", INDEPENDENT | SAME_LENGTH, (1, 1), (1000, 1000)),
    Plan("1 and 1 process, entries 50 : 1", INDEPENDENT, (1, 1), (2000, 40)),
)
FOUND = ("log-normal 0.3", "bimodal", "Pareto 4", "steady")
PLANTED = ((1, 1), (8, 8), (16, 16))


def hist_of(durations: list[int]) -> str:
    """A worker file's histogram of these durations."""
    counts: dict[int, int] = {}
    for duration in durations:
        bucket = bucket_of(duration)
        counts[bucket] = counts.get(bucket, 0) + 1
    return " ".join(f"{bucket}:{counts[bucket]}" for bucket in sorted(counts))


def node(name: str, durations: list[int]) -> dict[str, Any]:
    """A node of a worker file."""
    wall_ns = sum(durations)
    return {
        "parent": 0,
        "name": name,
        "calls": len(durations),
        "wall_ns": wall_ns,
        "cpu_ns": wall_ns // 2,
        "hist": hist_of(durations),
    }


def write_worker(run: Path, number: int, nodes: list[dict[str, Any]]) -> None:
    """Write one worker's file."""
    stamp = {"monotonic_ns": 10**9, "boottime_ns": 10**9}
    name = f"w_{run.name}_{number}_{number:08x}"
    document = {
        "format": "lineprofiler-worker",
        "version": 1,
        "worker": name,
        "run_id": run.name,
        "role": "actor",
        "pid": number,
        "parent_pid": 1,
        "host": "node01",
        "rank": None,
        "world_size": None,
        "launcher": None,
        "job": None,
        "boot_id": "b0",
        "pid_namespace": 1,
        "process_start_ticks": number,
        "library": "0.4.0",
        "runtime": None,
        "command": [],
        "run_id_origin": "inherited",
        "settings": {
            "measure_cpu": True,
            "thread_names": False,
            "snapshot_interval_s": 30.0,
            "sample_interval_s": None,
        },
        "started": {"realtime_ns": 10**18, **stamp},
        "written": {"realtime_ns": 10**18, **stamp},
        "state": "closed",
        "flush": 1,
        "clock": {"wall": "tsc", "cpu": "token"},
        "image": "shared",
        "troubles": {},
        "threads": [{"name": "MainThread", "tid": number, "alive": True, "nodes": [{}, *nodes]}],
    }
    folder = run / "workers" / "node01"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


def make(
    rng: random.Random,
    run: Path,
    noises: dict[str, Noise],
    processes: int,
    entries: int,
    slower: str | None = None,
) -> None:
    """Make a run. Its mean is off by a little, as that of every run is; one phase may be slower."""
    speeds = {name: BASE_NS * rng.gauss(1, 0.003) for name in noises}
    if slower is not None:
        speeds[slower] *= 1 + SHIFT
    for number in range(1, processes + 1):
        nodes = [
            node(name, [max(1, round(speeds[name] * x)) for x in noise(rng, entries)])
            for name, noise in noises.items()
        ]
        write_worker(run, number, nodes)


def compare(command: str, a: Path, b: Path, *options: str) -> dict[str, str]:
    """Return the verdict on each phase."""
    done = subprocess.run(
        [command, "compare", a, b, "--json", *options], stdout=subprocess.PIPE, check=True
    )
    return {
        phase["path"][0]: phase["verdict"]
        for role in json.loads(done.stdout)["roles"]
        for phase in role["phases"]
    }


def false_alarms(command: str, plan: Plan, rounds: int, seed: str) -> tuple[int, dict[str, int]]:
    """Compare equal programs: how many comparisons had a false alarm, and in which phases."""
    comparisons, phases = 0, dict.fromkeys(plan.noises, 0)
    for number in range(rounds):
        rng = random.Random(f"{seed} {plan.name} {number}")
        with tempfile.TemporaryDirectory(prefix="lineprofiler-bench-") as folder:
            runs = Path(folder, "a"), Path(folder, "b")
            for run, processes, entries in zip(runs, plan.processes, plan.entries, strict=True):
                make(rng, run, plan.noises, processes, entries)
            verdicts = compare(command, *runs)
        wrong = [name for name, verdict in verdicts.items() if verdict in ("slower", "faster")]
        comparisons += bool(wrong)
        for name in wrong:
            phases[name] += 1
    return comparisons, phases


def found(command: str, processes: tuple[int, int], name: str, rounds: int, seed: str) -> int:
    """Plant a slower phase among others: in how many comparisons it was found."""
    hits = 0
    for number in range(rounds):
        rng = random.Random(f"{seed} {processes} {name} {number}")
        with tempfile.TemporaryDirectory(prefix="lineprofiler-bench-") as folder:
            runs = Path(folder, "a"), Path(folder, "b")
            for run, count, slower in zip(runs, processes, (None, name), strict=True):
                noises = {each: EVERY[each] for each in FOUND}
                make(rng, run, noises, count, PLANTED_ENTRIES // count, slower)
            hits += compare(command, *runs)[name] == "slower"
    return hits


def table(titles: list[str], rows: list[list[str]], markdown: bool) -> str:
    """Return the rows as a table."""
    widths = [max(len(line[i]) for line in [titles, *rows]) for i in range(len(titles))]
    edge, gap, end = ("| ", " | ", " |") if markdown else ("", "  ", "")
    text = [
        edge
        + gap.join(
            f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + end
        for line in [titles, *rows]
    ]
    if markdown:
        text.insert(1, "|---" + "|---:" * (len(titles) - 1) + "|")
    return "\n".join(text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How often compare errs.")
    parser.add_argument("--rounds", type=int, default=1000, help="A/A comparisons in all (1000)")
    parser.add_argument("--planted", type=int, default=10, help="rounds for each shift (10)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--seed", default="1")
    parser.add_argument(
        "--command",
        default=str(Path(sys.executable).with_name("lineprofiler")),
        help="the command to measure (the one beside this interpreter)",
    )
    options = parser.parse_args()

    alarms, compared, rows = 0, 0, []
    for i, plan in enumerate(PLANS):
        rounds = options.rounds // len(PLANS) + (i < options.rounds % len(PLANS))
        wrong, phases = false_alarms(options.command, plan, rounds, options.seed)
        alarms, compared = alarms + wrong, compared + rounds
        named = ", ".join(f"{name} {n}" for name, n in phases.items() if n)
        rows.append([plan.name, str(len(plan.noises)), f"{rounds:,}", str(wrong), named or "-"])
    titles = ["equal programs", "phases", "comparisons", "with false alarms", "in"]
    print(table(titles, rows, options.markdown))
    verdict = "met" if alarms <= RATE * compared else "MISSED"
    print(
        f"\nL1: {alarms} of {compared:,} comparisons of equal programs had a false alarm; "
        f"at most {RATE:.0%}: {verdict}\n"
    )

    rows, missed = [], 0
    for name in FOUND:
        hits = [
            found(options.command, count, name, options.planted, options.seed) for count in PLANTED
        ]
        missed += options.planted * len(PLANTED) - sum(hits)
        rows.append([name, *(f"{hit} of {options.planted}" for hit in hits)])
    titles = ["5% slower, 10,000 entries", *(f"{a} and {b} processes" for a, b in PLANTED)]
    print(table(titles, rows, options.markdown))
    verdict = "MISSED" if missed else "met"
    print(f"\nL1: planted changes that were missed: {missed}; none: {verdict}")


if __name__ == "__main__":
    main()

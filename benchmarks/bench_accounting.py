"""What recording costs, per operation, next to what Python itself costs.

    python benchmarks/bench_accounting.py [--rounds N] [--markdown]

All rows are measured in one process, round-robin over many rounds, and the best round of each
counts: the ratios then hold even on a noisy machine. The cost of the bare loop is taken off. Bars
O1, O2 and O3 of docs/requirements.md are checked and printed below the table, with what a skipped
entry (G1) and the functions of the module (D1) may cost more than their like; --markdown prints
both as Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from lineprofiler import accounting
from lineprofiler.accounting import Profiler

LOOP = 20_000

Row = tuple[str, Callable[[int], None]]


def rows(directory: Path) -> list[Row]:
    """Return each operation as a function that does it n times."""
    lock = threading.Lock()
    null = contextlib.nullcontext()
    mapping = {"k": 0}
    measured = Profiler(run_dir=directory / "cpu", enabled=True, role="bench")
    wall_only = Profiler(run_dir=directory / "wall", enabled=True, role="bench", measure_cpu=False)
    disabled = Profiler(run_dir=directory / "off", enabled=False)
    strict = Profiler(run_dir=directory / "strict", enabled=True, role="bench", strict_names=True)
    handle = measured.phase("handle")
    with measured.phase("rare", sample=1e-9):
        pass  # the one that is measured

    def empty(n: int) -> None:
        for _ in range(n):
            pass

    def with_lock(n: int) -> None:
        for _ in range(n):
            with lock:
                pass

    def with_null(n: int) -> None:
        for _ in range(n):
            with null:
                pass

    def add_to_dict(n: int) -> None:
        for _ in range(n):
            mapping["k"] += 1

    def phase(n: int) -> None:
        for _ in range(n):
            with measured.phase("x"):
                pass

    def phase_without_cpu(n: int) -> None:
        for _ in range(n):
            with wall_only.phase("x"):
                pass

    def kept_handle(n: int) -> None:
        for _ in range(n):
            with handle:
                pass

    def nested(n: int) -> None:
        for _ in range(n):
            with measured.phase("x"), measured.phase("y"):
                pass

    def phase_disabled(n: int) -> None:
        for _ in range(n):
            with disabled.phase("x"):
                pass

    def nothing_installed(n: int) -> None:
        for _ in range(n):
            with accounting.phase("x"):
                pass

    def count(n: int) -> None:
        for _ in range(n):
            measured.count("k")

    def count_disabled(n: int) -> None:
        for _ in range(n):
            disabled.count("k")

    def phase_skipped(n: int) -> None:
        for _ in range(n):
            with measured.phase("rare", sample=1e-9):
                pass

    def phase_strict(n: int) -> None:
        for _ in range(n):
            with strict.phase("x"):
                pass

    return [
        ("empty loop", empty),
        ("`with lock: pass` (threading.Lock)", with_lock),
        ("`with nullcontext: pass`, kept object", with_null),
        ("`d[k] += 1`", add_to_dict),
        ("`phase()`, enabled=True, measure_cpu=True", phase),
        ("`phase()`, enabled=True, measure_cpu=False", phase_without_cpu),
        ("kept handle, measure_cpu=True", kept_handle),
        ("two phases nested, measure_cpu=True", nested),
        ("`phase()`, enabled=False", phase_disabled),
        ("`accounting.phase()`, nothing installed", nothing_installed),
        ("`count()`", count),
        ("`count()`, enabled=False", count_disabled),
        ("`phase(sample=)`, skipped entry", phase_skipped),
        ("`phase()`, strict_names=True", phase_strict),
        ("switch between two asyncio tasks", lambda n: asyncio.run(switches(n, null))),
        (
            "the same, with an open phase in each",
            lambda n: asyncio.run(switches(n, measured.phase("task"))),
        ),
    ]


async def switches(n: int, around: contextlib.AbstractContextManager[object]) -> None:
    """Have two tasks take turns n times, each inside a block of `around`."""

    async def turns() -> None:
        with around:
            for _ in range(n // 2):
                await asyncio.sleep(0)

    await asyncio.gather(turns(), turns())


def installed_row(directory: Path) -> tuple[Profiler, Row]:
    """Return the row with an installed profiler: it would spoil the one without."""
    installed = Profiler(run_dir=directory / "installed", enabled=True, role="bench", install=True)

    def phase_installed(n: int) -> None:
        for _ in range(n):
            with accounting.phase("x"):
                pass

    return installed, ("`accounting.phase()`, installed, measure_cpu=True", phase_installed)


def io_row(directory: Path) -> Row:
    """Return the row of phases that read the kernel's counters: a hundred times the others'."""
    profiler = Profiler(run_dir=directory / "io", enabled=True, role="bench")

    def phase_with_io(n: int) -> None:
        for _ in range(n):
            with profiler.phase("x", io=True):
                pass

    return "`phase(io=True)`", phase_with_io


def best_of(table: list[Row], rounds: int) -> dict[str, float]:
    """Return the least ns per operation of each row over all rounds, the rows taking turns."""
    best = dict.fromkeys((name for name, _ in table), float("inf"))
    for _, operation in table:
        operation(LOOP)
    for _ in range(rounds):
        for name, operation in table:
            start = time.perf_counter_ns()
            operation(LOOP)
            best[name] = min(best[name], (time.perf_counter_ns() - start) / LOOP)
    return best


def measure(rounds: int) -> dict[str, float]:
    """Return ns per operation by row, the empty loop as it is and taken off all others."""
    with tempfile.TemporaryDirectory() as name:
        best = best_of(rows(Path(name)), rounds)
        profiler, row = installed_row(Path(name))
        best |= best_of([row], rounds)
        profiler.close()
        best |= best_of([io_row(Path(name))], max(1, rounds // 20))
    empty = best.pop("empty loop")
    return {"empty loop": empty} | {name: max(0.0, ns - empty) for name, ns in best.items()}


def bars(ns: dict[str, float]) -> list[tuple[str, str, float, float]]:
    """Return (number, what, ratio, bar) for each bar this table decides."""
    phase, null = (
        ns["`phase()`, enabled=True, measure_cpu=True"],
        ns["`with nullcontext: pass`, kept object"],
    )
    return [
        ("O1", "phase with wait / lock", phase / ns["`with lock: pass` (threading.Lock)"], 1.0),
        ("O2", "disabled phase / nullcontext", ns["`phase()`, enabled=False"] / null, 1.0),
        (
            "O2",
            "nothing installed / nullcontext",
            ns["`accounting.phase()`, nothing installed"] / null,
            1.0,
        ),
        ("O3", "count / dict entry", ns["`count()`"] / ns["`d[k] += 1`"], 1.5),
        (
            "G1",
            "skipped entry - disabled, ns",
            ns["`phase(sample=)`, skipped entry"] - ns["`phase()`, enabled=False"],
            30.0,
        ),
        (
            "D1",
            "accounting.phase - phase, ns",
            ns["`accounting.phase()`, installed, measure_cpu=True"] - phase,
            20.0,
        ),
    ]


def show(ns: dict[str, float], markdown: bool) -> None:
    """Print the table and the bars."""
    edge, gap = ("| ", " | ") if markdown else ("", "  ")
    end = " |" if markdown else ""
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"{edge}{'CPython ' + version:52}{gap}{'ns':>8}{end}")
    if markdown:
        print("|---|---:|")
    for name, value in ns.items():
        print(f"{edge}{name:52}{gap}{value:8.1f}{end}")
    print()
    heading = (
        f"{'bar':4}",
        f"{'ratio, or difference':34}",
        f"{'measured':>8}",
        f"{'at most':>8}",
        " " * 6,
    )
    print(edge + gap.join(heading) + end)
    if markdown:
        print("|---|---|---:|---:|---|")
    for number, what, ratio, bar in bars(ns):
        verdict = "met" if ratio <= bar else "MISSED"
        print(
            f"{edge}{number:4}{gap}{what:34}{gap}{ratio:8.2f}{gap}{bar:8.2f}{gap}{verdict:6}{end}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What recording costs, per operation.")
    parser.add_argument("--rounds", type=int, default=100, help="rounds to take the best of (100)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args()
    show(measure(options.rounds), options.markdown)


if __name__ == "__main__":
    main()

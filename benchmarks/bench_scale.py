"""What many processes cost: reading them, and what a profiler adds to the life of each.

    python benchmarks/bench_scale.py [--rounds N] [--markdown] [--command PATH]

Reading: runs of 100, 1,000 and 10,000 workers with 30 phases each, twenty on a host, are made
(make_run.py) and reported; and a part of the largest one, chosen by `--role` and `--rank`. The best
wall time counts; the last column shows whether time grows with the number of workers, or faster.

Start and end: fresh interpreters, in turn, that do nothing; that import the package; that open a
profiler of a run that is under way, and enter one phase; that begin a run, which the one process
does that looks up its commit, and waits a little for git if it ends at once. Each says by
CLOCK_MONOTONIC when its first line ran, when its work began and when it was done, so that the parts
add up to the life of the process. Medians, and the difference to the interpreter that does nothing,
on the local disk that holds this checkout; and how long that disk takes for an fsync, of which a
process that ends waits for three.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_report import PHASES, Row, measure, table

SIZES = (100, 1_000, 10_000)
WORKERS_A_HOST = 20
START_BAR_MS = 3.0
END_BAR_MS = 10.0
LINEAR = 1.5

PROGRAM = """
import time
began = time.monotonic_ns()
{imports}
imported = time.monotonic_ns()
{work}
print(began, imported, time.monotonic_ns(), flush=True)
"""
OPEN = """
profiler = Profiler(sys.argv[1], "bench", run_id={run_id})
with profiler.phase("a"):
    pass
"""
PROGRAMS = {
    "nothing": PROGRAM.format(imports="", work=""),
    "import": PROGRAM.format(
        imports="import sys\nfrom lineprofiler.accounting import Profiler", work=""
    ),
    "profiler": PROGRAM.format(
        imports="import sys\nfrom lineprofiler.accounting import Profiler",
        work=OPEN.format(run_id="'one'"),
    ),
    "begins a run": PROGRAM.format(
        imports="import sys\nfrom lineprofiler.accounting import Profiler",
        work=OPEN.format(run_id=None),
    ),
}


def measure_reading(command: str, rounds: int) -> list[Row]:
    """Return a row for each size and form, and one for a part of the largest run."""
    rows = []
    script = Path(__file__).with_name("make_run.py")
    with tempfile.TemporaryDirectory(prefix="lineprofiler-bench-") as folder:
        for workers in SIZES:
            run = Path(folder) / str(workers)
            options = ["--workers", workers, "--phases", PHASES]
            options += ["--hosts", workers // WORKERS_A_HOST]
            words = [sys.executable, str(script), str(run), *map(str, options)]
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
            rows += [measure(command, run, workers, form, rounds) for form in ("text", "json")]
        # A program that adds the filter to the command's line, since measure() takes one word.
        some = Path(folder) / "some"
        some.write_text(f'#!/bin/sh\nexec {command} "$@" --role actor --rank 0-63\n')
        some.chmod(0o755)
        part = measure(str(some), run, SIZES[-1], "text", rounds)
        rows.append(part._replace(form="48 of them"))
    return rows


def live_once(code: str, run_dir: Path) -> tuple[float, float, float]:
    """Return how long a process imported, worked and then took to end, in ms."""
    command = [sys.executable, "-P", "-c", code, str(run_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.wait()
        ended = time.monotonic_ns()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    began, imported, done = map(int, line.split())
    return (imported - began) / 1e6, (done - imported) / 1e6, (ended - done) / 1e6


def sync_once(path: Path) -> float:
    """Return how long the file system takes to make a small file safe, in ms."""
    with path.open("wb") as file:
        file.write(bytes(4096))
        file.flush()
        start = time.perf_counter_ns()
        os.fsync(file.fileno())
        return (time.perf_counter_ns() - start) / 1e6


def measure_lives(rounds: int) -> dict[str, tuple[float, float, float]]:
    """Return the medians of each program's parts."""
    lives: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PROGRAMS}
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory(prefix="build-bench-", dir=here) as folder:
        live_once(PROGRAMS["profiler"], Path(folder))  # begins the run that the others join
        for _ in range(rounds):
            for name, code in PROGRAMS.items():
                lives[name].append(live_once(code, Path(folder)))
        syncs = [sync_once(Path(folder) / f"sync{i}") for i in range(rounds)]
    print(f"median fsync of 4 kB here: {statistics.median(syncs):.2f} ms\n")
    medians = {}
    for name, parts in lives.items():
        imports, work, end = (statistics.median(part) for part in zip(*parts, strict=True))
        medians[name] = (imports, work, end)
    return medians


def show_lives(lives: dict[str, tuple[float, float, float]], markdown: bool) -> None:
    """Print them as a table."""
    edge, gap, end = ("| ", " | ", " |") if markdown else ("", "  ", "")
    titles = ("a process that has", "imports ms", "works ms", "ends ms")
    print(edge + f"{titles[0]:20}" + gap + gap.join(f"{t:>10}" for t in titles[1:]) + end)
    if markdown:
        print("|---|---:|---:|---:|")
    for name, parts in lives.items():
        print(edge + f"{name:20}" + gap + gap.join(f"{ms:10.2f}" for ms in parts) + end)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What many processes cost.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the best of (5)")
    parser.add_argument("--lives", type=int, default=40, help="processes of each kind (40)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument(
        "--command",
        default=str(Path(sys.executable).with_name("lineprofiler")),
        help="the command to measure (the one beside this interpreter)",
    )
    options = parser.parse_args()
    lives = measure_lives(options.lives)
    show_lives(lives, options.markdown)
    start = sum(lives["profiler"][:2]) - sum(lives["nothing"][:2])
    verdict = "met" if start < START_BAR_MS else "MISSED"
    print(f"\nstart: import, opening a profiler and a first phase add {start:.2f} ms;", end=" ")
    print(f"under {START_BAR_MS:.0f} ms: {verdict}")
    last = lives["profiler"][2] - lives["nothing"][2]
    verdict = "met" if last < END_BAR_MS else "MISSED"
    print(f"end: closing it adds {last:.2f} ms; under {END_BAR_MS:.0f} ms: {verdict}\n")
    rows = measure_reading(options.command, options.rounds)
    print(table(rows, options.markdown))
    each = [row.cpu_s / row.workers for row in rows if row.form == "text"]
    growth = each[-1] / each[1]
    verdict = "met" if growth < LINEAR else "MISSED"
    print(f"\nlinear: CPU time a worker, {SIZES[-1]:,} to {SIZES[1]:,}: {growth:.2f};", end=" ")
    print(f"under {LINEAR}: {verdict}")


if __name__ == "__main__":
    main()

"""What a report of a large run costs, as a process of its own: time and peak memory (O7).

    python benchmarks/bench_report.py [--rounds N] [--markdown] [--command PATH]

Runs of 100, 1,000 and 10,000 workers with 30 phases each are made (make_run.py) and reported
several times, as text and as JSON; the best wall time counts. The last column shows whether the
cost grows with the number of workers, or faster. Then a run of 64 workers and 12 hours with a
sample of each a second (make_samples.py): 2.8 million of them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PHASES = 30
HOSTS = 64
SIZES = (100, 1_000, 10_000)
BAR_WORKERS = 10_000
BAR_S = 5.0
SAMPLED_WORKERS = 64
SAMPLED_BAR_S = 1.0
SAMPLED_BAR_MIB = 64.0


class Row(NamedTuple):
    """One line of the table."""

    workers: int
    form: str
    wall_s: float
    cpu_s: float
    peak_mib: float


def run_once(command: list[str]) -> tuple[float, float]:
    """Run a command; return its wall seconds and CPU seconds."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - start
    if child.returncode != 0:
        raise subprocess.CalledProcessError(child.returncode, command)
    return wall_s, usage.ru_utime + usage.ru_stime


def peak_mib(command: list[str]) -> float:
    """Run a command once more and return the peak of its resident memory.

    The rusage of a child begins with what this interpreter held when it started the child, so the
    kernel's own mark is read instead, again and again until there is none.
    """
    peak_kib = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        status = Path(f"/proc/{child.pid}/status")
        while child.poll() is None:
            match = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)
            peak_kib = max(peak_kib, int(match[1])) if match else peak_kib
            time.sleep(0.0005)
    return peak_kib / 1024


def measure(
    command: str, run: Path, workers: int, form: str, rounds: int, samples: bool = False
) -> Row:
    """Report a run several times."""
    words = [command, "report", str(run), "--format", form]
    words += [] if samples else ["--no-samples"]
    results = [run_once(words) for _ in range(rounds)]
    best_s, cpu_s = min(results)
    return Row(workers, form, best_s, cpu_s, peak_mib(words))


def make_run(folder: Path, workers: int) -> Path:
    """Make a run directory."""
    run = folder / str(workers)
    script = Path(__file__).with_name("make_run.py")
    options = ["--workers", str(workers), "--phases", str(PHASES), "--hosts", str(HOSTS)]
    subprocess.run([sys.executable, script, run, *options], check=True, stderr=subprocess.DEVNULL)
    return run


def measure_all(command: str, rounds: int) -> list[Row]:
    """Return every row of the table."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="lineprofiler-bench-") as folder:
        for workers in SIZES:
            run = make_run(Path(folder), workers)
            rows += [measure(command, run, workers, form, rounds) for form in ("text", "json")]
    return rows


def measure_sampled(command: str, rounds: int) -> list[Row]:
    """Return the rows of the run with samples."""
    with tempfile.TemporaryDirectory(prefix="lineprofiler-bench-") as folder:
        run = make_run(Path(folder), SAMPLED_WORKERS)
        script = Path(__file__).with_name("make_samples.py")
        subprocess.run([sys.executable, script, run], check=True, stderr=subprocess.DEVNULL)
        return [
            measure(command, run, SAMPLED_WORKERS, form, rounds, samples=True)
            for form in ("text", "json")
        ]


def table(rows: list[Row], markdown: bool) -> str:
    """Return the rows as a table."""
    edge, gap, end = ("| ", " | ", " |") if markdown else ("", "  ", "")
    titles = ["workers", "form", "wall s", "CPU s", "peak MiB", "us/worker"]
    lines = [titles] + [
        [
            f"{row.workers:,}",
            row.form,
            f"{row.wall_s:.3f}",
            f"{row.cpu_s:.3f}",
            f"{row.peak_mib:.1f}",
            f"{row.wall_s / row.workers * 1e6:.0f}",
        ]
        for row in rows
    ]
    text = [edge + gap.join(f"{cell:>9}" for cell in line) + end for line in lines]
    if markdown:
        text.insert(1, "|---:" * len(titles) + "|")
    return "\n".join(text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a report of a large run costs.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the best of (5)")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument(
        "--command",
        default=str(Path(sys.executable).with_name("lineprofiler")),
        help="the command to measure (the one beside this interpreter)",
    )
    options = parser.parse_args()
    rows = measure_all(options.command, options.rounds)
    print(table(rows, options.markdown))
    slowest = max(row.wall_s for row in rows if row.workers == BAR_WORKERS)
    verdict = "met" if slowest < BAR_S else "MISSED"
    print(f"\nO7: {BAR_WORKERS:,} workers in {slowest:.2f} s; under {BAR_S:.0f} s: {verdict}\n")
    sampled = measure_sampled(options.command, options.rounds)
    print(table(sampled, options.markdown))
    slowest, peak = max(row.wall_s for row in sampled), max(row.peak_mib for row in sampled)
    met = slowest < SAMPLED_BAR_S and peak < SAMPLED_BAR_MIB
    print(
        f"\nO7: {SAMPLED_WORKERS} workers of 12 hours with samples in {slowest:.2f} s and"
        f" {peak:.0f} MiB; under {SAMPLED_BAR_S:.0f} s and {SAMPLED_BAR_MIB:.0f} MiB: {'met' if met else 'MISSED'}"
    )


if __name__ == "__main__":
    main()

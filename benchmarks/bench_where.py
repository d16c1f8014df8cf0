"""What `lineprofiler where` takes to answer on a live run, as a process of its own.

    python benchmarks/bench_where.py [--rounds N] [--markdown] [--command PATH]

Workers of 4 threads and 30 phases each hang inside three nested phases on this machine; all have
written their files. The command is run several times; the best wall time counts. 30 ms of it are
the pause between two looks at the threads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lineprofiler.accounting import Profiler

SIZES = (1, 64)
THREADS = 4
PHASES = 30
BAR_WORKERS = 64
BAR_S = 0.1


class Row(NamedTuple):
    """One line of the table."""

    workers: int
    form: str
    wall_s: float
    cpu_s: float


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


def work(run_dir: str, rank: int, ready: int) -> None:
    """Record, say so, and hang; in a process of its own."""
    os.environ["RANK"] = str(rank)
    profiler = Profiler(run_dir, "actor", run_id="bench", snapshot_interval_s=None)
    stands = threading.Barrier(THREADS)

    def hang() -> None:
        for i in range(PHASES):
            with profiler.phase(f"phase {chr(97 + i)}"):
                pass
        with profiler.phase("iteration"), profiler.phase("self_play"), profiler.phase("mcts"):
            if stands.wait() == 0:
                profiler.snapshot()
                os.write(ready, b"x")
            signal.pause() if threading.current_thread() is threading.main_thread() else forever()

    def forever() -> None:
        threading.Event().wait()

    for _ in range(THREADS - 1):
        threading.Thread(target=hang, daemon=True).start()
    hang()


@contextlib.contextmanager
def live_run(workers: int, command: str) -> Iterator[str]:
    """Keep a run alive; it is killed in the end, and what that leaves in memory is adopted."""
    with tempfile.TemporaryDirectory(prefix="lineprofiler-bench-") as run_dir:
        heard, ready = os.pipe()
        pids = []
        for rank in range(workers):
            pid = os.fork()
            if pid == 0:
                work(run_dir, rank, ready)
            pids.append(pid)
        for _ in pids:
            os.read(heard, 1)
        try:
            yield run_dir
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(heard)
            os.close(ready)
            subprocess.run([command, "where", run_dir], check=True, stdout=subprocess.DEVNULL)


def measure(command: str, workers: int, rounds: int) -> list[Row]:
    """Ask several times."""
    rows = []
    with live_run(workers, command) as run_dir:
        for form in ("text", "json"):
            words = [command, "where", run_dir, *(["--json"] if form == "json" else [])]
            best_s, cpu_s = min(run_once(words) for _ in range(rounds))
            rows.append(Row(workers, form, best_s, cpu_s))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What an answer about a live run takes.")
    parser.add_argument("--rounds", type=int, default=10, help="rounds to take the best of (10)")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument(
        "--command",
        default=str(Path(sys.executable).with_name("lineprofiler")),
        help="the command to measure (the one beside this interpreter)",
    )
    options = parser.parse_args()
    rows = [row for workers in SIZES for row in measure(options.command, workers, options.rounds)]
    edge, gap, end = ("| ", " | ", " |") if options.markdown else ("", "  ", "")
    titles = ["live workers", "form", "wall ms", "CPU ms"]
    lines = [edge + gap.join(f"{title:>12}" for title in titles) + end]
    if options.markdown:
        lines.append("|---:" * len(titles) + "|")
    for row in rows:
        cells = [f"{row.workers:,}", row.form, f"{row.wall_s * 1e3:.1f}", f"{row.cpu_s * 1e3:.1f}"]
        lines.append(edge + gap.join(f"{cell:>12}" for cell in cells) + end)
    print("\n".join(lines))
    slowest = max(row.wall_s for row in rows if row.workers == BAR_WORKERS)
    verdict = "met" if slowest < BAR_S else "MISSED"
    bar = f"under {BAR_S * 1e3:.0f} ms: {verdict}"
    print(f"\nwhere: {BAR_WORKERS} live workers in {slowest * 1e3:.0f} ms; {bar}")


if __name__ == "__main__":
    main()

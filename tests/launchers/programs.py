"""Programs that the tests launch, and what they tell of themselves while they run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from launchers.processes import wait_until
from lineprofiler.run import Run, Worker

RANK = """int(next((os.environ[name] for name in (
    "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID") if name in os.environ), 0))"""

# Enters phases until somebody ends it, and tells each entry that has ended by a byte of a file.
TELLING = f"""\
import os
import sys
import time

from lineprofiler.accounting import Profiler

rank = {RANK}
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT") or os.environ.get("SLURM_RESTART_COUNT", "0")
told = os.open(f"told.{{rank}}.{{attempt}}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with Profiler(run_dir="profile", role="trainer") as profiler:
    while True:
        with profiler.phase("step"):
            profiler.count("samples", 32)
            time.sleep(0.002)
        os.write(told, b".")
"""

# Until there is a file "end", and then in good order.
ENDING = TELLING.replace("while True:", 'while not os.path.exists("end"):')

# A few steps, and an orderly end.
SHORT = """\
from lineprofiler.accounting import Profiler

with Profiler(run_dir="profile", role="trainer") as profiler:
    for _ in range(10):
        with profiler.phase("step"):
            profiler.count("samples", 32)
"""


class Told:
    """What the ranks of TELLING have told in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self, rank: int, attempt: int = 0) -> int:
        path = self.folder / f"told.{rank}.{attempt}"
        return path.stat().st_size if path.exists() else 0

    def wait(self, ranks: int, attempt: int = 0, steps: int = 20) -> None:
        """Until each rank has told so many more steps than now."""
        goals = [self.steps(rank, attempt) + steps for rank in range(ranks)]
        wait_until(
            lambda: all(self.steps(rank, attempt) >= goals[rank] for rank in range(ranks)),
            f"each of {ranks} ranks does {steps} more steps",
        )

    def assert_nothing_lost(self, run: Run, run_dir: str, ranks: int, attempt: int = 0) -> None:
        """Each rank's file has what was told, and at most the entry in flight beyond."""
        assert sorted(worker.rank for worker in run.workers if worker.rank is not None) == list(
            range(ranks)
        )
        for worker in run.workers:
            assert worker.rank is not None
            told = self.steps(worker.rank, attempt)
            calls, samples = steps_in(self.folder / run_dir / worker.path)
            assert told <= calls <= told + 1, f"rank {worker.rank}"
            assert samples in (32 * calls, 32 * (calls + 1))


def steps_in(path: Path) -> tuple[int, int]:
    """Return how many steps have ended by a worker's file, and how many samples it counted."""
    document = json.loads(path.read_text(encoding="utf-8"))
    [thread] = document["threads"]
    [step] = [node for node in thread["nodes"] if node.get("name") == "step"]
    return step["calls"], step["counters"]["samples"][0]


def ranks_named(caveats: str, role: str) -> set[int]:
    """Return the ranks of a role that caveats name: one by one, or "(role rank 0, 3-7)"."""
    ranks: set[int] = set()
    for group in re.findall(rf"\b{role} rank (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)", caveats):
        for part in group.split(", "):
            first, _, last = part.partition("-")
            ranks.update(range(int(first), int(last or first) + 1))
    return ranks


def rank_of(run: Run, rank: int) -> Worker:
    [worker] = [worker for worker in run.workers if worker.rank == rank]
    return worker

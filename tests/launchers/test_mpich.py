"""MPICH's mpiexec, started for real: ranks by PMI_RANK. See mpich.md."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from launchers.conftest import Work
from launchers.processes import PATIENCE_S, run
from launchers.programs import SHORT, TELLING, rank_of
from lineprofiler.accounting import merge_run


@pytest.fixture
def mpiexec() -> Path:
    """Return the one of MPICH, by a name that no other MPI has."""
    found = shutil.which("mpiexec.hydra", path="/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("no mpiexec.hydra here (Debian: mpich)")
    return Path(found)


def test_ranks_that_are_given_a_run_id_F2(mpiexec: Path, work: Work) -> None:
    work.write("train.py", SHORT)
    env = {**work.env, "LINEPROFILER_RUN_ID": "job-77"}
    run([mpiexec, "-n", "4", "python", "train.py"], work.folder, env)
    merged = work.run_of()
    assert (merged.run_id, merged.superseded) == ("job-77", [])
    assert sorted(str(worker.rank) for worker in merged.workers) == ["0", "1", "2", "3"]
    facts = {(w.world_size, w.launcher, w.job_system, w.closed) for w in merged.workers}
    assert facts == {(4, "pmi", None, True)}
    assert merged.tree[("step",)].calls == 40
    assert "CAVEATS" not in work.report()


def test_ranks_without_a_name_in_common_F4(mpiexec: Path, work: Work) -> None:
    """The environment of this launcher has none; the report says so, and what to do."""
    meeting = """
import pathlib, time
pathlib.Path(f"there.{os.environ['PMI_RANK']}").touch()
deadline = time.monotonic() + 150
while len(list(pathlib.Path().glob("there.*"))) < 4 and time.monotonic() < deadline:
    time.sleep(0.01)
"""
    lines = meeting.strip().replace("\n", "\n    ")
    work.write("train.py", f"import os\n{SHORT}    {lines}\n")
    run([mpiexec, "-n", "4", "python", "train.py"], work.folder, work.env)
    merged = work.run_of()
    assert (len(merged.workers), len(merged.superseded)) == (1, 3)
    assert "Processes 1 of 4: MOST DID NOT JOIN, 3 under other run ids" in work.report()
    assert "LINEPROFILER_RUN_ID did not reach them" in work.caveats()


def test_one_rank_killed_F7(mpiexec: Path, work: Work) -> None:
    """The others are ended by mpiexec."""
    work.write("train.py", TELLING)
    command = [str(mpiexec), "-n", "4", "python", "train.py"]
    env = {**work.env, "LINEPROFILER_RUN_ID": "job-77"}
    with (work.folder / "mpiexec.out").open("wb") as out:
        launched = subprocess.Popen(
            command, cwd=work.folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    with launched:
        work.told.wait(4)
        os.kill(rank_of(merge_run(work.folder / "profile"), 2).pid, signal.SIGKILL)
        assert launched.wait(PATIENCE_S) != 0
    merged = work.run_of()
    work.told.assert_nothing_lost(merged, "profile", 4)
    # Those that ended alike share a line, if nobody could ask how each did.
    one_by_one = [rf"trainer rank {rank}, pid \d+ on \S+ ended without close" for rank in range(4)]
    together = r"4 workers ended without close.* \(trainer rank 0-3\)"
    caveats = work.caveats()
    assert all(re.search(one, caveats) for one in one_by_one) or re.search(together, caveats)

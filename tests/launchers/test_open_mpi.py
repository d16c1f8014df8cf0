"""Open MPI, started for real: ranks in C and Python, hosts, MPI_Abort, kills. See open-mpi.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from launchers import open_mpi
from launchers.conftest import Work
from launchers.hosts import Hosts
from launchers.open_mpi import OpenMpi, over
from launchers.processes import PATIENCE_S, end_marked, environment, run, wait_until
from launchers.programs import SHORT, TELLING, rank_of, ranks_named, steps_in
from launchers.slurm import Cluster
from lineprofiler.accounting import merge_run

RING = r"""
#include <lineprofiler.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int asked_for(char **argv, const char *what)
{
    while (*argv && strcmp(*argv, what) != 0)
        argv++;
    return *argv != NULL;
}

static double work(int times, int rest)
{
    volatile double x = 1;
    if (rest)
        return usleep(times * 20000);
    for (int i = 0; i < times * 100000; i++)
        x = x * 0.999 + i;
    return x;
}

/* ring STEPS [rest] [abort]: rank 5 has three times the work of the others, or rests ten times as
   long, so that it matters little how many cores there are. In the end rank 1 gives up. */
int main(int argc, char **argv)
{
    int rank, size, steps = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "profile", .role = "solver"});
    if (!profiler) {
        fprintf(stderr, "%s\n", lp_error_message());
        return 1;
    }
    int rest = asked_for(argv, "rest"), slow = rest ? 10 : 3;
    for (int step = 0; step < steps; step++) {
        LP_PHASE("step");
        double mine, sum;
        {
            LP_PHASE("compute");
            mine = work(rank == 5 ? slow : 1, rest);
        }
        {
            LP_PHASE("reduce");
            MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        LP_COUNT("cells", 100);
        if (asked_for(argv, "abort") && rank == 1 && step == steps - 1)
            MPI_Abort(MPI_COMM_WORLD, 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    lp_close(profiler);
    MPI_Finalize();
    return 0;
}
"""

RING_IN_PYTHON = """\
from mpi4py import MPI
from lineprofiler.accounting import Profiler

world = MPI.COMM_WORLD
with Profiler(run_dir="profile", role="trainer") as profiler:
    for _ in range(20):
        with profiler.phase("step"):
            with profiler.phase("reduce"):
                assert world.allreduce(world.rank) == sum(range(world.size))
            profiler.count("samples", 32)
"""


def ranks_of(work: Work) -> list[int]:
    return sorted(w.rank if w.rank is not None else -1 for w in work.run_of().workers)


# ---- who is in the run -----------------------------------------------------


def test_one_worker_for_each_rank_F2_F4(mpi: OpenMpi, work: Work) -> None:
    ring = mpi.compile(work.write("ring.c", RING))
    mpi.run(work.folder, 8, ring, "20")
    run = work.run_of()
    assert not run.superseded
    assert re.fullmatch(r"mpirun-[0-9a-f]{12}", run.run_id)
    assert ranks_of(work) == list(range(8))
    assert {(w.world_size, w.launcher, w.closed) for w in run.workers} == {(8, "openmpi", True)}
    steps = run.tree[("step",)]
    assert (steps.calls, steps.counters) == (160, {"cells": 16_000})
    assert run.tree[("step", "reduce")].calls == 160
    first = run.run_id
    mpi.run(work.folder, 8, ring, "20")
    run = work.run_of()
    assert [attempt.run_id for attempt in run.superseded] == [first], "not added up"
    assert run.tree[("step",)].calls == 160


def test_ranks_in_python(mpi: OpenMpi, work: Work) -> None:
    pytest.importorskip("mpi4py", reason="no mpi4py in this environment")
    work.write("train.py", RING_IN_PYTHON)
    done = mpi.run(work.folder, 4, "python", "train.py", status=None)
    if "libmpi" in done.stdout and done.returncode != 0:
        pytest.skip(f"mpi4py does not find this MPI: {done.stdout[-300:]}")
    assert done.returncode == 0, done.stdout
    assert ranks_of(work) == list(range(4))
    assert work.run_of().tree[("step", "reduce")].calls == 80


def test_the_rank_that_computes_longest_is_named_MN07(mpi: OpenMpi, work: Work) -> None:
    """The steps of the others are as long, since they wait for it."""
    ring = mpi.compile(work.write("ring.c", RING))
    mpi.run(work.folder, 8, ring, "50")
    assert work.run_of().tree[("step", "compute")].calls == 400
    done = run(["lineprofiler", "report", "profile", "--json"], work.folder, work.env)
    document = json.loads(done.stdout)
    [solver] = document["roles"]
    slowest = solver["slowest_workers"][0]
    assert document["workers"][slowest["worker"]]["rank"] == 5
    assert solver["phases"][slowest["phase"]]["path"] == ["step", "compute"]
    assert slowest["ratio"] > 1.5


def test_several_profilers_of_a_rank_F4(mpi: OpenMpi, work: Work) -> None:
    """One after the other in one directory: as many attempts, in which the ranks meet again."""
    work.write("train.py", SHORT + SHORT)
    mpi.run(work.folder, 4, "python", "train.py")
    run = work.run_of()
    assert len(run.workers) == 4
    assert [attempt.workers for attempt in run.superseded] == [4]
    assert run.run_id == f"{run.superseded[0].run_id}-2"


def test_inside_a_job_of_slurm_F2(jobs: Cluster, work: Work) -> None:
    """The rank is mpirun's; SLURM_PROCID is that of its daemon, or of the batch script."""
    mpirun = open_mpi.of_system()
    if mpirun is None:
        pytest.skip("no mpirun here (Debian: openmpi-bin libopenmpi-dev)")
    work.write("train.py", SHORT)
    command = ["salloc", "-N2", "-n4", str(mpirun), *open_mpi.HERE, "python", "train.py"]
    run(command, work.folder, {**jobs.env, **open_mpi.AS_ROOT})
    merged = work.run_of()
    assert ranks_of(work) == list(range(4))
    assert {worker.launcher for worker in merged.workers} == {"openmpi"}
    assert {worker.job_system for worker in merged.workers} == {"slurm"}
    assert len({worker.job_id for worker in merged.workers}) == 1
    assert not merged.superseded


# ---- a rank is left alone --------------------------------------------------


def test_a_rank_never_forks_nor_starts_anything_MN11(mpi: OpenMpi, work: Work) -> None:
    """Not even git, which elsewhere is asked for the state of the program's repository."""
    strace = shutil.which("strace")
    if strace is None or run([strace, "true"], work.folder, work.env, None).returncode != 0:
        pytest.skip("no strace here, or it may not trace")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    run([*git, "init", "-q"], work.folder, work.env)
    run([*git, "commit", "-q", "--allow-empty", "-m", "first"], work.folder, work.env)
    program = SHORT.replace("    for", "    profiler.snapshot()\n    for", 1)
    program += "    profiler.merged_tree()\n    profiler.snapshot()\n"
    work.write("train.py", program)
    calls = "trace=fork,vfork,clone,clone3,execve,execveat"
    trace = [strace, "-f", "-qq", "-o", "calls", "-ff", "-e", calls]
    mpi.run(work.folder, 2, *trace, "python", "-W", "error", "train.py")
    lines = [line for path in work.folder.glob("calls.*") for line in path.read_text().splitlines()]
    assert sum(line.startswith("execve(") and line.endswith("= 0") for line in lines) == 2
    made = [line for line in lines if not line.startswith(("execve", "+++", "---"))]
    assert made, "the native thread at least"
    assert [line for line in made if "CLONE_THREAD" not in line] == []
    assert ranks_of(work) == [0, 1]
    assert re.search(r"Commit [0-9a-f]{8} \(\w+, changed or not: n/a\)", work.report())


# ---- how it ends -----------------------------------------------------------


def test_a_rank_that_aborts_F7(mpi: OpenMpi, work: Work) -> None:
    ring = mpi.compile(work.write("ring.c", RING))
    assert mpi.run(work.folder, 4, ring, "10", "abort", status=None).returncode == 7
    run = work.run_of()
    assert ranks_of(work) == list(range(4))
    assert not any(worker.closed for worker in run.workers)
    assert run.tree[("step", "compute")].calls == 40
    assert "solver rank 1, pid" in work.caveats()
    assert "ended without close" in work.caveats()


def test_one_rank_killed_F7(mpi: OpenMpi, work: Work) -> None:
    """The others are ended by mpirun."""
    work.write("train.py", TELLING)
    with mpi.start(work.folder, 4, "python", "train.py") as launched:
        work.told.wait(4)
        os.kill(rank_of(merge_run(work.folder / "profile"), 2).pid, signal.SIGKILL)
        assert launched.wait(120) != 0
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 4)
    assert "trainer rank 2, pid" in work.caveats()


def test_preempted_by_a_signal_to_mpirun_F8(mpi: OpenMpi, work: Work) -> None:
    """It hands USR1 on to the ranks, whose own handlers run."""
    handler = """
import signal
signal.signal(signal.SIGUSR1, lambda *_: open(f"handled.{rank}", "w").close())
with Profiler("""
    work.write("train.py", TELLING.replace("with Profiler(", handler))
    with mpi.start(work.folder, 2, "python", "train.py") as launched:
        work.told.wait(2)
        launched.send_signal(signal.SIGUSR1)
        wait_until(lambda: len(list(work.folder.glob("handled.*"))) == 2, "both handled it")
        for worker in merge_run(work.folder / "profile").workers:
            assert worker.source == "live"
        files = sorted((work.folder / "profile").glob("workers/*/*.json"))
        assert all('"name":"step"' in path.read_text() for path in files)
        work.told.wait(2)
        launched.terminate()
        launched.wait(120)
    work.told.assert_nothing_lost(work.run_of(), "profile", 2)


def test_mpirun_killed_F7(mpi: OpenMpi, work: Work) -> None:
    """What it started may go on, or end by its loss; nothing is lost either way."""
    work.write("train.py", TELLING)
    with mpi.start(work.folder, 4, "python", "train.py") as launched:
        work.told.wait(4)
        launched.kill()
        launched.wait()
    for worker in merge_run(work.folder / "profile").workers:
        if worker.source == "live":
            os.kill(worker.pid, signal.SIGKILL)
    end_marked(work.mark, grace_s=5)
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 4)
    assert not run.live


# ---- two hosts -------------------------------------------------------------


def start_over(
    mpi: OpenMpi, hosts: Hosts, folder: Path, *program: str | Path
) -> subprocess.Popen[bytes]:
    """Start four ranks on each host, from the first one."""
    command = mpi.command(8, *program)
    command[1:1] = over(hosts, 4)
    with (folder / "mpirun.out").open("wb") as out:
        return subprocess.Popen(
            [hosts.agent, "hostA", shlex.join(command)],
            cwd=folder,
            env=mpi.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def run_over(mpi: OpenMpi, hosts: Hosts, folder: Path, *program: str | Path) -> int:
    with start_over(mpi, hosts, folder, *program) as launched:
        return launched.wait(PATIENCE_S)


def test_two_hosts_and_a_slow_rank_MN07(
    mpi_of_system: OpenMpi, two_hosts: Hosts, work: Work
) -> None:
    ring = mpi_of_system.compile(work.write("ring.c", RING))
    status = run_over(mpi_of_system, two_hosts, work.folder, ring, "20", "rest")
    assert status == 0, (work.folder / "mpirun.out").read_text()
    run = work.run_of()
    assert not run.superseded
    assert ranks_of(work) == list(range(8))
    assert (
        sorted((worker.host, worker.closed) for worker in run.workers)
        == [("hostA", True)] * 4 + [("hostB", True)] * 4
    )
    assert run.tree[("step", "compute")].calls == 160
    report = re.sub(r"\s+", " ", work.report())
    assert f"Hosts hostA, hostB (2 nodes) Run {run.run_id}" in report
    host = next(worker.host for worker in run.workers if worker.rank == 5)
    named = rf"SLOWER THAN THE OTHERS - rank 5 on {host} takes [\d.]+x the median process"
    assert re.search(rf"{named} in step/compute", report)


def report_on(hosts: Hosts, host: str, work: Work) -> str:
    """Make a report where it sees what the dead have left; return its caveats as one line."""
    text = run([hosts.agent, host, "lineprofiler report profile"], work.folder, work.env).stdout
    return re.sub(r"\s+", " ", text.partition("\nCAVEATS\n")[2])


def test_a_rank_aborts_and_two_hosts_end_F7(
    mpi_of_system: OpenMpi, two_hosts: Hosts, work: Work
) -> None:
    """What a rank has left in the memory of its host is read by a report on that host."""
    ring = mpi_of_system.compile(work.write("ring.c", RING))
    assert run_over(mpi_of_system, two_hosts, work.folder, ring, "10", "rest", "abort") == 7
    report_on(two_hosts, "hostA", work)
    report_on(two_hosts, "hostB", work)
    assert ranks_of(work) == list(range(8))
    merged = work.run_of()
    assert merged.tree[("step", "compute")].calls == 80
    assert not any(worker.closed for worker in merged.workers)
    assert ranks_named(work.caveats(), "solver") == set(range(8))


def test_a_host_dies_F7(mpi_of_system: OpenMpi, two_hosts: Hosts, work: Work) -> None:
    """Of its ranks there is the last flush, of the others all; each is named."""
    work.write("train.py", TELLING.replace("Profiler(", "Profiler(snapshot_interval_s=0.1, ", 1))
    with start_over(mpi_of_system, two_hosts, work.folder, "python", "train.py") as launched:
        work.told.wait(8, steps=100)
        workers = work.folder / "profile" / "workers"
        wait_until(lambda: len(list(workers.glob("*/*.json"))) == 8, "all have flushed")
        two_hosts.kill("hostB", work.mark)
        assert launched.wait(PATIENCE_S) != 0
    caveats = report_on(two_hosts, "hostA", work)
    merged = work.run_of()
    assert ranks_of(work) == list(range(8))
    assert ranks_named(caveats, "trainer") == set(range(8))
    for worker in merged.workers:
        assert worker.rank is not None
        told = work.told.steps(worker.rank)
        calls = steps_in(work.folder / "profile" / worker.path)[0]
        assert calls <= told + 1
        assert worker.host == "hostB" or calls >= told, f"rank {worker.rank}"


def test_the_environment_of_tests_is_clean() -> None:
    assert not [name for name in environment("none") if name.startswith(("OMPI_", "SLURM_"))]

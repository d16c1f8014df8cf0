"""Slurm, started for real: ranks and jobs, preemption, requeue, kills. See slurm.md."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from launchers import native
from launchers.conftest import NOBODY, Work, images_of
from launchers.native import compile_program
from launchers.processes import run, wait_until
from launchers.programs import ENDING, SHORT, TELLING, Told, rank_of, ranks_named, steps_in
from launchers.slurm import Cluster
from lineprofiler.accounting import merge_run


def batch(work: Work, script: str, *options: str) -> Path:
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), script]
    return work.write("job.sh", "\n".join(lines) + "\n")


def program(work: Work, text: str = TELLING) -> None:
    work.write("train.py", text)


# ---- who is in the run -----------------------------------------------------


def test_ranks_nodes_and_jobs_F2_MN09(jobs: Cluster, work: Work) -> None:
    program(work, SHORT)
    script = batch(work, "srun python train.py", "--nodes=2", "--ntasks=4")
    job = jobs.submit(work.folder, script)
    assert jobs.wait_for(job) == "COMPLETED"
    run = work.run_of()
    assert run.run_id == f"slurm-{job}.0"
    assert not run.superseded
    assert sorted(str(worker.rank) for worker in run.workers) == ["0", "1", "2", "3"]
    assert {worker.host for worker in run.workers} == set(jobs.nodes)
    facts = {(w.world_size, w.launcher, w.job_system, w.job_id, w.closed) for w in run.workers}
    assert facts == {(4, "slurm", "slurm", job, True)}
    assert run.tree[("step",)].calls == 40
    report = work.report()
    assert "Processes 4   Roles trainer x4" in report
    assert f"Hosts n1, n2 (2 nodes)   Run slurm-{job}.0   Job slurm {job}" in report
    assert "CAVEATS" not in report


def test_steps_of_a_job_are_attempts_unless_they_are_told_F4(jobs: Cluster, work: Work) -> None:
    program(work, SHORT)
    script = batch(work, "srun python train.py\nsrun python train.py", "--ntasks=2")
    job = jobs.submit(work.folder, script)
    assert jobs.wait_for(job) == "COMPLETED"
    run = work.run_of()
    assert (run.run_id, len(run.workers)) == (f"slurm-{job}.1", 2)
    assert [attempt.run_id for attempt in run.superseded] == [f"slurm-{job}.0"]
    told = "export LINEPROFILER_RUN_DIR=one LINEPROFILER_RUN_ID=job-$SLURM_JOB_ID\n"
    program(work, SHORT.replace('run_dir="profile"', "enabled=True"))
    script = batch(work, told + "srun python train.py\nsrun python train.py", "--ntasks=2")
    job = jobs.submit(work.folder, script)
    assert jobs.wait_for(job) == "COMPLETED"
    run = work.run_of("one")
    assert (run.run_id, len(run.workers)) == (f"job-{job}", 4)


def test_the_batch_script_itself_is_no_rank_F2(jobs: Cluster, work: Work) -> None:
    program(work, SHORT)
    job = jobs.submit(work.folder, batch(work, "python train.py", "--ntasks=2"))
    assert jobs.wait_for(job) == "COMPLETED"
    [worker] = work.run_of().workers
    assert (worker.rank, worker.launcher, worker.job_id) == (None, None, job)


def test_a_program_that_starts_the_step_F2_F4(jobs: Cluster, work: Work) -> None:
    """A launcher in the batch script hands its run on, and its ranks know theirs."""
    program(work, SHORT.replace('run_dir="profile", ', ""))
    work.write(
        "launcher.py",
        """\
import subprocess
from lineprofiler.accounting import Profiler

with Profiler(run_dir="profile", role="launcher") as profiler, profiler.phase("watch"):
    subprocess.run(["srun", "python", "train.py"], check=True)
""",
    )
    job = jobs.submit(work.folder, batch(work, "python launcher.py", "--ntasks=2"))
    assert jobs.wait_for(job) == "COMPLETED"
    run = work.run_of()
    assert not run.superseded
    assert sorted((w.role, w.rank) for w in run.workers if w.rank is not None) == [
        ("trainer", 0),
        ("trainer", 1),
    ]
    assert [w.rank for w in run.workers_of("launcher")] == [None]


def test_a_shell_in_the_job_makes_attempts_PR10(jobs: Cluster, work: Work) -> None:
    """What is started twice by hand is not added up."""
    program(work, SHORT)
    jobs.run("srun", "-n1", "bash", "-c", "python train.py; python train.py", folder=work.folder)
    run = work.run_of()
    assert (len(run.workers), len(run.superseded)) == (1, 1)


# ---- arrays ----------------------------------------------------------------


def test_an_array_with_a_directory_for_each_F2(jobs: Cluster, work: Work) -> None:
    program(work, SHORT.replace('run_dir="profile"', "enabled=True"))
    told = "export LINEPROFILER_RUN_DIR=profile/$SLURM_ARRAY_TASK_ID\n"
    script = batch(work, told + "srun python train.py", "--array=1-3", "--ntasks=2")
    array = jobs.submit(work.folder, script)
    assert jobs.wait_for(array) == "COMPLETED"
    for task in (1, 2, 3):
        run = work.run_of(f"profile/{task}")
        assert run.run_id == f"slurm-{array}_{task}.0"
        assert {worker.job_id for worker in run.workers} == {f"{array}_{task}"}
        assert len(run.workers) == 2
        assert f"Job slurm {array}_{task}" in work.report(f"profile/{task}")


def test_an_array_in_one_directory_F4_K10(jobs: Cluster, work: Work) -> None:
    """The tasks are never added up, and the report says whose figures are left out."""
    meeting = """
import pathlib, time
pathlib.Path(f"there.{os.environ['SLURM_ARRAY_TASK_ID']}").touch()
deadline = time.monotonic() + 150
while len(list(pathlib.Path().glob("there.*"))) < 3 and time.monotonic() < deadline:
    time.sleep(0.01)
"""
    lines = meeting.strip().replace("\n", "\n    ")
    program(work, f"import os\n{SHORT}    {lines}\n")
    array = jobs.submit(
        work.folder, batch(work, "srun python train.py", "--array=1-3", "--ntasks=1")
    )
    assert jobs.wait_for(array) == "COMPLETED"
    run = work.run_of()
    assert (len(run.workers), len(run.superseded)) == (1, 2)
    assert {caveat.kind for caveat in run.caveats} == {"other_job"}
    assert "DID NOT JOIN" not in work.report()
    assert f"(slurm job {array}_" in work.caveats()
    assert "give each job a run directory of its own" in work.caveats()


# ---- preemption, the end of the time, cancel, requeue ----------------------

HANDLING = TELLING.replace(
    "with Profiler(",
    """
def on_preemption(number, frame):
    with open(f"handled.{rank}", "w") as file:
        file.write(str(number))

import signal
signal.signal(signal.SIGUSR1, on_preemption)
with Profiler(""",
)


def test_a_warning_before_the_time_is_over_F8_F7(jobs: Cluster, work: Work) -> None:
    """The file has all up to the signal, the job's own handler runs, and the work goes on."""
    program(work, HANDLING)
    options = ("--ntasks=2", "--time=1", "--signal=USR1@55")
    job = jobs.submit(work.folder, batch(work, "srun python train.py", *options))
    work.told.wait(2)
    handled = [work.folder / f"handled.{rank}" for rank in (0, 1)]
    wait_until(lambda: all(p.exists() and p.read_text() for p in handled), "both handled it")
    assert [path.read_text() for path in handled] == [str(signal.SIGUSR1)] * 2
    run = merge_run(work.folder / "profile")
    assert {worker.source for worker in run.workers} == {"live"}
    for path in sorted((work.folder / "profile").glob("workers/*/*.json")):
        assert '"name":"step"' in path.read_text(), "it was written at the signal"
    work.told.wait(2)
    assert jobs.wait_for(job) == "TIMEOUT"
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 2)
    assert {worker.end_signal for worker in run.workers} <= {signal.SIGTERM, None}
    assert "trainer rank 0, pid" in work.caveats()
    assert "ended without close" in work.caveats()


def test_scancel_F7_F8(jobs: Cluster, work: Work) -> None:
    program(work)
    job = jobs.submit(work.folder, batch(work, "srun python train.py", "--nodes=2", "--ntasks=4"))
    work.told.wait(4)
    jobs.run("scancel", job)
    assert jobs.wait_for(job) == "CANCELLED"
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 4)
    assert {worker.end_signal for worker in run.workers} == {signal.SIGTERM}
    assert "killed by SIGTERM" in work.caveats()


def test_requeue_is_a_new_attempt_F4_PR10(jobs: Cluster, work: Work) -> None:
    """The same job in the same directory again: the newest is reported, the old one named."""
    program(work)
    options = ("--nodes=2", "--ntasks=4", "--requeue")
    job = jobs.submit(work.folder, batch(work, "srun python train.py", *options))
    work.told.wait(4)
    jobs.run("scontrol", "requeue", job)
    work.told.wait(4, attempt=1)
    report = work.report()
    assert f"Run slurm-{job}.0-restart1   Job slurm {job}" in report
    assert (
        f"an earlier attempt in this directory is left out: slurm-{job}.0 (4 workers)"
        in work.caveats()
    )
    jobs.run("scancel", job)
    assert jobs.wait_for(job) == "CANCELLED"
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 4, attempt=1)
    assert [(a.run_id, a.workers) for a in run.superseded] == [(f"slurm-{job}.0", 4)]


# ---- death of a rank -------------------------------------------------------


def kill_rank(work: Work, rank: int) -> None:
    os.kill(rank_of(merge_run(work.folder / "profile"), rank).pid, signal.SIGKILL)


def test_one_rank_killed_F7(jobs: Cluster, work: Work) -> None:
    program(work)
    options = ("--nodes=2", "--ntasks=4")
    job = jobs.submit(work.folder, batch(work, "srun -K0 python train.py", *options))
    work.told.wait(4)
    kill_rank(work, 2)
    work.told.wait(2)  # ranks 0 and 1 go on
    run = merge_run(work.folder / "profile")
    assert {w.rank for w in run.workers if w.ended} == {2}
    assert "trainer rank 2, pid" in work.caveats()
    jobs.run("scancel", job)
    jobs.wait_for(job)
    work.told.assert_nothing_lost(work.run_of(), "profile", 4)


def test_kill_on_bad_exit_F7_K10(jobs: Cluster, work: Work) -> None:
    program(work)
    options = ("--nodes=2", "--ntasks=4")
    script = batch(work, "srun --kill-on-bad-exit=1 python train.py", *options)
    job = jobs.submit(work.folder, script)
    work.told.wait(4)
    kill_rank(work, 2)
    assert jobs.wait_for(job) == "FAILED"
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 4)
    ended = {worker.rank: worker.end_signal for worker in run.workers}
    assert ended[2] is None, "nobody is told how it died"
    assert {ended[rank] for rank in (0, 1, 3)} == {signal.SIGTERM}
    assert ranks_named(work.caveats(), "trainer") == set(range(4))


def test_out_of_memory_F7(bounded_jobs: Cluster, work: Work) -> None:
    """One rank of two takes more memory than its job has."""
    greedy = TELLING.replace(
        '        os.write(told, b".")',
        """\
        os.write(told, b".")
        if rank == 1 and os.path.exists("take"):
            kept = bytearray(1 << 30)
            kept[:] = b"x" * len(kept)
""",
    )
    program(work, greedy)
    script = batch(work, "srun -K0 --mem=100 python train.py", "--ntasks=2", "--mem=100")
    job = bounded_jobs.submit(work.folder, script)
    work.told.wait(2)
    (work.folder / "take").touch()
    profile = work.folder / "profile"
    wait_until(lambda: rank_of(merge_run(profile), 1).ended, "rank 1 is killed")
    work.told.wait(1)  # rank 0 goes on
    bounded_jobs.run("scancel", job)
    bounded_jobs.wait_for(job)
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 2)
    assert not any(worker.closed for worker in run.workers)
    assert "rank 1, pid" in work.caveats()


# ---- death of a node, and of the controller ------------------------------------


LEAVING_NOTHING = """\
import os
import signal

from lineprofiler.accounting import Profiler

with Profiler(run_dir="profile", role="trainer") as profiler:
    for _ in range(10):
        with profiler.phase("step"):
            if os.environ["SLURM_PROCID"] == "2":
                os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_rank_of_which_nothing_is_left_F7_K10(mortal_jobs: Cluster, work: Work) -> None:
    """Its memory is on its own node, and it had not written yet: the others know of it."""
    program(work, LEAVING_NOTHING)
    script = batch(work, "srun python train.py", "--nodes=2", "--ntasks=3")
    job = mortal_jobs.submit(work.folder, script)
    assert mortal_jobs.wait_for(job) == "FAILED"
    run = work.run_of()
    assert sorted(str(worker.rank) for worker in run.workers) == ["0", "1"]
    assert "rank 2 of 3 has no file here: " in work.caveats()


def test_a_node_that_dies_F4_F7(mortal_jobs: Cluster, work: Work) -> None:
    """Its job runs again on the other one; the lost attempt is named, and nothing added up."""
    program(work, TELLING.replace("Profiler(", "Profiler(snapshot_interval_s=0.1, ", 1))
    options = ("--nodes=1", "--ntasks=2", "--requeue")
    job = mortal_jobs.submit(work.folder, batch(work, "srun python train.py", *options))
    work.told.wait(2)
    workers = work.folder / "profile" / "workers"
    wait_until(lambda: len(list(workers.glob("*/*.json"))) == 2, "both have flushed")
    files = list(workers.glob("*/*.json"))
    wait_until(lambda: all(steps_in(path)[0] > 20 for path in files), "and have again")
    node = mortal_jobs.node_of(job)
    mortal_jobs.kill_node(node, job, work.mark)
    lost = [work.told.steps(rank) for rank in (0, 1)]
    report = work.report()
    assert f"Run slurm-{job}.0 " in report
    for rank in (0, 1):
        assert f"trainer rank {rank}, pid" in work.caveats()
    run = work.run_of()
    assert not any(worker.closed for worker in run.workers)
    assert 40 < run.tree[("step",)].calls <= sum(lost) + 2

    work.told.wait(2, attempt=1)
    assert mortal_jobs.node_of(job) != node
    # The images of that node are not to be seen from here.
    wait_until(lambda: len(list(workers.glob("*/*.json"))) == 4, "the others have flushed too")
    report = work.report()
    assert f"Run slurm-{job}.0-restart1   Job slurm {job}" in report
    left_out = f"an earlier attempt in this directory is left out: slurm-{job}.0 (2 workers)"
    assert left_out in work.caveats()
    mortal_jobs.run("scancel", job)
    assert mortal_jobs.wait_for(job) == "CANCELLED"
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 2, attempt=1)
    again = sum(work.told.steps(rank, attempt=1) for rank in (0, 1))
    assert again <= run.tree[("step",)].calls <= again + 2
    assert [(a.run_id, a.workers) for a in run.superseded] == [(f"slurm-{job}.0", 2)]
    mortal_jobs.start_node(node)
    mortal_jobs.wait_for_nodes()


def test_the_controller_restarts_in_mid_job(mortal_jobs: Cluster, work: Work) -> None:
    """The tasks go on without it, and nothing shows in what they record."""
    program(work, ENDING)
    options = ("--nodes=2", "--ntasks=4")
    job = mortal_jobs.submit(work.folder, batch(work, "srun python train.py", *options))
    work.told.wait(4)
    mortal_jobs.daemons.end("slurmctld")
    work.told.wait(4)
    mortal_jobs.start_controller()
    work.told.wait(4)
    (work.folder / "end").touch()
    wait_until(lambda: mortal_jobs.answers(), "the controller is back")
    assert mortal_jobs.wait_for(job) == "COMPLETED"
    run = work.run_of()
    work.told.assert_nothing_lost(run, "profile", 4)
    assert (run.run_id, run.superseded) == (f"slurm-{job}.0", [])
    assert {(worker.closed, worker.job_id) for worker in run.workers} == {(True, job)}
    assert "CAVEATS" not in work.report()


# ---- where it goes ---------------------------------------------------------


def test_working_directories_that_differ_E4(jobs: Cluster, work: Work) -> None:
    """What counts is where the program is when it makes the profiler, never where sbatch was."""
    elsewhere = work.folder / "scratch"
    elsewhere.mkdir()
    changing = SHORT.replace("    for _ in", "    chdir()\n    for _ in")
    work.write(
        "scratch/train.py",
        """\
import os

def chdir():
    os.makedirs(f"rank{os.environ['SLURM_PROCID']}")
    os.chdir(f"rank{os.environ['SLURM_PROCID']}")

"""
        + changing,
    )
    script = batch(work, "srun python train.py", "--ntasks=2", f"--chdir={elsewhere}")
    job = jobs.submit(work.folder, script)
    assert jobs.wait_for(job) == "COMPLETED"
    assert not (work.folder / "profile").exists()
    assert len(work.run_of("scratch/profile").workers) == 2
    assert not list(elsewhere.glob("rank*/*"))


@pytest.mark.parametrize("run_dir", ["absolute", "relative"])
def test_a_working_directory_for_each_rank_E4(jobs: Cluster, work: Work, run_dir: str) -> None:
    """A run directory counts from where its task is; given whole, it is one for all of them."""
    program(work, SHORT.replace('run_dir="profile"', "enabled=True"))
    told = f"{work.folder}/profile" if run_dir == "absolute" else "profile"
    task = "mkdir -p rank$SLURM_PROCID && cd rank$SLURM_PROCID && exec python ../train.py"
    lines = f"export LINEPROFILER_RUN_DIR={told}\nsrun sh -c '{task}'"
    job = jobs.submit(work.folder, batch(work, lines, "--nodes=2", "--ntasks=2"))
    assert jobs.wait_for(job) == "COMPLETED"
    if run_dir == "absolute":
        assert sorted(str(worker.rank) for worker in work.run_of().workers) == ["0", "1"]
        assert not list(work.folder.glob("rank*/*"))
        return
    assert not (work.folder / "profile").exists()
    for rank in (0, 1):
        run = work.run_of(f"rank{rank}/profile")
        assert [worker.rank for worker in run.workers] == [rank]
        assert run.run_id == f"slurm-{job}.0"


# ---- another user ---------------------------------------------------------------

# Told as by TELLING, in C: the package may be out of that user's reach. Rank 1 is killed when
# rank 0 has ended, which else would write out what it left.
OF_ANOTHER_USER = r"""
#include <fcntl.h>
#include <lineprofiler.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    char name[32];
    int rank = atoi(getenv("SLURM_PROCID"));
    snprintf(name, sizeof name, "told.%d.0", rank);
    int told = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "profile", .role = "trainer"});
    if (!profiler || told < 0) {
        fprintf(stderr, "%s\n", lp_error_message());
        return 1;
    }
    for (int step = 0; step < 100; step++) {
        {
            LP_PHASE("step");
            LP_COUNT("samples", 32);
        }
        if (write(told, ".", 1) != 1 || (step == 49 && lp_snapshot(profiler) != 0))
            return 1;
    }
    while (rank == 1 && access("done", F_OK) != 0)
        usleep(1000);
    if (rank == 1)
        raise(SIGKILL);
    lp_close(profiler);
    return close(open("done", O_WRONLY | O_CREAT, 0666));
}
"""


def test_srun_as_nobody(jobs: Cluster, folder_of_nobody: Path) -> None:
    """Files and images are that user's; of an image root says nothing, and its owner all."""
    source = folder_of_nobody / "train.c"
    source.write_text(OF_ANOTHER_USER)
    program = compile_program(source, jobs.env)
    command = native.command(jobs.env)
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    tried = run([*as_nobody, str(command), "--version"], folder_of_nobody, jobs.env, status=None)
    if tried.returncode != 0:
        pytest.skip(f"nobody may not run what was built here: {tried.stdout}")
    srun = [*as_nobody, "srun", "-K0", "--nodes=2", "--ntasks=2", str(program)]
    assert "Killed" in run(srun, folder_of_nobody, jobs.env, status=None).stdout
    profile = folder_of_nobody / "profile"
    made = [profile, *profile.rglob("*")]
    assert {(path.stat().st_uid, path.stat().st_mode & 0o022) for path in made} == {(NOBODY, 0)}
    [image] = images_of(folder_of_nobody, NOBODY)
    assert [path.stat().st_uid for path in (image, image.parent)] == [NOBODY] * 2
    assert [path.stat().st_mode & 0o777 for path in (image, image.parent)] == [0o600, 0o700]

    by_root = merge_run(profile)
    assert {worker.rank: worker.closed for worker in by_root.workers} == {0: True, 1: False}
    assert by_root.tree[("step",)].calls == 150, "of rank 1 what it had written"
    assert images_of(folder_of_nobody, NOBODY) == [image]
    report = run([*as_nobody, str(command), "report", "profile"], folder_of_nobody, jobs.env).stdout
    assert re.search(r"trainer rank 1, pid \d+ on n\d ended\s+without\s+close", report)
    assert images_of(folder_of_nobody, NOBODY) == []
    merged = merge_run(profile)
    Told(folder_of_nobody).assert_nothing_lost(merged, "profile", 2)
    assert merged.tree[("step",)].calls == 200


# ---- clocks ----------------------------------------------------------------


def test_each_file_has_clocks_and_the_boot_CK03(jobs: Cluster, work: Work) -> None:
    program(work, SHORT)
    job = jobs.submit(work.folder, batch(work, "srun python train.py", "--nodes=2", "--ntasks=2"))
    assert jobs.wait_for(job) == "COMPLETED"
    for worker in work.run_of().workers:
        assert worker.boot_id
        assert worker.started_realtime_ns < worker.written_realtime_ns
        assert worker.started_monotonic_ns < worker.written_monotonic_ns

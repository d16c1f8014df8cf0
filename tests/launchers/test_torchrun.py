"""torchrun, started for real: ranks, elastic restarts, kills, several nodes. See torchrun.md."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from launchers.conftest import Work
from launchers.processes import free_ports, run, wait_until
from launchers.programs import SHORT, TELLING, rank_of, steps_in
from launchers.slurm import Cluster
from lineprofiler.accounting import merge_run

pytest.importorskip("torch", reason="no torch in this environment: pip install torch")

NAME = r"torchrun-[0-9a-f]{12}"

# Rank 2 dies in the midst of the first attempt, if it is asked to.
DDP = """\
import os
import signal
import sys

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from lineprofiler.accounting import Profiler

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
model = DistributedDataParallel(torch.nn.Linear(8, 1))
told = os.open(f"told.{rank}.{attempt}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with Profiler(run_dir="profile", role="trainer") as profiler:
    for step in range(30):
        with profiler.phase("step"):
            profiler.count("samples", 32)
            with profiler.phase("forward"):
                loss = model(torch.ones(32, 8)).sum()
            with profiler.phase("backward"):
                loss.backward()
        os.write(told, b".")
        if "die" in sys.argv and (rank, attempt, step) == (2, 0, 20):
            os.kill(os.getpid(), signal.SIGKILL)
torch.distributed.destroy_process_group()
"""


def torchrun(ranks: int, *options: str) -> list[str]:
    return ["torchrun", f"--nproc-per-node={ranks}", *options]


def start(work: Work, *command: str) -> subprocess.Popen[bytes]:
    with (work.folder / "torchrun.out").open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=work.folder,
            env=work.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def ranks_of(work: Work) -> list[int]:
    return sorted(w.rank if w.rank is not None else -1 for w in work.run_of().workers)


# ---- who is in the run -----------------------------------------------------


def test_the_ranks_of_one_torchrun_are_one_run_F2_F4(work: Work) -> None:
    """Nobody says an id; the port and torchrun's own id are the same each time."""
    work.write("train.py", DDP)
    [port] = free_ports(1)
    command = torchrun(4, f"--master-port={port}", "train.py")
    run(command, work.folder, work.env)
    found = work.run_of()
    assert re.fullmatch(NAME, found.run_id)
    assert not found.superseded
    assert ranks_of(work) == [0, 1, 2, 3]
    assert {(w.world_size, w.launcher, w.closed) for w in found.workers} == {(4, "torchrun", True)}
    assert found.tree[("step",)].calls == 120
    assert found.tree[("step", "backward")].calls == 120
    report = work.report()
    assert "Processes 4   Roles trainer x4" in report
    assert "CAVEATS" not in report
    work.write("train.py", SHORT)
    run(command, work.folder, work.env)
    again = work.run_of()
    assert [(a.run_id, a.workers) for a in again.superseded] == [(found.run_id, 4)], "not added up"
    assert again.tree[("step",)].calls == 40


def test_several_profilers_of_a_rank_F4(work: Work) -> None:
    work.write("train.py", SHORT + SHORT)
    run(torchrun(2, "--standalone", "train.py"), work.folder, work.env)
    found = work.run_of()
    assert len(found.workers) == 2
    assert [attempt.workers for attempt in found.superseded] == [2]
    assert found.run_id == f"{found.superseded[0].run_id}-2"


def test_a_program_that_starts_torchrun_F4(work: Work) -> None:
    """The ranks join the run of the launcher that has a profiler open."""
    work.write("train.py", SHORT.replace('run_dir="profile", ', ""))
    work.write(
        "launcher.py",
        """\
import subprocess
from lineprofiler.accounting import Profiler

with Profiler(run_dir="profile", role="launcher") as profiler, profiler.phase("watch"):
    subprocess.run(["torchrun", "--standalone", "--nproc-per-node=2", "train.py"], check=True)
""",
    )
    run(["python", "launcher.py"], work.folder, work.env)
    found = work.run_of()
    assert not found.superseded
    assert sorted((w.role, w.rank) for w in found.workers if w.role == "trainer") == [
        ("trainer", 0),
        ("trainer", 1),
    ]


def test_loaders_of_ranks_FK20_F9(work: Work) -> None:
    """Worker processes of a DataLoader are workers, and end as they would without a profiler."""
    work.write(
        "train.py",
        """\
import torch
import torch.utils.data

from lineprofiler import accounting
from lineprofiler.accounting import Profiler


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        with accounting.phase("load"):
            return index


def begin(number):
    accounting.start(None, "loader")


with Profiler(run_dir="profile", role="trainer", install=True) as profiler:
    loader = torch.utils.data.DataLoader(Numbers(), num_workers=2, worker_init_fn=begin)
    for _ in range(2):
        with profiler.phase("epoch"):
            total = sum(int(batch) for batch in loader)
            assert total == sum(range(32))
    del loader
""",
    )
    done = run(torchrun(2, "--standalone", "train.py"), work.folder, work.env)
    assert "Error" not in done.stdout
    found = work.run_of()
    assert not found.superseded
    assert (len(found.workers_of("trainer")), len(found.workers_of("loader"))) == (2, 8)
    assert found.tree_of("loader")[("load",)].calls == 2 * 2 * 32
    assert {worker.rank for worker in found.workers_of("loader")} == {0, 1}


# ---- elastic restarts, deaths ----------------------------------------------


def test_an_elastic_restart_is_a_new_attempt_F4_F5_F7(work: Work) -> None:
    """The dead attempt is named and not added to the ranks; nothing of it is lost."""
    work.write("train.py", DDP)
    # Else torch 2.13 tells the ranks of an attempt the addresses of those that died before.
    env = {**work.env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    run(torchrun(4, "--standalone", "--max-restarts=2", "train.py", "die"), work.folder, env)
    found = work.run_of()
    work.told.assert_nothing_lost(found, "profile", 4, attempt=1)
    assert {worker.closed for worker in found.workers} == {True}
    assert found.tree[("step",)].calls == 120
    assert re.fullmatch(rf"{NAME}-attempt1", found.run_id)
    before = found.run_id.removesuffix("-attempt1")
    assert [(a.run_id, a.workers) for a in found.superseded] == [(before, 4)]
    assert "Processes 4   Roles trainer x4" in work.report()
    assert (
        f"an earlier attempt in this directory is left out: {before} (4 workers)" in work.caveats()
    )
    files = [*(work.folder / "profile").glob(f"workers/*/w_{before}_*.json")]
    first = [path for path in files if "attempt" not in path.name]
    assert len(first) == 4
    for path in first:
        assert 20 <= steps_in(path)[0] <= 22


# Rank 1 dies in the midst of the first attempt; the other one waits to be ended.
DYING = """\
import os
import signal
import time

from lineprofiler.accounting import Profiler

first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
with Profiler(run_dir="profile", role="trainer") as profiler:
    for step in range(30):
        with profiler.phase("step"):
            time.sleep(0.001)
        if first and step == 20:
            if os.environ["RANK"] == "1":
                while not os.path.exists("there"):
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            open("there", "w").close()
            time.sleep(600)
"""


def test_an_elastic_restart_under_a_run_id_that_is_given_F4_F5(work: Work) -> None:
    """Both attempts are in the run, each entry once, and the report says so."""
    work.write("train.py", DYING)
    work.env["LINEPROFILER_RUN_ID"] = "given"
    run(torchrun(2, "--standalone", "--max-restarts=1", "train.py"), work.folder, work.env)
    found = work.run_of()
    assert (found.run_id, found.superseded) == ("given", [])
    assert ranks_of(work) == [0, 0, 1, 1]
    assert found.tree[("step",)].calls == 2 * 21 + 2 * 30
    assert (
        "2 workers ended without close and had another one of the same rank begin afterwards"
        in work.caveats()
    )


def test_a_rank_dies_and_nobody_restarts_it_F7_K10(work: Work) -> None:
    work.write("train.py", TELLING)
    process = start(work, *torchrun(4, "--standalone", "--max-restarts=0", "train.py"))
    work.told.wait(4)
    os.kill(rank_of(merge_run(work.folder / "profile"), 2).pid, signal.SIGKILL)
    assert process.wait(120) != 0
    found = work.run_of()
    work.told.assert_nothing_lost(found, "profile", 4)
    ended = {worker.rank: worker.end_signal for worker in found.workers}
    assert ended[2] is None, "nobody is told how it died"
    assert {ended[rank] for rank in (0, 1, 3)} == {signal.SIGTERM}
    for rank in range(4):
        assert f"trainer rank {rank}, pid" in work.caveats()


def test_a_signal_to_torchrun_F7_F8(work: Work) -> None:
    work.write("train.py", TELLING)
    process = start(work, *torchrun(2, "--standalone", "train.py"))
    work.told.wait(2)
    process.terminate()
    assert process.wait(120) != 0
    found = work.run_of()
    work.told.assert_nothing_lost(found, "profile", 2)
    assert {worker.end_signal for worker in found.workers} == {signal.SIGTERM}


def test_torchrun_killed_F7(work: Work) -> None:
    """Its ranks go on without it, and what they record is there."""
    work.write("train.py", TELLING)
    process = start(work, *torchrun(2, "--standalone", "train.py"))
    work.told.wait(2)
    process.kill()
    process.wait()
    work.told.wait(2)
    for worker in merge_run(work.folder / "profile").workers:
        os.kill(worker.pid, signal.SIGKILL)
    profile = work.folder / "profile"
    wait_until(lambda: all(w.ended for w in merge_run(profile).workers), "both ranks have ended")
    work.told.assert_nothing_lost(work.run_of(), "profile", 2)


# ---- several nodes ---------------------------------------------------------


def two_nodes(work: Work, *program: str) -> None:
    """Two torchruns that meet, as on two nodes."""
    [port] = free_ports(1)
    meeting = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}")
    command = torchrun(2, *meeting, "--rdzv-id=seven", *program)
    nodes = [start(work, *command) for _ in range(2)]
    said = work.folder / "torchrun.out"
    assert [node.wait(180) for node in nodes] == [0, 0], said.read_text()


def test_two_nodes_F2_F4(work: Work) -> None:
    """They have no name in common that could not come again; what is given makes them one run."""
    work.write("train.py", DDP)
    work.env["LINEPROFILER_RUN_ID"] = "seven"
    two_nodes(work, "train.py")
    assert ranks_of(work) == [0, 1, 2, 3]
    found = work.run_of()
    assert (found.run_id, found.superseded) == ("seven", [])
    del work.env["LINEPROFILER_RUN_ID"]
    work.write("train.py", DDP.replace('"profile"', '"other"'))
    two_nodes(work, "train.py")
    assert len(work.run_of("other").workers) == 1, "they are never guessed to be one"
    assert "MOST DID NOT JOIN" in work.report("other")


def test_on_two_nodes_of_slurm_F2_F4(jobs: Cluster, work: Work) -> None:
    work.write("train.py", DDP)
    [port] = free_ports(1)
    script = work.write(
        "job.sh",
        f"""\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1
# The names of these nodes have no addresses.
export GLOO_SOCKET_IFNAME=lo
srun torchrun --nnodes=2 --nproc-per-node=2 --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d \\
    --rdzv-endpoint=127.0.0.1:{port} --local-addr=127.0.0.1 train.py
""",
    )
    job = jobs.submit(work.folder, script)
    assert jobs.wait_for(job) == "COMPLETED", said_by(work.folder)
    found = work.run_of()
    assert (found.run_id, found.superseded) == (f"slurm-{job}.0", [])
    assert ranks_of(work) == [0, 1, 2, 3]
    facts = {(w.world_size, w.launcher, w.job_id, w.closed) for w in found.workers}
    assert facts == {(4, "torchrun", job, True)}


def said_by(folder: Path) -> str:
    return "\n".join(path.read_text() for path in folder.glob("slurm-*.out"))

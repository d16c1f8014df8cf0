"""Pids that come again, containers that share memory, programs that replace themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import MOUNTS, OWN_SHM, PIDS, PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

Wait = Callable[[Callable[[], bool]], None]

# ---- a pid that comes again --------------------------------------------------------

PID_AGAIN = """
import subprocess
run_dir, snapshot = sys.argv[1:]
victim = '''
import os, signal, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "victim", snapshot_interval_s=None)
with profiler.phase("a"):
    if sys.argv[2]: profiler.snapshot()
with profiler.phase("stuck"):
    os.kill(os.getpid(), signal.SIGKILL)
'''
process = subprocess.Popen([sys.executable, "-c", victim, run_dir, snapshot])
pid = process.pid
assert process.wait() == -signal.SIGKILL
time.sleep(0.02)  # the kernel tells when a process began to a hundredth of a second
# The next process of this namespace gets that pid again.
Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
again = subprocess.Popen(["sleep", "60"])
assert again.pid == pid, (again.pid, pid)
run = merge_run(run_dir)
workers = [[worker.source, worker.closed, worker.pid] for worker in run.workers]
again.kill()
again.wait()
tell(run=facts(run), workers=workers, pid=pid)
"""


@pytest.mark.parametrize("snapshot", ["", "yes"])
def test_a_pid_that_belongs_to_another_process_now(
    child: Child, run_dir: Path, snapshot: str
) -> None:
    how = within("test -w /proc/sys/kernel/ns_last_pid; " + OWN_SHM, PIDS)
    found = child.json(PRELUDE + PID_AGAIN, run_dir, snapshot, within=how)
    [[source, closed, pid]] = found["workers"]
    assert source != "live", "that process never recorded"
    assert not closed
    assert pid == found["pid"]
    assert found["run"]["calls"]["a"] == 1
    assert found["run"]["caveats"].keys() == {"open"}
    assert "stuck" in found["run"]["caveats"]["open"]


FIRST_PROCESS = """
assert os.getpid() == 1
with Profiler(sys.argv[1]) as profiler, profiler.phase("a"):
    profiler.count("n")
"""


@pytest.mark.parametrize("killed", [False, True])
def test_two_runs_of_pid_1_are_kept_apart_PR10(child: Child, run_dir: Path, killed: bool) -> None:
    code = PRELUDE + FIRST_PROCESS
    if killed:  # the first process of a namespace is killed from outside only
        code += "\nprofiler = Profiler(sys.argv[1])\nwith profiler.phase('b'):\n    os._exit(9)\n"
    for _ in range(2):
        child.run(code, run_dir, status=9 if killed else 0, within=within("true", PIDS))
    run = merge_run(run_dir)
    attempts = {run.run_id, *(attempt.run_id for attempt in run.superseded)}
    assert len(attempts) == (4 if killed else 2)
    assert {worker.pid for worker in run.workers} == {1}
    assert sum(node.calls for node in run.tree.values()) <= 1
    if not killed:
        assert run.tree[("a",)].counters == {"n": 1}


# ---- two containers with one /dev/shm -------------------------------------------------

OPEN_UNTIL_TOLD = """
run_dir, role, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
profiler = Profiler(run_dir, role, run_id="one", snapshot_interval_s={interval})
for _ in range(count):
    with profiler.phase(role):
        pass
with profiler.phase("held"):
    print(os.getpid(), flush=True)
    sys.stdin.readline()
profiler.close()
"""
TWO_CONTAINERS = """
import subprocess
run_dir, container = sys.argv[1], ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

def start(role, count):
    process = subprocess.Popen(
        [*container, sys.executable, "-c", sys.argv[2], run_dir, role, str(count)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())

LOOK = '''
import json, sys, time
from lineprofiler.accounting import merge_run
# The busiest pid of this container is the one that the other's worker has in its own.
until = time.process_time() + 0.5
while time.process_time() < until:
    pass
run = merge_run(sys.argv[1])
print(json.dumps({
    "live": run.live,
    "workers": sorted([w.role, w.source, w.pid, w.closed] for w in run.workers),
    "held_cpu_ns": run.tree[("held",)].cpu_ns,
    "held_wall_ns": run.tree[("held",)].wall_ns,
    "caveats": [caveat.text for caveat in run.caveats],
}))
'''

def look(inside):
    command = [*(container if inside else []), sys.executable, "-c", LOOK, run_dir]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

left, left_pid = start("left", 3)
right, right_pid = start("right", 5)
images = sorted(os.listdir("/dev/shm/lineprofiler-0"))
inside, outside = look(True), look(False)
assert sorted(os.listdir("/dev/shm/lineprofiler-0")) == images, "an image was taken from its owner"
# A third one opens a profiler of the same run, flushes and closes: it adopts nobody who lives.
third = start("third", 7)[0]
third.communicate("go on\\n")
assert sorted(os.listdir("/dev/shm/lineprofiler-0")) == images, "an image was taken from its owner"
for process in (left, right):
    process.communicate("go on\\n")
    assert process.returncode == 0
tell(pids=[left_pid, right_pid], inside=inside, outside=outside, run=facts(merge_run(run_dir)))
"""


@pytest.mark.parametrize("interval", ["None", "0.05"])
def test_two_containers_with_one_shared_memory(child: Child, run_dir: Path, interval: str) -> None:
    found = child.json(
        PRELUDE + TWO_CONTAINERS,
        run_dir,
        PRELUDE + OPEN_UNTIL_TOLD.format(interval=interval),
        within=within(OWN_SHM, MOUNTS),
    )
    assert found["pids"] == [1, 1]
    for view in (found["inside"], found["outside"]):
        assert view["live"]
        assert [worker[0] for worker in view["workers"]] == ["left", "right"]
        assert {worker[1] for worker in view["workers"]} <= {"live", "file"}
        if interval == "None":
            assert {worker[1] for worker in view["workers"]} == {"live"}
        # What pid 1 of the reader's container used is nobody's here.
        assert view["held_cpu_ns"] is None or view["held_cpu_ns"] < 400_000_000
    run = found["run"]
    assert run["calls"] == {"left": 3, "right": 5, "third": 7, "held": 3}
    assert run["closed"] == [True, True, True]
    assert run["caveats"] == {}


# ---- a report in the middle of a run ---------------------------------------------------

LONG = """
run_dir = sys.argv[1]
profiler = Profiler(run_dir, "learner")
for i in range(10):
    with profiler.phase("iteration"):
        with profiler.phase("step"):
            pass
with profiler.phase("iteration"), profiler.phase("train"):
    print("now", flush=True)
    sys.stdin.readline()
profiler.close()
print("done")
"""


def test_a_report_of_a_job_that_runs_EX10(child: Child, run_dir: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    script = tmp_path / "long.py"
    script.write_text(PRELUDE + LONG)
    with subprocess.Popen(
        [sys.executable, script, run_dir],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        assert job.stdout.readline() == "now\n"
        before = sorted(run_dir.rglob("*"))
        for _ in range(3):
            page = child.run(
                "import runpy; runpy.run_module('lineprofiler', run_name='__main__')",
                "report",
                run_dir,
            ).stdout
            assert re.search(r"train +", page)
            assert "0+1" in page, page
            assert "still running" in page
            assert job.poll() is None
        assert [p for p in before if p not in set(run_dir.rglob("*"))] == []
        job.stdin.write("go on\n")
        job.stdin.flush()
        assert job.stdout.readline() == "done\n"
        assert job.wait() == 0
    assert merge_run(run_dir).caveats == []


# ---- a program that replaces itself ------------------------------------------------------

EXEC = """
run_dir, rounds = sys.argv[1], int(sys.argv[2])
profiler = Profiler(run_dir, f"round {rounds}", run_id="one", snapshot_interval_s=None)
with profiler.phase("work"):
    profiler.count("n", 3)
if rounds:
    with profiler.phase("exec"):
        os.execv(sys.executable, [sys.executable, sys.argv[0], run_dir, str(rounds - 1)])
tell(left=sorted(os.listdir(f"/dev/shm/lineprofiler-{os.getuid()}")), worker=profiler.worker,
     run=facts(merge_run(run_dir)), pid=os.getpid())
profiler.close()
"""


def test_programs_that_follow_one_another_in_one_process_EX11(child: Child, run_dir: Path) -> None:
    with child.start(PRELUDE + EXEC, run_dir, 3, within=within(OWN_SHM)) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    found = json.loads(out)
    assert found["pid"] == process.pid
    assert found["run"]["calls"]["work"] == 4, "while it still runs"
    assert found["run"]["sources"].count("live") == 1, "the others are over, though the pid lives"
    run = merge_run(run_dir)
    assert sorted(worker.role for worker in run.workers) == [f"round {i}" for i in range(4)]
    assert run.tree[("work",)].counters == {"n": 12}
    assert {worker.pid for worker in run.workers} == {process.pid}
    assert [worker.closed for worker in run.workers].count(True) == 1


# ---- other hosts ------------------------------------------------------------------------


def test_no_pid_of_another_host_is_looked_at_MN02(child: Child, run_dir: Path) -> None:
    """Its file names a process that lives here, and none: its own words count, and its boot."""
    child.run(
        PRELUDE
        + """
profiler = Profiler(sys.argv[1], run_id="one", snapshot_interval_s=None)
with profiler.phase("a"):
    profiler.snapshot()
os.kill(os.getpid(), signal.SIGKILL)
""",
        run_dir,
        status=-signal.SIGKILL,
        within=within(OWN_SHM),
    )
    [path] = run_dir.glob("workers/*/w_*.json")
    document = json.loads(path.read_text())
    facts = []
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for pid in (os.getpid(), 4_194_000):
        document |= {
            "pid": pid,
            "process_start_ticks": int(stat[19]),
            "pid_namespace": os.stat("/proc/self/ns/pid").st_ino,
            "host": "elsewhere",
            "boot_id": "0" * 8 + "-0000-0000-0000-" + "0" * 12,
            "worker": f"w_one_{pid}_0123abcd",
        }
        elsewhere = run_dir / "workers" / "elsewhere"
        shutil.rmtree(run_dir / "workers")
        elsewhere.mkdir(parents=True)
        (elsewhere / f"w_one_{pid}_0123abcd.json").write_text(json.dumps(document))
        run = merge_run(run_dir)
        [worker] = run.workers
        facts.append((worker.source, worker.closed, run.live, [c.kind for c in run.caveats]))
    assert facts[0] == facts[1] == ("file", False, False, ["open", "elsewhere"])


# ---- who is in the run, and who is not -----------------------------------------------------


def test_a_plain_program_joins_by_the_environment_alone_MN09(child: Child, run_dir: Path) -> None:
    worker = """
import sys
from lineprofiler.accounting import Profiler
with Profiler(role="worker") as profiler, profiler.phase("task"):
    profiler.count("n")
"""
    off = child.run(worker, options=("-W", "ignore"))
    assert (off.stdout, off.stderr) == ("", "")
    assert [p.name for p in child.folder.iterdir()] == ["main.py"], "nothing is written"
    variables = {
        "LINEPROFILER_PROFILE": "1",
        "LINEPROFILER_RUN_DIR": str(run_dir),
        "LINEPROFILER_RUN_ID": "one",
    }
    for rank in range(3):
        child.run(worker, env={**variables, "RANK": str(rank), "WORLD_SIZE": "3"})
    run = merge_run(run_dir)
    assert sorted(str(w.rank) for w in run.workers) == ["0", "1", "2"]
    assert run.tree[("task",)].counters == {"n": 3}


def test_only_who_made_a_profiler_is_counted_MN10(child: Child, run_dir: Path) -> None:
    """Neither the time nor the I/O of the programs that it starts, before and after they end."""
    code = """
import subprocess
with Profiler(sys.argv[1], snapshot_interval_s=0.02, sample_interval_s=0.01) as profiler:
    samples = Path(profiler.path).with_suffix(".samples")
    size = lambda: samples.stat().st_size if samples.exists() else 0
    def wait_for_samples():
        before = size()
        wait_until(lambda: size() > before)
    with profiler.phase("a"):
        wait_for_samples()
        subprocess.run(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=500"], check=True,
                       stderr=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-c", "sum(range(1000000))"], check=True)
        subprocess.run([sys.executable, "-c", "import lineprofiler.accounting"], check=True)
        wait_for_samples()
"""
    child.run(PRELUDE + code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert run.tree[("a",)].calls == 1
    assert run.io is not None
    moved = run.io.moved.read_chars
    assert moved is not None
    assert moved < 50e6, "dd has read ten times as much"
    cpu_ns = run.tree[("a",)].cpu_ns
    assert cpu_ns is not None
    assert cpu_ns <= run.tree[("a",)].wall_ns


CALM = """
profiler = Profiler(sys.argv[1], snapshot_interval_s=0.01)
for _ in range(100):
    with profiler.phase("a"):
        pass
wait_until(lambda: flush_of(profiler.path) > 3)
merge_run(sys.argv[1])
profiler.deltas()
profiler.snapshot()
profiler.close()
"""


def test_a_rank_never_forks_or_starts_anything_MN11(
    child: Child, run_dir: Path, tmp_path: Path
) -> None:
    if not shutil.which("strace"):
        pytest.skip("no strace here")
    log = tmp_path / "calls"
    trace = ("strace", "-f", "-o", str(log), "-e", "trace=fork,vfork,clone,clone3,execve,execveat")
    if child.run("", status=None, within=trace).returncode != 0:
        pytest.skip("strace may not trace here")
    child.run(PRELUDE + CALM, run_dir, within=trace)
    lines = [line for line in log.read_text().splitlines() if "(" in line]
    made = [line for line in lines if not re.search(r" (execve|\+\+\+|---)", line)]
    assert sum(" execve(" in line for line in lines) == 1, "the interpreter itself"
    assert made, "the native thread at least"
    assert [line for line in made if "CLONE_THREAD" not in line and "resumed" not in line] == []

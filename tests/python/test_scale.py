"""Many processes: what each of them costs the machine and the file server, and reading them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import OWN_SHM, PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

LINEPROFILER = str(Path(sys.executable).parent / "lineprofiler")
WORKERS, HOSTS = 500, 25

# Short-lived processes, each on the host whose name it was given: forked, for that is soon done.
CROWD = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
run_dir, workers, hosts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
NEW_UTS = 0x04000000

def work(rank):
    host = f"node{rank % hosts:03}".encode()
    assert libc.unshare(NEW_UTS) == 0 and libc.sethostname(host, len(host)) == 0
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(workers)
    role = "learner" if rank % 5 == 0 else "actor"
    with Profiler(run_dir, role, run_id="one") as profiler:
        for i in range(20):
            with profiler.phase("iteration"), profiler.phase(f"part {i % 4 * 'x'}"):
                profiler.count("n")

running = set()
began = time.monotonic()
for rank in range(workers):
    if len(running) >= 8:
        running.discard(os.wait()[0])
    pid = os.fork()
    if pid == 0:
        work(rank)
        os._exit(0)
    running.add(pid)
while running:
    pid, status = os.wait()
    assert status == 0
    running.discard(pid)
tell(per_s=workers / (time.monotonic() - began), images=os.listdir("/dev/shm/lineprofiler-0"))
"""


def test_hundreds_of_short_processes_MN04(child: Child, run_dir: Path) -> None:
    how = within("hostname lineprofiler-test\n" + OWN_SHM, ("unshare", "--mount", "--uts"))
    found = child.json(PRELUDE + CROWD, run_dir, WORKERS, HOSTS, within=how)
    print(f"{found['per_s']:.0f} workers a second came and went")
    assert found["images"] == []
    folders = list((run_dir / "workers").iterdir())
    assert len(folders) == HOSTS
    for folder in folders:
        names = [path.name for path in folder.iterdir()]
        # No folder has more than two files for each worker of its host.
        kinds = Counter(name.rpartition(".")[2] for name in names)
        assert kinds["json"] == WORKERS // HOSTS
        assert kinds["samples"] <= WORKERS // HOSTS
        assert kinds.keys() <= {"json", "samples"}
    others = [path.name for path in run_dir.iterdir()]
    assert sorted(others) == ["metadata.json", "workers"]
    command = [LINEPROFILER, "report", str(run_dir), "--json"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert document["run"]["processes"] == WORKERS
    assert document["run"]["filter"] is None
    assert sorted(worker["rank"] for worker in document["workers"]) == list(range(WORKERS))
    assert all(worker["closed"] for worker in document["workers"])
    assert {caveat["kind"] for caveat in document["caveats"]} <= {"host_clocks", "dropped"}
    run = merge_run(run_dir, hosts=["node00?"], ranks=range(100))
    assert len(run.workers) == 40
    assert run.left_out == WORKERS - 40
    assert run.tree[("iteration",)].calls == 20 * 40


# ---- system calls -----------------------------------------------------------------------

FLUSHES = """
with Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None) as profiler:
    with profiler.phase("a"):
        profiler.count("n")
    for i in range(int(sys.argv[2])):
        profiler.snapshot()
"""
WITHOUT = """
Profiler
"""


def calls_of(
    child: Child, tmp_path: Path, code: str, *args: object, before: str = ""
) -> Counter[str]:
    """Return how often a program made each system call, in all its threads."""
    out = tmp_path / "strace"
    tracer = ("strace", "-f", "-qq", "-c", "-U", "name,calls", "-o", str(out))
    # Where no other program's images are, of which a profiler that begins looks at each.
    child.run(PRELUDE + code, *args, within=(*within(OWN_SHM + before), *tracer))
    counts: Counter[str] = Counter()
    for line in out.read_text().splitlines():
        if match := re.fullmatch(r"\s*(\w+)\s+(\d+)", line):
            counts[match[1]] += int(match[2])
    counts.pop("total", None)
    return counts


@pytest.fixture
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    done = subprocess.run(["strace", "-qq", "-c", "-U", "name,calls", "true"], capture_output=True)
    if done.returncode != 0:
        pytest.skip("nothing can be traced here")


SERVER_CALLS = (
    *("openat", "open", "creat", "rename", "renameat", "renameat2", "link", "linkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "fsync", "fdatasync"),
)


@pytest.mark.usefixtures("strace")
def test_what_a_flush_asks_of_a_file_server_MN04(child: Child, tmp_path: Path) -> None:
    few = calls_of(child, tmp_path, FLUSHES, tmp_path / "few", 2)
    many = calls_of(child, tmp_path, FLUSHES, tmp_path / "many", 102)
    per_flush = {name: (many[name] - few[name]) / 100 for name in many if many[name] > few[name]}
    print({name: calls for name, calls in per_flush.items() if calls >= 0.5})
    asked = {name: per_flush.get(name, 0.0) for name in SERVER_CALLS}
    # One file is made, synced and given its name; no directory is listed, and nothing removed.
    assert asked["rename"] + asked["renameat"] + asked["renameat2"] <= 1.1
    assert asked["fsync"] + asked["fdatasync"] <= 2.1
    assert asked["unlink"] + asked["unlinkat"] + asked["link"] + asked["linkat"] <= 0.1
    assert asked["mkdir"] + asked["mkdirat"] <= 0.1
    assert per_flush.get("getdents64", 0.0) <= 0.1
    assert asked["openat"] + asked["open"] + asked["creat"] <= 9
    assert sum(per_flush.values()) <= 40


@pytest.mark.usefixtures("strace")
def test_what_a_start_asks_of_a_file_server_MN04(child: Child, tmp_path: Path) -> None:
    without = calls_of(child, tmp_path, WITHOUT)
    first = calls_of(child, tmp_path, FLUSHES, tmp_path / "run", 0)
    again = calls_of(child, tmp_path, FLUSHES, tmp_path / "run", 0)
    for counts in (first, again):
        added = {name: counts[name] - without[name] for name in counts}
        print({name: calls for name, calls in added.items() if calls > 0})
        asked = Counter({name: added.get(name, 0) for name in SERVER_CALLS})
        # A worker that begins and ends makes its file and a line in metadata.json.
        assert asked["rename"] + asked["renameat"] + asked["renameat2"] <= 5
        assert asked["fsync"] + asked["fdatasync"] <= 8
        assert asked["mkdir"] + asked["mkdirat"] <= 4
        assert asked["openat"] + asked["open"] + asked["creat"] <= 80
        assert sum(calls for calls in added.values() if calls > 0) <= 500


@pytest.mark.usefixtures("strace")
def test_a_start_does_not_depend_on_how_many_there_are_MN04(child: Child, tmp_path: Path) -> None:
    """Nobody lists the workers of a run but who reads it."""
    run_dir = tmp_path / "run"
    alone = calls_of(child, tmp_path, FLUSHES, run_dir, 1)
    [path] = run_dir.glob("workers/*/w_*.json")
    for i in range(3000):
        shutil.copy(path, path.with_name(f"w_x_{i}_{i:08x}.json"))
    crowded = calls_of(child, tmp_path, FLUSHES, run_dir, 1)
    print({name: crowded[name] - alone[name] for name in crowded if crowded[name] != alone[name]})
    assert abs(crowded.total() - alone.total()) < 100


# A process of another run that dies, and 100 more like it.
OTHERS_DEAD = """
import os
import signal
import sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None)
with profiler.phase("a"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
COPIES = """
cd /dev/shm/lineprofiler-*
for i in $(seq 100); do cp w_*_*.img w_copy$i.img; done
cd "$OLDPWD"
"""


@pytest.mark.usefixtures("strace")
def test_the_dead_of_other_runs_cost_an_ending_process_little(child: Child, tmp_path: Path) -> None:
    """It looks whose each of them is, and no further."""
    run_dir = tmp_path / "run"
    program = tmp_path / "dying.py"
    program.write_text(OTHERS_DEAD)
    dying = f"\n{sys.executable} -P {program} {tmp_path}/other || true\n{COPIES}"
    calls_of(child, tmp_path, FLUSHES, run_dir, 0)
    alone = calls_of(child, tmp_path, FLUSHES, run_dir, 0)
    crowded = calls_of(child, tmp_path, FLUSHES, run_dir, 0, before=dying)
    added = {name: crowded[name] - alone[name] for name in crowded if crowded[name] != alone[name]}
    print(added)
    assert added["openat"] >= 100
    assert crowded.total() - alone.total() <= 6 * 101 + 50

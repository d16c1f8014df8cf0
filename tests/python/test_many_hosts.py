"""One run on several hosts that share a folder: what each sees of the others, and when."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts import HOSTS, cluster
from machine import PRELUDE

from lineprofiler.accounting import Profiler, merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

LINEPROFILER = str(Path(sys.executable).parent / "lineprofiler")


def workers(run_dir: Path, names: list[tuple[str, str]], **facts: object) -> None:
    """Leave the files of workers of these roles on these hosts, each of another boot."""
    profiler = Profiler(run_dir, run_id="one", snapshot_interval_s=None)
    with profiler, profiler.phase("step"):
        pass
    path = Path(profiler.path or "")
    document = json.loads(path.read_text())
    path.unlink()
    path.with_suffix(".samples").unlink(missing_ok=True)
    for i, (role, host) in enumerate(names):
        boot_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host} {i}"))
        own = {"worker": f"w_one_{i}_{i:08x}", "role": role, "host": host, "boot_id": boot_id}
        (path.parent / f"{own['worker']}.json").write_text(json.dumps(document | own | facts))


RANK = """
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], "learner", run_id="one", snapshot_interval_s=0.02) as profiler:
    with profiler.phase("step"):
        for i in range(50):
            with profiler.phase(f"part {i % 7}"):
                profiler.count("n")
        print("open", flush=True)
        sys.stdin.readline()
"""
# Reads again and again while the others write. What it sees may be old, never broken.
READER = """
import collections, json, sys, time
from lineprofiler.accounting import merge_run
seen, flushes, until = collections.Counter(), set(), time.monotonic() + 3
while time.monotonic() < until:
    run = merge_run(sys.argv[1])
    for worker in run.workers:
        seen[f"{worker.host} {worker.source}"] += 1
        if worker.host == "node08":
            flushes.add(worker.flush)
    seen["readings"] += 1
    seen.update("unreadable: " + file.reason for file in run.unreadable)
    seen["wrong"] += run.tree[("step",)].counters.get("n", 0) + sum(
        node.counters.get("n", 0) for node in run.tree.values()) != 50 * len(run.workers)
    seen.update(caveat.kind for caveat in run.caveats)
print(json.dumps([seen, len(flushes)]))
"""

WATCHED = """
hosts = ["node07", "node08"]
rank, reader = sys.argv[1:]
ranks = [on(host, sys.executable, "-c", rank, shared(host) / "run", env={"RANK": str(i)})
         for i, host in enumerate(hosts)]
for process in ranks:
    assert process.stdout.readline() == "open\\n"

def sees(n):
    # A name that was looked for before it was there is remembered as not there, for a second.
    with contextlib.suppress(Exception):
        return len(merge_run(shared("node07") / "run").workers) == n

wait_until(lambda: sees(2))
read = on("node07", sys.executable, "-c", reader, shared("node07") / "run")
seen, flushes = json.loads(end(read))
for process in ranks:
    end(process)
wait_until(lambda: all(worker.closed for worker in merge_run(shared("node07") / "run").workers))
left = [str(path.relative_to(CLUSTER / "there")) for path in (CLUSTER / "there").rglob("*")]
tell(seen=seen, flushes=flushes, left=left)
"""


def test_two_hosts_that_share_a_folder_MN01(child: Child, tmp_path: Path) -> None:
    how = cluster(tmp_path, ["node07", "node08"])
    found = child.json(PRELUDE + HOSTS + WATCHED, RANK, READER, within=how)
    seen, readings = found["seen"], found["seen"]["readings"]
    assert readings > 3
    assert seen["wrong"] == 0
    assert [what for what in seen if what.startswith("unreadable")] == []
    # Its own host's worker is read from its memory, the other's is as old as its file.
    assert seen["node07 live"] == readings
    assert seen["node08 file"] == readings
    assert seen["elsewhere"] == seen["host_clocks"] == readings
    assert found["flushes"] > 1, "what is written there is seen here, in time"
    run = merge_run(tmp_path / "there" / "run")
    assert [(worker.host, worker.rank, worker.closed) for worker in run.workers] == [
        ("node07", 0, True),
        ("node08", 1, True),
    ]
    assert {caveat.kind for caveat in run.caveats} <= {"host_clocks", "dropped"}
    names = [Path(path).name for path in found["left"]]
    assert not [name for name in names if name.endswith(".tmp")]
    # Both described the run in one file, under a lock that holds across hosts.
    assert list(run.metadata["runs"]) == ["one"]


# ---- what file servers leave, and answer -------------------------------------------------

STALE = """
import ctypes
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
run_dir, why = sys.argv[1], int(sys.argv[2])
with Profiler(run_dir, snapshot_interval_s=None) as profiler, profiler.phase("a"):
    pass
# The directory's id is looked for first, twice.
shim.faulty_begin(os.fsencode(os.path.realpath(run_dir)), 0, why, 5)
run = merge_run(run_dir)
tell(run=facts(run), left=shim.faulty_left(0))
"""


@pytest.mark.parametrize("why", [errno.ESTALE, errno.EIO], ids=["ESTALE", "EIO"])
def test_a_file_that_is_replaced_while_it_is_opened_MN03(
    child: Child, run_dir: Path, faulty_calls: str, why: int
) -> None:
    """A name that led to a file that is no more leads to the next one; other errors stay."""
    code = STALE.replace("run = merge_run(run_dir)", READ_STALE)
    found = child.json(PRELUDE + code, run_dir, why, env={"LD_PRELOAD": faulty_calls})
    if why == errno.ESTALE:
        assert found["run"]["unreadable"] == []
        assert found["run"]["calls"] == {"a": 1}
        assert found["left"] == 0
    else:
        assert found["run"] == "Input/output error"


READ_STALE = """
try:
    run = merge_run(run_dir)
except ValueError as error:
    tell(run=str(error).rsplit(": ")[-1])
    sys.exit()
"""


def test_what_network_file_systems_leave_is_no_worker_MN03(run_dir: Path) -> None:
    """Files that were removed while somebody had them open stay under names of their own."""
    with Profiler(run_dir, snapshot_interval_s=None) as profiler, profiler.phase("a"):
        pass
    path = Path(profiler.path or "")
    text = path.read_text()
    for name in (".nfs000000000001", ".fuse_hidden0000000100000001", f".{path.name}.swp"):
        for folder in (path.parent, path.parent.parent, run_dir):
            (folder / name).write_text(text)
    for name in (path.name + ".tmp", path.name + ".adopted.tmp", path.name + "~", "lost+found"):
        (path.parent / name).write_text(text)
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert (run.unreadable, run.superseded, run.caveats) == ([], [], [])
    with Profiler(run_dir, run_id=run.run_id, snapshot_interval_s=None) as profiler:
        pass
    assert (path.parent / ".nfs000000000001").read_text() == text, "nobody's business"


# ---- what a name may hold -------------------------------------------------------------------

HOST = "gpu-a100-0017.rack-12.cluster-of-the-faculty-of-physics.university.example.org"
NAMES = [
    ("actor" * 60, HOST),
    ("actor " * 60, HOST.replace("0017", "0018")),
    ("a\n\x1b[2J\u202e" * 40, "h\x07" * 90),
]


def text_of(*command: object) -> str:
    """Return what a command prints."""
    words = [LINEPROFILER, *map(str, command)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["report", "compare", "top", "where"])
def test_long_names_break_no_line_K12(run_dir: Path, name: str) -> None:
    """Of workers that did not close, too: caveats name them. JSON has each name whole."""
    workers(run_dir, NAMES, state="running", ended={"signal": None, "exit_status": 1})
    directories = [run_dir] * (2 if name == "compare" else 1)
    text = text_of(name, *directories, *(["--once"] if name == "top" else []))
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    if name == "report":
        for host in ("gpu-a100-0017", "gpu-a100-0018"):
            assert re.search(rf"{host}.*….*example\.org", text), "told apart by their heads"
        document = json.loads(text_of(name, run_dir, "--json"))
        assert {(worker["role"], worker["host"]) for worker in document["workers"]} == set(NAMES)
        kinds = [caveat["kind"] for caveat in document["caveats"]]
        assert kinds.count("unclosed") == len(NAMES)
        assert max(len(caveat["text"]) for caveat in document["caveats"]) < 300


# ---- clocks ---------------------------------------------------------------------------------

CLOCKED = """
import ctypes, os, sys, time
ahead_s = int(sys.argv[2])
if ahead_s:
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.faulty_set_clock.argtypes = [ctypes.c_int64]
    shim.faulty_set_clock(ahead_s)
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], "learner", run_id="one", snapshot_interval_s=None) as profiler:
    with profiler.phase("step"):
        time.sleep(0.2)
        sum(range(1_000_000))
"""
CLOCKS = """
rank, ahead = sys.argv[1], int(sys.argv[2])
for i, (host, ahead_s) in enumerate([("node07", 0), ("node08", ahead)]):
    end(on(host, sys.executable, "-c", rank, shared(host) / "run", ahead_s, env={"RANK": str(i)}))
tell()
"""


@pytest.mark.parametrize("ahead_s", [45, -600])
def test_hosts_whose_clocks_differ_CK04(
    child: Child, tmp_path: Path, faulty_calls: str, ahead_s: int
) -> None:
    """Wall clocks 45 s or minutes apart, monotonic ones years: durations are what they were."""
    years = {"node08": "--time --boottime=900000000 --monotonic=900000000"}
    how = cluster(tmp_path, ["node07", "node08"], years)
    env = {"LD_PRELOAD": faulty_calls}
    child.json(PRELUDE + HOSTS + CLOCKS, CLOCKED, ahead_s, env=env, within=how)
    run = merge_run(tmp_path / "there" / "run")
    assert len(run.workers) == 2
    for worker in run.workers:
        assert 0.2e9 <= worker.root_wall_ns < 60e9
        alone = merge_run(tmp_path / "there" / "run", hosts=worker.host)
        assert 0.2e9 <= alone.runtime_ns < 60e9, "of one host, by its own clock"
    assert 0.4e9 <= run.tree[("step",)].wall_ns < 120e9
    early, late = run.workers
    assert late.started_monotonic_ns - early.started_monotonic_ns > 10**17
    assert (early.host, late.host) == ("node07", "node08")
    # Who came first on which host is not claimed: the stamps are each host's own.
    assert abs(late.started_at - early.started_at - ahead_s) < 30
    [caveat] = [caveat for caveat in run.caveats if caveat.kind == "host_clocks"]
    # Stamps of this file server are whole seconds.
    ahead, behind = ("node08", "node07") if ahead_s > 0 else ("node07", "node08")
    found = re.search(
        r"each by its own clock, and these differ: that of (\w+) is ahead of that of (\w+)"
        r" by about (?:(\d+)m ?)?(?:([\d.]+)s)?"
        r" \(estimated by the stamps of the file server, to ([\d.]+)s\)",
        caveat.text,
    )
    assert found, caveat.text
    assert found.group(1, 2) == (ahead, behind)
    about_s = 60 * int(found[3] or 0) + float(found[4] or 0)
    assert abs(about_s - abs(ahead_s)) <= float(found[5]) + 0.6
    assert "may be wrong by as much" in caveat.text
    assert "durations of phases are not affected" in caveat.text

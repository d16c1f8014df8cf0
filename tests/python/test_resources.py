"""H, K7 and what a run came from: real machines, limits, processes and repositories."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machine import PIDS, within

from lineprofiler.accounting import Profiler, Run, merge_run

pytestmark = pytest.mark.core

QUIET: dict[str, Any] = {"snapshot_interval_s": None, "sample_interval_s": None}


def run_program(tmp_path: Path, code: str, *before: str, **env: str) -> str:
    """Run a program whose run directory is "run" below tmp_path; return what it printed."""
    script = tmp_path / "program.py"
    script.write_text(code)
    done = subprocess.run(
        [*before, sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_what_a_worker_says_of_the_machine(tmp_path: Path) -> None:
    with Profiler(tmp_path, **QUIET) as profiler, profiler.phase("x"):
        pass
    (worker,) = merge_run(tmp_path).workers
    machine = worker.machine
    assert machine.cores == os.cpu_count()
    assert machine.cores_usable == len(os.sched_getaffinity(0))
    assert machine.ram_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine.kernel == os.uname().release
    assert machine.cpu_limit_cores is None or machine.cpu_limit_cores > 0
    assert machine.memory_limit_bytes is None or machine.memory_limit_bytes > 0
    assert worker.peak_rss_bytes is not None
    assert worker.peak_rss_bytes > 4 << 20
    assert worker.pss_bytes is None


ONE_PHASE = """
from lineprofiler.accounting import Profiler
with Profiler("run", snapshot_interval_s=None, sample_interval_s=None) as profiler:
    with profiler.phase("x"):
        pass
"""


@pytest.mark.skipif(shutil.which("taskset") is None, reason="there is no taskset")
def test_an_affinity_mask_PR07(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    run_program(tmp_path, ONE_PHASE, "taskset", "--cpu-list", str(core))
    (worker,) = merge_run(tmp_path / "run").workers
    assert (worker.machine.cores_usable, worker.machine.cores_usable_list) == (1, str(core))
    assert worker.machine.cores == os.cpu_count()


def test_a_quota_of_a_real_control_group_PR07(tmp_path: Path) -> None:
    group = Path(f"/sys/fs/cgroup/cpu/lp-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made here: {error}")
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("150000")
        enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        run_program(tmp_path, ONE_PHASE, "sh", "-c", enter, "sh")
    finally:
        group.rmdir()
    (worker,) = merge_run(tmp_path / "run").workers
    assert worker.machine.cpu_limit_cores == 1.5
    report = subprocess.run(
        [sys.executable, "-m", "lineprofiler", "report", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    ).stdout
    assert f"{os.cpu_count()} cores, limit 1.50; RAM " in report


def test_a_limit_of_memory_PR05(tmp_path: Path) -> None:
    """A container of version 2, as its files: mounted over the real ones."""
    mounts = within(
        "mount -t tmpfs cgroup /sys/fs/cgroup\n"
        "touch /sys/fs/cgroup/cgroup.procs\n"
        "echo 2147483648 > /sys/fs/cgroup/memory.max\n"
        "echo max 100000 > /sys/fs/cgroup/cpu.max\n"
        f"echo 0::/ > {tmp_path}/cgroup\n"
        "true"
    )
    code = ONE_PHASE.replace(
        "from lineprofiler",
        "import os, subprocess\n"
        f"subprocess.run(['mount', '--bind', '{tmp_path}/cgroup', f'/proc/{{os.getpid()}}/cgroup'],"
        " check=True)\nfrom lineprofiler",
        1,
    )
    setup = (
        "mount -t tmpfs cgroup /sys/fs/cgroup; touch /sys/fs/cgroup/cgroup.procs;"
        " echo 2147483648 > /sys/fs/cgroup/memory.max;"
        " echo max 100000 > /sys/fs/cgroup/cpu.max;"
        f' echo 0::/ > {tmp_path}/cgroup; exec "$@"'
    )
    assert mounts
    run_program(tmp_path, code, *mounts, "sh", "-euc", setup, "sh")
    (worker,) = merge_run(tmp_path / "run").workers
    assert worker.machine.memory_limit_bytes == 2 << 30
    assert worker.machine.cpu_limit_cores == math.inf


SHARED = """
import os
from lineprofiler.accounting import Profiler
block = os.urandom(1 << 20) * 64
profiler = Profiler("run", measure_pss=True, snapshot_interval_s=None, sample_interval_s=None)
ready, go, end = os.pipe(), os.pipe(), os.pipe()
with profiler.phase("run"):
    for _ in range(4):
        if os.fork() == 0:
            os.close(end[1])
            with profiler.phase("work"):
                pass
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            profiler.snapshot()
            os.write(ready[1], b"x")
            os.read(end[0], 1)
            profiler.close()
            os._exit(0)
    for _ in range(4):
        os.read(ready[0], 1)
    os.write(go[1], b"xxxx")
    profiler.snapshot()
    for _ in range(4):
        os.read(ready[0], 1)
    os.close(end[1])
    for _ in range(4):
        os.wait()
profiler.close()
"""


def test_memory_that_workers_share_PR08(tmp_path: Path) -> None:
    run_program(tmp_path, SHARED)
    run = merge_run(tmp_path / "run")
    assert len(run.workers) == 5
    for worker in run.workers:
        assert worker.peak_rss_bytes is not None
        assert worker.peak_rss_bytes > 64 << 20
    resident = sum(worker.peak_rss_bytes or 0 for worker in run.workers)
    shared_out = [worker.pss_bytes for worker in run.workers]
    assert None not in shared_out
    assert resident > 5 * 64 << 20
    assert 64 << 20 < sum(pss or 0 for pss in shared_out) < 140 << 20
    document = json.loads(report_of(tmp_path / "run", "--json"))
    (host,) = document["resources"]["hosts"]
    assert host["rss_bytes"]["sum"] == resident
    assert host["pss_bytes"]["sum"] == sum(pss or 0 for pss in shared_out)
    words = " ".join(report_of(tmp_path / "run").split())
    assert "its sum, over processes at the same time, counts shared pages several times" in words
    assert "memory, shared once" in words


def report_of(run: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lineprofiler", "report", str(run), *words],
        capture_output=True,
        text=True,
        cwd=run.parent,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


BUSY = """
import os, sys, time
from lineprofiler.accounting import Profiler
{before}
role = sys.argv[1] if sys.argv[1:] else "main"
with Profiler("run", role=role, sample_interval_s=0.1) as profiler:
    with profiler.phase("x"):
        until = time.monotonic() + 1
        while time.monotonic() < until:
            sum(range(1000))
"""


def test_cores_in_use_and_without_samples(tmp_path: Path) -> None:
    run_program(tmp_path, BUSY.format(before=""))
    document = json.loads(report_of(tmp_path / "run", "--json"))
    (host,) = document["resources"]["hosts"]
    assert host["cpu_cores"]["processes"] == 1
    assert 0 < host["cpu_cores"]["sum"] < 2
    assert host["cpu_cores"]["share"] == host["cpu_cores"]["sum"] / host["cores_granted"]
    text = report_of(tmp_path / "run")
    assert "\n  CPU cores " in text
    assert "\n  memory " in text
    text = report_of(tmp_path / "run", "--no-samples")
    assert "CPU cores" not in text
    assert "\n  memory " in text
    assert "CPU: cores in use" not in text


def test_a_process_whose_io_cannot_be_read_PR01(tmp_path: Path) -> None:
    """As one that is not dumpable, for a user that is not root: its io is n/a, never 0."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    before = (
        "import ctypes\n"
        "os.chdir('/tmp'); os.makedirs(RUN, exist_ok=True); os.chown(RUN, 65534, 65534)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0\n"
        "try:\n    open('/proc/self/io').read()\nexcept PermissionError:\n    pass\n"
        "else:\n    print('readable')\n"
    )
    run = Path(f"/tmp/lp-test-io-{os.getpid()}")
    code = BUSY.format(before=f"RUN = {str(run)!r}\n" + before).replace('"run"', "RUN")
    try:
        said = run_program(tmp_path, code)
        if said:
            pytest.skip("this kernel lets a process that is not dumpable read its io")
        document = json.loads(report_of(run, "--json"))
        (host,) = document["resources"]["hosts"]
        assert host["cpu_cores"]["processes"] == 1  # the rest is sampled all the same
        assert "n/a" in report_of(run) or "Read" not in report_of(run)
    finally:
        shutil.rmtree(run, ignore_errors=True)


def test_processes_that_are_hidden_PR11(tmp_path: Path) -> None:
    """With hidepid a user sees its own processes only; those are measured."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    before = "os.setgroups([]); os.setgid(65534); os.setuid(65534)"
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", 65534, 65534)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(0o755) if folder.is_relative_to("/tmp/pytest-of-root") else None
    hidden = within("mount -t proc -o hidepid=2 proc /proc", PIDS)
    if subprocess.run(
        [
            *hidden,
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "test",
            "-x",
            tmp_path,
        ]
    ).returncode:
        pytest.skip("another user cannot enter the folder of tests")
    setup = 'mount -t proc -o hidepid=2 proc /proc; exec "$@"'
    run_program(tmp_path, BUSY.format(before=before), *hidden, "sh", "-euc", setup, "sh")
    (worker,) = merge_run(tmp_path / "run").workers
    assert worker.peak_rss_bytes is not None
    assert worker.machine.cores_usable == len(os.sched_getaffinity(0))


def test_each_process_and_each_role_apart_PR12(tmp_path: Path) -> None:
    code = BUSY.format(before="") + (
        "if not sys.argv[1:]:\n"
        "    import subprocess\n"
        "    for role in ('actor', 'actor', 'learner'):\n"
        "        subprocess.run([sys.executable, __file__, role], check=True,\n"
        "                       env={**os.environ, 'LINEPROFILER_RUN_ID': profiler.run_id})\n"
    )
    run_program(tmp_path, code)
    document = json.loads(report_of(tmp_path / "run", "--json"))
    roles = {role["name"]: role for role in document["resources"]["roles"]}
    assert {name: role["rss_bytes"]["processes"] for name, role in roles.items()} == {
        "actor": 2,
        "learner": 1,
        "main": 1,
    }
    peaks = [worker["peak_rss_bytes"] for worker in document["workers"]]
    assert all(peaks)
    (host,) = document["resources"]["hosts"]
    assert host["rss_bytes"]["heaviest"] == max(peaks)
    assert host["rss_bytes"]["sum"] < sum(peaks)  # they ran one after the other
    text = report_of(tmp_path / "run")
    assert "\nactor  (2 processes)\n" in text
    assert "\nlearner  (1 process)\n" in text


# --- what a run came from ---


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
    ).stdout


def provenance_of(run: Run) -> dict[str, Any]:
    assert run.metadata is not None
    entry: dict[str, Any] = run.metadata["runs"][run.run_id]["provenance"]
    return entry


WAITS = """
import json, os, signal, sys, time
from lineprofiler.accounting import Profiler
seen = []
signal.signal(signal.SIGCHLD, lambda *_: seen.append("SIGCHLD"))
os.chdir({elsewhere!r})
with Profiler({run!r}, packages=["pip", "no-such-package"]) as profiler:
    with profiler.phase("x"):
        pass
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            seen.append(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            pass
        with open({run!r} + "/metadata.json") as file:
            if '"provenance"' in file.read():
                break
print(json.dumps(seen))
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_commit_of_the_script_and_nothing_noticed(tmp_path: Path) -> None:
    source, elsewhere, run = tmp_path / "source", tmp_path / "elsewhere", tmp_path / "run"
    source.mkdir()
    elsewhere.mkdir()
    git(source, "init", "-q", "-b", "main", ".")
    (source / "program.py").write_text("")
    git(source, "add", ".")
    git(source, "commit", "-qm", "first")
    said = run_program(source, WAITS.format(elsewhere=str(elsewhere), run=str(run)))
    assert json.loads(said) == []
    told = provenance_of(merge_run(run))
    assert told["git"] == {
        "commit": git(source, "rev-parse", "HEAD").decode().strip(),
        "branch": "main",
        "dirty": True,
        "difference_sha256": hashlib.sha256(git(source, "diff", "HEAD")).hexdigest(),
    }
    assert told["packages"].keys() == {"pip", "no-such-package"}
    assert told["packages"]["no-such-package"] is None
    text = report_of(run)
    assert f"\nCommit {told['git']['commit'][:8]} (main, changed)\n" in text
    document = json.loads(report_of(run, "--json"))
    assert document["run"]["provenance"] == {**told["git"], "packages": told["packages"]}


def test_a_program_that_is_in_no_repository(tmp_path: Path) -> None:
    run_program(tmp_path, ONE_PHASE)
    run = merge_run(tmp_path / "run")
    assert provenance_of(run) == {"git": None, "packages": {}}
    assert "\nCommit" not in report_of(tmp_path / "run")


def test_packages_are_names(tmp_path: Path) -> None:
    wrong: Any
    for wrong in ("torch", b"torch", [1], None):
        with pytest.raises(TypeError):
            Profiler(tmp_path, packages=wrong)
    for wrong in ([""], ["a\0b"], ["a\\b"]):
        with pytest.raises(ValueError, match="no package is called"):
            Profiler(tmp_path, packages=wrong)
    assert not list(tmp_path.iterdir())


def test_a_profiler_off_asks_for_nothing(tmp_path: Path) -> None:
    with Profiler(tmp_path / "run", enabled=False, packages=["pip"]) as profiler:
        assert not profiler.describes_run
        profiler.describe_run(None, {})
    assert not (tmp_path / "run").exists()

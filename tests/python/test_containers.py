"""In containers: pids, mounts, limits and shared memory of their own, and no rights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import OWN_SHM, PIDS, PRELUDE, as_nobody, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

V1 = Path("/sys/fs/cgroup")
LIMITS = {
    "memory": {"memory.limit_in_bytes": "256M"},
    "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"},
}


@pytest.fixture
def groups(run_dir: Path) -> Iterator[list[Path]]:
    """Control groups with limits, as a container has them."""
    made = []
    try:
        for kind, settings in LIMITS.items():
            folder = V1 / kind / f"lineprofiler-test-{run_dir.parent.name}"
            folder.mkdir()
            made.append(folder)
            for file, text in settings.items():
                (folder / file).write_text(text)
    except OSError as error:
        for folder in made:
            folder.rmdir()
        pytest.skip(f"no control groups of our own: {error}")
    yield made
    for folder in made:
        folder.rmdir()


# The first process of a container, in which one worker dies and another one finds what it left.
CONTAINED = """
import resource
run_dir, shm = sys.argv[1:]
assert os.getpid() == 1
if shm == "none":
    assert not os.path.exists("/dev/shm")
with contextlib.suppress(OSError):
    Path("/etc/lineprofiler-test").write_text("")
    sys.exit("the root can be written")
dead = os.fork()
if dead == 0:
    profiler = Profiler(run_dir, "dead", run_id="one", snapshot_interval_s=None)
    with profiler.phase("a"):
        profiler.snapshot()
    with profiler.phase("b"):
        os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(dead, 0)
with Profiler(run_dir, "first", run_id="one", snapshot_interval_s=None) as profiler:
    with profiler.phase("c"):
        profiler.snapshot()
        run = merge_run(run_dir)
        page = [[w.role, w.pid, w.source, w.ended] for w in run.workers]
tell(uid=os.getuid(), page=page, run=facts(merge_run(run_dir)))
"""
NO_SHM = """
mkdir -p {folder}/dev
mount -t tmpfs dev {folder}/dev
for device in null zero full random urandom; do
    touch {folder}/dev/$device
    mount --bind /dev/$device {folder}/dev/$device
done
mount --rbind {folder}/dev /dev
"""
READ_ONLY = """
mount --bind {folder} {folder}
mount -o remount,ro,bind /
"""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.mark.parametrize("shm", ["private", "none"])
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_a_container_PR05_PR07_PR10(
    child: Child, tmp_path: Path, run_dir: Path, groups: list[Path], user: str, shm: str
) -> None:
    tmp_path.chmod(0o711)
    run_dir.mkdir()
    run_dir.chmod(0o777)
    enter = "".join(f"echo $$ >{group}/cgroup.procs\n" for group in groups)
    memory = NO_SHM if shm == "none" else OWN_SHM
    how: tuple[str, ...] = within((memory + "\n" + READ_ONLY).format(folder=tmp_path), PIDS)
    how = ("sh", "-euc", enter + 'exec "$@"', "sh", *how)
    if user == "nobody":
        how = (*how, *as_nobody(tmp_path))
    found = child.json(PRELUDE + CONTAINED, run_dir, shm, within=how)
    assert found["uid"] == (0 if user == "root" else 65534)
    run = merge_run(run_dir)
    # Identity: of the dead one with a pid of the container, and of pid 1, nobody's else.
    assert [(w.role, w.pid > 1, w.host) for w in run.workers if w.role == "dead"] == [
        ("dead", True, os.uname().nodename)
    ]
    [first] = run.workers_of("first")
    assert (first.pid, first.closed) == (1, True)
    assert not run.live
    # Limits: of the container, not of the machine.
    for worker in run.workers:
        assert worker.machine.memory_limit_bytes == 256 << 20
        assert worker.machine.cpu_limit_cores == 1.5
    # Adoption: with shared memory nothing of the dead one is lost, else its last flush is there.
    [dead] = run.workers_of("dead")
    calls = {path[0]: node.calls + node.open_calls for path, node in run.tree.items()}
    if shm == "private":
        assert calls == {"a": 1, "b": 1, "c": 1}
        assert dead.ended
        assert dead.private_image is False
        assert {caveat.kind for caveat in run.caveats} <= {"open", "dropped"}
    else:
        assert calls == {"a": 1, "c": 1}
        assert dead.private_image
        assert {"private_image"} <= {caveat.kind for caveat in run.caveats}


# ---- one folder, many containers ---------------------------------------------------------

ONE_OF_MANY = """
with Profiler(sys.argv[1], "worker", run_id="one", snapshot_interval_s=None) as profiler:
    with profiler.phase("step"):
        pass
"""


def test_containers_that_have_one_host_name_and_equal_pids_PR10(
    child: Child, run_dir: Path
) -> None:
    """As those of one image: all of them are pid 1 of the same host."""
    for _ in range(3):
        child.run(PRELUDE + ONE_OF_MANY, run_dir, within=within(OWN_SHM, PIDS))
    run = merge_run(run_dir)
    assert [worker.pid for worker in run.workers] == [1, 1, 1]
    assert run.tree[("step",)].calls == 3
    assert [worker.closed for worker in run.workers] == [True] * 3
    assert run.caveats == []


# ---- what outlives its container -----------------------------------------------------------

GONE = """
profiler = Profiler(sys.argv[1], "worker", run_id="one", snapshot_interval_s=None)
with profiler.phase("written"):
    pass
profiler.snapshot()
with profiler.phase("not written"):
    os.kill(os.getpid(), signal.SIGKILL if os.getpid() > 1 else signal.SIGTERM)
os._exit(3)
"""


def test_a_container_that_took_its_shared_memory_along(child: Child, run_dir: Path) -> None:
    """Nobody outside can know how it ended; what it wrote last is shown, and said to be that."""
    child.run(PRELUDE + GONE, run_dir, status=None, within=within(OWN_SHM, PIDS))
    run = merge_run(run_dir)
    [worker] = run.workers
    assert (worker.source, worker.closed, worker.ended) == ("file", False, False)
    assert run.tree[("written",)].calls == 1
    assert not run.live
    [caveat] = [caveat for caveat in run.caveats if caveat.kind != "dropped"]
    assert caveat.kind in ("open", "unclosed")
    assert "was last written without close" in caveat.text

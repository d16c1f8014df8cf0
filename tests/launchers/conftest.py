"""What the tests of launchers share: folders, launchers that live for the session, ends of all."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers import hosts, open_mpi, ray_cluster, slurm
from launchers.hosts import Hosts
from launchers.open_mpi import OpenMpi
from launchers.processes import end_marked, environment, marked, run
from launchers.programs import Told
from launchers.slurm import Cluster
from lineprofiler.accounting import Run, merge_run

GRACE_S = 60
GOING_S = 10  # a process that is being ended is no more seen as one of the test's, and yet not gone


def images_of(folder: Path, user: int) -> list[Path]:
    """Return what workers that ran as a user in a folder have in shared memory."""
    found = []
    for image in Path(f"/dev/shm/lineprofiler-{user}").glob("*.img"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in image.read_bytes():
                found.append(image)
    return found


def remove_images(folder: Path, user: int) -> None:
    """Remove what workers that were killed in a folder, and nobody read, left behind."""
    for image in images_of(folder, user):
        with contextlib.suppress(OSError):
            image.unlink()


@pytest.fixture(scope="session")
def session_mark() -> Iterator[str]:
    """Return the mark of daemons; none of them outlives the session."""
    mark = f"session-{uuid.uuid4()}"
    yield mark
    left = end_marked(mark, grace_s=GRACE_S)
    assert not left, f"these outlived the tests: {left}"


@pytest.fixture
def mark() -> Iterator[str]:
    """Return the mark of a test; what it leaves running is ended, and a failure."""
    mark = f"test-{uuid.uuid4()}"
    yield mark
    left = end_marked(mark, grace_s=GRACE_S)
    assert not left, f"these outlived the test: {left}"


@pytest.fixture
def env(mark: str) -> dict[str, str]:
    return environment(mark)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder, in which programs are launched."""
    yield tmp_path
    remove_images(tmp_path, os.geteuid())


NOBODY = 65534


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """Return an empty folder of the user nobody, who can get there."""
    with tempfile.TemporaryDirectory(prefix="launchers-") as name:
        os.chmod(name, 0o755)
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)
        remove_images(Path(name), NOBODY)


class Work:
    """A folder with programs, and what became of them."""

    def __init__(self, folder: Path, env: dict[str, str], mark: str) -> None:
        self.folder = folder
        self.env = env
        self.mark = mark
        self.told = Told(folder)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def processes(self) -> dict[int, str]:
        return marked(self.mark)

    def run_of(self, run_dir: str | Path = "profile") -> Run:
        """Read a run in which nobody is left; nothing of it is unreadable."""
        deadline = time.monotonic() + GOING_S
        run = merge_run(self.folder / run_dir)
        while time.monotonic() < deadline and any(one.source != "file" for one in run.workers):
            time.sleep(0.05)
            run = merge_run(self.folder / run_dir)
        assert run.unreadable == []
        return run

    def report(self, run_dir: str | Path = "profile") -> str:
        return run(["lineprofiler", "report", run_dir], self.folder, self.env).stdout

    def caveats(self, run_dir: str | Path = "profile") -> str:
        """Return the report's last block as one line, or nothing."""
        _, _, text = self.report(run_dir).partition("\nCAVEATS\n")
        return re.sub(r"\s+", " ", text)


@pytest.fixture
def work(folder: Path, env: dict[str, str], mark: str) -> Work:
    return Work(folder, env, mark)


# ---- Slurm -----------------------------------------------------------------


def started(mark: str, bounded: bool = False, mortal: bool = False) -> Iterator[Cluster]:
    reason = slurm.why_not(bounded, mortal)
    if reason:
        pytest.skip(reason)
    # Other users come as far as its configuration and its sockets.
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        cluster = Cluster(Path(name), environment(mark), bounded, mortal)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def cluster(session_mark: str) -> Iterator[Cluster]:
    yield from started(session_mark)


@pytest.fixture(scope="session")
def bounded_cluster(session_mark: str) -> Iterator[Cluster]:
    yield from started(session_mark, bounded=True)


@pytest.fixture
def mortal_cluster(session_mark: str) -> Iterator[Cluster]:
    """Return a cluster of the test's own, whose daemons may be ended."""
    yield from started(session_mark, mortal=True)


def of_test(cluster: Cluster, env: dict[str, str]) -> Iterator[Cluster]:
    """Return the cluster, whose commands carry the mark of a test; no job outlives the test."""
    daemons = cluster.env
    own = {**env, "SLURM_CONF": daemons["SLURM_CONF"], "PATH": daemons["PATH"]}
    cluster.env = own
    yield cluster
    cluster.cancel_all()
    cluster.env = daemons


@pytest.fixture
def jobs(cluster: Cluster, env: dict[str, str]) -> Iterator[Cluster]:
    yield from of_test(cluster, env)


@pytest.fixture
def bounded_jobs(bounded_cluster: Cluster, env: dict[str, str]) -> Iterator[Cluster]:
    yield from of_test(bounded_cluster, env)


@pytest.fixture
def mortal_jobs(mortal_cluster: Cluster, env: dict[str, str]) -> Iterator[Cluster]:
    yield from of_test(mortal_cluster, env)


# ---- Open MPI --------------------------------------------------------------


@pytest.fixture(params=["system", "PyPI"])
def mpi(request: pytest.FixtureRequest, env: dict[str, str]) -> OpenMpi:
    """Return each Open MPI that is here: Debian's is version 4, that of PyPI version 5 or newer."""
    mpirun = open_mpi.of_system() if request.param == "system" else open_mpi.of_pypi()
    if mpirun is None:
        pytest.skip(
            "no mpirun here (Debian: openmpi-bin libopenmpi-dev)"
            if request.param == "system"
            else "no openmpi in this environment (pip install openmpi)"
        )
    made = OpenMpi(mpirun, env)
    tried = subprocess.run(
        made.command(2, "true"), env=made.env, capture_output=True, text=True, timeout=120
    )
    if tried.returncode != 0:
        pytest.skip(f"mpirun does not start anything here: {tried.stderr.strip()[-300:]}")
    return made


@pytest.fixture
def two_hosts(folder: Path, mark: str) -> Iterator[Hosts]:
    """Return two hosts of the test's own."""
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    made = Hosts(folder, environment(mark))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def mpi_of_system(env: dict[str, str]) -> OpenMpi:
    mpirun = open_mpi.of_system()
    if mpirun is None:
        pytest.skip("no mpirun here (Debian: openmpi-bin libopenmpi-dev)")
    return OpenMpi(mpirun, env)


# ---- Ray -------------------------------------------------------------------


@pytest.fixture
def ray_here(env: dict[str, str]) -> Iterator[ray_cluster.Ray]:
    reason = ray_cluster.why_not()
    if reason:
        pytest.skip(reason)
    made = ray_cluster.Ray(env)
    yield made
    made.remove()

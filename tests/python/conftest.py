"""What the tests share: run directories, child processes, a process without our variables."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks import ANY, ASYNCIO, Main
from gpu import FakeGpu, build
from hypothesis import settings

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, Run, merge_run

# A busy machine may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of ours and no profiler from one test to the next."""
    for name in list(os.environ):
        if name.startswith(("LINEPROFILER_", "SLURM_", "OMPI_", "PMI_", "PBS_", "LSB_", "FLUX_")):
            monkeypatch.delenv(name)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    accounting.stop()
    gc.collect()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def profiler(run_dir: Path) -> Iterator[Profiler]:
    """An enabled profiler without a thread of its own."""
    made = Profiler(run_dir, "tested", snapshot_interval_s=None, sample_interval_s=None)
    yield made
    made.close()


@pytest.fixture
def finish(profiler: Profiler, run_dir: Path) -> Callable[[], Run]:
    """Close the profiler and read its run."""

    def close_and_read() -> Run:
        profiler.close()
        return merge_run(run_dir)

    return close_and_read


class Child:
    """Runs Python code in processes of its own, as a user's program would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self,
        code: str,
        *args: object,
        status: int | None = 0,
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        within: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        with self.start(code, *args, options=options, env=env, within=within) as process:
            out, err = process.communicate(timeout=120)
        if status is not None and process.returncode != status:
            pytest.fail(f"exit status {process.returncode}\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(
        self,
        code: str,
        *args: object,
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        within: tuple[str, ...] = (),
    ) -> subprocess.Popen[str]:
        """Start it; the code is a file, because children of multiprocessing import it.

        within: a command that is to start it, see support/machine.py.
        """
        script = self.folder / "main.py"
        script.write_text(code, encoding="utf-8")
        return subprocess.Popen(
            [*within, sys.executable, *options, str(script), *map(str, args)],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def json(
        self,
        code: str,
        *args: object,
        env: dict[str, str] | None = None,
        within: tuple[str, ...] = (),
    ) -> Any:
        """Run it and return what it printed last, which is JSON."""
        return json.loads(self.run(code, *args, env=env, within=within).stdout.splitlines()[-1])


@pytest.fixture
def child(tmp_path: Path) -> Child:
    folder = tmp_path / "program"
    folder.mkdir()
    return Child(folder)


def strays_of(run_dir: Path) -> list[str]:
    """Return what a run whose workers are all closed must not leave: images, and other files."""
    ours = re.compile(r"metadata\.json|workers/[^/]+/w_[^/]+\.(json|samples|gpu_samples)")
    files = [str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()]
    images = []
    for path in Path(f"/dev/shm/lineprofiler-{os.getuid()}").glob("*"):
        with contextlib.suppress(OSError):  # another program's may go at any time
            if str(run_dir).encode() in path.read_bytes()[: 1 << 16]:
                images.append(path.name)
    return images + [file for file in files if not ours.fullmatch(file)]


@pytest.fixture
def finished() -> Callable[[Path], Run]:
    """Read a run of which all workers are closed, and nothing is left but their files."""

    def read(run_dir: Path) -> Run:
        run = merge_run(run_dir)
        assert [worker.name for worker in run.workers if not worker.closed] == []
        assert [worker.source for worker in run.workers] == ["file"] * len(run.workers)
        assert run.unreadable == []
        # While children are waited for, and threads end, the I/O of an interval may not be known.
        assert [caveat for caveat in run.caveats if caveat.kind != "dropped"] == []
        assert strays_of(run_dir) == []
        return run

    return read


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    """Wait for what another thread or process is to bring about."""

    def wait(happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.005)

    return wait


@pytest.fixture(scope="session")
def faulty_calls(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a library for LD_PRELOAD, by which system calls fail and the wall clock is set."""
    library = tmp_path_factory.mktemp("faulty_calls") / "faulty_calls.so"
    source = Path(__file__).parents[1] / "support" / "faulty_calls.c"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return str(library)


@pytest.fixture(scope="session")
def fake_gpu_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("fake_gpu"))


@pytest.fixture
def fake_gpu(fake_gpu_libraries: Path, tmp_path: Path) -> FakeGpu:
    """Stand-ins for NVIDIA's libraries, in the environment that they give to child processes."""
    return FakeGpu(fake_gpu_libraries, tmp_path)


@pytest.fixture
def no_gc() -> Iterator[None]:
    """A collection in the middle of a phase is the phase's CPU time, and no news."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=ASYNCIO)
def run_exact(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Run a coroutine on asyncio; the CPU time of its tasks is exact."""
    return ASYNCIO[request.param]


@pytest.fixture(params=ANY)
def run_any(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Run a coroutine on any framework."""
    return ANY[request.param]

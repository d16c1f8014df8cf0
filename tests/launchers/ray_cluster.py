"""Ray: drivers, each of which starts a cluster of its own on this machine."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from launchers.processes import run

if TYPE_CHECKING:
    from launchers.conftest import Work
    from launchers.open_mpi import OpenMpi

# What a driver begins with. A store of objects takes a third of the memory by itself.
HEAD = """\
import asyncio
import glob
import os
import signal
import time

import ray

from lineprofiler import accounting
from lineprofiler.accounting import Profiler
from lineprofiler.integrations.ray import runtime_env


def start(env, num_cpus=8):
    ray.init(
        num_cpus=num_cpus,
        runtime_env=env,
        include_dashboard=False,
        object_store_memory=100 << 20,
    )


def gone(actor):
    try:
        ray.get(actor.__ray_ready__.remote(), timeout=60)
    except ray.exceptions.RayActorError:
        return True
    return False

"""


def why_not() -> str | None:
    return (
        None if importlib.util.find_spec("ray") else "no ray in this environment: pip install ray"
    )


class Ray:
    """Where Ray keeps what it must, and what a driver said."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # The paths of its sockets must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="ray"))
        self.env = {
            **env,
            "RAY_TMPDIR": str(self.folder),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
        }
        self.said = ""

    def run(
        self, work: Work, program: str, timeout_s: float = 300, mpi: OpenMpi | None = None
    ) -> None:
        """Run a driver; with mpi, as the one rank of its mpirun."""
        work.write("driver.py", HEAD + program)
        command = ["python", "driver.py"]
        env = {**self.env, **work.env}
        if mpi is not None:
            command, env = mpi.command(1, *command), {**env, **mpi.env}
        done = run(command, work.folder, env, None, timeout_s)
        self.said = done.stdout
        assert done.returncode == 0, done.stdout

    def start(self, work: Work, program: str) -> subprocess.Popen[bytes]:
        work.write("driver.py", HEAD + program)
        with (work.folder / "driver.out").open("wb") as out:
            return subprocess.Popen(
                ["python", "driver.py"],
                cwd=work.folder,
                env={**self.env, **work.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def start_node(self, work: Work, *options: str) -> subprocess.Popen[bytes]:
        """Start a node that outlives its drivers; never `ray stop`, which ends all there are."""
        command = ["ray", "start", "--block", "--disable-usage-stats", "--num-cpus=4"]
        with (work.folder / "node.out").open("ab") as out:
            return subprocess.Popen(
                [*command, "--object-store-memory=100000000", *options],
                cwd=work.folder,
                env={**self.env, **work.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

"""mpirun of Open MPI: the one of the system, and newer ones from PyPI."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from launchers.hosts import NAMES, NETWORK, Hosts
from launchers.native import compile_program
from launchers.processes import run

AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
# Of a machine with fewer cores than ranks; and no more of them than memory for what they share.
HERE = ("--oversubscribe", "--bind-to", "none")


def of_system() -> Path | None:
    found = shutil.which("mpirun", path="/usr/bin:/usr/local/bin")
    return Path(found) if found else None


def of_pypi() -> Path | None:
    path = Path(sys.executable).parent / "mpirun"
    return path if path.exists() else None


def version(mpirun: Path) -> int:
    said = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\(Open MPI\) (\d+)", said)
    return int(found[1]) if found else 0


def over(hosts: Hosts, ranks_each: int) -> list[str]:
    """Return options of Open MPI 4 for so many ranks on each of the hosts."""
    named = ",".join(f"{name}:{ranks_each}" for name in NAMES)
    agent = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(hosts.agent)]
    network = f"{NETWORK}.0/24"
    ways = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", network]
    return ["--host", named, *agent, *ways, "--mca", "oob_tcp_if_include", network]


class OpenMpi:
    """One mpirun, and what is run by it."""

    def __init__(self, mpirun: Path, env: Mapping[str, str]) -> None:
        self.mpirun = mpirun
        self.version = version(mpirun)
        self.env = {**env, **AS_ROOT}

    def command(self, ranks: int, *program: str | Path) -> list[str]:
        return [str(part) for part in (self.mpirun, *HERE, "-np", str(ranks), *program)]

    def run(
        self, folder: Path, ranks: int, *program: str | Path, status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        return run(self.command(ranks, *program), folder, self.env, status)

    def start(self, folder: Path, ranks: int, *program: str | Path) -> subprocess.Popen[bytes]:
        with (folder / "mpirun.out").open("wb") as out:
            return subprocess.Popen(
                self.command(ranks, *program),
                cwd=folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def compile(self, source: Path) -> Path:
        return compile_program(source, self.env, self.mpirun.with_name("mpicc"))

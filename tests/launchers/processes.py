"""What a test starts, however far down: known by a mark in its environment, and ended for sure.

Launchers hand the environment on to what they start, so the mark reaches ranks that are no children
of the test's, on other nodes and of daemons. What a launcher leaves behind is found by it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MARK = "LAUNCHER_TEST"
PATIENCE_S = 180  # on a busy machine; nothing waits as long where it goes well

OF_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "PBS_", "LSB_", "FLUX_", "TORCHELASTIC_")
OF_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def environment(mark: str) -> dict[str, str]:
    """As in a new shell in which the package's environment is active, and marked."""
    env = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("LINEPROFILER_", *OF_LAUNCHERS)) and name not in OF_RANKS
    }
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env[MARK] = mark
    return env


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Wait for what another process is to bring about."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """Whether there is such a process, and it is not just waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def command_of(folder: Path) -> str:
    """Return the command line of a process by its folder in /proc; nothing of one that is gone."""
    with contextlib.suppress(OSError):
        return (
            (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        )
    return ""


def marked(mark: str) -> dict[int, str]:
    """Return all processes with this mark, and their command lines."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and lives(int(folder.name)):
                found[int(folder.name)] = command_of(folder)
    return found


def end_marked(mark: str, grace_s: float) -> dict[int, str]:
    """Wait so long for all of a mark to end, then kill them; return those that had to be."""
    deadline = time.monotonic() + grace_s
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    while still := marked(mark):
        for pid in still:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return left


def free_ports(n: int) -> list[int]:
    """Return ports that nobody has at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def run(
    command: Sequence[str | Path],
    folder: Path,
    env: Mapping[str, str],
    status: int | None = 0,
    timeout_s: float = PATIENCE_S,
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder; its standard output and error together. status None: whatever it is."""
    done = subprocess.run(
        [str(argument) for argument in command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
    )
    assert status in (None, done.returncode), f"exit status {done.returncode}\n{done.stdout}"
    return done


class Daemons:
    """Processes of a launcher's own, which live as long as the tests need it."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = env
        self.started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, *command: str | Path) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(
                [str(argument) for argument in command],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append((name, process))

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        """End one by a signal, SIGKILL for what the end of its machine would do."""
        [found] = [pair for pair in self.started if pair[0] == name]
        found[1].send_signal(number)
        found[1].wait()
        self.started.remove(found)

    def stop(self) -> None:
        """Ask the one started last first, and wait for it; kill whoever does not go."""
        for _, process in reversed(self.started):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.started.clear()

    def said(self) -> str:
        """What they have to say, for a failure."""
        texts = {path.name: path.read_text(errors="replace") for path in self.folder.glob("*.out")}
        return "\n".join(f"{name}: {text[-1500:]}" for name, text in sorted(texts.items()) if text)

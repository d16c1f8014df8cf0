"""One run in a folder of its own: its victims, the pipes on which they tell, and their ends."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from torture.program import Program

VICTIM = Path(__file__).with_name("victim.py")
PIPE_BYTES = 1 << 20
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 60.0

Options = Mapping[str, str | int | float | Path]


def adopt_orphans() -> None:
    """Have the children of victims become ours when these die, so that we can wait for them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def disown_orphans() -> None:
    """Undo that."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)


@dataclass
class Tools:
    """What is run: the C victim and the command, and where scenes are set."""

    folder: Path  # in memory, where each flush takes no time
    disk: Path
    victim: Path | None
    command: Path
    cgroup: Path | None = None


def spawn(arguments: list[str], stdout: int, errors: Path) -> int:
    """Start a program as the leader of a process group."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_OPEN, 2, str(errors), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
    ]
    defaults = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored by Python, and inherited
    return os.posix_spawnp(
        arguments[0],
        arguments,
        clean_environment(),
        file_actions=actions,
        setpgroup=0,
        setsigdef=defaults,
    )


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("LINEPROFILER_")}


def wait_for_group(leader: int) -> int:
    """Wait until everybody in a process group is gone; return how the leader ended.

    By looking again and again: an orphan that leaves the group, as git does when it begins, wakes
    nobody who waits for the group, and the wait would go on when no one is left in it.
    """
    status = 0
    with suppress(ChildProcessError):
        while True:
            pid, raw = os.waitpid(-leader, os.WNOHANG)
            if pid == 0:
                time.sleep(0.0005)
            if pid == leader:
                status = os.waitstatus_to_exitcode(raw)
    return status


@dataclass(frozen=True)
class Ends:
    """How the streams of a victim ended."""

    closed: bool | None = False  # the profiler was closed; None: perhaps
    exact: frozenset[int] = frozenset()  # those that had told of all that they had done
    ended: frozenset[int] = frozenset()  # threads that ended while their process went on


@dataclass
class Victim:
    """A process group that plays a program."""

    program: Program
    pid: int
    pipe: int
    processes: int
    told: bytearray = field(default_factory=bytearray)
    status: int | None = None
    ends: Ends = Ends()

    def has_told(self, within_s: float = PATIENCE_S) -> bool:
        """Wait for its first byte."""
        return bool(select.select([self.pipe], [], [], within_s)[0])

    def send(self, number: int, to_all: bool) -> None:
        with suppress(ProcessLookupError):
            (os.killpg if to_all else os.kill)(self.pid, number)

    def listen(self, enough: int) -> bool:
        """Read what is told until there is so much of it, or nobody lives; False: for too long."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.told) < enough:
            if not self.has_told(max(0.0, deadline - time.monotonic())):
                return False
            piece = os.read(self.pipe, PIPE_BYTES)
            if not piece:
                break
            self.told += piece
        return True

    def wait(self) -> bool:
        """Wait until everybody is dead. False: it had to be killed."""
        in_time = self.listen(sys.maxsize)
        if not in_time:
            self.send(signal.SIGKILL, to_all=True)
        self.status = wait_for_group(self.pid)
        os.close(self.pipe)
        return in_time

    def done(self, stream: int) -> int:
        """Return how many operations a stream is known to have done."""
        return self.told.count(stream)


class Scene:
    """A run directory and all that happens around it."""

    def __init__(self, tools: Tools, name: str, on_disk: bool = False) -> None:
        self.tools = tools
        self.folder = (tools.disk if on_disk else tools.folder) / name
        self.run_dir = self.folder / "run"
        self.run_id = name
        self.victims: list[Victim] = []
        self.faults: list[str] = []
        self.killed_adopters = 0
        self.began_ns = time.monotonic_ns()
        self.folder.mkdir(parents=True)

    @property
    def lived_ns(self) -> int:
        """For so long at most its victims have lived."""
        return time.monotonic_ns() - self.began_ns

    @property
    def closed(self) -> set[bool]:
        """Whether its victims closed their profilers; both, where that is not known."""
        closed = {victim.ends.closed for victim in self.victims}
        return {True, False} if None in closed else {bool(one) for one in closed}

    @property
    def deaths(self) -> int:
        """How many processes died."""
        return self.killed_adopters + sum(victim.processes for victim in self.victims)

    @property
    def errors(self) -> Path:
        return self.folder / "stderr"

    def start(
        self,
        language: str,
        program: Program,
        options: Options | None = None,
        inside: Sequence[str] = (),
    ) -> Victim:
        """Start a victim, with options of victim.c, inside of another command if need be."""
        text = self.folder / f"program_{len(self.victims)}"
        text.write_text(program.text(), encoding="utf-8")
        ends, told = os.pipe()
        fcntl.fcntl(ends, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        if language == "c":
            assert self.tools.victim is not None
            start = [str(self.tools.victim)]
        else:
            start = [sys.executable, "-P", str(VICTIM)]
        words = [f"{key}={value}" for key, value in (options or {}).items()]
        arguments = [*inside, *start, str(self.run_dir), self.run_id, str(text), *words]
        pid = spawn(arguments, told, self.errors)
        os.close(told)
        victim = Victim(program, pid, ends, 1 + int(str((options or {}).get("forks", 0))))
        self.victims.append(victim)
        return victim

    def wait(self, victim: Victim, *statuses: int) -> None:
        """Wait for its end; what it did not end as is a fault."""
        if not victim.wait():
            self.faults.append(f"HANG: it had to be killed after {PATIENCE_S:.0f} s")
        elif victim.status not in statuses:
            self.faults.append(f"STATUS: {victim.status}, not {' or '.join(map(str, statuses))}")

"""A terminal with a program on it: what it shows, what is typed, what the program leaves behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

# What a shell does with one job: runs it in the foreground, and takes the terminal back when it
# stops or ends. Says whether the terminal's modes are then as they were.
SHELL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
before = termios.tcgetattr(0)
said = os.fdopen(int(sys.argv[1]), "w", buffering=1)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])
said.write(f"job {job}\\n")
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpid())
    modes = "sane" if termios.tcgetattr(0) == before else "spoilt"
    if not os.WIFSTOPPED(status):
        break
    said.write(f"stopped {os.WSTOPSIG(status)} {modes}\\n")
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
    os.kill(-job, signal.SIGCONT)
said.write(f"ended {os.waitstatus_to_exitcode(status)} {modes}\\n")
"""


class Terminal:
    """A program on a terminal of its own, under something like a shell."""

    def __init__(
        self,
        command: Sequence[str],
        rows: int = 24,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.output = b""
        self.ours, theirs = pty.openpty()
        said, says = os.pipe()
        self.said = os.fdopen(said)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.shell = subprocess.Popen(
            [sys.executable, "-I", "-c", SHELL, str(says), *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            pass_fds=[says],
        )
        os.close(theirs)
        os.close(says)
        self.pid = int(self.said.readline().split()[1])

    def read(self, timeout_s: float) -> bool:
        """Take in what it shows next; False if there is nothing, or nobody any more."""
        if self.ours < 0 or not select.select([self.ours], [], [], timeout_s)[0]:
            return False
        try:
            piece = os.read(self.ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.output += piece
        self.stream.feed(piece)
        return bool(piece)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait(self, happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline, f"it never happened on this screen:\n{self.text}"
            self.read(0.1)

    def wait_for(self, pattern: str) -> None:
        self.wait(lambda: re.search(pattern, self.text))

    def type(self, keys: str | bytes) -> None:
        os.write(self.ours, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, rows: int, columns: int) -> None:
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        os.close(self.ours)
        self.ours = -1

    def next_said(self) -> list[str]:
        """Return what the shell says next: "stopped" or "ended", a number, the modes."""
        self.wait(lambda: self.read(0) or select.select([self.said], [], [], 0.05)[0])
        while self.read(0):
            pass
        if not select.select([self.said], [], [], 0)[0]:
            return self.next_said()
        return self.said.readline().split()

    def close(self) -> None:
        if self.ours >= 0:
            self.hang_up()
        self.said.close()
        self.shell.kill()
        self.shell.wait()

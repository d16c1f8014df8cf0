"""A victim in Python: what victim.c is, and what only Python programs do.

end=exception    an uncaught exception; the process ends as Python processes do
end=sys_exit     sys.exit(5) on the stream `by`, be it the main thread or another
handler=python_before, python_after
                 a handler in Python, set before or after the profiler is made

The profiler is left to the end of the process: nobody closes it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from lineprofiler.accounting import Profiler

PR_SET_PDEATHSIG = 1


class Victim:
    """Its streams, and what is to befall them."""

    def __init__(self, run_dir: str, run_id: str, program: str, options: dict[str, str]) -> None:
        self.options = options
        self.forks = int(options.get("forks", "0"))
        self.fork_at = int(options.get("fork_at", "0"))
        self.how, self.by, self.at = (options.get(key, "0") for key in ("end", "by", "at"))
        self.stop = False
        self.hoard: list[bytearray] = []
        self.opened: list[list[Callable[[None, None, None], object]]] = []
        lines = Path(program).read_text(encoding="utf-8").splitlines()
        self.lines = [[read(word) for word in line.split()] for line in lines]
        if "cgroup" in options:
            Path(options["cgroup"]).write_text(str(os.getpid()), encoding="utf-8")
        self.handle("python_before")
        interval_s = float(options.get("interval", "0")) or None
        self.profiler = Profiler(
            run_dir,
            "victim",
            run_id=run_id,
            snapshot_interval_s=interval_s,
            sample_interval_s=None,
        )
        self.handle("python_after")
        if "snapshots" in options:
            threading.Thread(target=self.snapshots, daemon=True).start()

    def handle(self, when: str) -> None:
        handler = self.options.get("handler")
        if handler == "ignored" and when == "python_before":
            signal.signal(int(self.options["signal"]), signal.SIG_IGN)
        elif handler == when:
            signal.signal(int(self.options["signal"]), self.on_signal)

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.options["then"] == "exit":
            os._exit(42)
        self.stop = True
        raise SystemExit(43)

    def snapshots(self) -> None:
        while True:
            self.profiler.snapshot()

    def hog(self) -> None:
        while True:
            self.hoard.append(bytearray(b"1" * (1 << 20)))

    def end(self) -> None:
        match self.how:
            case "exit":
                os._exit(7)
            case "segv":
                ctypes.string_at(0)
            case "abort":
                os.abort()
            case "exec":
                os.execv("/bin/true", ["true"])
            case "hog":
                threading.Thread(target=self.hog, daemon=True).start()
            case "exception":
                self.stop = True
                raise RuntimeError("the victim fails")
            case "sys_exit":
                sys.exit(5)

    def play_all(self, index: int) -> None:
        each = len(self.lines) // (1 + self.forks)
        first = index * each
        for i in range(first + 1, first + each):
            threading.Thread(target=self.play, args=(i,)).start()
        self.play(first)

    def fork_all(self) -> None:
        for i in range(1, 1 + self.forks):
            if os.fork() == 0:
                self.play_all(i)
                os._exit(0)

    def play(self, stream: int) -> None:
        phase, count, line = self.profiler.phase, self.profiler.count, self.lines[stream]
        byte, at = bytes([stream]), int(self.at) if stream == int(self.by) else -1
        opened: list[Callable[[None, None, None], object]] = []
        self.opened.append(opened)  # beyond this call, too
        done, until = 0, int(self.options.get("turns", str(1 << 62)))
        while not self.stop and done < until:
            if done == self.fork_at and stream == 0 and self.forks:
                self.fork_all()
            if done == at:
                self.end()
            kind, name, n = line[done % len(line)]
            if kind == "+":
                entry = phase(name)
                opened.append(entry.__exit__)  # first, as `with` does: what nobody holds ends
                entry.__enter__()
            elif kind == "-":
                opened.pop()(None, None, None)
            else:
                count(name, n)
            os.write(1, byte)
            done += 1


def read(word: str) -> tuple[str, str, int]:
    name, _, n = word[1:].partition(":")
    return word[0], name, int(n or 0)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    directory, run, played = sys.argv[1:4]
    victim = Victim(directory, run, played, dict(word.split("=", 1) for word in sys.argv[4:]))
    victim.play_all(0)  # and it stays, with what it has open

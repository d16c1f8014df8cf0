"""Variables that an enabled profiler shows to child processes, and takes back when it is closed."""

from __future__ import annotations

import os
import sys

# Of all profilers of this process that are not closed, in the order in which they began.
_exports: list[Export] = []


class Export:
    """Values put into the environment, and what stood there before.

    Several may lie on top of each other and be taken back in any order. What the program set
    meanwhile is left alone.
    """

    __slots__ = ("_before", "_values")

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        self._before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        _exports.append(self)

    def take_back(self) -> None:
        """Restore what stood there before, once."""
        if self not in _exports:
            return
        index = _exports.index(self)
        above = _exports[index + 1 : index + 2]
        del _exports[index]
        for name, ours in self._values.items():
            if above:
                above[0]._replace_before(name, ours, self._before[name])
            elif os.environ.get(name) == ours:
                _put(name, self._before[name])

    def _replace_before(self, name: str, old: str, new: str | None) -> None:
        if self._before.get(name) == old:
            self._before[name] = new


def exporter() -> str | None:
    """Return the worker whose profiler exported the run; None: nobody, or it was set by hand."""
    worker, _, signed = os.environ.get("LINEPROFILER_EXPORTED", "").partition(":")
    run_dir, run_id = (os.environ.get(f"LINEPROFILER_RUN_{name}") for name in ("DIR", "ID"))
    return worker if worker and signed == f"{run_id}:{run_dir}" else None


def outlived() -> bool:
    """Whether a forkserver handed on what a profiler exported that is closed since.

    Its children inherit the environment of the moment when it began. Here that matters only if no
    profiler is open any more: src/worker/join.h sees to the rest. Other children of the program
    that are started once the profiler is closed find no variables; this is to be as for them.
    """
    process = sys.modules.get("multiprocessing.process")
    parent = process.parent_process() if process is not None else None
    worker = exporter()
    run_dir = os.environ.get("LINEPROFILER_RUN_DIR", "")
    if parent is None or worker is None:
        return False
    if parent.pid == os.getppid() or f"_{parent.pid}_" not in worker:
        return False
    try:
        return not _began_with_switch(parent.pid) and _began_s() > _closed_s(run_dir, worker)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False  # not known: the environment counts


def _began_with_switch(pid: int) -> bool:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return b"LINEPROFILER_PROFILE=" in file.read()


def _began_s() -> float:
    """Return when this process began, in seconds since the machine did, up to 10 ms early."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def _closed_s(run_dir: str, worker: str) -> float:
    """Return when the worker was closed; for ever from now if it is not."""
    import glob
    import json

    pattern = os.path.join(glob.escape(run_dir), "workers", "*", glob.escape(worker) + ".json")
    with open(glob.glob(pattern)[0], encoding="utf-8") as file:
        document = json.load(file)
    closed = document["state"] == "closed"
    return float(document["written"]["boottime_ns"]) / 1e9 if closed else float("inf")


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value

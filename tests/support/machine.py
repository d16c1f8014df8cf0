"""A machine with something wrong with it, for one program alone: mounts and pids of its own.

A test says by a line of shell what is to be wrong; it happens in namespaces that only the program
of the test is in, and goes when the program ends. Where this machine forbids it, the test is
skipped with what the machine said.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SHELL = ("sh", "-euc")
MOUNTS = ("unshare", "--mount", "--propagation", "private")
# Pids too: the program is the first process, and whatever it started ends with it.
PIDS = (*MOUNTS, "--pid", "--fork", "--kill-child", "--mount-proc")

# A /dev/shm of its own.
OWN_SHM = "mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm"


@cache
def _refusal(namespaces: tuple[str, ...], setup: str) -> str | None:
    """Return why this cannot be had here; None if it can."""
    command = [*namespaces, *SHELL, setup]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return str(error)
    said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return None if done.returncode == 0 else said[0]


def within(setup: str, namespaces: tuple[str, ...] = MOUNTS) -> tuple[str, ...]:
    """Return what to put before a command, so that it runs where the setup was done; or skip."""
    refusal = _refusal(namespaces, setup)
    if refusal is not None:
        pytest.skip(f"this machine does not let us stage it: {refusal}")
    return (*namespaces, *SHELL, setup + '\nexec "$@"', "sh")


def as_nobody(*needed: Path) -> tuple[str, ...]:
    """Return what to put before a command, so that it has nobody's rights; or skip.

    In a machine in which nobody reaches the interpreter and these paths, wherever they are.
    """
    lines = ["mount -t tmpfs none /mnt"]
    for i, path in enumerate([Path(sys.base_prefix), *needed]):
        closed = [p for p in [*reversed(path.parents), path] if not p.stat().st_mode & 0o001]
        if closed:
            lines += [f"mkdir /mnt/{i}", f"mount --bind {path} /mnt/{i}"]
            lines += [f"mount -t tmpfs -o mode=755 none {closed[0]}", f"mkdir -p {path}"]
            lines += [f"mount --bind /mnt/{i} {path}"]
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    reached = " && ".join(f"test -x {path}" for path in (sys.executable, *needed))
    lines += [f"{' '.join(user)} sh -c '{reached}'"]
    return (*within("\n".join(lines)), *user)


# What programs of these tests begin with. Warnings are errors but where a program says otherwise.
PRELUDE = """
import contextlib, errno, json, os, signal, sys, threading, time, warnings
from pathlib import Path
from lineprofiler.accounting import Profiler, merge_run
warnings.simplefilter("error")

def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)

def document(profiler):
    return json.loads(profiler.document())

def failed(profiler):
    return document(profiler)["troubles"].get("failed_flushes", 0)

def flush_of(path):
    with contextlib.suppress(FileNotFoundError):
        return json.loads(Path(path).read_text())["flush"]
    return 0

def fill(path):
    # Leaves no byte free on that file system.
    with open(path, "wb", buffering=0) as file:
        for block in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(block)):
                    pass

def files_of(run_dir):
    # But for samples, of which there are some or none as time has it.
    return sorted(str(p.relative_to(run_dir)) for p in Path(run_dir).rglob("*")
                  if not p.is_dir() and p.suffix != ".samples")

def facts(run):
    # What a test asserts of a run that it cannot read itself, because it is on a mount of ours.
    return {
        "calls": {"/".join(path): node.calls for path, node in run.tree.items()},
        "open": {"/".join(path): node.open_calls for path, node in run.tree.items()},
        "caveats": {caveat.kind: caveat.text for caveat in run.caveats},
        "metadata": run.run_id in (run.metadata or {}).get("runs", {}),
        "sources": [worker.source for worker in run.workers],
        "closed": [worker.closed for worker in run.workers],
        "image": [json.loads(path.read_text())["image"]
                  for path in sorted(Path(run.dir).glob("workers/*/*.json"))],
        "unreadable": [unreadable.reason for unreadable in run.unreadable],
    }

def tell(**what):
    print(json.dumps(what))
"""

"""F8: what SIGTERM, SIGUSR1 and SIGHUP do in Python programs."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Child

SIGNALS = ["SIGTERM", "SIGUSR1", "SIGHUP"]

# Records three entries, of which the file has but the first, then says so and runs what follows.
BEGIN = """
import os, signal, sys, time
from pathlib import Path
from lineprofiler.accounting import Profiler

def begin(**options):
    global profiler
    options = {"snapshot_interval_s": 3600.0, "sample_interval_s": None, **options}
    profiler = Profiler(sys.argv[1], **options)
    for _ in range(3):
        with profiler.phase("a"):
            pass
        while options["snapshot_interval_s"] and not Path(profiler.path).exists():
            time.sleep(0.001)

number = getattr(signal, sys.argv[2])
"""


def calls_in_file(run_dir: Path) -> int:
    [path] = run_dir.glob("workers/*/*.json")
    document: dict[str, Any] = json.loads(path.read_text())
    return sum(node.get("calls", 0) for thread in document["threads"] for node in thread["nodes"])


@pytest.mark.parametrize("interval", [3600.0, None])
@pytest.mark.parametrize("name", SIGNALS)
def test_the_default_writes_and_ends_the_process_F8(
    name: str, interval: float | None, child: Child, run_dir: Path
) -> None:
    code = BEGIN + f"begin(snapshot_interval_s={interval!r})\nos.kill(os.getpid(), number)\n"
    in_file = []
    # The handler waits a second for the file, and a busy machine may stand still for longer.
    for attempt in range(3):
        result = child.run(code, run_dir / str(attempt), name, status=None)
        assert result.returncode == -getattr(signal, name)
        assert result.stderr == ""
        in_file.append(calls_in_file(run_dir / str(attempt)))
        if in_file[-1] == 3:
            break
    assert in_file[-1] == 3, in_file


@pytest.mark.parametrize("name", SIGNALS)
def test_a_handler_of_the_programs_still_runs_F8(name: str, child: Child, run_dir: Path) -> None:
    code = """
import json
seen = []

def handler(number, frame):
    threads = json.loads(Path(profiler.path).read_text())["threads"]
    seen.append(sum(node.get("calls", 0) for t in threads for node in t["nodes"]))

signal.signal(number, handler)
begin()
assert signal.getsignal(number) is handler
os.kill(os.getpid(), number)
time.sleep(0)
assert seen == [3], seen
profiler.close()
os.kill(os.getpid(), number)
time.sleep(0)
assert len(seen) == 2
"""
    child.run(BEGIN + code, run_dir, name)


@pytest.mark.parametrize("name", SIGNALS)
def test_a_later_handler_is_not_touched_F8(name: str, child: Child, run_dir: Path) -> None:
    code = """
seen = []
begin()
signal.signal(number, lambda *_: seen.append(1))
with profiler.phase("b"):
    os.kill(os.getpid(), number)
    time.sleep(0)
profiler.close()
os.kill(os.getpid(), number)
time.sleep(0)
assert seen == [1, 1]
"""
    child.run(BEGIN + code, run_dir, name)


def test_ignored_signals_and_given_back_ones_F8(child: Child, run_dir: Path) -> None:
    code = """
def dispositions():
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":") for line in lines)
    # libc's own, from 32 on, come with threads.
    return [int(fields[name], 16) & 0x7FFFFFFF for name in ("SigIgn", "SigCgt")]

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
before = dispositions()
begin()
assert dispositions() != before
os.kill(os.getpid(), signal.SIGHUP)
profiler.close()
assert dispositions() == before
os.kill(os.getpid(), signal.SIGHUP)
"""
    child.run(BEGIN + code, run_dir, "SIGHUP")


def test_opened_on_another_thread_FK19_F8(child: Child, run_dir: Path) -> None:
    code = """
import threading
thread = threading.Thread(target=begin)
thread.start()
thread.join()
os.kill(os.getpid(), number)
"""
    result = child.run(BEGIN + code, run_dir, "SIGTERM", status=None)
    assert result.returncode == -signal.SIGTERM
    assert calls_in_file(run_dir) == 3


def test_a_signal_to_a_callback_does_not_hang_F8(child: Child, run_dir: Path) -> None:
    """The thread that writes cannot wait for itself."""
    code = """
import threading
done = threading.Event()
signal.signal(number, lambda *_: None)
begin(snapshot_interval_s=0.01)

@profiler.on_snapshot
def callback(tree):
    signal.pthread_kill(threading.get_ident(), number)
    done.set()

assert done.wait(60)
profiler.close()
"""
    child.run(BEGIN + code, run_dir, "SIGUSR1")

"""`lineprofiler where`, as a user runs it: real processes that hang, looked at from outside."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler.accounting import decode_text, merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
NATIVE = [str(Path(sys.executable).parent / "lineprofiler")]
MODULE = [sys.executable, "-P", "-m", "lineprofiler"]
STARTS = pytest.mark.parametrize("start", [NATIVE, MODULE], ids=["native", "module"])
BUSY = {"on_cpu", "partly_on_cpu", "runnable"}
S = 10**9

Wait = Callable[[Callable[[], bool]], None]


def where(*words: object, start: list[str] = NATIVE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*start, "where", *map(str, words)],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        timeout=60,
    )


def text_of(*words: object) -> str:
    done = where(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def json_of(*words: object) -> Any:
    return json.loads(text_of(*words, "--json"))


def thread_of(document: Any, name: str = "MainThread", pid: int | None = None) -> Any:
    found = [
        thread
        for worker in document["workers"]
        for thread in worker["threads"]
        if thread["name"] == name and pid in (None, worker["pid"])
    ]
    assert len(found) == 1
    return found[0]


def names(stack: Any) -> list[str]:
    return [frame["name"] for frame in stack["frames"]]


PROGRAM = """
import asyncio, os, signal, sys, threading, time
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "actor", snapshot_interval_s=None, sample_interval_s=None)
phase = profiler.phase
held = threading.Lock()
held.acquire()

def ready():
    print("ready", flush=True)

def hang():
    ready()
    sys.stdin.read()
"""


@contextmanager
def program(child: Child, run_dir: Path, code: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Start it and wait until it hangs; it is killed in the end, and nothing is left of it."""
    script = child.folder / "main.py"
    script.write_text(PROGRAM + code, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script), str(run_dir)],
        cwd=child.folder,
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait(60)
            if run_dir.is_dir():
                where(run_dir)


HANGING = """
with phase("iteration"):
    with phase("mcts"):
        time.sleep(0.001)
    hang()
"""


# ---- a thread ------------------------------------------------------------------------------


@STARTS
def test_open_phases_from_the_outside_in(child: Child, run_dir: Path, start: list[str]) -> None:
    code = """
with phase("iteration"):
    with phase("self_play"):
        with phase("mcts"):
            with phase("select"):
                pass
            hang()
"""
    before = time.monotonic_ns()
    with program(child, run_dir, code) as process:
        hung = time.monotonic_ns()
        done = where(run_dir, "--json", start=start)
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        after = time.monotonic_ns()
        text = text_of(run_dir)
    (worker,) = document["workers"]
    assert (worker["pid"], worker["role"], worker["rank"]) == (process.pid, "actor", None)
    assert document["run"]["processes"] == 1
    thread = thread_of(document)
    assert thread["tid"] == process.pid
    (stack,) = thread["stacks"]
    assert names(stack) == ["iteration", "self_play", "mcts"]
    opens = [frame["open_ns"] for frame in stack["frames"]]
    assert opens == sorted(opens, reverse=True)
    assert after - before >= opens[0] >= opens[-1] >= thread["quiet_ns"] > 0
    assert after - hung >= 0
    assert thread["last_finished"]["path"] == ["iteration", "self_play", "mcts", "select"]
    assert thread["last_finished"]["ago_ns"] == thread["quiet_ns"]
    assert (stack["task"], stack["runs"], stack["not_measured"]) == (False, True, False)
    assert re.search(r"iteration \S+ > self_play \S+ > mcts \S+\n", text)
    assert re.search(r"last finished select \S+ ago", text)


def test_waiting_and_working_threads(child: Child, run_dir: Path) -> None:
    code = """
def wait():
    with phase("wait_for_lock"):
        held.acquire()

def work(begun):
    with phase("spin"):
        begun.set()
        while True:
            pass

for name, target, args in [("waits", wait, ()), ("works", work, (threading.Event(),))]:
    threading.Thread(target=target, args=args, name=name, daemon=True).start()
    if args:
        args[0].wait()
with phase("main"):
    hang()
"""
    with program(child, run_dir, code):
        for _ in range(20):  # other programs may need all cores for a while
            document = json_of(run_dir)
            if thread_of(document, "works")["state"] in BUSY:
                break
    waits, works = thread_of(document, "waits"), thread_of(document, "works")
    assert names(waits["stacks"][0]) == ["wait_for_lock"]
    assert (waits["state"], waits["kernel_state"]) == ("waiting", "S")
    assert waits["cpu_share"] < 0.25
    assert names(works["stacks"][0]) == ["spin"]
    assert works["state"] in BUSY
    assert works["wait_channel"] is None
    assert thread_of(document)["state"] == "waiting"


def test_threads_with_nothing_open_are_told_apart(child: Child, run_dir: Path) -> None:
    code = """
def idle():
    with phase("fetch"):
        pass
    done.set()
    held.acquire()

def gone():
    with phase("fetch"):
        pass

done = threading.Event()
for target in (gone, idle):
    thread = threading.Thread(target=target, name=target.__name__, daemon=True)
    thread.start()
    thread.join() if target is gone else done.wait()
with phase("main"):
    hang()
"""
    with program(child, run_dir, code):
        document, text = json_of(run_dir), text_of(run_dir)
    assert [
        thread["name"] for thread in document["workers"][0]["threads"] if thread["name"] == "gone"
    ] == []
    assert thread_of(document, "idle")["stacks"] == []
    assert re.search(  # wherever the line is broken
        r"nothing open: actor idle · pid \d+ · waiting( ·|\n)\s+last finished fetch \S+ ago\n", text
    )
    assert text.index(" main ") < text.index("nothing open")


def test_a_stopped_worker(child: Child, run_dir: Path, wait_until: Wait) -> None:
    with program(child, run_dir, HANGING) as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: thread_of(json_of(run_dir))["kernel_state"] == "T")
        document, text = json_of(run_dir), text_of(run_dir)
        process.send_signal(signal.SIGCONT)
    assert thread_of(document)["state"] == "stopped"
    assert names(thread_of(document)["stacks"][0]) == ["iteration"]
    assert re.search(r"stopped +ACTOR MainThread", text)


def test_a_sampled_entry_that_is_not_measured(child: Child, run_dir: Path) -> None:
    code = """
with phase("iteration"):
    with phase("rare", sample=0.01):
        pass
    with phase("rare", sample=0.01):
        hang()
"""
    with program(child, run_dir, code):
        document, text = json_of(run_dir), text_of(run_dir)
    (stack,) = thread_of(document)["stacks"]
    assert names(stack) == ["iteration"]
    assert stack["not_measured"]
    assert "> (sampled, not measured)\n" in text


# ---- tasks -----------------------------------------------------------------------------------

TASKS = """
async def handle(i, event):
    with phase("handle"):
        with phase("query"):
            await event.wait()

async def block():
    with phase("blocks_the_loop"):
        hang()

async def main():
    tasks = [asyncio.create_task(handle(i, asyncio.Event())) for i in range(30)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if sys.argv[2:] == ["block"]:
        await asyncio.create_task(block())
    await asyncio.get_running_loop().run_in_executor(None, hang)

with phase("serve"):
    asyncio.run(main())
"""


def test_tasks_that_all_wait(child: Child, run_dir: Path) -> None:
    with program(child, run_dir, TASKS):
        document, text = json_of(run_dir), text_of(run_dir)
    own, *tasks = thread_of(document)["stacks"]
    assert (own["task"], names(own)) == (False, ["serve"])
    assert own["runs"]
    assert [names(task) for task in tasks] == [["handle", "query"]] * 30
    assert all(task["task"] and task["runs"] is False for task in tasks)
    assert thread_of(document)["state"] == "waiting"
    assert re.search(
        r"suspended +ACTOR MainThread · 30 tasks · pid \d+\n +handle \S+ > query ", text
    )
    assert text.count("handle") == 1


def test_a_task_that_blocks_the_loop(child: Child, run_dir: Path) -> None:
    code = TASKS.replace('sys.argv[2:] == ["block"]', "True")
    with program(child, run_dir, code):
        document = json_of(run_dir)
    running = [stack for stack in thread_of(document)["stacks"] if stack["runs"]]
    assert [names(stack) for stack in running] == [["blocks_the_loop"]]


def test_without_cpu_time_nobody_knows_which_task_runs(child: Child, run_dir: Path) -> None:
    code = TASKS.replace("async def handle", PLAIN + "async def handle", 1)
    with program(child, run_dir, code):
        document = json_of(run_dir)
    assert {stack["runs"] for stack in thread_of(document)["stacks"]} == {None}


PLAIN = """
profiler.close()
profiler = Profiler(sys.argv[1], "actor", measure_cpu=False, snapshot_interval_s=None)
phase = profiler.phase

"""


# ---- many workers ------------------------------------------------------------------------------

MANY = """
profiler.close()

def actor(rank):
    os.environ["RANK"] = str(rank)
    own = Profiler(sys.argv[1], "actor", run_id="one", snapshot_interval_s=None)
    with own.phase("iteration"):
        with own.phase("all_reduce" if rank != 5 else "load_batch"):
            os.write(pipe[1], b"x")
            time.sleep(600)

pipe = os.pipe()
pids = []
for rank in range(8):
    pid = os.fork()
    if pid == 0:
        actor(rank)
    pids.append(pid)
for _ in pids:
    os.read(pipe[0], 1)
print(*pids, file=open(sys.argv[1] + "/pids", "w"), flush=True)
try:
    hang()
finally:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
"""


@contextmanager
def many(child: Child, run_dir: Path) -> Iterator[list[int]]:
    with program(child, run_dir, MANY) as process:
        pids = [int(word) for word in (run_dir / "pids").read_text().split()]
        try:
            yield pids
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def test_the_odd_one_stands_by_itself(child: Child, run_dir: Path) -> None:
    with many(child, run_dir) as pids:
        text = text_of(run_dir)
        ranks = {worker["rank"]: worker["pid"] for worker in json_of(run_dir)["workers"]}
    assert ranks == dict(enumerate(pids))
    assert "8 of 8 workers live on this machine" in text
    assert "7 workers · ranks 0-4, 6, 7\n" in text
    assert f"· rank 5, pid {pids[5]}\n" in text
    assert text.count("all_reduce") == text.count("load_batch") == 1


def test_one_that_was_killed(child: Child, run_dir: Path, wait_until: Wait) -> None:
    with many(child, run_dir) as pids:
        os.kill(pids[2], signal.SIGKILL)
        wait_until(lambda: len(json_of(run_dir)["ended"]) == 1)
        document, text = json_of(run_dir), text_of(run_dir)
    (ended,) = document["ended"]
    assert (ended["pid"], ended["rank"]) == (pids[2], 2)
    assert [stack["path"] for stack in ended["open"]] == ["iteration/all_reduce"]
    assert len(document["workers"]) == 7
    assert document["run"]["processes"] == 8
    assert "7 of 8 workers live on this machine" in text
    assert "ENDED WITHOUT CLOSE: 1 worker\n" in text
    assert f"  actor rank 2 pid {pids[2]}" in text
    # Its image was adopted: the worker's file is there, and says so.
    dead = [worker for worker in merge_run(run_dir).workers if worker.pid == pids[2]]
    assert [(worker.source, worker.ended is not None) for worker in dead] == [("file", True)]


def terminal(*words: object, rows: int) -> str:
    """Run it on a terminal of so many lines and return what that has shown."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    shown = b""
    with subprocess.Popen(
        [*NATIVE, "where", *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ["PATH"], "TERM": "xterm", "NO_COLOR": "1"},
    ) as process:
        os.close(theirs)
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # The other end is closed.
                break
            if not piece:
                break
            shown += piece
        assert process.wait(60) == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_keeps_what_is_quiet_longest(child: Child, run_dir: Path) -> None:
    code = """
def stand(name, begun):
    with phase(name):
        begun.set()
        held.acquire()

for i in range(12):
    begun = threading.Event()
    threading.Thread(target=stand, args=("abcdefghijkl"[i] * 5, begun), daemon=True).start()
    begun.wait()
hang()
"""
    with program(child, run_dir, code):
        shown, everything = terminal(run_dir, rows=16), terminal(run_dir, "--all", rows=16)
    assert len(shown.splitlines()) <= 15
    assert "aaaaa" in shown
    assert "lllll" not in shown
    assert re.search(r"and \d+ more, quiet for less.*--all", shown)
    places = [everything.index(letter * 5) for letter in "abcdefghijkl"]
    assert places == sorted(places)


# ---- other nodes, other runs ----------------------------------------------------------------


def copy_from_another_node(run_dir: Path, to: Path, age_s: float) -> None:
    """As a file of another machine looks, written so long ago by a clock that runs with ours."""
    shutil.copytree(run_dir, to)
    for path in to.glob("workers/*/*.json"):
        document = json.loads(path.read_text())
        document["boot_id"] = "00000000-0000-0000-0000-000000000000"
        document["host"] = "node08"
        document["written"]["realtime_ns"] = time.time_ns() - int(age_s * S)
        path.write_text(json.dumps(document))
        os.utime(path, (0, 0))  # CK05: nobody asks when it was changed


@pytest.mark.parametrize("age_s", [3600, -3600])
def test_workers_of_other_nodes_CK05(
    child: Child, run_dir: Path, tmp_path: Path, age_s: int
) -> None:
    copied = tmp_path / "copied"
    code = """
with phase("iteration"):
    with phase("all_reduce"):
        profiler.snapshot()
        hang()
"""
    with program(child, run_dir, code) as process:
        copy_from_another_node(run_dir, copied, age_s)
        document, text = json_of(copied), text_of(copied)
    assert document["workers"] == []
    (other,) = document["elsewhere"]
    assert (other["host"], other["pid"], other["same_clock"]) == ("node08", process.pid, False)
    assert [stack["path"] for stack in other["open"]] == ["iteration/all_reduce"]
    assert "0 of 1 worker live on this machine" in text
    assert f"open then: actor pid {process.pid} in iteration/all_reduce" in text
    if age_s > 0:
        assert 3600 * S <= other["age_ns"] < 3800 * S
        assert re.search(
            r"node08 · 1 worker · newest file 1h 0\dm old by that node's clock\n", text
        )
    else:
        assert other["age_ns"] is None
        assert "ahead of this machine's clock, by that node's clock\n" in text


def test_a_worker_of_this_machine_whose_image_is_gone(child: Child, run_dir: Path) -> None:
    code = """
with phase("iteration"):
    profiler.snapshot()
    hang()
"""
    with program(child, run_dir, code):
        copied = run_dir.parent / "copied"
        shutil.copytree(run_dir, copied)
        document, text = json_of(copied), text_of(copied)
    (other,) = document["elsewhere"]
    assert other["same_clock"]
    assert other["age_ns"] < 120 * S
    assert "live state not to be seen from here" in text
    assert "by that node's clock" not in text


def test_closed_workers_are_counted(child: Child, run_dir: Path) -> None:
    child.run(
        """
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], "actor") as profiler:
    with profiler.phase("x"):
        pass
""",
        run_dir,
    )
    document, text = json_of(run_dir), text_of(run_dir)
    assert document["run"]["closed_processes"] == document["run"]["processes"] == 1
    assert (document["workers"], document["elsewhere"], document["ended"]) == ([], [], [])
    assert "0 of 1 worker live on this machine" in text
    assert "1 worker has closed\n" in text


# ---- whatever is there -------------------------------------------------------------------------

NASTY = [
    "with/slash",
    "nul\0inside",
    "newline\nand\ttab",
    "\x1b[31mred",
    "looks \\x00 \\udcff escaped",
    "lone \udcff surrogate",
    "训练步骤",
    "x" * 300,
]


def test_names_of_any_content_in_text_and_json(child: Child, run_dir: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    code = f"""
entries = [phase(name) for name in {NASTY!a}]
for entry in entries:
    entry.__enter__()
hang()
"""
    with program(child, run_dir, code):
        document, text = json_of(run_dir), text_of(run_dir)
    schema = json.loads((ROOT / "docs" / "where.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    (stack,) = thread_of(document)["stacks"]
    assert [decode_text(name) for name in names(stack)] == NASTY
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("missing", [True, False])
@STARTS
def test_no_run_there_K15(tmp_path: Path, missing: bool, start: list[str]) -> None:
    folder = tmp_path / "nothing" if missing else tmp_path
    done = where(folder, start=start)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lineprofiler where: ")
    assert str(folder) in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_usage_K15(tmp_path: Path) -> None:
    for words in ([], [tmp_path, tmp_path], ["--jsn", tmp_path], ["--color", "pink", tmp_path]):
        done = where(*words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "usage: lineprofiler where" in text_of("--help")

"""`lineprofiler top`, as a user runs it: on live runs, as plain text and on a real terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from terminal import Terminal

pytestmark = pytest.mark.core

NATIVE = [str(Path(sys.executable).parent / "lineprofiler")]
MODULE = [sys.executable, "-P", "-m", "lineprofiler"]
STARTS = pytest.mark.parametrize("start", [NATIVE, MODULE], ids=["native", "module"])

# Steps of 5 ms in phases of these names, until its stdin ends.
PROGRAM = """
import sys, threading
from lineprofiler.accounting import Profiler

stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
role, *names = sys.argv[2:]
said = False
with Profiler(sys.argv[1], role, run_id="r1", snapshot_interval_s=None) as profiler:
    with profiler.phase("loop"):
        while not stop.is_set():
            for name in names:
                with profiler.phase(name):
                    profiler.count("games", 2)
                    stop.wait(0.005)
            if not said:
                said = print("ready", flush=True) is None
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def worker(run_dir: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a process that records until it is told to stop."""
    script = tmp_path / "work.py"
    script.write_text(PROGRAM, encoding="utf-8")
    started: list[subprocess.Popen[str]] = []

    def start(role: str = "actor", *names: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", str(script), str(run_dir), role, *(names or ("step",))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> None:
    """Let it close its profiler and end."""
    process.communicate(timeout=60)
    assert process.returncode == 0


def top(*words: object, start: list[str] = NATIVE, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*start, "top", *map(str, words)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PATH": os.environ["PATH"], **env},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def once(run_dir: Path, *words: object, start: list[str] = NATIVE, **env: str) -> str:
    done = top(run_dir, "--once", "--interval", "0.3", *words, start=start, **env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def line_of(text: str, pattern: str) -> str:
    """Return the one line that matches."""
    lines = [line for line in text.splitlines() if re.search(pattern, line)]
    assert len(lines) == 1, text
    return lines[0]


# ---- as plain text --------------------------------------------------------------


@STARTS
def test_a_live_run_once(run_dir: Path, worker: Start, start: list[str]) -> None:
    pids = [worker("actor").pid, worker("learner", "train_step").pid]
    text = once(run_dir, start=start)
    assert re.match(r"lineprofiler top  \S*/run\n", text)
    assert "Processes 2: 2 live   Run r1\n" in text
    assert re.search(r"^Last \d+\.\dms   by share$", text, re.MULTILINE)
    assert re.search(r"^actor  1 process +(99\.\d|100\.0)% +\d+% +\d+\.\d/s$", text, re.MULTILINE)
    step = line_of(text, "^  loop/step ").split()
    share, _, wait, calls, each = step[1:]
    assert 80 < float(share.rstrip("%")) <= 100  # never more than the loop around it
    assert wait in (">99%", *(f"{percent}%" for percent in range(50, 100)))
    assert 0 < float(calls.removesuffix("/s")) <= 200  # a step waits for 5 ms
    assert each.endswith("ms")
    counters = line_of(text.partition("learner")[0], r"\+ games").split()
    assert float(counters[2].removesuffix("/s")) == pytest.approx(
        2 * float(calls.removesuffix("/s")), rel=0.5
    )
    for pid in pids:
        row = line_of(text, rf"^ *{pid} ")
        assert " live " in row
        assert re.search(r" \d+\.\d MB ", row)
        assert row.rstrip().endswith(("loop/step", "loop/train_step", "loop"))


def test_the_width_of_a_frame(run_dir: Path, worker: Start) -> None:
    worker("actor", "a_phase_with_a_name_that_is_much_too_long_for_the_column")
    for columns in (40, 80, 132):
        text = once(run_dir, COLUMNS=str(columns))
        assert columns - 5 <= max(map(len, text.splitlines())) <= columns
    assert "…" in once(run_dir)


def test_sorted_and_filtered_once(run_dir: Path, worker: Start) -> None:
    worker("actor", "alpha", "beta")
    text = once(run_dir, "--sort", "name", "--filter", "BETA")
    assert "by name   with BETA" in text
    assert "loop/beta" in text
    assert "loop/alpha" not in text.partition("PID")[0]
    assert "nothing passes the filter" in once(run_dir, "--filter", "gamma")


def test_a_run_that_is_over(run_dir: Path, worker: Start) -> None:
    process = worker()
    end(process)
    text = once(run_dir)
    assert ", ended   Processes 1: 1 closed" in text
    assert re.search(rf"^ *{process.pid} closed +\d+\.\d+m?s ago +n/a$", text, re.MULTILINE)
    assert re.search(r"^  loop/step( +n/a){5}$", text, re.MULTILINE)


def test_a_worker_of_another_node_says_how_old_its_figures_are(
    run_dir: Path, worker: Start
) -> None:
    near = worker()
    end(far := worker("actor", "step"))
    (path,) = run_dir.glob(f"workers/*/w_r1_{far.pid}_*.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    document |= {"state": "running", "host": "far", "boot_id": "another"}
    path.write_text(json.dumps(document), encoding="utf-8")
    text = once(run_dir)
    assert "Processes 2: 1 live, 1 by file" in text
    assert "of 1 of 2 running processes: the others have not written since" in text
    assert re.search(rf"^ *{far.pid} far +file +\d+\.\d+m?s old +n/a$", text, re.MULTILINE)
    assert " live " in line_of(text, rf"^ *{near.pid} ")
    assert float(line_of(text, "^  loop/step ").split()[1].rstrip("%")) > 80


def everything(run_dir: Path) -> dict[str, tuple[int, int, int]]:
    """Return all files and images of the run: their inodes, sizes and times of change."""
    images = Path(f"/dev/shm/lineprofiler-{os.getuid()}").glob("w_r1_*.img")
    ours = [image for image in images if str(run_dir).encode() in image.read_bytes()[: 1 << 16]]
    paths = [run_dir, *run_dir.rglob("*"), *ours]
    status = {str(path): path.stat() for path in paths}
    return {path: (s.st_ino, s.st_size, s.st_mtime_ns) for path, s in status.items()}


def test_watching_changes_nothing(run_dir: Path, worker: Start) -> None:
    process = worker()
    process.kill()
    process.wait()
    before = everything(run_dir)
    assert sum(path.endswith(".img") for path in before) == 1
    text = once(run_dir)
    assert re.search(rf"^ *{process.pid} died ", text, re.MULTILINE)
    assert everything(run_dir) == before


# ---- on a terminal --------------------------------------------------------------


@pytest.fixture
def terminal(run_dir: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(
        *words: str,
        start: list[str] = NATIVE,
        rows: int = 24,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
    ) -> Terminal:
        command = [*start, "top", str(run_dir), "--interval", "0.2", *words]
        opened.append(Terminal(command, rows, columns, env))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


Open = Callable[..., Terminal]


def assert_given_back(screen: Terminal) -> None:
    """The screen from before is shown again, with a cursor, and colours are as they were."""
    assert screen.output.rfind(b"\x1b[?1049l") > screen.output.rfind(b"\x1b[?1049h")
    assert screen.output.rfind(b"\x1b[?25h") > screen.output.rfind(b"\x1b[?25l")


@STARTS
def test_a_screen_of_80x24(worker: Start, terminal: Open, start: list[str]) -> None:
    actor, learner = worker("actor"), worker("learner", "train_step")
    screen = terminal(start=start)
    screen.wait_for(r"Last \d+\.\dms   by share")
    assert screen.lines[0].startswith("lineprofiler top  ")
    assert re.search(r" every \d+\.\dm?s$", screen.lines[0])  # more than asked for if busy
    assert screen.lines[3].startswith("PHASE ")
    assert screen.lines[23].startswith("q quit  w workers  p phases  s sort  / filter")
    screen.wait_for(r"\n  loop/train_step +\d")
    screen.type("w")
    screen.wait_for("PID ROLE")
    screen.wait_for(rf"\n *{actor.pid} actor +live ")
    screen.wait_for(rf"\n *{learner.pid} learner live .* MB ")
    screen.type("q")
    assert screen.next_said() == ["ended", "0", "sane"]
    assert_given_back(screen)


def test_sorting_and_filtering(worker: Start, terminal: Open) -> None:
    worker("actor", "alpha", "beta")
    screen = terminal()
    screen.wait_for("by share")
    for name in ("self", "wait", "calls", "each", "name"):
        screen.type("s")
        screen.wait_for(f"by {name}")
    screen.wait_for(r"  loop .*\n  loop/alpha .*\n.*\n  loop/beta ")
    screen.type("R")
    screen.wait_for(r"  loop/beta .*\n.*\n  loop/alpha .*\n.*\n  loop ")
    screen.type("<")
    screen.wait_for("by each")
    screen.type("/bex")
    screen.wait_for("Filter: bex_")
    screen.wait_for("nothing passes the filter")
    screen.type("\x7f")
    screen.wait_for("Filter: be_")
    screen.wait_for("loop/beta")
    assert "loop/alpha" not in screen.text
    screen.type("\r")
    screen.wait_for("q quit")
    assert "with be" in screen.text
    screen.type("\x1b")
    screen.wait_for("loop/alpha")
    assert "with be" not in screen.text
    screen.type("h")
    screen.wait_for("this text; any key leaves it")
    screen.type("x")
    screen.wait_for("PHASE ")
    screen.type("\x1b[21~")  # F10
    assert screen.next_said() == ["ended", "0", "sane"]


def test_pause(worker: Start, terminal: Open) -> None:
    worker()
    screen = terminal()
    screen.wait_for(r"Last .*")
    screen.type(" ")
    screen.wait_for("PAUSED")
    paused = screen.lines[1:]
    assert not screen.read(1)
    assert screen.lines[1:] == paused
    screen.type(" ")
    screen.wait(lambda: "PAUSED" not in screen.text and screen.lines[1:] != paused)


def test_scrolling(worker: Start, terminal: Open) -> None:
    worker("actor", *(f"phase_{i:02}" for i in range(30)))
    screen = terminal("--sort", "name")
    screen.wait_for(r"1-19 of 62")
    screen.type("\x1b[6~")
    screen.wait_for(r"19-37 of 62")
    assert "loop/phase_15" in screen.text
    screen.type("\x1b[B")
    screen.wait_for(r"20-38 of 62")
    screen.type("\x1bOB")  # as terminals say it once they are told to
    screen.wait_for(r"21-39 of 62")
    screen.type("G")
    screen.wait_for(r"44-62 of 62")
    screen.type("g")
    screen.wait_for(r"1-19 of 62")


def test_other_sizes(worker: Start, terminal: Open) -> None:
    worker()
    screen = terminal()
    screen.wait_for(r"\nq quit")
    screen.resize(30, 120)
    screen.wait(lambda: screen.lines[29].startswith("q quit"))
    screen.wait(lambda: len(screen.lines[0]) == 120)
    for rows, columns in ((4, 20), (1, 1), (2, 200), (3, 10)):
        screen.resize(rows, columns)
        screen.read(0.5)
    screen.resize(24, 80)
    screen.wait(lambda: screen.lines[23].startswith("q quit"))
    screen.wait_for(r"\n  loop/step +\d")
    screen.type("q")
    assert screen.next_said() == ["ended", "0", "sane"]


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 30)])
def test_begun_on_a_small_terminal(worker: Start, terminal: Open, size: tuple[int, int]) -> None:
    worker()
    screen = terminal(rows=size[0], columns=size[1])
    screen.wait(lambda: screen.text.strip())
    screen.type("wph q")
    assert screen.next_said() == ["ended", "0", "sane"]


@STARTS
def test_ctrl_c_leaves(worker: Start, terminal: Open, start: list[str]) -> None:
    worker()
    screen = terminal(start=start)
    screen.wait_for("q quit")
    screen.type("\x03")
    assert screen.next_said() == ["ended", "0", "sane"]
    assert_given_back(screen)


@STARTS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP])
def test_signals_end_it_and_leave_the_terminal_sane(
    worker: Start, terminal: Open, start: list[str], number: signal.Signals
) -> None:
    worker()
    screen = terminal(start=start)
    screen.wait_for("q quit")
    os.kill(screen.pid, number)
    assert screen.next_said() == ["ended", str(-number), "sane"]
    assert_given_back(screen)


@STARTS
def test_ctrl_z_gives_the_terminal_back_for_a_while(
    worker: Start, terminal: Open, start: list[str]
) -> None:
    worker()
    screen = terminal(start=start)
    screen.wait_for("q quit")
    screen.type("\x1a")
    assert screen.next_said() == ["stopped", str(int(signal.SIGTSTP)), "sane"]
    assert_given_back(screen)
    screen.screen.reset()
    screen.resize(20, 90)
    screen.type("fg\r")
    screen.wait(lambda: screen.lines[19].startswith("q quit"))
    screen.wait_for("PHASE ")
    screen.type("q")
    assert screen.next_said() == ["ended", "0", "sane"]


def has_ended(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"  # nobody may have waited for it


def test_a_terminal_that_goes_away_ends_it(
    worker: Start, terminal: Open, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    worker()
    screen = terminal()
    screen.wait_for("q quit")
    screen.hang_up()
    wait_until(lambda: has_ended(screen.pid))


def test_what_becomes_of_workers_is_seen(worker: Start, terminal: Open) -> None:
    first = worker()
    screen = terminal("--workers", "--sort", "pid")
    screen.wait_for(rf"\n *{first.pid} live ")
    second = worker()
    screen.wait_for(rf"\n *{second.pid} (new|live) ")
    first.kill()
    first.wait()
    screen.wait_for(rf"\n *{first.pid} died .* ago ")
    assert re.search(rf"\n *{second.pid} live ", screen.text)
    end(second)
    screen.wait_for(rf"\n *{second.pid} closed ")
    screen.wait_for(", ended   Processes 2: 1 closed, 1 died")


@pytest.mark.parametrize("env", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}], ids=str)
def test_wide_characters_in_any_locale(
    worker: Start, terminal: Open, env: Mapping[str, str]
) -> None:
    worker("actor", "训练步骤", "e\u0301tape")
    screen = terminal(env=env)
    screen.wait_for(r"Last ")
    screen.wait_for(r"\n  loop/训练步骤 .*ms\n")
    screen.wait_for(r"\n  loop/\u00e9tape .*ms\n")
    # As strings: four wide characters take eight columns, a combined one takes one.
    rows = [line for line in screen.lines if re.match("  loop/.*ms$", line)]
    assert {len(line) + 4 * ("训练步骤" in line) for line in rows} == {80}
    assert len(rows) == 2


def test_a_locale_that_cannot_say_it(worker: Start, terminal: Open) -> None:
    worker("actor", "训练步骤")
    screen = terminal(env={"LC_ALL": "en_US.ISO-8859-1"})
    screen.wait_for(r"Last ")
    screen.wait_for(r"\n  loop/.* +\d")


def test_colours_on_request_only(worker: Start, terminal: Open) -> None:
    worker()
    coloured = re.compile(rb"\x1b\[[0-9;]*3[1-7]m")
    plain = terminal(env={"NO_COLOR": "1"})
    plain.wait_for("Last ")
    assert not coloured.search(plain.output)
    screen = terminal()
    screen.wait_for("Last ")
    assert coloured.search(screen.output)


# ---- where it cannot be ----------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "part"),
    [
        ({"TERM": "dumb"}, "TERM is dumb"),
        ({"TERM": ""}, "TERM is empty"),
        ({"TERM": "no-such-terminal"}, "'no-such-terminal'"),
    ],
)
def test_a_terminal_that_cannot_be_drawn_on(
    worker: Start, terminal: Open, env: Mapping[str, str], part: str
) -> None:
    worker()
    screen = terminal(env=env)
    assert screen.next_said() == ["ended", "2", "sane"]
    (line,) = "".join(line for line in screen.screen.display).strip().split("\n")
    assert line.startswith("lineprofiler top: ")
    assert part in line
    assert "--once" in line


@STARTS
def test_no_terminal(run_dir: Path, worker: Start, start: list[str]) -> None:
    worker()
    done = top(run_dir, start=start, TERM="xterm")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "lineprofiler top: this is no terminal to draw on; --once prints plain text\n"
    )


def test_wrong_usage(tmp_path: Path) -> None:
    inside = tmp_path / "run" / "workers"
    inside.mkdir(parents=True)
    (inside.parent / "metadata.json").touch()
    rows = {
        (): "name the run directory, as in: lineprofiler top profile/",
        (tmp_path / "none", "--once"): "no directory",
        (tmp_path, "--once"): "no worker has written to",
        (inside, "--once"): f"inside the run directory '{inside.parent}': give that one",
        (tmp_path, tmp_path): "one directory at a time",
        (tmp_path, "--interval", "0"): "'0' is no interval; give seconds, 0.1 to 3600",
        (tmp_path, "--interval", "nan"): "'nan' is no interval",
        (tmp_path, "--sort", "colour"): "nothing can be sorted by 'colour'",
    }
    for words, part in rows.items():
        done = top(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("lineprofiler top: ")
        assert part in done.stderr
        assert done.stderr.count("\n") == 1


def test_help() -> None:
    done = top("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: lineprofiler top [option...] DIR\n")
    assert max(map(len, done.stdout.splitlines())) <= 100

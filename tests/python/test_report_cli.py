"""`lineprofiler report`, as a user runs it: on real directories, in pipes, on a terminal."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
NATIVE = [str(Path(sys.executable).parent / "lineprofiler")]
MODULE = [sys.executable, "-P", "-m", "lineprofiler"]  # -P: not the folder that tests run in.
STARTS = pytest.mark.parametrize("start", [NATIVE, MODULE], ids=["native", "module"])
NONE: Mapping[str, str] = {}
S = 10**9

# Text as a name may hold it; the file escapes it as docs/format.md says.
NASTY = [
    "plain",
    "with/slash",
    "nul\0inside",
    "newline\nand\ttab",
    "\x1b[31mred\x1b[0m",
    "bell\x07del\x7f",
    "quote\"and'backslash\\",
    "looks \\x00 \\udcff escaped",
    "lone \udcff surrogate \ud800",
    "训练步骤",
    "Modèle e\u0301",
    "right-to-left \u202e override",
    "line\u2028separator",
    "x" * 300,
    "emoji 😀",
]


def encode(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\0", "\\x00")
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", escaped)


def decode(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        return "\\" if match[0] == "\\\\" else chr(int(match[0][2:], 16))

    return re.sub(r"\\\\|\\x00|\\u[0-9a-f]{4}", one, text)


def bucket(ns: int) -> int:
    if ns < 16:
        return ns
    octave = ns.bit_length() - 1
    return (octave - 2) * 8 + ((ns >> (octave - 3)) & 7)


def node(name: str, wall_ns: int, parent: int = 0, calls: int = 4, **more: Any) -> dict[str, Any]:
    """A node of `calls` equal entries that waited half of their time."""
    return {
        "parent": parent,
        "name": encode(name),
        "calls": calls,
        "wall_ns": wall_ns,
        "cpu_ns": wall_ns // 2,
        "hist": f"{bucket(wall_ns // calls)}:{calls}",
        **more,
    }


def write_worker(run: Path, number: int = 1, nodes: Any = (), **more: Any) -> Path:
    """Write the file of a closed worker."""
    host = more.get("host", "node07")
    name = f"w_r1_{number}_{number:08x}"
    document = {
        "format": "lineprofiler-worker",
        "version": 1,
        "worker": name,
        "run_id": "r1",
        "role": "main",
        "pid": number,
        "parent_pid": 1,
        "host": host,
        "rank": None,
        "world_size": None,
        "launcher": None,
        "job": None,
        "boot_id": "b0",
        "pid_namespace": 1,
        "process_start_ticks": number,
        "library": "0.4.0",
        "runtime": "CPython 3.12.1",
        "command": ["train.py"],
        "run_id_origin": "inherited",
        "settings": {
            "measure_cpu": True,
            "thread_names": False,
            "snapshot_interval_s": 30,
            "sample_interval_s": None,
        },
        "started": {"realtime_ns": 10**18, "monotonic_ns": S, "boottime_ns": S},
        "written": {"realtime_ns": 10**18 + 90 * S, "monotonic_ns": 91 * S, "boottime_ns": 91 * S},
        "state": "closed",
        "flush": 3,
        "clock": {"wall": "tsc", "cpu": "token"},
        "image": "shared",
        "troubles": {},
        "threads": [{"name": "MainThread", "tid": 1, "alive": True, "nodes": [{}, *nodes]}],
        **more,
    }
    folder = run / "workers" / re.sub("[^A-Za-z0-9._-]", "_", host)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return path


def report(
    *words: object, start: list[str] = NATIVE, env: Mapping[str, str] = NONE
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*start, "report", *map(str, words)],
        capture_output=True,
        env={"PATH": os.environ["PATH"], **env},
        timeout=60,
    )


def text_of(*words: object, **env: str) -> str:
    done = report(*words, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def document_of(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text_of(run, "--json"))
    return document


def assert_refused(done: "subprocess.CompletedProcess[bytes]", *parts: str) -> None:
    """K15: status 2, nothing on stdout, one line that names the thing."""
    line = done.stderr.decode()
    assert done.returncode == 2
    assert done.stdout == b""
    assert line.endswith("\n")
    assert line.count("\n") == 1
    for part in parts:
        assert part in line


@pytest.fixture
def small_run(tmp_path: Path) -> Path:
    run = tmp_path / "profile"
    step = node("step", 8 * S, child_wall_ns=6 * S, counters={"samples": [128, 4, 32, 32]})
    write_worker(run, 1, [step, node("forward", 6 * S, parent=1)], rank=0)
    write_worker(run, 2, [step, node("forward", 6 * S, parent=1)], rank=1, host="node08")
    return run


@pytest.fixture(scope="module")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("large") / "profile"
    make = [sys.executable, str(ROOT / "benchmarks" / "make_run.py"), str(run), "--workers", "40"]
    subprocess.run([*make, "--phases", "30", "--hosts", "3"], check=True, capture_output=True)
    return run


# --- what cannot be reported ---


@STARTS
def test_missing_directory_K15(tmp_path: Path, start: list[str]) -> None:
    missing = tmp_path / "missing"
    assert_refused(report(missing, start=start), str(missing))


@STARTS
def test_empty_directory_K15(tmp_path: Path, start: list[str]) -> None:
    assert_refused(report(tmp_path, start=start), str(tmp_path))
    assert_refused(report(tmp_path, "--json", start=start), str(tmp_path))


def test_file_instead_of_directory(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("x")
    assert_refused(report(path), str(path))


def test_only_broken_files_K15(tmp_path: Path) -> None:
    write_worker(tmp_path).write_text('{"format": "lineprofiler-wor')
    assert_refused(report(tmp_path), str(tmp_path))


def test_a_name_of_a_directory_cannot_break_the_line(tmp_path: Path) -> None:
    assert_refused(report(tmp_path / "a\nb\x1b[2Jc"), "a\ufffdb\ufffd[2Jc")


def test_one_broken_among_good_J3(small_run: Path) -> None:
    broken = write_worker(small_run, 3)
    broken.write_text(broken.read_text()[:300])
    text = text_of(small_run)
    assert "Processes 2 of 3: 1 unreadable" in text
    assert "CAVEATS" in text
    assert broken.name in text.replace("\n    ", "")
    document = document_of(small_run)
    assert document["run"]["lost_processes"] == 1
    assert document["run"]["most_lost"] is False
    assert [Path(item["path"]).name for item in document["unreadable"]] == [broken.name]
    assert "unreadable" in [caveat["kind"] for caveat in document["caveats"]]


def test_most_workers_lost_K11(small_run: Path) -> None:
    for number in range(3, 8):
        write_worker(small_run, number).write_text("")
    assert "Processes 2 of 7: MOST ARE LOST, 5 unreadable" in text_of(small_run).splitlines()[0]


# --- whole pages ---


def busy_run(run: Path) -> Path:
    """Two roles, a thread level, a sampled phase, an open one, a worker that did not close."""
    for rank in range(3):
        slow = 1 + rank % 2
        iteration = node("iteration", slow * 60 * S, calls=30, child_wall_ns=slow * 57 * S)
        search = node("search", slow * 45 * S, 1, 900, child_wall_ns=slow * 30 * S)
        search["counters"] = {"simulations": [57_600, 900, 64, 64]}
        select = node("select", slow * 30 * S, 2, 90_000, stride=100)
        queue = node("wait for weights", slow * 12 * S, 1, 30, cpu_ns=S)
        nodes = [iteration, search, select, queue]
        write_worker(run, rank + 1, nodes, role="actor", rank=rank, host=f"node0{rank}")
    train = node("train_step", 80 * S, calls=400, open_calls=1, open_wall_ns=2 * S, open_cpu_ns=S)
    threads = [
        {"name": "learner", "tid": 1, "alive": True, "nodes": [{}, train]},
        {"name": "saver", "tid": 2, "alive": True, "nodes": [{}, node("save", 3 * S, cpu_ns=None)]},
    ]
    settings: dict[str, object] = {"measure_cpu": True, "thread_names": True}
    settings |= {"snapshot_interval_s": 30, "sample_interval_s": None}
    write_worker(
        run,
        4,
        role="learner",
        threads=threads,
        settings=settings,
        state="running",
        troubles={"failed_flushes": 2},
    )
    return run


GOLDEN = """\
Runtime 1m 30s   Processes 4   Roles actor x3, learner x1
Hosts node00, node01, node02, node07 (4 nodes)   Run r1

ACTOR  (3 processes, imbalance 1.50)
{RULE}
search                         75.0%           3m   ███████████████████▌
wait for weights               20.0%        48.0s   █████▎
Other                           5.0%        12.0s   █▎
  % of 4m in phases, summed over 3 processes; phases in iteration
  imbalance: rank 1 on node01 spent 2m in phases, the mean process 1m 20s

DOMINANT PHASES                     self    wait       p50       p99     entries
~iteration/search/select              2m     50%   352.3us   718.9us     270,000
iteration/search                     ~1m     50%    49.3ms   100.4ms       2,700
    + simulations              172,800       960.0/s     1.0ms/ea      always 64
iteration/wait for weights         48.0s     94%   394.3ms   803.3ms          90
iteration                          12.0s     50%      2.0s      4.0s          90

  ~ = estimated from a sample, not measured. Totals are scaled by the rate:
      iteration/search        self time only: a phase in it is sampled
      iteration/search/select 1 entry in 100

ITERATIONS  (90 entries)  iteration
  mean       2.7s   p50       2.0s   p95       4.0s   p99       4.0s

LEARNER  (1 process, imbalance 1.00)
{RULE}
learner                        96.5%       1m 22s   █████████████████████████▏
saver                           3.5%         3.0s   ▉
  % of 1m 25s in phases, summed over 2 threads

DOMINANT PHASES                     self    wait       p50       p99     entries
learner/train_step                1m 22s     50%   192.9ms   201.2ms       400+1
saver/save                          3.0s     n/a   771.8ms   804.6ms           4

ITERATIONS  (400 entries)  learner/train_step
  mean    200.0ms   p50    192.9ms   p95    200.5ms   p99    201.2ms

  self        wall time outside child phases, summed over processes and threads
  wait        % of the phase's wall time, child phases included, that its thread
              spent off the CPU
  wait n/a    not measured: there are no CPU times for it
  entries +n  still open: their time so far is in self and wait, not in p50 and
              p99
  + counter   total; rate per second of its phase's wall time; that time for
              each one; what one count() added

CAVEATS
{RULE}
  - learner pid 4 on node07 was last written without close inside train_step,
    open 2.0s
  - 1 worker is shown as of its last flush: what came after it can be read on
    node07 only, as long as that is up
  - 2 writes failed: until one succeeded again, what a reader saw was older
    (learner pid 4 on node07)
""".replace("{RULE}", "─" * 80)


def test_a_whole_page(tmp_path: Path) -> None:
    assert text_of(busy_run(tmp_path / "profile")) == GOLDEN


# --- names ---


@pytest.fixture
def nasty_run(tmp_path: Path) -> Path:
    run = tmp_path / "profile"
    nodes = [
        node(name, (i + 1) * S, counters={encode(name): [4, 4, 1, 1]})
        for i, name in enumerate(NASTY)
    ]
    write_worker(run, 1, nodes, role=encode("role\n\x1b[31m\udcff"), host="host\x1b[2J")
    return run


def test_names_come_back_K12_NM01(nasty_run: Path) -> None:
    for env in ({}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}):
        role = json.loads(text_of(nasty_run, "--json", **env))["roles"][0]
        assert decode(role["name"]) == "role\n\x1b[31m\udcff"
        assert sorted(decode(phase["path"][0]) for phase in role["phases"]) == sorted(NASTY)
        for phase in role["phases"]:
            assert phase["counters"][0]["name"] == phase["path"][0]


def test_names_leave_the_page_whole_K12(nasty_run: Path) -> None:
    text = text_of(nasty_run)
    assert text == text_of(nasty_run, LC_ALL="C")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800-\udfff]", text)
    rows = [line for line in text.splitlines() if re.search(r" 50% ", line)]
    assert len(rows) == 12
    assert any(row.startswith("…xxxxx") for row in rows)
    for row in rows:
        assert re.search(r" {2,}\d+\.\ds +50% +\d", row)


# --- the same numbers in both ---


def duration(ns: float | None) -> str:
    if ns is None:
        return "n/a"
    for unit, name, limit in ((1e3, "us", 1000), (1e6, "ms", 1000), (1e9, "s", 60)):
        if int(ns + 0.5) >= 1000 and int(ns / unit * 10 + 0.5) < limit * 10:
            tenths = int(ns / unit * 10 + 0.5)
            return f"{tenths // 10}.{tenths % 10}{name}"
    seconds, minutes = int(ns / 1e9 + 0.5), int(ns / 60e9 + 0.5)
    if int(ns + 0.5) < 1000:
        return f"{int(ns + 0.5)}ns"
    if seconds < 3600:
        return f"{seconds // 60}m" + (f" {seconds % 60:02d}s" if seconds % 60 else "")
    if minutes < 6000:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    return f"{int(ns / 3600e9 + 0.5) // 24}d {int(ns / 3600e9 + 0.5) % 24:02d}h"


def share(fraction: float) -> str:
    return "<0.1%" if 0 < fraction < 0.0005 else f"{int(fraction * 1000 + 0.5) / 10:.1f}%"


def percent(fraction: float | None) -> str:
    if fraction is None:
        return "n/a"
    if 0 < fraction < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= fraction < 1 else f"{int(fraction * 100 + 0.5)}%"


def role_blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of each role."""
    for block in re.split(r"\n\n(?=[^\n]*\(\d+ process)", text)[1:]:
        yield block.splitlines()


def expected_rows(role: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the cells of the table of dominant phases, as the JSON has them."""
    for index in role["dominant"]["phases"]:
        phase = role["phases"][index]
        cells = [duration(phase["self_ns"]), percent(phase["wait_share"])]
        cells += [duration(phase["p50_ns"]), duration(phase["p99_ns"]), f"{phase['calls']:,}"]
        yield cells
        for counter in phase["counters"]:
            least, most = f"{counter['min']:,}", f"{counter['max']:,}"
            spread = f"always {least}" if least == most else f"{least}..{most}"
            rate = int(counter["rate_per_s"] * 10 + 0.5) / 10
            each = duration(counter["each_ns"]) + "/ea"
            yield [f"{counter['total']:,}", f"{rate:,.1f}/s", each, spread]


def test_text_and_json_agree_K13(large_run: Path) -> None:
    document = document_of(large_run)
    text = text_of(large_run)
    header = text.splitlines()[0]
    assert header.startswith(f"Runtime {duration(document['run']['runtime_ns'])}   Processes 40")
    blocks = list(role_blocks(text))
    assert len(blocks) == len(document["roles"]) == 4
    for lines, role in zip(blocks, document["roles"], strict=True):
        assert lines[0].startswith(f"{role['name'].upper()}  ({role['processes']} process")
        assert f"imbalance {role['imbalance']:.2f})" in lines[0]
        rows = iter(lines[2:])
        for index in role["shares"]["phases"]:
            phase = role["phases"][index]
            cells = next(rows).removeprefix(phase["path"][-1]).split("  ")
            found = [cell.strip() for cell in cells if cell.strip()][:2]
            assert found == [share(phase["share"]), duration(phase["wall_ns"])]
        table = lines[
            lines.index(next(line for line in lines if line.startswith("DOMINANT"))) + 1 :
        ]
        for row, cells in zip(table, expected_rows(role), strict=False):
            assert re.split(" {1,}", row)[-1] == cells[-1].split(" ")[-1]
            assert re.search(" +".join(map(re.escape, cells)) + "$", row)
        iteration = role["phases"][role["iterations"]]
        title = next(line for line in lines if line.startswith("ITERATIONS"))
        assert (
            title == f"ITERATIONS  ({iteration['calls']:,} entries)  {'/'.join(iteration['path'])}"
        )
        quantiles = re.findall(r"(mean|p\d\d) +(.+?)(?=   |$)", lines[lines.index(title) + 1])
        assert quantiles == [
            (name, duration(iteration[f"{name}_ns"])) for name in ("mean", "p50", "p95", "p99")
        ]


def test_figures_add_up_K2(large_run: Path) -> None:
    for role in document_of(large_run)["roles"]:
        shares = role["shares"]
        rows = sum(role["phases"][index]["share"] for index in shares["phases"])
        assert rows + shares["small_share"] + shares["other_share"] == pytest.approx(1)
        assert sum(phase["self_ns"] for phase in role["phases"]) == role["wall_ns"]
        dominant = sum(role["phases"][index]["self_share"] for index in role["dominant"]["phases"])
        assert dominant + role["dominant"]["minor_self_share"] == pytest.approx(1)


def test_json_keeps_to_its_schema_K13(large_run: Path, nasty_run: Path, small_run: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    write_worker(small_run, 3).write_text("{}")
    write_worker(
        small_run, 4, run_id="r0", started={"realtime_ns": 1, "monotonic_ns": 1, "boottime_ns": 1}
    )
    write_worker(
        small_run,
        5,
        [node("open", 0, calls=1, open_calls=1, open_wall_ns=S, cpu_ns=None)],
        state="running",
    )
    for run in (large_run, nasty_run, small_run):
        validator.validate(document_of(run))


def test_format_option(small_run: Path) -> None:
    assert text_of(small_run, "--format", "json") == text_of(small_run, "--json")
    assert text_of(small_run, "--format=text") == text_of(small_run)
    assert text_of("--no-samples", small_run) == text_of(small_run)
    assert_refused(report(small_run, "--format", "html"), "html", "text", "json")


# --- where it goes ---


@STARTS
def test_output_file(small_run: Path, tmp_path: Path, start: list[str]) -> None:
    path = tmp_path / "report.txt"
    done = report(small_run, "-o", path, start=start)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert path.read_text() == text_of(small_run)
    assert sorted(tmp_path.iterdir()) == [small_run, path]


@STARTS
def test_a_file_that_may_not_grow_K15(small_run: Path, tmp_path: Path, start: list[str]) -> None:
    command = 'ulimit -f 0; exec "$@"'
    target = tmp_path / "page"
    done = subprocess.run(
        ["sh", "-c", command, "sh", *start, "report", small_run, "-o", target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert str(target) in done.stderr
    assert not target.exists()


@STARTS
def test_full_disk_K15(small_run: Path, start: list[str]) -> None:
    assert_refused(report(small_run, "-o", "/dev/full", start=start), "/dev/full", "No space left")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*start, "report", small_run], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def test_output_in_a_folder_that_is_not_there(small_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "report.txt"
    assert_refused(report(small_run, "-o", path), str(path))


def test_closed_stdout(small_run: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *NATIVE, "report", str(small_run)], capture_output=True
    )
    assert_refused(done, "standard output")
    # Without stderr as well there is nobody to tell, and no file is taken for it.
    for text in (">&- 2>&-", "<&- >&- 2>&-"):
        script = f'exec "$@" {text}'
        done = subprocess.run(["sh", "-c", script, "sh", *NATIVE, "report", str(small_run)])
        assert done.returncode == 2


@STARTS
def test_broken_pipe(large_run: Path, start: list[str]) -> None:
    """`lineprofiler report DIR --json | head -1`."""
    with subprocess.Popen(
        [*start, "report", str(large_run), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(1) == b"{"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0


# --- terminals ---


def on_terminal(*words: object, columns: int = 80, **env: str) -> str:
    """Run a report on a terminal of its own and return what it showed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(
        [*NATIVE, "report", *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ["PATH"], "TERM": "xterm", **env},
    ) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # The other end is closed.
                break
            if not piece:
                break
            shown += piece
        assert child.wait(60) == 0
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_colour_on_a_terminal_only_K14(small_run: Path) -> None:
    plain = text_of(small_run)
    assert "\x1b" not in plain
    coloured = on_terminal(small_run)
    assert "\x1b[1mMAIN\x1b[0m" in coloured
    assert re.sub("\x1b\\[[0-9]*m", "", coloured) == plain
    assert on_terminal(small_run, NO_COLOR="1") == plain
    assert on_terminal(small_run, NO_COLOR="") == coloured
    assert on_terminal(small_run, TERM="dumb") == plain
    assert on_terminal(small_run, "--color=never") == plain
    assert text_of(small_run, "--color=always", NO_COLOR="1") == coloured


def test_a_file_gets_no_colour(small_run: Path, tmp_path: Path) -> None:
    assert on_terminal(small_run, "-o", tmp_path / "report.txt") == ""
    assert (tmp_path / "report.txt").read_text() == text_of(small_run)


@pytest.mark.parametrize(("columns", "width"), [(0, 80), (40, 72), (80, 80), (93, 93), (300, 100)])
def test_width_of_the_terminal(small_run: Path, columns: int, width: int) -> None:
    shown = on_terminal(small_run, columns=columns, NO_COLOR="1").splitlines()
    assert "─" * width in shown
    assert max(map(len, shown)) == width


def test_the_page_is_the_same_everywhere(small_run: Path) -> None:
    text = text_of(small_run)
    for env in ({"TZ": "Asia/Tokyo"}, {"COLUMNS": "200"}, {"LC_ALL": "de_DE.UTF-8"}, {"TERM": ""}):
        assert text_of(small_run, **env) == text


# --- usage ---


def test_help_and_usage() -> None:
    for words in (["--help"], ["report", "--help"]):
        done = subprocess.run([*NATIVE, *words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("usage: lineprofiler ")
        assert max(map(len, done.stdout.splitlines())) <= 100
    for words in ([], ["reprot"], ["report"], ["report", "--jsn", "x"], ["report", "a", "b"]):
        bad = subprocess.run([*NATIVE, *words], capture_output=True)
        assert_refused(bad, "lineprofiler")


# --- a part of a run, and who is slow in it ---


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Eight hosts of two ranks; one is slow in one phase, and the others wait for it."""
    run = tmp_path / "profile"
    for rank in range(16):
        slow = rank // 2 == 5
        compute_s = (131 if slow else 100) + rank % 3  # they are never quite equal
        step = node("step", 150 * S, calls=100, child_wall_ns=150 * S, cpu_ns=compute_s * S)
        compute = node("compute", compute_s * S, 1, 100, cpu_ns=compute_s * S)
        reduce = node("reduce", (150 - compute_s) * S, 1, 100, cpu_ns=0)
        role = "learner" if rank < 14 else "evaluator"
        host = f"node{rank // 2:02}"
        nodes = [step, compute, reduce]
        write_worker(run, rank + 1, nodes, role=role, rank=rank, host=host, boot_id=host)
    return run


def test_a_part_of_a_run_K1(fleet: Path) -> None:
    text = text_of(fleet, "--role", "learn*", "--rank", "0-3,9", "--rank=15", "--host", "*")
    lines = text.splitlines()
    assert lines[0] == "Runtime 1m 30s   Processes 5 of 16: 11 left out by the filter"
    assert "Filter role learn*; host *; rank 0-3,9, 15 (5 of 16 processes)" in lines
    document = json.loads(text_of(fleet, "--host=node07", "--json"))
    assert document["run"]["processes"] == len(document["workers"]) == 2
    assert document["run"]["filter"] == {
        "roles": [],
        "hosts": ["node07"],
        "ranks": [],
        "of_processes": 16,
    }
    assert document["hosts"] == ["node07"]
    assert [role["name"] for role in document["roles"]] == ["evaluator"]
    assert document_of(fleet)["run"]["filter"] is None
    # Nothing is left out, and it is said all the same that it was asked for.
    lines = text_of(fleet, "--role", "*").splitlines()
    assert lines[0].startswith("Runtime 1m 30s   Processes 16   Roles ")
    assert "Filter role * (16 of 16 processes)" in lines


@STARTS
def test_what_no_process_has_K15(fleet: Path, start: list[str]) -> None:
    for words, said in (
        (["--role", "lerner"], "no role 'lerner'; did you mean 'learner'?"),
        (["--role", "x"], "no role 'x'; there are 'evaluator' and 'learner'"),
        (["--host", "node0"], "no host 'node0'; did you mean 'node00', 'node01' or 'node02'?"),
        (["--rank", "0", "--rank", "16-20"], "no process of rank '16-20'; there are ranks 0-15"),
        (["--role", "evaluator", "--rank", "3"], "no process of that role and rank at once"),
        (["--rank", "three"], "no ranks 'three': give them as 3, 0-7 or 0-3,8"),
        (["--rank"], "option '--rank' needs a value"),
    ):
        assert_refused(report(fleet, *words, start=start), said)


def test_who_is_slow_is_named_MN07(fleet: Path) -> None:
    text = text_of(fleet)
    block = text.split("SLOWER THAN THE OTHERS\n")[1].split("\n\n")[0]
    words = " ".join(block.split())
    assert words.startswith("- node05 (2 processes) takes 1.31x the median host in step/compute: ")
    assert "it waited 12% of its time in phases, the median host 33%" in words
    assert "rank" not in words, "its ranks are named with it"
    [learner] = [role for role in document_of(fleet)["roles"] if role["name"] == "learner"]
    slow, *others = learner["slowest_hosts"]
    assert (slow["host"], slow["processes"], slow["notable"]) == ("node05", 2, True)
    assert learner["phases"][slow["phase"]]["path"] == ["step", "compute"]
    assert slow["ratio"] == pytest.approx(1.31, abs=0.01)
    assert not any(other["notable"] for other in others)
    assert learner["notable_hosts"] == 1
    [evaluator] = [role for role in document_of(fleet)["roles"] if role["name"] == "evaluator"]
    assert evaluator["notable_hosts"] == evaluator["notable_workers"] == 0


def test_nobody_is_named_without_reason(large_run: Path) -> None:
    """Processes that differ by chance, as those that make_run.py makes."""
    assert "SLOWER" not in text_of(large_run)
    roles = document_of(large_run)["roles"]
    assert any(role["slowest_workers"] for role in roles), "the figures are there all the same"

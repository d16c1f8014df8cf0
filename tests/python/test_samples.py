"""Samples of resources in their files, held against what real programs do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import MOUNTS, PIDS, PRELUDE, as_nobody, within
from samples_file import BYTES, CHARS, Samples, gaps, read_samples, samples_of

from lineprofiler.accounting import Profiler, merge_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Child

SAMPLING = (
    PRELUDE
    + """
import mmap, subprocess, resource

def taken(profiler):
    return document(profiler)["samples"].get("taken", 0)

def let_sample(profiler, n=1):
    before = taken(profiler)
    wait_until(lambda: taken(profiler) >= before + n + 1)

def write(path, n):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    assert os.write(fd, bytes(n)) == n
    os.close(fd)

def read(path, n):
    fd = os.open(path, os.O_RDONLY)
    assert len(os.read(fd, n)) == n
    os.close(fd)

run_dir = sys.argv[1]
here = os.path.dirname(run_dir)
# The first flush would fall due after a second, in the middle of some test.
options = dict(snapshot_interval_s=0.05, sample_interval_s=0.005)
"""
)


@pytest.fixture(autouse=True)
def kernel_counts() -> None:
    if not Path("/proc/self/io").exists():
        pytest.skip("this kernel counts no I/O")


def ids_of(run_dir: Path, worker: str) -> dict[int, str]:
    """Return the name of the phase that each id of a worker stands for."""
    [path] = run_dir.glob(f"workers/*/{worker}.json")
    threads = json.loads(path.read_text())["threads"]
    return {
        node["id"]: node["name"] for thread in threads for node in thread["nodes"] if "id" in node
    }


def moved(samples: Samples) -> tuple[int, int]:
    return samples.total("read_chars"), samples.total("write_chars")


# ---- known amounts -----------------------------------------------------------------

AMOUNTS = """
with Profiler(run_dir, **options) as profiler:
    with profiler.phase("idle"):
        let_sample(profiler)
    def work(i):
        for _ in range(10):
            write(f"{here}/{i}", 100_000)
            read(f"{here}/{i}", 1000)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    with profiler.phase("moves"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
"""


def test_known_amounts_by_threads_H1(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + AMOUNTS, run_dir)
    samples = samples_of(run_dir)
    assert moved(samples) == (40_000, 4_000_000)
    assert gaps(samples.rows) == 0
    assert all(row[field] is not None for row in samples.rows for field in (*CHARS, *BYTES))


PHASES = """
with Profiler(run_dir, **options) as profiler:
    for name, n in ("a", 1_000_000), ("b", 0), ("c", 3_000_000):
        with profiler.phase(name):
            let_sample(profiler)
            write(here + "/data", n)
            let_sample(profiler)
tell(worker=profiler.worker)
"""


def test_bytes_of_the_phase_that_an_interval_begins_in_H3(child: Child, run_dir: Path) -> None:
    worker = child.json(SAMPLING + PHASES, run_dir)["worker"]
    rows, names = samples_of(run_dir, worker).rows, ids_of(run_dir, worker)
    assert sorted(names.values()) == ["a", "b", "c"]
    by_phase: dict[str, int] = dict.fromkeys(["a", "b", "c", ""], 0)
    for begin, end in pairwise(rows):
        assert begin["phase"] is not None
        by_phase[names.get(begin["phase"], "")] += (end["write_chars"] or 0) - (
            begin["write_chars"] or 0
        )
    assert by_phase == {"a": 1_000_000, "b": 0, "c": 3_000_000, "": 0}


DIRECT = """
n = 1 << 20
buffer = mmap.mmap(-1, n)
with Profiler(run_dir, **options) as profiler, profiler.phase("direct"):
    fd = os.open(here + "/data", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    let_sample(profiler)
    for _ in range(3):
        assert os.pwritev(fd, [buffer], 0) == n
        assert os.preadv(fd, [buffer], 0) == n
"""


def test_both_layers_H1(child: Child, run_dir: Path) -> None:
    if child.run(SAMPLING + DIRECT, run_dir, status=None).returncode != 0:
        pytest.skip("no direct I/O here")
    samples, n = samples_of(run_dir), 3 << 20
    assert moved(samples) == (n, n)
    if samples.total("write_bytes") == 0:
        pytest.skip("this file system is on no block device")
    assert samples.total("read_bytes") == n
    assert n <= samples.total("write_bytes") <= n + (64 << 10), "and the inode"


# ---- processes ---------------------------------------------------------------------

PROCESSES = """
import multiprocessing

def work(profiler, i):
    with profiler.phase("child"):
        let_sample(profiler)
        write(f"{here}/child{i}", 5_000_000)
        let_sample(profiler)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(run_dir, **options) as profiler, profiler.phase("parent"):
        let_sample(profiler)
        for i in range(3):
            process = context.Process(target=work, args=(profiler, i))
            process.start()
            process.join()
            assert process.exitcode == 0
        let_sample(profiler)
        write(here + "/parent", 1000)
        let_sample(profiler)
    tell(worker=profiler.worker)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_has_its_own_bytes_H3_PR02(child: Child, run_dir: Path, method: str) -> None:
    """What children wrote is theirs, once; what the parent gains by waiting is nobody's."""
    worker = child.json(SAMPLING + PROCESSES, run_dir, method)["worker"]
    paths = sorted(run_dir.glob("workers/*/*.samples"))
    assert len(paths) == 4
    for path in paths:
        written = samples_of(run_dir, path.stem).total("write_chars")
        if path.stem == worker:
            assert written < 100_000, "its own, and what it says to its children"
        else:
            assert 5_000_000 <= written < 5_100_000
    parent = samples_of(run_dir, worker)
    assert parent.total("write_bytes") < 1_000_000
    assert all(row["gaps"] in (0, 1) for row in parent.rows)


REAPS = """
n_threads = int(sys.argv[2])
with Profiler(run_dir, **options) as profiler, profiler.phase("parent"):
    enough = threading.Event()
    for _ in range(n_threads):
        threading.Thread(target=enough.wait).start()
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            write(here + "/child", 5_000_000)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        write(here + "/parent", 1000)
    let_sample(profiler)
    write(here + "/parent", 1000)
    let_sample(profiler)
    enough.set()
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_threads", [1, 20])
def test_children_that_are_waited_for_H3_PR02(child: Child, run_dir: Path, n_threads: int) -> None:
    code = SAMPLING.replace('simplefilter("error")', 'simplefilter("ignore")') + REAPS
    child.run(code, run_dir, n_threads)
    samples = samples_of(run_dir)
    written = samples.total("write_chars")
    assert 1000 <= written <= 6000
    if n_threads > 8:
        assert gaps(samples.rows) == 1, "that it does not know is said"
    if gaps(samples.rows) == 0:
        assert written == 6000
    assert samples.total("write_bytes") < 1_000_000


# Two rows, with all of it between them. A child that is spawned leaves the keeper as it is.
ONE_INTERVAL = """
lasts = sys.argv[2] == "lasts"
written, over = threading.Event(), threading.Event()
def work():
    write(here + "/thread", 5_000_000)
    written.set()
    if lasts:
        over.wait()
with Profiler(run_dir, snapshot_interval_s=1000, sample_interval_s=1000) as profiler:
    with profiler.phase("a"):
        thread = threading.Thread(target=work)
        wait_until(lambda: taken(profiler) == 1)
        thread.start()
        written.wait()
        if not lasts:
            thread.join()
        line = "head -c 3000000 /dev/zero >" + here + "/child"
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", line], os.environ)
        assert os.waitpid(pid, 0)[1] == 0
        write(here + "/main", 1000)
over.set()
"""


@pytest.mark.parametrize("way", ["lasts", "ends"])
def test_a_thread_between_two_rows_beside_a_child_H3_PR02(
    child: Child, run_dir: Path, way: str
) -> None:
    """What a thread moved that no row has seen cannot be told from the child's: that is said."""
    child.run(SAMPLING + ONE_INTERVAL, run_dir, way)
    samples = samples_of(run_dir)
    assert len(samples.rows) == 2
    if way == "lasts":
        assert gaps(samples.rows) == 0
        assert samples.total("write_chars") == 5_001_000
    else:
        assert gaps(samples.rows) == 1


REAPS_LATER = """
with Profiler(run_dir, snapshot_interval_s=0.005, sample_interval_s=0.005) as profiler:
    with profiler.phase("parent"):
        let_sample(profiler)
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                write(here + "/child", 5_000_000)
                os._exit(0)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            let_sample(profiler, 3)
            assert os.waitpid(pid, 0)[1] == 0
            let_sample(profiler, 3)
tell(pid=os.getpid(), in_proc=int(os.readlink("/proc/self")))
"""


@pytest.mark.filterwarnings("ignore")
def test_in_a_pid_namespace_with_the_proc_of_another_PR02(child: Child, run_dir: Path) -> None:
    """Where threads have other numbers, the keeper's own traffic is not the program's."""
    code = SAMPLING.replace('simplefilter("error")', 'simplefilter("ignore")') + REAPS_LATER
    pids = within("true", tuple(option for option in PIDS if option != "--mount-proc"))
    found = child.json(code, run_dir, within=pids)
    assert found["pid"] == 1
    assert found["in_proc"] > 1
    assert samples_of(run_dir).total("write_chars") == 0


FORKS = """
with Profiler(run_dir, **options) as profiler:
    with profiler.phase("parent"):
        let_sample(profiler)
        pid = os.fork()
        if pid == 0:
            with profiler.phase("child"):
                let_sample(profiler, 3)
        else:
            assert os.waitpid(pid, 0)[1] == 0
            let_sample(profiler, 3)
"""


def test_a_forked_child_begins_anew_F9(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + FORKS, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 2
    for worker in run.workers:
        samples = samples_of(run_dir, worker.name)
        assert samples.header["worker"] == worker.name
        assert len(samples.rows) >= 3


# ---- ours --------------------------------------------------------------------------

IDLE = """
with Profiler(run_dir, snapshot_interval_s=0.05, sample_interval_s=0.02) as profiler:
    for i in range(50):
        with profiler.phase("".join(chr(97 + int(digit)) for digit in str(i)), io=i % 2 == 0):
            profiler.count("n")
    with profiler.phase("idle"):
        wait_until(lambda: document(profiler)["flush"] >= 20)
"""


def test_an_idle_process_shows_nothing_F10(child: Child, run_dir: Path) -> None:
    """Though it flushes every 50 ms."""
    child.run(SAMPLING + IDLE, run_dir)
    samples = samples_of(run_dir)
    assert len(samples.rows) > 20
    assert gaps(samples.rows) == 0
    for field in (*CHARS, *BYTES):
        assert samples.total(field) == 0


A_FILE = 2048
"""More characters than a file of /proc has that is read for a sample."""

TWO = """
warnings.simplefilter("ignore")  # two in one process
with Profiler(run_dir, **options) as profiler, Profiler(run_dir, **options) as other:
    with profiler.phase("a"), other.phase("b"):
        let_sample(profiler)
        wait_until(lambda: min(document(p)["flush"] for p in (profiler, other)) >= 10)
        for _ in range(20):
            profiler.snapshot()
            other.snapshot()
"""


def test_two_profilers_do_not_see_each_other_F10(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + TWO, run_dir)
    paths = sorted(run_dir.glob("workers/*/*.samples"))
    assert len(paths) == 2
    for path in paths:
        samples = samples_of(run_dir, path.stem)
        # One read of the other may be under way when the last sample is taken; all of them are
        # some hundred times as much.
        assert max(moved(samples)) < A_FILE


# ---- much of everything ------------------------------------------------------------

MANY = """
if sys.argv[2] == "threads":
    enough = threading.Event()
    threads = [threading.Thread(target=enough.wait) for _ in range(200)]
    for thread in threads:
        thread.start()
else:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(5000, limit[1]), limit[1]))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(min(3000, limit[1] - 100))]
with Profiler(run_dir, **options) as profiler, profiler.phase("a"):
    let_sample(profiler, 3)
    write(here + "/data", 1000)
    let_sample(profiler)
    if sys.argv[2] == "threads":
        enough.set()
if sys.argv[2] == "files":
    tell(n=len(held))
"""


def test_200_threads_H1(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + MANY, run_dir, "threads")
    samples = samples_of(run_dir)
    most = max(row["threads"] or 0 for row in samples.rows)
    assert most in (202, 203), "the main one, the keeper, and who asks git where that takes long"
    assert moved(samples) == (0, 1000)
    assert gaps(samples.rows) == 0


def test_thousands_of_open_files_H1(child: Child, run_dir: Path) -> None:
    n = child.json(SAMPLING + MANY, run_dir, "files")["n"]
    samples = samples_of(run_dir)
    assert all(n < (row["open_files"] or 0) < n + 20 for row in samples.rows)
    assert moved(samples) == (0, 1000)


LOAD = """
with Profiler(run_dir, **options) as profiler, profiler.phase("a"):
    let_sample(profiler)
    cpu = time.process_time()
    while time.process_time() < cpu + 0.2:
        pass
    block = bytearray(64 << 20)
    for i in range(0, len(block), 4096):
        block[i] = 1
    for _ in range(50):
        time.sleep(0)
        threading.Event().wait(0.0001)
    let_sample(profiler)
"""


def test_cpu_memory_faults_and_switches_H1(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + LOAD, run_dir)
    samples = samples_of(run_dir)
    assert samples.total("cpu_ns") >= 200_000_000
    resident = [row["rss_bytes"] or 0 for row in samples.rows]
    assert 60 << 20 <= max(resident) - resident[0] <= 80 << 20
    assert samples.total("minor_faults") >= 1
    assert samples.total("voluntary_switches") >= 50
    for field in ("major_faults", "involuntary_switches", "run_delay_ns"):
        assert samples.total(field) >= 0
    times = [row["monotonic_ns"] or 0 for row in samples.rows]
    assert times == sorted(set(times))
    assert samples.column("cuda_allocated_bytes") == [None] * len(samples.rows)


# ---- what cannot be read -----------------------------------------------------------

NO_DESCRIPTOR = """
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with Profiler(run_dir, **options) as profiler, profiler.phase("a"):
    target = os.open(here + "/data", os.O_WRONLY | os.O_CREAT)
    let_sample(profiler)
    os.write(target, bytes(1000))
    let_sample(profiler)
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    let_sample(profiler, 3)
    os.write(target, bytes(10_000))
    let_sample(profiler, 3)
    while held:
        os.close(held.pop())
    let_sample(profiler, 3)
    os.write(target, bytes(100_000))
    let_sample(profiler)
"""


def test_no_descriptor_is_left_for_a_while_H2(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + NO_DESCRIPTOR, run_dir)
    samples = samples_of(run_dir)
    unknown = [row for row in samples.rows if row["write_chars"] is None]
    assert unknown, "n/a, and no zero"
    assert all(row["cpu_ns"] is not None and row["threads"] is not None for row in unknown)
    assert gaps(samples.rows) & 1
    assert samples.total("write_chars") == 101_000, "what was written meanwhile is in no figure"


CLOSES = """
with Profiler(run_dir, **options) as profiler, profiler.phase("a"):
    let_sample(profiler)
    os.closerange(3, 1000)
    let_sample(profiler, 3)
    write(here + "/data", 1000)
    let_sample(profiler, 3)
"""


def test_a_host_that_closes_all_descriptors(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + CLOSES, run_dir)
    samples = samples_of(run_dir)
    assert samples.total("write_chars") in (0, 1000)
    assert samples.total("write_chars") == 1000 or gaps(samples.rows) & 1


@pytest.mark.parametrize("hidepid", [1, 2])
def test_hidden_processes_see_themselves_PR01(child: Child, run_dir: Path, hidepid: int) -> None:
    proc = within(f"mount -t proc -o hidepid={hidepid} proc /proc", MOUNTS)
    child.run(SAMPLING + AMOUNTS, run_dir, within=proc)
    assert moved(samples_of(run_dir)) == (40_000, 4_000_000)


NOT_DUMPABLE = """
import ctypes
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
with Profiler(run_dir, **options) as profiler, profiler.phase("a"):
    let_sample(profiler, 5)
    with profiler.phase("b", io=True):
        write(here + "/data", 1000)
"""


def test_a_process_that_may_not_read_its_io_H2_PR01(child: Child, run_dir: Path) -> None:
    """N/a, and the rest is sampled."""
    run_dir.parent.chmod(0o777)
    nobody = as_nobody(run_dir.parent) if os.geteuid() == 0 else ()  # root may read anything
    child.run(SAMPLING + NOT_DUMPABLE, run_dir, within=nobody)
    samples = samples_of(run_dir)
    assert len(samples.rows) >= 5
    for row in samples.rows:
        assert [row[field] for field in (*CHARS, *BYTES)] == [None] * 4
        assert row["rss_bytes"]
        assert row["cpu_ns"]
        assert row["threads"]
        assert row["minor_faults"]
    run = merge_run(run_dir)
    assert run.tree[("a", "b")].counters == {}
    assert run.workers[0].troubles == {"unread_io": 1}


# ---- files -------------------------------------------------------------------------

KILLED = """
interval_s = float(sys.argv[2]) or None
profiler = Profiler(run_dir, snapshot_interval_s=interval_s, sample_interval_s=0.005)
with profiler.phase("a"):
    let_sample(profiler, 20)
    tell(taken=taken(profiler), worker=profiler.worker)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("interval_s", [0, 0.02])
def test_a_killed_process_loses_no_row_F7(child: Child, run_dir: Path, interval_s: float) -> None:
    done = child.run(SAMPLING + KILLED, run_dir, interval_s, status=-signal.SIGKILL)
    taken = json.loads(done.stdout)
    merge_run(run_dir)  # adopts it
    samples = samples_of(run_dir, taken["worker"])
    assert len(samples.rows) >= taken["taken"]


LIVE = """
profiler = Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=0.005)
with profiler.phase("moves"):
    let_sample(profiler)
    write(f"{here}/data", 1_000_000)
    print("moved", flush=True)
    wait_until(lambda: os.path.exists(f"{here}/go"))
profiler.close()
"""


def test_rows_that_no_file_has_yet_are_read_and_counted_once_J5(
    child: Child, run_dir: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    def written() -> int:
        io = merge_run(run_dir).io
        return (io and io.moved.write_chars) or 0

    with child.start(SAMPLING + LIVE, run_dir) as process, contextlib.ExitStack() as at_end:
        at_end.callback((run_dir.parent / "go").touch)
        assert process.stdout
        assert process.stdout.readline() == "moved\n"
        wait_until(lambda: written() >= 1_000_000)
        process.send_signal(signal.SIGSTOP)
        try:
            live, again = merge_run(run_dir), written()
        finally:
            process.send_signal(signal.SIGCONT)
        assert live.io is not None
        [phase] = [s for s in live.roles["main"].sampled if s.path == ("moves",)]
        assert phase.moved.write_chars == live.io.moved.write_chars == again
        assert not list(run_dir.rglob("*.samples"))
    assert process.returncode == 0
    assert samples_of(run_dir).total("write_chars") >= 1_000_000
    assert 1_000_000 <= written() < 1_010_000, "nothing twice"


def test_the_files_of_a_worker_F1(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler, profiler.phase("a"):
        pass
    host = socket.gethostname()
    files = sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("w_*"))
    assert files == [f"workers/{host}/{profiler.worker}{kind}" for kind in (".json", ".samples")]
    samples = samples_of(run_dir)
    assert samples.header["kind"] == "process"
    assert samples.header["worker"] == profiler.worker
    assert len(samples.rows) >= 1


def test_none_without_an_interval_E10_H1(run_dir: Path) -> None:
    with Profiler(run_dir, sample_interval_s=None) as profiler, profiler.phase("a"):
        pass
    assert list(run_dir.rglob("*.samples")) == []


APPENDS = """
with Profiler(run_dir, **options) as profiler, profiler.phase("a"):
    for _ in range(10):
        let_sample(profiler, 5)
        profiler.snapshot()
        [path] = Path(run_dir).glob("workers/*/*.samples")
        Path(f"{here}/copy{_}").write_bytes(path.read_bytes())
"""


def test_a_file_is_only_appended_to_F1(child: Child, run_dir: Path) -> None:
    child.run(SAMPLING + APPENDS, run_dir)
    [path] = run_dir.glob("workers/*/*.samples")
    last = path.read_bytes()
    sizes = []
    for i in range(10):
        copy = run_dir.parent / f"copy{i}"
        assert last.startswith(copy.read_bytes())
        sizes.append(len(read_samples(copy).rows))
    assert sizes == sorted(set(sizes))

"""phase(io=True): the bytes that a thread moves between a phase's own boundaries, and no others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import mmap
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import MOUNTS, PRELUDE, as_nobody, within

from lineprofiler.accounting import Profiler, Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

Finish = Callable[[], Run]
CHARS = ("io_read_chars", "io_write_chars")
BYTES = ("io_read_bytes", "io_write_bytes")
NAMES = (*BYTES, *CHARS)
METHODS = multiprocessing.get_all_start_methods()


def write(path: Path, n: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    assert os.write(fd, bytes(n)) == n
    os.close(fd)


def read(path: Path, n: int) -> None:
    fd = os.open(path, os.O_RDONLY)
    assert len(os.read(fd, n)) == n
    os.close(fd)


def counters(run: Run, *path: str) -> dict[str, int]:
    """Return the four counters of a phase, which it must have."""
    found = run.tree[path].counters
    assert sorted(found) == sorted(NAMES)
    return {name: int(found[name]) for name in NAMES}


def chars(run: Run, *path: str) -> tuple[int, int]:
    found = counters(run, *path)
    return found["io_read_chars"], found["io_write_chars"]


def unread(run: Run) -> int:
    return sum(worker.troubles.get("unread_io", 0) for worker in run.workers)


@pytest.fixture(autouse=True)
def kernel_counts() -> None:
    if not Path("/proc/thread-self/io").exists():
        pytest.skip("this kernel counts no I/O")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data"


# ---- amounts -----------------------------------------------------------------------


def test_known_amounts_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    for i in range(1, 4):
        with profiler.phase("written", io=True):
            write(file, i * 100_000)
        with profiler.phase("read", io=True):
            read(file, i * 1000)
    run = finish()
    assert chars(run, "written") == (0, 600_000)
    assert chars(run, "read") == (6000, 0)
    counter = run.tree[("written",)].counters["io_write_chars"]
    assert (counter.calls, counter.min, counter.max) == (3, 100_000, 300_000)
    assert run.tree[("written",)].calls == 3
    assert run.caveats == []


def test_nothing_moved_is_a_measured_zero_H2_H4(profiler: Profiler, finish: Finish) -> None:
    with profiler.phase("idle", io=True):
        sum(range(1000))
    with profiler.phase("not asked"):
        pass
    run = finish()
    assert counters(run, "idle") == dict.fromkeys(NAMES, 0)
    assert all(run.tree[("idle",)].counters[name].calls == 1 for name in NAMES)
    assert run.tree[("not asked",)].counters == {}


METADATA = 64 << 10
"""Bytes of its own, an inode or a bitmap, that a file system may move when it likes."""


def direct(path: Path, n: int) -> Iterator[int]:
    """Write, then read n bytes past the page cache; or skip."""
    buffer = mmap.mmap(-1, n)  # page-aligned
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        yield os.writev(fd, [buffer])
        yield os.preadv(fd, [buffer], 0)
        os.close(fd)
    except OSError as error:
        pytest.skip(f"no direct I/O here: {error}")


def test_both_layers_with_direct_io_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    n = 1 << 20
    steps = direct(file, n)
    with profiler.phase("written", io=True):
        assert next(steps) == n
    with profiler.phase("read", io=True):
        assert next(steps) == n
    run = finish()
    written, got = counters(run, "written"), counters(run, "read")
    if written["io_write_bytes"] == 0:
        pytest.skip("this file system is on no block device")
    assert n <= written["io_write_bytes"] <= n + METADATA
    assert n <= got["io_read_bytes"] <= n + METADATA
    assert written["io_read_bytes"] <= METADATA
    assert got["io_write_bytes"] <= METADATA
    assert (written["io_write_chars"], got["io_read_chars"]) == (n, n)


def test_the_page_cache_serves_chars_without_bytes_H4(
    profiler: Profiler, finish: Finish, file: Path
) -> None:
    n = 1 << 20
    write(file, n)
    fd = os.open(file, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    for name in ("cold", "warm"):
        with profiler.phase(name, io=True):
            read(file, n)
    run = finish()
    cold, warm = counters(run, "cold"), counters(run, "warm")
    assert cold["io_read_chars"] == warm["io_read_chars"] == n
    assert warm["io_read_bytes"] <= METADATA
    if cold["io_read_bytes"] == 0:
        pytest.skip("this file system cannot be made to forget")
    assert cold["io_read_bytes"] >= n


# ---- shapes ------------------------------------------------------------------------


def test_nested_and_recursive_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    def recurse(depth: int) -> None:
        with profiler.phase("deeper", io=True):
            write(file, 1000)
            if depth:
                recurse(depth - 1)

    with profiler.phase("outer", io=True):
        write(file, 10)
        with profiler.phase("plain"), profiler.phase("inner", io=True):
            write(file, 100)
        recurse(2)
        read(file, 7)
    run = finish()
    assert chars(run, "outer") == (7, 3110), "not a byte of our own readings"
    assert chars(run, "outer", "plain", "inner") == (0, 100)
    for depth in range(3):
        assert chars(run, "outer", *["deeper"] * (depth + 1)) == (0, 1000 * (3 - depth))


def test_sampled_is_scaled_G1_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    for _ in range(100):
        with profiler.phase("rare", io=True, sample=0.1):
            write(file, 1000)
    run = finish()
    node = run.tree[("rare",)]
    assert node.calls == 100
    assert chars(run, "rare") == (0, 100_000)
    assert unread(run) == 0


def test_kept_handles_by_threads_at_once_B11_H4(
    profiler: Profiler, finish: Finish, tmp_path: Path
) -> None:
    handle = profiler.phase("kept", io=True)
    barrier = threading.Barrier(4)

    def work(i: int) -> None:
        for _ in range(5):
            barrier.wait()
            with handle:
                barrier.wait()
                write(tmp_path / str(i), 1000 * (i + 1))
                barrier.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run = finish()
    assert chars(run, "kept") == (0, 5 * 10_000), "each its own, though all were open at once"
    assert run.tree[("kept",)].counters["io_write_chars"].max == 4000


def test_entered_by_hand_and_by_exit_stack_H4(
    profiler: Profiler, finish: Finish, file: Path
) -> None:
    handle = profiler.phase("by hand", io=True)
    handle.__enter__()
    write(file, 11)
    handle.__enter__()
    write(file, 100)
    handle.__exit__(None, None, None)
    handle.__exit__(None, None, None)
    with contextlib.ExitStack() as stack:
        for name in ("one", "two"):
            stack.enter_context(profiler.phase(name, io=True))
            write(file, 1000)
    run = finish()
    assert chars(run, "by hand") == (0, 111)
    assert chars(run, "by hand", "by hand") == (0, 100)
    assert chars(run, "one") == (0, 2000)
    assert chars(run, "one", "two") == (0, 1000)


def test_out_of_order_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    first, second = profiler.phase("first", io=True), profiler.phase("second", io=True)
    first.__enter__()
    write(file, 1)
    second.__enter__()
    write(file, 10)
    first.__exit__(None, None, None)
    write(file, 100)
    second.__exit__(None, None, None)
    run = finish()
    assert chars(run, "first") == (0, 11)
    assert chars(run, "first", "second") == (0, 110)


def test_generators_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    def produce(name: str, n: int) -> Iterator[int]:
        with profiler.phase(name, io=True):
            write(file, n)
            yield 1
            write(file, n)
            yield 2

    assert list(produce("whole", 10)) == [1, 2]
    abandoned = produce("abandoned", 100)
    next(abandoned)
    del abandoned
    gc.collect()
    run = finish()
    assert chars(run, "whole") == (0, 20)
    assert chars(run, "abandoned") == (0, 100)


def test_exceptions_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    def write_and_raise() -> None:
        with profiler.phase("raises", io=True):
            write(file, 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_raise()
    assert chars(finish(), "raises") == (0, 10)


def test_asyncio_tasks_H4(profiler: Profiler, finish: Finish, tmp_path: Path) -> None:
    """A phase that does not await has its task's bytes alone."""

    async def task(i: int) -> None:
        for _ in range(3):
            with profiler.phase("step", io=True):
                write(tmp_path / str(i), 100 * (i + 1))
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(task(i) for i in range(4)))

    asyncio.run(main())
    run = finish()
    assert chars(run, "step") == (0, 3 * 1000)
    assert run.tree[("step",)].calls == 12


def test_left_on_another_thread_B8_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    """Nobody knows what the one has moved when the other leaves: counted, and no bytes."""
    entry = profiler.phase("handed over", io=True)
    entry.__enter__()
    write(file, 1000)
    thread = threading.Thread(target=entry.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with profiler.phase("after", io=True):
        write(file, 10)
    run = finish()
    assert run.tree[("handed over",)].calls == 1
    assert run.tree[("handed over",)].counters == {}
    assert chars(run, "after") == (0, 10)
    assert unread(run) == 1


def test_of_a_profiler_that_is_off_or_closed(profiler: Profiler, run_dir: Path) -> None:
    with Profiler(run_dir / "off", enabled=False).phase("a", io=True):
        pass
    handle = profiler.phase("open at close", io=True)
    with handle:
        profiler.close()
    with handle:
        pass
    run = merge_run(run_dir)
    assert run.tree[("open at close",)].counters == {}
    assert unread(run) == 0


def test_no_memory_is_kept_H4(profiler: Profiler) -> None:
    handle = profiler.phase("many", io=True)

    def some() -> None:
        for _ in range(500):
            with handle, profiler.phase("inner", io=True):
                pass
            handle.__enter__()
            handle.__exit__(None, None, None)
            abandoned = profiler.phase("abandoned", io=True)
            abandoned.__enter__()
            del abandoned

    some()
    gc.collect()
    before = sys.getallocatedblocks()
    some()
    gc.collect()
    assert sys.getallocatedblocks() < before + 100


# ---- the profiler's own bytes, and children's --------------------------------------


def test_our_own_files_are_left_out_F10_H4(profiler: Profiler, finish: Finish, file: Path) -> None:
    with profiler.phase("outer", io=True):
        for _ in range(3):
            profiler.snapshot()
            with profiler.phase("inner", io=True):
                profiler.snapshot()
                write(file, 10)
    run = finish()
    assert counters(run, "outer", "inner")["io_write_chars"] == 30
    assert counters(run, "outer")["io_write_chars"] == 30
    assert counters(run, "outer")["io_read_chars"] == 0


@pytest.mark.parametrize("way", ["fork", "subprocess"])
def test_reaped_children_are_billed_to_no_phase_H4_PR02(
    child: Child, run_dir: Path, way: str
) -> None:
    child.run(PRELUDE + REAPS, run_dir, way)
    run = merge_run(run_dir)
    found = counters(run, "parent")
    assert found["io_write_chars"] == 1000
    assert found["io_write_bytes"] <= 64 << 10
    assert found["io_read_chars"] < 1000, "what subprocess itself reads from a pipe"


REAPS = """
import subprocess
run_dir, way = sys.argv[1:]
writes = f"open({run_dir + '/../by_child'!r}, 'wb').write(bytes(5_000_000))"
with Profiler(run_dir, sample_interval_s=None) as profiler, profiler.phase("parent", io=True):
    if way == "subprocess":
        subprocess.run([sys.executable, "-c", writes], check=True)
    else:
        pid = os.fork()
        if pid == 0:
            exec(writes)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    fd = os.open(run_dir + "/../by_parent", os.O_WRONLY | os.O_CREAT)
    os.write(fd, bytes(1000))
"""


@pytest.mark.parametrize("way", ["fork", "raw"])
def test_open_across_a_fork_H4(child: Child, run_dir: Path, way: str) -> None:
    """In the child it is its parent's phase: neither bytes nor a word about them."""
    child.run(PRELUDE + ACROSS, run_dir, way)
    run = merge_run(run_dir)
    read_chars, write_chars = chars(run, "parent")
    assert write_chars == 1010
    assert read_chars < 4096, "os.fork() itself reads /proc/self/stat on some versions"
    assert unread(run) == 0
    assert len(run.workers) == (2 if way == "fork" else 1)
    if way == "fork":
        assert chars(run, "child") == (0, 100)


ACROSS = """
import ctypes
run_dir, way = sys.argv[1:]

def write(n):
    fd = os.open(f"{run_dir}/../{os.getpid()}", os.O_WRONLY | os.O_CREAT)
    os.write(fd, bytes(n))

SYS_clone, SIGCHLD = {"x86_64": 56, "aarch64": 220}[os.uname().machine], 17
profiler = Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None)
with profiler.phase("parent", io=True) as phase:
    write(1000)
    pid = os.fork() if way == "fork" else ctypes.CDLL(None).syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        write(10)
if pid == 0:
    if way == "fork":
        with profiler.phase("child", io=True):
            write(100)
        profiler.close()
    os._exit(0)
profiler.close()
"""


PICKLED = """
import multiprocessing

def work(profiler, handle, path):
    with handle:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(fd, bytes(12_345))

if __name__ == "__main__":
    run_dir, method = sys.argv[1:]
    context = multiprocessing.get_context(method)
    with Profiler(run_dir) as profiler:
        args = profiler, profiler.phase("handed", io=True), run_dir + "/../data"
        process = context.Process(target=work, args=args)
        process.start()
        process.join()
        assert process.exitcode == 0
"""


@pytest.mark.parametrize("method", METHODS)
def test_pickled_to_a_child_FK11_H4(child: Child, run_dir: Path, method: str) -> None:
    child.run(PRELUDE + PICKLED, run_dir, method)
    assert chars(merge_run(run_dir), "handed") == (0, 12_345)


# ---- what cannot be read -----------------------------------------------------------

CANNOT = """
run_dir, how = sys.argv[1:]
import ctypes, resource
warnings.simplefilter("ignore")
profiler = Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None)
target = os.open(run_dir + "/../data", os.O_WRONLY | os.O_CREAT)
held = []

def begin():
    if how == "not dumpable":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    elif how == "no descriptor":
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
    else:
        os.closerange(3, target)
        os.closerange(target + 1, 1000)

def end():
    if how == "not dumpable":
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    while held:
        os.close(held.pop())

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for name in ("before", "throughout", "at its end", "at its begin", "after"):
    if name in ("throughout", "at its begin"):
        begin()
    with profiler.phase(name, io=True):
        if name == "at its end":
            begin()
        os.write(target, bytes(1000))
        if name == "at its begin":
            end()
    if name in ("throughout", "at its end"):
        end()
profiler.close()
"""

BETWEEN = {"throughout", "at its end", "at its begin"}


@pytest.mark.parametrize("how", ["not dumpable", "no descriptor", "closed descriptors"])
def test_what_cannot_be_read_is_not_recorded_H2_H4_PR01(
    child: Child, run_dir: Path, how: str
) -> None:
    run_dir.parent.chmod(0o777)
    # Root may read anything.
    nobody = as_nobody(run_dir.parent) if how == "not dumpable" and os.geteuid() == 0 else ()
    child.run(PRELUDE + CANNOT, run_dir, how, within=nobody)
    run = merge_run(run_dir)
    unreadable = set() if how == "closed descriptors" else BETWEEN
    for name in ("before", "throughout", "at its end", "at its begin", "after"):
        assert run.tree[(name,)].calls == 1
        if name in unreadable:
            assert run.tree[(name,)].counters == {}
        else:
            assert chars(run, name) == (0, 1000)
    assert unread(run) == len(unreadable)
    said = [caveat.text for caveat in run.caveats if "io=True" in caveat.text]
    assert len(said) == (1 if unreadable else 0)


@pytest.mark.parametrize("hidepid", [1, 2])
def test_hidden_processes_see_themselves_H4_PR01(child: Child, run_dir: Path, hidepid: int) -> None:
    proc = within(f"mount -t proc -o hidepid={hidepid} proc /proc", MOUNTS)
    child.run(PRELUDE + CANNOT, run_dir, "closed descriptors", within=proc)
    run = merge_run(run_dir)
    assert chars(run, "throughout") == (0, 1000)
    assert unread(run) == 0


def test_without_proc_H2_H4(child: Child, run_dir: Path) -> None:
    proc = within("mount -t tmpfs -o size=4k none /proc", MOUNTS)
    child.run(PRELUDE + CANNOT, run_dir, "closed descriptors", within=proc)
    run = merge_run(run_dir)
    assert len(run.tree) == 5
    assert all(node.counters == {} for node in run.tree.values())
    assert unread(run) == 5

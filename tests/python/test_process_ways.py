"""Every way in which a Python program makes processes: what is recorded is what they did (F9).

Each program says how many workers, calls and counts there are to be. More would be wrong as well:
children that only run another program, and servers that only start children, are no workers.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

METHODS = multiprocessing.get_all_start_methods()

Finished = Callable[[Path], Run]


def check(run: Run, workers: int, calls: int) -> None:
    """Each entry of `work` counted 7 once; the parent was in `parent` once."""
    assert len(run.workers) == workers
    assert len({worker.name for worker in run.workers}) == workers
    assert run.superseded == []
    [work] = [node for path, node in run.tree.items() if path[-1] == "work"]
    assert (work.calls, work.counters) == (calls, {"n": 7 * calls})
    assert work.counters["n"].calls == calls
    assert run.tree[("parent",)].calls == 1
    assert len(run.tree) == 2


PROGRAM = """
import multiprocessing, os, subprocess, sys, threading, warnings
warnings.simplefilter("error")
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(i=0):
    with accounting.phase("work"):
        accounting.count("n", 7)
    return os.getpid()

def in_child():
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(3)
    assert os.waitpid(pid, 0)[1] == 3 << 8

if __name__ == "__main__":
    run_dir = sys.argv[1]
    with Profiler(run_dir, "parent", install=True, snapshot_interval_s=0.05):
        with accounting.phase("parent"):
            assert accounting.current() == "parent"
            {body}
            assert accounting.current() == "parent"
"""

# The body, how many workers beside the parent, how many calls.
FORKS = {
    "inside an open phase": ("in_child()", 1, 1),
    "nested phases, then out of them": (
        """
            pid = os.fork()
            if pid == 0:
                assert accounting.current() == ""
                work()
                assert accounting.current() == ""
                accounting.stop()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0""",
        1,
        1,
    ),
    "from a thread": (
        """
            def run():
                pid = os.fork()
                if pid == 0:
                    work()
                    accounting.stop()
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            thread = threading.Thread(target=run)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                thread.start()
                thread.join()""",
        1,
        1,
    ),
    "200 times": (
        """
            for i in range(200):
                in_child()""",
        200,
        200,
    ),
    "a child of a child": (
        """
            pid = os.fork()
            if pid == 0:
                work()
                in_child()
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0""",
        2,
        2,
    ),
    "a child of a child that does nothing": (
        """
            pid = os.fork()
            if pid == 0:
                in_child()
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0""",
        1,
        1,
    ),
    "a daemon": (
        """
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.setsid()
                if os.fork():
                    os._exit(0)
                os.chdir("/")
                null = os.open("/dev/null", os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                os.closerange(3, write)
                os.closerange(write + 1, 1000)
                work()
                os.closerange(3, write)
                os.closerange(write + 1, 1000)
                work()
                accounting.stop()
                os.write(write, b"x")
                os._exit(0)
            os.close(write)
            assert os.waitpid(pid, 0)[1] == 0
            assert os.read(read, 1) == b"x\"""",
        1,
        2,
    ),
    "vfork and posix_spawn": (
        """
            assert os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)[1] == 0
            assert os.system("true") == 0
            work()""",
        0,
        1,
    ),
    "subprocess": (
        """
            subprocess.run(["true"], check=True)
            subprocess.run("true", shell=True, check=True)
            subprocess.run(["true"], check=True, start_new_session=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                subprocess.run(["true"], check=True, preexec_fn=lambda: accounting.current())
            work()""",
        0,
        1,
    ),
    "a failing exec": (
        """
            for options in {}, {"preexec_fn": lambda: None}:
                try:
                    subprocess.run(["/no/such/program"], **options)
                except FileNotFoundError:
                    work()""",
        0,
        2,
    ),
}


@pytest.mark.parametrize("way", FORKS)
def test_forks_F9(child: Child, run_dir: Path, finished: Finished, way: str) -> None:
    body, workers, calls = FORKS[way]
    done = child.run(PROGRAM.replace("{body}", body.strip()), run_dir)
    assert done.stderr == ""
    check(finished(run_dir), 1 + workers, calls)


POOL = """
import concurrent.futures, multiprocessing, os, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def start():
    if accounting.installed_profiler() is None:
        accounting.start(role="child")

def work(i=0):
    with accounting.phase("work"):
        accounting.count("n", 7)
    return os.getpid()

def run_process(context, n):
    processes = [context.Process(target=start_and_work) for _ in range(n)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * n

def start_and_work():
    start()
    work()

def run_pool(context, n):
    pool = context.Pool(n, initializer=start)
    pids = set(pool.map(work, range(8 * n), chunksize=1))
    pool.close()
    pool.join()

def run_short_pool(context, n):
    pool = context.Pool(n, initializer=start, maxtasksperchild=1)
    pids = set(pool.map(work, range(2 * n), chunksize=1))
    pool.close()
    pool.join()

def run_executor(context, n):
    with concurrent.futures.ProcessPoolExecutor(n, context, initializer=start) as executor:
        list(executor.map(work, range(8 * n)))

def run_executor_left_open(context, n):
    global executor
    executor = concurrent.futures.ProcessPoolExecutor(n, context, initializer=start)
    list(executor.map(work, range(8 * n)))

if __name__ == "__main__":
    run_dir, way, method, n = sys.argv[1:]
    profiler = Profiler(run_dir, "parent", install=True)
    with profiler.phase("parent"):
        globals()["run_" + way](multiprocessing.get_context(method), int(n))
    if way != "executor_left_open":
        profiler.close()
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("way", ["pool", "short_pool", "executor", "executor_left_open"])
def test_pools_F9_FK13_FK14(
    child: Child, run_dir: Path, finished: Finished, way: str, method: str
) -> None:
    child.run(POOL, run_dir, way, method, 3, options=("-W", "ignore"))
    run = finished(run_dir)
    # A worker that got no task is there all the same where it made a profiler of its own.
    busy = len([worker for worker in run.workers if worker.role != "parent"])
    if method == "fork":
        busy = len(run.workers) - 1
        assert 1 <= busy <= (6 if way == "short_pool" else 3)
    else:
        assert list(run.roles) == ["child", "parent"]
        assert (busy >= 6) if way == "short_pool" else (busy <= 3)
    check(run, 1 + busy, 6 if way == "short_pool" else 24)


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("method", METHODS)
def test_processes_F9_FK11(
    child: Child, run_dir: Path, finished: Finished, method: str, n: int
) -> None:
    child.run(POOL, run_dir, "process", method, n, options=("-W", "ignore"))
    check(finished(run_dir), 1 + n, n)


def test_children_write_to_files_of_their_own_FK01_FK02(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    code = """
import os, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1])
handle = profiler.phase("open")
with handle:
    profiler.count("n")
    for i in range(3):
        pid = os.fork()
        if pid == 0:
            for _ in range(10):
                with handle:
                    profiler.count("n")
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
"""
    child.run(code, run_dir)
    run = finished(run_dir)
    assert len(run.workers) == 4
    assert run.tree[("open",)].counters == {"n": 31}
    assert all(f"_{worker.pid}_" in worker.name for worker in run.workers)
    assert len({worker.pid for worker in run.workers}) == 4


def test_a_child_that_outlives_its_parent_FK04(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    code = """
import os, sys
from lineprofiler import accounting
accounting.start(sys.argv[1])
read, write = os.pipe()
with accounting.phase("parent"):
    pass
if os.fork() == 0:
    os.close(write)
    os.read(read, 1)  # until the parent is gone, with all that it wrote
    with accounting.phase("work"):
        accounting.count("n", 7)
    sys.exit(0)
"""
    child.run(code, run_dir)  # the pipes of its output close when the last of both has ended
    check(finished(run_dir), 2, 1)


def test_a_child_that_ends_with_its_parent_FK21(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    code = """
import os, sys
from lineprofiler import accounting
from lineprofiler.accounting import merge_run
accounting.start(sys.argv[1])
with accounting.phase("parent"):
    pass
read, write = os.pipe()
ready, tell = os.pipe()
if os.fork() == 0:
    os.close(write)
    with accounting.phase("work"):
        accounting.count("n", 7)
    with accounting.phase("waits for the parent's end"):
        os.write(tell, b"x")
        os.read(read, 1)
    accounting.stop()
    os._exit(0)
os.read(ready, 1)
accounting.stop()
run = merge_run(sys.argv[1])
assert [worker.source for worker in run.workers].count("live") == 1
assert run.tree[("work",)].counters == {"n": 7}
assert run.tree[("waits for the parent's end",)].open_calls == 1
assert {c.kind for c in run.caveats} <= {"dropped"}, run.caveats
"""
    child.run(code, run_dir)
    assert len(finished(run_dir).workers) == 2


def test_a_run_directory_that_went_away_FK08(child: Child, run_dir: Path) -> None:
    code = """
import os, shutil, sys
from lineprofiler import accounting
accounting.start(sys.argv[1])
shutil.rmtree(sys.argv[1])
open(sys.argv[1], "w").close()
pid = os.fork()
if pid == 0:
    with accounting.phase("work"):
        pass
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
os._exit(0)
"""
    done = child.run(code, run_dir)
    assert done.stdout == "7\n"
    assert done.stderr.count("Warning") == done.stderr.count("cannot write") == 1


def test_pool_results_survive_a_failing_flush_FK09(child: Child, run_dir: Path) -> None:
    code = """
import multiprocessing, os, shutil, sys
from lineprofiler import accounting

def work(i):
    with accounting.phase("work"):
        pass
    accounting.stop()
    return i

accounting.start(sys.argv[1])
shutil.rmtree(sys.argv[1])
open(sys.argv[1], "w").close()
pool = multiprocessing.get_context("fork").Pool(2)
print(sum(pool.map(work, range(20), chunksize=1)))
pool.close()
pool.join()
os._exit(0)
"""
    assert child.run(code, run_dir, options=("-W", "ignore")).stdout == "190\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_a_server_imports_is_no_worker_FK10(
    child: Child, run_dir: Path, finished: Finished, method: str
) -> None:
    (child.folder / "instrumented.py").write_text("""
import os, sys
from lineprofiler import accounting
if "Profiler" not in globals():
    Profiler = accounting.Profiler(os.environ["DIR"], "imported", run_id="one", install=True)
""")
    code = """
import multiprocessing, sys

def work():
    import instrumented
    from lineprofiler import accounting
    with accounting.phase("work"):
        accounting.count("n", 7)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    context.set_forkserver_preload(["instrumented"])
    children = [context.Process(target=work) for _ in range(3)]
    for process in children:
        process.start()
    for process in children:
        process.join()
"""
    child.run(code, method, env={"DIR": str(run_dir), "PYTHONPATH": str(child.folder)})
    run = finished(run_dir)
    assert [worker.role for worker in run.workers] == ["imported"] * 3
    assert run.tree[("work",)].counters == {"n": 21}


def test_children_that_are_not_to_record_FK07(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    code = """
import multiprocessing, os, sys
from lineprofiler.accounting import Profiler

def work(i):
    sys.setprofile(None)
    with Profiler(enabled=False) as profiler, profiler.phase("work"):
        return i

if __name__ == "__main__":
    with Profiler(sys.argv[1]) as profiler:
        with profiler.phase("parent"):
            for method in multiprocessing.get_all_start_methods():
                pool = multiprocessing.get_context(method).Pool(2)
                assert pool.map(work, range(4)) == [0, 1, 2, 3]
                pool.close()
                pool.join()
"""
    child.run(code, run_dir, options=("-W", "ignore"))
    run = finished(run_dir)
    assert len(run.workers) == 1
    assert list(run.tree) == [("parent",)]


def test_sigchld_and_statuses_are_the_programs_FK20(child: Child, run_dir: Path) -> None:
    code = """
import multiprocessing, os, signal, sys
from lineprofiler import accounting

def work(i):
    with accounting.phase("work"):
        accounting.count("n", 7)
    sys.exit(i)

if __name__ == "__main__":
    seen = []
    signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    if sys.argv[1:]:
        accounting.start(sys.argv[1], snapshot_interval_s=0.01)
    context = multiprocessing.get_context("fork")
    codes = []
    with accounting.phase("parent"):
        for i in range(5):
            process = context.Process(target=work, args=(i,))
            process.start()
            process.join()
            codes.append(process.exitcode)
        process = context.Process(target=os.pause if hasattr(os, "pause") else signal.pause)
        process.start()
        process.terminate()
        process.join()
        codes.append(process.exitcode)
    accounting.stop()
    try:
        os.wait()
    except ChildProcessError:
        print(len(seen), codes, signal.getsignal(signal.SIGCHLD) is not None)
"""
    assert child.run(code, run_dir).stdout == child.run(code).stdout
    assert merge_run(run_dir).tree[("work",)].calls == 5


def test_output_of_a_profiled_program_is_unchanged_FK22(child: Child, run_dir: Path) -> None:
    program = child.folder / "program.py"
    program.write_text("""
import os, sys
from lineprofiler.accounting import Profiler
with Profiler(role="program") as profiler, profiler.phase("work"):
    profiler.count("n", 7)
    data = sys.stdin.buffer.read()
    os.write(1, data[::-1])
    os.write(2, data)
sys.exit(4)
""")
    code = """
import shlex, subprocess, sys
from lineprofiler.accounting import Profiler
command = shlex.join([sys.executable, "program.py"]) + " | cat; exit ${PIPESTATUS[0]}"
def ask():
    process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = process.communicate(bytes(range(256)) * 1000)
    return process.returncode, out
import os
os.environ["LINEPROFILER_PROFILE"] = "0"
unprofiled = ask()
del os.environ["LINEPROFILER_PROFILE"]
with Profiler(sys.argv[1]) as profiler, profiler.phase("parent"):
    assert ask() == unprofiled
assert unprofiled[0] == 4 and len(unprofiled[1][0]) == len(unprofiled[1][1]) == 256000
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert [worker.role for worker in run.workers] == ["parent", "program"] or len(run.workers) == 2
    check(run, 2, 1)


@pytest.mark.parametrize("scrubbed", [False, True])
def test_exec_keeps_what_was_recorded_EX11(child: Child, run_dir: Path, scrubbed: bool) -> None:
    (child.folder / "next.py").write_text("""
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], "next") as profiler, profiler.phase("next"):
    profiler.count("n", 4)
""")
    code = """
import os, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "before")
with profiler.phase("before"):
    profiler.count("n", 3)
environment = {} if sys.argv[2] == "True" else os.environ
os.execve(sys.executable, [sys.executable, "next.py", sys.argv[1]], environment)
"""
    child.run(code, run_dir, scrubbed)
    run = merge_run(run_dir)
    if scrubbed:  # nobody tells the next program of the run: it makes another attempt
        assert [attempt.workers for attempt in run.superseded] == [1]
        assert run.tree[("next",)].counters == {"n": 4}
        return
    assert sorted(worker.role for worker in run.workers) == ["before", "next"]
    assert run.tree[("before",)].counters == {"n": 3}
    assert run.tree[("next",)].counters == {"n": 4}


def test_a_shell_in_between_F9(child: Child, run_dir: Path, finished: Finished) -> None:
    code = """
import os, shlex, subprocess, sys
from lineprofiler.accounting import Profiler
tool = '''
from lineprofiler.accounting import Profiler
with Profiler(role="tool") as profiler, profiler.phase("work"):
    profiler.count("n", 7)
'''
python = shlex.join([sys.executable, "-c", tool])
with Profiler(sys.argv[1], "parent") as profiler, profiler.phase("parent"):
    assert os.system(python) == 0
    subprocess.run(f"env -i {python} && ({python})", shell=True, check=True)
    subprocess.run([sys.executable, "-c", tool], check=True, env={}, preexec_fn=lambda: None,
                   start_new_session=True)
"""
    child.run(code, run_dir, options=("-W", "ignore"))
    run = finished(run_dir)
    check(run, 5, 4)
    assert len(run.workers_of("tool")) == 4


ONLY_WAITS = """
import json, os, pathlib, sys, time, warnings
warnings.simplefilter("error")
from lineprofiler.accounting import Profiler
run_dir = pathlib.Path(sys.argv[1])
with Profiler(run_dir, snapshot_interval_s=0.02, sample_interval_s=None) as profiler:
    with profiler.phase("wait for the actors"):
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        seen = set()
        while len(seen) < 3:
            for path in run_dir.glob("workers/*/*.json"):
                seen.add(json.loads(path.read_text())["flush"])
"""


def test_a_parent_that_forks_and_then_only_waits_is_flushed(child: Child, run_dir: Path) -> None:
    child.run(ONLY_WAITS, run_dir)
    [worker] = merge_run(run_dir).workers
    assert worker.closed
    assert worker.flush >= 3


# Batches are loaded by two processes each, which are ended in both ways that there are: at the end
# of the data, and with the iterator in the middle of it.
LOADER = """
import sys, warnings
warnings.simplefilter("ignore")
import torch.utils.data
from lineprofiler import accounting

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        with accounting.phase("load"):
            accounting.count("n")
        return i

if __name__ == "__main__":
    if sys.argv[1:]:
        accounting.start(sys.argv[1], "trainer", snapshot_interval_s=0.05)
    with accounting.phase("epoch"):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2)
        ended = iter(loader)
        workers = list(ended._workers)
        print(sum(int(batch.sum()) for batch in ended), flush=True)
        cut_off = iter(loader)
        workers += cut_off._workers
        next(cut_off)
        del ended, cut_off, loader
    for worker in workers:
        worker.join()
    print([worker.exitcode for worker in workers])
"""


def test_a_data_loader_FK20(child: Child, run_dir: Path, finished: Finished) -> None:
    pytest.importorskip("torch", reason="the package torch is not installed")
    recorded, plain = child.run(LOADER, run_dir), child.run(LOADER)
    assert (recorded.stdout, recorded.stderr) == (plain.stdout, plain.stderr)
    run = finished(run_dir)
    assert len(run.workers) in (4, 5), "one that was ended before it loaded anything is none"
    assert run.tree[("epoch",)].calls == 1
    [load] = [node for path, node in run.tree.items() if path[-1] == "load"]
    assert load.calls == load.counters["n"]
    assert 32 + 4 <= load.calls <= 64

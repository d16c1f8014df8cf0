"""C code that records in a Python process: support/native_engine.c, built from include/."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

TESTS = Path(__file__).parents[1]

START = """
import asyncio, gc, importlib, json, multiprocessing, os, sys, threading, time
import engine
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def opened(run_dir=sys.argv[1], **options):
    return Profiler(run_dir, run_id="one", install=True, sample_interval_s=None, **options)

def wait_for_rounds(n):
    until = engine.rounds() + n
    while engine.rounds() < until:
        time.sleep(0.001)
"""


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the extension module, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("engine")
    includes = [sysconfig.get_path("include"), str(TESTS.parent / "include")]
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += ["-Wno-missing-field-initializers", "-Wno-unused-function"]
    command += [f"-I{include}" for include in includes]
    source = TESTS / "support" / "native_engine.c"
    subprocess.run([*command, "-o", str(folder / "engine.so"), str(source)], check=True)
    return folder


class Engine:
    def __init__(self, child: Child, folder: Path, run_dir: Path) -> None:
        self.child, self.folder, self.run_dir = child, folder, run_dir

    def run(self, code: str, *args: object, warnings: str = "error") -> str:
        """Run a program, which must end well and say nothing; return what it printed."""
        result = self.child.run(
            START + code,
            self.run_dir,
            *args,
            options=("-W", warnings, "-X", "faulthandler"),
            env={"PYTHONPATH": str(self.folder)},
        )
        assert result.stderr == ""
        return result.stdout


@pytest.fixture
def engine(child: Child, engine_folder: Path, run_dir: Path) -> Engine:
    return Engine(child, engine_folder, run_dir)


def test_c_and_python_make_one_tree(engine: Engine) -> None:
    engine.run(
        """
profiler = opened(snapshot_interval_s=None)
with profiler.phase("search"):
    engine.with_gil(10)
    engine.without_gil(10)
    assert engine.current() == "search"
    def inner():
        with accounting.phase("inner"):
            assert engine.current() == "search/around/inner" == accounting.current()
            engine.with_gil(1)
            accounting.count("n", 3)
    engine.around(inner)
    def fails():
        raise KeyError
    try:
        engine.around(fails)
    except KeyError:
        pass
    assert engine.current() == "search"
    engine.on_threads(8, 5)
threads = [threading.Thread(target=f, args=(5,)) for f in (engine.with_gil, engine.without_gil) * 4]
for thread in threads: thread.start()
for thread in threads: thread.join()
profiler.close()
"""
    )
    run = merge_run(engine.run_dir)
    assert run.tree[("search", "expand")].calls == 2
    assert run.tree[("search", "expand", "leaf")].calls == 20
    assert run.tree[("search", "expand", "leaf")].counters == {"visits": 40}
    assert run.tree[("search", "around")].calls == 2
    assert run.tree[("search", "around", "inner", "expand", "leaf")].calls == 1
    assert run.tree[("search", "around", "inner")].counters == {"n": 3}
    assert run.tree[("expand",)].calls == 16  # each on its own thread
    assert run.tree[("expand", "leaf")].calls == 80
    assert not run.caveats


def test_tasks_of_asyncio(engine: Engine) -> None:
    """Each nests in its own task; without the GIL too, where the task has a phase open."""
    engine.run(
        """
profiler = opened(snapshot_interval_s=None)
async def work(i):
    with profiler.phase(f"task {i}"):
        for _ in range(3):
            await asyncio.sleep(0)
            engine.with_gil(1)
            await asyncio.sleep(0)
            with profiler.phase("released"):
                engine.without_gil(1)
            await asyncio.sleep(0)
            assert engine.current() == f"task {i}"
async def bare():
    for _ in range(5):
        await asyncio.sleep(0)
        engine.with_gil(1)
        assert engine.current() == ""
async def main():
    await asyncio.gather(*(work(i) for i in range(8)), bare(), bare())
asyncio.run(main())
profiler.close()
"""
    )
    run = merge_run(engine.run_dir)
    for i in range(8):
        assert run.tree[(f"task {i}", "expand")].calls == 3
        assert run.tree[(f"task {i}", "released", "expand", "leaf")].calls == 3
    assert run.tree[("expand",)].calls == 10
    assert {len(path) for path in run.tree} == {1, 2, 3, 4}


THREADS = {
    "native": "engine.start_native()",
    "daemon": "threading.Thread(target=engine.record_for_ever, daemon=True).start()",
    "daemon with the GIL": (
        "threading.Thread(target=engine.record_with_gil_for_ever, daemon=True).start()"
    ),
}
ENDS = {
    "open": "",
    "closed": "profiler.close()",
    "collected": "del profiler; accounting._core.install(None); gc.collect()",
    "exited": "os._exit(0)",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_while_c_records(engine: Engine, end: str) -> None:
    """On daemon threads and native ones, which go on while Python is taken apart."""
    engine.run(
        f"""
profiler = opened(snapshot_interval_s=0.01)
assert engine.take(profiler) and engine.taken_is_installed()
{chr(10).join([*THREADS.values()] * 2)}
wait_for_rounds(50)
{ENDS[end]}
"""
    )
    run = merge_run(engine.run_dir)
    assert len(run.workers) == 1
    assert run.workers[0].closed == (end != "exited")
    assert run.tree[("expand", "leaf")].calls > 50
    assert run.tree[("taken",)].calls > 1
    assert run.tree[("with the GIL", "expand")].calls > 1


def test_a_pointer_outlives_its_profiler(engine: Engine) -> None:
    engine.run(
        """
profiler = opened(snapshot_interval_s=None)
assert engine.take(profiler) and engine.use_taken()
profiler.close()
assert not engine.use_taken() and not engine.something_is_installed()
again = opened(snapshot_interval_s=None)
assert engine.take(again)
engine.start_native()
wait_for_rounds(20)
del again
accounting._core.install(None)
gc.collect()
assert not engine.use_taken() and not engine.something_is_installed()
wait_for_rounds(20)
off = Profiler(enabled=False)
assert not engine.take(off)
assert not engine.use_taken()
for wrong in (None, 1, object(), type("Odd", (), {"_c_profiler": lambda self: 5})()):
    try:
        engine.take(wrong)
    except (AttributeError, ValueError):
        continue
    raise AssertionError(wrong)
"""
    )
    run = merge_run(engine.run_dir)
    assert len(run.workers) == 2
    assert all(worker.closed for worker in run.workers)


def test_the_installed_one_is_handed_on(engine: Engine) -> None:
    engine.run(
        """
first = opened(role="first", snapshot_interval_s=None)
engine.with_gil(1)
assert engine.take(first) and engine.taken_is_installed()
first.close()
assert not engine.something_is_installed()
engine.with_gil(1)
second = opened(role="second", snapshot_interval_s=None)
assert engine.take(second) and engine.taken_is_installed()
engine.with_gil(1)
accounting._core.install(None)
assert not engine.something_is_installed()
accounting._core.install(second)
assert engine.taken_is_installed()
engine.with_gil(1)
second.close()
# C ends one of Python's: it is closed for Python too.
third = opened(role="third", snapshot_interval_s=None)
engine.with_gil(1)
assert third.enabled
assert engine.close_installed() == 0
assert not engine.something_is_installed() and not third.enabled
with third.phase("late"):
    third.count("n")
third.snapshot()
third.close()
"""
    )
    run = merge_run(engine.run_dir)
    assert run.tree_of("first")[("expand",)].calls == 1
    assert run.tree_of("second")[("expand",)].calls == 2
    assert run.tree_of("third")[("expand",)].calls == 1
    assert ("late",) not in run.tree


def test_a_c_library_came_first(engine: Engine) -> None:
    """Its profiler stays the one that LP_PHASE uses; Python's has what Python records."""
    engine.run(
        """
assert engine.open_own(sys.argv[1])
engine.with_gil(1)
profiler = opened(role="python", snapshot_interval_s=None)
assert engine.take(profiler) and not engine.taken_is_installed()
with accounting.phase("python"):
    engine.with_gil(1)
    engine.use_taken()
pid = os.fork()
if pid == 0:
    engine.with_gil(5)
    os._exit(engine.close_own())
assert os.waitpid(pid, 0)[1] == 0
assert engine.close_own() == 0
engine.with_gil(1)
profiler.close()
"""
    )
    run = merge_run(engine.run_dir)
    assert sum(worker.role == "engine" for worker in run.workers) == 2
    assert run.tree_of("engine")[("expand", "leaf")].calls == 7
    assert run.tree_of("python")[("python", "taken")].calls == 1
    assert ("python", "expand") not in run.tree


def test_forked_children(engine: Engine) -> None:
    engine.run(
        """
profiler = opened(snapshot_interval_s=0.01)
assert engine.take(profiler)
with profiler.phase("parent"):
    for i in range(3):
        pid = os.fork()
        if pid == 0:
            engine.with_gil(2)
            engine.on_threads(2, 1)
            assert engine.use_taken()
            with accounting.phase("child"):
                engine.without_gil(1)
            profiler.close()
            assert not engine.use_taken()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        engine.with_gil(1)
profiler.close()
"""
    )
    run = merge_run(engine.run_dir)
    assert len(run.workers) == 4
    assert run.tree[("parent", "expand")].calls == 3
    assert run.tree[("expand",)].calls == 9
    assert run.tree[("child", "expand", "leaf")].calls == 3
    assert run.tree[("taken",)].calls == 3


def test_forks_while_c_records(engine: Engine) -> None:
    """CPython warns of the program's own threads; nothing hangs."""
    engine.run(
        """
profiler = opened(snapshot_interval_s=0.01)
assert engine.take(profiler)
engine.start_native()
engine.start_native()
for i in range(8):
    pid = os.fork()
    if pid == 0:
        engine.with_gil(2)
        profiler.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
""",
        warnings="ignore",
    )
    run = merge_run(engine.run_dir)
    assert len(run.workers) == 9
    assert all(worker.closed for worker in run.workers)


def test_subinterpreters(engine: Engine) -> None:
    """C in another interpreter records in what is installed in the process; and one may go."""
    engine.run(
        """
interpreters = importlib.import_module(
    "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
)
inside = '''
import sys, engine
from lineprofiler.accounting import Profiler
engine.with_gil(1)
engine.without_gil(1)
profiler = Profiler(%r, run_id="one", role="sub", snapshot_interval_s=None, sample_interval_s=None)
assert engine.take(profiler) and engine.use_taken()
with profiler.phase("inside"):
    engine.use_taken()
engine.start_native()
''' % sys.argv[1]
profiler = opened(role="main", snapshot_interval_s=None)
with profiler.phase("outside"):
    for i in range(2):
        made = interpreters.create()
        failed = interpreters.run_string(made, inside)
        assert not failed, failed
        wait_for_rounds(20)
        interpreters.destroy(made)
        wait_for_rounds(20)
assert not engine.use_taken()
profiler.close()
""",
        warnings="ignore",
    )
    run = merge_run(engine.run_dir)
    assert [worker.closed for worker in run.workers] == [True] * 3
    assert run.tree_of("main")[("outside", "expand")].calls == 4 + 2  # two as the module goes
    assert run.tree_of("sub")[("inside", "taken")].calls == 2


def test_without_the_package(child: Child, engine_folder: Path) -> None:
    result = child.run(
        """
import sys
sys.modules["lineprofiler"] = None
import engine
assert not engine.imported
engine.with_gil(3)
engine.without_gil(3)
engine.on_threads(2, 2)
assert engine.current() == "" and not engine.something_is_installed()
try:
    engine.open_own("nowhere")
except RuntimeError as error:
    assert "lp_bind" in str(error)
""",
        env={"PYTHONPATH": str(engine_folder)},
    )
    assert result.stderr == ""

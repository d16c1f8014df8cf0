"""Profilers and phases that go to other processes by pickle, or are copied in one (FK11)."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from lineprofiler._core import Phase
from lineprofiler.accounting import Profiler, Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

T = TypeVar("T")
Finished = Callable[[Path], Run]

METHODS = multiprocessing.get_all_start_methods()


def through_pickle(thing: T, protocol: int = pickle.HIGHEST_PROTOCOL) -> T:
    again: T = pickle.loads(pickle.dumps(thing, protocol))
    return again


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_in_one_process_it_is_the_same_one(profiler: Profiler, protocol: int) -> None:
    assert through_pickle(profiler, protocol) is profiler
    assert copy.copy(profiler) is copy.deepcopy([profiler])[0] is profiler


@pytest.mark.parametrize("copied", [through_pickle, copy.copy, copy.deepcopy])
def test_a_copied_phase_is_of_the_same_profiler(
    run_dir: Path, tmp_path: Path, finished: Finished, copied: Callable[[Phase], Phase]
) -> None:
    with Profiler(run_dir) as own, Profiler(tmp_path / "other", install=True):
        handle = own.phase("a/b ü")
        again = copied(handle)
        assert again is not handle
        assert again.name == handle.name
        with handle, again:
            assert own.current() == "a/b ü/a/b ü"
    assert finished(run_dir).tree[("a/b ü", "a/b ü")].calls == 1
    with again:
        assert own.current() == ""


@pytest.mark.parametrize("copied", [through_pickle, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("n", [1, 3, 100, 4_000_000_000])
def test_a_copied_phase_has_the_same_options(
    profiler: Profiler,
    finish: Callable[[], Run],
    copied: Callable[[Phase], Phase],
    n: int,
) -> None:
    handle = copied(profiler.phase("a", sample=1 / n))
    for _ in range(6):
        with handle:
            pass
    assert finish().tree[("a",)].stride == (n, n)


def test_what_is_off_stays_off(run_dir: Path, profiler: Profiler) -> None:
    off = Profiler(run_dir / "off", "role", enabled=False)
    again = through_pickle(off)
    assert (again.enabled, again.run_dir, again.role) == (False, off.run_dir, "role")
    unrecorded = off.phase("a")
    assert through_pickle(unrecorded) is unrecorded
    profiler.close()
    closed = through_pickle(profiler)
    assert not closed.enabled
    assert not (run_dir / "off").exists()


PROGRAM = """
import multiprocessing, pickle, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

class Task:
    def __init__(self, profiler, handle):
        self.profiler, self.handle = profiler, handle

    def __call__(self, i):
        with self.handle, self.profiler.phase("inner"):
            self.profiler.count("n", i)
            assert accounting.current() == ("outer/inner" if {installed} else "")

def only_handle(handle):
    with handle:
        pass

if __name__ == "__main__":
    run_dir, method = sys.argv[1:]
    context = multiprocessing.get_context(method)
    with Profiler(run_dir, "learner", install={installed}, measure_cpu=False) as profiler:
        task = Task(profiler, profiler.phase("outer"))
        pool = context.Pool(3)
        pool.map(task, range(30), chunksize=1)
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_one_for_each_process_however_many_tasks_FK11_FK14(
    child: Child, run_dir: Path, finished: Finished, method: str, installed: bool
) -> None:
    code = PROGRAM.replace("{installed}", str(installed))
    child.run(code, run_dir, method, options=("-W", "ignore"))
    run = finished(run_dir)
    assert 2 <= len(run.workers) <= 4
    assert list(run.roles) == ["learner"]
    # Where nothing is installed in the child, a handle alone does not open a profiler.
    paths = {path: node.calls for path, node in run.tree.items()}
    assert sum(calls for path, calls in paths.items() if path[-1] == "inner") == 30
    assert sum(node.counters.get("n", 0) for node in run.tree.values()) == 435
    assert {worker.measure_cpu for worker in run.workers} == {False}


@pytest.mark.parametrize("method", METHODS)
def test_a_phase_is_that_of_the_profiler_installed_there_FK11(
    child: Child, run_dir: Path, finished: Finished, method: str
) -> None:
    code = """
import multiprocessing, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def start():
    accounting.start(role="actor")

def work(handle):
    with handle:
        accounting.count("n", 7)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(sys.argv[1], "learner", install=True) as profiler:
        handle = profiler.phase("work")
        with profiler.phase("parent"):
            pool = context.Pool(2, start)
            pool.map(work, [handle] * 10, chunksize=1)
            pool.close()
            pool.join()
"""
    child.run(code, run_dir, method, options=("-W", "ignore"))
    run = finished(run_dir)
    assert len(run.workers_of("actor")) == 2
    assert len(run.workers_of("learner")) == 1
    assert run.tree_of("actor")[("work",)].counters == {"n": 70}
    assert run.tree_of("actor")[("work",)].calls == 10


def test_a_phase_where_nothing_is_installed(child: Child, run_dir: Path) -> None:
    code = """
import multiprocessing, sys
from lineprofiler.accounting import Profiler

def work(handle):
    with handle:
        pass

if __name__ == "__main__":
    with Profiler(sys.argv[1]) as profiler, profiler.phase("parent"):
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=work, args=(profiler.phase("work"),))
        process.start()
        process.join()
        sys.exit(process.exitcode)
"""
    child.run(code, run_dir, options=("-W", "error"))
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert list(run.tree) == [("parent",)]


def test_the_run_of_two_that_it_belongs_to(
    child: Child, tmp_path: Path, finished: Finished
) -> None:
    code = """
import multiprocessing, sys
from lineprofiler.accounting import Profiler

def work(profiler):
    with profiler.phase("work"):
        pass

if __name__ == "__main__":
    profilers = [Profiler(sys.argv[1] + f"/{i}", f"role {i}") for i in range(2)]
    context = multiprocessing.get_context("spawn")
    for profiler in profilers:
        process = context.Process(target=work, args=(profiler,))
        process.start()
        process.join()
        assert process.exitcode == 0
"""
    child.run(code, tmp_path)
    for i in range(2):
        run = finished(tmp_path / str(i))
        assert [worker.role for worker in run.workers] == [f"role {i}"] * 2
        assert run.tree[("work",)].calls == 1


def test_a_pickle_from_a_run_that_is_over_opens_nothing(child: Child, run_dir: Path) -> None:
    save = """
import pickle, sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], install=True) as profiler:
    state = {"profiler": profiler, "handle": profiler.phase("train"), "weights": [1, 2]}
    with open("checkpoint", "wb") as file, state["handle"]:
        pickle.dump(state, file)
"""
    resume = """
import pickle, sys, warnings
from lineprofiler import accounting
from lineprofiler.accounting import Profiler
with open("checkpoint", "rb") as file:
    state = pickle.load(file)
assert state["weights"] == [1, 2]
assert not state["profiler"].enabled and accounting.installed_profiler() is None
with state["handle"], state["profiler"].phase("lost"):
    pass
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    state["profiler"].close()
[warning] = caught
assert sys.argv[1] in str(warning.message), warning
with Profiler(sys.argv[2], install=True) as profiler:
    with open("checkpoint", "rb") as file:
        handle = pickle.load(file)["handle"]
    with handle:  # that of the profiler of now
        assert profiler.current() == "train"
"""
    child.run(save, run_dir)
    before = (run_dir / "metadata.json").read_bytes()
    child.run(resume, run_dir, run_dir / "resumed", options=("-W", "error"))
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert (run_dir / "metadata.json").read_bytes() == before
    assert merge_run(run_dir / "resumed").tree[("train",)].calls == 1


def test_where_the_directory_cannot_be_written(child: Child, run_dir: Path) -> None:
    code = """
import multiprocessing, shutil, sys, warnings
from lineprofiler.accounting import Profiler

def work(profiler, queue):
    with profiler.phase("work"):
        queue.put((profiler.enabled, "the rest arrives"))

if __name__ == "__main__":
    profiler = Profiler(sys.argv[1])
    shutil.rmtree(sys.argv[1])
    open(sys.argv[1], "w").close()
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(profiler, queue))
    process.start()
    process.join()
    print(process.exitcode, *queue.get())
    warnings.simplefilter("ignore")
    profiler.close()
"""
    done = child.run(code, run_dir)
    assert done.stdout == "0 False the rest arrives\n"
    assert "nothing is recorded" in done.stderr
    assert str(run_dir) in done.stderr


def test_a_subclass_stays_one(run_dir: Path, child: Child, finished: Finished) -> None:
    code = """
import multiprocessing, sys
from lineprofiler.accounting import Profiler

class Mine(Profiler):
    pass

def work(profiler):
    assert type(profiler) is Mine
    with profiler.phase("work"):
        pass

if __name__ == "__main__":
    with Mine(sys.argv[1]) as profiler:
        process = multiprocessing.get_context("spawn").Process(target=work, args=(profiler,))
        process.start()
        process.join()
        sys.exit(process.exitcode)
"""
    child.run(code, run_dir)
    assert finished(run_dir).tree[("work",)].calls == 1


def test_a_phase_is_pickled_in_few_bytes(profiler: Profiler) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pickle.dumps(profiler.phase("a"))) < 500

"""Which run a process joins: by its ancestors, by its environment, or none (E1, E3, F4, F5)."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, Run, merge_run

if TYPE_CHECKING:
    from conftest import Child

Finished = Callable[[Path], Run]

METHODS = multiprocessing.get_all_start_methods()

# tool.py says in which run it is.
TOOL = """
import json, sys
from lineprofiler.accounting import Profiler
options = json.loads(sys.argv[1]) if sys.argv[1:] else {}
with Profiler(role="tool", **options) as profiler:
    with profiler.phase("work"):
        pass
    print(json.dumps([profiler.enabled, profiler.run_dir, profiler.run_id]))
"""

# Runs tool.py below an open profiler, with the variables of an environment and nothing else.
BELOW = """
import json, os, subprocess, sys
from lineprofiler.accounting import Profiler
run_dir, environment, options = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
command = [sys.executable, "-W", "ignore", os.path.abspath("tool.py"), options]
os.makedirs("elsewhere")
with Profiler(run_dir, "parent", run_id="one") as profiler, profiler.phase("parent"):
    subprocess.run(command, check=True, env=environment, cwd="elsewhere")
"""


@pytest.fixture
def below(child: Child, run_dir: Path) -> Callable[..., list[object]]:
    (child.folder / "tool.py").write_text(TOOL)

    def run(environment: dict[str, str] | None = None, **options: object) -> list[object]:
        told = child.json(BELOW, run_dir, json.dumps(environment or {}), json.dumps(options))
        assert isinstance(told, list)
        return told

    return run


Below = Callable[..., list[object]]


def test_a_scrubbed_environment_joins_by_itself_E1(
    below: Below, run_dir: Path, finished: Finished
) -> None:
    assert below() == [True, str(run_dir), "one"]
    run = finished(run_dir)
    assert list(run.roles) == ["parent", "tool"]
    assert run.tree[("work",)].calls == 1


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, {"enabled": True}),  # in the run's directory, not in that of the child
        ({"LINEPROFILER_PROFILE": "1"}, {}),
    ],
)
def test_switched_on_it_joins_E1(
    below: Below, run_dir: Path, environment: dict[str, str], options: dict[str, object]
) -> None:
    assert below(environment, **options) == [True, str(run_dir), "one"]


def test_the_same_directory_is_the_same_attempt_F4(below: Below, run_dir: Path) -> None:
    assert below(run_dir=str(run_dir)) == [True, str(run_dir), "one"]
    assert not merge_run(run_dir).superseded


def test_another_directory_is_another_run(below: Below, run_dir: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    on, where, run_id = below(run_dir=other)
    assert (on, where) == (True, other)
    assert run_id not in (None, "one")
    assert len(merge_run(run_dir).workers) == 1


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({"LINEPROFILER_PROFILE": "0"}, {}),
        ({"LINEPROFILER_PROFILE": ""}, {}),
        ({}, {"enabled": False}),
        ({"LINEPROFILER_PROFILE": "1"}, {"enabled": False}),
    ],
)
def test_who_says_off_is_off_E1(
    below: Below, run_dir: Path, environment: dict[str, str], options: dict[str, object]
) -> None:
    assert below(environment, **options)[::2] == [False, None]
    assert len(merge_run(run_dir).workers) == 1


def test_what_is_set_by_hand_wins(below: Below, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    by_hand = {"LINEPROFILER_RUN_DIR": other, "LINEPROFILER_RUN_ID": "mine"}
    assert below({"LINEPROFILER_PROFILE": "1", **by_hand}) == [True, other, "mine"]
    assert len(merge_run(other).workers) == 1


def test_set_by_hand_over_what_is_exported_E3(child: Child, run_dir: Path, tmp_path: Path) -> None:
    (child.folder / "tool.py").write_text(TOOL)
    code = """
import json, os, subprocess, sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1], run_id="one"):
    for changed in ({}, {"RUN_ID": "mine"}, {"RUN_DIR": sys.argv[2]}, {"PROFILE": "no"}):
        environment = dict(os.environ)
        environment.update({"LINEPROFILER_" + name: text for name, text in changed.items()})
        subprocess.run([sys.executable, "-W", "ignore", "tool.py"], check=True, env=environment)
"""
    other = str(tmp_path / "other")
    told = [line.split(", ", 1)[1] for line in child.run(code, run_dir, other).stdout.splitlines()]
    assert told == [
        f'"{run_dir}", "one"]',
        f'"{run_dir}", "mine"]',
        f'"{other}", "one"]',
        f'"{run_dir}", null]',
    ]


def test_after_the_run_is_no_run_E1(child: Child, run_dir: Path) -> None:
    (child.folder / "tool.py").write_text(TOOL)
    code = """
import subprocess, sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1]):
    pass
for environment in ({}, None):
    subprocess.run([sys.executable, "-W", "ignore", "tool.py"], check=True, env=environment)
"""
    told = child.run(code, run_dir).stdout.splitlines()
    assert [line.split(",")[0] for line in told] == ["[false", "[false"]
    assert len(merge_run(run_dir).workers) == 1
    assert not (child.folder / "profile").exists()


def test_the_nearest_ancestor_counts_E1(child: Child, tmp_path: Path) -> None:
    (child.folder / "tool.py").write_text(TOOL)
    code = """
import os, subprocess, sys
from lineprofiler.accounting import Profiler
level = int(sys.argv[2])
if level == 0:
    os.execve(sys.executable, [sys.executable, "-W", "ignore", "tool.py"], {})
with Profiler(os.path.join(sys.argv[1], str(level)), run_id=str(level)):
    command = [sys.executable, sys.argv[0], sys.argv[1], str(level - 1)]
    subprocess.run(command, check=True, env={})
"""
    told = child.json(code, tmp_path, 3)
    assert told == [True, str(tmp_path / "1"), "1"]


def test_a_forkserver_from_before_the_run_E1_F9(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    code = """
import multiprocessing, os, sys
from multiprocessing import forkserver
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(i):
    assert "LINEPROFILER_RUN_ID" not in os.environ
    with Profiler(role="actor") as profiler, profiler.phase("work"):
        profiler.count("n", 7)

def work_by_pool(i):
    with accounting.phase("work"):
        accounting.count("n", 7)

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    forkserver.ensure_running()
    with Profiler(sys.argv[1], "learner"):
        children = [context.Process(target=work, args=(i,)) for i in range(4)]
        for process in children:
            process.start()
        for process in children:
            process.join()
        pool = context.Pool(2, accounting.start, (None, "actor"))
        pool.map(work_by_pool, range(10), chunksize=1)
        pool.close()
        pool.join()
"""
    child.run(code, run_dir)
    run = finished(run_dir)
    assert len(run.workers_of("actor")) == 6
    assert run.tree[("work",)].counters == {"n": 98}


SWEEPS = """
import multiprocessing, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def start(role):
    if accounting.installed_profiler() is None or sys.argv[2] == "fork":
        accounting.start(role=role)

def work(i):
    with accounting.phase("work"):
        accounting.count("n", i)

def sweep(run_dir, name):
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(run_dir, "main") as profiler, profiler.phase(name):
        pool = context.Pool(2, start, (name,))
        pool.map(work, range(10), chunksize=1)
        pool.close()
        pool.join()

if __name__ == "__main__":
    sweep(sys.argv[1] + "/a", "first")
    sweep(sys.argv[1] + "/b", "second")
    sweep(sys.argv[1] + "/a", "third")
"""


@pytest.mark.parametrize("method", METHODS)
def test_sweeps_one_after_the_other_FK12_F4(
    child: Child, tmp_path: Path, finished: Finished, method: str
) -> None:
    child.run(SWEEPS, tmp_path, method, options=("-W", "ignore"))
    second = finished(tmp_path / "b")
    assert list(second.roles) == ["main", "second"]
    assert len(second.workers) == 3
    assert second.tree[("work",)].counters == {"n": 45}
    third = merge_run(tmp_path / "a")
    assert list(third.roles) == ["main", "third"]
    assert third.tree[("work",)].counters == {"n": 45}
    [first] = third.superseded
    assert first.workers == 3
    # While children are waited for, the I/O of an interval may not be known.
    [caveat] = [caveat for caveat in third.caveats if caveat.kind != "dropped"]
    assert caveat.kind == "superseded"
    assert first.run_id in caveat.text


AFTERWARDS = """
import multiprocessing, sys, time
from lineprofiler.accounting import Profiler

def work(queue):
    with Profiler(role="child") as profiler, profiler.phase("work"):
        queue.put(profiler.enabled)

def work_slowly(queue, go):
    go.get()
    work(queue)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    queue, go = context.SimpleQueue(), context.SimpleQueue()
    with Profiler(sys.argv[1]) as profiler, profiler.phase("main"):
        slow = context.Process(target=work_slowly, args=(queue, go))
        slow.start()
    until = time.monotonic() + 0.02  # the kernel tells when a process began to 10 ms only
    while time.monotonic() < until:
        pass
    late = context.Process(target=work, args=(queue,))
    late.start()
    late.join()
    go.put(None)
    slow.join()
    print(queue.get(), queue.get())
"""


@pytest.mark.parametrize("method", METHODS)
def test_after_the_run_a_child_is_in_none_FK11(
    child: Child, run_dir: Path, finished: Finished, method: str
) -> None:
    done = child.run(AFTERWARDS, run_dir, method, options=("-W", "ignore"))
    assert done.stdout == "False True\n"  # the slow one was started in the run
    assert len(finished(run_dir).workers) == 2


def test_switched_on_from_outside_it_stays_on(child: Child, run_dir: Path) -> None:
    done = child.run(AFTERWARDS, run_dir, "forkserver", env={"LINEPROFILER_PROFILE": "1"})
    assert done.stdout == "True True\n"


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_of_the_second_run_FK12(
    child: Child, tmp_path: Path, finished: Finished, method: str
) -> None:
    code = """
import multiprocessing, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(profiler, i):
    with profiler.phase("work"), accounting.phase("installed"):
        pass

def run(run_dir, **options):
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(run_dir, install=True, **options) as profiler:
        children = [context.Process(target=work, args=(profiler, i)) for i in range(2)]
        for process in children:
            process.start()
        for process in children:
            process.join()

if __name__ == "__main__":
    run(sys.argv[1] + "/a", role="first")
    run(sys.argv[1] + "/b", role="second", measure_cpu=False, snapshot_interval_s=7.0)
"""
    child.run(code, tmp_path, method, options=("-W", "ignore"))
    for name, role, measure_cpu, interval_s in (
        ("a", "first", True, 30.0),
        ("b", "second", False, 7.0),
    ):
        run = finished(tmp_path / name)
        assert len(run.workers_of(role)) == len(run.workers) == 3
        assert {worker.measure_cpu for worker in run.workers} == {measure_cpu}
        assert {worker.snapshot_interval_s for worker in run.workers} == {interval_s}
        assert run.tree[("work", "installed")].calls == 2


def test_a_requeued_job_is_another_attempt_F4(child: Child, run_dir: Path) -> None:
    code = """
import sys
from lineprofiler.accounting import Profiler
with Profiler(sys.argv[1]) as profiler, profiler.phase("work"):
    print(profiler.run_id)
"""
    ids = [child.run(code, run_dir).stdout.strip() for _ in range(3)]
    assert len(set(ids)) == 3
    run = merge_run(run_dir)
    assert run.run_id == ids[2]
    assert run.tree[("work",)].calls == 1
    assert [attempt.run_id for attempt in run.superseded] == ids[1::-1]
    assert {caveat.kind for caveat in run.caveats} == {"superseded"}


def test_a_restarted_worker_has_a_file_of_its_own_F5(child: Child, run_dir: Path) -> None:
    code = """
import os, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], "rank", run_id="job-77")
with profiler.phase("work"):
    pass
if sys.argv[2] == "dies":
    profiler.snapshot()
    os._exit(9)
"""
    child.run(code, run_dir, "dies", status=9)
    child.run(code, run_dir, "ends")
    run = merge_run(run_dir)
    assert run.run_id == "job-77"
    assert not run.superseded
    assert len(run.workers_of("rank")) == 2
    assert run.tree[("work",)].calls == 2
    assert len(list(run_dir.glob("workers/*/w_job-77_*.json"))) == 2


def test_workers_without_the_run_id_are_said_in_the_header_K11(child: Child, run_dir: Path) -> None:
    code = """
import subprocess, sys
from lineprofiler.accounting import Profiler
if sys.argv[2] == "rank":
    with Profiler(sys.argv[1], "rank") as profiler, profiler.phase("work"):
        print("ready", flush=True)
        sys.stdin.read()
else:
    # As a launcher that hands nothing on: they have neither variables nor a profiler above them.
    ranks = [
        subprocess.Popen([sys.executable, sys.argv[0], sys.argv[1], "rank"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for rank in ranks:
        assert rank.stdout.readline() == b"ready\\n"
    for rank in ranks:
        rank.communicate()
    subprocess.run([sys.executable, "-m", "lineprofiler", "report", sys.argv[1]], check=True)
"""
    text = child.run(code, run_dir, "launch", env={"COLUMNS": "80"}).stdout
    assert "Processes 1 of 3: MOST DID NOT JOIN, 2 under other run ids" in text.splitlines()[0]
    assert "LINEPROFILER_RUN_ID did not reach them" in text
    told = child.run(code, run_dir, "rank").stdout
    assert told == "ready\n"
    assert len(merge_run(run_dir).superseded) == 3
    assert "did not join" not in str(merge_run(run_dir).caveats)  # those were reruns


def test_what_is_signed_is_taken_back_E3(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEPROFILER_EXPORTED", "before")
    with Profiler(run_dir, run_id="one") as profiler:
        assert os.environ["LINEPROFILER_EXPORTED"] == f"{profiler.worker}:one:{run_dir}"
    assert os.environ["LINEPROFILER_EXPORTED"] == "before"


def test_directories_and_ids_of_any_name_E1(child: Child, tmp_path: Path) -> None:
    (child.folder / "tool.py").write_text(TOOL)
    code = """
import os, subprocess, sys
from lineprofiler.accounting import Profiler
with Profiler(os.fsdecode(os.fsencode(sys.argv[1])), run_id=sys.argv[2]):
    command = [sys.executable, "-W", "ignore", "tool.py"]
    subprocess.run(command, check=True, env={})
    subprocess.run(command, check=True)
"""
    for name, run_id in (("a b:c", "x:y"), ("ünï", 'é\\"\t'), ("d\\e", "100%")):
        done = child.run(code, tmp_path / name, run_id).stdout.splitlines()
        assert [json.loads(line) for line in done] == [[True, str(tmp_path / name), run_id]] * 2
        assert len(merge_run(tmp_path / name).workers) == 3


# ---- accounting.join() -----------------------------------------------------

JOINS = """
import json, multiprocessing, os, sys, warnings
warnings.simplefilter("error")
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(i):
    assert accounting.join("child") is accounting.join("ignored", 99)
    with accounting.phase("work"):
        return os.getpid()

def forked():
    with accounting.phase("work"):
        pass

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(sys.argv[1], "parent") as profiler:
        assert accounting.join("child", 7) is profiler is accounting.installed_profiler()
        with accounting.phase("parent"):
            pass
        processes = [context.Process(target=work, args=(i,), name=f"game-{i}") for i in range(3)]
        if sys.argv[2] == "fork":
            processes.append(context.Process(target=forked, name="forked-3"))
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    assert accounting.installed_profiler() is None
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_process_joins_once(child: Child, run_dir: Path, finished: Finished, method: str) -> None:
    child.run(JOINS, run_dir, method)
    run = finished(run_dir)
    assert [(worker.role, worker.index) for worker in run.workers_of("child")] == [
        ("child", 0),
        ("child", 1),
        ("child", 2),
    ]
    parents = sorted(
        (worker.index is not None, worker.index) for worker in run.workers_of("parent")
    )
    assert parents == [(False, None)] + ([(True, 3)] if method == "fork" else [])
    assert run.tree[("work",)].calls == (4 if method == "fork" else 3)
    assert all("index" in repr(worker) for worker in run.workers_of("child"))


def test_without_a_run_nothing_is_joined(child: Child) -> None:
    code = """
import os, warnings
warnings.simplefilter("error")
from lineprofiler import accounting
assert accounting.join("child", 0) is None
assert accounting.installed_profiler() is None
with accounting.phase("not recorded"):
    pass
print(os.listdir("."))
"""
    assert child.run(code).stdout == "['main.py']\n"


def test_an_index_is_a_small_number(run_dir: Path) -> None:
    for wrong, kind in (
        (-1, ValueError),
        (1 << 32, ValueError),
        ("3", TypeError),
        (1.0, TypeError),
    ):
        with pytest.raises(kind, match="index must be"):
            Profiler(run_dir, index=wrong)  # type: ignore[arg-type]
    with Profiler(run_dir, index=(1 << 32) - 1) as profiler, profiler.phase("work"):
        pass
    assert [worker.index for worker in merge_run(run_dir).workers] == [(1 << 32) - 1]


KEPT = """
import concurrent.futures, multiprocessing, os, sys, warnings
warnings.simplefilter("error")
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(i):
    profiler = accounting.join()
    with accounting.phase("work"):
        return accounting.join() is accounting.installed_profiler() is profiler

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    pool = concurrent.futures.ProcessPoolExecutor(1, context, accounting.join, ("child", 4))
    for name in ("first", "second", "second"):
        with Profiler(os.path.join(sys.argv[1], name), "parent") as profiler:
            with profiler.phase("parent"):
                assert list(pool.map(work, range(5))) == [True] * 5
    assert list(pool.map(work, range(5))) == [True] * 5  # no run is open: they stay in the last one
    pool.shutdown()
"""


def test_a_worker_that_begins_late_is_in_the_run_that_is_open(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    """A pool may start it in one run, and give it its first task in the next."""
    code = """
import multiprocessing, os, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def work(go):
    go.get()
    accounting.join("child")
    with accounting.phase("work"):
        pass

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    go = context.SimpleQueue()
    process = context.Process(target=work, args=(go,))
    with Profiler(os.path.join(sys.argv[1], "first"), "parent") as profiler:
        with profiler.phase("parent"):
            process.start()
    with Profiler(os.path.join(sys.argv[1], "second"), "parent") as profiler:
        with profiler.phase("parent"):
            go.put(None)
            process.join()
"""
    child.run(code, run_dir)
    assert list(finished(run_dir / "first").roles) == ["parent"]
    assert list(finished(run_dir / "second").roles) == ["child", "parent"]


@pytest.mark.parametrize("method", METHODS)
def test_a_kept_pool_is_in_the_run_that_is_open_FK11(
    child: Child, run_dir: Path, finished: Finished, method: str
) -> None:
    child.run(KEPT, run_dir, method)
    first = finished(run_dir / "first")
    second = merge_run(run_dir / "second")
    assert [worker.index for worker in first.workers_of("child")] == [4]
    assert [worker.index for worker in second.workers_of("child")] == [4]
    assert first.tree_of("child")[("work",)].calls == 5
    assert second.tree_of("child")[("work",)].calls == 10
    assert [attempt.workers for attempt in second.superseded] == [2]


def test_threads_that_join_at_once_are_one_worker(
    child: Child, run_dir: Path, finished: Finished
) -> None:
    """As environments that a process makes in threads."""
    code = """
import subprocess, sys, threading, warnings
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def worker():
    warnings.simplefilter("error")
    barrier = threading.Barrier(8)
    joined = []

    def work(i):
        barrier.wait()
        joined.append(accounting.join("child", i))
        with accounting.phase("work"):
            pass

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(joined) == 8 and len(set(map(id, joined))) == 1

if len(sys.argv) == 2:
    with Profiler(sys.argv[1], "parent") as profiler, profiler.phase("parent"):
        for _ in range(5):
            subprocess.run([sys.executable, __file__, sys.argv[1], "worker"], check=True)
else:
    worker()
"""
    child.run(code, run_dir)
    run = finished(run_dir)
    assert {name: len(role.workers) for name, role in run.roles.items()} == {
        "child": 5,
        "parent": 1,
    }
    assert run.tree[("work",)].calls == 40


def test_a_fork_while_a_thread_joins(child: Child, run_dir: Path, finished: Finished) -> None:
    """The child has no thread that would ever let go of the lock."""
    code = """
import os, sys, threading, warnings
from lineprofiler import _exits, accounting
from lineprofiler.accounting import Profiler

warnings.simplefilter("ignore")  # of forks beside threads
joining, forked = threading.Event(), threading.Event()

def join():
    with _exits.joining():
        joining.set()
        forked.wait()

with Profiler(sys.argv[1], "parent") as profiler, profiler.phase("parent"):
    thread = threading.Thread(target=join)
    thread.start()
    joining.wait()
    pid = os.fork()
    if pid == 0:
        accounting.join("child")
        with accounting.phase("work"):
            pass
        sys.exit()
    forked.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0
"""
    child.run(code, run_dir)
    assert finished(run_dir).tree_of("child")[("work",)].calls == 1


WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    (b"role", None, TypeError, "role must be str, not bytes"),
    ("role", -1, ValueError, "index must be 0 to 4294967295, not -1"),
    ("role", True, TypeError, "index must be an integer or None, not bool"),
    ("role", "3", TypeError, "index must be an integer or None, not str"),
]


@pytest.mark.parametrize("off", [True, False])
@pytest.mark.parametrize(("role", "index", "kind", "said"), WRONG)
def test_what_is_wrong_is_so_without_a_run_too(
    run_dir: Path, role: Any, index: Any, kind: type[Exception], said: str, off: bool
) -> None:
    """Nobody finds out only when the switch is on, in a worker far away."""
    with Profiler(run_dir, enabled=not off, role="own"), pytest.raises(kind, match=said):
        accounting.join(role, index)
    with pytest.raises(kind, match=said):
        Profiler(run_dir, role, enabled=not off, index=index)


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_can_be_written_a_pool_goes_on(
    child: Child, run_dir: Path, method: str
) -> None:
    """An initializer that raises would break it."""
    code = """
import concurrent.futures, multiprocessing, os, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler

def begin():
    os.environ["LINEPROFILER_RUN_DIR"] = "/proc/nowhere"
    assert accounting.join("child") is None

def work(i):
    with accounting.phase("work"):
        return i

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with Profiler(sys.argv[1], "parent") as profiler, profiler.phase("parent"):
        with concurrent.futures.ProcessPoolExecutor(1, context, begin) as pool:
            assert list(pool.map(work, range(5))) == [0, 1, 2, 3, 4]
"""
    done = child.run(code, run_dir, method)
    assert "RuntimeWarning: this process is not profiled: " in done.stderr
    assert "/proc/nowhere" in done.stderr
    assert list(merge_run(run_dir).roles) == ["parent"]

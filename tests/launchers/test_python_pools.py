"""multiprocessing, concurrent.futures and joblib, in all ways to start and end their workers.

See python-processes.md.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
from collections.abc import Sequence

import pytest

from launchers.conftest import Work
from launchers.processes import lives, run, wait_until
from lineprofiler.run import Run

METHODS = multiprocessing.get_all_start_methods()

# Each kind of pool plays 24 games in 4 workers. Each game is a phase, and counts 7 moves.
GAMES = """\
import os
import sys

from lineprofiler import accounting
from lineprofiler.accounting import Profiler


def play(game):
    with accounting.phase("game"):
        accounting.count("moves", 7)
    return os.getpid()


def with_process(context):
    def processes():
        return [context.Process(target=worker) for _ in range(4)]

    for process in (started := processes()):
        process.start()
    for process in started:
        process.join()
        assert process.exitcode == 0


def worker():
    accounting.join("pool")
    for game in range(6):
        play(game)


def with_pool(context):
    pool = context.Pool(4, accounting.join, ("pool",))
    pids = set(pool.map(play, range(24), chunksize=1))
    pool.close()
    pool.join()


def with_short_lived(context):
    pool = context.Pool(4, accounting.join, ("pool",), maxtasksperchild=2)
    pool.map(play, range(24), chunksize=1)
    pool.close()
    pool.join()


def with_executor(context):
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(4, context, accounting.join, ("pool",)) as executor:
        list(executor.map(play, range(24)))


def with_terminate(context):
    with context.Pool(4, accounting.join, ("pool",)) as pool:
        pool.map(play, range(24), chunksize=1)


if __name__ == "__main__":
    import multiprocessing

    with Profiler(run_dir="profile", role="learner", install=True) as profiler:
        with profiler.phase("gather"):
            globals()[f"with_{sys.argv[1]}"](multiprocessing.get_context(sys.argv[2]))
"""


def launch(work: Work, program: str, *arguments: str, status: int | None = 0) -> str:
    work.write("program.py", program)
    return run(["python", "program.py", *arguments], work.folder, work.env, status).stdout


def kinds(of: Run) -> list[str]:
    """Return which caveats there are; unknown I/O while children are waited for is none here."""
    return [caveat.kind for caveat in of.caveats if caveat.kind != "dropped"]


def check_games(of: Run, workers: range | Sequence[int], games: int = 24) -> None:
    """Each worker is there once and knows which one it is, and each game was counted once."""
    assert list(of.roles) == ["learner", "pool"]
    assert len(of.workers_of("learner")) == 1
    pool = of.workers_of("pool")
    assert len(pool) in workers
    indexes = [worker.index for worker in pool]
    assert None not in indexes
    assert len(set(indexes)) == len({worker.pid for worker in pool}) == len(pool)
    [node] = [node for path, node in of.tree_of("pool").items() if path == ("game",)]
    assert (node.calls, node.counters) == (games, {"moves": 7 * games})
    assert node.counters["moves"].calls == games
    gather = of.tree_of("learner")[("gather",)]
    assert gather.calls == 1
    assert of.superseded == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("way", "workers"),
    [("process", [4]), ("pool", [4]), ("short_lived", range(12, 17)), ("executor", range(1, 5))],
)
def test_pools_F9_FK13(work: Work, way: str, workers: Sequence[int], method: str) -> None:
    assert launch(work, GAMES, way, method) == ""
    done = work.run_of()
    check_games(done, workers)
    assert kinds(done) == []
    assert all(worker.closed for worker in done.workers)


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_that_is_terminated_loses_nothing_F8(work: Work, method: str) -> None:
    """Leaving `with Pool()` sends SIGTERM: the figures are there, and how they ended is said."""
    assert launch(work, GAMES, "terminate", method) == ""
    done = work.run_of()
    check_games(done, range(1, 5))
    ended = [worker for worker in done.workers_of("pool") if not worker.closed]
    assert {worker.ended for worker in ended} <= {True}
    assert set(kinds(done)) == ({"unclosed"} if ended else set())


def test_a_killed_worker_of_a_pool(work: Work) -> None:
    """The executor is broken, and the program goes on; what the dead one recorded is there."""
    program = GAMES.replace(
        "        list(executor.map(play, range(24)))",
        """\
        first = executor.submit(play, 0).result()
        try:
            executor.submit(kill, 1).result()
        except concurrent.futures.process.BrokenProcessPool:
            print("broken")""",
    ).replace(
        "def with_process(",
        """\
def kill(game):
    import signal

    with accounting.phase("last game"):
        os.kill(os.getpid(), signal.SIGKILL)


def with_process(""",
    )
    program = program.replace("import os\n", "import concurrent.futures.process\nimport os\n", 1)
    program = program.replace("ProcessPoolExecutor(4", "ProcessPoolExecutor(1")
    assert launch(work, program, "executor", "spawn") == "broken\n"
    done = work.run_of()
    check_games(done, [1], games=1)
    [worker] = done.workers_of("pool")
    assert (worker.closed, worker.ended) == (False, True)
    # The executor may have reaped it before anybody of us could ask how it ended.
    assert worker.end_signal in (None, signal.SIGKILL)
    assert [entry.path for entry in worker.open] == ["last game"]
    assert kinds(done) == ["open"]
    assert "pool index 1, pid" in work.caveats()
    assert re.search(r"ended without close(, killed by SIGKILL,)? inside last game", work.caveats())


CTRL_C = """\
import multiprocessing
import os
import time

from lineprofiler import accounting
from lineprofiler.accounting import Profiler


def play(told):
    accounting.join("actor")
    while True:
        with accounting.phase("game"):
            time.sleep(0.002)
        os.write(told, b".")


if __name__ == "__main__":
    told = os.open("told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    context = multiprocessing.get_context("fork")
    with Profiler(run_dir="profile", role="learner", install=True) as profiler:
        actors = [context.Process(target=play, args=(told,)) for _ in range(4)]
        for actor in actors:
            actor.start()
        with profiler.phase("gather"):
            for actor in actors:
                actor.join()
"""


def test_ctrl_c_ends_all_of_the_group(work: Work) -> None:
    """KeyboardInterrupt in each of them: they close, and nothing is lost."""
    work.write("program.py", CTRL_C)
    told = work.folder / "told"
    process = subprocess.Popen(
        ["python", "program.py"],
        cwd=work.folder,
        env=work.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: told.exists() and told.stat().st_size > 100, "games are played")
    os.killpg(process.pid, signal.SIGINT)
    process.wait(120)
    wait_until(lambda: len(work.processes()) == 0, "all have ended")
    assert not lives(process.pid)
    done = work.run_of()
    assert {name: len(role.workers) for name, role in done.roles.items()} == {
        "actor": 4,
        "learner": 1,
    }
    assert all(worker.closed for worker in done.workers)
    calls = done.tree_of("actor")[("game",)].calls
    assert told.stat().st_size <= calls <= told.stat().st_size + 4
    assert kinds(done) == []


# ---- joblib ----------------------------------------------------------------

JOBLIB = """\
import os
import sys

import joblib

from lineprofiler import accounting
from lineprofiler.accounting import Profiler


def play(game):
    with accounting.phase("game"):
        accounting.count("moves", 7)
    return os.getpid()


if __name__ == "__main__":
    with Profiler(run_dir="profile", role="learner", install=True) as profiler:
        with profiler.phase("gather"):
            {body}
"""

JOBLIB_WAYS = {
    "an initializer": """\
            parallel = joblib.Parallel(4, initializer=accounting.join, initargs=("pool",))
            parallel(joblib.delayed(play)(game) for game in range(24))""",
    "a configured one": """\
            with joblib.parallel_config("loky", initializer=accounting.join, initargs=("pool",)):
                joblib.Parallel(4)(joblib.delayed(play)(game) for game in range(24))""",
    "a generator": """\
            parallel = joblib.Parallel(
                4, return_as="generator", initializer=accounting.join, initargs=("pool",)
            )
            for _ in parallel(joblib.delayed(play)(game) for game in range(24)):
                pass""",
}


@pytest.mark.parametrize("way", JOBLIB_WAYS)
def test_joblib_F9_FK13(work: Work, way: str) -> None:
    pytest.importorskip("joblib", reason="no joblib in this environment")
    program = JOBLIB.replace("{body}", JOBLIB_WAYS[way].strip())
    assert launch(work, program) == ""
    done = work.run_of()
    check_games(done, range(1, 5))
    assert kinds(done) == []
    assert all(worker.closed for worker in done.workers)


def test_joblib_whose_idle_workers_end_between_calls(work: Work) -> None:
    pytest.importorskip("joblib", reason="no joblib in this environment")
    body = """
            import time
            parallel = joblib.Parallel(
                4, idle_worker_timeout=0.2, initializer=accounting.join, initargs=("pool",)
            )
            for _ in range(2):
                pids = set(parallel(joblib.delayed(play)(game) for game in range(12)))
                while any(os.path.exists(f"/proc/{pid}") for pid in pids):
                    time.sleep(0.01)
"""
    launch(work, JOBLIB.replace("{body}", body.strip()))  # joblib may warn of what it was told
    done = work.run_of()
    check_games(done, range(2, 25))
    assert kinds(done) == []
    assert all(worker.closed for worker in done.workers)


def test_joblib_whose_workers_are_killed(work: Work) -> None:
    pytest.importorskip("joblib", reason="no joblib in this environment")
    body = """
            parallel = joblib.Parallel(4, initializer=accounting.join, initargs=("pool",))
            parallel(joblib.delayed(play)(game) for game in range(24))
            from joblib.externals.loky import get_reusable_executor
            get_reusable_executor(1, kill_workers=True).shutdown()
"""
    assert launch(work, JOBLIB.replace("{body}", body.strip())) == ""
    done = work.run_of()
    check_games(done, range(1, 5))
    ended = [worker for worker in done.workers_of("pool") if not worker.closed]
    assert ended
    assert set(kinds(done)) == {"unclosed"}


def test_joblib_in_a_program_with_several_runs(work: Work) -> None:
    """Its workers are kept: each run has what was done in it, where the function joins."""
    pytest.importorskip("joblib", reason="no joblib in this environment")
    program = """\
import joblib

from lineprofiler import accounting
from lineprofiler.accounting import Profiler


def play(game):
    accounting.join("pool")
    with accounting.phase("game"):
        accounting.count("moves", 7)


if __name__ == "__main__":
    for name in "first", "second":
        with Profiler(run_dir=name, role="learner") as profiler:
            with profiler.phase("gather"):
                joblib.Parallel(2)(joblib.delayed(play)(game) for game in range(24))
"""
    assert launch(work, program) == ""
    for name in "first", "second":
        done = work.run_of(name)
        check_games(done, [1, 2])
        assert kinds(done) == []

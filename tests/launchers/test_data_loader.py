"""torch's DataLoader, whose workers load in processes of their own. See data-loader.md."""

from __future__ import annotations

import json
import re

import pytest

from launchers.conftest import Work
from launchers.processes import run, wait_until
from launchers.test_python_pools import kinds, launch
from lineprofiler.run import Run

EPOCHS = 3
SAMPLES = 40

DATA = """\
from lineprofiler import accounting


class Squares:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        with accounting.phase("load"):
            accounting.count("bytes", 8)
            {load}
            return i * i


def begin(index):
    accounting.join("loader", index)
"""

TRAIN = """\
import os
import sys

from lineprofiler.accounting import Profiler

if __name__ == "__main__":
    from torch.utils.data import DataLoader

    from data import Squares, begin

    workers, method, persistent = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "persistent"
    with Profiler(run_dir="profile", role="trainer", install=True) as profiler:
        loader = DataLoader(
            Squares(),
            batch_size=4,
            num_workers=workers,
            worker_init_fn=begin,
            multiprocessing_context=method if workers else None,
            persistent_workers=persistent,
        )
        total = 0
        for epoch in range(3):
            batches = iter(loader)
            while True:
                with profiler.phase("wait for data"):
                    batch = next(batches, None)
                if batch is None:
                    break
                with profiler.phase("step"):
                    total += int(batch.sum())
        print(total)
        {end}
"""
TOTAL = EPOCHS * sum(i * i for i in range(SAMPLES))


@pytest.fixture
def loading(work: Work) -> Work:
    pytest.importorskip("torch", reason="no torch in this environment")
    work.write("data.py", DATA.replace("{load}", "pass"))
    # It warns of more workers than the machine has cores; warnings of ours are RuntimeWarnings.
    work.env["PYTHONWARNINGS"] = "error::RuntimeWarning,ignore::UserWarning"
    return work


def check_loaders(of: Run, n: int, workers: int) -> None:
    assert {name: len(role.workers) for name, role in of.roles.items()} == {
        "loader": workers,
        "trainer": 1,
    }
    loaders = of.workers_of("loader")
    indexes = sorted(worker.index or 0 for worker in loaders)
    assert indexes == sorted(list(range(n)) * (workers // n))
    load = of.tree_of("loader")[("load",)]
    assert (load.calls, load.workers) == (EPOCHS * SAMPLES, workers)
    assert load.counters == {"bytes": 8 * EPOCHS * SAMPLES}
    trainer = of.tree_of("trainer")
    assert trainer[("step",)].calls == EPOCHS * SAMPLES // 4
    assert trainer[("wait for data",)].calls == EPOCHS * (SAMPLES // 4 + 1)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kept", ["persistent", "anew"])
def test_workers_of_a_loader_F9_FK20(loading: Work, method: str, kept: str) -> None:
    """Each worker is there once: new ones in each epoch, or the same in all of them."""
    n = 4 if method == "fork" else 2
    program = TRAIN.replace("{end}", "del batches, loader")
    assert launch(loading, program, str(n), method, kept) == f"{TOTAL}\n"
    done = loading.run_of()
    check_loaders(done, n, n if kept == "persistent" else EPOCHS * n)
    assert kinds(done) == []
    assert all(worker.closed for worker in done.workers)


def test_a_loader_that_is_still_there_at_the_end_FK20(loading: Work) -> None:
    """Persistent workers are terminated after the trainer has closed: their figures are there."""
    program = TRAIN.replace("{end}", "pass")
    assert launch(loading, program, "4", "fork", "persistent") == f"{TOTAL}\n"
    wait_until(lambda: not loading.processes(), "all have ended")
    done = loading.run_of()
    check_loaders(done, 4, 4)
    open_ones = [worker for worker in done.workers if not worker.closed]
    assert set(kinds(done)) == ({"unclosed"} if open_ones else set())


def test_a_loader_without_workers(loading: Work) -> None:
    """The same program with num_workers=0: samples are loaded in the trainer."""
    program = TRAIN.replace("{end}", "pass")
    assert launch(loading, program, "0", "none", "anew") == f"{TOTAL}\n"
    done = loading.run_of()
    assert [worker.role for worker in done.workers] == ["trainer"]
    assert done.tree[("wait for data", "load")].calls == EPOCHS * SAMPLES
    assert kinds(done) == []


def test_slow_loaders_are_seen_as_wait_of_the_trainer(loading: Work) -> None:
    loading.write("data.py", DATA.replace("{load}", "__import__('time').sleep(0.005)"))
    launch(loading, TRAIN.replace("{end}", "pass"), "2", "fork", "persistent")
    done = loading.run_of()
    check_loaders(done, 2, 2)
    wait = done.tree_of("trainer")[("wait for data",)]
    assert wait.wait_ns is not None
    assert wait.wait_ns > wait.wall_ns / 2
    report = run(["lineprofiler", "report", "profile", "--json"], loading.folder, loading.env)
    assert json.loads(report.stdout)["run"]["lost_processes"] == 0


def test_an_exception_in_a_worker(loading: Work) -> None:
    """The trainer ends by it. All that was loaded is there, also of workers that it terminates."""
    loading.write("data.py", DATA.replace("{load}", "1 / (i - 20)"))
    said = launch(loading, TRAIN.replace("{end}", "pass"), "2", "fork", "anew", status=1)
    assert "ZeroDivisionError" in said
    wait_until(lambda: not loading.processes(), "all have ended")
    done = loading.run_of()
    assert {name: len(role.workers) for name, role in done.roles.items()} == {
        "loader": 2,
        "trainer": 1,
    }
    load = done.tree_of("loader")[("load",)]
    assert load.counters["bytes"].calls == load.calls >= 21
    assert set(kinds(done)) <= {"unclosed"}
    assert done.unreadable == []


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_worker_that_dies_FK20(loading: Work, how: str) -> None:
    """An exception of torch in the trainer, as without a profiler; the dead one has its figures."""
    text = DATA.replace("{load}", f"i == 20 and {how}")
    loading.write("data.py", f"import os\n\n{text}")
    said = launch(loading, TRAIN.replace("{end}", "pass"), "2", "fork", "anew", status=1)
    assert "Traceback" in said  # torch's own words depend on where the trainer is at that moment
    wait_until(lambda: not loading.processes(), "all have ended")
    done = loading.run_of()
    assert len(done.workers_of("loader")) == 2
    [dead] = [worker for worker in done.workers if worker.open]
    assert (dead.role, dead.closed, dead.ended) == ("loader", False, True)
    assert [entry.path for entry in dead.open] == ["load"]
    assert re.search(
        r"loader index \d, pid \S+ on \S+ ended without close.* inside load", loading.caveats()
    )
    assert done.tree_of("loader")[("load",)].open_calls == 1


STATUSES = """\
import sys

from lineprofiler.accounting import Profiler

if __name__ == "__main__":
    from torch.utils.data import DataLoader

    from data import Squares, begin

    with Profiler(role="trainer", install=True) as profiler:
        loader = DataLoader(Squares(), num_workers=2, worker_init_fn=begin, collate_fn=list)
        batches = iter(loader)
        workers = batches._workers
        try:
            for batch in batches:
                pass
        except RuntimeError as error:
            # torch says either, as its signal handler or its queue notices first.
            said = [text in str(error) for text in ("is killed by signal", "exited unexpectedly")]
            print(type(error).__name__, any(said))
        del batches, loader
        for worker in workers:
            worker.join()
        print(sorted(worker.exitcode for worker in workers))
"""


@pytest.mark.parametrize("load", ["pass", "i == 20 and os.kill(os.getpid(), 9)"])
def test_statuses_are_what_they_are_without_a_profiler_FK20(loading: Work, load: str) -> None:
    text = DATA.replace("{load}", load)
    loading.write("data.py", f"import os\n\n{text}")
    loading.env["LINEPROFILER_RUN_DIR"] = "profile"
    said = []
    for switch in "0", "1":
        loading.env["LINEPROFILER_PROFILE"] = switch
        said.append(launch(loading, STATUSES))
    assert said[0] == said[1]
    assert len(loading.run_of().workers) == 3

"""Environments of gymnasium and stable-baselines3 in processes of their own. See vector-envs.md."""

from __future__ import annotations

import json
import multiprocessing
import re
import signal

import pytest

from launchers.conftest import Work
from launchers.processes import run, wait_until
from launchers.test_python_pools import kinds, launch
from lineprofiler.run import Run

METHODS = multiprocessing.get_all_start_methods()
STEPS = 50

# One environment, and how it joins: what a program has of it, whoever starts its processes.
ENVS = """\
import sys

import gymnasium
import numpy

from lineprofiler import accounting


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1e9, 1e9, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        with accounting.phase("reset"):
            super().reset(seed=seed)
            return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        with accounting.phase("step"):
            self.steps += 1
            accounting.count("torch", "torch" in sys.modules)
            {step}
            return numpy.full(2, self.steps, numpy.float32), 1.0, False, False, {}


def make(index):
    accounting.join("env", index)
    return Walk()
"""

GYMNASIUM = """\
import functools
import os
import sys

from envs import make
from lineprofiler.accounting import Profiler

if __name__ == "__main__":
    import gymnasium

    n, method, steps, ending = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    with Profiler(run_dir="profile", role="learner") as profiler:
        with profiler.phase("make envs"):
            factories = [functools.partial(make, index) for index in range(n)]
            if method == "sync":
                envs = gymnasium.vector.SyncVectorEnv(factories)
            else:
                envs = gymnasium.vector.AsyncVectorEnv(factories, context=method)
        envs.reset()
        for _ in range(steps):
            with profiler.phase("step envs"):
                envs.step(envs.action_space.sample())
        if ending == ["left open"]:
            sys.exit()
        if ending == ["os._exit"]:
            os._exit(0)
        envs.close(**({"terminate": True} if ending else {}))
"""


@pytest.fixture
def envs(work: Work) -> Work:
    pytest.importorskip("gymnasium", reason="no gymnasium in this environment")
    work.write("envs.py", ENVS.replace("{step}", "pass"))
    return work


def check_envs(of: Run, n: int, steps: int = STEPS, resets: int = 1) -> None:
    """Each environment is there once, knows which one it is, and did each step."""
    assert {name: len(role.workers) for name, role in of.roles.items()} == {"env": n, "learner": 1}
    workers = of.workers_of("env")
    assert sorted(worker.index or 0 for worker in workers) == list(range(n))
    assert len({worker.pid for worker in of.workers}) == n + 1
    tree = of.tree_of("env")
    assert {path: node.calls for path, node in tree.items() if path} == {
        ("reset",): resets * n,
        ("step",): steps * n,
    }
    assert (tree[("step",)].workers, tree[("step",)].counters["torch"].calls) == (n, steps * n)
    assert of.tree_of("learner")[("step envs",)].calls == steps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [4, 16])
def test_environments_of_gymnasium_F9(envs: Work, n: int, method: str) -> None:
    assert launch(envs, GYMNASIUM, str(n), method, str(STEPS)) == ""
    done = envs.run_of()
    check_envs(done, n)
    assert kinds(done) == []
    assert all(worker.closed for worker in done.workers)
    assert done.tree_of("env")[("step",)].counters == {"torch": 0}, "nobody has imported torch"
    header = envs.report().split("\n\n")[0]
    assert re.search(rf"Processes {n + 1}\s+Roles env x{n}, learner x1", header)


def test_the_learner_is_seen_to_wait(envs: Work) -> None:
    """Environments that take their time: in "step envs" it is on no core, and why is said."""
    envs.write("envs.py", ENVS.replace("{step}", "__import__('time').sleep(0.005)"))
    launch(envs, GYMNASIUM, "4", "fork", str(STEPS))
    done = envs.run_of()
    check_envs(done, 4)
    step = done.tree_of("learner")[("step envs",)]
    assert step.wait_ns is not None
    assert step.wall_ns >= STEPS * 5_000_000
    assert step.wait_ns > step.wall_ns / 2
    report = run(["lineprofiler", "report", "profile", "--json"], envs.folder, envs.env)
    document = json.loads(report.stdout)
    assert document["run"]["lost_processes"] == 0
    indexes = [worker["index"] for worker in document["workers"] if worker["role"] == "env"]
    assert sorted(indexes) == [0, 1, 2, 3]


def test_environments_in_the_learner_itself(envs: Work) -> None:
    """Made with SyncVectorEnv they are phases of the learner, and no process of their own."""
    assert launch(envs, GYMNASIUM, "3", "sync", str(STEPS)) == ""
    done = envs.run_of()
    assert [worker.role for worker in done.workers] == ["learner"]
    assert done.tree[("step envs", "step")].calls == 3 * STEPS
    assert kinds(done) == []


@pytest.mark.parametrize("ending", ["terminate", "left open", "os._exit"])
def test_environments_that_nobody_closes_F8(envs: Work, ending: str) -> None:
    launch(envs, GYMNASIUM, "4", "spawn", str(STEPS), ending)
    wait_until(lambda: not envs.processes(), "all have ended")
    done = envs.run_of()
    check_envs(done, 4)
    open_ones = [worker for worker in done.workers if not worker.closed]
    assert kinds(done) == ["unclosed"] * len(open_ones)
    assert all(worker.ended for worker in open_ones)

"""Environments of gymnasium and stable-baselines3 in processes of their own. See vector-envs.md."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess

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
    assert set(kinds(done)) == ({"unclosed"} if open_ones else set())
    assert all(worker.ended for worker in open_ones)


@pytest.mark.parametrize(
    ("what", "caveat"),
    [
        ("raise RuntimeError('no floor')", None),
        (
            "__import__('os')._exit(3)",
            r"env index 2, pid \S+ on \S+ ended without close.* inside step",
        ),
        (
            "__import__('os').kill(__import__('os').getpid(), 9)",
            r"env index 2, pid \S+ on \S+ ended without close.* inside step",
        ),
    ],
    ids=["an exception", "os._exit", "SIGKILL"],
)
def test_an_environment_that_dies(envs: Work, what: str, caveat: str | None) -> None:
    """The third dies in its tenth step: nobody loses what came before."""
    step = f"{what} if self.steps == 10 and self.index == 2 else None"
    if what.startswith("raise"):
        step = f"if self.steps == 10 and self.index == 2: {what}"
    text = ENVS.replace("{step}", step).replace(
        "return Walk()", "walk = Walk()\n    walk.index = index\n    return walk"
    )
    envs.write("envs.py", text)
    launch(envs, GYMNASIUM, "4", "fork", str(STEPS), status=1)
    wait_until(lambda: not envs.processes(), "all have ended")
    done = envs.run_of()
    assert {name: len(role.workers) for name, role in done.roles.items()} == {
        "env": 4,
        "learner": 1,
    }
    step_of = done.tree_of("env")[("step",)]
    assert 37 <= step_of.calls + step_of.open_calls <= 40
    assert step_of.counters["torch"].calls in range(37, 41)
    # The library ends the others by SIGTERM when one has died: they are said to be unclosed, too.
    assert set(kinds(done)) <= {"open", "unclosed"}
    if caveat:
        assert re.search(caveat, envs.caveats())
    else:
        [dead] = [worker for worker in done.workers if worker.index == 2]
        assert dead.closed


# ---- stable-baselines3 -----------------------------------------------------

SB3 = """\
import functools
import sys

from envs import make
from lineprofiler.accounting import Profiler

if __name__ == "__main__":
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(1)
    n, method = int(sys.argv[1]), sys.argv[2]
    with Profiler(run_dir="profile", role="learner") as profiler:
        with profiler.phase("make envs"):
            envs = SubprocVecEnv([functools.partial(make, i) for i in range(n)], method)
        envs.step_wait = profiler.profile(name="step envs")(envs.step_wait)
        model = PPO("MlpPolicy", envs, n_steps=10, batch_size=10, n_epochs=1, device="cpu")
        with profiler.phase("learn"):
            model.learn(20 * n)
        envs.close()
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_environments_of_stable_baselines3_F9(envs: Work, method: str) -> None:
    reason = "no stable-baselines3 in this environment"
    pytest.importorskip("stable_baselines3", reason=reason)
    launch(envs, SB3, "3", method)
    done = envs.run_of()
    assert {name: len(role.workers) for name, role in done.roles.items()} == {
        "env": 3,
        "learner": 1,
    }
    assert sorted(worker.index or 0 for worker in done.workers_of("env")) == [0, 1, 2]
    calls = {path: node.calls for path, node in done.tree_of("env").items() if path}
    assert calls == {("reset",): 3, ("step",): 60}
    assert done.tree_of("learner")[("learn", "step envs")].calls == 20
    assert kinds(done) == []
    assert all(worker.closed for worker in done.workers)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_while_environments_step(envs: Work, method: str) -> None:
    """KeyboardInterrupt in all of the group: each step that was done is there."""
    told = envs.folder / "told"
    step = "open('told', 'ab', 0).write(b'.')"
    envs.write("envs.py", ENVS.replace("{step}", step))
    envs.write("program.py", GYMNASIUM)
    process = subprocess.Popen(
        ["python", "program.py", "4", method, "100000000"],
        cwd=envs.folder,
        env=envs.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: told.exists() and told.stat().st_size > 400, "environments step")
    os.killpg(process.pid, signal.SIGINT)
    process.wait(120)
    wait_until(lambda: not envs.processes(), "all have ended")
    done = envs.run_of()
    assert {name: len(role.workers) for name, role in done.roles.items()} == {
        "env": 4,
        "learner": 1,
    }
    node = done.tree_of("env")[("step",)]
    assert node.counters["torch"].calls in range(told.stat().st_size, told.stat().st_size + 5)
    assert set(kinds(done)) <= {"open", "unclosed"}
    [learner] = done.workers_of("learner")
    assert learner.closed


@pytest.mark.parametrize("where", ["factory", "reset"])
def test_an_environment_that_dies_before_it_begins(envs: Work, where: str) -> None:
    """In each process but the learner's own, where the first is made too."""
    before = {
        "factory": "def make(index):\n",
        "reset": '        with accounting.phase("reset"):\n',
    }[where]
    indent = " " * (len(before) - len(before.lstrip()) + 4)
    dies = f"{indent}if os.getpid() != int(sys.argv[-1]): 1 / 0\n"
    text = ENVS.replace("{step}", "pass").replace(before, before + dies)
    envs.write("envs.py", f"import os\n{text}")
    program = GYMNASIUM.replace("    n, m", "    sys.argv.append(str(os.getpid()))\n    n, m", 1)
    assert "ZeroDivisionError" in launch(envs, program, "4", "fork", "5", status=1)
    wait_until(lambda: not envs.processes(), "all have ended")
    done = envs.run_of()
    assert len(done.workers_of("learner")) == 1
    if where == "reset":
        assert len(done.workers_of("env")) == 4
        assert 1 <= done.tree_of("env")[("reset",)].calls <= 4
    assert set(kinds(done)) <= {"open", "unclosed"}

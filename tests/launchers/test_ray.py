"""Ray, started for real: actors, tasks, restarts, kills, the user's environment. See ray.md."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter

from launchers.conftest import Work
from launchers.open_mpi import OpenMpi
from launchers.processes import end_marked, free_ports, wait_until
from launchers.ray_cluster import Ray
from lineprofiler.accounting import merge_run
from lineprofiler.run import Worker

TELLING_ACTOR = """
@ray.remote(max_restarts=1, max_task_retries=0)
class Player:
    def play(self, games, kill=False):
        told = os.open(f"told.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(games):
            with accounting.phase("game"):
                accounting.count("moves", 3)
                time.sleep(0.001)
            os.write(told, b".")
        with accounting.phase("end"):
            while kill:
                os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()
"""


def told(work: Work, worker: Worker) -> int:
    path = work.folder / f"told.{worker.pid}"
    return path.stat().st_size if path.exists() else 0


def roles(work: Work) -> dict[str, int]:
    return dict(Counter(worker.role for worker in work.run_of().workers))


# ---- who is in the run -----------------------------------------------------


def test_actors_and_tasks_F5_K1_MN09(ray_here: Ray, work: Work) -> None:
    """Plain, nested, named, asynchronous and threaded actors; tasks that follow one another."""
    ray_here.run(
        work,
        """
@ray.remote
class Helper:
    def help(self):
        with accounting.phase("help"):
            return os.getpid()

@ray.remote
class Player:
    def __init__(self):
        self.helper = Helper.remote()

    def play(self, games):
        for _ in range(games):
            with accounting.phase("game"):
                accounting.count("moves", 3)
        return ray.get(self.helper.help.remote())

@ray.remote
class Server:
    async def answer(self, question):
        with accounting.phase("answer"):
            await asyncio.sleep(0.01)
            with accounting.phase("think"):
                await asyncio.sleep(0.01)

@ray.remote(max_concurrency=4)
class Pool:
    def work(self):
        with accounting.phase("work"):
            time.sleep(0.01)

@ray.remote
def evaluate(n):
    with accounting.phase("score"):
        accounting.count("scored", n)

@ray.remote
def load():
    with accounting.phase("read"):
        pass

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler))
    players = [Player.remote() for _ in range(2)]
    named = Player.options(name="the one").remote()
    server, pool = Server.remote(), Pool.remote()
    with profiler.phase("wait"):
        ray.get([player.play.remote(10) for player in [*players, ray.get_actor("the one")]])
        ray.get([server.answer.remote(i) for i in range(20)])
        ray.get([pool.work.remote() for _ in range(20)])
        ray.get([evaluate.remote(2) for _ in range(20)] + [load.remote() for _ in range(5)])
    ray.shutdown()
""",
    )
    run = work.run_of()
    assert not run.superseded
    found = roles(work)
    tasks = found.pop("ray task")
    assert found == {"driver": 1, "Player": 3, "Helper": 3, "Server": 1, "Pool": 1}
    assert tasks >= 1
    assert run.tree_of("Player")[("game",)].calls == 30
    assert run.tree_of("Player")[("game",)].counters == {"moves": 90}
    assert run.tree_of("Helper")[("help",)].calls == 3
    server = run.tree_of("Server")
    assert (server[("answer",)].calls, server[("answer", "think")].calls) == (20, 20)
    assert run.tree_of("Pool")[("work",)].calls == 20
    ran = run.tree_of("ray task")
    assert (ran[("evaluate",)].calls, ran[("load",)].calls) == (20, 5)
    assert ran[("evaluate", "score")].counters == {"scored": 40}
    assert ran[("load", "read")].calls == 5
    assert {worker.rank for worker in run.workers} == {None}
    assert re.search(r"Roles Helper x3, Player x3, Pool x1, Server x1, driver x1", work.report())


def test_a_rank_of_the_driver_is_not_its_workers_F2(
    ray_here: Ray, mpi_of_system: OpenMpi, work: Work
) -> None:
    """They have its environment, by way of the node that it starts."""
    ray_here.run(
        work,
        """
@ray.remote
class Player:
    def play(self):
        with accounting.phase("game"):
            return os.environ.get("OMPI_COMM_WORLD_RANK")

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler))
    players = [Player.remote() for _ in range(2)]
    assert ray.get([player.play.remote() for player in players]) == ["0", "0"]
    ray.shutdown()
""",
        mpi=mpi_of_system,
    )
    ranks = Counter((worker.role, worker.rank) for worker in work.run_of().workers)
    assert ranks == {("driver", 0): 1, ("Player", None): 2}


def test_sixteen_actors_of_a_class_F9_K1(ray_here: Ray, work: Work) -> None:
    ray_here.run(
        work,
        """
@ray.remote(num_cpus=0)
class Actor:
    def play(self):
        with accounting.phase("game"):
            accounting.count("moves", 3)

with Profiler(run_dir="profile", role="learner", install=True) as profiler:
    start(runtime_env(profiler))
    actors = [Actor.remote() for _ in range(16)]
    for _ in range(5):
        ray.get([actor.play.remote() for actor in actors])
    # Those that end before the job does close their profilers.
    ending = [actor.__ray_terminate__.remote() for actor in actors[:8]]
    while not all(gone(actor) for actor in actors[:8]):
        time.sleep(0.1)
    ray.shutdown()
""",
    )
    run = work.run_of()
    assert roles(work) == {"learner": 1, "Actor": 16}
    assert run.tree_of("Actor")[("game",)].calls == 80
    assert Counter(worker.closed for worker in run.workers_of("Actor")) == {True: 8, False: 8}
    assert "Processes 17   Roles Actor x16, learner x1" in work.report()


def test_a_process_that_ran_tasks_becomes_an_actor_F5(ray_here: Ray, work: Work) -> None:
    """Ray reuses processes: it is a worker of each role, one after the other."""
    ray_here.run(
        work,
        """
@ray.remote
def prepare():
    with accounting.phase("read"):
        return os.getpid()

@ray.remote(num_cpus=1)
class Player:
    def play(self):
        with accounting.phase("game"):
            return os.getpid()

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler), num_cpus=1)
    prepared = ray.get([prepare.remote() for _ in range(10)])
    player = Player.remote()
    same = ray.get(player.play.remote()) in prepared
    print("SAME" if same else "OTHER")
    ray.shutdown()
""",
    )
    run = work.run_of()
    assert run.tree_of("ray task")[("prepare", "read")].calls == 10
    assert run.tree_of("Player")[("game",)].calls == 1
    [player] = run.workers_of("Player")
    if "SAME" in ray_here.said:
        [before] = [w for w in run.workers_of("ray task") if w.pid == player.pid]
        assert before.closed
        assert before.path != player.path


def test_handles_of_other_actors_F5(ray_here: Ray, work: Work) -> None:
    """Ray loads their classes where it unpacks the handles: that makes no other actor of it."""
    ray_here.run(
        work,
        """
@ray.remote(num_cpus=0)
class Buffer:
    def add(self, n):
        with accounting.phase("add"):
            accounting.count("items", n)

class Learner:
    def __init__(self, buffer):
        with accounting.phase("begin"):
            self.buffer = buffer

    def learn(self, other):
        with accounting.phase("learn"):
            ray.get([self.buffer.add.remote(1), other.add.remote(1)])

    def by_name(self):
        with accounting.phase("by name"):
            ray.get(ray.get_actor("the buffer").add.remote(1))

class Evaluator(Learner):
    pass

@ray.remote
def fill(buffer):
    with accounting.phase("filling"):
        ray.get([buffer.add.remote(1), ray.get_actor("the buffer").add.remote(1)])

@ray.remote
def make():
    buffer = Buffer.remote()
    with accounting.phase("making"):
        ray.get(buffer.add.remote(1))
    return buffer

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler), num_cpus=2)
    buffer = Buffer.options(name="the buffer").remote()
    learner = ray.remote(num_cpus=0)(Learner).remote(buffer)
    evaluator = ray.remote(num_cpus=0)(Evaluator).remote(buffer)
    for _ in range(3):
        ray.get([fill.remote(buffer), learner.by_name.remote(), evaluator.by_name.remote()])
        made = ray.get(make.remote())
        ray.get([learner.learn.remote(made), evaluator.learn.remote(made), fill.remote(made)])
    ray.shutdown()
""",
    )
    run = work.run_of()
    found = roles(work)
    tasks = found.pop("ray task")
    assert found == {"driver": 1, "Buffer": 4, "Learner": 1, "Evaluator": 1}
    assert len({worker.pid for worker in run.workers}) == len(run.workers) == 7 + tasks
    assert run.tree_of("Buffer")[("add",)].calls == 3 * (4 + 1 + 4 + 2)
    assert list(run.tree_of("Buffer")) == [("add",)]
    for role in "Learner", "Evaluator":
        tree = run.tree_of(role)
        assert {path: stats.calls for path, stats in tree.items()} == {
            ("begin",): 1,
            ("by name",): 3,
            ("learn",): 3,
        }
    ran = run.tree_of("ray task")
    assert (ran[("fill", "filling")].calls, ran[("make", "making")].calls) == (6, 3)


TWO_NODES = """
@ray.remote(num_cpus=1)
class Player:
    def play(self):
        with accounting.phase("game"):
            return os.getpid()

@ray.remote
class Keeper:
    def keep(self):
        with accounting.phase("keep"):
            pass

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    ray.init(address=os.environ["HEAD"], namespace="n", runtime_env=runtime_env(profiler))
    while len(ray.nodes()) < 2:
        time.sleep(0.1)
    spread = Player.options(scheduling_strategy="SPREAD")
    ray.get([player.play.remote() for player in [spread.remote() for _ in range(4)]])
    keeper = Keeper.options(name="keeper", lifetime="detached", get_if_exists=True).remote()
    ray.get(keeper.keep.remote())
    ray.shutdown()
"""


def test_a_cluster_that_outlives_its_drivers_F4(ray_here: Ray, work: Work) -> None:
    """Each driver is a run; what is detached stays in the run of the driver that made it."""
    [port] = free_ports(1)
    head = ray_here.start_node(work, "--head", f"--port={port}", "--include-dashboard=false")
    work.env["HEAD"] = f"127.0.0.1:{port}"
    wait_until(lambda: "--block" in (work.folder / "node.out").read_text(), "the head is there")
    node = ray_here.start_node(work, f"--address=127.0.0.1:{port}")
    try:
        ray_here.run(work, TWO_NODES)
        first = merge_run(work.folder / "profile")
        assert Counter(w.role for w in first.workers) == {"driver": 1, "Player": 4, "Keeper": 1}
        ray_here.run(work, TWO_NODES)
        second = merge_run(work.folder / "profile")
        assert Counter(w.role for w in second.workers) == {"driver": 1, "Player": 4}
        assert second.tree_of("Player")[("game",)].calls == 4
        assert [(a.run_id, a.workers) for a in second.superseded] == [(first.run_id, 6)]
        assert "an earlier attempt in this directory is left out" in work.caveats()
        assert "DID NOT JOIN" not in work.report()
    finally:
        node.terminate()
        head.terminate()
        assert None not in (node.wait(60), head.wait(60))
        end_marked(work.mark, grace_s=0)


# ---- deaths ----------------------------------------------------------------


def test_killed_and_restarted_actors_F5_F7_EX04(ray_here: Ray, work: Work) -> None:
    """ray.kill inside of a phase, SIGKILL and a restart: nothing is lost or counted twice."""
    ray_here.run(
        work,
        TELLING_ACTOR
        + """
with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler))
    killed, restarted = Player.remote(), Player.remote()
    endless = killed.play.remote(10**9)
    first = restarted.play.remote(50, kill=True)
    try:
        ray.get(first)
    except ray.exceptions.RayError as error:
        print(type(error).__name__)
    while True:
        try:
            ray.get(restarted.play.remote(50))
            break
        except ray.exceptions.RayError:
            time.sleep(0.1)
    while not any(os.path.getsize(f) > 100 for f in glob.glob("told.*")):
        time.sleep(0.01)
    ray.kill(killed)
    try:
        ray.get(endless)
    except ray.exceptions.RayError as error:
        print(type(error).__name__)
    ray.shutdown()
""",
    )
    run = work.run_of()
    assert not run.superseded
    assert roles(work) == {"driver": 1, "Player": 3}
    players = run.workers_of("Player")
    assert len({worker.path for worker in players}) == 3
    total = sum(told(work, worker) for worker in players)
    games = run.tree_of("Player")[("game",)]
    assert total <= games.calls <= total + 1
    assert sum(worker.ended and not worker.closed for worker in players) >= 2
    assert "end" in [entry.path for worker in players for entry in worker.open]
    assert re.search(r"Player pid \d+ on \S+ ended without close inside end", work.caveats())


def test_a_killed_raylet_F7(ray_here: Ray, work: Work) -> None:
    """The processes of a node end with it, by the hand of nobody."""
    driver = ray_here.start(
        work,
        TELLING_ACTOR
        + """
with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler))
    players = [Player.remote() for _ in range(2)]
    games = [player.play.remote(10**9) for player in players]
    try:
        ray.get(games)
    except BaseException as error:
        print(type(error).__name__)
""",
    )
    two_play(work)
    raylets = [pid for pid, line in work.processes().items() if "raylet/raylet" in line.split()[0]]
    assert len(raylets) == 1
    os.kill(raylets[0], signal.SIGKILL)
    wait_until(lambda: len(list(ended(work))) >= 2, "the actors end with the raylet")
    driver.kill()
    driver.wait()
    assert_all_told(work)


def two_play(work: Work) -> None:
    def steps() -> list[int]:
        return [path.stat().st_size for path in work.folder.glob("told.*")]

    wait_until(lambda: sorted(steps())[-2:-1] > [50], "two actors play")


def ended(work: Work) -> list[Worker]:
    return [w for w in merge_run(work.folder / "profile").workers_of("Player") if w.ended]


def assert_all_told(work: Work) -> None:
    run = work.run_of()
    players = run.workers_of("Player")
    total = sum(path.stat().st_size for path in work.folder.glob("told.*"))
    assert total > 0
    assert total <= run.tree_of("Player")[("game",)].calls <= total + len(players)


def test_a_killed_driver_F7(ray_here: Ray, work: Work) -> None:
    driver = ray_here.start(
        work,
        TELLING_ACTOR
        + """
profiler = Profiler(run_dir="profile", role="driver", install=True)
start(runtime_env(profiler))
players = [Player.remote() for _ in range(2)]
with profiler.phase("wait"):
    ray.get([player.play.remote(10**9) for player in players])
""",
    )
    two_play(work)
    driver.kill()
    driver.wait()
    wait_until(lambda: len(ended(work)) >= 2, "the actors end with their driver")
    assert_all_told(work)
    assert re.search(r"driver pid \d+ on \S+ ended without close inside wait", work.caveats())
    end_marked(work.mark, grace_s=0)  # what is left of Ray takes a minute to go


def test_actors_with_handlers_of_their_own_F8(ray_here: Ray, work: Work) -> None:
    """A handler that an actor installs runs; what is recorded before and after is there."""
    ray_here.run(
        work,
        """
@ray.remote
class Player:
    def __init__(self):
        self.got = []
        # Python's handlers are for main threads, in which Ray runs what is not concurrent.
        signal.signal(signal.SIGUSR1, lambda number, frame: self.got.append(number))

    def play(self):
        with accounting.phase("game"):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0)
        with accounting.phase("game"):
            return self.got

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler))
    player = Player.remote()
    assert ray.get(player.play.remote()) == [signal.SIGUSR1]
    ray.shutdown()
""",
    )
    assert work.run_of().tree_of("Player")[("game",)].calls == 2


# ---- what the user has said ------------------------------------------------


def test_an_environment_of_the_users_own(ray_here: Ray, work: Work) -> None:
    """Variables, hooks and the environment of an actor stay as they are."""
    work.write(
        "users.py",
        """\
import os

def hook():
    os.environ["BY_NAME"] = "hooked"
""",
    )
    ray_here.run(
        work,
        """
@ray.remote
class Player:
    def variables(self):
        with accounting.phase("look"):
            return {name: os.environ.get(name) for name in ("A", "B", "BY_NAME", "BY_VALUE")}

def hook():
    os.environ["BY_VALUE"] = "hooked"

given = {"env_vars": {"A": "1"}, "worker_process_setup_hook": hook}
with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler, given))
    assert given == {"env_vars": {"A": "1"}, "worker_process_setup_hook": hook}, "not changed"
    player = Player.options(runtime_env={"env_vars": {"B": "2"}}).remote()
    found = ray.get(player.variables.remote())
    assert found == {"A": "1", "B": "2", "BY_NAME": None, "BY_VALUE": "hooked"}, found
    ray.shutdown()
    # Started again, in the same run.
    given = ray.runtime_env.RuntimeEnv(
        env_vars={"A": "3", "PYTHONPATH": os.getcwd()}, worker_process_setup_hook="users.hook"
    )
    start(runtime_env(profiler, given))
    found = ray.get(Player.remote().variables.remote())
    assert found == {"A": "3", "B": None, "BY_NAME": "hooked", "BY_VALUE": None}, found
    ray.shutdown()
""",
    )
    run = work.run_of()
    assert not run.superseded
    assert roles(work) == {"driver": 1, "Player": 2}
    assert run.tree_of("Player")[("look",)].calls == 2


OFF = """
@ray.remote
class Player:
    def play(self):
        with accounting.phase("game"):
            return sorted(name for name in os.environ if name.startswith("LINEPROFILER_RUN"))

with Profiler(role="driver", install=True) as profiler:
    assert not profiler.enabled
    assert runtime_env(profiler, {"env_vars": {"A": "1"}}) == {"env_vars": {"A": "1"}}
    start(runtime_env(profiler))
    assert ray.get(Player.remote().play.remote()) == []
    ray.shutdown()
"""


def test_switched_off(ray_here: Ray, work: Work) -> None:
    """Nothing is handed on, and nothing written."""
    work.env["LINEPROFILER_PROFILE"] = "0"
    ray_here.run(work, OFF)
    assert not (work.folder / "profile").exists()


def test_where_nothing_can_be_written_the_job_goes_on(ray_here: Ray, work: Work) -> None:
    ray_here.run(
        work,
        """
@ray.remote
class Player:
    def play(self):
        with accounting.phase("game"):
            return 1

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler, {"env_vars": {"LINEPROFILER_RUN_DIR": "/proc/nowhere"}}))
    assert ray.get(Player.remote().play.remote()) == 1
    ray.shutdown()
""",
    )
    assert roles(work) == {"driver": 1}


def test_without_the_package_in_the_environment_of_the_job(ray_here: Ray, work: Work) -> None:
    """As with an environment that Ray makes, of other packages: the job goes on."""
    (work.folder / "other" / "lineprofiler").mkdir(parents=True)
    (work.folder / "other/lineprofiler/__init__.py").write_text("raise ImportError('none here')\n")
    ray_here.run(
        work,
        """
@ray.remote
class Player:
    def play(self):
        try:
            import lineprofiler
        except ImportError as error:
            return str(error)

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler, {"env_vars": {"PYTHONPATH": os.path.abspath("other")}}))
    assert ray.get(Player.remote().play.remote()) == "none here"
    ray.shutdown()
""",
    )
    assert roles(work) == {"driver": 1}


def test_a_ray_without_the_functions_that_are_wrapped(ray_here: Ray, work: Work) -> None:
    """A hook cannot tell what a process is for: all have one role, and all is recorded."""
    ray_here.run(
        work,
        """
@ray.remote
class Player:
    def play(self):
        with accounting.phase("game"):
            return accounting.installed_profiler().role

@ray.remote
def evaluate():
    with accounting.phase("score"):
        return accounting.installed_profiler().role

def hook():
    import types
    import lineprofiler.integrations.ray as integration

    other = types.SimpleNamespace(global_worker=types.SimpleNamespace())
    integration.importlib = types.SimpleNamespace(import_module=lambda name: other)

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler, {"worker_process_setup_hook": hook}), num_cpus=2)
    player = Player.remote()
    assert ray.get([player.play.remote() for _ in range(5)]) == ["ray"] * 5
    assert ray.get([evaluate.remote() for _ in range(5)]) == ["ray"] * 5
    ray.shutdown()
""",
    )
    run = work.run_of()
    assert list(run.roles) == ["driver", "ray"]
    ran = run.tree_of("ray")
    assert {path: stats.calls for path, stats in ran.items()} == {("game",): 5, ("score",): 5}


def test_functions_of_ray_that_are_called_otherwise(ray_here: Ray, work: Work) -> None:
    """They are Ray's own: what they get goes on to them, and what they return comes back."""
    ray_here.run(
        work,
        """
import collections
import types
import warnings

import lineprofiler.integrations.ray as integration

Info = collections.namedtuple("Info", "function more")
Named = collections.namedtuple("Named", "function_name class_name function_id")
Other = collections.namedtuple("Other", "label")

class Manager:
    def load_actor_class(self, *, job, what, added=None):
        return ("class", job, what, added)

    def get_execution_info(self, *, job, what, added=None):
        return Info(lambda: accounting.current(), (job, what, added))

class Id:
    nil = True

    def is_nil(self):
        if self.nil is None:
            raise TypeError("no longer so")
        return self.nil

warnings.simplefilter("error")
identity, manager = Id(), Manager()
worker = types.SimpleNamespace(function_actor_manager=manager, actor_id=identity)
fake = types.SimpleNamespace(global_worker=worker)
integration.importlib = types.SimpleNamespace(import_module=lambda name: fake)
os.environ.update(LINEPROFILER_PROFILE="1", LINEPROFILER_RUN_DIR="profile")

def found(what):
    loaded = manager.load_actor_class(job=1, what=what, added=2)
    assert loaded == ("class", 1, what, 2)
    info = manager.get_execution_info(job=1, what=what, added=2)
    assert info.more == (1, what, 2)
    return info.function(), accounting.installed_profiler().role

task = Named("mine.work", "", "id")
integration._follow({})
assert found(Other("?")) == ("", "ray")
assert found(task) == ("work", "ray task")
assert found(Other("?")) == ("", "ray task")
identity.nil = None
assert found(task) == ("", "ray task")
identity.nil = False
assert found(Named("play", "mine.Player", "id 2")) == ("", "Player")
assert found(Named("add", "mine.Buffer", "id 3")) == ("", "Player")
accounting.stop()
assert manager.get_execution_info(job=1, what=task).more == (1, task, None)
assert accounting.installed_profiler() is None
""",
    )


def test_names_of_tasks_that_are_refused(ray_here: Ray, work: Work) -> None:
    """strict_names= is about names that the program gives: a name of a task never costs it."""
    ray_here.run(
        work,
        """
def named(name):
    def task():
        return os.getpid()
    task.__name__ = task.__qualname__ = name
    return ray.remote(task)

with Profiler(run_dir="profile", role="driver", install=True, strict_names=True) as profiler:
    start(runtime_env(profiler), num_cpus=1)
    tasks = [named(name) for name in ("step_1", "step_2")]
    assert len({ray.get(task.remote()) for task in tasks}) == 1, "one process ran both"
    ray.shutdown()
""",
    )
    tree = merge_run(work.folder / "profile").roles["ray task"].tree
    assert {path: node.calls for path, node in tree.items()} == {("step_1",): 1, ("ray task",): 1}


def test_tasks_that_fail_stream_and_are_cancelled(ray_here: Ray, work: Work) -> None:
    """What Ray does with them is as without a profiler."""
    ray_here.run(
        work,
        """
@ray.remote(num_returns="streaming")
def stream(n):
    for i in range(n):
        with accounting.phase("part"):
            yield i

@ray.remote(max_calls=1)
def once():
    with accounting.phase("work"):
        return os.getpid()

@ray.remote
def outer():
    return ray.get(once.remote())

@ray.remote
def fails():
    raise ValueError("mine")

@ray.remote
class Server:
    async def wait(self):
        with accounting.phase("wait"):
            open("waiting", "w").close()
            await asyncio.sleep(600)

    async def stream(self, n):
        for i in range(n):
            with accounting.phase("part"):
                yield i

with Profiler(run_dir="profile", role="driver", install=True) as profiler:
    start(runtime_env(profiler))
    assert [ray.get(part) for part in stream.remote(3)] == [0, 1, 2]
    pids = ray.get([once.remote() for _ in range(3)]) + [ray.get(outer.remote())]
    assert len(set(pids)) == 4
    try:
        ray.get(fails.remote())
    except ValueError as error:
        assert "mine" in str(error)
        assert "lineprofiler/" not in str(error), "the traceback is that of the program alone"
    else:
        raise AssertionError("nothing was raised")
    server = Server.remote()
    parts = server.stream.options(num_returns="streaming").remote(3)
    assert [ray.get(part) for part in parts] == [0, 1, 2]
    waiting = server.wait.remote()
    while not os.path.exists("waiting"):
        time.sleep(0.01)
    ray.cancel(waiting)
    try:
        ray.get(waiting)
    except (ray.exceptions.TaskCancelledError, ray.exceptions.RayTaskError):
        pass
    else:
        raise AssertionError("it was not cancelled")
    ray.shutdown()
""",
    )
    run = work.run_of()
    tasks, server = run.tree_of("ray task"), run.tree_of("Server")
    assert (tasks[("stream",)].calls, tasks[("stream", "part")].calls) == (1, 3)
    assert (tasks[("once", "work")].calls, tasks[("outer",)].calls) == (4, 1)
    assert tasks[("fails",)].calls == 1
    assert (server[("part",)].calls, server[("wait",)].calls) == (3, 1)


def test_arguments_that_are_wrong(ray_here: Ray, work: Work) -> None:
    ray_here.run(
        work,
        """
profiler = Profiler(run_dir="profile")
for wrong, said in ((lambda: runtime_env({}), "must be a Profiler"), (closed, "is closed")):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        assert said in str(error), error
    else:
        raise AssertionError(said)
""".replace(
            "for wrong",
            "def closed():\n    profiler.close()\n    runtime_env(profiler)\n\nfor wrong",
        ),
    )

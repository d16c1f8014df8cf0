"""The ways to die. Each sets victims into a scene, and when it returns they are dead."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torture import program
from torture.scene import Ends, Options, Scene, Victim, spawn, wait_for_group

OOM_BYTES = 64 << 20
MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")
READ_IN_PYTHON = "import sys; from lineprofiler.accounting import merge_run; merge_run(sys.argv[1])"


class Way(NamedTuple):
    """A way to die."""

    die: Callable[[Scene, random.Random, str], None]
    c: int  # how often with a victim in C, and in Python, in a thousand
    python: int


def habits(rng: random.Random, language: str, played: program.Program) -> dict[str, float]:
    """Return options of a victim that should make no difference."""
    chosen: dict[str, float] = {}
    if rng.random() < 0.3:
        chosen["interval"] = rng.choice([0.001, 0.01, 30])
    if language == "c" and rng.random() < 0.2:
        chosen["churn"] = 1
    if language == "c" and rng.random() < 0.2 and len(played.lines) <= 2:
        chosen["daemon"] = 1  # whose image cannot grow any more, and need not
    return chosen


def some_program(rng: random.Random, language: str, most: int = 4) -> program.Program:
    return program.small(rng, rng.choice([1, 1, 2, most] if language == "c" else [1, 1, 2]))


def await_moment(rng: random.Random, language: str, victim: Victim, most_s: float = 0.005) -> None:
    """Let the victim come some way: to somewhere in its beginning, or into its program."""
    if rng.random() < 0.15:
        time.sleep(rng.uniform(0, 0.004 if language == "c" else 0.08))
        return
    victim.has_told()
    time.sleep(rng.uniform(0, most_s if language == "c" else 3 * most_s))


def kill_sometime(
    scene: Scene, rng: random.Random, language: str, victim: Victim, number: int = signal.SIGKILL
) -> None:
    await_moment(rng, language, victim)
    victim.send(number, to_all=victim.processes > 1)
    scene.wait(victim, -number)


def by_kill(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGKILL."""
    played = some_program(rng, language, most=8)
    kill_sometime(
        scene, rng, language, scene.start(language, played, habits(rng, language, played))
    )


def by_crash_signal(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGSEGV, SIGABRT, SIGBUS, SIGFPE from outside, at any moment."""
    number = rng.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
    victim = scene.start(language, some_program(rng, language))
    kill_sometime(scene, rng, language, victim, number)


def by_itself(how: str, *statuses: int) -> Callable[[Scene, random.Random, str], None]:
    """One of its streams ends the process, between two operations of its own."""

    def die(scene: Scene, rng: random.Random, language: str) -> None:
        played = some_program(rng, language)
        by, at = rng.randrange(len(played.lines)), rng.randrange(3000 if language == "c" else 400)
        victim = scene.start(
            language, played, {"end": how, "by": by, "at": at, **habits(rng, language, played)}
        )
        victim.ends = Ends(exact=frozenset({by}))
        scene.wait(victim, *statuses)

    return die


def by_exception(scene: Scene, rng: random.Random, language: str) -> None:
    """An uncaught exception of the main thread. Everything is closed in the end."""
    played = some_program(rng, language)
    victim = scene.start(language, played, {"end": "exception", "at": rng.randrange(400)})
    streams = frozenset(range(len(played.lines)))
    victim.ends = Ends(closed=True, exact=streams, ended=streams - {0})
    scene.wait(victim, 1)


def by_sys_exit(scene: Scene, rng: random.Random, language: str) -> None:
    """sys.exit() on any thread; the others come to the end of what they do."""
    played = some_program(rng, language)
    by, at = rng.randrange(len(played.lines)), rng.randrange(400)
    turns = rng.randrange(1, 600)
    victim = scene.start(language, played, {"end": "sys_exit", "by": by, "at": at, "turns": turns})
    streams = frozenset(range(len(played.lines)))
    victim.ends = Ends(closed=True, exact=streams, ended=streams - {0})
    scene.wait(victim, 5 if by == 0 else 0, 0)


def by_oom(scene: Scene, rng: random.Random, language: str) -> None:
    """The kernel kills it for its memory, in a cgroup."""
    assert scene.tools.cgroup is not None
    group = scene.tools.cgroup / scene.run_id
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(OOM_BYTES), encoding="utf-8")
    played, at = some_program(rng, language), rng.randrange(3000 if language == "c" else 400)
    victim = scene.start(
        language, played, {"end": "hog", "at": at, "cgroup": group / "cgroup.procs"}
    )
    scene.wait(victim, -signal.SIGKILL)
    group.rmdir()


def in_a_flush(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGKILL, while its file is written over and over."""
    often: list[dict[str, float]] = [{"snapshots": 1}, {"interval": 0.001}]
    options = rng.choice([*often, often[0] | often[1]])
    victim = scene.start(language, some_program(rng, language), options)
    kill_sometime(scene, rng, language, victim)


def in_growth(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGKILL, while its image has to grow."""
    played = program.wide(rng, rng.choice([1, 2, 8] if language == "c" else [1, 2]))
    kill_sometime(scene, rng, language, scene.start(language, played))


def in_close(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGKILL, while it closes its profiler: a little before, in the middle, or too late."""
    played, turns = some_program(rng, language), rng.randint(1, 300)
    victim = scene.start(language, played, {"turns": turns})
    victim.listen(turns * len(played.lines) - rng.choice([0, 0, 0, 1, 5]))
    time.sleep(rng.uniform(0, 0.001 if language == "c" else 0.03))
    victim.send(signal.SIGKILL, to_all=False)
    scene.wait(victim, -signal.SIGKILL, 0)
    streams = range(len(played.lines))
    done = frozenset(stream for stream in streams if victim.done(stream) == turns)
    victim.ends = Ends(closed=None, exact=done, ended=frozenset(streams) - {0})


def all_at_once(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGKILL to a process group whose first process forks the others."""
    forks = rng.randint(1, 3)
    played = program.small(rng, (1 + forks) * rng.choice([1, 2]))
    options = {"interval": 0.002} if rng.random() < 0.3 else {}
    at = rng.randrange(2000 if language == "c" else 100)
    victim = scene.start(language, played, {"forks": forks, "fork_at": at, **options})
    kill_sometime(scene, rng, language, victim)


def children_of(pid: int) -> list[int]:
    with suppress(OSError):
        path = Path(f"/proc/{pid}/task/{pid}/children")
        return [int(child) for child in path.read_text(encoding="ascii").split()]
    return []


def one_by_one(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGKILL to forked children, whose parent sees it and comes for them; then to all."""
    forks = rng.randint(1, 3)
    played = program.small(rng, (1 + forks) * rng.choice([1, 2]))
    options = {"forks": forks, "fork_at": rng.randrange(100), "interval": 0.002}
    victim = scene.start(language, played, options)
    await_moment(rng, language, victim)
    for child in children_of(victim.pid):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        time.sleep(rng.uniform(0, 0.004))
    victim.send(signal.SIGKILL, to_all=True)
    scene.wait(victim, -signal.SIGKILL)


def by_signal(scene: Scene, rng: random.Random, language: str) -> None:
    """SIGTERM, SIGUSR1, SIGHUP, with all kinds of handlers."""
    number = rng.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
    kinds = ["before", "after"] if language == "c" else ["python_before", "python_after"]
    handler, then = rng.choice(["", "ignored", *kinds, *kinds]), rng.choice(["exit", "stop"])
    played = some_program(rng, language)
    keeper = {"interval": 30} if rng.random() < 0.5 else {}
    options: Options = {"signal": int(number), "handler": handler, "then": then, **keeper}
    victim = scene.start(language, played, options)
    victim.has_told()
    time.sleep(rng.uniform(0, 0.005))
    victim.send(number, to_all=False)
    if handler == "ignored":
        time.sleep(0.001)
        victim.send(signal.SIGKILL, to_all=False)
        scene.wait(victim, -signal.SIGKILL)
    elif handler == "":
        scene.wait(victim, -number)
    elif then == "exit":
        scene.wait(victim, 42)
    else:
        streams = frozenset(range(len(played.lines)))
        victim.ends = Ends(closed=True, exact=streams - {0}, ended=streams - {0})
        scene.wait(victim, 43)


def corpses(scene: Scene, rng: random.Random, language: str) -> None:
    """Workers of the run that were killed: somebody will come for them."""
    for _ in range(rng.randint(1, 3)):
        played = some_program(rng, language)
        victim = scene.start(language, played, habits(rng, language, played))
        kill_sometime(scene, rng, language, victim)


def start_reader(scene: Scene, rng: random.Random) -> int:
    if rng.random() < 0.1:
        command = [sys.executable, "-P", "-c", READ_IN_PYTHON, str(scene.run_dir)]
    else:
        command = [str(scene.tools.command), "report", str(scene.run_dir)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    pid = spawn(command, nowhere, scene.errors)
    os.close(nowhere)
    return pid


def in_adoption(scene: Scene, rng: random.Random, language: str) -> None:
    """Readers race for dead workers beside a living one, and some are killed in the middle."""
    corpses(scene, rng, language)
    played = some_program(rng, language)
    alive = scene.start(language, played, habits(rng, language, played))
    for _ in range(rng.randint(1, 3)):
        readers = [start_reader(scene, rng) for _ in range(rng.randint(1, 3))]
        for pid in readers:
            if rng.random() < 0.8:
                time.sleep(rng.uniform(0, 0.003))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in readers:
            scene.killed_adopters += wait_for_group(pid) == -signal.SIGKILL
    kill_sometime(scene, rng, language, alive)


def by_adopting(scene: Scene, rng: random.Random, language: str) -> None:
    """Workers of the run that flush all the time come for dead ones, and are killed in turn."""
    corpses(scene, rng, language)
    heirs = [
        scene.start(language, some_program(rng, language), {"interval": 0.001, "snapshots": i})
        for i in range(rng.randint(1, 2))
    ]
    for heir in heirs:
        kill_sometime(scene, rng, language, heir)


WAYS = {
    "SIGKILL": Way(by_kill, 130, 20),
    "crash signal from outside": Way(by_crash_signal, 60, 10),
    "_exit": Way(by_itself("exit", 7), 60, 15),
    "segmentation fault": Way(by_itself("segv", -signal.SIGSEGV), 50, 10),
    "abort": Way(by_itself("abort", -signal.SIGABRT), 50, 10),
    "exec": Way(by_itself("exec", 0), 20, 5),
    "uncaught exception": Way(by_exception, 0, 15),
    "sys.exit on a thread": Way(by_sys_exit, 0, 15),
    "out of memory": Way(by_oom, 20, 5),
    "SIGKILL in a flush": Way(in_a_flush, 120, 10),
    "SIGKILL while the image grows": Way(in_growth, 80, 10),
    "SIGKILL in close()": Way(in_close, 50, 10),
    "SIGKILL of the process group": Way(all_at_once, 80, 10),
    "SIGKILL of forked children": Way(one_by_one, 40, 5),
    "SIGTERM, SIGUSR1, SIGHUP": Way(by_signal, 60, 20),
    "SIGKILL while reading": Way(in_adoption, 80, 5),
    "SIGKILL beside dead workers": Way(by_adopting, 50, 5),
}


def make_cgroup() -> Path | None:
    """Return a memory cgroup to make others in, or None if there can be none."""
    path = MEMORY_CGROUPS / f"lineprofiler-torture-{os.getpid()}"
    try:
        path.mkdir()
        (path / "probe").mkdir()
        (path / "probe" / "memory.limit_in_bytes").write_text(str(OOM_BYTES), encoding="utf-8")
        (path / "probe").rmdir()
    except OSError:
        with suppress(OSError):
            path.rmdir()
        return None
    return path

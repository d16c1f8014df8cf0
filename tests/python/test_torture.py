"""Nothing is lost and nothing counted twice, however a process ends: F7, F8, E7; EX01, EX04, FK17.

A share of `make torture` (tests/torture), all of it on one interpreter. A failure names the seed of
its scene: `python -m torture --again WAY LANGUAGE SEED` plays it once more.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torture import program
from torture.build import build_victim
from torture.check import allowed, check, differences, figures_of, images, remove
from torture.scene import Options, Scene, Tools, adopt_orphans, disown_orphans
from torture.torment import one
from torture.ways import WAYS, make_cgroup

from lineprofiler.accounting import merge_run

# Scenes of each way and language that have one process or more each.
ALL_HERE = sys.version_info[:2] == (3, 12)
SCENES = {"c": 15 if ALL_HERE else 2, "python": 4 if ALL_HERE else 1}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    disk = tmp_path_factory.mktemp("torture")
    command = Path(sys.executable).with_name("lineprofiler")
    made = Tools(disk, disk, build_victim(), command, make_cgroup())
    adopt_orphans()
    yield made
    disown_orphans()
    if made.cgroup is not None:
        made.cgroup.rmdir()


@pytest.mark.parametrize("language", ["c", "python"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_lost_F7_F8_E7(tools: Tools, way: str, language: str) -> None:
    if not getattr(WAYS[way], language):
        pytest.skip("there is no such end in C")
    if language == "c" and tools.victim is None:
        pytest.skip("meson and ninja are needed to build a program in C")
    if way == "out of memory" and tools.cgroup is None:
        pytest.skip("no memory cgroup (v1) can be made here")
    seed = secrets.token_hex(4)
    for number in range(SCENES[language]):
        outcome = one(tools, way, language, f"{seed}-{number}")
        assert not outcome.faults, str(outcome)


# ---- what the torture itself would notice ----------------------------------


@pytest.fixture
def killed(tools: Tools) -> Iterator[Scene]:
    """A scene whose victim, with two threads and counters, was killed."""
    scene = Scene(tools, f"torture-{secrets.token_hex(4)}")
    enter, leave, count = (program.Operation(*it) for it in (("+", "step"), ("-",), ("#", "n", 2)))
    line = program.Line([enter, count, enter, leave, leave, count])
    victim = scene.start("python", program.Program([line, line]))
    victim.listen(40)
    victim.send(signal.SIGKILL, to_all=False)
    scene.wait(victim, -signal.SIGKILL)
    yield scene
    remove(scene)


def test_more_or_less_than_was_told_is_noticed(killed: Scene) -> None:
    seen = figures_of(merge_run(killed.run_dir))
    assert list(differences(seen, allowed(killed))) == []
    [victim] = killed.victims
    told, busy = bytes(victim.told), bytes([max((0, 1), key=victim.done)])
    victim.told += 6 * busy  # a round that was never on record
    assert any(fault.startswith("LOSS") for fault in differences(seen, allowed(killed)))
    victim.told = bytearray(told.replace(busy, b"", 8))
    assert any(fault.startswith("DUPLICATE") for fault in differences(seen, allowed(killed)))


def test_what_lies_about_is_noticed(killed: Scene) -> None:
    assert check(killed) == []
    [file] = killed.run_dir.glob("workers/*/*.json")
    shutil.copy(file, file.with_name("w_torture_1_00000000.json"))
    file.with_suffix(".json.tmp").touch()
    file.with_name("w_torture_2_00000000.json").write_bytes(file.read_bytes()[:-9])
    faults = check(killed)
    for kind in ("DUPLICATE", "STRAY", "HALF"):
        assert any(fault.startswith(kind) for fault in faults), kind


# ---- one process after another with the same number ------------------------


def test_pid_1_again_in_a_directory_that_was_kept_PR10(
    tools: Tools, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    if tools.victim is None:
        pytest.skip("meson and ninja are needed to build a program in C")
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no pid namespace can be made here")
    seed = secrets.token_hex(4)
    first = Scene(tools, f"torture-{seed}-1")
    second = Scene(tools, f"torture-{seed}-2")
    second.run_dir = first.run_dir
    line = program.Line([program.Operation("+", "step"), program.Operation("-")])
    for scene in (first, second):
        options: Options = {"interval": 0.001, "end": "exit", "at": 50}
        victim = scene.start("c", program.Program([line]), options, inside)
        scene.wait(victim, 7)
    # In another pid namespace it is dead once it has been silent for a while.
    wait_until(lambda: not merge_run(first.run_dir).live and not images(first) + images(second))
    run = merge_run(first.run_dir)
    assert [(worker.pid, worker.run_id) for worker in run.workers] == [(1, second.run_id)]
    assert run.tree[("step",)].calls == 25
    assert [(attempt.run_id, attempt.workers) for attempt in run.superseded] == [(first.run_id, 1)]

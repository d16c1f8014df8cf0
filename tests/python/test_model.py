"""Random programs, held against a reference model to the nanosecond.

A program (tests/support/programs.py) is played twice: on the reference, pure Python that is obvious
at sight (tests/support/reference.py), and in a child process on a real profiler, whose clocks a
preloaded library has stand still until the program says how much time goes by
(tests/support/fake_clock.c). Then every figure is compared, of the last state and of snapshots
taken in between. LINEPROFILER_MODEL_EXAMPLES=N tries N programs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import Expected, Operation, programs
from reference import Figures, Path, Reading, Tally

from lineprofiler.accounting import Run, decode_text, merge_run
from lineprofiler.run import Node

SUPPORT = FilePath(__file__).resolve().parents[1] / "support"
# The model is of the recorder, which is one for all interpreters: one of them tries more.
DEFAULT_EXAMPLES = "150" if sys.version_info[:2] == (3, 12) else "40"
EXAMPLES = int(os.environ.get("LINEPROFILER_MODEL_EXAMPLES", DEFAULT_EXAMPLES))
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]


class Player:
    """The child process that plays programs."""

    def __init__(self, folder: FilePath) -> None:
        library = folder / "fake_clock.so"
        compiler = os.environ.get("CC", "cc").split()
        source = SUPPORT / "fake_clock.c"
        options = [*WARNINGS, "-O1", "-shared", "-fPIC", "-o"]
        subprocess.run([*compiler, *options, library, source], check=True)
        self.folder = folder
        self.programs = 0
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-W", "error", SUPPORT / "play.py"],
            cwd=folder,
            env={
                **os.environ,
                "LD_PRELOAD": str(library),
                "LINEPROFILER_CLOCK_WALL": "vdso",
                "LINEPROFILER_CLOCK_CPU": "plain",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, operations: list[Operation], **options: bool) -> tuple[FilePath, list[Any]]:
        """Return the folder in which the run and its copies stand, and the outcomes."""
        self.programs += 1
        folder = self.folder / str(self.programs)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        program = {"folder": str(folder), "operations": operations, **options}
        self.process.stdin.write(json.dumps(program) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the child ended with {self.process.wait()}"
        return folder, json.loads(answer)

    def end(self) -> None:
        with self.process:
            pass
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    # Memory, where there is such a folder: each snapshot waits for the disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lineprofiler-model-", dir=memory) as folder:
        started = Player(FilePath(folder))
        yield started
        started.end()


def written(document: dict[str, Any]) -> dict[Path, Figures]:
    """Return a worker file's own figures by path, those of all threads added up."""
    figures: dict[Path, Figures] = {(): Figures()}
    for slot in document["threads"]:
        top = (decode_text(slot["name"]),) if document["settings"]["thread_names"] else ()
        paths: list[Path] = []
        for node in slot["nodes"]:
            path = (*paths[node["parent"]], decode_text(node["name"])) if paths else top
            paths.append(path)
            add(figures.setdefault(path, Figures()), node)
    return figures


def add(figures: Figures, node: dict[str, Any]) -> None:
    for key, value in node.items():
        if key.endswith(("blocked_ns", "preempted_ns")):
            continue  # of the kernel's clocks, which do not stand still; see test_waits.py
        if key.endswith(("calls", "_ns")):
            setattr(figures, key, getattr(figures, key) + (value or 0))
    for pair in node.get("hist", "").split():
        bucket, count = pair.split(":")
        figures.hist[int(bucket)] += int(count)
    for name, (total, calls, least, most) in node.get("counters", {}).items():
        tally = figures.counters.setdefault(decode_text(name), Tally())
        tally.sum += total
        tally.calls += calls
        tally.min = min(tally.min, least)
        tally.max = max(tally.max, most)


def tally_of(counter: Any) -> Tally:
    return Tally(int(counter), counter.calls, counter.min, counter.max)


def check_node(node: Node, figures: Figures, measure_cpu: bool, sampled_below: bool) -> None:
    """What merge_run makes of the same figures."""
    wall_ns = figures.wall_ns + figures.open_wall_ns
    cpu_ns = figures.cpu_ns + figures.open_cpu_ns
    child_ns = figures.child_wall_ns + figures.open_child_wall_ns
    assert node.calls == node.hist.total == figures.calls
    assert node.wall_ns == wall_ns
    if sampled_below:  # what measured children stand for may exceed the whole, and is cut
        assert node.child_wall_ns <= min(child_ns, wall_ns)
    else:
        assert node.child_wall_ns == child_ns
    assert node.self_ns == wall_ns - node.child_wall_ns
    assert node.late_wall_ns == figures.late_wall_ns + figures.open_late_wall_ns
    assert (node.open_calls, node.open_wall_ns) == (figures.open_calls, figures.open_wall_ns)
    assert node.hist.counts == figures.hist
    assert {name: tally_of(counter) for name, counter in node.counters.items()} == figures.counters
    assert node.stride == (min(figures.strides), max(figures.strides))
    assert node.estimated == (node.stride != (1, 1))
    if measure_cpu and (wall_ns > figures.nocpu_wall_ns or wall_ns == 0):
        assert node.cpu_ns == cpu_ns
        assert node.wait_ns == wall_ns - figures.nocpu_wall_ns - cpu_ns
        assert node.nocpu_wall_ns == figures.nocpu_wall_ns
    else:
        assert node.cpu_ns is node.wait_ns is None
        assert node.nocpu_wall_ns == wall_ns


def check_thread(run: Run, node: Node, figures: Figures) -> None:
    """A thread's name as a phase: the sum of what is below it."""
    below = run.tree.children(node.path)
    assert node.is_thread
    assert (node.calls, node.open_calls) == (0, 0)
    assert node.wall_ns == node.child_wall_ns == sum(child.wall_ns for child in below)
    assert node.open_wall_ns == sum(child.open_wall_ns for child in below)
    assert node.nocpu_wall_ns == sum(child.nocpu_wall_ns for child in below)
    if node.wall_ns > node.nocpu_wall_ns:
        assert node.cpu_ns == sum(child.cpu_ns or 0 for child in below)
    elif node.wall_ns:
        assert node.cpu_ns is None
    assert {name: tally_of(counter) for name, counter in node.counters.items()} == figures.counters


def differences(written: dict[Path, Figures], expected: dict[Path, Figures]) -> list[str]:
    none = Figures()
    return [
        f"{path}: {key} is {getattr(written.get(path, none), key)}, not {value}"
        for path in sorted({*written, *expected})
        for key, value in vars(expected.get(path, none)).items()
        if key != "strides" and getattr(written.get(path, none), key) != value
    ]


def check_run(run: Run, reading: Reading, thread_names: bool) -> None:
    (worker,) = run.workers
    expected = reading.figures
    assert run.unreadable == []
    with open(FilePath(run.dir) / worker.path, "rb") as file:
        different = differences(written(json.load(file)), expected)
    assert different == [], "\n".join(different)
    assert {(), *run.tree} == set(expected)
    for path, node in run.tree.items():
        if thread_names and len(path) == 1:
            check_thread(run, node, expected[path])
        else:
            sampled_below = any(
                inner.estimated and (inner.path[:-1] == path or inner.late_wall_ns)
                for inner in run.tree.values()
                if inner.path[: len(path)] == path and inner.path != path
            )
            check_node(node, expected[path], worker.measure_cpu, sampled_below)
    counters = run.tree.root.counters.items()
    assert {name: tally_of(counter) for name, counter in counters} == expected[()].counters
    nodes = run.tree.values()
    roots_ns = sum(node.wall_ns for node in run.tree.children())
    assert worker.root_wall_ns >= roots_ns
    if not any(node.estimated for node in nodes):  # each moment is in one phase's self time
        assert sum(node.self_ns for node in nodes) == reading.inside_ns
        assert worker.root_wall_ns == reading.inside_ns


def without_cpu(expected: dict[Path, Figures]) -> None:
    for figures in expected.values():
        figures.cpu_ns = figures.open_cpu_ns = 0


def check_program(
    player: Player,
    operations: list[Operation],
    measure_cpu: bool = True,
    thread_names: bool = False,
    installed: bool = False,
) -> None:
    model = Expected(thread_names)
    outcomes = model.play(operations)
    folder, played = player.play(
        operations, measure_cpu=measure_cpu, thread_names=thread_names, installed=installed
    )
    try:
        assert played == outcomes
        check_copies(folder, model, measure_cpu)
    finally:
        shutil.rmtree(folder)


def check_copies(folder: FilePath, model: Expected, measure_cpu: bool) -> None:
    """The run that the program has left, and its copies of before."""
    assert model.final is not None
    places = [(folder / "run", model.final)]
    places += [(folder / f"copy {i}", copy) for i, copy in enumerate(model.copies)]
    for place, reading in places:
        if not measure_cpu:
            without_cpu(reading.figures)
        check_run(merge_run(place), reading, model.reference.thread_names)
    (worker,) = merge_run(folder / "run").workers
    assert worker.closed
    assert (worker.wall_clock, worker.cpu_clock) == ("vdso", "plain" if measure_cpu else "off")
    assert worker.troubles.get("folded_depth", 0) == model.reference.folded


def try_programs(*features: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test that is given random programs with these features, and random settings."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        given_programs = given(
            operations=programs(*features),
            measure_cpu=st.sampled_from([True, True, False]),
            thread_names=st.sampled_from([False, False, True]),
            installed=st.booleans(),
        )
        checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
        chosen = settings(
            max_examples=EXAMPLES,
            deadline=None,
            suppress_health_check=checks,
            report_multiple_bugs=False,
        )
        return chosen(given_programs(test))

    return decorate


@try_programs()
def test_threads(player: Player, **program: Any) -> None:
    check_program(player, **program)


@try_programs("elsewhere")
def test_exits_on_other_threads_B8(player: Player, **program: Any) -> None:
    check_program(player, **program)


@try_programs("tasks", "elsewhere")
def test_tasks_B9(player: Player, **program: Any) -> None:
    check_program(player, **program)


@try_programs("sampling", "tasks", "elsewhere")
def test_sampling_G1(player: Player, **program: Any) -> None:
    check_program(player, **program)


# --- programs that once failed -----------------------------------------------------------------


def test_a_kept_phase_is_left_in_its_task_after_an_exit_elsewhere_B8_B11(player: Player) -> None:
    """Another thread's exit makes the task's own thread look anew which side of it is its own."""
    entered: Operation = ["enter", "main", 1, "call", ["a"], True, 1, False]
    check_program(
        player,
        [
            ["enter", "main", 0, "call", ["a"], False, 1, False],
            entered,
            ["task", "main", "task 1", True],
            ["start", "thread 3", "name 1"],
            ["enter", "main", 2, "call", ["a"], False, 1, False],
            ["enter", "task 1", 3, "call", ["a"], True, 1, False],
            ["leave", "thread 3", 2, "exit"],
            ["leave", "task 1", 3, "exit"],
            ["close", "main"],
        ],
    )

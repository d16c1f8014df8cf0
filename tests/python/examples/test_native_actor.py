"""The search of the Connect Four example in C++: that it is the one in Python, and its profile."""

# ruff: noqa: E402 - the example is a program: it has to be found before it can be imported

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the example computes with numpy")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
sys.path.insert(0, str(EXAMPLES))

import native_actor
import numpy as np
from connect_four import game, mcts
from connect_four.actor import SelfPlay
from connect_four.channels import Experience
from connect_four.game import COLUMNS, Floats, Positions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, merge_run
from lineprofiler.testing import (
    AtLeast,
    assert_counters,
    assert_no_caveats,
    assert_phases,
    assert_roles,
)

HANG_S = 300
"""Not an expectation: a run that takes so long is taken to hang."""

MISSING = [
    what
    for what, is_there in {
        "a C++ compiler": any(map(shutil.which, ("c++", "g++", "clang++"))),
        "Meson": importlib.util.find_spec("mesonbuild") is not None,
        "Python.h": Path(sysconfig.get_path("include"), "Python.h").exists(),
    }.items()
    if not is_there
]
needs_a_build = pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}")

unhurried = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if not MISSING:
        native_actor.build.build()


def position_after(columns: str | list[int]) -> Positions:
    """One position, reached by these moves from the empty board, but for those not possible."""
    position = Positions.empty(1)
    for column in map(int, columns):
        following = game.play(position, np.array([column]))
        if game.legal_columns(position)[0, column] and not any(map(any, game.endings(following))):
            position = following
    return position


def even_handed(positions: Positions) -> tuple[Floats, Floats]:
    """A network without opinions: every legal column is as likely, every game as good as drawn."""
    legal = game.legal_columns(positions)
    chances = legal / np.maximum(legal.sum(axis=1, keepdims=True), 1)
    return chances.astype(np.float32), np.zeros(len(positions), np.float32)


def opinionated(positions: Positions) -> tuple[Floats, Floats]:
    """Strong opinions, whichever, of each position the same in whatever company it is judged."""
    mixed = positions.own * np.uint64(0x9E3779B97F4A7C15) ^ positions.other
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    columns = (
        mixed[:, np.newaxis] >> np.arange(8, 8 + 7 * COLUMNS, 7).astype(np.uint64)
    ) & np.uint64(127)
    weights = (columns.astype(np.float32) + 1) * game.legal_columns(positions)
    policy: Floats = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    value: Floats = (mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1)
    return policy, value


# The search


@needs_a_build
@unhurried
@given(
    st.lists(st.lists(st.integers(0, COLUMNS - 1), max_size=40), min_size=1, max_size=6),
    st.integers(0, 60),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(0, 2**32 - 1)),
)
def test_it_visits_what_the_search_in_python_visits(
    games: list[list[int]], simulations: int, threads: int, seed: int | None
) -> None:
    roots = game.concatenate([position_after(columns) for columns in games])
    noise = None
    if seed is not None:
        rng = np.random.default_rng(seed)
        noise = rng.dirichlet(np.ones(COLUMNS), len(games)).astype(np.float32)
    expected = mcts.search(roots, opinionated, simulations, noise)
    visits = native_actor.search(roots, [opinionated] * threads, simulations, noise)
    assert visits.tolist() == expected.tolist()


WINS_IN_ONE = [("030303", 0), ("001122", 3), ("0112322363", 3), ("6554344303", 3)]
"""The moves so far, and the column with which the player to move completes a line of four."""


@needs_a_build
@pytest.mark.parametrize(("moves", "winning"), WINS_IN_ONE)
def test_it_finds_the_wins_that_the_search_in_python_finds(moves: str, winning: int) -> None:
    position = position_after(moves)
    assert mcts.search(position, even_handed, 100)[0].argmax() == winning
    assert native_actor.search(position, [even_handed], 100)[0].argmax() == winning


@needs_a_build
def test_it_plays_whole_games_by_the_rules() -> None:
    search = partial(native_actor.search, evaluators=[even_handed, even_handed])
    self_play = SelfPlay(16, search, simulations=8, rng=np.random.default_rng(0))
    games: list[Experience] = []
    while len(games) < 20:
        games += self_play.move()
    for experience in games:
        positions = experience.positions
        assert positions.own[0] == positions.other[0] == 0
        for before, after in zip(positions[:-1].own, positions[1:].other, strict=True):
            stone = int(after) ^ int(before)  # who moved waits now, with one stone more
            assert stone.bit_count() == 1
            assert after & before == before


@needs_a_build
def test_the_threads_ask_at_the_same_time() -> None:
    meeting = threading.Barrier(3)  # where none ever comes alone, for it would wait for ever

    def evaluate(positions: Positions) -> tuple[Floats, Floats]:
        meeting.wait()
        return even_handed(positions)

    visits = native_actor.search(Positions.empty(3), [evaluate] * 3, simulations=5)
    assert visits.sum(axis=1).tolist() == [5, 5, 5]


@needs_a_build
@pytest.mark.parametrize("where", [0, 1])
def test_what_an_evaluator_raises_is_raised(where: int) -> None:
    def evaluate(positions: Positions) -> tuple[Floats, Floats]:
        raise ZeroDivisionError(f"of {len(positions)}")

    evaluators = [even_handed, even_handed]
    evaluators[where] = evaluate
    with pytest.raises(ZeroDivisionError, match="of 2"):
        native_actor.search(Positions.empty(4), evaluators, simulations=5)
    assert native_actor.search(Positions.empty(4), [even_handed] * 2, simulations=5).sum() == 20


@needs_a_build
def test_an_answer_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="an evaluator"):
        native_actor.search(Positions.empty(1), [], simulations=5)
    from native_actor import _search

    with pytest.raises(ValueError, match="expected 32 bytes"):
        _search.search(bytes(16), (lambda _: np.zeros(7, np.float32),), 5, None)


# The profile


def judge_in_python(positions: Positions) -> tuple[Floats, Floats]:
    with accounting.phase("network"):
        accounting.count("positions", len(positions))
        return even_handed(positions)


@needs_a_build
def test_python_and_cpp_are_one_path(tmp_path: Path) -> None:
    games, simulations, moves = 4, 20, 3
    with Profiler(
        tmp_path,
        role="actor",
        install=True,
        thread_names=True,
        snapshot_interval_s=None,
        sample_interval_s=None,
    ) as profiler:
        for _ in range(moves):
            with profiler.phase("iteration"):
                native_actor.search(Positions.empty(games), [judge_in_python] * 2, simulations)
    run = merge_run(tmp_path)
    # No game ends in so few simulations of an empty board: there is a leaf to judge in each.
    evaluations, leaves = moves * (1 + simulations), moves * (1 + simulations) * games // 2
    for place in ("MainThread/iteration/mcts", "search 1/mcts"):
        assert_phases(
            run,
            {
                place: moves,
                f"{place}/select": moves * simulations,
                f"{place}/select/expand": AtLeast(1),
                f"{place}/evaluate": evaluations,
                f"{place}/evaluate/wait_for_gil": evaluations,
                f"{place}/evaluate/network": evaluations,
                f"{place}/backup": moves * simulations,
            },
        )
        counted = moves * simulations * games // 2
        assert_counters(run, place, {"mcts_simulations": counted})
        assert_counters(run, f"{place}/evaluate", {"leaves": leaves})
        assert_counters(run, f"{place}/evaluate/network", {"positions": leaves})
        assert run.tree[(*place.split("/"), "select", "expand")].estimated
    assert_phases(run, {"MainThread/iteration/mcts/wait_for_threads": moves})
    assert_no_caveats(run, allow="estimated")  # one in 64 is measured, of few


@needs_a_build
def test_with_one_thread_paths_are_those_of_the_search_in_python(tmp_path: Path) -> None:
    def paths_of(name: str, search: mcts.Evaluate | partial[Floats]) -> set[tuple[str, ...]]:
        with (
            Profiler(
                tmp_path / name, install=True, snapshot_interval_s=None, sample_interval_s=None
            ) as profiler,
            profiler.phase("self_play"),
        ):
            search(Positions.empty(2))
        return set(merge_run(tmp_path / name).tree)

    python = paths_of("python", partial(mcts.search, evaluate=even_handed, simulations=5))
    native = paths_of(
        "native", partial(native_actor.search, evaluators=[even_handed], simulations=5)
    )
    assert ("self_play", "mcts", "select") in python <= native
    assert {path[-1] for path in native - python} == {"expand", "wait_for_gil", "wait_for_threads"}


@needs_a_build
def test_it_searches_where_there_is_no_profiler() -> None:
    program = f"""
import array, sys
sys.modules["lineprofiler"] = None
sys.path.append({str(native_actor.build.FOLDER)!r})
import _search
answer = array.array("f", [1 / 7] * 7 + [0])
visits = array.array("f", _search.search(bytes(16), (lambda _: answer,), 9, None))
assert sum(visits) == 9, visits
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANG_S)


# Whole runs


def run_of_example(run_dir: Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LINEPROFILER_")}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "connect_four"), "--run-dir", str(run_dir), *options],
        env=environment | more,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


@needs_a_build
def test_a_run_with_native_actors(tmp_path: Path) -> None:
    options = ("--seconds", "1", "--actors", "2", "--threads", "2", "--simulations", "4")
    done = run_of_example(tmp_path / "profile", "--native", *options)
    assert (done.returncode, done.stderr) == (0, "")

    run = merge_run(tmp_path / "profile", with_samples=False)
    roles = {"launcher": 1, "actor": 2, "inference": 1, "learner": 1, "evaluator": 1}
    assert_roles(run, roles, exact=True)
    self_play = "MainThread/iteration/self_play"
    for place in (f"{self_play}/mcts", "search 1/mcts"):
        names = ("select", "select/expand", "evaluate", "backup")
        assert_phases(run, [f"{place}/{name}" for name in names], role="actor")
        assert_counters(run, f"{place}/evaluate", ["leaves"], role="actor")
    tree = run.tree_of("actor")
    moves = tree[("MainThread", "iteration", "self_play")].counters["moves"]
    simulations = [
        tree[(*place.split("/"), "mcts")].counters["mcts_simulations"]
        for place in (self_play, "search 1")
    ]
    assert simulations == [4 * moves // 2] * 2
    assert_phases(run, ["match/mcts/select"], role="evaluator")  # in Python, as ever
    assert_no_caveats(run)


def test_without_a_compiler_one_line_says_so(tmp_path: Path) -> None:
    done = run_of_example(tmp_path / "profile", "--native", PATH=str(tmp_path), CXX="")
    assert done.returncode == 1
    assert done.stderr.startswith("connect_four: the native search needs a C++ compiler")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "profile").exists()

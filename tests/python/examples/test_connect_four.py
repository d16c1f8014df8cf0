"""The Connect Four example: its rules, network, search and learning, and whole runs of it."""

# ruff: noqa: E402 - the example is a program: it has to be found before it can be imported

from __future__ import annotations

import dataclasses
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the example computes with numpy")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "connect_four"
sys.path.insert(0, str(EXAMPLE.parent))

import numpy as np
from connect_four import game, mcts, net
from connect_four.actor import SelfPlay
from connect_four.channels import Experience
from connect_four.evaluator import play_match, random_openings
from connect_four.game import COLUMNS, ROWS, Floats, Positions
from connect_four.learner import Learner
from connect_four.net import Adam, Network, Targets
from connect_four.replay import Replay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineprofiler.accounting import merge_run

HANG_S = 300
"""Not an expectation: a run that takes so long is taken to hang."""

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
column_lists = st.lists(st.integers(0, COLUMNS - 1), max_size=3 * COLUMNS * ROWS)


class NaiveGame:
    """Connect Four as a beginner would write it: the reference that the bitboards must match."""

    def __init__(self) -> None:
        self.columns: list[list[str]] = [[] for _ in range(COLUMNS)]
        self.mover, self.other = "X", "O"

    def is_legal(self, column: int) -> bool:
        return len(self.columns[column]) < ROWS

    def play(self, column: int) -> None:
        self.columns[column].append(self.mover)
        self.mover, self.other = self.other, self.mover

    def stone(self, column: int, row: int) -> str:
        if 0 <= column < COLUMNS and 0 <= row < len(self.columns[column]):
            return self.columns[column][row]
        return "."

    def has_won(self, player: str) -> bool:
        return any(
            all(self.stone(column + n * across, row + n * up) == player for n in range(4))
            for column in range(COLUMNS)
            for row in range(ROWS)
            for across, up in ((1, 0), (0, 1), (1, 1), (1, -1))
        )

    def is_full(self) -> bool:
        return not any(self.is_legal(column) for column in range(COLUMNS))


def position_after(columns: list[int] | str) -> Positions:
    """One position, reached by these moves from the empty board."""
    position = Positions.empty(1)
    for column in columns:
        position = game.play(position, np.array([int(column)]))
    return position


def playable(columns: list[int]) -> Iterator[int]:
    """Those of the columns that can be played one after another until the game ends."""
    naive = NaiveGame()
    for column in columns:
        if naive.is_legal(column) and not naive.has_won(naive.other):
            naive.play(column)
            yield column


def even_handed(positions: Positions) -> tuple[Floats, Floats]:
    """A network without opinions: every legal column is as likely, every game as good as drawn."""
    legal = game.legal_columns(positions)
    chances = legal / np.maximum(legal.sum(axis=1, keepdims=True), 1)
    return chances.astype(np.float32), np.zeros(len(positions), np.float32)


# The rules


@unhurried
@given(column_lists)
def test_bitboards_follow_the_rules(columns: list[int]) -> None:
    naive, position = NaiveGame(), Positions.empty(1)
    for column in playable(columns):
        naive.play(column)
        position = game.play(position, np.array([column]))

        board = game.cells(position.own)[0] - game.cells(position.other)[0]
        symbols = {1.0: naive.mover, -1.0: naive.other, 0.0: "."}
        assert [symbols[cell] for cell in board.tolist()] == [
            naive.stone(column, row) for row in range(ROWS) for column in range(COLUMNS)
        ]
        assert game.legal_columns(position)[0].tolist() == [
            naive.is_legal(column) for column in range(COLUMNS)
        ]
        lost, drawn = game.endings(position)
        assert lost[0] == naive.has_won(naive.other)
        assert drawn[0] == (naive.is_full() and not naive.has_won(naive.other))


@unhurried
@given(st.integers(0, 2**42 - 1))
def test_a_line_of_four_is_found_wherever_it_lies(stones: int) -> None:
    naive = NaiveGame()
    naive.columns = [
        ["X" if stones >> (ROWS * column + row) & 1 else "." for row in range(ROWS)]
        for column in range(COLUMNS)
    ]
    board = sum(
        1 << int(game.CELL_BITS[COLUMNS * row + column])
        for column in range(COLUMNS)
        for row in range(ROWS)
        if naive.stone(column, row) == "X"
    )
    assert game.has_four(np.array([board], np.uint64))[0] == naive.has_won("X")


@unhurried
@given(column_lists)
def test_mirrored_moves_lead_to_the_mirrored_position(columns: list[int]) -> None:
    moves = list(playable(columns))
    position = position_after(moves)
    mirrored = game.mirror(position)
    expected = position_after([COLUMNS - 1 - column for column in moves])
    assert (mirrored.own, mirrored.other) == (expected.own, expected.other)
    back = game.mirror(mirrored)
    assert (back.own, back.other) == (position.own, position.other)


@unhurried
@given(st.lists(column_lists, min_size=1, max_size=5))
def test_many_positions_at_once_are_judged_as_each_alone(games: list[list[int]]) -> None:
    alone = [position_after(list(playable(columns))) for columns in games]
    together = game.concatenate(alone)
    lost, drawn = game.endings(together)
    for index, position in enumerate(alone):
        assert (lost[index], drawn[index]) == tuple(flag[0] for flag in game.endings(position))
        assert (game.legal_columns(together)[index] == game.legal_columns(position)[0]).all()


# The network


def random_targets(positions: Positions, rng: np.random.Generator) -> Targets:
    policy = rng.random((len(positions), COLUMNS)) * game.legal_columns(positions)
    policy /= policy.sum(axis=1, keepdims=True)
    value = rng.uniform(-1, 1, len(positions))
    return Targets(policy.astype(np.float32), value.astype(np.float32))


def test_the_gradient_matches_finite_differences() -> None:
    rng = np.random.default_rng(5)
    network = Network(Network.untrained(rng).parameters.astype(np.float64))
    network.parameters += 0.05 * rng.standard_normal(net.PARAMETERS)  # biases take part as well
    positions = random_openings(8, rng)
    targets = random_targets(positions, rng)
    gradient = network.backward(network.forward(positions), targets)

    def loss_with(parameter: int, change: float) -> float:
        changed = Network(network.parameters.copy())
        changed.parameters[parameter] += change
        return net.loss(changed.forward(positions), targets)

    numbers = net.Layers.of(np.arange(net.PARAMETERS, dtype=np.float32))
    for field in dataclasses.fields(net.Layers):
        for parameter in rng.choice(getattr(numbers, field.name).ravel(), 20).astype(int):
            slope = (loss_with(parameter, 1e-6) - loss_with(parameter, -1e-6)) / 2e-6
            assert gradient[parameter] == pytest.approx(slope, rel=1e-4, abs=1e-8), field.name


@unhurried
@given(column_lists)
def test_the_policy_shares_out_one_among_the_legal_columns(columns: list[int]) -> None:
    position = position_after(list(playable(columns)))
    legal = game.legal_columns(position)
    if legal.any():
        policy, value = Network.untrained(np.random.default_rng(0)).predict(position)
        assert policy.sum() == pytest.approx(1, abs=1e-6)
        assert (policy[~legal] == 0).all()
        assert -1 <= value[0] <= 1


def test_adam_steps_lower_the_loss() -> None:
    rng = np.random.default_rng(2)
    network = Network.untrained(rng)
    positions = random_openings(64, rng)
    targets = random_targets(positions, rng)
    optimiser = Adam(network.parameters, learning_rate=1e-3)
    before = net.loss(network.forward(positions), targets)
    for _ in range(50):
        optimiser.step(network.backward(network.forward(positions), targets))
    assert net.loss(network.forward(positions), targets) < before


# The search

WINS_IN_ONE = [("030303", 0), ("001122", 3), ("0112322363", 3), ("6554344303", 3)]
"""The moves so far, and the column with which the player to move completes a line of four."""

LOSSES_IN_ONE = [("636303", 3), ("606152", 3), ("011232233", 3)]
"""The moves so far, and the column that the opponent would win with."""


@pytest.mark.parametrize(("moves", "winning"), WINS_IN_ONE)
def test_the_search_finds_a_win_in_one(moves: str, winning: int) -> None:
    position = position_after(moves)
    assert game.endings(game.play(position, np.array([winning])))[0][0]
    assert mcts.search(position, even_handed, simulations=100)[0].argmax() == winning


@pytest.mark.parametrize(("moves", "blocking"), LOSSES_IN_ONE)
def test_the_search_blocks_a_loss_in_one(moves: str, blocking: int) -> None:
    position = position_after(moves)
    threat = Positions(own=position.other, other=position.own)
    assert game.endings(game.play(threat, np.array([blocking])))[0][0]
    assert mcts.search(position, even_handed, simulations=200)[0].argmax() == blocking


def test_games_searched_together_do_not_disturb_each_other() -> None:
    positions = [position_after(moves) for moves, _ in WINS_IN_ONE + LOSSES_IN_ONE]
    together = mcts.search(game.concatenate(positions), even_handed, simulations=50)
    alone = [mcts.search(position, even_handed, simulations=50)[0] for position in positions]
    assert (together == np.array(alone)).all()


@unhurried
@given(column_lists, st.integers(1, 30))
def test_every_simulation_visits_one_legal_column(columns: list[int], simulations: int) -> None:
    position = position_after(list(playable(columns)))
    lost, drawn = game.endings(position)
    if not lost[0] and not drawn[0]:
        visits = mcts.search(position, even_handed, simulations)
        assert visits.sum() == simulations
        assert (visits[~game.legal_columns(position)] == 0).all()


def test_columns_are_drawn_in_proportion_to_their_weights() -> None:
    weights = np.tile(np.array([0, 1, 0, 3, 0, 0, 0], np.float32), (10_000, 1))
    drawn = mcts.draw_columns(weights, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=COLUMNS)
    assert counts[3] == pytest.approx(7_500, rel=0.05)
    assert counts[1] + counts[3] == 10_000


# Self-play and learning


def finished_games(count: int, seed: int = 0) -> list[Experience]:
    search = partial(mcts.search, evaluate=even_handed)
    self_play = SelfPlay(16, search, simulations=8, rng=np.random.default_rng(seed))
    games: list[Experience] = []
    while len(games) < count:
        games += self_play.move()
    return games


def test_a_finished_game_is_told_from_its_first_move_to_its_last() -> None:
    for experience in finished_games(40):
        positions, targets = experience.positions, experience.targets
        assert positions.own[0] == positions.other[0] == 0
        stones = game.cells(positions.own | positions.other).sum(axis=1)
        assert stones.tolist() == list(range(len(positions)))
        assert targets.policy.sum(axis=1) == pytest.approx(1)
        # Players alternate, so a win for the one is a loss for the other, move by move.
        assert (targets.value[1:] == -targets.value[:-1]).all()
        assert targets.value[-1] in (0, 1)


def test_the_replay_keeps_the_newest_positions_and_mirrors_half() -> None:
    replay = Replay(capacity=50, rng=np.random.default_rng(0))
    games = finished_games(20)
    for experience in games:
        replay.add(experience)
    newest = game.concatenate([experience.positions for experience in games])[-50:]
    positions, targets = replay.sample(200)
    positions[:100] = game.mirror(positions[:100])
    known = set(zip(newest.own.tolist(), newest.other.tolist(), strict=True))
    assert set(zip(positions.own.tolist(), positions.other.tolist(), strict=True)) <= known
    # A mirrored position has its policy mirrored along: no full column gets a share.
    positions[:100] = game.mirror(positions[:100])
    assert (targets.policy[~game.legal_columns(positions)] == 0).all()


def test_training_makes_the_network_stronger() -> None:
    rng = np.random.default_rng(1)
    first = Network.untrained(rng)
    trained = Network(first.parameters.copy())
    learner = Learner(trained, rng)
    search = partial(mcts.search, evaluate=trained.predict)
    self_play = SelfPlay(64, search, simulations=16, rng=rng)
    for _ in range(250):
        learner.learn(self_play.move())
    result = play_match(trained, first, random_openings(50, rng), simulations=16)
    assert sum(result) == 100
    assert result.won > result.lost


# Whole runs


@contextmanager
def run_of_example(run_dir: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The example as a user starts it, in a process group of its own as in a terminal."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LINEPROFILER_")}
    command = [sys.executable, str(EXAMPLE), "--run-dir", str(run_dir), *options]
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # its children end when it is gone


def children_of(process: subprocess.Popen[str]) -> dict[str, int]:
    """The process ids that the first line of output names."""
    assert process.stdout is not None
    first_line = process.stdout.readline()
    return {name: int(pid) for name, pid in re.findall(r"(\w[\w ]*) \((\d+)\)", first_line)}


def has_ended(pid_fd: int) -> bool:
    """Wait for a process to end, even if it is nobody's to wait for."""
    return bool(select.select([pid_fd], [], [], HANG_S)[0])


def test_a_short_run_ends_well_and_every_role_is_profiled(tmp_path: Path) -> None:
    options = ("--seconds", "1", "--actors", "2", "--simulations", "4")
    with run_of_example(tmp_path / "profile", *options) as process:
        output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, errors
    assert errors == ""
    *_, match, last_line = output.splitlines()
    assert re.search(r"\d+ won, \d+ drawn, \d+ lost: \d+% of the points", match)
    assert last_line.endswith(f"lineprofiler report {tmp_path / 'profile'}")

    run = merge_run(tmp_path / "profile", with_samples=False)
    assert set(run.roles) == {"launcher", "actor", "inference", "learner", "evaluator"}


def test_a_dead_child_is_named_and_ends_the_run(tmp_path: Path) -> None:
    with run_of_example(tmp_path / "profile", "--seconds", "600") as process:
        children = children_of(process)
        os.kill(children["actor 1"], signal.SIGKILL)
        _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert "actor 1 was killed by SIGKILL" in errors


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    with run_of_example(tmp_path / "profile", "--seconds", "600") as process:
        children = [os.pidfd_open(pid) for pid in children_of(process).values()]
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors
    assert output.splitlines()[-1].endswith(f"lineprofiler report {tmp_path / 'profile'}")
    assert all(has_ended(child) for child in children)


def test_no_process_outlives_a_launcher_that_was_killed(tmp_path: Path) -> None:
    with run_of_example(tmp_path / "profile", "--seconds", "600") as process:
        children = [os.pidfd_open(pid) for pid in children_of(process).values()]
        process.kill()
        process.communicate(timeout=HANG_S)
    assert all(has_ended(child) for child in children)

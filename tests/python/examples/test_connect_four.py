"""The Connect Four example: its rules."""

# ruff: noqa: E402 - the example is a program: it has to be found before it can be imported

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the example computes with numpy")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "connect_four"
sys.path.insert(0, str(EXAMPLE.parent))

import numpy as np
from connect_four import game
from connect_four.game import COLUMNS, ROWS, Positions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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

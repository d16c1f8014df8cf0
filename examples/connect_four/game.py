"""The rules of Connect Four, for many games at once.

A board is one 64-bit number: seven bits a column, the lowest cell first, the seventh bit always
empty so that a line can never run on from the top of one column into the next.

    .  .  .  .  .  .  .      6 13 20 27 34 41 48   <- always empty
    .  .  .  .  .  .  .      5 12 19 26 33 40 47
    .  .  .  .  .  .  .      4 11 18 25 32 39 46
    .  .  .  .  .  .  .      3 10 17 24 31 38 45
    .  .  .  .  .  .  .      2  9 16 23 30 37 44
    .  .  .  .  .  .  .      1  8 15 22 29 36 43
    .  .  .  .  .  .  .      0  7 14 21 28 35 42

Every function takes arrays with one entry per game, so that the interpreter's cost is paid once
for all of them. Who moves is not stored: a position is always seen by the player to move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = 7
ROWS = 6
CELLS = COLUMNS * ROWS

Boards = NDArray[np.uint64]
Columns = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]

_BITS_PER_COLUMN = ROWS + 1
_BOTTOM_CELLS: Boards = np.array([1 << _BITS_PER_COLUMN * c for c in range(COLUMNS)], np.uint64)
_TOP_CELLS: Boards = _BOTTOM_CELLS << np.uint64(ROWS - 1)
_COLUMN_MASKS: Boards = _BOTTOM_CELLS * np.uint64((1 << ROWS) - 1)
_DIRECTIONS = (1, _BITS_PER_COLUMN - 1, _BITS_PER_COLUMN, _BITS_PER_COLUMN + 1)  # | \ - /

CELL_BITS: Boards = np.array(
    [_BITS_PER_COLUMN * column + row for row in range(ROWS) for column in range(COLUMNS)], np.uint64
)
"""The bit of each cell, row by row from the bottom: the order in which the network sees them."""


@dataclass(frozen=True, slots=True)
class Positions:
    """Many positions, each seen by its player to move."""

    own: Boards
    """The stones of the player to move."""
    other: Boards
    """The stones of the opponent, who moved last."""

    @classmethod
    def empty(cls, shape: int | tuple[int, ...]) -> Positions:
        return cls(np.zeros(shape, np.uint64), np.zeros(shape, np.uint64))

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, which: Any) -> Positions:
        """The chosen positions; `which` is whatever an array can be indexed with."""
        return Positions(self.own[which], self.other[which])

    def __setitem__(self, which: Any, positions: Positions) -> None:
        self.own[which] = positions.own
        self.other[which] = positions.other


def concatenate(parts: list[Positions]) -> Positions:
    return Positions(
        np.concatenate([part.own for part in parts]), np.concatenate([part.other for part in parts])
    )


def legal_columns(positions: Positions) -> Flags:
    """Which columns have room for another stone: one row per position, one flag per column."""
    occupied = positions.own | positions.other
    has_room: Flags = (occupied[:, np.newaxis] & _TOP_CELLS) == 0
    return has_room


def play(positions: Positions, columns: Columns) -> Positions:
    """Drop a stone into one legal column per position. The opponent is to move afterwards."""
    occupied = positions.own | positions.other
    landing_cell = (occupied + _BOTTOM_CELLS[columns]) & _COLUMN_MASKS[columns]
    return Positions(own=positions.other, other=positions.own | landing_cell)


def has_four(stones: Boards) -> Flags:
    """Which boards have four stones in a line."""
    found = np.zeros(len(stones), np.bool_)
    for step in _DIRECTIONS:
        pairs = stones & (stones >> step)
        found |= (pairs & (pairs >> 2 * step)) != 0
    return found


def endings(positions: Positions) -> tuple[Flags, Flags]:
    """Which games are lost for the player to move, and which ended in a draw."""
    lost = has_four(positions.other)
    return lost, ~lost & ~legal_columns(positions).any(axis=1)


def mirror(positions: Positions) -> Positions:
    """The same positions with left and right exchanged."""
    return Positions(_mirror_boards(positions.own), _mirror_boards(positions.other))


def _mirror_boards(boards: Boards) -> Boards:
    mirrored = np.zeros_like(boards)
    for column in range(COLUMNS):
        stones = (boards >> _BITS_PER_COLUMN * column) & _COLUMN_MASKS[0]
        mirrored |= stones << _BITS_PER_COLUMN * (COLUMNS - 1 - column)
    return mirrored


def cells(boards: Boards) -> Floats:
    """One row per board, 1.0 where a cell holds a stone, in the order of `CELL_BITS`."""
    return ((boards[:, np.newaxis] >> CELL_BITS) & np.uint64(1)).astype(np.float32)

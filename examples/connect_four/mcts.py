"""Monte Carlo tree search for many games at once.

One simulation walks every game's tree from its root to a leaf, has all the leaves judged by the
network in one batch, and carries the verdicts back up. The trees lie side by side in the same
arrays: a node is a row, row `r` belongs to game `r % games`, the first `games` rows are the roots,
and each simulation adds the next `games` rows, one leaf per game.

The phases reach whatever profiler the process has installed, and do nothing where there is none:
no profiler is handed from function to function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lineprofiler import accounting

from . import game
from .game import COLUMNS, Columns, Flags, Floats, Positions

Nodes = NDArray[np.int64]

Evaluate = Callable[[Positions], tuple[Floats, Floats]]
"""Judges positions: each column's probability, and the value for the player to move (-1 to 1)."""

EXPLORATION = 1.5
"""How much a simulation favours what the network likes over what has proved good so far."""

_NOT_EXPANDED = 0
"""Row 0 is a root and so nobody's child: as a child it means that there is none yet."""


def search(
    roots: Positions, evaluate: Evaluate, simulations: int, noise: Floats | None = None
) -> Floats:
    """How often each column of each root was visited: the better a column, the more often.

    `noise`, a row of probabilities per root, replaces a quarter of the network's own, so that
    self-play also tries what the network does not think of.
    """
    with accounting.phase("mcts"):
        with accounting.phase("evaluate"):
            priors, _ = evaluate(roots)
        if noise is not None:
            priors = 0.75 * priors + 0.25 * noise
        forest = Forest(roots, priors, simulations)
        for _ in range(simulations):
            with accounting.phase("select"):
                walk = forest.select()
            with accounting.phase("evaluate"):
                priors, values = evaluate(forest.positions[walk.undecided])
            with accounting.phase("backup"):
                forest.backup(walk, priors, values)
        accounting.count("mcts_simulations", simulations * len(roots))
        return forest.root_visits()


def draw_columns(weights: Floats | Flags, rng: np.random.Generator) -> Columns:
    """One column per row, at random in proportion to the row's weights."""
    drawn: Columns = (weights / rng.standard_exponential(weights.shape)).argmax(axis=1)
    return drawn


@dataclass(frozen=True, slots=True)
class Walk:
    """One simulation's way through all trees."""

    path: list[tuple[Nodes, Columns]]
    """The edges taken, level by level: nodes, and the column chosen at each. Games whose leaf is
    reached take no part in the deeper levels."""
    leaves: Nodes
    """The new node at the end of each game's path."""
    undecided: Nodes
    """The leaves at which the game is not over: those that the network has to judge."""


class Forest:
    """The search trees of all games."""

    def __init__(self, roots: Positions, priors: Floats, simulations: int) -> None:
        self._games = len(roots)
        self._roots: Nodes = np.arange(self._games)
        self._newest_leaves = self._roots
        nodes = self._games * (1 + simulations)

        self.positions = Positions.empty(nodes)
        self._legal: Flags = np.zeros((nodes, COLUMNS), np.bool_)
        self._finished: Flags = np.zeros(nodes, np.bool_)
        self._outcome: Floats = np.zeros(nodes, np.float32)  # of finished games, to the mover

        self._child: Nodes = np.full((nodes, COLUMNS), _NOT_EXPANDED)
        self._prior: Floats = np.zeros((nodes, COLUMNS), np.float32)
        self._visits: Floats = np.zeros((nodes, COLUMNS), np.float32)
        self._total_value: Floats = np.zeros((nodes, COLUMNS), np.float32)

        self.positions[self._roots] = roots
        self._legal[self._roots] = game.legal_columns(roots)
        self._prior[self._roots] = priors

    def root_visits(self) -> Floats:
        return self._visits[self._roots]

    def select(self) -> Walk:
        """Follow the most promising edges from every root until they lead out of the tree."""
        path = []
        parents, last_columns = self._roots.copy(), np.zeros_like(self._roots)
        nodes = self._roots
        while len(nodes):
            columns = self._most_promising(nodes)
            path.append((nodes, columns))
            games = nodes % self._games
            parents[games], last_columns[games] = nodes, columns
            children = self._child[nodes, columns]
            expanded = children[children != _NOT_EXPANDED]
            nodes = expanded[~self._finished[expanded]]
        leaves = self._expand(parents, last_columns)
        return Walk(path, leaves, undecided=leaves[~self._finished[leaves]])

    def _most_promising(self, nodes: Nodes) -> Columns:
        """The PUCT rule: a column's mean value, and a bonus while it is likely but little tried."""
        visits = self._visits[nodes]
        mean_value = self._total_value[nodes] / np.maximum(visits, 1)
        node_visits = 1 + visits.sum(axis=1, keepdims=True)
        bonus = EXPLORATION * self._prior[nodes] * np.sqrt(node_visits) / (1 + visits)
        promise = np.where(self._legal[nodes], mean_value + bonus, -np.inf)
        best: Columns = promise.argmax(axis=1)
        return best

    def _expand(self, parents: Nodes, columns: Columns) -> Nodes:
        """Add one leaf per game. A finished game walked to again gets the same leaf anew."""
        leaves = self._newest_leaves = self._newest_leaves + self._games
        positions = game.play(self.positions[parents], columns)
        lost, drawn = game.endings(positions)
        self.positions[leaves] = positions
        self._legal[leaves] = game.legal_columns(positions)
        self._finished[leaves] = lost | drawn
        self._outcome[leaves] = np.where(lost, -1, 0)
        self._child[parents, columns] = leaves
        return leaves

    def backup(self, walk: Walk, priors: Floats, values: Floats) -> None:
        """Give the judged leaves their priors and credit every edge on the way to each leaf."""
        self._prior[walk.undecided] = priors
        value = self._outcome[walk.leaves]
        value[walk.undecided % self._games] = values
        for nodes, columns in reversed(walk.path):
            games = nodes % self._games
            value[games] = -value[games]  # one ply up, the other player is to move
            self._visits[nodes, columns] += 1
            self._total_value[nodes, columns] += value[games]

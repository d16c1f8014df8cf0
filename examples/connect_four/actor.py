"""An actor: plays many games against itself and sends the finished ones to the learner."""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol

import native_actor
import numpy as np

from lineprofiler.accounting import Profiler

from . import game, mcts
from .channels import Channels, Experience, Settings
from .game import CELLS, COLUMNS, Columns, Floats, Positions
from .inference import RemoteNetwork
from .net import Targets

GAMES = 64
"""Games that a thread plays at once: so many positions go to the inference server together."""

CURIOUS_MOVES = 20
"""So many moves of a game are drawn at random in proportion to the search's visits."""


def run(actor: int, settings: Settings, channels: Channels) -> None:
    """Play until time is up, but do not leave before the first game has ended."""
    networks = [RemoteNetwork(client, channels) for client in settings.clients_of(actor)]
    rng = np.random.default_rng([settings.seed, actor])
    games = GAMES * len(networks)
    self_play = SelfPlay(games, search_with(networks, settings), settings.simulations, rng)
    games_sent = 0
    thread_names = len(networks) > 1
    with Profiler(role="actor", install=True, thread_names=thread_names) as profiler:
        while games_sent == 0 or time.monotonic() < settings.end_of_play:
            with profiler.phase("iteration"):
                with profiler.phase("self_play"):
                    finished_games = self_play.move()
                    profiler.count("moves", games)
                if finished_games:
                    with profiler.phase("send_games"):
                        channels.games.put(finished_games)
                    profiler.count("games", len(finished_games))
                    games_sent += len(finished_games)
        for network in networks:
            network.leave()
        channels.games.put(None)


class Search(Protocol):
    """How often each column of each root was visited: the better a column, the more often."""

    def __call__(self, roots: Positions, *, simulations: int, noise: Floats) -> Floats: ...


def search_with(networks: list[RemoteNetwork], settings: Settings) -> Search:
    """The search in Python, or the one in C++ with a thread for each of the networks."""
    if not settings.native:
        return partial(mcts.search, evaluate=networks[0].predict)
    return partial(native_actor.search, evaluators=[network.predict for network in networks])


class SelfPlay:
    """Games in which the same search plays both sides; a new game follows each finished one."""

    def __init__(
        self, games: int, search: Search, simulations: int, rng: np.random.Generator
    ) -> None:
        self._search = search
        self._simulations = simulations
        self._rng = rng
        self._games = np.arange(games)
        self._positions = Positions.empty(games)
        self._moves = np.zeros(games, np.int64)
        # What each game has seen so far, move by move.
        self._past_positions = Positions.empty((games, CELLS))
        self._past_policies: Floats = np.zeros((games, CELLS, COLUMNS), np.float32)

    def move(self) -> list[Experience]:
        """Make one move in every game, and return those that ended with it."""
        noise = self._rng.dirichlet(np.ones(COLUMNS), len(self._games)).astype(np.float32)
        visits = self._search(self._positions, simulations=self._simulations, noise=noise)
        self._past_positions[self._games, self._moves] = self._positions
        self._past_policies[self._games, self._moves] = visits / visits.sum(axis=1, keepdims=True)
        self._positions = game.play(self._positions, self._choose(visits))
        self._moves += 1

        lost, drawn = game.endings(self._positions)
        ended = np.flatnonzero(lost | drawn)
        experience = [self._look_back(int(index), was_won=bool(lost[index])) for index in ended]
        self._positions[ended] = Positions.empty(len(ended))
        self._moves[ended] = 0
        return experience

    def _choose(self, visits: Floats) -> Columns:
        """Varied openings, then the best column that the search has found."""
        is_opening = self._moves < CURIOUS_MOVES
        return np.where(is_opening, mcts.draw_columns(visits, self._rng), visits.argmax(axis=1))

    def _look_back(self, index: int, *, was_won: bool) -> Experience:
        """All positions of a game that has just ended, won by its last mover or drawn."""
        moves = np.arange(self._moves[index])
        value = np.full(len(moves), was_won, np.float32)
        value[-2::-2] *= -1  # where the other player was to move
        targets = Targets(self._past_policies[index, moves], value)
        return Experience(self._past_positions[index, moves], targets)

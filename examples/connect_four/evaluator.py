"""The evaluator: lets the newest network play the untrained one, so that progress can be seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lineprofiler.accounting import Profiler

from . import game, mcts
from .channels import Channels, Edition, Settings
from .game import Positions
from .net import Network

EDITIONS_PER_MATCH = 8
OPENING_MOVES = 4
OPENINGS = 30
FINAL_OPENINGS = 100


def run(settings: Settings, channels: Channels) -> None:
    """Play a match now and then, the last one with the final network."""
    first, newest = settings.first_network(), settings.first_network()
    edition = Edition()
    rng = np.random.default_rng([settings.seed, settings.actors + 1])
    with Profiler(role="evaluator", install=True) as profiler:
        while not edition.is_final:
            with profiler.phase("wait_for_network"):
                next_number = edition.number + EDITIONS_PER_MATCH
                edition = channels.network.wait_and_refresh(newest, next_number)
            with profiler.phase("match"):
                openings = random_openings(FINAL_OPENINGS if edition.is_final else OPENINGS, rng)
                result = play_match(newest, first, openings, settings.simulations)
                profiler.count("games", sum(result))
            board = channels.scoreboard
            board.match_won, board.match_drawn, board.match_lost = result


def random_openings(count: int, rng: np.random.Generator) -> Positions:
    """Positions after a few random moves, so that no two games of a match need be the same."""
    positions = Positions.empty(count)
    for _ in range(OPENING_MOVES):
        positions = game.play(positions, mcts.draw_columns(game.legal_columns(positions), rng))
    return positions


class Result(NamedTuple):
    """How many games a player won, drew and lost."""

    won: int
    drawn: int
    lost: int


def play_match(trained: Network, first: Network, openings: Positions, simulations: int) -> Result:
    """How the trained network fared. From each opening it plays once as either side."""
    moving = play_games(trained, first, openings, simulations)
    answering = play_games(first, trained, openings, simulations)
    return Result(
        won=moving.won + answering.lost,
        drawn=moving.drawn + answering.drawn,
        lost=moving.lost + answering.won,
    )


def play_games(mover: Network, opponent: Network, positions: Positions, simulations: int) -> Result:
    """How the player to move fared in all games."""
    won = drawn = lost = 0
    is_movers_turn = True
    while len(positions):
        player = mover if is_movers_turn else opponent
        visits = mcts.search(positions, player.predict, simulations)
        positions = game.play(positions, visits.argmax(axis=1))
        wins, draws = game.endings(positions)
        drawn += int(draws.sum())
        if is_movers_turn:
            won += int(wins.sum())
        else:
            lost += int(wins.sum())
        positions = positions[~(wins | draws)]
        is_movers_turn = not is_movers_turn
    return Result(won, drawn, lost)

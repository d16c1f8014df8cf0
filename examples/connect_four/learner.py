"""The learner: trains the network on the actors' games and publishes what it has learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import live_export
import numpy as np

from lineprofiler import accounting
from lineprofiler.accounting import Profiler

from . import net
from .archive import Archive
from .channels import Channels, Experience, Settings
from .game import Floats, Positions
from .net import Adam, Network, Targets
from .replay import Replay

GAMES_PER_ITERATION = 32
ITERATIONS_PER_CHECKPOINT = 5
BATCH = 128
USES_PER_POSITION = 8
"""Training follows play, on a fast machine and a slow one: so often is each position used."""

REPLAY_CAPACITY = 20_000
LEARNING_RATE = 2e-3


def run(settings: Settings, channels: Channels) -> None:
    """Learn until the last actor has left; the network published then is the final one."""
    network = settings.first_network()
    rng = np.random.default_rng([settings.seed, settings.actors])
    learner = Learner(network, rng)
    archive = Archive(Path(settings.archive), rng)
    inbox = Inbox(settings, channels)
    with profiled(settings, lambda: learner.steps) as profiler:
        while inbox.is_open:
            with profiler.phase("iteration"):
                with profiler.phase("receive_games"):
                    games = inbox.receive(GAMES_PER_ITERATION)
                    profiler.count("games", len(games))
                if games:
                    # The bytes that these phases move are counted exactly, and not estimated.
                    with profiler.phase("store_shard", io=True):
                        archive.store(games)
                    with profiler.phase("recall_shard", io=True):
                        learner.remember(archive.recall())
                learner.learn(games)
                learner.iterations += 1
                if learner.iterations % ITERATIONS_PER_CHECKPOINT == 0:
                    with profiler.phase("checkpoint", io=True):
                        archive.checkpoint(**learner.state())
                with profiler.phase("publish"):
                    channels.network.publish(network, is_final=not inbox.is_open)
            board = channels.scoreboard
            board.games += len(games)
            board.positions += sum(len(game.positions) for game in games)
            board.training_steps, board.loss = learner.steps, learner.loss


@contextmanager
def profiled(settings: Settings, step: Callable[[], int]) -> Iterator[Profiler]:
    """Profile the process, and export its figures while it runs if that was asked for."""
    if settings.export is None:
        with Profiler(role="learner", install=True) as profiler:
            yield profiler
        return
    every_s = settings.export_every_s
    with (
        Profiler(role="learner", install=True, snapshot_interval_s=every_s) as profiler,
        live_export.live_export(profiler, settings.export, settings.export_dir, step),
    ):
        yield profiler


class Inbox:
    """The finished games of all actors, until the last of them has left."""

    def __init__(self, settings: Settings, channels: Channels) -> None:
        self._games = channels.games
        self._actors = settings.actors

    @property
    def is_open(self) -> bool:
        return self._actors > 0

    def receive(self, at_least: int) -> list[Experience]:
        """Wait for so many games; fewer come only when there will be no more."""
        received: list[Experience] = []
        while self.is_open and len(received) < at_least:
            games = self._games.get()
            if games is None:
                self._actors -= 1
            else:
                received += games
        return received


class Learner:
    """Turns games into better parameters."""

    def __init__(self, network: Network, rng: np.random.Generator) -> None:
        self._network = network
        self._optimiser = Adam(network.parameters, LEARNING_RATE)
        self._replay = Replay(REPLAY_CAPACITY, rng)
        self._steps_due = 0.0
        self.iterations = 0
        self.steps = 0
        self.loss = float("nan")

    def state(self) -> dict[str, Floats]:
        """All that it takes to go on later."""
        return {"parameters": self._network.parameters, **self._optimiser.state()}

    def remember(self, experience: Experience) -> None:
        """Mix older positions in; they call for no training of their own."""
        self._replay.add(experience)

    def learn(self, games: list[Experience]) -> None:
        """Remember the games, and train as much as their number of positions calls for."""
        for experience in games:
            self._replay.add(experience)
            self._steps_due += len(experience.positions) * USES_PER_POSITION / BATCH
        while self._steps_due >= 1:
            with accounting.phase("sample"):
                positions, targets = self._replay.sample(BATCH)
            with accounting.phase("train_step"):
                self.loss = self._train_step(positions, targets)
            self._steps_due -= 1
            self.steps += 1

    def _train_step(self, positions: Positions, targets: Targets) -> float:
        with accounting.phase("forward"):
            activations = self._network.forward(positions)
            loss = net.loss(activations, targets)
        with accounting.phase("backward"):
            gradient = self._network.backward(activations, targets)
        with accounting.phase("adam"):
            self._optimiser.step(gradient)
        return loss

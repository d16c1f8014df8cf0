"""What the processes tell each other, and over which wires.

    actors ──requests──▶ inference server ──replies──▶ actors
    actors ──games──▶ learner ──network──▶ inference server, evaluator
    learner, evaluator ──scoreboard──▶ launcher

Every queue has one reader. An actor that leaves says so with a None on its queues, so each reader
ends after the last actor without any timeout. The launcher takes no lock that another process
could hold while it dies: it can always read the scoreboard and end the run.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from multiprocessing.queues import SimpleQueue
from typing import NamedTuple

import numpy as np

from .game import Floats, Positions
from .net import PARAMETERS, Network, Targets


@dataclass(frozen=True)
class Settings:
    """What every process knows from the start."""

    actors: int
    native: bool
    """Do actors search in C++?"""
    threads: int
    """Of each actor that search. In Python there is one."""
    simulations: int
    seed: int
    end_of_play: float
    """The moment, on the machine's monotonic clock, at which actors begin no further move."""
    archive: str
    """The folder that the learner keeps games and checkpoints in."""
    export: str | None = None
    """What the learner exports its figures to while it runs: see examples/live_export."""
    export_dir: str = "export"
    export_every_s: float = 5.0

    @property
    def clients(self) -> int:
        """Who asks the inference server: every thread of every actor has a wire of its own."""
        return self.actors * self.threads

    def clients_of(self, actor: int) -> range:
        return range(actor * self.threads, (actor + 1) * self.threads)

    def first_network(self) -> Network:
        """The untrained network that everything starts from: each process can make it itself."""
        return Network.untrained(np.random.default_rng(self.seed))


@dataclass(frozen=True)
class Request:
    """A thread of an actor asks for a verdict on these positions."""

    client: int
    positions: Positions


@dataclass(frozen=True)
class Reply:
    policy: Floats
    value: Floats


@dataclass(frozen=True)
class Experience:
    """One finished game: the positions met in it, and what should have been said of each."""

    positions: Positions
    targets: Targets


class Edition(NamedTuple):
    """Which of the published networks a process has."""

    number: int = 0
    is_final: bool = False


class PublishedNetwork:
    """The newest network, in shared memory: written by the learner, copied by whoever plays."""

    def __init__(self, context: SpawnContext) -> None:
        self._changed = context.Condition()
        self._parameters = context.RawArray(ctypes.c_float, PARAMETERS)
        self._number = context.RawValue(ctypes.c_int64, 0)
        self._is_final = context.RawValue(ctypes.c_bool, False)

    def _shared(self) -> Floats:
        return np.frombuffer(memoryview(self._parameters), np.float32)

    def publish(self, network: Network, *, is_final: bool) -> None:
        with self._changed:
            self._shared()[:] = network.parameters
            self._number.value += 1
            self._is_final.value = is_final
            self._changed.notify_all()

    def refresh(self, network: Network, edition: Edition) -> Edition:
        """Bring `network`, now of this edition, up to date; return the edition that it then is."""
        with self._changed:
            if self._number.value > edition.number:
                network.parameters[:] = self._shared()
            return Edition(self._number.value, self._is_final.value)

    def wait_and_refresh(self, network: Network, number: int) -> Edition:
        """Wait for the edition of this number or the final one, whichever is first, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._number.value >= number or self._is_final.value)
            return self.refresh(network, Edition())


class Scoreboard(ctypes.Structure):
    """How the run goes, in shared memory. Each number has one writer, so none needs a lock."""

    games: int
    positions: int
    training_steps: int
    loss: float
    match_won: int
    match_drawn: int
    match_lost: int

    _fields_ = (
        ("games", ctypes.c_int64),
        ("positions", ctypes.c_int64),
        ("training_steps", ctypes.c_int64),
        ("loss", ctypes.c_double),
        ("match_won", ctypes.c_int64),
        ("match_drawn", ctypes.c_int64),
        ("match_lost", ctypes.c_int64),
    )

    @property
    def match_games(self) -> int:
        return self.match_won + self.match_drawn + self.match_lost

    @property
    def win_rate(self) -> float:
        """The trained network's share of the latest match; a draw is half a win."""
        return (self.match_won + self.match_drawn / 2) / self.match_games


class Channels:
    """All the wires of one run. Made by the launcher, handed to every process that it starts."""

    def __init__(self, context: SpawnContext, clients: int) -> None:
        self.requests: SimpleQueue[Request | None] = context.SimpleQueue()
        self.replies: list[SimpleQueue[Reply]] = [context.SimpleQueue() for _ in range(clients)]
        self.games: SimpleQueue[list[Experience] | None] = context.SimpleQueue()
        self.network = PublishedNetwork(context)
        self.scoreboard: Scoreboard = context.RawValue(Scoreboard)

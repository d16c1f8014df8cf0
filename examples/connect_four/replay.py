"""The learner's memory: the most recent positions, each with what the network should say of it."""

from __future__ import annotations

import numpy as np

from . import game
from .channels import Experience
from .game import COLUMNS, Positions
from .net import Targets


class Replay:
    """A ring: when it is full, the oldest positions make room for the newest."""

    def __init__(self, capacity: int, rng: np.random.Generator) -> None:
        self._capacity = capacity
        self._rng = rng
        self._added = 0
        self._positions = Positions.empty(capacity)
        self._policy = np.zeros((capacity, COLUMNS), np.float32)
        self._value = np.zeros(capacity, np.float32)

    def add(self, experience: Experience) -> None:
        count = len(experience.positions)
        where = np.arange(self._added, self._added + count) % self._capacity
        self._positions[where] = experience.positions
        self._policy[where] = experience.targets.policy
        self._value[where] = experience.targets.value
        self._added += count

    def sample(self, count: int) -> tuple[Positions, Targets]:
        """Positions drawn at random, half of them mirrored: the game knows no left or right."""
        which = self._rng.integers(min(self._added, self._capacity), size=count)
        positions, policy = self._positions[which], self._policy[which]
        half = slice(count // 2)
        positions[half] = game.mirror(positions[half])
        policy[half] = policy[half, ::-1]
        return positions, Targets(policy, self._value[which])

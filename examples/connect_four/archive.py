"""What the learner keeps on disk: finished games in shards, and the newest checkpoint."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .channels import Experience
from .game import Positions
from .net import Targets


class Archive:
    """A folder of shards, each with the games of one iteration, and of one checkpoint."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self._folder = folder
        self._rng = rng
        self._shards = 0

    def store(self, games: list[Experience]) -> None:
        """Write a shard of these games, of which there is at least one."""
        arrays: dict[str, Any] = {
            "own": np.concatenate([game.positions.own for game in games]),
            "other": np.concatenate([game.positions.other for game in games]),
            "policy": np.concatenate([game.targets.policy for game in games]),
            "value": np.concatenate([game.targets.value for game in games]),
        }
        np.savez(self._folder / f"shard_{self._shards:05}.npz", **arrays)
        self._shards += 1

    def recall(self) -> Experience:
        """Read one of the shards back, whichever: what was learnt early is not to be forgotten."""
        which = self._rng.integers(self._shards)
        with np.load(self._folder / f"shard_{which:05}.npz") as shard:
            return Experience(
                Positions(shard["own"], shard["other"]),
                Targets(shard["policy"], shard["value"]),
            )

    def checkpoint(self, **arrays: Any) -> None:
        """Replace the checkpoint; whatever happens meanwhile, a whole one is there."""
        unfinished = self._folder / "checkpoint.npz.tmp"
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._folder / "checkpoint.npz")

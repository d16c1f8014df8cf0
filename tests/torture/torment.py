"""Death after death: scenes are set, played and checked, and what came of them is added up."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from torture.check import check, kinds_of, remove
from torture.scene import Scene, Tools, adopt_orphans
from torture.ways import WAYS


@dataclass
class Tally:
    """What came of one way to die."""

    scenes: int = 0
    deaths: int = 0
    operations: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.scenes += other.scenes
        self.deaths += other.deaths
        self.operations += other.operations
        self.faults += other.faults


@dataclass
class Outcome:
    """One scene: how to have it again, and what was wrong with it."""

    way: str
    language: str
    seed: str
    tally: Tally
    faults: list[str]
    kept: str

    def __str__(self) -> str:
        head = f"{self.way} ({self.language}), seed {self.seed}, {self.kept}"
        return "\n    ".join([head, *self.faults[:12]])


def one(tools: Tools, way: str, language: str, seed: str) -> Outcome:
    """Play one scene; where something is wrong with it, its folder is kept."""
    rng = random.Random(f"{way} {language} {seed}")
    scene = Scene(tools, f"torture-{seed}", on_disk=rng.random() < 0.05)
    try:
        WAYS[way].die(scene, rng, language)
        faults = check(scene)
    finally:
        remove(scene)
    if not faults:
        shutil.rmtree(scene.folder)
    operations = sum(len(victim.told) for victim in scene.victims)
    tally = Tally(1, scene.deaths, operations, Counter(kinds_of(faults)))
    return Outcome(way, language, seed, tally, faults, str(scene.folder) if faults else "")


def ways_at_hand(tools: Tools, only: str | None = None) -> list[tuple[str, str, int]]:
    """Return the ways, each with a language and a weight, that there are tools for."""
    found = []
    for name, way in WAYS.items():
        if (name == "out of memory" and tools.cgroup is None) or (only and only not in name):
            continue
        if tools.victim is not None and way.c:
            found.append((name, "c", way.c))
        if way.python:
            found.append((name, "python", way.python))
    return found


def many(tools: Tools, seed: str, deaths: int, only: str | None = None) -> Iterator[Outcome]:
    """Play scenes until so many processes have died."""
    rng = random.Random(seed)
    ways = ways_at_hand(tools, only)
    weights = [weight for _, _, weight in ways]
    number = 0
    while deaths > 0:
        way, language, _ = rng.choices(ways, weights)[0]
        outcome = one(tools, way, language, f"{seed}-{number}")
        number += 1
        deaths -= outcome.tally.deaths
        yield outcome


def share(tools: Tools, seed: str, deaths: int, only: str | None) -> dict[str, Tally]:
    """Play one core's share, and print what is wrong at once."""
    adopt_orphans()
    tallies: dict[str, Tally] = {}
    for outcome in many(tools, seed, deaths, only):
        tallies.setdefault(outcome.way, Tally()).add(outcome.tally)
        if outcome.faults:
            print(outcome, flush=True)
    return tallies

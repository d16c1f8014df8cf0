"""A run whose victims are dead, held against what they told.

Each stream told after each operation that had returned. So a figure of the run is right if it is
what the streams have on record after the operations they told of, or, in streams that died, after
one more; of that one the figures may have been reached by turns, so each is looked at by itself.
Anything less is a loss, anything more was counted twice or never happened.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lineprofiler.accounting import Run, RunError, merge_run
from lineprofiler.run import Worker
from torture.program import Count, State
from torture.scene import Scene

# Whether whoever reads a dead worker's image writes it down and removes it (F7).
ADOPTION = True

IMAGES = Path(f"/dev/shm/lineprofiler-{os.getuid()}")
KINDS = ("LOSS", "DUPLICATE", "HALF", "STRAY", "STATUS", "HANG", "WRONG")


class Seen(NamedTuple):
    """The figures that a reading gives: `calls` and so on by what they are of."""

    figures: dict[tuple[Any, ...], int]
    workers: int


def figures_of(run: Run) -> Seen:
    figures: dict[tuple[Any, ...], int] = {}
    for node in [run.tree.root, *run.tree.values()]:
        figures["calls", node.path] = node.calls
        figures["open", node.path] = node.open_calls
        figures["hist", node.path] = node.hist.total
        for name, counter in node.counters.items():
            of = node.path, name
            figures["count", *of] = counter.calls
            if counter.calls:
                figures["total", *of] = int(counter)
                figures["min", *of] = counter.min if counter.min is not None else 0
                figures["max", *of] = counter.max if counter.max is not None else 0
    return Seen(figures, len(run.workers))


def figures_after(state: State) -> Iterator[tuple[tuple[Any, ...], int]]:
    """The same of one stream."""
    for path, phase in state.phases.items():
        yield ("calls", path), phase.calls
        yield ("open", path), phase.open_calls
        yield ("hist", path), phase.calls
    for (path, name), counter in state.counters.items():
        yield ("count", path, name), counter.calls
        yield ("total", path, name), counter.total
        yield ("min", path, name), counter.min
        yield ("max", path, name), counter.max


FOLD: dict[str, Callable[[int, int], int]] = {
    "calls": int.__add__,
    "open": int.__add__,
    "hist": int.__add__,
    "count": int.__add__,
    "total": int.__add__,
    "min": min,
    "max": max,
}
NOTHING = {"min": Count().min, "max": Count().max}


def allowed(scene: Scene) -> dict[tuple[Any, ...], set[int]]:
    """Return the values that each figure may have: those of the streams, put together."""
    sums: dict[tuple[Any, ...], set[int]] = {}
    for victim in scene.victims:
        for stream, line in enumerate(victim.program.lines):
            done, ends = victim.done(stream), victim.ends
            states = [line.after(done)]
            if stream not in ends.exact:
                states.append(line.after(done + 1))
            if stream in ends.ended:
                # Whoever waited for it may have closed the profiler while it was still ending.
                states += [line.after(done).ended() for done in (done, done + 1)[: len(states)]]
            mine = [dict(figures_after(state)) for state in states]
            for key in set().union(*mine):
                nothing = NOTHING.get(key[0], 0)
                values = {figures.get(key, nothing) for figures in mine}
                fold = FOLD[key[0]]
                sums[key] = {
                    fold(one, other) for one in sums.get(key, {nothing}) for other in values
                }
    return sums


def differences(seen: Seen, right: dict[tuple[Any, ...], set[int]]) -> Iterator[str]:
    for key in sorted(seen.figures.keys() | right.keys(), key=repr):
        values = right.get(key, {0})
        nothing = NOTHING.get(key[0], 0)
        value = seen.figures.get(key, nothing)
        if value in values:
            continue
        kind = "LOSS" if value < min(values) else "DUPLICATE"
        if key[0] in ("total", "min", "max"):
            kind = "WRONG"
        yield f"{kind}: {key} is {value}, not {' or '.join(map(str, sorted(values)[:8]))}"


def times_that_cannot_be(scene: Scene, run: Run) -> Iterator[str]:
    """No thread has spent more time in its phases than its process has lived."""
    streams = sum(len(victim.program.lines) for victim in scene.victims)
    for node in run.tree.values():
        if node.wall_ns > streams * scene.lived_ns:
            yield f"WRONG: {node.path} took {node.wall_ns} ns of {scene.lived_ns} ns"


def read(scene: Scene) -> Run | None:
    try:
        return merge_run(scene.run_dir)
    except (FileNotFoundError, RunError):
        return None


def workers_that(scene: Scene) -> tuple[int, int]:
    """Return how many processes must be there, and how many may."""
    must = may = 0
    for victim in scene.victims:
        each = len(victim.program.lines) // victim.processes
        told = Counter(stream // each for stream in set(victim.told))
        must += len(told)
        may += victim.processes
    return must, may


def wrong_end(scene: Scene, worker: Worker) -> Iterator[str]:
    signals = {-victim.status for victim in scene.victims if victim.status and victim.status < 0}
    if worker.ended == worker.closed:
        yield f"WRONG: {worker.name} is {'both' if worker.ended else 'neither'} ended and closed"
    if worker.source != "file":
        yield f"WRONG: {worker.name} was read from its {worker.source} image"
    if worker.end_signal is not None and worker.end_signal not in signals:
        yield f"WRONG: {worker.name} is said to have died by signal {worker.end_signal}"


def wrong_workers(scene: Scene, run: Run) -> Iterator[str]:
    must, may = workers_that(scene)
    if len(run.workers) < must:
        yield f"LOSS: {len(run.workers)} workers, not {must}"
    if len(run.workers) > may:
        yield f"DUPLICATE: {len(run.workers)} workers, not {may}"
    for file in run.unreadable:
        yield f"HALF: {file.path}: {file.reason}"
    if run.live:
        yield "WRONG: nobody lives, but the run is said to be live"
    for worker in run.workers:
        if worker.closed not in scene.closed:
            yield f"WRONG: {worker.name} is said to be {'' if worker.closed else 'not '}closed"
        if ADOPTION:
            yield from wrong_end(scene, worker)
        if worker.private_image:
            yield f"LOSS: {worker.name} had to go on in private memory"
        for name in worker.troubles:
            yield f"WRONG: {worker.name} had trouble: {name}"


def files(scene: Scene) -> Iterator[Path]:
    return (path for path in scene.run_dir.rglob("*") if path.is_file())


def wrong_files(scene: Scene, workers: int) -> Iterator[str]:
    written = 0
    for path in files(scene):
        if path.name.endswith(".tmp") or path.suffix == ".img":
            if ADOPTION:
                yield f"STRAY: {path.relative_to(scene.run_dir)}"
            continue
        if path.suffix != ".json":
            continue
        written += path.parent.parent.name == "workers"
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            yield f"HALF: {path.relative_to(scene.run_dir)}: {error}"
    if ADOPTION and written != workers:
        kind = "LOSS" if written < workers else "DUPLICATE"
        yield f"{kind}: {written} files of {workers} workers"


def images(scene: Scene) -> list[Path]:
    return [path for path in IMAGES.glob("*") if scene.run_id in path.name]


def remove(scene: Scene) -> None:
    """Remove what the scene left in shared memory."""
    for path in images(scene):
        path.unlink(missing_ok=True)


def check(scene: Scene) -> list[str]:
    """Read a scene's run twice and return what is wrong with it."""
    faults = list(scene.faults)
    run = read(scene)
    right = allowed(scene)
    if run is None:
        if workers_that(scene)[0]:
            faults.append("LOSS: the run cannot be read at all")
        return faults
    seen = figures_of(run)
    faults += differences(seen, right)
    faults += wrong_workers(scene, run)
    faults += times_that_cannot_be(scene, run)
    again = read(scene)
    if again is None or figures_of(again) != seen:
        faults.append("DUPLICATE: a second reading gives other figures")
    faults += wrong_files(scene, len(run.workers))
    if ADOPTION or scene.closed == {True}:
        faults += [f"STRAY: {path}" for path in images(scene)]
    return faults


def kinds_of(faults: Iterable[str]) -> set[str]:
    return {fault.partition(":")[0] for fault in faults}


__all__ = ["ADOPTION", "KINDS", "check", "kinds_of", "remove"]

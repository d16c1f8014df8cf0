"""Figures of a process to TensorBoard or Weights & Biases, while it runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lineprofiler.accounting import Profiler, Tree

KINDS = ("tensorboard", "wandb")


class Writer(Protocol):
    """Where figures go."""

    def write(self, figures: dict[str, float], step: int) -> None: ...

    def close(self) -> None: ...


def open_writer(kind: str, folder: str) -> Writer:
    """Import only what is asked for: each is a package of its own, and neither is needed else."""
    if kind == "tensorboard":
        from .to_tensorboard import TensorBoardWriter

        return TensorBoardWriter(folder)
    from .to_wandb import WandbWriter

    return WandbWriter(folder)


@contextmanager
def live_export(
    profiler: Profiler, kind: str, folder: str, step: Callable[[], int] | None = None
) -> Iterator[None]:
    """Export after each periodic flush, and what is left when the block ends.

    The profiler is closed then: only so does the last interval have everything. `step` says which
    step of the training it is, so that figures after a resume go on where those before it ended;
    without it the intervals are numbered from 0.
    """
    writer = open_writer(kind, folder)
    number = step or itertools.count().__next__

    def export(intervals: Tree) -> None:
        writer.write(figures_of(intervals), number())

    @profiler.on_snapshot
    def export_interval(_so_far: Tree) -> None:
        export(profiler.deltas())

    try:
        yield
    finally:
        profiler.close()  # from here on nothing is called any more
        export(profiler.deltas())
        writer.close()


def figures_of(intervals: Tree) -> dict[str, float]:
    """What to plot of one interval. A phase that did nothing has no point in it."""
    figures: dict[str, float] = {}
    for path, stats in intervals.items():
        name = f"profile/{'/'.join(path)}"
        figures[f"{name}/wall_s"] = stats.wall_ns / 1e9
        figures[f"{name}/calls"] = stats.calls
        if stats.wall_ns and stats.wait_ns is not None:
            figures[f"{name}/wait"] = stats.wait_ns / stats.wall_ns  # wall, not self
        if stats.calls:
            figures[f"{name}/p50_ms"] = stats.hist.quantile(0.5) / 1e6
        for counter, count in stats.counters.items():
            figures[f"{name}/{counter}"] = count
    return figures

"""Two runs compared: what `lineprofiler compare` shows, as plain objects.

    from lineprofiler.compare import compare_runs

    result = compare_runs("baseline", "profile", fail_over=5)
    assert not result.failed, [phase.path for phase in result.phases if phase.over]

Changes are fractions of A: 0.05 means that B takes 5% longer. None means that there is nothing to
tell the figure from. docs/compare.md says by what method a change is called real, and at what error
rate. All objects compare by value and can be pickled.
"""

from __future__ import annotations

from lineprofiler import _core
from lineprofiler._record import _Record
from lineprofiler.run import Caveat, _run_id
from lineprofiler.tree import _decode_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Literal

    Path = tuple[str, ...]

__all__ = ["Change", "ComparedPhase", "ComparedRun", "Comparison", "Side", "compare_runs"]


class Change(_Record):
    """How much longer an entry takes in B, and what chance makes of nothing."""

    __slots__ = ("margin", "real", "size")
    size: float | None
    """B / A - 1; None where either has no figure."""
    margin: float | None
    """Two runs of equal programs may differ by this; None where that was not tested."""
    real: bool
    """The size is beyond the margin."""


class Side(_Record):
    """A phase in one of the runs."""

    __slots__ = ("calls", "entries", "estimated", "mean_ns", "open_calls", "p50_ns", "workers")
    calls: int
    """Entries that ended."""
    entries: float
    """Of them measured: fewer if the phase was sampled."""
    mean_ns: float | None
    """Wall time of an entry that ended, child phases included; None as long as none has."""
    p50_ns: float | None
    """The median, right to the width of a bucket."""
    workers: int
    """How many processes have the phase."""
    open_calls: int
    """Entries that had not ended; they are in no other figure here."""
    estimated: bool
    """Sampled: calls and times are estimates."""


class ComparedPhase(_Record):
    """A phase in both runs, or in one of them."""

    __slots__ = (
        "a",
        "b",
        "disagrees",
        "estimated",
        "few",
        "mean",
        "median_ratio",
        "over",
        "path",
        "role",
        "saturated",
        "typical",
        "verdict",
    )
    role: str
    path: Path
    a: Side | None
    """None: not in A."""
    b: Side | None
    mean: Change
    """Of the mean entry."""
    typical: Change
    """Of the geometric mean, which a few long entries hardly touch."""
    median_ratio: float | None
    """Median in B / in A."""
    verdict: Literal["same", "slower", "faster", "undecided", "only_a", "only_b"]
    """`same`: no change beyond chance. `undecided`: not tested; see `few` and `saturated`."""
    few: bool
    """Fewer than 30 entries were measured in a run."""
    disagrees: bool
    """Mean and median disagree: a few entries, not most, make the change of the mean."""
    estimated: bool
    """Sampled in a run."""
    saturated: bool
    """A sum in it reached the largest number there is and is too low."""
    over: bool
    """Really slower, and by more than `fail_over` allows."""


class ComparedRun(_Record):
    """What is known of one of the runs as a whole."""

    __slots__ = (
        "caveats",
        "dir",
        "live",
        "lost_processes",
        "processes",
        "run_id",
        "runtime_ns",
        "started_realtime_ns",
    )
    dir: str
    run_id: str
    started_realtime_ns: int
    runtime_ns: int
    live: bool
    processes: int
    lost_processes: int
    caveats: list[Caveat]


class Comparison(_Record):
    """Two runs, phase by phase."""

    __slots__ = ("a", "b", "error_rate", "fail_over", "failed", "phases", "same_run", "tested")
    a: ComparedRun
    b: ComparedRun
    phases: list[ComparedPhase]
    """By role, parents before their children, siblings by name."""
    tested: int
    """How many phases had enough entries in both runs."""
    error_rate: float
    """Of equal programs, the part of comparisons in which any phase is called slower or faster."""
    fail_over: float | None
    """The gate, in percent."""
    failed: bool
    """Some phase is `over` it."""
    same_run: bool
    """A and B are the very same run."""

    @property
    def slower(self) -> list[ComparedPhase]:
        """The phases that are slower in B, beyond chance."""
        return [phase for phase in self.phases if phase.verdict == "slower"]

    @property
    def faster(self) -> list[ComparedPhase]:
        """The phases that are faster in B, beyond chance."""
        return [phase for phase in self.phases if phase.verdict == "faster"]


def _make_phase(role: str, raw: dict[str, Any]) -> ComparedPhase:
    raw["path"] = tuple(raw["path"])
    for side in ("a", "b"):
        raw[side] = Side(**raw[side]) if raw[side] is not None else None
    for change in ("mean", "typical"):
        raw[change] = Change(**raw[change])
    return ComparedPhase(role=role, **raw)


def _make_run(raw: dict[str, Any]) -> ComparedRun:
    raw["caveats"] = [Caveat(**caveat) for caveat in raw["caveats"]]
    return ComparedRun(**raw)


def compare_runs(
    run_dir_a: str | os.PathLike[str],
    run_dir_b: str | os.PathLike[str] | None = None,
    *,
    fail_over: float | None = None,
    run_id_a: str | None = None,
    run_id_b: str | None = None,
) -> Comparison:
    """Compare the newest attempts in two run directories, B against A.

    run_id_a and run_id_b choose other attempts, as run_id does for `merge_run`; with one of them
    run_dir_b may be left out, and is run_dir_a then.

    fail_over is a gate in percent: `failed` is set if a phase became slower by more than that and
    it is beyond chance, or if no phase could be tested.

    ValueError: fail_over is negative or not finite, or there is nothing to compare with.
    LookupError: a run id is of no attempt. FileNotFoundError, NotADirectoryError or
    RunError: as `merge_run` raises them, for whichever directory it is.
    """
    import json

    if fail_over is not None and not 0 <= fail_over < float("inf"):
        raise ValueError(f"fail_over must be a percentage of 0 or more, not {fail_over!r}")
    limit = float("nan") if fail_over is None else fail_over / 100
    if run_dir_b is None:
        if run_id_a is None and run_id_b is None:
            raise ValueError("compare with what? Give a second directory, or run_id_a or run_id_b")
        run_dir_b = run_dir_a
    found = _core.compare_runs(run_dir_a, run_dir_b, limit, _run_id(run_id_a), _run_id(run_id_b))
    raw = _decode_all(json.loads(found))
    return Comparison(
        a=_make_run(raw["a"]),
        b=_make_run(raw["b"]),
        phases=[
            _make_phase(role["name"], phase) for role in raw["roles"] for phase in role["phases"]
        ],
        tested=raw["method"]["tested"],
        error_rate=raw["method"]["error_rate"],
        fail_over=fail_over,
        failed=raw["failed"],
        same_run=raw["same_run"],
    )

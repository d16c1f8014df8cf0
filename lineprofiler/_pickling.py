"""Profilers and phases that travel to other processes by pickle, and copies within one.

What arrives is what the process there would make by itself: its own worker of the same run. Nothing
is opened by a pickle that was kept, in a checkpoint for instance, until that run was over: only in
the run that the process belongs to by its environment or its ancestors, or in the process that
pickled, a profiler is opened or found.
"""

from __future__ import annotations

import warnings

from lineprofiler import _core, _exits, accounting
from lineprofiler.accounting import Profiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Of a profiler: worker, run directory and run id.
Owner = tuple[str | None, str, str | None]

# Opened by unpickling: held until they are closed, for each pickle of a pool's tasks would open
# another one otherwise.
_arrived: list[Profiler] = []


def reduce_profiler(profiler: Profiler, options: dict[str, Any]) -> tuple[Any, ...]:
    """Return how to make it elsewhere; options are those of its construction."""
    installed = accounting.installed_profiler() is profiler
    enabled = profiler.worker is not None and not profiler.closed
    return _profiler, (type(profiler), _owner(profiler), enabled, installed, options)


def reduce_phase(phase: _core.Phase) -> tuple[Any, ...]:
    """Return how to find the phase of that name elsewhere."""
    recorder, options = _core.phase_parts(phase)
    owner = _owner(recorder) if isinstance(recorder, Profiler) else None
    return _phase, (phase.name, owner, options)


def _owner(profiler: Profiler) -> Owner:
    return profiler.worker, profiler.run_dir, profiler.run_id


def _here() -> list[Profiler]:
    """Return the open ones, those last that a forked child inherited."""
    found = [one for one in _exits.watched() if isinstance(one, Profiler)]
    return sorted(found, key=Profiler._is_inherited)


def _of_worker(owner: Owner) -> Profiler | None:
    """Return the very one, if this is the process that pickled."""
    for one in _here():
        if one.worker == owner[0] and not one._is_inherited():
            return one
    return None


def _of_run(owner: Owner) -> Profiler | None:
    """Return an open one of that run."""
    return next((one for one in _here() if (one.run_dir, one.run_id) == owner[1:]), None)


def _phase(name: str, owner: Owner | None, options: dict[str, Any]) -> _core.Phase:
    if owner is None or not name:
        return _core.Recorder().phase("not recorded")
    found = _of_worker(owner) or accounting.installed_profiler() or _of_run(owner)
    return (found or _core.Recorder()).phase(name, **options)


def _profiler(
    kind: type[Profiler], owner: Owner, enabled: bool, installed: bool, options: dict[str, Any]
) -> Profiler:
    if not enabled:
        return kind(owner[1], enabled=False, **options)
    found = _of_worker(owner) or _of_run(owner) or _join(kind, owner, options)
    if installed and found.enabled and accounting.installed_profiler() is None:
        _core.install(found)
    return found


def _join(kind: type[Profiler], owner: Owner, options: dict[str, Any]) -> Profiler:
    """Open one in the run, if it is the run of this process too."""
    _, run_dir, run_id = owner
    if run_id in (_core.find_run(None, None)[1], _core.ancestor_run_id(run_dir)):
        try:
            profiler = kind(run_dir, run_id=run_id, **options)
        except OSError as error:  # no reason to lose what came along in the pickle
            warnings.warn(f"nothing is recorded: {error}", RuntimeWarning, stacklevel=2)
        else:
            _arrived[:] = [one for one in _arrived if not one.closed]
            _arrived.append(profiler)
            return profiler
    profiler = kind(run_dir, enabled=False, **options)
    profiler._silent = False  # nobody said that it is to be off
    return profiler

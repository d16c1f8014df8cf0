"""What tests assert of a run, and a way to make one.

::

    from lineprofiler.testing import AtLeast, assert_phases, assert_roles, run_profiled

    run = run_profiled(train, args=(16,))
    assert_roles(run, {"actor": 16, "learner": 1})
    assert_phases(run, {"iteration/mcts": AtLeast(100)}, role="actor")

Each assertion takes the run that `lineprofiler.accounting.merge_run` returns. Where it expects
names it takes them alone (they are there), or with a number each: exactly so many, `AtLeast` so
many, or 0 (it is not there). What is not named is not looked at, unless ``exact=True``. An
AssertionError says all that is wrong at once, with what was found and which names come near. That
something is not there is worth as much as assert_no_caveats(): what was lost is not there either.

With pytest the fixture `profiled_run` does what run_profiled() does. This module needs and imports
no pytest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lineprofiler import _nearest
from lineprofiler.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from lineprofiler._profiled import ProfiledRun, ProfiledRunner, run_profiled
    from lineprofiler.run import Node, Tree, Worker

    Path = tuple[str, ...]
else:

    def __getattr__(name):
        if name not in ("ProfiledRun", "ProfiledRunner", "run_profiled"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from lineprofiler import _profiled

        return getattr(_profiled, name)


__all__ = [
    "AtLeast",
    "ProfiledRun",
    "ProfiledRunner",
    "assert_counters",
    "assert_no_caveats",
    "assert_no_stale_workers",
    "assert_phases",
    "assert_roles",
    "run_profiled",
]


class AtLeast:
    """A number to expect: equal to all that are not less."""

    __slots__ = ("least",)

    def __init__(self, least: int) -> None:
        self.least = _check_number(least)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AtLeast):
            return self.least == other.least
        return other >= self.least if isinstance(other, int) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AtLeast({self.least})"


# ---- assertions ------------------------------------------------------------


def assert_roles(
    run: Run, expected: Mapping[str, int | AtLeast] | Iterable[str], *, exact: bool = False
) -> None:
    """Assert which roles there are, and how many workers play each.

    A worker is one process; one that was restarted is two. exact: there is no other role.
    """
    __tracebackhide__ = True
    wanted = _numbers(_one(expected), _check_name)
    found = {name: len(role.workers) for name, role in _check_run(run).roles.items()}
    wrong = _differences(wanted, found, "worker", exact=exact)
    _fail_if(wrong, run, "roles")


def assert_phases(
    run: Run,
    expected: Mapping[str | Path, int | AtLeast] | Iterable[str | Path],
    *,
    role: str | None = None,
    exact: bool = False,
) -> None:
    """Assert which phases were entered, and how often.

    A phase is named by its path: a tuple of names, or the names joined by "/". How often: entries
    that were still open when the run was read are counted too; of a phase that is sampled the
    number is an estimate, and an exact one is never right. role: only what its workers did.
    exact: there is no other phase, but for those around the expected ones.
    """
    __tracebackhide__ = True
    tree, where = _tree(run, role)
    wanted = _numbers(_one(expected), _check_path)
    wrong = []
    named: set[Path] = set()
    for path, number in wanted.items():
        found = _find(tree, path)
        node = tree[found] if found else None
        named.update(_with_those_around(found or ()))
        entries = node.calls + node.open_calls if node else 0
        if node is None and number != 0:
            wrong.append(f"{_show(path)}: expected {_say(number, 'entry')}, {_missing(tree, path)}")
        elif node is not None and not _is(number, entries, estimated=node.estimated):
            wrong.append(f"{_show(path)}: expected {_say(number, 'entry')}, {_entries(node)}")
    if exact:
        extra = [node for found, node in tree.items() if found not in named]
        wrong += [f"{_show(node.path)}: not expected, {_entries(node)}" for node in extra]
    _fail_if(wrong, run, f"phases{where}")


def assert_counters(
    run: Run,
    path: str | Path,
    expected: Mapping[str, int | AtLeast] | Iterable[str],
    *,
    role: str | None = None,
    exact: bool = False,
) -> None:
    """Assert what was counted directly in a phase, as sums over the workers.

    path: that of the phase, see assert_phases(), also for phases that are sampled; () is what was
    counted outside any. exact: there is no other counter.
    """
    __tracebackhide__ = True
    tree, where = _tree(run, role)
    wanted = _numbers(_one(expected), _check_name)
    found = _find(tree, _check_path(path)) if path != () else ()
    if found is None:
        _fail_if([f"{_show(path)}: {_missing(tree, path)}"], run, f"phases{where}")
        return
    node = tree[found]
    wrong = _differences(wanted, node.counters, "", exact=exact, estimated=node.estimated)
    _fail_if(wrong, run, f"counters of {_show(found)}{where}")


def assert_no_stale_workers(run: Run, max_silent_s: float | None = None) -> None:
    """Assert that no worker stopped writing before the end of the run without being closed.

    max_silent_s: for how many seconds it may be silent, whatever its intervals. By default for 60 s
    and three of its snapshot intervals; one that has none is not judged then, nor is one that runs.
    """
    __tracebackhide__ = True
    stale = [
        worker
        for worker in _check_run(run).workers
        if not worker.closed
        and (worker.stale if max_silent_s is None else worker.silent_ns > max_silent_s * 1e9)
    ]
    _fail_if([_say_stale(worker) for worker in stale], run, "workers that went quiet")


def assert_no_caveats(run: Run, *, allow: Collection[str] = ()) -> None:
    """Assert that the figures are those of the whole run: nothing was lost, all workers closed.

    allow: kinds of caveats that do not matter here, such as "superseded"; they stand in brackets in
    the text of the AssertionError.
    """
    __tracebackhide__ = True
    allowed = [allow] if isinstance(allow, str) else allow
    caveats = [caveat for caveat in _check_run(run).caveats if caveat.kind not in allowed]
    _fail_if([f"[{caveat.kind}] {caveat.text}" for caveat in caveats], run, "caveats")


# ---- what is expected ------------------------------------------------------

_PRESENT = None
"""In place of a number: it is there."""

_ESTIMATE = " (an estimate, the phase is sampled)"


def _numbers(
    expected: Mapping[Any, int | AtLeast] | Iterable[Any], check: Callable[[Any], Any]
) -> dict[Any, int | AtLeast | None]:
    """Return each name with its number, or None if it is to be there only."""
    if isinstance(expected, Mapping):
        return {check(name): _check_number_or(number) for name, number in expected.items()}
    return {check(name): _PRESENT for name in expected}


def _one(expected: Any) -> Any:
    """Return a single name in a list. TypeError: a tuple, which may be one path or several."""
    if isinstance(expected, str):
        return [expected]
    if isinstance(expected, tuple) and all(isinstance(name, str) for name in expected):
        raise TypeError(
            f"give a list: {[expected]!r} is one path, {list(expected)!r} are {len(expected)} names"
        )
    if not isinstance(expected, Iterable):
        raise TypeError(f"what is expected must be names, not {type(expected).__name__}")
    return expected


def _check_run(run: Run) -> Run:
    if not isinstance(run, Run):
        raise TypeError(f"give the run that merge_run() returns, not {type(run).__name__}")
    return run


def _check_name(name: Any) -> Any:
    if not isinstance(name, str):
        raise TypeError(f"a name must be str, not {type(name).__name__}")
    return name


def _check_path(path: Any) -> Any:
    if isinstance(path, tuple) and path and all(isinstance(name, str) for name in path):
        return path
    if isinstance(path, str) and path:
        return path
    raise TypeError(f"a path is a tuple of names, or names joined by '/', not {path!r}")


def _check_number(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"expected numbers are int or AtLeast, not {type(number).__name__}")
    return number


def _check_number_or(number: int | AtLeast) -> int | AtLeast:
    return number if isinstance(number, AtLeast) else _check_number(number)


def _is(
    number: int | AtLeast | None, found: int, *, there: bool = True, estimated: bool = False
) -> bool:
    """Whether what was found is what is expected; an estimate is never an exact number."""
    if number is _PRESENT:
        return there
    return number == found and not (estimated and isinstance(number, int))


def _differences(
    wanted: Mapping[str, int | AtLeast | None],
    found: Mapping[str, int],
    unit: str,
    *,
    exact: bool,
    estimated: bool = False,
) -> list[str]:
    """Return a line for each name of which there is not what is wanted."""
    wrong = []
    for name, number in wanted.items():
        there = name in found
        if _is(number, found.get(name, 0), there=there, estimated=there and estimated):
            continue
        shown = _say_found(found[name], estimated) if there else f"found none{_near(name, found)}"
        wrong.append(f"{name!r}: expected {_say(number, unit)}, {shown}")
    if exact:
        extra = [name for name in found if name not in wanted]
        wrong += [f"{name!r}: not expected, {_say_found(found[name], estimated)}" for name in extra]
    return wrong


def _near(name: str, there: Mapping[str, int]) -> str:
    near = map(repr, _nearest.nearest_names(name, there))
    return _nearest.did_you_mean(near, map(repr, there))


def _say_found(number: int, estimated: bool) -> str:
    text = f"found about {number}{_ESTIMATE}" if estimated else f"found {number}"
    saturated = getattr(number, "saturated", False)
    return text + (" (saturated: the sum left the range of 64 bits)" if saturated else "")


# ---- what was found --------------------------------------------------------


def _tree(run: Run, role: str | None) -> tuple[Tree, str]:
    """Return the phases that are looked at, and whose they are."""
    __tracebackhide__ = True
    if role is None:
        return _check_run(run).tree, ""
    if role not in _check_run(run).roles:
        assert_roles(run, [role])
    return run.tree_of(role), f" of role {role!r}"


def _find(tree: Tree, path: str | Path) -> Path | None:
    """Return the path that is meant; None: there is no such phase."""
    if isinstance(path, tuple):
        return path if path in tree else None
    found = [other for other in tree if "/".join(other) == path]
    if len(found) > 1:
        raise ValueError(f"{path!r} may be {' or '.join(map(repr, found))}: give the tuple")
    return found[0] if found else None


def _with_those_around(path: Path) -> set[Path]:
    return {path[:depth] for depth in range(1, len(path) + 1)}


def _missing(tree: Tree, path: str | Path) -> str:
    wanted = tuple(path.split("/")) if isinstance(path, str) else path
    near = [
        f"{_show(other)} ({_entries(tree[other])})"
        for other in _nearest.nearest_paths(wanted, tree.keys())
    ]
    return f"found no such phase{_nearest.did_you_mean(near, map(_show, tree))}"


def _show(path: str | Path) -> str:
    return _nearest.short_repr(path) if isinstance(path, str) else _nearest.show_path(path)


def _say(number: int | AtLeast | None, unit: str) -> str:
    least = number is _PRESENT or isinstance(number, AtLeast)
    n = 1 if number is _PRESENT else number.least if isinstance(number, AtLeast) else number
    if number is _PRESENT and not unit:
        return "it to be counted"
    plural = unit[:-1] + "ies" if unit.endswith("y") else unit + "s"
    words = ["at least" if least else "", str(n), "" if not unit else unit if n == 1 else plural]
    return " ".join(word for word in words if word)


def _entries(node: Node) -> str:
    about = "about " if node.estimated else ""
    found = f"found {about}{node.calls + node.open_calls}"
    if node.open_calls:
        found += f", {node.open_calls} of them still open"
    return found + (_ESTIMATE if node.estimated else "")


def _say_stale(worker: Worker) -> str:
    doing = [f"inside {entry.path} on {entry.thread}" for entry in worker.open]
    rank = "" if worker.rank is None else f", rank {worker.rank}"
    return (
        f"{worker.role!r}, pid {worker.pid} on {worker.host}{rank}: silent for the last"
        f" {worker.silent_ns / 1e9:.0f} s of the run, {_nearest.listing(doing, 3) or 'in no phase'}"
    )


def _fail_if(wrong: list[str], run: Run, what: str) -> None:
    """Raise an AssertionError if anything is wrong: all of that, and what the run is."""
    __tracebackhide__ = True
    if not wrong:
        return
    shown = wrong if len(wrong) <= 20 else [*wrong[:20], f"and {len(wrong) - 20} more"]
    lines = [f"{what}:", *(f"  {line}" for line in shown), f"in {run!r}", f"of {run.dir}"]
    kinds = dict.fromkeys(caveat.kind for caveat in run.caveats)
    if kinds and what != "caveats":
        lines.append(f"which has caveats: {', '.join(kinds)}")
    raise AssertionError("\n".join(lines))

"""lineprofiler.testing: what may be asserted of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lineprofiler.accounting import Profiler, Run, merge_run
from lineprofiler.testing import (
    AtLeast,
    assert_counters,
    assert_no_caveats,
    assert_no_stale_workers,
    assert_phases,
    assert_roles,
)


def record(run_dir: Path, role: str, repeat: int) -> None:
    with Profiler(run_dir, role, run_id="one", snapshot_interval_s=None) as profiler:
        for _ in range(repeat):
            with profiler.phase("iteration"), profiler.phase("mcts"):
                profiler.count("simulations", 64)
        profiler.count("outside", 2)


@pytest.fixture
def run(run_dir: Path) -> Run:
    record(run_dir, "actor", 2)
    record(run_dir, "actor", 3)
    record(run_dir, "learner", 1)
    return merge_run(run_dir)


def text_of(assertion: Callable[..., None], *args: Any, **options: Any) -> list[str]:
    """The lines of the AssertionError, without those that say of which run it is."""
    with pytest.raises(AssertionError) as caught:
        assertion(*args, **options)
    lines = str(caught.value).splitlines()
    begin = lines.index(f"in {args[0]!r}")
    assert lines[begin + 1] == f"of {args[0].dir}"
    caveats = {caveat.kind for caveat in args[0].caveats}
    if caveats and assertion is not assert_no_caveats:
        [said] = lines[begin + 2 :]
        assert set(said.removeprefix("which has caveats: ").split(", ")) == caveats
    else:
        assert not lines[begin + 2 :]
    return lines[:begin]


def test_roles_that_are_there(run: Run) -> None:
    assert_roles(run, "actor")
    assert_roles(run, ["actor", "learner"], exact=True)
    assert_roles(run, {"actor"})
    assert_roles(run, {"actor": 2, "learner": 1}, exact=True)
    assert_roles(run, {"actor": AtLeast(1), "evaluator": 0})
    assert_roles(run, [])


def test_roles_that_are_not_there(run: Run) -> None:
    assert text_of(
        assert_roles, run, {"actor": 16, "lerner": 1, "learner": 0, "z": AtLeast(2)}
    ) == [
        "roles:",
        "  'actor': expected 16 workers, found 2",
        "  'lerner': expected 1 worker, found none; did you mean 'learner'?",
        "  'learner': expected 0 workers, found 1",
        "  'z': expected at least 2 workers, found none; there are 'actor', 'learner'",
    ]
    assert text_of(assert_roles, run, ["evaluator"]) == [
        "roles:",
        "  'evaluator': expected at least 1 worker, found none; there are 'actor', 'learner'",
    ]
    assert text_of(assert_roles, run, ["actor"], exact=True) == [
        "roles:",
        "  'learner': not expected, found 1",
    ]


def test_phases_that_are_there(run: Run) -> None:
    assert_phases(run, "iteration/mcts")
    assert_phases(run, ["iteration", ("iteration", "mcts")], exact=True)
    assert_phases(run, ["iteration/mcts"], exact=True)  # what is around it is there of itself
    assert_phases(run, {"iteration/mcts": 6, ("iteration",): AtLeast(6), "eval": 0})
    assert_phases(run, {"iteration/mcts": 1}, role="learner")
    assert_phases(run, [])


def test_phases_that_are_not_there(run: Run) -> None:
    expected = {"iteration/mtcs": 6, ("mcts",): AtLeast(1), "iteration": 7, "iteration/mcts": 0}
    assert text_of(assert_phases, run, expected) == [
        "phases:",
        "  'iteration/mtcs': expected 6 entries, found no such phase;"
        " did you mean 'iteration/mcts' (found 6) or 'iteration' (found 6)?",
        "  'mcts': expected at least 1 entry, found no such phase;"
        " did you mean 'iteration/mcts' (found 6)?",
        "  'iteration': expected 7 entries, found 6",
        "  'iteration/mcts': expected 0 entries, found 6",
    ]
    assert text_of(assert_phases, run, ["eval"], role="actor", exact=True) == [
        "phases of role 'actor':",
        "  'eval': expected at least 1 entry, found no such phase;"
        " there are 'iteration', 'iteration/mcts'",
        "  'iteration': not expected, found 5",
        "  'iteration/mcts': not expected, found 5",
    ]
    assert text_of(assert_phases, run, ["iteration"], role="actr") == [
        "roles:",
        "  'actr': expected at least 1 worker, found none; did you mean 'actor'?",
    ]


def test_many_differences_are_cut(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler:
        for i in range(50):
            with profiler.phase(f"phase {i:02}"):
                pass
    lines = text_of(assert_phases, merge_run(run_dir), [], exact=True)
    assert len(lines) == 22
    assert lines[-1] == "  and 30 more"


def test_names_with_a_slash(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler:
        with profiler.phase("a"), profiler.phase("b"):
            pass
        with profiler.phase("a/b"):
            pass
        with profiler.phase("c/d"):
            pass
    run = merge_run(run_dir)
    assert_phases(run, {("a/b",): 1, ("a", "b"): 1, "c/d": 1})
    with pytest.raises(ValueError, match=r"'a/b' may be .*: give the tuple"):
        assert_phases(run, "a/b")
    assert text_of(assert_phases, run, [("a/c",)])[1].startswith("  ('a/c',): expected")


def test_entries_that_are_open_count(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler, profiler.phase("loop"):
        run = merge_run(run_dir)
    assert_phases(run, {"loop": 1})
    assert_phases(run, ["loop"])
    assert text_of(assert_phases, run, {"loop": 0}) == [
        "phases:",
        "  'loop': expected 0 entries, found 1, 1 of them still open",
    ]


def test_an_estimate_is_no_exact_number(run_dir: Path) -> None:
    with Profiler(run_dir, snapshot_interval_s=None) as profiler:
        for _ in range(100):
            with profiler.phase("fast", sample=0.1):
                profiler.count("n", 2)
    run = merge_run(run_dir)
    assert_phases(run, ["fast"])
    assert_phases(run, {"fast": AtLeast(80)})
    entries = run.tree[("fast",)].calls
    assert text_of(assert_phases, run, {"fast": entries}) == [
        "phases:",
        f"  'fast': expected {entries} entries, found about {entries}"
        " (an estimate, the phase is sampled)",
    ]
    counters = run.tree[("fast",)].counters
    assert_counters(run, "fast", {"n": AtLeast(150), "m": 0})
    assert text_of(assert_counters, run, "fast", dict(counters)) == [
        "counters of 'fast':",
        f"  'n': expected {counters['n']}, found about {counters['n']}"
        " (an estimate, the phase is sampled)",
    ]


def test_counters(run: Run) -> None:
    assert_counters(run, "iteration/mcts", {"simulations": 384}, exact=True)
    assert_counters(run, ("iteration", "mcts"), {"simulations": AtLeast(64)}, role="learner")
    assert_counters(run, "iteration/mcts", ["simulations"])
    assert_counters(run, (), {"outside": 6, "inside": 0})
    assert text_of(assert_counters, run, "iteration/mcts", {"simulation": 4, "simulations": 9}) == [
        "counters of 'iteration/mcts':",
        "  'simulation': expected 4, found none; did you mean 'simulations'?",
        "  'simulations': expected 9, found 384",
    ]
    assert text_of(assert_counters, run, "iteration", ["games"], role="actor") == [
        "counters of 'iteration' of role 'actor':",
        "  'games': expected it to be counted, found none; there are none",
    ]
    assert text_of(assert_counters, run, (), [], exact=True) == [
        "counters of ():",
        "  'outside': not expected, found 6",
    ]
    assert text_of(assert_counters, run, "mcts", ["simulations"]) == [
        "phases:",
        "  'mcts': found no such phase; did you mean 'iteration/mcts' (found 6)?",
    ]


def test_a_saturated_counter_says_so(run_dir: Path) -> None:
    for _ in range(2):
        with Profiler(run_dir, run_id="one", snapshot_interval_s=None) as profiler:
            profiler.count("n", 2**63 - 1)
    lines = text_of(assert_counters, merge_run(run_dir), (), {"n": 5})
    assert f"found {2**63 - 1} (saturated: " in lines[1]


@pytest.mark.parametrize(
    ("assertion", "arguments", "said"),
    [
        (assert_phases, [("iteration", "mcts")], r"\[\('iteration', 'mcts'\)\] is one path"),
        (assert_phases, [[()]], "a path is a tuple"),
        (assert_phases, [[3]], "a path is a tuple"),
        (assert_phases, [""], "a path is a tuple"),
        (assert_phases, [{"iteration": 1.5}], "int or AtLeast, not float"),
        (assert_phases, [{"iteration": True}], "int or AtLeast, not bool"),
        (assert_roles, [3], "must be names, not int"),
        (assert_roles, [[("actor",)]], "a name must be str, not tuple"),
        (assert_counters, [3, ["n"]], "a path is a tuple"),
    ],
)
def test_wrong_expectations_are_refused(
    run: Run, assertion: Any, arguments: list[Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        assertion(run, *arguments)


def test_only_runs_are_looked_at(run_dir: Path) -> None:
    assertions: list[tuple[Any, ...]] = [
        (assert_roles, ["a"]),
        (assert_phases, ["a"]),
        (assert_counters, (), ["a"]),
        (assert_no_caveats,),
        (assert_no_stale_workers,),
    ]
    for assertion, *arguments in assertions:
        with pytest.raises(TypeError, match=r"give the run that merge_run\(\) returns, not str"):
            assertion(str(run_dir), *arguments)


def test_at_least() -> None:
    assert AtLeast(2) == 2 == AtLeast(2)
    assert AtLeast(2) == 3
    assert AtLeast(2) != 1
    assert AtLeast(2) != AtLeast(3)
    assert AtLeast(2) != "3"
    assert repr(AtLeast(2)) == "AtLeast(2)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(AtLeast(2))


def age(run_dir: Path, role: str, seconds: int) -> None:
    """Make the worker of a role one that stopped so long before the others, without close."""
    for path in run_dir.glob("workers/*/*.json"):
        document = json.loads(path.read_text())
        if document["role"] == role:
            document["state"] = "running"
            for stamp in ("started", "written"):
                for clock in document[stamp]:
                    document[stamp][clock] -= seconds * 10**9
            path.write_text(json.dumps(document))


def test_a_worker_that_went_quiet(run_dir: Path) -> None:
    record(run_dir, "actor", 2)
    with Profiler(run_dir, "learner", run_id="one", snapshot_interval_s=30):
        pass
    run = merge_run(run_dir)
    assert_no_stale_workers(run)
    assert_no_stale_workers(run, max_silent_s=0)
    age(run_dir, "learner", 500)
    after = merge_run(run_dir)
    [worker] = after.workers_of("learner")
    assert text_of(assert_no_stale_workers, after) == [
        "workers that went quiet:",
        f"  'learner', pid {worker.pid} on {worker.host}: silent for the last 500 s of the run,"
        " in no phase",
    ]
    assert_no_stale_workers(after, max_silent_s=600)
    text_of(assert_no_stale_workers, after, max_silent_s=400)
    age(run_dir, "actor", 2000)  # it writes only when it is told to
    after = merge_run(run_dir)
    assert_no_stale_workers(after)
    assert "'actor'" in text_of(assert_no_stale_workers, after, max_silent_s=400)[1]


def test_caveats(run: Run, run_dir: Path) -> None:
    assert_no_caveats(run)
    record_of_another = Profiler(run_dir, "actor", run_id="two", snapshot_interval_s=None)
    with record_of_another as profiler, profiler.phase("iteration"):
        pass
    after = merge_run(run_dir)
    [line] = text_of(assert_no_caveats, after)[1:]
    assert line.startswith("  [superseded] an earlier attempt in this directory is left out: one")
    assert_no_caveats(after, allow=["superseded"])
    assert_no_caveats(after, allow="superseded")
    [file] = run_dir.glob("workers/*/w_two*.json")
    file.with_name("w_two_7_00000000.json").write_text("{")
    after = merge_run(run_dir)
    text_of(assert_roles, after, ["learner"])
    lines = text_of(assert_no_caveats, after, allow=["superseded"])
    assert [line for line in lines if line.startswith("  [unreadable] ")]

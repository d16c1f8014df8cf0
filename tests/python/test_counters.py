"""Counters: where they land, what they take, what they keep (C1 to C3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineprofiler.accounting import Profiler, Run, merge_run
from lineprofiler.run import Counter

Finish = Callable[[], Run]

LEAST, MOST = -(2**63), 2**63 - 1


class Index:
    """What numpy's integers are to us."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Broken:
    def __index__(self) -> int:
        raise ZeroDivisionError("from __index__")


def test_a_count_goes_to_the_open_phase_C1(profiler: Profiler, finish: Finish) -> None:
    profiler.count("n", 1)
    with profiler.phase("a"):
        profiler.count("n", 10)
        with profiler.phase("b"):
            profiler.count("n", 100)
            profiler.count("m")
        profiler.count("n", 1000)
    profiler.count("n", 10_000)
    tree = finish().tree
    assert tree.root.counters == tree[()].counters == {"n": 10_001}
    assert tree[("a",)].counters == {"n": 1010}
    assert tree[("a", "b")].counters == {"n": 100, "m": 1}
    assert tree.root.calls == 0


def test_threads_count_apart_and_add_up_C1(profiler: Profiler, finish: Finish) -> None:
    def work() -> None:
        with profiler.phase("work"):
            for _ in range(10_000):
                profiler.count("n", 2)
        profiler.count("outside")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tree = finish().tree
    assert tree[("work",)].counters == {"n": 80_000}
    assert tree[("work",)].counters["n"].calls == 40_000
    assert tree.root.counters == {"outside": 4}


@pytest.mark.parametrize(
    "bad", [1.0, 0.5, float("nan"), float("inf"), "1", None, 1j, [], b"1"], ids=repr
)
def test_only_integers_are_taken_C2(profiler: Profiler, finish: Finish, bad: Any) -> None:
    profiler.count("n", 5)
    kind = type(bad).__name__
    with pytest.raises(TypeError, match=f"counter 'n': n must be an integer, not {kind}"):
        profiler.count("n", bad)
    with pytest.raises(TypeError):
        profiler.count("new", bad)
    tree = finish().tree
    assert tree.root.counters == {"n": 5}
    assert tree.root.counters["n"].calls == 1


def test_whatever_has_an_index_is_taken_C2(profiler: Profiler, finish: Finish) -> None:
    profiler.count("n", Index(7))
    profiler.count("n", True)
    profiler.count("n", n=Counter(4))
    with pytest.raises(ZeroDivisionError, match="from __index__"):
        profiler.count("n", Broken())
    assert finish().tree.root.counters == {"n": 12}


@pytest.mark.parametrize("value", [MOST + 1, LEAST - 1, 10**30, Index(2**64)], ids=str)
def test_a_value_beyond_64_bits_leaves_the_counter_C2(
    profiler: Profiler, finish: Finish, value: int
) -> None:
    profiler.count("n", 5)
    with pytest.raises(OverflowError, match="counter 'n'"):
        profiler.count("n", value)
    assert finish().tree.root.counters["n"].calls == 1


def test_a_sum_beyond_64_bits_leaves_the_counter_C2(profiler: Profiler, finish: Finish) -> None:
    profiler.count("up", MOST)
    profiler.count("down", LEAST)
    for _ in range(2):
        with pytest.raises(OverflowError, match="counter 'up'"):
            profiler.count("up")
        with pytest.raises(OverflowError, match="counter 'down'"):
            profiler.count("down", -1)
    profiler.count("up", -1)
    counters = finish().tree.root.counters
    assert counters == {"up": MOST - 1, "down": LEAST}
    assert (counters["up"].calls, counters["up"].min, counters["up"].max) == (2, -1, MOST)
    assert (counters["down"].calls, counters["down"].min, counters["down"].max) == (1, LEAST, LEAST)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(LEAST - 2, MOST + 2)), max_size=30
    )
)
def test_counters_are_those_of_a_dict_C2_C3(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[str, int]]
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    expected: dict[str, list[int]] = {}
    with Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        for name, n in values:
            fits = LEAST <= n <= MOST and LEAST <= sum(expected.get(name, [])) + n <= MOST
            try:
                profiler.count(name, n)
            except OverflowError:
                assert not fits
            else:
                assert fits
                expected.setdefault(name, []).append(n)
    counters = merge_run(run_dir).tree.root.counters
    assert {name: (int(c), c.calls, c.min, c.max) for name, c in counters.items()} == {
        name: (sum(ns), len(ns), min(ns), max(ns)) for name, ns in expected.items()
    }


def test_the_merge_adds_up_C3(run_dir: Path) -> None:
    for value in (3, -4, 9):
        profiler = Profiler(run_dir, run_id="one", snapshot_interval_s=None)
        with profiler, profiler.phase("a"):
            profiler.count("n", value)
    counter = merge_run(run_dir).tree[("a",)].counters["n"]
    assert (counter, counter.calls, counter.min, counter.max) == (8, 3, -4, 9)


def test_arguments_are_bound_as_python_does(profiler: Profiler, finish: Finish) -> None:
    count: Any = profiler.count
    count(name="n", n=2)
    count("n", n=3)
    count(n=4, name="n")
    for arguments, keywords in (
        ((), {}),
        ((), {"n": 1}),
        (("n", 1, 2), {}),
        (("n",), {"name": "n"}),
        (("n", 1), {"n": 1}),
        (("n",), {"by": 1}),
    ):
        with pytest.raises(TypeError):
            count(*arguments, **keywords)
    assert finish().tree.root.counters == {"n": 9}


def test_many_counters(profiler: Profiler, finish: Finish) -> None:
    for repeat in range(3):
        for i in range(500):
            profiler.count(f"counter {i}", i * repeat)
    assert finish().tree.root.counters == {f"counter {i}": 3 * i for i in range(500)}

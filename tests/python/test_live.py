"""A running process looked at from inside: merged_tree(), deltas() (I1)."""

from __future__ import annotations

import pickle
import random
import threading
from collections import Counter as Tally
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lineprofiler.accounting import Profiler, Run, Tree, merge_run

if TYPE_CHECKING:
    from conftest import Child

FIGURES = ("calls", "wall_ns", "cpu_ns", "nocpu_wall_ns", "child_wall_ns", "late_wall_ns")


def enter(profiler: Profiler, *path: str) -> None:
    """Enter and leave the phases of the path, one inside the other."""
    if path:
        with profiler.phase(path[0]):
            enter(profiler, *path[1:])


class Sum:
    """Intervals, added up."""

    def __init__(self) -> None:
        self.figures = Tally[tuple[tuple[str, ...], str]]()
        self.buckets = Tally[tuple[tuple[str, ...], int]]()
        self.counters = Tally[tuple[tuple[str, ...], str, str]]()

    def add(self, tree: Tree) -> None:
        for path in [(), *tree]:
            node = tree[path]
            for name in (*FIGURES, "ended_wall_ns"):
                value = getattr(node, name) or 0
                assert value >= 0
                self.figures[path, name] += value
            for bucket, count in node.hist.counts.items():
                assert count > 0
                self.buckets[path, bucket] += count
            for name, counter in node.counters.items():
                assert counter.calls > 0
                self.counters[path, name, "sum"] += counter
                self.counters[path, name, "calls"] += counter.calls

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and all(
            +getattr(self, name) == +getattr(other, name)
            for name in ("figures", "buckets", "counters")
        )

    __hash__ = None  # type: ignore[assignment]


def sum_of(*trees: Tree) -> Sum:
    result = Sum()
    for tree in trees:
        result.add(tree)
    return result


# ---- merged_tree ---------------------------------------------------------------


@pytest.mark.parametrize("thread_names", [False, True])
def test_the_tree_is_what_a_reader_of_the_run_gets_I1(run_dir: Path, thread_names: bool) -> None:
    with Profiler(run_dir, thread_names=thread_names, snapshot_interval_s=None) as profiler:
        threads = [
            threading.Thread(target=enter, args=(profiler, "a", "b \udcff/"), name=f"t{i % 2}")
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        profiler.count("n", 5)
        live = profiler.merged_tree()
        assert type(live) is Tree
    assert profiler.merged_tree() == merge_run(run_dir).tree
    assert live == profiler.merged_tree()
    assert live.root.counters == ({} if thread_names else {"n": 5})
    top = ("t0",) if thread_names else ()
    assert live[(*top, "a", "b \udcff/")].calls == (2 if thread_names else 4)
    assert live[(*top, "a")].workers == 1


def test_open_entries_count_up_to_now_I1(profiler: Profiler) -> None:
    with profiler.phase("a"):
        first, second = profiler.merged_tree()[("a",)], profiler.merged_tree()[("a",)]
        assert first.calls == second.calls == 0
        assert first.open_calls == 1
        assert 0 < first.wall_ns == first.open_wall_ns < second.wall_ns
        assert first.mean_ns is None
    node = profiler.merged_tree()[("a",)]
    assert (node.calls, node.open_calls, node.open_wall_ns) == (1, 0, 0)
    assert node.mean_ns == node.ended_wall_ns == node.wall_ns


def test_nothing_recorded_is_an_empty_tree_I1(run_dir: Path) -> None:
    off = Profiler(run_dir, enabled=False)
    enter(off, "a")
    on = Profiler(run_dir, snapshot_interval_s=None)
    for profiler in (off, on):
        for tree in (profiler.merged_tree(), profiler.deltas()):
            assert type(tree) is Tree
            assert dict(tree) == {}
            assert tree.root.counters == {}
        profiler.close()
        assert dict(profiler.merged_tree()) == {}
    assert off.path is None


# ---- deltas --------------------------------------------------------------------


def test_an_interval_has_what_happened_in_it_I1(profiler: Profiler) -> None:
    for _ in range(3):
        enter(profiler, "a", "b")
    enter(profiler, "idle")
    assert {path: node.calls for path, node in profiler.deltas().items()} == {
        ("a",): 3,
        ("a", "b"): 3,
        ("idle",): 1,
    }
    before = profiler.merged_tree()
    for _ in range(2):
        enter(profiler, "a", "b")
    enter(profiler, "new")
    after, delta = profiler.merged_tree(), profiler.deltas()
    assert list(delta) == [("a",), ("a", "b"), ("new",)]
    for path in [("a",), ("a", "b")]:
        for name in (*FIGURES, "ended_wall_ns"):
            assert getattr(delta[path], name) == getattr(after[path], name) - getattr(
                before[path], name
            )
        rest = Tally(after[path].hist.counts) - Tally(before[path].hist.counts)
        assert delta[path].hist.counts == dict(rest)
        assert delta[path].hist.total == delta[path].calls == 2
        assert 0 < delta[path].hist.quantile(0.5) <= delta[path].wall_ns
        assert delta[path].wait_ns is not None
        assert delta[path].mean_ns == delta[path].wall_ns / 2
    assert delta[("new",)] == after[("new",)]
    assert dict(profiler.deltas()) == {}


def test_a_phase_that_stays_open_is_in_every_interval_I1(profiler: Profiler) -> None:
    with profiler.phase("long"):
        first = profiler.deltas()[("long",)]
        enter(profiler, "short")
        second = profiler.deltas()
    third, [last] = profiler.deltas()[("long",)], profiler.merged_tree().children()
    assert first.calls == second[("long",)].calls == 0
    assert min(first.wall_ns, second[("long",)].wall_ns, third.wall_ns) > 0
    assert first.open_calls == second[("long",)].open_calls == 1
    assert second[("long",)].open_wall_ns > second[("long",)].wall_ns, "since it was opened"
    assert second[("long",)].child_wall_ns == second[("long", "short")].wall_ns
    assert first.wall_ns + second[("long",)].wall_ns + third.wall_ns == last.wall_ns
    # Its duration is that of the whole entry, also where it began before the interval.
    assert (third.calls, third.mean_ns) == (1, last.wall_ns)


def test_counters_of_an_interval_I1(profiler: Profiler) -> None:
    profiler.count("outside", 7)
    with profiler.phase("a"):
        profiler.count("n", 5)
        profiler.count("still", 1)
        first = profiler.deltas()
        assert first.root.counters == {"outside": 7}
        profiler.count("n", -8)
        profiler.count("n", 1)
        second = profiler.deltas()
    assert second.root.counters == {}
    assert second[("a",)].counters == {"n": -7}, "what counts down may be negative"
    counter = second[("a",)].counters["n"]
    assert (counter.calls, counter.min, counter.max) == (2, None, None)
    assert repr(counter) == "Counter(-7, calls=2, min=None, max=None)"


def test_without_cpu_time_it_is_unknown_in_intervals_too(run_dir: Path) -> None:
    with Profiler(run_dir, measure_cpu=False, snapshot_interval_s=None) as profiler:
        for _ in range(2):
            enter(profiler, "a")
            node = profiler.deltas()[("a",)]
            assert (node.cpu_ns, node.wait_ns) == (None, None)
            assert node.wall_ns > 0


def test_threads_stand_by_name_in_intervals_too(run_dir: Path) -> None:
    with Profiler(run_dir, thread_names=True, snapshot_interval_s=None) as profiler:
        enter(profiler, "a")
        profiler.deltas()
        thread = threading.Thread(target=enter, args=(profiler, "a"), name="other")
        thread.start()
        thread.join()
        delta = profiler.deltas()
        assert list(delta) == [("other",), ("other", "a")]
        assert delta[("other",)].is_thread


def test_intervals_add_up_to_the_run_I1(profiler: Profiler, finish: Callable[[], Run]) -> None:
    """Whatever is done between them, on how many threads, open or not."""
    chance = random.Random(1)
    intervals = []

    def work(seed: int, ready: threading.Barrier) -> None:
        mine = random.Random(seed)
        for _ in range(20):
            ready.wait()
            for _ in range(mine.randrange(40)):
                with profiler.phase(mine.choice("abc")):
                    enter(profiler, *mine.choices("xyz", k=mine.randrange(3)))
                    profiler.count(mine.choice("mn"), mine.randrange(-5, 9))

    ready = threading.Barrier(3)
    threads = [threading.Thread(target=work, args=(seed, ready)) for seed in (2, 3)]
    for thread in threads:
        thread.start()
    with profiler.phase("main"):
        for _ in range(20):
            ready.wait()
            intervals += [profiler.deltas() for _ in range(chance.randrange(5))]
        for thread in threads:
            thread.join()
        intervals.append(profiler.deltas())
    tree = finish().tree
    intervals.append(profiler.deltas())
    assert sum_of(*intervals) == sum_of(tree)


def test_callers_share_the_intervals_out_I1(profiler: Profiler) -> None:
    found: list[Tree] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            found.append(profiler.deltas())

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(3_000):
        enter(profiler, "a", "bc"[i % 2])
    done.set()
    for thread in threads:
        thread.join()
    profiler.close()
    found.append(profiler.deltas())
    assert sum_of(*found) == sum_of(profiler.merged_tree())


def test_after_close_the_last_interval_is_there_once(profiler: Profiler) -> None:
    enter(profiler, "a")
    profiler.deltas()
    enter(profiler, "a")
    profiler.close()
    assert profiler.deltas()[("a",)].calls == 1
    assert dict(profiler.deltas()) == {}
    assert profiler.merged_tree()[("a",)].calls == 2


def test_a_forked_child_begins_anew_I1(child: Child, run_dir: Path) -> None:
    code = """
import json, os, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], snapshot_interval_s=None, sample_interval_s=None)
def calls(tree):
    return {"/".join(path): node.calls for path, node in tree.items()}
for _ in range(5):
    with profiler.phase("a"): pass
profiler.deltas()
ask, tell = os.pipe()
if os.fork() == 0:
    none = calls(profiler.deltas()), calls(profiler.merged_tree())
    with profiler.phase("a"): pass
    some = calls(profiler.deltas()), calls(profiler.merged_tree())
    os.write(tell, json.dumps([none, some]).encode())
    os._exit(0)
with profiler.phase("b"): pass
os.wait()
print(json.dumps([json.loads(os.read(ask, 1000)), calls(profiler.deltas())]))
"""
    in_child, in_parent = child.json(code, run_dir)
    assert in_child == [[{}, {}], [{"a": 1}, {"a": 1}]]
    assert in_parent == {"b": 1}


def test_pickled_intervals_come_back(profiler: Profiler) -> None:
    enter(profiler, "a")
    with profiler.phase("a"):
        profiler.count("n")
    delta = profiler.deltas()
    again = pickle.loads(pickle.dumps(delta[("a",)]))
    assert again == delta[("a",)]
    assert again.counters["n"].min is None

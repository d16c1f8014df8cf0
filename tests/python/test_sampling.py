"""phase(sample=): one entry in so many is measured."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineprofiler.accounting import Profiler, Run, merge_run

Finish = Callable[[], Run]


@pytest.mark.parametrize(
    ("sample", "stride"), [(0.01, 100), (0.5, 2), (0.3, 3), (0.4, 2), (0.7, 1), (0.66, 2), (1, 1)]
)
def test_the_stride_is_the_rounded_inverse_G1(
    sample: float, stride: int, profiler: Profiler, finish: Finish
) -> None:
    for _ in range(2 * stride + 1):
        with profiler.phase("x", sample=sample):
            profiler.count("n", 3)
    node = finish().tree[("x",)]
    assert node.stride == (stride, stride)
    assert node.calls == node.hist.total == 3 * stride  # the first, and every stride-th after it
    assert node.counters == {"n": 9 * stride}
    assert node.counters["n"].calls == 3 * stride
    assert (node.counters["n"].min, node.counters["n"].max) == (3, 3)
    assert node.estimated == (stride > 1)


def test_times_are_scaled_G1(profiler: Profiler, finish: Finish) -> None:
    with profiler.phase("all"):
        for _ in range(30):
            with profiler.phase("x", sample=0.1), profiler.phase("inside"):
                sum(range(2000))
    tree = finish().tree
    outer, sampled, inside = tree[("all",)], tree[("all", "x")], tree[("all", "x", "inside")]
    assert sampled.wall_ns % 10 == inside.wall_ns % 10 == sampled.child_wall_ns % 10 == 0
    assert sampled.child_wall_ns == inside.wall_ns
    assert outer.child_wall_ns == min(sampled.wall_ns, outer.wall_ns)
    assert inside.stride == (10, 10)
    assert outer.stride == (1, 1)
    assert not outer.estimated


def test_the_subtree_of_a_skipped_entry_records_nothing_G1(
    profiler: Profiler, finish: Finish
) -> None:
    for i in range(10):
        with profiler.phase("x", sample=0.1):
            profiler.count("seen", i)
            with profiler.phase("measured" if i == 0 else "never"):
                profiler.count("inside")
        profiler.count("outside")
    tree = finish().tree
    assert set(tree) == {("x",), ("x", "measured")}
    assert tree[("x",)].counters == {"seen": 0}
    assert tree[("x", "measured")].counters == {"inside": 10}
    assert tree.root.counters == {"outside": 10}


def test_nested_strides_multiply_G1(profiler: Profiler, finish: Finish) -> None:
    for _ in range(100):
        with profiler.phase("a", sample=0.1), profiler.phase("b", sample=0.2):
            profiler.count("n")
    tree = finish().tree
    assert tree[("a",)].calls == 100
    assert tree[("a", "b")].calls == 100  # 10 entries met it, of which 2 were measured
    assert tree[("a", "b")].stride == (50, 50)
    assert tree[("a", "b")].counters == {"n": 100}


def test_a_sampled_and_a_measured_phase_of_one_name_G2(profiler: Profiler, finish: Finish) -> None:
    for _ in range(20):
        with profiler.phase("x", sample=0.1):
            pass
    for _ in range(7):
        with profiler.phase("x"):
            pass
    node = finish().tree[("x",)]
    assert node.calls == 27
    assert node.stride == (1, 10)
    assert node.estimated


def test_each_path_has_a_stride_of_its_own_G1(profiler: Profiler, finish: Finish) -> None:
    for _ in range(4):
        with profiler.phase("p"), profiler.phase("x", sample=0.25):
            pass
    for _ in range(4):
        with profiler.phase("q"), profiler.phase("x", sample=0.25):
            pass
    tree = finish().tree
    assert tree[("p", "x")].calls == tree[("q", "x")].calls == 4


def test_where_it_is_while_it_is_skipped_D3_G1(profiler: Profiler) -> None:
    seen = []
    for _ in range(2):
        with profiler.phase("a"), profiler.phase("x", sample=0.5):
            seen.append(profiler.current())
    assert seen == ["a/x", "a/x"]
    assert profiler.current() == ""


def skipped(profiler: Profiler) -> contextlib.ExitStack:
    """Open an entry that is skipped."""
    with profiler.phase("x", sample=1e-6):
        pass
    stack = contextlib.ExitStack()
    stack.enter_context(profiler.phase("x", sample=1e-6))
    return stack


def in_a_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_skipped_entry_ends_in_any_order_B8_G1(profiler: Profiler, finish: Finish) -> None:
    outer = contextlib.ExitStack()
    outer.enter_context(profiler.phase("outer"))
    stack = skipped(profiler)
    inner = contextlib.ExitStack()
    inner.enter_context(profiler.phase("inner"))
    outer.close()
    with profiler.phase("nothing"):
        pass
    stack.close()
    with profiler.phase("after"):
        pass
    inner.close()
    assert set(finish().tree) == {("outer",), ("outer", "x"), ("after",)}


def test_a_skipped_entry_ends_on_another_thread_B8_G1(profiler: Profiler, finish: Finish) -> None:
    stack = skipped(profiler)
    in_a_thread(stack.close)
    with profiler.phase("after"):
        pass
    assert set(finish().tree) == {("x",), ("after",)}


def test_threads_and_tasks_skip_apart_G1(profiler: Profiler, finish: Finish) -> None:
    async def task(name: str) -> None:
        with profiler.phase(name):
            await asyncio.sleep(0)

    async def main() -> None:
        with skipped(profiler):
            await asyncio.gather(task("one"), task("two"))
            with profiler.phase("never"):
                await asyncio.sleep(0)

    with skipped(profiler):
        in_a_thread(lambda: profiler.phase("thread").__enter__().__exit__(None, None, None))
        asyncio.run(main())
    tree = finish().tree
    assert {path: node.calls for path, node in tree.items()} == {
        ("x",): 10**6,
        ("thread",): 1,
        ("one",): 1,
        ("two",): 1,
    }


def test_a_skipped_entry_may_raise_B3_G1(profiler: Profiler, finish: Finish) -> None:
    for _ in range(4):
        with pytest.raises(KeyError), profiler.phase("x", sample=0.5):
            raise KeyError
    with profiler.phase("after"):
        pass
    assert set(finish().tree) == {("x",), ("after",)}


def test_a_handle_is_sampled_B11_G1(profiler: Profiler, finish: Finish) -> None:
    handle = profiler.phase("x", sample=0.25)
    for _ in range(8):
        with handle:
            pass
    assert finish().tree[("x",)].calls == 8


def test_the_report_marks_what_is_estimated_G2(profiler: Profiler, run_dir: Path) -> None:
    for _ in range(200):
        with profiler.phase("hot", sample=0.01):
            pass
    profiler.close()
    command = [str(Path(sys.executable).parent / "lineprofiler"), "report", str(run_dir)]
    page = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    [row] = re.findall(r"(?m)^~hot .*$", page.split("DOMINANT PHASES")[1])
    assert row.endswith(" 200")
    assert re.search(r"(?m)^ +hot +1 entry in 100$", page)
    command.append("--json")
    document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    [phase] = document["roles"][0]["phases"]
    assert (phase["estimated"], phase["stride_min"], phase["stride_max"]) == (True, 100, 100)


def test_a_phase_that_threads_entered_too_seldom_is_named_G2(
    profiler: Profiler, finish: Finish
) -> None:
    all_there = threading.Barrier(8)

    def work() -> None:
        all_there.wait()  # else one after the other, they would share a place
        for _ in range(10):
            with profiler.phase("seldom", sample=0.01), profiler.phase("inside"):
                pass
        all_there.wait()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(1001):
        with profiler.phase("often", sample=0.01):
            pass
    run = finish()
    assert run.tree[("seldom",)].calls == 800
    [caveat] = [caveat.text for caveat in run.caveats if caveat.kind == "estimated"]
    assert caveat.startswith("seldom of tested: up to 792 of its ~800 calls may not have been")
    assert "one in 100" in caveat


@settings(max_examples=40, deadline=None)
@given(strides=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=40))
def test_counts_are_those_of_the_rule_G1(
    strides: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    met: dict[tuple[int, ...], int] = {}
    measured: dict[tuple[int, ...], int] = {}

    def due(*path: int) -> bool:
        met[path] = met.get(path, 0) + 1
        if (met[path] - 1) % path[-1]:
            return False
        measured[path] = measured.get(path, 0) + 1
        return True

    with Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None) as profiler:
        for a, b in strides:
            with profiler.phase(f"a{a}", sample=1 / a), profiler.phase(f"b{b}", sample=1 / b):
                pass
            if due(a):
                due(a, b)
    expected = {}
    for path, n in measured.items():
        scale = 1
        for stride in path:
            scale *= stride
        expected[tuple(f"{'ab'[i]}{stride}" for i, stride in enumerate(path))] = n * scale
    assert {path: node.calls for path, node in merge_run(run_dir).tree.items()} == expected

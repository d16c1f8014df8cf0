"""annotate=True (M3): ranges around phases for other tools, and that phases stay what they are."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import pickle
import sys
import threading
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lineprofiler import _core, accounting
from lineprofiler.accounting import Profiler, merge_run


class Ranges:
    """Stands for the package nvtx, and sees what an nsys would."""

    def __init__(self) -> None:
        self.module = types.ModuleType("nvtx")
        self.numbers = itertools.count(1)
        self.open: dict[int, str] = {}
        self.ended: list[str] = []
        self.module.start_range = self.start  # type: ignore[attr-defined]
        self.module.end_range = self.end  # type: ignore[attr-defined]

    def start(self, name: str) -> int:
        number = next(self.numbers)
        self.open[number] = name
        return number

    def end(self, number: int) -> None:
        self.ended.append(self.open.pop(number))


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Ranges:
    made = Ranges()
    monkeypatch.setitem(sys.modules, "nvtx", made.module)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return made


@pytest.fixture
def annotated(run_dir: Path, ranges: Ranges) -> Iterator[Profiler]:
    assert ranges
    with Profiler(run_dir, annotate=True, snapshot_interval_s=None) as profiler:
        yield profiler


def test_each_entry_is_a_range_M3(annotated: Profiler, ranges: Ranges, run_dir: Path) -> None:
    for _ in range(3):
        with annotated.phase("a"), annotated.phase("b ü"):
            assert list(ranges.open.values()) == ["a", "b ü"]
            assert annotated.current() == "a/b ü"
    assert ranges.ended == ["b ü", "a"] * 3
    annotated.close()
    run = merge_run(run_dir)
    assert run.tree[("a",)].calls == run.tree[("a", "b ü")].calls == 3


def test_the_range_lasts_longer_than_the_phase(annotated: Profiler, ranges: Ranges) -> None:
    seen = []

    def start(name: str) -> int:
        seen.append(annotated.current())
        return Ranges.start(ranges, name)

    def end(number: int) -> None:
        seen.append(annotated.current())
        Ranges.end(ranges, number)

    ranges.module.start_range = start  # type: ignore[attr-defined]
    ranges.module.end_range = end  # type: ignore[attr-defined]
    with annotated.phase("outer"), annotated.phase("inner"):
        pass
    # Its cost is the parent's.
    assert seen == ["", "outer", "outer", ""]


def test_other_profilers_have_plain_phases_O1(run_dir: Path, tmp_path: Path) -> None:
    with Profiler(run_dir) as profiler:
        assert type(profiler.phase("x")) is _core.Phase
    with Profiler(tmp_path / "b", backend="viztracer") as profiler:
        assert type(profiler.phase("x")) is _core.Phase
        assert type(profiler.phase("iteration")) is not _core.Phase


def test_an_exception_ends_the_range(annotated: Profiler, ranges: Ranges) -> None:
    with pytest.raises(KeyError), annotated.phase("a"):
        raise KeyError
    assert ranges.ended == ["a"]
    assert annotated.current() == ""


def test_the_installed_profiler_and_the_decorators(run_dir: Path, ranges: Ranges) -> None:
    profiler = accounting.start(run_dir, annotate=True)

    @profiler.profile
    def step() -> None:
        assert "step" in ranges.open.values()

    @accounting.profile(name="steps", sample=0.5)
    def steps() -> Iterator[int]:
        yield 1
        yield 2

    step()
    assert list(steps()) == [1, 2]
    with accounting.phase("direct"):
        accounting.count("n")
    assert ranges.ended == ["step", "steps", "direct"]
    accounting.stop()
    assert set(merge_run(run_dir).tree) >= {("step",), ("steps",), ("direct",)}


def test_one_kept_phase_in_itself_and_in_threads(
    annotated: Profiler, ranges: Ranges, run_dir: Path
) -> None:
    kept = annotated.phase("kept")
    inside = threading.Barrier(4)

    def work() -> None:
        with kept:
            inside.wait()
            with kept:
                inside.wait()
            inside.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ranges.ended == ["kept"] * 8
    annotated.close()
    tree = merge_run(run_dir).tree
    assert tree[("kept",)].calls == tree[("kept", "kept")].calls == 4


def test_tasks_that_end_in_another_order(annotated: Profiler, ranges: Ranges) -> None:
    kept = annotated.phase("kept")
    order: list[str] = []

    async def work(name: str, before: asyncio.Event, after: asyncio.Event) -> None:
        with annotated.phase(name), kept:
            after.set()
            await before.wait()
            order.append(annotated.current())
        assert name in ranges.ended
        assert annotated.current() == ""

    async def main() -> None:
        first, second, both = asyncio.Event(), asyncio.Event(), asyncio.Event()
        one = asyncio.create_task(work("one", second, first))
        await first.wait()
        two = asyncio.create_task(work("two", both, second))
        await one
        assert sorted(ranges.open.values()) == ["kept", "two"]
        both.set()
        await two

    asyncio.run(main())
    assert order == ["one/kept", "two/kept"]
    assert not ranges.open
    assert ranges.ended == ["kept", "one", "kept", "two"]


def test_generators_that_are_left_behind(annotated: Profiler, ranges: Ranges) -> None:
    def numbers() -> Iterator[int]:
        with annotated.phase("generator"):
            yield 1

    async def asynchronous() -> AsyncIterator[int]:
        with annotated.phase("asynchronous"):
            yield 1

    left = numbers()
    assert next(left) == 1
    with annotated.phase("meanwhile"):
        del left
        gc.collect()
        assert list(ranges.open.values()) == ["meanwhile"]

    async def main() -> None:
        async for _ in asynchronous():
            break

    asyncio.run(main())
    gc.collect()
    assert not ranges.open


def test_both_sides_called_by_themselves(
    annotated: Profiler, ranges: Ranges, run_dir: Path
) -> None:
    kept = annotated.phase("kept")
    assert kept.__enter__() is kept
    kept.__enter__()
    assert annotated.current() == "kept/kept"
    kept.__exit__(None, None, None)
    assert annotated.current() == "kept"
    kept.__exit__(None, None, None)
    kept.__exit__(None, None, None)  # one too many does nothing
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(kept) is kept
        stack.enter_context(annotated.phase("other"))
        assert annotated.current() == "kept/other"
    assert annotated.current() == ""
    assert not ranges.open
    annotated.close()
    assert merge_run(run_dir).tree[("kept",)].calls == 2


def test_a_lost_entry_ends_its_range(annotated: Profiler, ranges: Ranges) -> None:
    enter = annotated.phase("lost").__enter__
    enter()
    del enter
    gc.collect()
    assert not ranges.open
    assert annotated.current() == ""


def test_what_fails_is_counted_and_reaches_nobody(
    annotated: Profiler, ranges: Ranges, run_dir: Path
) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(5, "the tool has gone")

    with annotated.phase("a"):
        annotated._hooks.annotation._begins = None  # type: ignore[union-attr]
        ranges.module.start_range = fail  # type: ignore[attr-defined]
        ranges.module.end_range = fail  # type: ignore[attr-defined]
    with annotated.phase("b"):
        assert annotated.current() == "b"
    with pytest.warns(RuntimeWarning, match="failed, 1 in all, .*the tool has gone"):
        annotated.close()
    [entry] = merge_run(run_dir).metadata["runs"].values()
    assert "the tool has gone" in entry["annotate_error"]


def test_without_any_tool_it_is_nothing(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "nvtx"):
        monkeypatch.setitem(sys.modules, name, None)
    with Profiler(run_dir, annotate=True) as profiler, profiler.phase("a"):
        pass
    assert merge_run(run_dir).tree[("a",)].calls == 1


def test_phases_are_checked_as_ever(annotated: Profiler) -> None:
    with pytest.raises(TypeError, match="name"):
        annotated.phase(1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sample"):
        annotated.phase("a", sample=2)
    assert repr(annotated.phase("a")) == "<lineprofiler phase 'a'>"
    with pytest.raises(TypeError, match="annotate"):
        Profiler("unused", annotate="yes")  # type: ignore[arg-type]


def test_after_close_nothing_is_recorded(annotated: Profiler, ranges: Ranges) -> None:
    kept = annotated.phase("kept")
    annotated.close()
    with kept, annotated.phase("x"):
        assert not ranges.open


def test_copies_and_pickles_of_a_phase(annotated: Profiler, ranges: Ranges) -> None:
    kept = annotated.phase("kept", sample=0.5)
    again = pickle.loads(pickle.dumps(kept))
    assert again is not kept
    with again:
        assert annotated.current() == "kept"
        assert list(ranges.open.values()) == ["kept"]
    assert pickle.loads(pickle.dumps(annotated)) is annotated


def test_torch_counts_once_the_program_has_it(
    annotated: Profiler, monkeypatch: pytest.MonkeyPatch, ranges: Ranges
) -> None:
    with annotated.phase("before"):
        assert list(ranges.open.values()) == ["before"]
    seen: list[str] = []

    class RecordFunction(contextlib.AbstractContextManager[None]):
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            seen.append(f"+{self.name}")

        def __exit__(self, *exception: object) -> None:
            seen.append(f"-{self.name}")

    def range_start(name: str) -> str:
        seen.append(f"({name}")
        return name

    nvtx = types.SimpleNamespace(
        range_start=range_start,
        range_end=lambda name: seen.append(f"{name})"),
    )
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(nvtx=nvtx)  # type: ignore[attr-defined]
    torch.profiler = types.SimpleNamespace(record_function=RecordFunction)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    with annotated.phase("a"):
        assert not ranges.open  # torch's own comes first
    assert seen[-4:] == ["(a", "+a", "-a", "a)"]


def test_nothing_heavy_is_imported_for_it_M3(child: object, run_dir: Path) -> None:
    code = (
        "import json, sys; from lineprofiler.accounting import Profiler\n"
        "with Profiler(sys.argv[1], annotate=True) as p:\n"
        "    with p.phase('a'): pass\n"
        "print(json.dumps(sorted({'torch', 'viztracer', 'jax'} & set(sys.modules))))"
    )
    assert child.json(code, run_dir) == []  # type: ignore[attr-defined]


def test_real_nvtx_ranges_end(run_dir: Path) -> None:
    nvtx = pytest.importorskip("nvtx", reason="the package nvtx is not installed")
    assert nvtx
    with Profiler(run_dir, annotate=True) as profiler:
        for _ in range(100):
            with profiler.phase("a"), profiler.phase("b"):
                pass
        assert profiler._hooks is not None
        assert profiler._hooks.annotation is not None
        assert profiler._hooks.annotation.errors == 0
    assert merge_run(run_dir).tree[("a", "b")].calls == 100

"""profiler.profile and accounting.profile: each call is an entry of a phase."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from lineprofiler import _core, _decorate, accounting
from lineprofiler.accounting import Profiler, Run, merge_run

Finish = Callable[[], Run]


@accounting.profile
def of_this_module(x: int) -> int:
    return x + 1


def calls(tree: Any) -> dict[tuple[str, ...], int]:
    return {path: node.calls for path, node in tree.items()}


def test_each_call_is_a_phase_B10(profiler: Profiler, finish: Finish) -> None:
    @profiler.profile
    def step(a: int, *, b: str = "x") -> str:
        """What it does."""
        profiler.count("steps")
        return b * a

    @profiler.profile(name="other")
    def named() -> str:
        return profiler.current()

    assert step(2) == "xx"
    assert step(a=1, b="y") == "y"
    assert named() == "other"
    assert step.__name__ == "step"
    assert step.__doc__ == "What it does."
    assert str(inspect.signature(step)) == "(a: 'int', *, b: 'str' = 'x') -> 'str'"
    tree = finish().tree
    assert calls(tree) == {("step",): 2, ("other",): 1}
    assert tree[("step",)].counters == {"steps": 2}


def test_recursion_and_exceptions_B3_B4_B10(profiler: Profiler, finish: Finish) -> None:
    @profiler.profile
    def down(n: int) -> None:
        if n == 0:
            raise KeyError("bottom")
        down(n - 1)

    with pytest.raises(KeyError, match="bottom"):
        down(4)
    assert profiler.current() == ""
    assert calls(finish().tree) == {("down",) * depth: 1 for depth in range(1, 6)}


def test_a_coroutine_spans_its_awaits_B10(profiler: Profiler, finish: Finish) -> None:
    @profiler.profile
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        assert profiler.current() == "fetch"
        return n

    async def main() -> list[int]:
        return await asyncio.gather(*(fetch(n) for n in range(10)))

    assert inspect.iscoroutinefunction(fetch)
    assert asyncio.run(main()) == list(range(10))
    fetch(1).close()  # a body that never began is no entry
    assert calls(finish().tree) == {("fetch",): 10}


def test_a_generator_is_one_entry_B10(profiler: Profiler, finish: Finish) -> None:
    @profiler.profile
    def numbers(n: int) -> Generator[int, str, str]:
        got = yield -1
        for i in range(n):
            try:
                got = yield i
            except ValueError as error:
                got = str(error)
        return got

    assert inspect.isgeneratorfunction(numbers)
    assert list(numbers(3)) == [-1, 0, 1, 2]
    stepped = numbers(3)
    assert next(stepped) == -1
    assert stepped.send("sent") == 0
    assert stepped.throw(ValueError("thrown")) == 1
    assert profiler.current() == "numbers"
    stepped.close()
    assert profiler.current() == ""
    numbers(5)  # a body that never began is no entry
    abandoned = numbers(3)
    next(abandoned)
    del abandoned
    assert calls(finish().tree) == {("numbers",): 3}


def test_an_asynchronous_generator_is_one_entry_B10(profiler: Profiler, finish: Finish) -> None:
    seen: list[object] = []

    @profiler.profile
    async def stream(n: int) -> AsyncGenerator[int, str]:
        try:
            for i in range(n):
                await asyncio.sleep(0)
                try:
                    seen.append((yield i))
                except ValueError as error:
                    seen.append(str(error))
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    async def main() -> None:
        assert [i async for i in stream(3)] == [0, 1, 2]
        stepped = stream(5)
        assert await anext(stepped) == 0
        assert await stepped.asend("sent") == 1
        assert await stepped.athrow(ValueError("thrown")) == 2
        await stepped.aclose()
        assert profiler.current() == ""
        with pytest.raises(StopAsyncIteration):
            await anext(stepped)

    assert inspect.isasyncgenfunction(stream)
    asyncio.run(main())
    assert seen == [None, None, None, "closed", "sent", "thrown", "closed"]
    assert calls(finish().tree) == {("stream",): 2}


def test_methods_of_all_kinds_B10(profiler: Profiler, finish: Finish) -> None:
    class Trainer:
        @profiler.profile
        def method(self) -> type:
            return type(self)

        @profiler.profile
        @classmethod
        def of_class(cls) -> type:
            return cls

        @classmethod
        @profiler.profile
        def of_class_inside(cls) -> type:
            return cls

        @profiler.profile
        @staticmethod
        def static() -> int:
            return 1

        @property
        @profiler.profile
        def value(self) -> int:
            return 2

        def __call__(self, x: int) -> int:
            return x

    trainer = Trainer()
    assert trainer.method() is Trainer.of_class() is trainer.of_class_inside() is Trainer
    assert Trainer.static() == trainer.static() == 1
    assert trainer.value == 2
    assert profiler.profile(trainer)(3) == 3
    assert profiler.profile(functools.partial(max, 4))(5) == 5
    assert profiler.profile(len)("abc") == 3
    assert calls(finish().tree) == {
        ("method",): 1,
        ("of_class",): 1,
        ("of_class_inside",): 1,
        ("static",): 2,
        ("value",): 1,
        ("Trainer",): 1,
        ("max",): 1,
        ("len",): 1,
    }


def test_a_sampled_function_G1_B10(profiler: Profiler, finish: Finish) -> None:
    @profiler.profile(sample=0.1)
    def hot() -> None:
        pass

    for _ in range(20):
        hot()
    assert finish().tree[("hot",)].stride == (10, 10)


def test_what_cannot_be_profiled_B10(profiler: Profiler) -> None:
    profile: Any = profiler.profile
    for wrong in (3, "name", int, ValueError):
        with pytest.raises(TypeError, match="a function can be profiled, not"):
            profile(wrong)
    with pytest.raises(TypeError, match="phase name must be str, not int"):
        profile(name=3)
    with pytest.raises(ValueError, match="must not be empty"):
        profile(name="")
    with pytest.raises(ValueError, match="sample"):
        profile(sample=0)
    with pytest.raises(TypeError, match="must be real number, not str"):
        profile(sample="0.1")
    with pytest.raises(ValueError, match="longer than 1048576 bytes"):
        profile(name="x" * (1 << 20) + "y")


def test_the_installed_profiler_of_each_call_B10_D1(run_dir: Path) -> None:
    assert of_this_module(1) == 2
    with Profiler(run_dir, install=True, snapshot_interval_s=None):
        assert of_this_module(1) == 2
        assert pickle.loads(pickle.dumps(of_this_module)) is of_this_module
    assert of_this_module(1) == 2
    assert calls(merge_run(run_dir).tree) == {("of_this_module",): 1}


def test_to_decorate_is_not_to_enter_E2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINEPROFILER_PROFILE", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Profiler() as profiler:
            profiler.profile(len)


def test_inside_of_a_phase_without_a_frame_of_ours(profiler: Profiler, finish: Finish) -> None:
    """For tasks of Ray: their functions were never decorated, and tracebacks show no more."""

    def work(a: int, *rest: int, b: int = 0) -> tuple[Any, ...]:
        callers = [frame.filename for frame in inspect.stack()]
        assert not [name for name in callers if name.endswith("lineprofiler/_decorate.py")]
        return a, rest, b, profiler.current()

    def fail() -> None:
        raise KeyError("mine")

    def generate() -> Generator[int, None, None]:
        yield from range(3)

    def enter() -> Any:
        return profiler.phase("task")

    worked = _decorate.inside(work, enter)
    assert worked(1, 2, 3, b=4) == (1, (2, 3), 4, "task")
    assert (worked.__name__, inspect.signature(worked)) == ("work", inspect.signature(work))
    with pytest.raises(TypeError, match="missing 1 required"):
        worked()
    with pytest.raises(KeyError, match="mine") as raised:
        _decorate.inside(fail, enter)()
    assert [frame.name for frame in raised.traceback][1:] == ["fail"]
    assert raised.value.__context__ is None
    assert list(_decorate.inside(generate, enter)()) == [0, 1, 2]
    assert profiler.current() == ""
    with pytest.raises(TypeError, match="what enters, a function"):
        _core.call_inside(enter)  # type: ignore[call-arg]
    with pytest.raises(ZeroDivisionError):
        _core.call_inside(lambda: 1 // 0, work, 1)  # type: ignore[arg-type, return-value]
    with pytest.raises(AttributeError, match="__exit__"):
        _core.call_inside(lambda: 1, work, 1)  # type: ignore[arg-type, return-value]
    assert calls(finish().tree) == {("task",): 4}

"""How often each line was begun, on every construct of the language (N4)."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lines
from lineprofiler._core import LineEngine

MONITORING = sys.version_info >= (3, 12)


class Program(lines.Program):
    """One whose hits can be held against a trace function's."""

    def traced(self) -> dict[int, int]:
        """What a trace function of Python counts."""
        hits: Counter[int] = Counter()

        def local(frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
            if event == "line":
                hits[frame.f_lineno] += 1
            return local

        def trace(frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
            return local if frame.f_code.co_filename == str(self.path) else None

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            self.names["main"]()
        finally:
            sys.settrace(before)
        return dict(sorted(hits.items()))


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Program]:
    return lambda source: Program(tmp_path, source)


# --- where trace functions and monitoring agree ------------------------------------------------

AGREED = {
    "loop": """
        def main():
            for x in range(10):
                y = x
        """,
    "while": """
        def main():
            i = 0
            while i < 10:
                i += 1
        """,
    "branches LN05": """
        def pick(v):
            if v == 0:
                return 3
            elif v == 1:
                return 4
            else:
                return 5
        def main():
            for v in (0, 1, 2):
                pick(v)
        """,
    "recursion RC05": """
        def rec(n):
            if n == 0:
                return 0
            return 1 + rec(n - 1)
        def main():
            rec(5)
        """,
    "exceptions LN06": """
        def main():
            try:
                raise ValueError
            except ValueError:
                x = 1
            finally:
                x = 2
        """,
    "an exception through several frames": """
        def inner():
            raise KeyError(1)
        def middle():
            inner()
            return 5
        def main():
            for _ in range(3):
                try:
                    middle()
                except KeyError:
                    pass
        """,
    "generator": """
        def gen():
            for i in range(5):
                yield i
        def main():
            for x in gen():
                y = x
        """,
    "yield from DC07": """
        def a():
            for i in range(5):
                yield i
        def b():
            yield from a()
        def c():
            yield from b()
        def main():
            assert list(c()) == [0, 1, 2, 3, 4]
        """,
    "a generator that is sent to, thrown at and closed": """
        def gen():
            got = None
            while True:
                try:
                    got = yield got
                except KeyError:
                    got = "thrown"
        def main():
            g = gen()
            next(g)
            g.send(1)
            g.throw(KeyError(1))
            g.send(2)
            g.close()
        """,
    "with": """
        import contextlib
        def main():
            with contextlib.nullcontext():
                x = 1
            x = 2
        """,
    "closures, decorators, properties DC02 DC04": """
        def twice(f):
            def wrapped(*args):
                f(*args)
                return f(*args)
            return wrapped
        class Thing:
            @property
            def value(self):
                return 5
            @twice
            def act(self, n):
                self.n = n
        def main():
            thing = Thing()
            for i in range(5):
                thing.value
                thing.act(i)
            def inner():
                return 1
            for _ in range(10):
                inner()
        """,
    "class bodies": """
        def main():
            for _ in range(3):
                class Made:
                    x = 1
                    def f(self):
                        return 2
                Made().f()
        """,
    "match": """
        def kind(v):
            match v:
                case 0:
                    return 1
                case [a, b]:
                    return a
                case _:
                    return 2
        def main():
            for v in (0, [1, 2], "x"):
                kind(v)
        """,
    "try in a loop with continue and break": """
        def main():
            for i in range(10):
                try:
                    if i % 2:
                        continue
                    if i == 6:
                        break
                finally:
                    x = i
            else:
                x = None
        """,
    "coroutines": """
        import asyncio
        async def work(n):
            for _ in range(n):
                await asyncio.sleep(0)
            return n
        async def both():
            return await asyncio.gather(work(3), work(2))
        def main():
            asyncio.run(both())
        """,
    "asynchronous generators AS10": """
        import asyncio
        async def gen():
            yield 1
            await asyncio.sleep(0)
            for i in range(4):
                yield i
        async def consume():
            async for x in gen():
                y = x
        def main():
            asyncio.run(consume())
        """,
    "with several": """
        class Opened:
            def __enter__(self):
                return self
            def __exit__(self, *_):
                return True
        a, b = Opened(), Opened()
        def main():
            for _ in range(3):
                with a as x, b as y:
                    z = x
            with a as x, b as y: z = x
            with (
                a as x,
                b as y,
            ):
                return 1
        """,
    "an exception leaves a with of several": """
        class Opened:
            def __enter__(self):
                return self
            def __exit__(self, *_):
                return True
        a, b = Opened(), Opened()
        def main():
            with a as x, b as y:
                raise ValueError
        """,
    "asynchronous with": """
        import asyncio, contextlib
        @contextlib.asynccontextmanager
        async def opened():
            try:
                yield 1
            finally:
                await asyncio.sleep(0)
        async def use():
            async with opened() as x:
                y = x
        def main():
            asyncio.run(use())
        """,
    "globals changed by exec": """
        def main():
            for _ in range(4):
                exec("x = 1")
                eval("1 + 1")
        """,
    "a class with metaclass and descriptors": """
        class Meta(type):
            def __call__(cls, *args):
                made = super().__call__(*args)
                return made
        class Described:
            def __get__(self, instance, owner):
                return 7
        class Made(metaclass=Meta):
            described = Described()
            def __init__(self, n):
                self.n = n
            def __eq__(self, other):
                return self.n == other.n
        def main():
            for i in range(3):
                Made(i) == Made(i)
                Made(i).described
        """,
    "sorted with a key, map, filter": """
        def key(x):
            return -x
        def main():
            sorted(range(20), key=key)
            list(map(key, range(5)))
            list(filter(key, range(5)))
        """,
}


@pytest.mark.parametrize("name", AGREED)
def test_hits_are_those_of_a_trace_function_N4(
    program: Callable[[str], Program], name: str
) -> None:
    measured = program(AGREED[name])
    expected = measured.traced()
    assert measured.run().hits == expected
    # A second session sees everything again.
    assert measured.run().hits == {number: 2 * n for number, n in expected.items()}


# --- what a hit is, where interpreters differ --------------------------------------------------


def test_a_loop_is_reached_once_more_than_it_turns_LN03(program: Callable[[str], Program]) -> None:
    assert program(AGREED["loop"]).run().hits == {3: 11, 4: 10}


def test_bodies_on_the_line_of_their_definition_LN01(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def f(x): return x + 1
        g = lambda x: x + 2
        def main():
            for i in range(5):
                f(i)
                g(i)
        """
    ).run()
    assert measured.hits[2] == 5
    assert measured.hits[3] == 5


def test_a_call_over_several_lines_comes_back_to_its_first_LN02(
    program: Callable[[str], Program],
) -> None:
    measured = program(
        """
        def main():
            for _ in range(100):
                str(
                    1,
                )
        """
    ).run()
    assert measured.hits[4] == 200
    assert measured.hits[5] == 100


def test_a_loop_on_one_line_LN04(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def main():
            for i in range(100): x = i
        """
    ).run()
    assert measured.hits[3] == (1 if MONITORING else 101)


def test_a_with_is_reached_once_more_when_its_block_ends(
    program: Callable[[str], Program],
) -> None:
    measured = program(
        """
        from contextlib import nullcontext
        a, b = nullcontext(), nullcontext()
        def main():
            with a as x, b as y:
                z = x
        """
    ).run()
    assert measured.hits == {5: 2, 6: 1}


def test_a_with_that_is_left_by_an_exception_in_the_middle(
    program: Callable[[str], Program],
) -> None:
    measured = program(
        """
        from contextlib import nullcontext, suppress
        a, b = nullcontext(), suppress(ValueError)
        def main():
            with a as x, b as y:
                try:
                    raise ValueError
                finally:
                    z = 1
        """
    ).run()
    assert measured.hits == {5: 2, 6: 1, 7: 1, 9: 1}
    # A trace function of CPython 3.12 may be told of the line a third time: code jumps back to it.
    assert measured.traced()[5] in (2, 3)


def test_a_comprehension_on_one_line_DC05(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def main():
            [i for i in range(10)]
        """
    ).run()
    assert measured.hits[3] == (1 if MONITORING else 12)


def test_a_comprehension_over_several_lines_DC06(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def main():
            return [
                i
                for i in range(10)
            ]
        """
    ).run()
    assert measured.hits[4] == 10, "the element"


# --- exactness ---------------------------------------------------------------------------------


def test_every_hit_of_four_threads_N4(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import threading
        def work():
            for i in range(100_000):
                x = i
        def main():
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """
    ).run()
    assert measured.hits[4] == 4 * 100_001
    assert measured.hits[5] == 400_000


def test_threads_that_come_and_go_leave_their_hits(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import threading
        def work():
            x = 1
        def main():
            for _ in range(300):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
        """
    ).run()
    assert measured.hits[4] == 300


@pytest.mark.skipif(not MONITORING, reason="a trace function is set for threads that begin")
def test_threads_that_ran_before_TH02(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import threading
        go, done, on = threading.Event(), threading.Event(), threading.Event()
        def work():
            on.set()
            go.wait()
            for i in range(10):
                x = i
            done.set()
            go.wait()
        def main():
            go.set()
            done.wait()
        """
    )
    thread = threading.Thread(target=measured.names["work"], daemon=True)
    thread.start()
    measured.names["on"].wait()
    measured.run()
    thread.join()
    assert measured.hits[7] == 11
    assert measured.hits[8] == 10


def test_equal_code_is_measured_apart_LN10(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def f():
            return 1
        """
    )
    twins = []
    for _ in range(2):
        namespace: dict[str, Any] = {}
        exec(compile(measured.path.read_text(), str(measured.path), "exec"), namespace)
        twins.append(namespace["f"])
    assert twins[0].__code__ == twins[1].__code__
    with measured.engine:
        twins[0]()
        twins[1]()
        twins[1]()
    rows = [lines for _, name, *_, lines in measured.engine.results() if name == "f"]
    assert sorted(row[0][1] for row in rows) == [1, 2]


def test_a_twin_in_another_file_adds_nothing_LN09(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    functions = []
    for folder in (project, elsewhere):
        folder.mkdir()
        path = folder / "x.py"
        path.write_text("def f():\n    return 1\n")
        namespace: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        functions.append(namespace["f"])
    engine = LineEngine(project, [], [], [], [])
    with engine:
        for _ in range(3):
            functions[0]()
            functions[1]()
    [(file, *_, lines)] = engine.results()
    assert file == str(project / "x.py")
    assert lines[0][:2] == (2, 3)


def test_code_that_is_compiled_again_and_again_leaves_one_record(
    program: Callable[[str], Program],
) -> None:
    measured = program("def main(): pass\n")
    with measured.engine:
        for _ in range(500):
            exec(compile("def f():\n    return 1\nf()\n", str(measured.path), "exec"), {})
    gc.collect()
    results = measured.engine.results()
    assert len(results) <= 4
    assert sum(lines[0][1] for _, name, *_, lines in results if name == "f") == 500

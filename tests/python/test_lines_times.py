"""Times of lines against programs that sleep, compute and wait for known amounts (N3, N5)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lines
from lineprofiler._core import LineEngine

MONITORING = sys.version_info >= (3, 12)
MS = 1_000_000

PRELUDE = """
import time
def sleep(ms):
    time.sleep(ms / 1000)
def spin(ms):
    until = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < until:
        pass
"""


@dataclass
class Line:
    hits: int = 0
    own_ns: int = 0
    own_cpu_ns: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0
    awaited_ns: int = 0
    most_awaiting: int = 0


class Program(lines.Program):
    """One that can sleep() and spin(), neither of which is of the project."""

    def __init__(self, folder: Path, source: str) -> None:
        super().__init__(folder, source, PRELUDE)

    def lines(self, *region: str) -> dict[int, Line]:
        """Return the figures of lines, in all regions or in one."""
        by_number: dict[int, Line] = {}
        for _, _, _, path, *_, figures in self.engine.results():
            if region and path != region:
                continue
            for number, *values in figures:
                line = by_number.setdefault(number, Line())
                for name, value in zip(Line.__annotations__, values, strict=True):
                    setattr(line, name, getattr(line, name) + value)
        return by_number


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Program]:
    return lambda source: Program(tmp_path, source)


def near(ns: int, expected_ms: float, more_ms: float = 0) -> bool:
    """Whether it is at least that, and, what the machine may take aside, no more than that."""
    return expected_ms * MS * 0.95 - 20_000 <= ns <= (expected_ms * 1.05 + more_ms) * MS + 20_000


# A busy machine makes sleeps longer, never shorter; computing is measured in CPU time.
LATE_MS = 2000


def test_sleeping_and_computing_N5(program: Callable[[str], Program]) -> None:
    lines = (
        program(
            """
        def main():
            sleep(50)
            spin(50)
        """
        )
        .run()
        .lines()
    )
    assert near(lines[3].wall_ns, 50, LATE_MS)
    assert lines[3].cpu_ns < 10 * MS
    assert near(lines[4].cpu_ns, 50, 5)
    assert lines[4].wall_ns >= lines[4].cpu_ns - 20_000


def test_what_a_line_calls_is_its_own_only_outside_the_project_N3(
    program: Callable[[str], Program],
) -> None:
    measured = program(
        """
        def callee():
            sleep(30)
        def main():
            callee()
            sleep(20)
        """
    ).run()
    lines = measured.lines()
    assert near(lines[5].wall_ns, 30, LATE_MS)
    assert lines[5].own_ns < 10 * MS
    assert near(lines[3].own_ns, 30, LATE_MS)
    assert near(lines[6].own_ns, 20, LATE_MS)
    totals = measured.engine.totals()
    assert totals["events"] == 7, "a line of each, and both ends of two frames"
    by_name = {name: (calls, wall) for _, name, _, _, calls, wall, *_ in measured.engine.results()}
    assert by_name["callee"][0] == by_name["main"][0] == 1
    assert near(by_name["main"][1], 50, LATE_MS)


def test_recursion_counts_each_moment_once_RC01(program: Callable[[str], Program]) -> None:
    lines = (
        program(
            """
        def r(n):
            sleep(50)
            if n: r(n - 1)
        def main():
            r(3)
        """
        )
        .run()
        .lines()
    )
    assert (lines[3].hits, lines[4].hits) == (4, 4)
    assert near(lines[3].wall_ns, 200, LATE_MS)
    assert near(lines[4].wall_ns, 150, LATE_MS)
    assert lines[4].own_ns < 10 * MS


def test_a_yield_is_not_billed_for_its_consumer_AS02(program: Callable[[str], Program]) -> None:
    lines = (
        program(
            """
        def gen():
            for i in range(3):
                yield i
        def main():
            for x in gen():
                sleep(50)
        """
        )
        .run()
        .lines()
    )
    assert lines[4].hits == 3
    assert near(lines[7].wall_ns, 150, LATE_MS)
    assert lines[4].wall_ns < 100 * MS
    assert lines[6].wall_ns < 100 * MS


def test_awaited_time_stands_apart_AS01(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import asyncio
        async def work():
            await asyncio.sleep(0.2)
        async def outer():
            await work()
        def main():
            asyncio.run(outer())
        """
    ).run()
    lines = measured.lines()
    assert (lines[4].hits, lines[6].hits) == (1, 1)
    for number in (4, 6):
        assert near(lines[number].awaited_ns, 200, LATE_MS)
        assert lines[number].wall_ns < 150 * MS
    # asyncio itself is not of the project: the loop's waiting is that of the line which runs it.
    assert near(lines[8].own_ns, 200, LATE_MS)


def test_many_tasks_wait_in_one_line_AS09(program: Callable[[str], Program]) -> None:
    lines = (
        program(
            """
        import asyncio
        async def work():
            await asyncio.sleep(0.1)
        async def all():
            await asyncio.gather(*[work() for _ in range(10)])
        def main():
            asyncio.run(all())
        """
        )
        .run()
        .lines()
    )
    assert near(lines[4].awaited_ns, 1000, 10 * LATE_MS)
    assert lines[4].most_awaiting == 10


def test_asynchronous_generators_await_but_do_not_wait_for_consumers(
    program: Callable[[str], Program],
) -> None:
    lines = (
        program(
            """
        import asyncio
        async def gen():
            await asyncio.sleep(0.1)
            yield 1
        async def consume():
            async for x in gen():
                sleep(150)
        def main():
            asyncio.run(consume())
        """
        )
        .run()
        .lines()
    )
    assert near(lines[4].awaited_ns, 100, LATE_MS)
    assert lines[5].awaited_ns == 0
    assert lines[5].wall_ns < 100 * MS


def test_a_blocking_queue_waits_N5(program: Callable[[str], Program]) -> None:
    lines = (
        program(
            """
        import queue, threading
        def main():
            q = queue.Queue()
            threading.Timer(0.1, q.put, (1,)).start()
            q.get()
            spin(30)
        """
        )
        .run()
        .lines()
    )
    # The timer may run before this thread waits for it.
    assert near(lines[5].wall_ns + lines[6].wall_ns, 100, 2 * LATE_MS)
    assert lines[6].cpu_ns < 0.1 * lines[6].wall_ns


def test_a_thread_that_is_still_in_a_line_at_the_end(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import threading
        waits, go = threading.Event(), threading.Event()
        def work():
            waits.set()
            go.wait()
        def main():
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            waits.wait()
            sleep(100)
        """
    ).run()
    measured.names["go"].set()
    line = measured.lines()[6]
    assert line.wall_ns >= 95 * MS
    assert line.cpu_ns < 0.2 * line.wall_ns


def test_own_times_add_up_to_the_block(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import json
        def inner(n):
            total = 0
            for i in range(n):
                total += i
            return total
        def gen(n):
            for i in range(n):
                yield inner(5)
        def main():
            for i in range(3000):
                inner(10)
                sum(gen(5))
                json.dumps([i, str(i)])
        """
    ).run()
    totals = measured.engine.totals()
    own = sum(line.own_ns for line in measured.lines().values())
    left_out = totals["overhead_ns"]
    assert left_out > 0
    assert totals["cost_change"] > 0
    assert own + left_out == pytest.approx(totals["wall_ns"], rel=0.02)


def test_an_exception_of_the_interpreter_never_loses_time_LN06(
    program: Callable[[str], Program],
) -> None:
    lines = (
        program(
            """
        def fails():
            try:
                sleep(20)
                raise ValueError
            finally:
                sleep(20)
        def main():
            for _ in range(2):
                try:
                    fails()
                except ValueError:
                    sleep(10)
        """
        )
        .run()
        .lines()
    )
    assert near(lines[4].wall_ns, 40, LATE_MS)
    assert near(lines[7].wall_ns, 40, LATE_MS)
    assert near(lines[11].wall_ns, 80, LATE_MS)
    assert near(lines[13].wall_ns, 20, LATE_MS)


def test_a_line_that_raised_has_nothing_of_what_comes_after(
    program: Callable[[str], Program],
) -> None:
    lines = (
        program(
            """
        from concurrent.futures import ThreadPoolExecutor
        def fails():
            raise ValueError
        def works():
            pass
        def main():
            with ThreadPoolExecutor(1) as pool:
                pool.submit(fails).exception()
                sleep(500)
                pool.submit(works).result()
        """
        )
        .run()
        .lines()
    )
    assert lines[4].hits == 1
    assert lines[4].wall_ns == lines[4].own_ns, "it called nothing"
    assert lines[4].wall_ns < 250 * MS, "what its thread waited for work afterwards is not its own"


def test_an_exception_that_is_thrown_in_ends_the_awaiting(
    program: Callable[[str], Program],
) -> None:
    lines = (
        program(
            """
        import asyncio
        async def work():
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                sleep(500)
        async def all():
            task = asyncio.ensure_future(work())
            await asyncio.sleep(0)
            task.cancel()
            await task
        def main():
            asyncio.run(all())
        """
        )
        .run()
        .lines()
    )
    assert lines[5].most_awaiting == 1
    assert lines[5].awaited_ns < 250 * MS
    assert near(lines[7].own_ns, 500, LATE_MS)
    assert near(lines[12].awaited_ns, 500, LATE_MS)


# --- regions -----------------------------------------------------------------------------------


def test_regions_part_the_figures(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def work(ms):
            sleep(ms)
        def main():
            work(10)
            token = region_enter("a")
            work(20)
            inner = region_enter("b")
            work(30)
            region_exit(inner)
            work(40)
            region_exit(token)
            work(50)
        """
    )
    measured.names["region_enter"] = measured.engine.region_enter
    measured.names["region_exit"] = measured.engine.region_exit
    measured.run()
    assert near(measured.lines("a")[3].wall_ns, 60, LATE_MS)
    assert near(measured.lines("a", "b")[3].wall_ns, 30, LATE_MS)
    assert near(measured.lines()[3].wall_ns, 150, LATE_MS)
    assert measured.lines("a")[3].hits == 2
    assert measured.lines()[3].hits == 5


def test_a_region_begins_in_the_middle_of_calls(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def inner():
            sleep(20)
            token = region_enter("a")
            sleep(30)
            return token
        def middle():
            return inner()
        def main():
            token = middle()
            region_exit(token)
        """
    )
    measured.names["region_enter"] = measured.engine.region_enter
    measured.names["region_exit"] = measured.engine.region_exit
    measured.run()
    for number in (8, 10):
        assert near(measured.lines("a")[number].wall_ns, 30, LATE_MS)
        assert near(measured.lines()[number].wall_ns, 50, LATE_MS)


# --- the block itself --------------------------------------------------------------------------


def test_the_block_s_own_lines_LN07(tmp_path: Path) -> None:
    path = tmp_path / "block.py"
    path.write_text(
        "def main():\n"
        "    with engine:\n"
        "        x = 1\n"
        "        for i in range(3):\n"
        "            x = i\n"
        "    return x\n"
    )
    engine = LineEngine(tmp_path, [], [], [], [])
    names: dict[str, Any] = {"engine": engine}
    exec(compile(path.read_text(), str(path), "exec"), names)
    for n in (1, 2):
        names["main"]()
        [(*_, lines)] = engine.results()
        hits = {number: hits for number, hits, *_ in lines}
        assert hits == {3: n, 4: 4 * n, 5: 3 * n}, "the line of the `with` is hidden"


def test_a_block_on_the_line_of_its_with(tmp_path: Path) -> None:
    path = tmp_path / "block.py"
    path.write_text("def f():\n    return 1\ndef main():\n    with engine: f()\n")
    engine = LineEngine(tmp_path, [], [], [], [])
    names: dict[str, Any] = {"engine": engine}
    exec(compile(path.read_text(), str(path), "exec"), names)
    names["main"]()
    hits = {number: hits for *_, lines in engine.results() for number, hits, *_ in lines if hits}
    assert hits == {2: 1, 4: 1}


@pytest.mark.parametrize("with_line", ["with engine, Slow():", "with engine, Slow(), Slow():"])
def test_what_else_the_block_s_with_enters(tmp_path: Path, with_line: str) -> None:
    path = tmp_path / "block.py"
    path.write_text(f"def main():\n    {with_line}\n        x = 1\n")
    engine = LineEngine(tmp_path, [], [], [], [])
    slow = "class Slow:\n    def __enter__(self): pass\n    def __exit__(self, *_): sleep(100)\n"
    names: dict[str, Any] = {"engine": engine}
    exec(PRELUDE + slow, names)
    exec(compile(path.read_text(), str(path), "exec"), names)
    names["main"]()
    [(*_, lines)] = engine.results()
    figures = {number: (hits, own_ns) for number, hits, own_ns, *_ in lines}
    assert {number: hits for number, (hits, _) in figures.items()} == {2: 2, 3: 1}
    assert near(figures[2][1], 100 * with_line.count("Slow"), LATE_MS)


def test_a_block_where_no_file_is_LN13(tmp_path: Path) -> None:
    engine = LineEngine(tmp_path, [], [], [], [])
    source = "def f():\n    return 1\nwith engine:\n    f()\n"
    exec(compile(source, "<cell>", "exec"), {"engine": engine})
    hits = {number: hits for *_, lines in engine.results() for number, hits, *_ in lines if hits}
    assert hits == {2: 1, 4: 1}


def test_results_while_it_runs(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        def main():
            sleep(20)
            seen.append(results())
            sleep(20)
        """
    )
    seen: list[list[Any]] = []
    measured.names |= {"seen": seen, "results": measured.engine.results}
    measured.run()
    [[(*_, lines)]] = seen
    assert near({line[0]: line for line in lines}[3][4], 20, LATE_MS)
    assert near(measured.lines()[3].wall_ns, 20, LATE_MS)
    assert near(measured.lines()[5].wall_ns, 20, LATE_MS)


def test_one_at_a_time_N4(tmp_path: Path) -> None:
    first, second = (LineEngine(tmp_path, [], [], [], []) for _ in range(2))
    with first:
        for engine in (first, second):
            with pytest.raises(RuntimeError, match="running already"):
                engine.__enter__()
        assert first.running
        assert not second.running
    assert not first.running
    with second:
        pass


def test_figures_add_up_over_sessions_and_clear(program: Callable[[str], Program]) -> None:
    measured = program("def main():\n    sleep(10)\n")
    measured.run().run()
    assert measured.lines()[2].hits == 2
    assert near(measured.lines()[2].wall_ns, 20, LATE_MS)
    measured.engine.clear()
    assert measured.engine.results() == []
    measured.run()
    assert measured.lines()[2].hits == 1


def test_tasks_of_several_threads(program: Callable[[str], Program]) -> None:
    measured = program(
        """
        import asyncio
        async def work():
            await asyncio.sleep(0.05)
        def main():
            asyncio.run(work())
        """
    )
    main = measured.names["main"]
    with measured.engine:
        threads = [threading.Thread(target=main) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert measured.lines()[4].hits == 3
    assert near(measured.lines()[4].awaited_ns, 150, 3 * LATE_MS)

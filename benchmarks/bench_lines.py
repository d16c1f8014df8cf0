"""What a line event costs, beside the other tools that look at lines (O8).

    python benchmarks/bench_lines.py [--rounds N] [--processes N] [--markdown]

Each program below runs in processes of its own per tool: with lineprofiler, with line_profiler (on
every function that lineprofiler saw), with a trace function written in Python, and under coverage.
Within a process the tool is on and off by turns, and what it adds is the difference of the shortest
turns, in CPU time: how a process happens to lie in memory, or the machine's speed that day, weighs
on both. The median of some processes counts, divided by the number of line events, as lineprofiler
counts them. line_profiler records none of code within functions, such as generator expressions, and
coverage switches lines off that it has seen: they add less where they tell less. The last program
spends its time in the standard library alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BAR = 1 / 3 if sys.version_info >= (3, 12) else 1 / 2
LIBRARY_BAR = 0.02

PROGRAMS = {
    "loops": """
def work(n):
    total = 0
    for i in range(n):
        total += i
        if total > 100:
            total = 0
    return total

def main():
    for _ in range(40):
        work(5000)
""",
    "calls": """
def one(x):
    return x + 1

def two(x):
    y = one(x)
    return one(y)

def main():
    for i in range(60000):
        two(i)
""",
    "generators": """
def numbers(n):
    for i in range(n):
        yield i

def evens(n):
    for i in numbers(n):
        if i % 2 == 0:
            yield i

def main():
    for _ in range(20):
        for x in evens(5000):
            y = x
""",
    "comprehensions": """
def main():
    for _ in range(2000):
        a = [i * i for i in range(50)]
        b = {i: i for i in a}
        c = sum(
            x
            for x in b
        )
""",
    "self-play": """
from functools import partial

import numpy as np
from connect_four import mcts
from connect_four.actor import SelfPlay
from connect_four.net import Network

network = Network.untrained(np.random.default_rng(1))

def main():
    search = partial(mcts.search, evaluate=network.predict)
    play = SelfPlay(8, search, 8, np.random.default_rng(2))
    for _ in range(24):
        play.move()
""",
    "library": """
import json, re, textwrap, tokenize, io

text = "the quick brown fox jumps over the lazy dog 12345 " * 50
pairs = {str(i): [i, str(i), {"x": i}] for i in range(500)}
numbers = [(i * 7919) % 1000003 for i in range(1000000)]
source = "x = 1 + 2  # three\\n" * 300

def main():
    sorted(numbers)
    for _ in range(20):
        json.loads(json.dumps(pairs, indent=1))
        re.findall(r"[a-z]+\\\\s\\\\d*", text)
        textwrap.fill(text, 60)
        list(tokenize.generate_tokens(io.StringIO(source).readline))
""",
}
OUTSIDE = "library"
"""The program that has no line of the project, but for a few."""

TURNS = 4
"""So often a tool is switched on in a process."""


# --- one program with one tool, in a process of its own ----------------------------------------


def load(folder: Path) -> ModuleType:
    """Import the program; the example's package lies beside it, so that it is of the project."""
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("program", folder / "program.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return module


def functions_in(folder: Path) -> list[Any]:
    """Return all functions of modules in the folder, methods and nested properties too."""
    found: dict[CodeType, Any] = {}

    def look(value: object) -> None:
        if isinstance(value, property):
            look(value.fget)
        value = getattr(value, "__func__", value)
        code = getattr(value, "__code__", None)
        if code is not None and code.co_filename.startswith(str(folder)):
            found[code] = value

    for module in list(sys.modules.values()):
        if not (getattr(module, "__file__", None) or "").startswith(str(folder)):
            continue
        for value in list(vars(module).values()):
            look(value)
            if isinstance(value, type):
                for member in list(vars(value).values()):
                    look(member)
    return list(found.values())


class Tool(NamedTuple):
    """A tool that can be switched on and off; `events` of all the time that it was on."""

    on: Callable[[], object]
    off: Callable[[], object]
    events: Callable[[], int] = lambda: 0


def lineprofiler_on(folder: Path) -> Tool:
    import sysconfig

    from lineprofiler._core import LineEngine

    outside = [sysconfig.get_path("stdlib"), sysconfig.get_path("platlib")]
    engine = LineEngine(folder, outside, [], [], [])
    return Tool(
        engine.__enter__,
        lambda: engine.__exit__(None, None, None),
        lambda: sum(line[1] for *_, lines in engine.results() for line in lines),
    )


def line_profiler_on(folder: Path) -> Tool:
    """Return line_profiler on all functions of the folder."""
    from line_profiler import LineProfiler

    profiler = LineProfiler(*functions_in(folder))
    return Tool(
        profiler.enable_by_count,
        profiler.disable_by_count,
        lambda: sum(
            hits for lines in profiler.get_stats().timings.values() for _, hits, _ in lines
        ),
    )


def settrace_on(folder: Path) -> Tool:
    """Return a trace function that counts lines of the folder."""
    hits: dict[tuple[CodeType, int], int] = {}
    prefix = str(folder)

    def local(frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        if event == "line":
            key = frame.f_code, frame.f_lineno
            hits[key] = hits.get(key, 0) + 1
        return local

    def trace(frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
        return local if frame.f_code.co_filename.startswith(prefix) else None

    return Tool(lambda: sys.settrace(trace), lambda: sys.settrace(None))


def coverage_on(folder: Path) -> Tool:
    import coverage

    cover = coverage.Coverage(data_file=None, source=[str(folder)])
    return Tool(cover.start, cover.stop)


TOOLS = {
    "lineprofiler": lineprofiler_on,
    "line_profiler": line_profiler_on,
    "settrace": settrace_on,
    "coverage": coverage_on,
}
EVERY_LINE = tuple(TOOLS)[:2]
"""The tools that tell how many events they have seen. O8 is about them: others get one process."""


class Figures(NamedTuple):
    """What one process measured: the shortest rounds in seconds, and line events of a round."""

    alone_s: float
    with_tool_s: float
    events: int


def shortest(run: Callable[[], object], rounds: int) -> float:
    """Return the shortest of some rounds, in seconds of CPU time, after one for the caches."""
    run()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def run_one(folder: Path, name: str, rounds: int) -> Figures:
    """Measure in this process, with the tool off and on by turns."""
    main = load(folder).main
    main()
    tool = TOOLS[name](folder)
    alone, with_tool = [], []
    for _ in range(TURNS):
        alone.append(shortest(main, rounds))
        tool.on()
        with_tool.append(shortest(main, rounds))
        tool.off()
    return Figures(min(alone), min(with_tool), tool.events() // (TURNS * (rounds + 1)))


# --- all of them -------------------------------------------------------------------------------


def measure(folder: Path, tool: str, rounds: int) -> Figures:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--one", str(folder), "--tool", tool]
    command += ["--rounds", str(rounds)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Figures(*json.loads(done.stdout.splitlines()[-1]))


def measure_all(rounds: int, processes: int) -> dict[str, dict[str, list[Figures]]]:
    """Return for each program and tool the figures of its processes, which took turns."""
    found: dict[str, dict[str, list[Figures]]] = {}
    for name, source in PROGRAMS.items():
        found[name] = {tool: [] for tool in (TOOLS if name != OUTSIDE else EVERY_LINE[:1])}
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place).resolve()
            (folder / "program.py").write_text(source)
            if name == "self-play":
                copy_examples(folder)
            for turn in range(processes):
                for tool, figures in found[name].items():
                    if turn == 0 or tool in EVERY_LINE:
                        figures.append(measure(folder, tool, rounds))
    return found


def added_ns(figures: list[Figures], events: int) -> float:
    """Return the median of what a tool added for each of some line events."""
    return statistics.median((f.with_tool_s - f.alone_s) / events * 1e9 for f in figures)


def copy_examples(folder: Path) -> None:
    """Copy what self-play is made of: files are known by where they really are."""
    for name in ("connect_four", "native_actor"):
        shutil.copytree(EXAMPLES / name, folder / name)


def table(found: dict[str, dict[str, list[Figures]]], markdown: bool) -> tuple[list[str], float]:
    """Return the lines of the table, and the worst ratio to a line_profiler that tells as much."""
    header = ["program", "alone ms", "line events", *(f"{tool} ns" for tool in TOOLS), "O8"]
    lines = []
    worst = 0.0
    for name, tools in found.items():
        if name == OUTSIDE:
            continue
        ours, theirs = (tools[tool] for tool in EVERY_LINE)
        alone_ms = min(f.alone_s for figures in tools.values() for f in figures) * 1e3
        events = ours[0].events
        added = [added_ns(tools[tool], events) for tool in TOOLS]
        told = theirs[0].events / events
        ratio = added[0] / added[1]
        if told > 0.95:
            worst = max(worst, ratio)
        cells = [name, f"{alone_ms:.1f}", f"{events:,.0f}", *(f"{ns:.1f}" for ns in added)]
        lines.append([*cells, f"{ratio:.2f}" + ("" if told > 0.95 else f" ({told:.0%} told)")])
    widths = [max(len(row[i]) for row in (header, *lines)) for i in range(len(header))]
    bar = "|" if markdown else " "
    out = []
    for row in (header, *lines):
        cells = [f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(row)]
        out.append(f"{bar} " + f" {bar} ".join(cells) + f" {bar}")
    if markdown:
        out.insert(1, "|---|" + "---:|" * (len(header) - 1))
    return out, worst


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--one", type=Path)
    parser.add_argument("--tool")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(options.one, options.tool, options.rounds)))
        return
    found = measure_all(options.rounds, options.processes)
    lines, worst = table(found, options.markdown)
    print("\n".join(lines))
    print()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("line_profiler", "coverage")
    )
    print(f"What a tool adds for each line event; {versions}. Told: by line_profiler, of them.")
    verdict = "met" if worst <= BAR else "MISSED"
    print()
    print(f"O8: {worst:.2f} of what line_profiler adds, at most {BAR:.2f}: {verdict}")
    shares = sorted(f.with_tool_s / f.alone_s - 1 for f in found[OUTSIDE]["lineprofiler"])
    share = statistics.median(shares)
    verdict = "met" if share < LIBRARY_BAR else "MISSED"
    print()
    print(
        f"Code outside the project: {share:+.1%} ({shares[0]:+.1%} to {shares[-1]:+.1%} in"
        f" {len(shares)} processes), under {LIBRARY_BAR:.0%}: {verdict}"
    )


if __name__ == "__main__":
    main()

"""What tests of the line profiler share: small projects, and a look for what it leaves behind."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from lineprofiler import LineProfiler
from lineprofiler._core import LineEngine
from lineprofiler.lines import FunctionStats


class Project:
    """A project's folder, with modules that are measured when they run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".git").mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def load(self, name: str, text: str) -> ModuleType:
        """Write a module and import it, under no name."""
        return load(self.write(name, text))

    def profiler(self, **options: Any) -> LineProfiler:
        return LineProfiler(self.folder, **options)


class Program:
    """A module, alone in its project, of which the bare engine measures main()."""

    def __init__(self, folder: Path, source: str, prelude: str = "") -> None:
        """Run it after a prelude, which is not of the project."""
        self.path = folder / "program.py"
        self.path.write_text(textwrap.dedent(source))
        self.names: dict[str, Any] = {"__name__": "program"}
        exec(prelude, self.names)
        exec(compile(self.path.read_text(), str(self.path), "exec"), self.names)
        self.engine = LineEngine(folder, [], [], [], [])

    def run(self) -> Self:
        main = self.names["main"]
        with self.engine:
            main()
        return self

    @property
    def hits(self) -> dict[int, int]:
        """Hits by line, of lines that were begun."""
        hits: Counter[int] = Counter()
        for *_, lines in self.engine.results():
            for number, n, *_ in lines:
                hits[number] += n
        return {number: n for number, n in sorted(hits.items()) if n}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def only(profiler: LineProfiler, name: str, **options: Any) -> FunctionStats:
    """Return the figures of the only function of a name."""
    found = [
        function
        for function in profiler.get_stats(**options).values()
        if function.function_name == name
    ]
    assert len(found) == 1, list(profiler.get_stats(**options))
    return found[0]


def hits(function: FunctionStats) -> dict[int, int]:
    """Return the hits of its lines, counted from its first one."""
    return {number - function.first_line: line.hits for number, line in function.line_stats.items()}


def hooks() -> list[object]:
    """Return all by which somebody is told what the interpreter does."""
    found: list[object] = [sys.gettrace(), sys.getprofile()]
    found += [threading.gettrace(), threading.getprofile()]
    if sys.version_info >= (3, 12):
        for tool in range(6):
            name = sys.monitoring.get_tool(tool)
            found.append((tool, name, sys.monitoring.get_events(tool) if name else 0))
    return found

"""Any order of entering, leaving and counting, held against a model of what should be recorded.

Innermost-first exits only: what out-of-order exits do to a tree is a matter of its own.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, merge_run

names = st.sampled_from(["a", "b", "a/b", "\0", "\udcff"])
DEPTH = 32


class Phases(RuleBasedStateMachine):
    """One thread that enters phases in all ways there are."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.profiler = Profiler(
            self.folder.name, install=True, snapshot_interval_s=None, sample_interval_s=None
        )
        self.handles: dict[str, Any] = {}
        self.path: tuple[str, ...] = ()
        self.leave: list[Callable[[], object]] = []
        self.calls: Counter[tuple[str, ...]] = Counter()
        self.counts: Counter[tuple[tuple[str, ...], str]] = Counter()

    def handle(self, name: str) -> Any:
        return self.handles.setdefault(name, self.profiler.phase(name))

    def entered(self, name: str, leave: Callable[[], object]) -> None:
        self.leave.append(leave)
        self.path = (*self.path, name)

    @rule(name=names, kept=st.booleans())
    def enter_by_name(self, name: str, kept: bool) -> None:
        phase = self.handle(name) if kept else self.profiler.phase(name)
        phase.__enter__()
        self.entered(name, lambda: phase.__exit__(None, None, None))

    @rule(name=names, kept=st.booleans())
    def enter_a_stack(self, name: str, kept: bool) -> None:
        stack = contextlib.ExitStack()
        stack.enter_context(self.handle(name) if kept else accounting.phase(name))
        self.entered(name, stack.close)

    @rule(name=names, kept=st.booleans())
    def enter_in_a_generator(self, name: str, kept: bool) -> None:
        def generator() -> Any:
            with self.handle(name) if kept else self.profiler.phase(name, sample=1.0):
                yield

        running = generator()
        next(running)
        self.entered(name, running.close)

    @rule(name=names, kept=st.booleans())
    def enter_and_leave(self, name: str, kept: bool) -> None:
        with self.handle(name) if kept else self.profiler.phase(name):
            if len(self.path) < DEPTH:
                self.calls[(*self.path, name)] += 1

    @rule(name=names)
    def forget_a_handle(self, name: str) -> None:
        # What is open holds it.
        if name not in self.path:
            self.handles.pop(name, None)

    @precondition(lambda self: self.leave)
    @rule()
    def leave_the_innermost(self) -> None:
        self.leave.pop()()
        if len(self.path) <= DEPTH:
            self.calls[self.path] += 1
        self.path = self.path[:-1]

    @rule(name=names, n=st.integers(-5, 5))
    def count(self, name: str, n: int) -> None:
        self.profiler.count(name, n)
        self.counts[(self.path[:DEPTH], name)] += n

    @rule(name=names)
    def another_thread(self, name: str) -> None:
        def work() -> None:
            with self.handle(name), self.profiler.phase(name):
                accounting.count(name)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.calls.update([(name,), (name, name)])
        self.counts[((name, name), name)] += 1

    @invariant()
    def knows_its_path(self) -> None:
        assert self.profiler.current() == "/".join(self.path[:DEPTH])

    def teardown(self) -> None:
        while self.leave:
            self.leave_the_innermost()
        self.profiler.close()
        tree = merge_run(self.folder.name).tree
        assert {path: node.calls for path, node in tree.items()} == self.calls
        counts = {
            (path, name): int(counter)
            for path in [(), *tree]
            for name, counter in tree[path].counters.items()
        }
        assert counts == self.counts
        roots = sum(node.wall_ns for node in tree.children())
        assert sum(node.self_ns for node in tree.values()) == roots
        self.folder.cleanup()


TestPhases = Phases.TestCase
TestPhases.settings = settings(max_examples=60, stateful_step_count=80, deadline=None)

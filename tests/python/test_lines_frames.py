"""The project's code as other code calls it, which Python 3.11 runs untraced (N4)."""

from __future__ import annotations

import ctypes
import importlib.util
import io
import pdb
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lines import Program

if TYPE_CHECKING:
    from conftest import Child

MONITORING = sys.version_info >= (3, 12)
only_tracing = pytest.mark.skipif(MONITORING, reason="there is no need of it from 3.12 on")

# Code that is not of the project, and calls it.
PRELUDE = """
import contextlib, gc, weakref
def call(f, x):
    return f(x)
def swallow(f, x):
    try:
        return f(x)
    except ValueError:
        return 0
def raises_first(f, x):
    try:
        {}[1]
    except KeyError:
        pass
    return f(x)
def deep(f, x, n=3):
    return f(x) if n == 0 else deep(f, x, n - 1)
def sort(f, x):
    return len(sorted([3, 1, 2], key=f))
def generate(f, x):
    def values():
        yield f(x)
        yield f(x)
    return sum(values())
def resume(f, x):
    def values():
        yield f(x)
    return next(values())
def delegate(f, x):
    def values():
        return (yield from iter([1, 2])) or f(x)
    return len(list(values()))
@contextlib.contextmanager
def entered(f, x):
    f(x)
    try:
        yield
    finally:
        f(x)
def manage(f, x):
    with entered(f, x):
        return x
def delete(f, x):
    class Thing:
        def __del__(self):
            swallow(f, x)
    Thing()
    return x
def forget(f, x):
    things = {1}, weakref.WeakSet()
    class Thing: pass
    thing = Thing()
    kept = weakref.ref(thing, lambda _: swallow(f, x))
    thing.itself = thing
    del thing
    gc.collect()
    return x
def item(f, x):
    class Thing:
        def __getitem__(self, k):
            return f(k)
    thing = Thing()
    for _ in range(3):
        thing[x]
    return thing[x]
def run(f, x):
    exec("f(x)", {"f": f, "x": x})
    return x
def drive(f, x):
    async def work():
        return f(x)
    try:
        work().send(None)
    except StopIteration as error:
        return error.value
def straight(f, x):
    return f(x)
"""
WAYS = ["call", "swallow", "raises_first", "deep", "sort", "generate", "resume", "delegate"]
WAYS += ["manage", "delete", "forget", "item", "run", "drive", "straight"]

Function = list[tuple[str, int]]


def source_of(functions: list[Function], raising: int) -> str:
    """Return a program in which each function calls later ones in some ways; one of them raises."""
    lines = []
    for i, calls in enumerate(functions):
        lines.append(f"def f{i}(x):")
        for way, step in calls:
            lines += ["    try:", f"        y = {way}(f{i + 1 + step}, x)"]
            lines += ["    except ValueError:", "        y = 0"]
        if i == raising:
            lines += ["    if x % 2:", "        raise ValueError(x)"]
        lines.append("    return x")
    for i in range(len(functions), len(functions) + 3):
        lines += [f"def f{i}(x):", "    y = x", "    return y"]
    return "\n".join([*lines, "def main():", "    for x in (1, 2):", "        swallow(f0, x)", ""])


def traced(program: Program) -> dict[int, int]:
    """Return what a trace function of Python counts."""
    hits: Counter[int] = Counter()

    def local(frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        if event == "line":
            hits[frame.f_lineno] += 1
        return local

    def trace(frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
        return local if frame.f_code.co_filename == str(program.path) else None

    sys.settrace(trace)
    try:
        program.names["main"]()
    finally:
        sys.settrace(None)
    return dict(sorted(hits.items()))


def project_of(folder: Path, source: str) -> Path:
    """Return a folder of a program, in which no child's own script is."""
    project = folder / "project"
    project.mkdir()
    (project / "program.py").write_text(source)
    return project


def evaluator() -> int:
    """Return the address of what evaluates frames (PEP 523)."""
    api = ctypes.pythonapi
    main, get = api.PyInterpreterState_Main, api._PyInterpreterState_GetEvalFrameFunc
    main.restype, get.restype, get.argtypes = ctypes.c_void_p, ctypes.c_void_p, [ctypes.c_void_p]
    address: int = get(main())
    return address


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = sys.gettrace(), sys.getprofile(), evaluator()
    yield
    assert (sys.gettrace(), sys.getprofile(), evaluator()) == before


CALLS = st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 2)), max_size=2)


@given(functions=st.lists(CALLS, min_size=1, max_size=5), raising=st.integers(0, 8))
def test_hits_are_those_of_a_trace_function_whoever_calls_N4(
    tmp_path_factory: pytest.TempPathFactory, functions: list[Function], raising: int
) -> None:
    folder = tmp_path_factory.mktemp("project")
    program = Program(folder, source_of(functions, raising), PRELUDE)
    expected = traced(program)
    assert program.run().hits == expected
    assert program.run().hits == {number: 2 * n for number, n in expected.items()}


def test_a_long_random_program_N4(tmp_path: Path) -> None:
    chosen = random.Random(1)
    functions = [[(chosen.choice(WAYS), chosen.randrange(3))] * 2 for _ in range(9)]
    program = Program(tmp_path, source_of(functions, 7), PRELUDE)
    expected = traced(program)
    assert program.run().hits == expected


LOOKED_UP = """
class Thing:
    def __getitem__(self, k):
        return k
def main():
    look(Thing())
"""


def test_an_item_that_the_interpreter_has_learned_to_look_up(tmp_path: Path) -> None:
    prelude = "def look(thing):\n    for k in range(1000):\n        thing[k]\n"
    program = Program(tmp_path, LOOKED_UP, prelude)
    for _ in range(10):
        program.names["main"]()
    assert program.run().hits[4] == 1000


def test_a_signal_handler_that_runs_in_other_code(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
        def handler(number, frame):
            return None
        def main():
            interrupted()
        """,
        "import signal\ndef interrupted():\n    for _ in range(100):\n"
        "        signal.raise_signal(signal.SIGUSR1)\n",
    )
    before = signal.signal(signal.SIGUSR1, program.names["handler"])
    try:
        program.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert program.hits[3] == 100


def test_a_block_that_begins_and_ends_in_callbacks(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
        def part(k):
            x = 1
            deep(turn, k)
            x = 2
            return k
        def main():
            sorted([1, 2, 3], key=part)
        """,
        PRELUDE,
    )

    def turn(_: int) -> None:
        program.engine.__exit__(None, None, None)
        program.engine.__enter__()

    program.names["turn"] = turn
    program.run()
    program.names["turn"] = lambda _: None
    assert {number: program.hits[number] for number in (3, 4, 5, 6)} == {3: 3, 4: 3, 5: 3, 6: 3}


RECURSION = """
def straight(n):
    return 0 if n == 0 else straight(n - 1) + 1
def through(n):
    return 0 if n == 0 else call(through, n - 1) + 1
"""
RECURSES = """
import sys, threading
from pathlib import Path
from lineprofiler._core import LineEngine
names = {"call": lambda f, n: f(n)}
path = Path(sys.argv[1]) / "program.py"
exec(compile(path.read_text(), str(path), "exec"), names)
sys.setrecursionlimit(10**6)
stack_bytes, way, depth = int(sys.argv[2]), names[sys.argv[3]], int(sys.argv[4])
engine = LineEngine(path.parent, [], [], [], [])
found = []
with engine:
    threading.stack_size(stack_bytes)
    thread = threading.Thread(target=lambda: found.append(way(depth)))
    thread.start()
    thread.join()
    threading.stack_size(0)
    found.append(way(depth))
    found.append(way(10))
assert found == [depth, depth, 10], found
hits = {n: h for *_, lines in engine.results() for n, h, *_ in lines if h}
assert 2 * (depth + 1) + 11 in hits.values(), hits
"""


@pytest.mark.parametrize("stack_bytes", [32768, 131072, 0])
@pytest.mark.parametrize("way", ["straight", "through"])
def test_recursion_as_deep_as_without_it_LN19(
    child: Child, tmp_path: Path, stack_bytes: int, way: str
) -> None:
    child.run(RECURSES, project_of(tmp_path, RECURSION), stack_bytes, way, 20000)


FALLS_BACK = """
import sys, threading
from lineprofiler._core import LineEngine
sys.path.insert(0, sys.argv[1])
import program
go, on = threading.Event(), threading.Event()
def elsewhere():
    on.set()
    go.wait()
    sorted(range(10), key=program.inner)
engine = LineEngine(sys.argv[1], [], [], [], [])
with engine:
    thread = threading.Thread(target=elsewhere)
    thread.start()
    on.wait()
    threading.stack_size(32768)
    deep = threading.Thread(target=program.deep, args=(50,))
    deep.start()
    deep.join()
    go.set()
    thread.join()
hits = {n: h for *_, lines in engine.results() for n, h, *_ in lines if h}
assert hits[2] == 10, hits
assert not engine.totals()["calls_missed"]
"""


def test_a_deep_thread_loses_no_calls_of_others(child: Child, tmp_path: Path) -> None:
    source = "def inner(n):\n    return n\ndef deep(n):\n    return n and deep(n - 1)\n"
    child.run(FALLS_BACK, project_of(tmp_path, source))


SWITCHES = """def work(switch):
    for i in range(3):
        switch(i)
        x = i
    return x
"""
GREENLETS = """
import sys
from lineprofiler._core import LineEngine
sys.path.insert(0, sys.argv[1])
import program
def elsewhere(f, *arguments):
    return f(*arguments)
def switch():
    from greenlet import getcurrent, greenlet
    other = greenlet(program.work)
    other.switch(getcurrent().switch)
    for _ in range(3):
        elsewhere(other.switch)
    assert other.dead
for _ in range(2):
    engine = LineEngine(sys.argv[1], [], [], [], [])
    with engine:
        switch()
    hits = {n: h for *_, lines in engine.results() for n, h, *_ in lines if h}
    assert hits == {2: 4, 3: 3, 4: 3, 5: 1}, hits
"""


def test_greenlets_that_are_loaded_in_the_block(child: Child, tmp_path: Path) -> None:
    if importlib.util.find_spec("greenlet") is None:
        pytest.skip("greenlet is not installed")
    child.run(GREENLETS, project_of(tmp_path, SWITCHES))


# --- other tools -------------------------------------------------------------------------------

CALLED_BACK = """
def key(n):
    return n
def main():
    return call(order, 10)
def order(n):
    return sorted(range(n), key=key)
"""


def test_a_profile_function_sees_what_it_would_see(tmp_path: Path) -> None:
    program = Program(tmp_path, CALLED_BACK, PRELUDE)
    seen: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        seen.append((event, frame.f_code.co_name))

    def profiled() -> list[tuple[str, str]]:
        seen.clear()
        sys.setprofile(profile)
        program.names["main"]()
        sys.setprofile(None)
        return list(seen)

    expected = profiled()
    with program.engine:
        assert program.names["call"](lambda _: profiled(), 1) == expected
        program.names["main"]()
    assert program.hits[3] == 20


@pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason="set_trace() stops a line later the first time, with local events of any tool",
)
def test_a_debugger_that_is_called_steps_out_into_other_code_CV02(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
        def main():
            return call(stop, 1)
        def stop(x):
            debugger.set_trace()
            return x
        """,
        "def call(f, x):\n    y = f(x)\n    y += 1\n    return y\n",
    )
    told = []
    for measured in (False, True):
        out = io.StringIO()
        program.names["debugger"] = pdb.Pdb(
            stdin=io.StringIO("n\n" * 4 + "c\n"), stdout=out, nosigint=True, readrc=False
        )
        program.run() if measured else program.names["main"]()
        sys.settrace(None)
        told.append(out.getvalue())
    assert told[0] == told[1]
    assert "<string>(2)call()" in told[0] or "<string>(3)call()" in told[0]


REPLACED = """
import ctypes, io, json, sys
from lineprofiler import LineProfiler
sys.path.insert(0, sys.argv[1])
import program
api = ctypes.pythonapi
api.PyInterpreterState_Main.restype = ctypes.c_void_p
main = ctypes.c_void_p(api.PyInterpreterState_Main())
api._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
default = api._PyInterpreterState_GetEvalFrameFunc(main)
program.call = lambda f, x: f(x)
profiler = LineProfiler(sys.argv[1])
def told():
    out = io.StringIO()
    profiler.to_json(out)
    document = json.loads(out.getvalue())
    hits = {line["line"]: line["hits"] for f in document["functions"] for line in f["lines"]}
    return hits, [caveat["kind"] for caveat in document["caveats"]]
with profiler:
    assert api._PyInterpreterState_GetEvalFrameFunc(main) != default
    program.main()
    api._PyInterpreterState_SetEvalFrameFunc(main, ctypes.c_void_p(default))
    for _ in range(int(sys.argv[2])):
        program.main()
hits, kinds = told()
assert hits[3] == 10 * (1 + int(sys.argv[2])), hits
assert "evaluator" in kinds, kinds
profiler.clear()
with profiler:
    program.main()
assert "evaluator" not in told()[1]
"""


@only_tracing
@pytest.mark.skipif(sys.version_info < (3, 11, 4), reason="calls of __getitem__ go unseen")
@pytest.mark.parametrize("times", [0, 2])
def test_who_runs_frames_without_us_is_told_of(child: Child, tmp_path: Path, times: int) -> None:
    child.run(REPLACED, project_of(tmp_path, CALLED_BACK), times)


@only_tracing
def test_another_that_runs_frames_and_calls_us_CV07(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    eval_frame = pytest.importorskip("torch._C._dynamo.eval_frame")
    program = Program(tmp_path, CALLED_BACK, PRELUDE)
    default = evaluator()
    with program.engine:
        program.names["main"]()
        before = eval_frame.set_eval_frame(False)
        program.names["main"]()
    eval_frame.set_eval_frame(before)
    program.names["main"]()
    assert evaluator() == default, "what it has put back is of a block that has ended"
    before = eval_frame.set_eval_frame(False)
    theirs = evaluator()
    with program.engine:
        assert evaluator() == theirs
        program.names["main"]()
        eval_frame.set_eval_frame(before)
        program.names["main"]()
    assert program.hits[3] == 40
    assert not program.engine.totals()["calls_missed"]

"""The line profiler beside other tools, forks, and programs that end oddly (N4)."""

from __future__ import annotations

import cProfile
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler._core import LineEngine
from lines import Program

if TYPE_CHECKING:
    from conftest import Child

MONITORING = sys.version_info >= (3, 12)
monitoring: Any = getattr(sys, "monitoring", None)
only_tracing = pytest.mark.skipif(MONITORING, reason="trace functions are for 3.11")
only_monitoring = pytest.mark.skipif(not MONITORING, reason="sys.monitoring came with 3.12")

SOURCE = """
def inner(n):
    total = 0
    for i in range(n):
        total += i
    return total
def main():
    for _ in range(3):
        inner(10)
"""
HITS = {3: 3, 4: 33, 5: 30, 6: 3, 8: 4, 9: 3}


def tools() -> list[str | None]:
    """Return who holds each number of monitoring."""
    if not MONITORING:
        return []
    return [monitoring.get_tool(number) for number in range(6)]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = tools(), sys.gettrace(), threading.gettrace(), sys.getprofile()
    yield
    assert (tools(), sys.gettrace(), threading.gettrace(), sys.getprofile()) == before
    if MONITORING:
        for number in (2, 3, 4):
            if monitoring.get_tool(number) is None:
                monitoring.use_tool_id(number, "looks")
                assert monitoring.get_events(number) == 0
                monitoring.free_tool_id(number)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path, SOURCE)


# --- trace functions ---------------------------------------------------------------------------


class Tracer:
    """A trace function of Python that counts lines of one file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.hits: Counter[int] = Counter()

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != self.path:
            return None
        if event == "line":
            self.hits[frame.f_lineno] += 1
        return self


def test_a_trace_function_goes_on_CV01(program: Program) -> None:
    tracer = Tracer(program.path)
    sys.settrace(tracer)
    try:
        with program.engine:
            program.names["main"]()
        assert sys.gettrace() is tracer
        program.names["main"]()
    finally:
        sys.settrace(None)
    assert program.hits == HITS
    assert tracer.hits == {number: 2 * n for number, n in HITS.items()}


@only_tracing
def test_a_trace_function_that_sleeps_is_in_no_figure(tmp_path: Path) -> None:
    slow = """
        import time
        def spin(ms):
            until = time.thread_time_ns() + ms * 1_000_000
            while time.thread_time_ns() < until:
                pass
        """
    program = Program(tmp_path, "def main():\n    x = 1\n    spin(100)\n", dedent(slow))

    def trace(frame: FrameType, event: str, _arg: object) -> Callable[..., Any] | None:
        if event == "line" and frame.f_lineno == 3:
            time.sleep(0.08)
        return trace if frame.f_code.co_filename == str(program.path) else None

    sys.settrace(trace)
    try:
        with program.engine:
            program.names["main"]()
    finally:
        sys.settrace(None)
    [(*_, lines_of_main)] = program.engine.results()
    cpu_ns = {number: self_cpu_ns for number, _, _, self_cpu_ns, *_ in lines_of_main}
    assert cpu_ns[3] > 90_000_000, "all that the line computed"


def test_a_trace_function_of_threads_goes_on_CV01(program: Program) -> None:
    tracer = Tracer(program.path)
    threading.settrace(tracer)
    try:
        with program.engine:
            threads = [threading.Thread(target=program.names["main"]) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert threading.gettrace() is tracer
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    assert program.hits == tracer.hits == {number: 3 * n for number, n in HITS.items()}


def test_a_trace_function_set_in_the_block_CV02(program: Program) -> None:
    tracer = Tracer(program.path)
    with program.engine:
        program.names["main"]()
        sys.settrace(tracer)
        program.names["main"]()
        sys.settrace(None)
    assert tracer.hits == HITS
    expected = 2 if MONITORING else 1
    assert program.hits == {number: expected * n for number, n in HITS.items()}


def test_what_gettrace_tells_can_be_set_again(program: Program) -> None:
    with program.engine:
        before = sys.gettrace()
        sys.settrace(None)
        sys.settrace(before)
        program.names["main"]()
    assert program.hits == HITS


COVERED = """
import sys
from pathlib import Path
from lineprofiler._core import LineEngine
from program import main
engine = LineEngine(Path(__file__).parent, [], [], [], [])
if sys.argv[1:] == ["profiled"]:
    with engine:
        main()
    hits = {n: h for *_, lines in engine.results() for n, h, *_ in lines if h}
    assert hits[5] == 30, hits
else:
    main()
main()
"""


@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_under_coverage_CV01(child: Child, tmp_path: Path, core: str) -> None:
    pytest.importorskip("coverage")
    if core == "sysmon" and not MONITORING:
        pytest.skip("sys.monitoring came with 3.12")
    (tmp_path / "program.py").write_text(SOURCE + "def never():\n    return 1\n")
    (tmp_path / "covered.py").write_text(COVERED)
    reports = []
    for how in ("plain", "profiled"):
        code = f"""
import coverage, os, runpy, sys
os.chdir({str(tmp_path)!r})
sys.path.insert(0, {str(tmp_path)!r})
cov = coverage.Coverage(data_file=None, include=["program.py"])
cov.start()
sys.argv = ["covered.py", {how!r}]
runpy.run_path({str(tmp_path / "covered.py")!r}, run_name="__main__")
cov.stop()
print(cov.analysis2("program.py")[1:4])
"""
        done = child.run(code, env={"COVERAGE_CORE": core})
        reports.append(done.stdout)
    assert reports[0] == reports[1]
    assert "[11]" in reports[0], "what never ran"


def test_a_breakpoint_after_the_block_hits_CV02(child: Child, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    code = f"""
import io, pdb, sys
sys.path.insert(0, {str(tmp_path)!r})
from lineprofiler._core import LineEngine
from program import main
engine = LineEngine({str(tmp_path)!r}, [], [], [], [])
out = io.StringIO()
debugger = pdb.Pdb(stdin=io.StringIO("p 'stopped'\\nc\\n"), stdout=out, nosigint=True, readrc=False)
debugger.set_break({str(tmp_path / "program.py")!r}, 6, temporary=True)
def run():
    with engine:
        pass
    main()
debugger.runcall(run)
assert "stopped" in out.getvalue(), out.getvalue()
"""
    child.run(code)


# --- sys.monitoring ----------------------------------------------------------------------------


@only_monitoring
def test_beside_cprofile_CV03(program: Program) -> None:
    profile = cProfile.Profile()
    profile.enable()
    try:
        with program.engine:
            program.names["main"]()
    finally:
        profile.disable()
    assert program.hits == HITS
    profile.create_stats()
    calls = {key[2]: value[0] for key, value in profile.stats.items()}
    assert calls["inner"] == 3


@only_monitoring
def test_without_a_number_it_is_refused_CV03(program: Program) -> None:
    for number in (2, 3, 4):
        monitoring.use_tool_id(number, "another")
    try:
        with pytest.raises(RuntimeError, match="stop another profiler first"):
            program.engine.__enter__()
        assert not program.engine.running
    finally:
        for number in (2, 3, 4):
            monitoring.free_tool_id(number)
    with program.engine:
        program.names["main"]()
    assert program.hits == HITS


class Other:
    """Another tool, that counts calls and lines of everything and switches off what it saw."""

    def __init__(self, number: int, disables: bool) -> None:
        self.number = number
        self.starts: Counter[str] = Counter()
        self.lines: Counter[tuple[str, int]] = Counter()
        self.disables = disables

    def start(self, code: CodeType, _offset: int) -> object:
        self.starts[code.co_name] += 1
        return monitoring.DISABLE if self.disables else None

    def line(self, code: CodeType, number: int) -> object:
        self.lines[code.co_name, number] += 1
        return monitoring.DISABLE if self.disables else None

    def __enter__(self) -> Other:
        events = monitoring.events
        monitoring.use_tool_id(self.number, "other")
        monitoring.register_callback(self.number, events.PY_START, self.start)
        monitoring.register_callback(self.number, events.LINE, self.line)
        monitoring.set_events(self.number, events.PY_START | events.LINE)
        return self

    def __exit__(self, *exception: object) -> None:
        monitoring.set_events(self.number, 0)
        monitoring.free_tool_id(self.number)
        if self.disables:
            monitoring.restart_events()


@only_monitoring
def test_what_others_switched_off_stays_off_CV04(program: Program) -> None:
    with Other(1, disables=True) as other:
        program.names["main"]()
        before = dict(other.starts), dict(other.lines)
        for _ in range(2):
            with program.engine:
                program.names["main"]()
        program.names["main"]()
        after = {k: other.starts[k] for k in before[0]}, {k: other.lines[k] for k in before[1]}
    own = {"main", "inner"}
    assert {k: v for k, v in after[0].items() if k in own} == dict.fromkeys(own, 1)
    # The interpreter notes what is off per line once two tools are there, and then begins anew: the
    # other tool is asked once more.
    for key, lines in before[1].items():
        assert key[0] not in own or after[1][key] <= 2 * lines
    assert program.hits == {number: 2 * n for number, n in HITS.items()}


@only_monitoring
def test_a_tool_that_begins_in_the_block_CV06(program: Program) -> None:
    with program.engine:
        program.names["main"]()
        with Other(1, disables=False) as other:
            program.names["main"]()
        program.names["main"]()
    assert program.hits == {number: 3 * n for number, n in HITS.items()}
    assert other.lines["inner", 5] == 30


@only_monitoring
@pytest.mark.parametrize("number", [4, 3])
def test_who_has_our_number_next_sees_everything_CV05(
    program: Program, tmp_path: Path, number: int
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    engine = LineEngine(elsewhere, [], [], [], [])
    if number == 3:
        monitoring.use_tool_id(4, "another")
    try:
        for _ in range(2):
            with engine:  # to which main() is of no project: it says so once, and for all
                program.names["main"]()
    finally:
        if number == 3:
            monitoring.free_tool_id(4)
    with Other(number, disables=False) as other:
        program.names["main"]()
    assert other.starts["inner"] == 3
    assert other.lines["inner", 5] == 30
    with program.engine:
        program.names["main"]()
    assert program.hits == HITS, "another project's code is found later"


def test_begun_and_ended_a_thousand_times_TH05(program: Program) -> None:
    stop = threading.Event()
    main = program.names["main"]

    def work() -> None:
        while not stop.is_set():
            main()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        with program.engine:
            main()
    stop.set()
    for thread in threads:
        thread.join()
    hits = program.hits
    assert hits[9] >= 600


OTHERS_ON_CODE = """
import ctypes, gc, sys
from lineprofiler._core import LineEngine
folder = sys.argv[1]
sys.path.insert(0, folder)
from program import main
api = ctypes.pythonapi
engine = LineEngine(folder, [], [], [], [])
with engine:
    main()
# Indices before and after ours.
request = (getattr(api, "PyUnstable_Eval_RequestCodeExtraIndex", None)
           or api._PyEval_RequestCodeExtraIndex)
request.restype, request.argtypes = ctypes.c_ssize_t, [ctypes.c_void_p]
index = request(None)
put = getattr(api, "PyUnstable_Code_SetExtra", None) or api._PyCode_SetExtra
put.restype, put.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p]
def made():
    names = {}
    exec("def f():\\n    return 1\\n", names)
    return names["f"]
for how in range(3):
    f = made()
    if how < 2:
        assert put(f.__code__, index, 1) == 0
    if how > 0:
        with engine:
            f()
    del f
    gc.collect()
"""


def test_others_hang_things_on_code_objects_too(child: Child, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    child.run(OTHERS_ON_CODE, tmp_path)


def test_a_compiled_graph_is_not_broken_CV07(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = Program(
        tmp_path,
        """
        import torch
        def f(x):
            y = x + 1
            return y * 2
        def main():
            compiled = torch.compile(f, fullgraph=True, backend="eager")
            return [compiled(torch.ones(3)).sum().item() for _ in range(3)]
        """,
    )
    with program.engine:
        assert program.names["main"]() == [12.0] * 3
    assert program.hits[8] >= 1


# --- odd programs ------------------------------------------------------------------------------


def test_an_exception_leaves_through_the_block(program: Program) -> None:
    def block() -> None:
        with program.engine:
            program.names["main"]()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert not program.engine.running
    assert program.hits == HITS


def test_the_program_s_exceptions_are_its_own_LN19(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
        def deep(n):
            return deep(n + 1)
        def main():
            try:
                deep(0)
            except RecursionError as error:
                return error
        """,
    )
    with program.engine:
        error = program.names["main"]()
    assert isinstance(error, RecursionError)
    assert error.__context__ is None
    [(*_, lines)] = [row for row in program.engine.results() if row[1] == "deep"]
    assert lines[0][1] > 100
    with program.engine:
        pass


FORKS = """
import os, sys
from pathlib import Path
from lineprofiler import _core
from lineprofiler._core import LineEngine
folder = sys.argv[1]
sys.path.insert(0, folder)
from program import main
os.register_at_fork(after_in_child=_core.lines_after_fork)
engine = LineEngine(folder, [], [], [], [])
def hits():
    return {n: h for *_, lines in engine.results() for n, h, *_ in lines if h}
with engine:
    main()
    pid = os.fork()
    if pid == 0:
        assert not engine.running
        main()
        assert hits() == {}, hits()
        if hasattr(sys, "monitoring"):
            assert [sys.monitoring.get_tool(n) for n in range(6)] == [None] * 6
        assert sys.gettrace() is None
        with engine:
            main()
        assert hits()[5] == 30, hits()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    main()
assert hits()[5] == 60, hits()
with engine:
    main()
    os._exit(5)
"""


def test_forks_and_exits(child: Child, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    child.run(FORKS, tmp_path, status=5)


ENDS_WHILE_IT_RUNS = """
import sys, threading
from lineprofiler._core import LineEngine
sys.path.insert(0, sys.argv[1])
from program import main
engine = LineEngine(sys.argv[1], [], [], [], [])
engine.__enter__()
class Last:
    def __del__(self):
        main()
last = Last()
forever = threading.Event()
threading.Thread(target=lambda: [main() for _ in iter(int, 1)], daemon=True).start()
main()
"""


def test_a_program_that_ends_while_it_runs(child: Child, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    done = child.run(ENDS_WHILE_IT_RUNS, tmp_path)
    assert done.stderr == ""


def test_one_that_is_dropped_while_it_runs(child: Child, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    child.run(
        """
import gc, sys
from lineprofiler._core import LineEngine
sys.path.insert(0, sys.argv[1])
from program import main
LineEngine(sys.argv[1], [], [], [], []).__enter__()
gc.collect()
main()
try:
    LineEngine(sys.argv[1], [], [], [], []).__enter__()
except RuntimeError:
    print("refused")
""",
        tmp_path,
    )


def test_generators_dropped_in_the_middle(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        """
        def gen():
            try:
                for i in range(100):
                    yield i
            finally:
                x = 1
        def main():
            for _ in range(50):
                g = gen()
                next(g)
                next(g)
                del g
        """,
    )
    with program.engine:
        program.names["main"]()
    assert program.hits[5] == 100
    assert program.hits[7] == 50


def test_code_objects_that_go_while_it_runs(tmp_path: Path) -> None:
    program = Program(tmp_path, "def main(): pass\n")
    source = "def f():\n    return 1\nf()\ndef g():\n    yield f()\nx = next(g())\n"
    with program.engine:
        for _ in range(300):
            exec(compile(source, str(program.path), "exec"), {})
    assert program.hits[2] == 600


def test_an_engine_that_goes_leaves_its_code(tmp_path: Path) -> None:
    program = Program(tmp_path, SOURCE)
    for _ in range(3):
        engine = LineEngine(tmp_path, [], [], [], [])
        with engine:
            program.names["main"]()
        assert {n: h for *_, lines in engine.results() for n, h, *_ in lines if h} == HITS
        del engine


ENDED_BY_COLLECTIONS = """
import gc, os, sys
from lineprofiler import _core
from lineprofiler._core import LineEngine
sys.path.insert(0, sys.argv[1])
from program import main
os.register_at_fork(after_in_child=_core.lines_after_fork)
engine = LineEngine(sys.argv[1], [], [], [], [])
gc.set_threshold(1)
gc.callbacks.append(lambda phase, info: engine.__exit__(None, None, None))
for _ in range(20):
    with engine:
        main()
assert not engine.running
parent, children = os.getpid(), []
def fork(phase, info):
    if os.getpid() == parent and len(children) < 4:
        children.append(os.fork())
gc.callbacks[:] = [fork]
try:
    with engine:
        main()
except RuntimeError as error:
    assert os.getpid() != parent and "was forked" in str(error), error
gc.callbacks.clear()
assert not engine.running
if os.getpid() == parent:
    assert {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children} == {0}
with engine:
    main()
"""


def test_what_collections_run_may_end_it_or_fork(child: Child, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SOURCE)
    child.run(ENDED_BY_COLLECTIONS, tmp_path)


class Odd(str):
    __slots__ = ()

    def __hash__(self) -> int:
        raise KeyError(self)


@pytest.mark.parametrize(
    ("names", "measured"),
    [
        ({"co_qualname": "inner\udc80\ud800"}, True),
        ({"co_filename": "{}/program\udc80.py"}, True),
        ({"co_filename": "{}/program\ud800.py"}, False),
        ({"co_filename": "{}/program\0.py"}, False),
        ({"co_filename": Odd("{}/program.py")}, True),
    ],
    ids=["function", "bytes", "no file", "zero", "subclass"],
)
def test_names_of_any_kind(tmp_path: Path, names: dict[str, str], measured: bool) -> None:
    program = Program(tmp_path, SOURCE)
    names = {key: type(name)(name.format(tmp_path)) for key, name in names.items()}
    inner = program.names["inner"]
    inner.__code__ = inner.__code__.replace(**names)
    engine = LineEngine(tmp_path, [], [], [], ["inner*"])
    with engine:
        inner(10)
    rows = engine.results()
    assert bool(rows) is measured
    assert all(type(row[0]) is type(row[1]) is str for row in rows)


REFUSED = """
import sys
from lineprofiler._core import LineEngine
engine = LineEngine(sys.argv[1], [], [], [], [])
refuses = True
def audit(event, arguments):
    global refuses
    if event == "sys.monitoring.register_callback" and arguments == (None,) and refuses:
        refuses = False
        raise PermissionError
sys.addaudithook(audit)
with engine:
    pass
assert not refuses
sys.monitoring.use_tool_id(4, "looks")
left = [n for n in range(17) if sys.monitoring.register_callback(4, 1 << n, None)]
assert left == [0], left
"""


@only_monitoring
def test_a_callback_that_may_not_go_does_not_keep_the_others(child: Child, tmp_path: Path) -> None:
    child.run(REFUSED, tmp_path)


NO_TRACING = """
import sys
from lineprofiler._core import LineEngine
engine = LineEngine(sys.argv[1], [], [], [], [])
refuses = sys.argv[2] == "from the beginning"
def audit(event, arguments):
    if event == "sys.settrace" and refuses:
        raise PermissionError("no tracing here")
sys.addaudithook(audit)
def before(frame, event, argument):
    return None
if not refuses:
    sys.settrace(before)
try:
    with engine:
        refuses = True
    begun = True
except PermissionError as error:
    assert str(error) == "no tracing here"
    begun = False
assert begun == (sys.argv[2] != "from the beginning")
assert sys.gettrace() is (before if begun else None), sys.gettrace()
"""


@only_tracing
@pytest.mark.parametrize("when", ["from the beginning", "in the block"])
def test_an_audit_hook_that_forbids_tracing(child: Child, tmp_path: Path, when: str) -> None:
    child.run(NO_TRACING, tmp_path, when)


@pytest.mark.parametrize("by_c", [False, True])
def test_at_the_limit_of_recursion_LN19(tmp_path: Path, by_c: bool) -> None:
    call = "list(map(deep, [then]))" if by_c else "deep(then)"
    program = Program(
        tmp_path,
        f"""
        def deep(then):
            try:
                {call}
            except RecursionError:
                then()
        def seen_there_first():
            pass
        """,
    )
    before = sys.getrecursionlimit()
    deep = program.names["deep"]
    try:
        if by_c:  # which has a limit of its own from Python 3.12 on
            sys.setrecursionlimit(20000 if MONITORING else 1000)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with program.engine:
                deep(program.names["seen_there_first"])
        program.engine.__enter__()
        deep(program.engine.__exit__)
    finally:
        sys.setrecursionlimit(before)
    assert not program.engine.running
    assert program.hits[8] == 1


@pytest.mark.skipif(MONITORING, reason="threads are found without a hook")
def test_an_interrupt_leaves_no_hook_of_threads(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, program.engine:
        # As if a signal came when they are called.
        patched.setattr(threading, "settrace", interrupted)
        patched.setattr(threading, "gettrace", interrupted)
    assert threading.gettrace() is None


def test_a_trace_function_of_threads_that_is_set_in_the_block_stays(program: Program) -> None:
    tracer = Tracer(program.path)
    try:
        with program.engine:
            threading.settrace(tracer)
        assert threading.gettrace() is tracer
    finally:
        threading.settrace(None)  # type: ignore[arg-type]


def test_an_interrupt_while_it_begins(program: Program) -> None:
    def interrupt(frame: FrameType, *_: object) -> None:
        if frame.f_code.co_name == "lines":  # with which it measures itself
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            program.engine.__enter__()
    finally:
        sys.setprofile(None)
    assert not program.engine.running
    with program.engine:
        program.names["main"]()
    assert program.hits == HITS


def test_an_interrupt_while_it_ends(program: Program) -> None:
    def interrupt(frame: FrameType, *_: object) -> None:
        if frame.f_code.co_name == "lines":  # with which it measures itself once more
            sys.setprofile(None)
            raise KeyboardInterrupt

    program.engine.__enter__()
    program.names["main"]()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            program.engine.__exit__()
    finally:
        sys.setprofile(None)
    assert not program.engine.running
    assert program.hits == HITS


def test_tasks_that_go_on_while_it_ends(program: Program) -> None:
    exec(
        compile(
            "import types\n@types.coroutine\ndef wait():\n    yield\n"
            "async def task():\n    await wait()\n",
            str(program.path),
            "exec",
        ),
        program.names,
    )
    tasks = []

    def begin(frame: FrameType, *_: object) -> None:
        if frame.f_code.co_name == "lines":
            sys.setprofile(None)
            tasks.append(program.names["task"]())
            tasks[-1].send(None)

    for _ in range(3):
        with program.engine:
            program.names["main"]()
            sys.setprofile(begin)
    assert len(tasks) == 3
    assert program.hits[9] == 9
    for task in tasks:
        task.close()

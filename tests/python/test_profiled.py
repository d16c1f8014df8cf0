"""lineprofiler.testing and its pytest plugin: functions in fresh interpreters."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler import accounting
from lineprofiler.accounting import Profiler, Run, RunError, merge_run
from lineprofiler.testing import (
    ProfiledRun,
    ProfiledRunner,
    assert_counters,
    assert_no_caveats,
    assert_phases,
    assert_roles,
    run_profiled,
)

if TYPE_CHECKING:
    from conftest import Child

pytest_plugins = ["pytester"]

IMAGES = Path(f"/dev/shm/lineprofiler-{os.geteuid()}")


# ---- functions in fresh interpreters ---------------------------------------


class Games:
    """An argument, a returned value, and the owner of a method."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Games) and self.n == other.n

    __hash__ = None  # type: ignore[assignment]

    def play(self) -> Games:
        with accounting.phase("play"):
            accounting.count("games", self.n)
        return self

    @staticmethod
    def play_one() -> Games:
        return Games(1).play()


def play(n: int, *, factor: int = 1) -> dict[str, Any]:
    with accounting.phase("play"):
        accounting.count("games", n * factor)
    print("played")
    print("warned", file=sys.stderr)
    profiler = accounting.installed_profiler()
    return {"pid": os.getpid(), "profiler": repr(profiler), "folder": os.getcwd()}


def test_a_function_runs_in_a_fresh_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEPROFILER_ROLE", "not this one")
    monkeypatch.chdir(tmp_path)
    run = run_profiled(play, (3,), {"factor": 2}, role="actor")
    assert isinstance(run, Run)
    assert_roles(run, {"actor": 1}, exact=True)
    assert_phases(run, {"play": 1}, exact=True)
    assert_counters(run, "play", {"games": 6})
    assert_no_caveats(run)
    assert run.returned["pid"] == run.workers[0].pid != os.getpid()
    assert run.returned["folder"] == str(tmp_path)
    assert run.stdout == "played\n"
    assert run.stderr == "warned\n"
    # Nothing is left of it here.
    assert accounting.installed_profiler() is None
    assert "LINEPROFILER_RUN_DIR" not in os.environ
    assert not os.path.exists(run.dir)
    assert not list(IMAGES.glob(f"*{run.run_id}*"))
    assert pickle.loads(pickle.dumps(run)) == run
    assert repr(run).startswith("<ProfiledRun test-")


def test_the_run_directory_may_be_kept(run_dir: Path) -> None:
    run = run_profiled(play, (3,), run_dir=run_dir)
    merged = merge_run(run_dir)
    assert merged.tree == run.tree
    assert merged.workers == run.workers
    assert merged != run  # that one has more


def test_what_can_be_called() -> None:
    assert run_profiled(Games(3).play).returned == Games(3)
    assert run_profiled(Games.play_one).returned == Games(1)
    bound = functools.partial(functools.partial(play, 3), factor=5)
    assert_counters(run_profiled(bound), "play", {"games": 15})
    assert run_profiled(os.getpid).returned != os.getpid()


async def play_later(n: int) -> int:
    await asyncio.sleep(0)
    play(n)
    return n


def test_a_coroutine_function_is_run() -> None:
    run = run_profiled(play_later, (4,))
    assert run.returned == 4
    assert_counters(run, "play", {"games": 4})


def test_leaving_by_sys_exit_with_success_is_a_return() -> None:
    assert run_profiled(sys.exit).returned is None
    assert run_profiled(sys.exit, (0,)).returned is None


@pytest.mark.parametrize(
    ("timeout_s", "kind"), [("3", TypeError), (True, TypeError), (0, ValueError), (-1, ValueError)]
)
def test_a_wrong_timeout_is_refused(timeout_s: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="timeout_s must be"):
        run_profiled(os.getpid, timeout_s=timeout_s)


def make_own(role: str) -> None:
    with Profiler(role=role, install=True) as profiler, profiler.phase("own"):
        pass
    with Profiler(role=role) as profiler, profiler.phase("second"):
        pass


def test_a_function_may_make_its_own_profiler() -> None:
    run = run_profiled(make_own, ["learner"], role=None)
    assert_roles(run, {"learner": 2}, exact=True)
    assert_phases(run, {"own": 1, "second": 1}, exact=True)
    assert_no_caveats(run)
    assert run.stderr == ""
    with pytest.raises(RunError, match=r"^getpid\(\) recorded nothing: .* must make a profiler"):
        run_profiled(os.getpid, role=None)


def fan_out(method: str) -> int:
    import multiprocessing

    context: Any = multiprocessing.get_context(method)
    with accounting.phase("launch"):
        processes = [context.Process(target=be_actor, args=(i,)) for i in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return sum(process.exitcode or 0 for process in processes)


def be_actor(n: int) -> None:
    with Profiler(role="actor", install=True):
        play(n)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_of_the_function_are_merged(method: str) -> None:
    run = run_profiled(fan_out, (method,))
    assert run.returned == 0
    assert_roles(run, {"main": 1, "actor": 2}, exact=True)
    assert_phases(run, {"play": 2}, role="actor", exact=True)
    assert_phases(run, {"launch": 1}, role="main", exact=True)
    assert_no_caveats(run)
    assert run.stdout.count("played") == 2


class HardError(Exception):
    """One that loses its arguments when it is pickled."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def fail(error: Any) -> None:
    print("before it failed", file=sys.stderr)
    with accounting.phase("doomed"):
        if error == "hard":
            raise HardError(1, 2)
        if error == "skip":
            pytest.skip("not today")
        raise error


def test_an_exception_is_raised_here(run_dir: Path) -> None:
    with pytest.raises(LookupError, match="^not there$") as caught:
        run_profiled(fail, (LookupError("not there"),), run_dir=run_dir)
    inside = str(caught.value.__cause__)
    assert inside.startswith("\nTraceback (most recent call last)")
    assert "raise error" in inside
    assert "_profiled_child" not in inside
    assert inside.endswith("---- stderr of fail() ----\nbefore it failed")
    assert_phases(merge_run(run_dir), {"doomed": 1})


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("hard", r"^fail\(\) raised .*\bHardError: 1 and 2$"),
        (SystemExit(3), r"^fail\(\) raised SystemExit: 3$"),
        ("skip", r"^fail\(\) raised Skipped: not today$"),
        (KeyboardInterrupt(), r"^fail\(\) raised KeyboardInterrupt$"),
    ],
)
def test_an_exception_that_must_not_come_here_is_told(error: object, said: str) -> None:
    with pytest.raises(RuntimeError, match=said) as caught:
        run_profiled(fail, (error,))
    assert "Traceback" in str(caught.value.__cause__)


def end(how: int) -> None:
    print("farewell", file=sys.stderr, flush=True)
    if how < 0:
        os.kill(os.getpid(), -how)
    os._exit(how)


@pytest.mark.parametrize(
    ("how", "said"),
    [(0, "with exit status 0"), (3, "with exit status 3"), (-signal.SIGKILL, "by SIGKILL")],
)
def test_a_process_that_ends_itself_is_told(how: int, said: str) -> None:
    with pytest.raises(RuntimeError, match=rf"^end\(\) ended its process {said} without") as caught:
        run_profiled(end, (how,))
    assert "farewell" in caught.value.__notes__[0]


def end_late() -> None:
    import atexit

    atexit.register(os._exit, 5)


def test_a_bad_end_after_the_answer_is_told() -> None:
    with pytest.raises(
        RuntimeError, match="returned, and then its process ended with exit status 5"
    ):
        run_profiled(end_late)


# Which other tests of this file on the machine do not use.
OWN_SECONDS = f"600.{os.getpid()}"


def hang(seconds: str) -> None:
    with accounting.phase("a"), accounting.phase("stuck"):
        subprocess.run(["sleep", seconds], check=False)


def test_a_function_that_hangs_is_ended() -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        run_profiled(hang, (OWN_SECONDS,), timeout_s=3)
    assert time.monotonic() - begun < 300  # rather than 600
    assert re.fullmatch(
        r"hang\(\) was not done in 3 s and was killed; main \(pid \d+\) in a/stuck for \d\.\d s",
        str(caught.value),
    )
    [said] = caught.value.__notes__
    assert "in hang" in said  # the stack, by faulthandler
    assert not commands_running(f"sleep\x00{OWN_SECONDS}")


def commands_running(command: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if command in text:
            found.append(text)
    return found


def leave_one_behind(seconds: str) -> int:
    code = f"import time; time.sleep({seconds})"
    return subprocess.Popen([sys.executable, "-c", code]).pid


def test_what_the_function_leaves_running_is_ended() -> None:
    run_profiled(leave_one_behind, (OWN_SECONDS,))
    assert not commands_running(f"time.sleep({OWN_SECONDS})")


def kill_a_worker() -> None:
    pid = os.fork()
    if pid == 0:
        with accounting.phase("killed here"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def test_killed_workers_leave_no_shared_memory(tmp_path: Path) -> None:
    with ProfiledRunner(tmp_path) as runner:
        run = runner(kill_a_worker)
        again = runner(kill_a_worker)
        assert_phases(run, {"killed here": 1})
        assert (run.dir, again.dir) == (str(tmp_path / "run"), str(tmp_path / "run-2"))
        assert_phases(merge_run(run.dir), {"killed here": 1})
    for each in (run, again):
        assert not list(IMAGES.glob(f"w_{each.run_id}_*"))
    run = run_profiled(kill_a_worker)
    assert not list(IMAGES.glob(f"w_{run.run_id}_*"))
    assert "open" in {caveat.kind for caveat in run.caveats}


def come_back_twice(fails: bool) -> int:
    pid = os.fork()
    with accounting.phase("came back"):
        pass
    if pid == 0 and fails:
        raise ValueError("of the child")
    if pid != 0:
        os.waitpid(pid, 0)
    return pid


def test_a_forked_child_that_comes_back_has_no_say() -> None:
    for fails in (False, True):
        run = run_profiled(come_back_twice, args=(fails,))
        assert run.returned > 0
        assert_phases(run, {"came back": 2})
        assert ("ValueError: of the child" in run.stderr) == fails


def return_a_lock() -> object:
    import threading

    return threading.Lock()


def make_a_class_there() -> object:
    import types

    sys.modules["only_there"] = module = types.ModuleType("only_there")
    exec("class OnlyThere: pass", module.__dict__)
    return module.__dict__["OnlyThere"]()


def test_what_cannot_be_read_here_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"what make_a_class_there\(\) returned cannot be read"):
        run_profiled(make_a_class_there)


def test_what_cannot_be_handed_over_is_refused() -> None:
    def inside() -> None: ...

    wrong: Any = run_profiled
    for function, said in (
        (lambda: 3, "is a lambda. Make it a def at the top level"),
        (inside, "is defined inside another function. Move it to the top level"),
        (functools.partial(inside), "is defined inside another function"),
        (3, "must be callable, not int"),
    ):
        with pytest.raises(TypeError, match=said):
            wrong(function)
    with pytest.raises(TypeError, match=r"the arguments of play\(\) cannot be handed"):
        run_profiled(play, (lambda: 3,))
    with pytest.raises(RuntimeError, match=r"return_a_lock\(\) returned a lock, which cannot be"):
        run_profiled(return_a_lock)


def test_a_script_can_do_it(child: Child) -> None:
    code = """
import multiprocessing
from lineprofiler import accounting
from lineprofiler.testing import assert_roles, run_profiled

class Result:
    def __init__(self, n):
        self.n = n

def work(result):
    with accounting.Profiler(role="worker") as profiler, profiler.phase("work"):
        pass

def main(result):
    process = multiprocessing.get_context("spawn").Process(target=work, args=(result,))
    process.start()
    process.join()
    with accounting.phase("main"):
        return Result(result.n + 1)

if __name__ == "__main__":
    run = run_profiled(main, (Result(3),))
    assert type(run.returned) is Result and run.returned.n == 4
    assert_roles(run, {"main": 1, "worker": 1}, exact=True)
"""
    child.run(code)
    done = child.run(code.replace('if __name__ == "__main__":', "if True:"), status=1)
    assert "RuntimeError: the new process could not load main() and its arguments" in done.stderr
    assert 'below if __name__ == "__main__":' in done.stderr
    child.run("pass")
    package = child.folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "run.py").write_text(code)
    subprocess.run([sys.executable, "-m", "package.run"], cwd=child.folder, check=True)


def test_a_function_that_was_typed_in_is_refused() -> None:
    code = """
from lineprofiler.testing import run_profiled
def f(): pass
try:
    run_profiled(f)
except TypeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-Pc", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("f() was typed in, so a new process cannot find it")


# ---- the plugin ------------------------------------------------------------

A_TEST = """
import multiprocessing
from lineprofiler import accounting
from lineprofiler.testing import assert_phases, assert_roles
{imports}

def child():
    with accounting.Profiler(role="child") as profiler, profiler.phase("deep"):
        pass

def work(method):
    print("said by work")
    with accounting.phase("work"):
        process = multiprocessing.get_context(method).Process(target=child)
        process.start()
        process.join()

def test_it(profiled_run, tmp_path):
    run = profiled_run(work, ("spawn",))
    assert run.dir == str(tmp_path / "run")
    assert_roles(run, {{"main": 1, "child": 1}})
    assert_phases(run, ["work", "deep"])
    assert {verdict}
"""


def a_test(imports: str = "", verdict: str = "True") -> str:
    return A_TEST.format(imports=imports, verdict=verdict)


def run_pytest(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_the_plugin_is_found(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(a_test())
    run_pytest(pytester).assert_outcomes(passed=1)
    result = run_pytest(pytester, "--fixtures")
    result.stdout.re_match_lines(
        [
            r"profiled_run -- .*pytest_plugin.py:\d+",
            " *Call it with a function: it runs in a fresh.*",
        ]
    )


def test_the_plugin_can_be_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(a_test())
    run_pytest(pytester, "-p", "lineprofiler.pytest_plugin").assert_outcomes(passed=1)
    run_pytest(pytester).assert_outcomes(errors=1)


def test_a_failure_shows_the_test_and_what_was_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        a_test(verdict="not run.stdout")
        + textwrap.dedent("""
        def fail():
            raise ValueError("from within")

        def test_raises(profiled_run):
            profiled_run(fail)

        def test_expects(profiled_run):
            assert_phases(profiled_run(fail_not), ["x"])

        def fail_not():
            return 3
        """)
    )
    result = run_pytest(pytester)
    result.assert_outcomes(failed=3)
    text = result.stdout.str()
    assert "said by work" in text
    assert 'raise ValueError("from within")' in text
    assert "ChildTraceback" in text
    # The lines of the user's test, not ours.
    assert ">       profiled_run(fail)" in text
    assert '>       assert_phases(profiled_run(fail_not), ["x"])' in text
    assert "_profiled.py" not in text
    assert "testing.py" not in text.replace("test_", "")


HELPERS = a_test().partition("def test_it")[0]
LAYOUT = {
    "test_flat.py": a_test(),
    "folder/test_folder.py": a_test(),
    "package/__init__.py": "",
    "package/inner/__init__.py": "",
    "package/inner/helper.py": HELPERS,
    # Twice the same name, one with what a relative import brings.
    "package/inner/test_it.py": a_test("from . import helper"),
    "other/__init__.py": "",
    "other/test_it.py": a_test(),
    "fixtures/conftest.py": HELPERS + "import pytest\n@pytest.fixture\ndef job(): return work\n",
    "fixtures/test_fixtures.py": """
def test_it(profiled_run, job):
    assert set(profiled_run(job, ("spawn",)).roles) == {"main", "child"}
""",
}


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_any_layout_of_tests_works(pytester: pytest.Pytester, mode: str) -> None:
    for name, text in LAYOUT.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_pytest(pytester, f"--import-mode={mode}").assert_outcomes(passed=5)


def test_the_plugin_costs_other_tests_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_unused(tmp_path):
            ours = {name for name in sys.modules if name.partition(".")[0] == "lineprofiler"}
            assert ours <= {"lineprofiler", "lineprofiler.pytest_plugin"}
    """)
    run_pytest(pytester, "-W", "error").assert_outcomes(passed=1)


def test_pytest_may_be_started_where_the_package_is_loaded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(a_test())
    script = pytester.path / "start.py"
    script.write_text(
        "import sys, pytest, lineprofiler.accounting, lineprofiler.testing\n"
        "sys.exit(pytest.main(['-W', 'error', '-p', 'no:cacheprovider']))"
    )
    result = pytester.run(sys.executable, str(script))
    result.assert_outcomes(passed=1)
    assert "warning" not in result.stdout.str()


def test_the_entry_point() -> None:
    entries = importlib.metadata.entry_points(group="pytest11")
    assert [entry.value for entry in entries if entry.name == "lineprofiler"] == [
        "lineprofiler.pytest_plugin"
    ]
    assert isinstance(ProfiledRun, type)

"""LineProfiler's arguments and figures: which code, the shapes of N2, regions, wrong usage."""

from __future__ import annotations

import copy
import io
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lineprofiler
from lineprofiler import LineProfiler, start_profiling, stop_profiling
from lineprofiler.lines import FunctionStats, LineStats
from lines import Project, hits, hooks, load, only

if TYPE_CHECKING:
    from conftest import Child

PROGRAM = """\
    def inner(n):
        total = 0
        for i in range(n):
            total += i
        return total

    def outer():
        a = inner(100)
        b = inner(10)
        return a + b
    """


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Any:
    before = hooks()
    yield
    assert hooks() == before


# ---- which project (N1) ----------------------------------------------------


def folder_told_by(script: Path, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(script)], cwd=cwd, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


WHERE = "from lineprofiler import LineProfiler; print(LineProfiler().project_folder)\n"


def test_the_project_is_the_nearest_git_upwards_N1(tmp_path: Path) -> None:
    nested = tmp_path / "repository" / "a" / "b"
    nested.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    script = nested / "tool.py"
    script.write_text(WHERE)
    assert folder_told_by(script, tmp_path) == str(tmp_path / "repository")
    (tmp_path / "repository" / "a" / ".git").write_text("gitdir: elsewhere")  # a worktree
    assert folder_told_by(script, tmp_path) == str(tmp_path / "repository" / "a")
    link = tmp_path / "link.py"
    link.symlink_to(script)
    assert folder_told_by(link, tmp_path) == str(tmp_path / "repository" / "a")


def test_without_git_it_is_the_files_folder_N1(tmp_path: Path) -> None:
    with_git = [path for path in tmp_path.parents if (path / ".git").exists()]
    if with_git:
        pytest.skip(f"{with_git[0]} is a repository")
    made: dict[str, Any] = {}
    script = tmp_path / "alone" / "tool.py"
    script.parent.mkdir()
    script.write_text("from lineprofiler import LineProfiler\nprofiler = LineProfiler()\n")
    exec(compile(script.read_text(), str(script), "exec"), made)
    assert made["profiler"].project_folder == str(script.parent)


def test_without_a_file_it_is_the_working_directory_N1(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = project.folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    made: dict[str, Any] = {}
    exec(compile(WHERE.replace("print(", "p = ("), "<stdin>", "exec"), made)
    assert made["p"] == str(project.folder)


def test_code_outside_the_project_is_not_measured_N1(project: Project, tmp_path: Path) -> None:
    """LN09, LN17: twins elsewhere, a folder whose name begins alike, installed packages."""
    inside = project.load("mod.py", PROGRAM)
    text = (project.folder / "mod.py").read_text()
    twins = []
    for place in (
        tmp_path / "project_too" / "mod.py",
        project.folder / ".venv" / "lib" / "site-packages" / "mod.py",
    ):
        place.parent.mkdir(parents=True)
        place.write_text(text)
        twins.append(load(place))
    with project.profiler() as profiler:
        inside.inner(3)
        for twin in twins:
            twin.inner(5)
    [key] = profiler.get_stats()
    assert key == (str(project.folder / "mod.py"), "inner", 1)
    assert hits(only(profiler, "inner")) == {1: 1, 2: 4, 3: 3, 4: 1}


def test_a_folder_by_a_symlink_N1(project: Project, tmp_path: Path) -> None:
    """LN16."""
    module = project.load("mod.py", PROGRAM)
    link = tmp_path / "link"
    link.symlink_to(project.folder)
    with LineProfiler(link) as profiler:
        module.outer()
    assert only(profiler, "outer").calls == 1


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"include": ["src/*"]}, {"one", "two"}),
        ({"include": ["src"]}, {"one", "two"}),
        ({"exclude": ["src/deep/"]}, {"one", "top"}),
        ({"include": ["*.py"], "exclude": ["top.py"]}, {"one", "two"}),
        ({"functions": ["t*"]}, {"two", "top"}),
        ({"functions": ("one", "top")}, {"one", "top"}),
        ({"include": ["src/*"], "functions": ["t*"]}, {"two"}),
        ({"include": [], "exclude": [], "functions": []}, {"one", "two", "top"}),
    ],
)
@pytest.mark.parametrize("by_file", [False, True])
def test_globs_N1(project: Project, options: Any, names: set[str], by_file: bool) -> None:
    modules = [
        project.load("src/a.py", "def one(): pass"),
        project.load("src/deep/b.py", "def two(): pass"),
        project.load("top.py", "def top(): pass"),
    ]
    if by_file:
        lines = [f"{key} = {list(value)!r}\n" for key, value in options.items()]
        project.write("pyproject.toml", "[tool.lineprofiler]\n" + "".join(lines))
    with project.profiler(**({} if by_file else options)) as profiler:
        for module in modules:
            for name in ("one", "two", "top"):
                if hasattr(module, name):
                    getattr(module, name)()
    assert {key[1] for key in profiler.get_stats()} == names


def test_arguments_win_over_pyproject_N1(project: Project) -> None:
    project.write("pyproject.toml", '[tool.lineprofiler]\nfunctions = ["inner"]\n')
    module = project.load("mod.py", PROGRAM)
    with project.profiler(functions=["outer"]) as profiler:
        module.outer()
    assert [key[1] for key in profiler.get_stats()] == ["outer"]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("[tool.lineprofiler\n", ValueError, r"pyproject\.toml: not TOML: "),
        (b"\xff\xfe", ValueError, r"pyproject\.toml: not TOML: "),
        (
            "[tool]\nlineprofiler = 3\n",
            ValueError,
            r"must be a table: write \[tool\.lineprofiler\]",
        ),
        (
            "[tool.lineprofiler]\nfunction = []\n",
            ValueError,
            r"pyproject\.toml: \[tool\.lineprofiler\] has no key 'function'; did you mean 'func",
        ),
        (
            "[tool.lineprofiler]\ninclude = 'src'\n",
            TypeError,
            r"include in \[tool.lineprofiler\] must be a list of str, as in \[\"src/\*\"\], not 's",
        ),
        ("[tool.lineprofiler]\nexclude = [1]\n", TypeError, r"exclude .* 1 is no str"),
        ("[tool.lineprofiler]\nexclude = ['']\n", ValueError, r"'' matches nothing"),
        ("[tool.lineprofiler]\ninclude = ['/a']\n", ValueError, r"'/a' is not relative"),
    ],
)
def test_a_wrong_pyproject(
    project: Project, text: str | bytes, kind: type[Exception], message: str
) -> None:
    path = project.folder / "pyproject.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(kind, match=message) as caught:
        project.profiler()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_tools_in_pyproject_are_none_of_ours(project: Project) -> None:
    project.write("pyproject.toml", "tool = 3\n")
    project.profiler()
    project.write("pyproject.toml", "[tool.other]\nx = 1\n")
    project.profiler()


# ---- figures (N2) ----------------------------------------------------------


def test_get_stats_N2(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    with project.profiler() as profiler:
        module.outer()
    stats = profiler.get_stats()
    file = str(project.folder / "mod.py")
    assert list(stats) == [(file, "inner", 1), (file, "outer", 7)]
    inner, outer = stats.values()
    assert (inner.filename, inner.function_name, inner.first_line) == (file, "inner", 1)
    assert (inner.calls, outer.calls) == (2, 1)
    assert hits(inner) == {1: 2, 2: 112, 3: 110, 4: 2}
    assert hits(outer) == {1: 1, 2: 1, 3: 1}
    assert list(inner.line_stats) == sorted(inner.line_stats)
    for function in stats.values():
        assert isinstance(function.total_time, float)
        assert function.total_time == function.wall_ns / 1e9
        for number, line in function.line_stats.items():
            assert line.line_number == number
            assert line.total_time == line.wall_ns / 1e9
            assert line.average_time == pytest.approx(line.total_time / line.hits)
            assert 0 <= line.self_ns <= line.wall_ns
            assert line.wait_ns == max(0, line.wall_ns - line.cpu_ns)
    called = outer.line_stats[8]
    assert called.wall_ns > called.self_ns
    assert inner.wall_ns <= outer.wall_ns


def test_records_are_plain_N2(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    with project.profiler() as profiler:
        module.outer()
    function = only(profiler, "outer")
    assert pickle.loads(pickle.dumps(function)) == function == copy.deepcopy(function)
    with pytest.raises(AttributeError):
        function.calls = 3
    assert isinstance(function, FunctionStats)
    assert isinstance(function.line_stats[8], LineStats)
    assert "function_name='outer'" in repr(function)
    assert LineStats(**dict.fromkeys(LineStats.__slots__, 0)).average_time == 0.0


def test_a_profiler_is_neither_copied_nor_pickled(project: Project) -> None:
    profiler = project.profiler()
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="can be neither copied nor pickled"):
            make(profiler)


def test_blocks_add_up_until_they_are_cleared_N2(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    profiler = project.profiler()
    for clear in (profiler.clear, profiler.reset):
        for n in (1, 2):
            with profiler:
                module.inner(5)
            assert hits(only(profiler, "inner"))[3] == 5 * n
        clear()
        assert profiler.get_stats() == {}
        assert profiler.totals()["wall_ns"] == 0


def test_while_it_runs(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    with project.profiler() as profiler:
        module.inner(5)
        assert profiler.running
        assert "running" in repr(profiler)
        assert hits(only(profiler, "inner"))[3] == 5
        out = io.StringIO()
        profiler.print_stats(stream=out)
        assert "The block is still running." in out.getvalue()
        with pytest.raises(RuntimeError, match="leave its block first"):
            profiler.clear()
        with pytest.raises(RuntimeError, match="running already"), project.profiler():
            pass
        module.inner(5)
    assert not profiler.running
    assert hits(only(profiler, "inner"))[3] == 10


def test_twins_are_added_up_under_their_key_N2(project: Project) -> None:
    """LN10."""
    path = project.write("mod.py", "def f():\n    return 1\n")
    first, second = load(path), load(path)
    with project.profiler() as profiler:
        first.f()
        second.f()
        second.f()
    assert only(profiler, "f").calls == 3
    assert hits(only(profiler, "f")) == {1: 3}


# ---- regions ---------------------------------------------------------------


def test_regions_nest(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    profiler = project.profiler()
    select = profiler.region("select")
    with profiler:
        module.inner(1)
        with select:
            module.inner(10)
            with profiler.region("deep"), select:
                module.inner(100)
        with select:
            module.inner(1000)

    def rounds(region: Any) -> int:
        return hits(only(profiler, "inner", region=region))[3]

    assert rounds(None) == 1111
    assert rounds("select") == 1110
    assert rounds(("select",)) == 1110
    assert rounds("deep") == rounds(("select", "deep")) == 100
    assert rounds(("select", "deep", "select")) == 100
    assert rounds(()) == 1111
    whole, part = only(profiler, "inner"), only(profiler, "inner", region="select")
    assert 0 < part.wall_ns < whole.wall_ns


def test_a_region_is_one_of_its_thread(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    profiler = project.profiler()
    region = profiler.region("r")
    inside, outside = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait(60)
        module.inner(7)
        with region:
            module.inner(30)
        outside.set()

    with profiler:
        thread = threading.Thread(target=other)
        thread.start()
        with region:
            inside.set()
            outside.wait(60)
            module.inner(500)
        thread.join()
    assert hits(only(profiler, "inner", region="r"))[3] == 530
    assert hits(only(profiler, "inner"))[3] == 537


def test_a_region_where_nothing_runs(project: Project) -> None:
    profiler = project.profiler()
    region = profiler.region("r")
    with region, region:
        pass
    with pytest.raises(RuntimeError, match="'r' was not entered"):
        region.__exit__(None, None, None)
    with pytest.raises(ZeroDivisionError), profiler, region:
        1 / 0  # noqa: B018
    with pytest.raises(ValueError, match="must not be empty"):
        profiler.region("")
    with pytest.raises(TypeError, match="must be str, not int"):
        profiler.region(3)  # type: ignore[arg-type]


def test_a_region_that_there_was_not(project: Project) -> None:
    module = project.load("mod.py", PROGRAM)
    with project.profiler() as profiler, profiler.region("select"):
        module.outer()
    with pytest.raises(ValueError, match=r"no region 'selekt'; did you mean 'select'\?"):
        profiler.get_stats(region="selekt")
    with pytest.raises(ValueError, match="no region"):
        profiler.print_stats(region=("x", "select"))
    with pytest.raises(TypeError, match="region must be"):
        profiler.get_stats(region=3)  # type: ignore[arg-type]


# ---- without a block -------------------------------------------------------


def test_start_and_stop(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    module = project.load("mod.py", PROGRAM)
    assert stop_profiling() is None
    started = start_profiling(project.folder, functions=["inner"])
    module.outer()
    assert started.running
    with pytest.raises(RuntimeError, match="running already"):
        start_profiling(project.folder)
    stopped = stop_profiling()
    assert stopped is started
    assert not started.running
    assert [key[1] for key in started.get_stats()] == ["inner"]
    assert stop_profiling() is None
    for text in ("", "0", "false", "No", " off "):
        monkeypatch.setenv("LINEPROFILER_ENABLED", text)
        before = hooks()
        off = start_profiling(project.folder)
        assert hooks() == before
        module.outer()
        assert stop_profiling() is off
        assert off.get_stats() == {}


def test_start_finds_the_callers_project(project: Project) -> None:
    module = project.load(
        "mod.py",
        """\
        from lineprofiler import start_profiling, stop_profiling

        def work():
            profiler = start_profiling()
            total = sum(range(10))
            stop_profiling()
            return profiler
        """,
    )
    profiler = module.work()
    assert profiler.project_folder == str(project.folder)
    assert hits(only(profiler, "work"))[2] == 1


def test_it_is_imported_when_first_used() -> None:
    code = (
        "import sys, lineprofiler.accounting\n"
        "assert not [name for name in sys.modules if 'lines' in name and 'lineprof' in name]\n"
        "from lineprofiler import LineProfiler, start_profiling, stop_profiling\n"
        "assert 'lineprofiler.lines' in sys.modules\n"
        "assert not {'tomllib', 'sysconfig', 'IPython'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    assert {"LineProfiler", "lines", "start_profiling"} <= set(dir(lineprofiler))


# ---- wrong usage -----------------------------------------------------------

WRONG: list[tuple[Callable[[LineProfiler], object], type[Exception], str]] = [
    (
        lambda profiler: profiler.print_stats(sort_by="tmie"),  # type: ignore[arg-type]
        ValueError,
        "cannot sort by 'tmie'; did you mean 'time'?",
    ),
    (
        lambda profiler: profiler.print_global_top_stats(sort_by="x"),  # type: ignore[arg-type]
        ValueError,
        "cannot sort by 'x'; there are 'time', 'hits', 'line'",
    ),
    (
        lambda profiler: profiler.print_stats(sort_by=None),  # type: ignore[arg-type]
        ValueError,
        "cannot sort by None; there are 'time', 'hits', 'line'",
    ),
    (
        lambda profiler: profiler.print_stats(-1),
        ValueError,
        "min_time_us must not be negative: -1.0",
    ),
    (
        lambda profiler: profiler.print_stats(float("nan")),
        ValueError,
        "min_time_us must not be negative: nan",
    ),
    (
        lambda profiler: profiler.print_stats("1"),  # type: ignore[arg-type]
        TypeError,
        "min_time_us must be a number, not str",
    ),
    (
        lambda profiler: profiler.print_stats(0, -3),
        ValueError,
        "top_n_lines must not be negative: -3",
    ),
    (
        lambda profiler: profiler.print_global_top_stats(-3),
        ValueError,
        "top_n must not be negative: -3",
    ),
    (
        lambda profiler: profiler.print_global_top_stats(2.5),  # type: ignore[arg-type]
        TypeError,
        "top_n must be an int or None, not float",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_wrong_arguments_print_nothing(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    call: Callable[[LineProfiler], object],
    kind: type[Exception],
    message: str,
) -> None:
    module = project.load("mod.py", PROGRAM)
    with project.profiler() as profiler:
        module.outer()
    with pytest.raises(kind, match=re.escape(message)):
        call(profiler)
    assert capsys.readouterr() == ("", "")


def test_a_wrong_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        LineProfiler(tmp_path / "nowhere")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError, match="file"):
        LineProfiler(file)
    with pytest.raises(ValueError, match="must not be empty"):
        LineProfiler("")
    with pytest.raises(TypeError, match="project_folder must be a path or None, not int"):
        LineProfiler(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="functions must be a list of str"):
        LineProfiler(tmp_path, functions="Search.*")
    with pytest.raises(
        TypeError, match=r"must be a list of str, as in \[\"src/\*\"\]: 3 is no str"
    ):
        LineProfiler(tmp_path, include=[3])  # type: ignore[list-item]


def test_a_file_in_the_place_of_a_folder(project: Project) -> None:
    path = project.write("mod.py", PROGRAM)
    with pytest.raises(NotADirectoryError, match=re.escape(repr(str(path)))):
        LineProfiler(path)


def test_one_that_was_not_made() -> None:
    assert repr(LineProfiler.__new__(LineProfiler)) == "<LineProfiler, without its __init__()>"


def test_a_path_of_any_kind(project: Project) -> None:
    for folder in (str(project.folder), os.fsencode(project.folder), project.folder):
        assert LineProfiler(folder).project_folder == str(project.folder)  # type: ignore[arg-type]


def test_a_forked_child_measures_nothing(child: Child) -> None:
    told = child.json(
        """\
import json, os
from lineprofiler import LineProfiler

def inner(n):
    for i in range(n):
        i

def rounds(profiler):
    return {key[1]: line.line_stats[6].hits for key, line in profiler.get_stats().items()
            if key[1] == "inner"}

reading, writing = os.pipe()
with LineProfiler() as profiler:
    inner(3)
    pid = os.fork()
    if pid == 0:
        inner(1000)
        running = profiler.running
        with profiler:
            inner(20)
        os.write(writing, json.dumps([running, rounds(profiler)]).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    inner(4)
print(json.dumps([rounds(profiler), json.loads(os.read(reading, 1000))]))
""",
    )
    assert told == [{"inner": 7}, [False, {"inner": 20}]]


def test_waiting_is_told_N5(project: Project) -> None:
    module = project.load(
        "mod.py",
        """\
        import time

        def wait():
            time.sleep(0.05)

        def spin():
            end = time.thread_time() + 0.05
            while time.thread_time() < end:
                pass
        """,
    )
    with project.profiler() as profiler:
        module.wait()
        module.spin()
    slept = only(profiler, "wait").line_stats[4]
    assert slept.wait_ns > 0.9 * slept.wall_ns >= 0.9 * 50e6
    spun = only(profiler, "spin")
    assert spun.cpu_ns > 20e6  # of 50 ms, less what the profiler took
    assert spun.wait_ns == spun.wall_ns - spun.cpu_ns


class Odd(str):
    """A name that cannot be compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError

    def __lt__(self, other: object) -> bool:
        raise ValueError


def test_a_region_s_name_is_a_plain_str(project: Project, tmp_path: Path) -> None:
    module = project.load("m.py", "def f():\n    return 1\n")
    profiler = project.profiler()
    for name in ("a", "b"):
        with profiler, profiler.region(Odd(name)):
            module.f()
    profiler.print_stats(region="a", stream=io.StringIO())
    profiler.to_json(os.fsencode(tmp_path / "x.json"))  # type: ignore[arg-type]
    assert (tmp_path / "x.json").exists()

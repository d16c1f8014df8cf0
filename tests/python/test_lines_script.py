"""`lineprofiler run`: the program sees what `python program.py` would show it (N6)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

NATIVE = [str(Path(sys.executable).parent / "lineprofiler")]
MODULE = [sys.executable, "-m", "lineprofiler"]
STARTS = pytest.mark.parametrize("start", [NATIVE, MODULE], ids=["native", "module"])

SUMMARY = re.compile(r"(?s)\nBlock [^\n]*\nMeasured by .*")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder."""
    made = tmp_path / "project"
    (made / ".git").mkdir(parents=True)
    return made


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def start(command: Sequence[object], cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=120, **options
    )


def run(
    words: Sequence[object], cwd: Path, begin: Sequence[str] = tuple(NATIVE), **options: Any
) -> subprocess.CompletedProcess[str]:
    return start([*begin, "run", *words], cwd, **options)


def errors(done: subprocess.CompletedProcess[str]) -> str:
    """Return what the program itself wrote to standard error."""
    return SUMMARY.sub("", done.stderr)


WORLD = """\
    import json, sys

    def world():
        main = sys.modules["__main__"]
        names = ("__name__", "__file__", "__package__", "__cached__", "__doc__", "__annotations__")
        spec = main.__spec__
        return {
            "argv": sys.argv,
            "path": sys.path,
            "main": {name: getattr(main, name, "missing") for name in names},
            "spec": spec and [spec.name, spec.origin, spec.parent],
            "loader": type(main.__loader__).__name__,
            "names": sorted(name for name in vars(main)),
            "is_main": main.__dict__ is globals(),
            "frame": sys._getframe(1).f_code.co_filename,
            "safe": sys.flags.safe_path,
        }

    print(json.dumps(world()))
    """


@STARTS
@pytest.mark.parametrize("options", [[], ["-P"]], ids=["", "-P"])
def test_a_script_sees_its_own_world_N6(folder: Path, start: list[str], options: list[str]) -> None:
    write(folder / "tools" / "script.py", WORLD)
    (folder / "link.py").symlink_to("tools/script.py")
    env = {**os.environ, "PYTHONSAFEPATH": "1"} if options else dict(os.environ)
    for script in ("tools/script.py", "./link.py", str(folder / "tools" / "script.py")):
        words = [script, "--top", "x", "-m", "--", ""]
        plain = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        )
        ours = run(words, folder, start, env=env)
        assert ours.returncode == 0, ours.stderr
        assert json.loads(ours.stdout) == json.loads(plain.stdout)


@STARTS
@pytest.mark.parametrize("module", ["pack.mod", "pack", "script"])
def test_a_module_sees_its_own_world_N6(folder: Path, start: list[str], module: str) -> None:
    write(folder / "pack" / "__init__.py", "")
    for name in ("pack/mod.py", "pack/__main__.py", "script.py"):
        write(folder / name, WORLD)
    words = ["-m", module, "a", "--html", "b"]
    plain = subprocess.run(
        [sys.executable, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    ours = run(words, folder, start)
    assert ours.returncode == 0, ours.stderr
    theirs, own = json.loads(plain.stdout), json.loads(ours.stdout)
    assert own == theirs


@STARTS
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_folder_or_a_zip_file_is_run_N6(folder: Path, start: list[str], kind: str) -> None:
    write(folder / "bundle" / "__main__.py", WORLD)
    name = "bundle"
    if kind == "zip":
        name = "bundle.pyz"
        with zipfile.ZipFile(folder / name, "w") as file:
            file.write(folder / "bundle" / "__main__.py", "__main__.py")
    words = [name, "a"]
    plain = subprocess.run(
        [sys.executable, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    ours = run(words, folder, start)
    assert ours.returncode == 0, ours.stderr
    theirs, own = json.loads(plain.stdout), json.loads(ours.stdout)
    for each in (theirs, own):
        each["path"] = [os.path.realpath(folder / path) for path in each["path"]]
        if each["spec"]:
            each["spec"][1] = os.path.realpath(folder / each["spec"][1])
        for name in ("__file__", "__cached__"):
            each["main"][name] = os.path.realpath(folder / str(each["main"][name]))
        each["frame"] = os.path.realpath(folder / each["frame"])
    assert own == theirs


PROGRAM = """\
    import sys, time

    def nap():
        time.sleep(0.02)

    def main():
        nap()
        print("out")

    main()
    """


@STARTS
def test_a_summary_N6(folder: Path, start: list[str]) -> None:
    write(folder / "script.py", PROGRAM)
    done = run(["--top", "3", "script.py"], folder, start)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert errors(done) == ""
    lines = done.stderr.split("\n")
    assert lines[1].startswith("Block ")
    assert lines[2].endswith(f" in {folder}")
    table = lines[lines.index("", 2) + 1 :]
    assert "script.py:4 nap" in table[1]
    assert "time.sleep(0.02)" in table[1]
    assert len(table) == 1 + 3 + 2 + 2
    assert run(["--top=0", "script.py"], folder, start).stderr == ""


def test_outputs_N6(folder: Path) -> None:
    write(folder / "script.py", PROGRAM)
    words = ["--html", "x.html", "--lprof", "x.lprof", "--json", "x.json"]
    done = run([*words, "--functions", "nap", "script.py"], folder)
    assert done.returncode == 0, done.stderr
    document = json.loads((folder / "x.json").read_text())
    assert [function["name"] for function in document["functions"]] == ["nap"]
    assert "time.sleep" in (folder / "x.html").read_text()
    assert (folder / "x.lprof").read_bytes()
    names = {path.name for path in folder.iterdir()}
    assert names == {".git", "script.py", "x.html", "x.lprof", "x.json"}


def test_outputs_lie_where_they_were_asked_for_N6(folder: Path, tmp_path: Path) -> None:
    write(folder / "script.py", f"import os\nos.chdir({str(tmp_path)!r})\nx = 1\n")
    done = run(["--json", "x.json", "script.py"], folder)
    assert done.returncode == 0
    assert "script.py:3 <module>" in done.stderr
    assert "x = 1" in done.stderr
    assert json.loads((folder / "x.json").read_text())["functions"]
    assert not (tmp_path / "x.json").exists()


def test_the_project_is_that_of_the_script_N6(folder: Path, tmp_path: Path) -> None:
    write(folder / "deep" / "script.py", "import beside\nbeside.f()\n")
    write(folder / "deep" / "beside.py", "def f(): pass\n")
    done = run(["project/deep/script.py"], tmp_path)
    assert f"Measured by {backend()} in {folder}\n" in done.stderr
    assert "deep/beside.py:1 f" in done.stderr
    write(folder / "pyproject.toml", "[tool.lineprofiler]\nexclude = ['deep/beside.py']\n")
    assert "beside" not in run(["--top", "9", "project/deep/script.py"], tmp_path).stderr.replace(
        "import beside", ""
    ).replace("beside.f()", "")
    elsewhere = run(
        ["--project", tmp_path / "project" / ".git", "project/deep/script.py"], tmp_path
    )
    assert "No figures: no code below" in elsewhere.stderr
    module = run(["-m", "script"], folder / "deep")
    assert f" in {folder}\n" in module.stderr


def backend() -> str:
    return "sys.monitoring" if sys.version_info >= (3, 12) else "a trace function"


# ---- ends ------------------------------------------------------------------

ENDS = {
    "exit": "sys.exit(7)",
    "exit text": "sys.exit('bad')",
    "exit none": "sys.exit()",
    "error": "1 / 0",
    "caused": "\n".join(
        ("try:", "    {}['x']", "except KeyError as e:", "    raise ValueError('v') from e")
    ),
    "in a function": "def f():\n    raise RuntimeError('x')\nf()",
    "group": "raise ExceptionGroup('g', [ValueError(1)])",
    "hook": "sys.excepthook = lambda k, v, t: print(k, v, t.tb_lineno, t.tb_next)\n1 / 0",
    "interrupt": "raise KeyboardInterrupt",
    "own exit": "raise SystemExit(3)",
}


@STARTS
@pytest.mark.parametrize("end", ENDS)
def test_however_it_ends_N6(folder: Path, start: list[str], end: str) -> None:
    text = "import sys, time\ntime.sleep(0.01)\n" + ENDS[end] + "\n"
    (folder / "script.py").write_text(text)
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True
    )
    done = run(["--html", "x.html", "script.py"], folder, start)
    assert done.returncode == plain.returncode
    assert done.stdout == plain.stdout
    assert errors(done) == plain.stderr
    assert "script.py:2 <module>" in done.stderr
    assert "time.sleep" in (folder / "x.html").read_text()


def test_a_real_interrupt_N6(folder: Path) -> None:
    write(
        folder / "script.py",
        """\
        import itertools, time
        for i in itertools.count():
            time.sleep(0.01)
            i == 1 and print("ready", flush=True)
        """,
    )
    with subprocess.Popen(
        [*NATIVE, "run", "script.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt\n" in stderr
    assert "_lines_script" not in stderr
    assert "script.py:3 <module>" in stderr


def test_what_runs_after_the_script_N6(folder: Path) -> None:
    """Threads that are waited for, and functions of atexit, are measured and heard first."""
    write(
        folder / "script.py",
        """\
        import atexit, sys, threading, time
        from concurrent.futures import ThreadPoolExecutor

        def late():
            time.sleep(0.03)
            print("thread", file=sys.stderr)

        def bye():
            print("bye", file=sys.stderr)

        atexit.register(bye)
        pool = ThreadPoolExecutor(1)
        pool.submit(int)
        threading.Thread(target=late).start()
        """,
    )
    done = run(["script.py"], folder)
    assert done.returncode == 0
    assert errors(done) == "thread\nbye\n"
    assert "script.py:5 late" in done.stderr
    assert "script.py:9 bye" in done.stderr


def test_a_closed_standard_error_N6(folder: Path) -> None:
    write(folder / "script.py", "import sys\nsys.stderr.close()\nsys.exit(4)\n")
    assert run(["script.py"], folder).returncode == 4
    write(folder / "script.py", "import sys\nsys.stderr = None\nsys.exit(4)\n")
    assert run(["script.py"], folder).returncode == 4


# ---- child processes -------------------------------------------------------


@STARTS
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_N6(folder: Path, start: list[str], method: str) -> None:
    write(
        folder / "script.py",
        f"""\
        import multiprocessing

        class Point:
            def __init__(self, x):
                self.x = x

        def double(point):
            return Point(point.x * 2)

        if __name__ == "__main__":
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                print([point.x for point in pool.map(double, map(Point, range(4)))])
        """,
    )
    done = run(["script.py"], folder, start)
    assert (done.returncode, done.stdout) == (0, "[0, 2, 4, 6]\n"), done.stderr
    assert errors(done) == ""
    assert done.stderr.count("\nBlock ") == 1


def test_a_forked_child_prints_no_summary_N6(folder: Path) -> None:
    write(
        folder / "script.py",
        """\
        import os, sys
        pid = os.fork()
        if pid == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
    )
    done = run(["--html", "x.html", "script.py"], folder)
    assert done.stdout == "3\n"
    assert done.stderr.count("\nBlock ") == 1


# ---- wrong usage -----------------------------------------------------------


@STARTS
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a script, as in: lineprofiler run x.py"),
        (["-m"], "name a module, as in: lineprofiler run -m package.module"),
        (["--hmtl", "x", "script.py"], "unknown option '--hmtl'; did you mean '--html'?"),
        (["-x", "script.py"], "unknown option '-x'; see lineprofiler run --help"),
        (["--html"], "option '--html' needs a value; see lineprofiler run --help"),
        (["--top", "-1", "script.py"], "--top needs a number, 0 for no summary, not '-1'"),
        (["--top", "many", "script.py"], "--top needs a number, 0 for no summary, not 'many'"),
        (["nowhere.py"], "can't open file 'nowhere.py': No such file or directory"),
        (["-m", "nowhere"], "No module named nowhere"),
        (["-m", "nowhere.at.all"], "No module named nowhere"),
        (["-m", "pack"], "No module named pack.__main__; 'pack' is a package and cannot be "
                         "directly executed"),
        (["--html", "no/x.html", "script.py"], "cannot write 'no/x.html': No such file or "
                                               "directory"),
        (["--json", ".", "script.py"], "cannot write '.': Is a directory"),
        (["--html", "x", "--json", "./x", "script.py"], "--html and --json would both write './x'"),
        (["--project", "script.py", "script.py"], "no project folder 'script.py': Not a directory"),
        (["--project", "no", "script.py"], "no project folder 'no': No such file or directory"),
        (["a\nb\x1b[2J.py"], "can't open file 'a\ufffdb\ufffd[2J.py': No such file or directory"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line(
    folder: Path, start: list[str], words: list[str], message: str
) -> None:
    write(folder / "script.py", "print('it was run')\n")
    write(folder / "pack" / "__init__.py", "")
    before = sorted(folder.rglob("*.*"))
    done = run(words, folder, start)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"lineprofiler run: {message}\n"
    assert [path for path in sorted(folder.rglob("*.*")) if path.suffix != ".pyc"] == before


@STARTS
def test_a_wrong_pyproject_is_one_line(folder: Path, start: list[str]) -> None:
    write(folder / "script.py", "print('it was run')\n")
    write(folder / "pyproject.toml", "[tool.lineprofiler]\nfunction = []\n")
    done = run(["script.py"], folder, start)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.endswith("has no key 'function'; did you mean 'functions'?")
    (folder / "pyproject.toml").unlink()
    (folder / "pyproject.toml").mkdir()
    done = run(["script.py"], folder, start)
    path = folder / "pyproject.toml"
    assert done.stderr == f"lineprofiler run: cannot read '{path}': Is a directory\n"


@STARTS
def test_a_script_that_does_not_parse(folder: Path, start: list[str]) -> None:
    write(folder / "script.py", "def f(:\n")
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True
    )
    done = run(["--html", "x.html", "script.py"], folder, start)
    assert (done.returncode, done.stdout) == (plain.returncode, "")
    assert done.stderr == plain.stderr
    assert not (folder / "x.html").exists()


@STARTS
@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--top", "3", "--help"]])
def test_help(folder: Path, start: list[str], words: list[str]) -> None:
    done = run(words, folder, start)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: lineprofiler run [option...] SCRIPT...\n")
    listed = subprocess.run(
        [*start, "--help"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"(?m)^  run +SCRIPT\.\.\. +A Python program, measured line by line$", listed)


def test_a_folder_named_lineprofiler_is_not_taken_for_the_package_N6(folder: Path) -> None:
    write(folder / "lineprofiler" / "__init__.py", "raise SystemExit('the wrong one')\n")
    write(folder / "tools" / "script.py", "import sys\nprint(sys.path[0])\n")
    done = run(["tools/script.py"], folder)
    assert (done.returncode, done.stdout) == (0, f"{folder / 'tools'}\n"), done.stderr


def test_without_an_interpreter_that_has_the_package(folder: Path, tmp_path: Path) -> None:
    """The native command, installed by itself."""
    write(folder / "script.py", "")
    command = tmp_path / "bin" / "lineprofiler"
    command.parent.mkdir()
    command.write_bytes(Path(NATIVE[0]).read_bytes())
    command.chmod(0o755)
    env = {**os.environ, "PATH": str(tmp_path / "bin")}
    done = run(["script.py"], folder, [str(command)], env=env)
    assert done.returncode == 2
    assert done.stderr == (
        "lineprofiler run: cannot start python3: No such file or directory; start it as: "
        "python -m lineprofiler run\n"
    )
    (tmp_path / "bin" / "python3").symlink_to(getattr(sys, "_base_executable"))  # noqa: B009
    done = run(["script.py"], folder, [str(command)], env={**env, "PYTHONNOUSERSITE": "1"})
    assert done.returncode == 2
    assert re.fullmatch(
        r"lineprofiler run: .*python.*: No module named 'lineprofiler'\n", done.stderr
    )

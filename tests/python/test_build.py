"""Programs in C and C++ and extension modules are built with what the package carries, and run.

By the builders that their authors use, offline, and without an environment of their own.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lineprofiler
from lineprofiler.accounting import merge_run

NATIVE = [str(Path(sys.executable).parent / "lineprofiler")]
MODULE = [sys.executable, "-P", "-m", "lineprofiler"]

PROGRAM = """
#include <lineprofiler.h>

int main(int argc, char **argv)
{
    lp_options options = {.run_dir = argv[argc - 1], .role = "simulator"};
    lp_profiler *profiler = lp_open(&options);
    {
        LP_PHASE("step");
        LP_COUNT("moves", 3);
    }
    return profiler && lp_close(profiler) == 0 ? 0 : 1;
}
"""

CPP_PROGRAM = """
#include <lineprofiler.hpp>

int main(int argc, char **argv)
{
    lp::profiler profiler(argv[argc - 1], "simulator");
    {
        lp::phase step("step");
        lp::count("moves", 3);
    }
    return profiler && profiler.close() ? 0 : 1;
}
"""

EXTENSION = """
#include <Python.h>
#include <lineprofiler_python.h>

static PyObject *expand(PyObject *module, PyObject *n)
{
    LP_PHASE("expand");
    LP_COUNT("leaves", PyLong_AsLong(n));
    (void)module;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"expand", expand, METH_O, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "engine", "", -1, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_engine(void)
{
    return lp_import() < 0 ? NULL : PyModule_Create(&module);
}
"""

SETUP = """
import lineprofiler
from setuptools import Extension, setup

setup(
    name="engine",
    version="1",
    ext_modules=[
        Extension(
            "engine",
            ["engine.c"],
            include_dirs=[lineprofiler.get_include()],
            extra_compile_args=["-Wall", "-Wextra", "-Werror"],
        )
    ],
)
"""

PLAY = """
import sys
import engine
from lineprofiler.accounting import Profiler

with Profiler(sys.argv[1], "actor", install=True) as profiler, profiler.phase("mcts"):
    engine.expand(40)
"""

CMAKE = """
cmake_minimum_required(VERSION 3.15)
project(simulator C CXX)
find_package(lineprofiler 0.4 REQUIRED)
foreach(source program.c program.cc)
  add_executable(by_${source} ${source})
  target_link_libraries(by_${source} PRIVATE lineprofiler::lineprofiler)
endforeach()
"""

MESON = """
project('simulator', 'c', 'cpp', default_options: ['warning_level=3', 'werror=true'])
lineprofiler = dependency('lineprofiler', version: '>=0.4')
foreach source : ['program.c', 'program.cc']
  executable('by_' + source, source, dependencies: lineprofiler)
endforeach
"""


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Run it and return what it printed."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env.pop("LD_LIBRARY_PATH", None)
    done = subprocess.run(
        command, cwd=cwd, env={**env, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def config(*options: str) -> str:
    return run(*NATIVE, "config", *options).rstrip("\n")


def run_and_read(program: Path, run_dir: Path) -> None:
    run(program, run_dir)
    tree = merge_run(run_dir).tree_of("simulator")
    assert tree[("step",)].calls == 1
    assert tree[("step",)].counters["moves"] == 3


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a folder with the sources of all of them."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in {
        "program.c": PROGRAM,
        "program.cc": CPP_PROGRAM,
        "engine.c": EXTENSION,
        "setup.py": SETUP,
        "CMakeLists.txt": CMAKE,
        "meson.build": MESON,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


# ---- where things are --------------------------------------------------------------------


def test_the_folders() -> None:
    package = Path(lineprofiler.__file__).parent
    include, library = Path(lineprofiler.get_include()), Path(lineprofiler.get_library_dir())
    assert {file.name for file in include.iterdir()} == {
        "lineprofiler.h",
        "lineprofiler.hpp",
        "lineprofiler_python.h",
    }
    assert (include.parent, library.parent) == (package, package)
    assert (library / "liblineprofiler.so").read_bytes() == (
        library / "liblineprofiler.so.0"
    ).read_bytes()


def test_asking_for_them_loads_nothing() -> None:
    code = (
        "import lineprofiler, sys; before = set(sys.modules)\n"
        "lineprofiler.get_include(), lineprofiler.get_library_dir()\n"
        "assert set(sys.modules) == before, set(sys.modules) - before"
    )
    run(sys.executable, "-P", "-c", code)


def test_folders_are_absolute_whatever_the_path_of_import(tmp_path: Path) -> None:
    """A relative entry of sys.path makes a relative path of the package."""
    package = Path(lineprofiler.__file__).parent
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "lineprofiler").symlink_to(package)
    code = (
        "import sys; sys.path.insert(0, 'site'); import lineprofiler; "
        "from lineprofiler import _core; print(lineprofiler.get_include(), flush=True); "
        "_core.cli(['lineprofiler', 'config', '--includedir'])"
    )
    said = run(sys.executable, "-P", "-c", code, cwd=tmp_path).splitlines()
    assert said == [str(tmp_path / "site" / "lineprofiler" / "include")] * 2


def test_the_command_tells_the_same_however_it_is_started() -> None:
    include, library = lineprofiler.get_include(), lineprofiler.get_library_dir()
    for start in (NATIVE, MODULE):
        said = run(*start, "config")
        assert dict(re.findall(r"(?m)^(\w+)  +(.*)$", said)) == {
            "cflags": f"-I{include}",
            "libs": f"-L{library} -Wl,-rpath,{library} -llineprofiler",
            "includedir": include,
            "libdir": library,
            "pkgconfigdir": f"{library}/pkgconfig",
            "cmakedir": f"{library}/cmake/lineprofiler",
            "version": lineprofiler.__version__,
        }
    assert config("--libs", "--cflags") == (
        f"-I{include} -L{library} -Wl,-rpath,{library} -llineprofiler"
    )
    assert config("--version", "--libdir").splitlines() == [library, lineprofiler.__version__]


@pytest.mark.parametrize("start", [NATIVE, MODULE], ids=["native", "module"])
def test_what_the_command_does_not_know(start: list[str]) -> None:
    for words in (["--ldflags"], ["here"]):
        done = subprocess.run([*start, "config", *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        assert line.startswith("lineprofiler config: ")
        assert words[0] in line


# ---- builds ------------------------------------------------------------------------------


def test_an_extension_module_by_setuptools(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    site, run_dir = tmp_path / "site", tmp_path / "run"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-build-isolation", "--no-deps"]
    run(*pip, *offline, "--target", site, project)
    [built] = site.glob("engine.*.so")
    assert "liblineprofiler" not in run("readelf", "--dynamic", built)
    (project / "play.py").write_text(PLAY)
    run(sys.executable, "-P", project / "play.py", run_dir, PYTHONPATH=str(site))
    tree = merge_run(run_dir).tree_of("actor")
    assert set(tree) == {("mcts",), ("mcts", "expand")}
    assert tree[("mcts", "expand")].counters["leaves"] == 40
    assert re.search(r"(?m)^mcts/expand ", run(*NATIVE, "report", run_dir))


@pytest.mark.core
@pytest.mark.parametrize(
    ("compiler", "source"), [("cc", "program.c"), ("c++", "program.cc"), ("clang", "program.c")]
)
def test_a_program_by_the_words_of_config(
    compiler: str, source: str, project: Path, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    flags = config("--cflags", "--libs").split()
    run(compiler, source, "-o", "program", *flags, cwd=project)
    needed = run("readelf", "--dynamic", project / "program")
    assert "[liblineprofiler.so.0]" in needed
    run_and_read(project / "program", tmp_path / "run")


@pytest.mark.core
def test_programs_by_cmake(project: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    build = tmp_path / "build"
    run("cmake", "-S", project, "-B", build, f"-Dlineprofiler_DIR={config('--cmakedir')}")
    run("cmake", "--build", build)
    for name in ("by_program.c", "by_program.cc"):
        run_and_read(build / name, tmp_path / f"run_{name}")


@pytest.mark.core
def test_programs_by_meson(project: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    run("meson", "setup", build, project, PKG_CONFIG_PATH=config("--pkgconfigdir"))
    run("ninja", "-C", build)
    for name in ("by_program.c", "by_program.cc"):
        run_and_read(build / name, tmp_path / f"run_{name}")


@pytest.mark.core
def test_the_library_opens_by_its_short_name() -> None:
    library = ctypes.CDLL(str(Path(lineprofiler.get_library_dir()) / "liblineprofiler.so"))
    library.lp_version.restype = ctypes.c_char_p
    assert library.lp_version().decode() == lineprofiler.__version__

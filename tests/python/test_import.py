"""What importing the package loads, and that its halves do not know each other (A1, A5)."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lineprofiler

HEAVY = ("torch", "viztracer", "psutil", "pynvml", "numpy", "threading", "multiprocessing")


def loaded_by(code: str) -> set[str]:
    """Return the modules that the code loads into a fresh interpreter."""
    listing = "import sys; before = set(sys.modules)\n{}\nprint(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-P", "-c", listing.format(code)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_package_alone_loads_next_to_nothing_A5() -> None:
    assert loaded_by("import lineprofiler") == {"lineprofiler"}
    assert "lineprofiler._core" in loaded_by("import lineprofiler; lineprofiler.__version__")
    assert "__version__" in dir(lineprofiler)


def test_testing_loads_no_test_runner_A5() -> None:
    light = loaded_by("import lineprofiler.run, reprlib, collections.abc")
    assert loaded_by("import lineprofiler; lineprofiler.testing.assert_roles") - light == {
        "lineprofiler.testing"
    }


def test_accounting_loads_nothing_heavy_A5() -> None:
    loaded = loaded_by(
        "from lineprofiler.accounting import Profiler\n"
        "import tempfile; run_dir = tempfile.mkdtemp()\n"
        "with Profiler(run_dir) as profiler, profiler.phase('a'): profiler.count('n')"
    )
    # tempfile itself needs threading.
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY) - {"threading"}
    assert not [name for name in loaded if name.startswith("lineprofiler.lines")]
    alone = loaded_by("import lineprofiler.accounting")
    python = {"threading", "functools", "collections", "weakref", "warnings", "importlib"}
    assert not alone & (
        python | {"lineprofiler.run", "lineprofiler.tree", "lineprofiler._decorate"}
    )


def test_what_accounting_loads_on_demand_is_there_A5() -> None:
    assert loaded_by(
        "from lineprofiler import accounting\n"
        "assert set(accounting.__all__) <= set(dir(accounting))\n"
        "from lineprofiler.accounting import *\n"
        "assert Run.__module__ == merge_run.__module__ == 'lineprofiler.run'\n"
        "assert Tree.__module__ == decode_text.__module__ == 'lineprofiler.tree'"
    ) >= {"lineprofiler.run", "lineprofiler._backend"}


def test_lines_are_measured_without_accounting_A5() -> None:
    loaded = loaded_by(
        "from lineprofiler import LineProfiler\n"
        "import io\n"
        "with LineProfiler('/') as profiler: pass\n"
        "profiler.print_stats(stream=io.StringIO())"
    )
    assert "lineprofiler.lines" in loaded
    assert not loaded & {"lineprofiler.accounting", "lineprofiler.run", "lineprofiler.usage"}
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY) - {"threading"}


def test_accounting_is_found_when_first_used() -> None:
    loaded = loaded_by("import lineprofiler; lineprofiler.accounting.phase('x')")
    assert "lineprofiler.accounting" in loaded
    with pytest.raises(AttributeError, match="no_such_thing"):
        lineprofiler.no_such_thing  # type: ignore[attr-defined] # noqa: B018


def test_sources_beside_the_program_say_so(tmp_path: Path) -> None:
    """A program that is tried in the checkout meets them before what is installed."""
    sources = tmp_path / "lineprofiler"
    sources.mkdir()
    for source in (Path(__file__).parents[2] / "lineprofiler").glob("*.py"):
        shutil.copy(source, sources)
    for code in ("accounting", "testing", "_core", "__version__"):
        command = [sys.executable, "-c", f"from lineprofiler import {code}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"ImportError: {str(sources)!r} holds the sources of lineprofiler")
    for option in ("--version", "report"):
        command = [sys.executable, "-m", "lineprofiler", option]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
        assert "holds the sources" in done.stderr.splitlines()[-1]


def test_integrations_name_what_is_missing_A6() -> None:
    """What a framework needs is imported with its integration only."""
    program = """
import sys
import lineprofiler.accounting, lineprofiler.integrations
assert "ray" not in sys.modules
sys.modules["ray"] = None
try:
    import lineprofiler.integrations.ray
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "lineprofiler.integrations.ray needs Ray, which is not installed here: pip install ray\n"
    )


def test_the_distribution_A1() -> None:
    metadata = importlib.metadata.metadata("with-line-profiler")
    assert metadata["Name"] == "with-line-profiler"
    assert not [
        requirement
        for requirement in metadata.get_all("Requires-Dist") or []
        if "extra ==" not in requirement
    ]
    [command] = [
        entry
        for file in importlib.metadata.files("with-line-profiler") or []
        if (entry := file.name) == "lineprofiler" and file.parent.name == "bin"
    ]
    assert command


def test_the_extras_A6() -> None:
    metadata = importlib.metadata.metadata("with-line-profiler")
    assert {"resources", "gpu", "viztracer", "all"} <= set(metadata.get_all("Provides-Extra") or [])
    wanted: dict[str, set[str]] = {}
    for requirement in metadata.get_all("Requires-Dist") or []:
        name, _, marker = requirement.partition(";")
        wanted.setdefault(marker.split("==")[-1].strip(" \"'"), set()).add(name.strip())
    # Resources and GPU need nothing that is not here; only viztracer is another's.
    assert wanted == {"viztracer": {"viztracer"}, "all": {"viztracer"}}

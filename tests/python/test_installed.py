"""The installed profiler and the functions that use it (D1 to D5)."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lineprofiler import _core, accounting
from lineprofiler.accounting import Profiler, merge_run

if TYPE_CHECKING:
    from conftest import Child


def make(run_dir: Path, **options: Any) -> Profiler:
    return Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None, **options)


def test_the_functions_use_the_installed_profiler_D1_D3(run_dir: Path) -> None:
    with make(run_dir, install=True) as profiler:
        assert accounting.installed_profiler() is profiler
        assert accounting.current() == ""
        with accounting.phase("a"), accounting.phase("b/c", io=True, sample=1.0):
            accounting.count("n", 3)
            accounting.count("n")
            assert accounting.current() == profiler.current() == "a/b/c"
        handle = accounting.phase("h")
        with handle, handle:
            assert accounting.current() == "h/h"
        assert accounting.current() == ""
        accounting.count("outside")
    tree = merge_run(run_dir).tree
    assert set(tree) == {("a",), ("a", "b/c"), ("h",), ("h", "h")}
    counters = tree[("a", "b/c")].counters
    assert counters["n"] == 4
    assert all(name == "n" or name.startswith("io_") for name in counters)
    assert tree.root.counters == {"outside": 1}


def test_current_is_that_of_the_thread_D3(run_dir: Path) -> None:
    seen = []
    with make(run_dir, install=True), accounting.phase("main"):
        thread = threading.Thread(target=lambda: seen.append(accounting.current()))
        thread.start()
        thread.join()
        assert accounting.current() == "main"
    assert seen == [""]


def test_nothing_installed_does_nothing_D2() -> None:
    assert accounting.installed_profiler() is None
    phase = accounting.phase("a")
    assert accounting.phase("b", sync=True) is phase
    with phase as entered, phase, accounting.phase("c"):
        assert entered is phase
        accounting.count("n", 5)
        assert accounting.current() == ""
    with pytest.raises(KeyError), phase:
        raise KeyError
    phase.__enter__()
    phase.__exit__(None, None, None)
    phase.__exit__(None, None, None)
    type(phase).__exit__(phase, None, None, None)
    assert type(phase).__enter__(phase) is phase
    wrong: Any = phase
    with pytest.raises(TypeError):
        wrong.__exit__(None)
    with pytest.raises(TypeError):
        wrong.__enter__(now=True)
    assert phase.name == ""


def test_a_handle_made_while_nothing_was_installed_stays_inert_D2(run_dir: Path) -> None:
    handle = accounting.phase("early")
    with make(run_dir, install=True), handle, accounting.phase("late"):
        pass
    assert list(merge_run(run_dir).tree) == [("late",)]


def test_close_uninstalls_D4(run_dir: Path) -> None:
    profiler = make(run_dir, install=True)
    handle = accounting.phase("x")
    profiler.close()
    assert accounting.installed_profiler() is None
    with accounting.phase("x"), handle:
        accounting.count("n")
    with make(run_dir, install=True) as other:
        assert accounting.installed_profiler() is other
        profiler.close()
        assert accounting.installed_profiler() is other


def test_a_second_one_does_not_take_over_D4(run_dir: Path, tmp_path: Path) -> None:
    with make(run_dir, install=True) as first:
        with pytest.warns(RuntimeWarning, match="installed already") as caught:
            second = make(tmp_path / "other", install=True)
        assert caught[0].filename == __file__
        assert accounting.installed_profiler() is first
        second.close()
        assert accounting.installed_profiler() is first


def test_the_installed_profiler_is_held(run_dir: Path) -> None:
    make(run_dir, install=True)
    with accounting.phase("a"):
        pass
    accounting.stop()
    assert merge_run(run_dir).tree[("a",)].calls == 1


def test_a_disabled_profiler_can_be_installed(run_dir: Path) -> None:
    with make(run_dir, enabled=False, install=True) as profiler:
        assert accounting.installed_profiler() is profiler
        with accounting.phase("a"):
            assert accounting.current() == ""
    assert not run_dir.exists()


def test_a_forked_child_resolves_its_own_D4(child: Child, run_dir: Path) -> None:
    code = """
import os, sys
from lineprofiler import accounting
from lineprofiler.accounting import Profiler
Profiler(sys.argv[1], "parent", install=True)
with accounting.phase("before"):
    pass
pid = os.fork()
if pid == 0:
    assert accounting.installed_profiler() is not None
    with accounting.phase("in the child"):
        assert accounting.current() == "in the child"
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
with accounting.phase("after"):
    pass
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 2
    assert len({worker.pid for worker in run.workers}) == 2
    assert {path: node.calls for path, node in run.tree.items()} == {
        ("before",): 1,
        ("after",): 1,
        ("in the child",): 1,
    }
    assert all(worker.closed for worker in run.workers)


def test_start_and_stop_D5(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = accounting.start(run_dir, "learner", snapshot_interval_s=None)
    assert accounting.installed_profiler() is profiler
    with accounting.phase("a"):
        pass
    with pytest.warns(RuntimeWarning, match="installed already"):
        assert accounting.start(run_dir) is profiler
    accounting.stop()
    accounting.stop()
    assert profiler.closed
    run = merge_run(run_dir)
    assert list(run.roles) == ["learner"]
    assert run.tree[("a",)].calls == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv("LINEPROFILER_PROFILE", "0")
        assert not accounting.start().enabled
        accounting.stop()


def test_only_a_recorder_is_installed() -> None:
    install: Any = _core.install
    for bad in (3, "x", object(), Profiler):
        with pytest.raises(TypeError, match="Recorder or None"):
            install(bad)
    bare = _core.Recorder()
    _core.install(bare)
    assert _core.installed_profiler() is bare
    assert accounting.installed_profiler() is None
    _core.install(None)


def test_os_exit_in_a_forked_child_is_harmless_to_the_parent(child: Child, run_dir: Path) -> None:
    code = """
import os, sys
from lineprofiler import accounting
accounting.start(sys.argv[1])
with accounting.phase("open"):
    pid = os.fork()
    if pid == 0:
        accounting.stop()
        with accounting.phase("closed is final"):
            pass
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
    child.run(code, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 1
    assert list(run.tree) == [("open",)]
    files = os.listdir(run_dir / "workers" / run.workers[0].host)
    assert {file.partition(".")[0] for file in files} == {run.workers[0].name}

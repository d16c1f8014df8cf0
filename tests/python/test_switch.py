"""What switches a profiler on, where it writes, what it changes in its process (E1 to E10)."""

from __future__ import annotations

import contextlib
import errno
import gc
import inspect
import os
import re
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineprofiler import accounting
from lineprofiler._environment import Export
from lineprofiler.accounting import Profiler, merge_run

Wait = Callable[[Callable[[], bool]], None]

VARIABLES = ("LINEPROFILER_PROFILE", "LINEPROFILER_RUN_DIR", "LINEPROFILER_RUN_ID")


def make(run_dir: Path | None = None, **options: Any) -> Profiler:
    return Profiler(run_dir, snapshot_interval_s=None, sample_interval_s=None, **options)


def exported() -> tuple[str | None, ...]:
    return tuple(os.environ.get(name) for name in VARIABLES)


@pytest.mark.parametrize("text", ["", "0", "false", "FALSE", "no", "No", "off", "Off", " off "])
def test_off_by_the_environment_E1(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEPROFILER_PROFILE", text)
    assert not make().enabled


@pytest.mark.parametrize("text", ["1", "true", "yes", "on", "2", "x", "00"])
def test_on_by_the_environment_E1(
    text: str, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEPROFILER_PROFILE", text)
    monkeypatch.setenv("LINEPROFILER_RUN_DIR", str(run_dir))
    with make() as profiler:
        assert profiler.enabled
        assert profiler.run_dir == str(run_dir)


def test_the_argument_decides_first_E1(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not make().enabled
    with make(run_dir) as profiler:
        assert profiler.enabled
    assert not make(run_dir, enabled=False).enabled
    monkeypatch.setenv("LINEPROFILER_PROFILE", "1")
    assert not make(run_dir, enabled=False).enabled
    monkeypatch.setenv("LINEPROFILER_PROFILE", "0")
    with make(run_dir) as profiler:
        assert profiler.enabled
    monkeypatch.chdir(run_dir.parent)
    with make(enabled=True) as profiler:
        assert profiler.run_dir == str(run_dir.parent / "profile")


def test_a_disabled_profiler_leaves_no_trace_E2(run_dir: Path) -> None:
    before = dict(os.environ), threading.enumerate()
    tasks = set(os.listdir("/proc/self/task"))
    profiler = make(run_dir, enabled=False)
    with profiler.phase("a"), profiler.phase("b", io=True):
        profiler.count("n", 3)
        assert profiler.current() == ""
    profiler.snapshot()
    assert profiler.document() is None
    assert (profiler.run_id, profiler.worker, profiler.path) == (None, None, None)
    profiler.close()
    assert (dict(os.environ), threading.enumerate()) == before
    assert set(os.listdir("/proc/self/task")) <= tasks
    assert not run_dir.exists()


def test_a_disabled_profiler_hands_out_one_object_E2() -> None:
    profiler = make(enabled=False)
    assert profiler.phase("a") is profiler.phase("b") is accounting.phase("c")


def test_phases_on_a_profiler_that_is_off_E2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profiler = make()
    with profiler.phase("a"):
        pass
    with pytest.warns(RuntimeWarning, match=re.escape(str(tmp_path / "profile"))) as caught:
        profiler.close()
    [warning] = caught
    assert warning.filename == __file__
    for remedy in ("LINEPROFILER_PROFILE=1", "enabled=True", "run_dir=", "enabled=False"):
        assert remedy in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profiler.close()
    with pytest.warns(RuntimeWarning, match="off") as caught, make() as profiler:
        profiler.phase("a")
    assert caught[0].filename == __file__


def test_no_warning_where_it_is_meant_E2(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().close()
        with make() as profiler:
            profiler.count("n")
        with make(run_dir, enabled=False) as profiler, profiler.phase("a"):
            pass
        with make(run_dir) as profiler:
            pass
        with profiler.phase("after close"):
            pass
        profiler.close()
        profiler = make()
        with profiler.phase("dropped without close"):
            pass
        del profiler
        gc.collect()
        monkeypatch.setenv("LINEPROFILER_PROFILE", "0")
        with make() as profiler, profiler.phase("a"):
            pass


def test_children_are_told_E3(run_dir: Path) -> None:
    assert exported() == (None, None, None)
    with make(run_dir) as profiler:
        assert exported() == ("1", str(run_dir), profiler.run_id)
    assert exported() == (None, None, None)


def test_what_was_there_before_comes_back_E3(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, f"before {name}")
    with make(run_dir) as profiler:
        assert exported() == ("1", str(run_dir), "before LINEPROFILER_RUN_ID")
        assert profiler.run_id == "before LINEPROFILER_RUN_ID"
    assert exported() == tuple(f"before {name}" for name in VARIABLES)


def test_what_the_program_set_meanwhile_stays_E3(run_dir: Path) -> None:
    with make(run_dir):
        os.environ["LINEPROFILER_RUN_ID"] = "mine"
        del os.environ["LINEPROFILER_PROFILE"]
    assert exported() == (None, None, "mine")
    del os.environ["LINEPROFILER_RUN_ID"]


@given(order=st.permutations(range(4)), before=st.none() | st.just("0"))
def test_several_are_closed_in_any_order_E3(order: list[int], before: str | None) -> None:
    name = "LINEPROFILER_TEST_OF_EXPORT"
    os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before
    exports = [Export({name: str(i)}) for i in range(4)]
    left = set(range(4))
    for i in order:
        assert os.environ.get(name) == str(max(left))
        exports[i].take_back()
        exports[i].take_back()
        left.remove(i)
    assert os.environ.pop(name, None) == before


def test_several_profilers_closed_in_any_order_E3_E7(tmp_path: Path) -> None:
    for order in ((0, 1), (1, 0)):
        profilers = [make(tmp_path / str(i)) for i in range(2)]
        for i in order:
            profilers[i].close()
        assert exported() == (None, None, None)


def test_the_run_directory_is_made_absolute_E4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(tmp_path))
    relative: Any
    for relative in ("some/where", Path("some/where"), "./some//where/", b"some/where"):
        profiler = make(relative)
        monkeypatch.chdir(tmp_path)
        assert profiler.run_dir == str(here / "some/where") == os.environ["LINEPROFILER_RUN_DIR"]
        with profiler.phase("a"):
            pass
        profiler.close()
        assert merge_run(here / "some/where").tree[("a",)].calls == 1
        monkeypatch.chdir(here)
    monkeypatch.setenv("LINEPROFILER_RUN_DIR", "other")
    assert make().run_dir == str(here / "other")
    monkeypatch.setenv("LINEPROFILER_RUN_DIR", "")
    assert make().run_dir == str(here / "profile")


def test_names_of_directories(tmp_path: Path) -> None:
    for name in ("a b", "ü", "\udcff", "%s", "a'b"):
        run_dir = tmp_path / name / "run"
        with make(run_dir) as profiler:
            assert profiler.run_dir == str(run_dir)
            assert profiler.path is not None
            assert profiler.path.startswith(str(run_dir))
        assert merge_run(run_dir).dir == str(run_dir)


def test_the_role_E5(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given_role, variable, role in (
        (None, None, "main"),
        (None, "", "main"),
        (None, "actor 7", "actor 7"),
        ("learner", "actor", "learner"),
        ("Lërner/x\0", None, "Lërner/x\0"),
    ):
        if variable is None:
            monkeypatch.delenv("LINEPROFILER_ROLE", raising=False)
        else:
            monkeypatch.setenv("LINEPROFILER_ROLE", variable)
        with make(run_dir, role=given_role, run_id="one") as profiler:
            assert profiler.role == role
        assert merge_run(run_dir).workers_of(role)


def test_another_on_the_same_directory_warns_E6(run_dir: Path, tmp_path: Path) -> None:
    first = make(run_dir)
    (tmp_path / "link").symlink_to(run_dir)
    for again in (run_dir, tmp_path / "link"):
        with pytest.warns(RuntimeWarning, match="another profiler") as caught:
            second = make(again)
        assert caught[0].filename == __file__
        second.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(tmp_path / "other").close()
        make(run_dir, enabled=False).close()
        first.close()
        make(run_dir).close()


def test_a_profiler_nobody_holds_is_collected_E8(run_dir: Path) -> None:
    profiler = make(run_dir)
    with profiler.phase("a"):
        pass
    gone = weakref.ref(profiler)
    del profiler
    gc.collect()
    assert gone() is None
    assert exported() == (None, None, None)
    run = merge_run(run_dir)
    assert run.workers[0].closed
    assert run.tree[("a",)].calls == 1


def test_a_handle_holds_its_profiler_E8(run_dir: Path) -> None:
    handle = make(run_dir).phase("a")
    gc.collect()
    with handle:
        pass
    del handle
    gc.collect()
    assert merge_run(run_dir).tree[("a",)].calls == 1


@pytest.mark.parametrize(
    ("make_bad", "kind"),
    [
        (lambda path: path.write_text("a file"), NotADirectoryError),
        (lambda path: path.symlink_to("/proc/sys"), OSError),
        (lambda path: path.symlink_to(path.name), OSError),
    ],
    ids=["file", "proc", "loop"],
)
def test_a_directory_that_cannot_be_written_E9(tmp_path: Path, make_bad: Any, kind: type) -> None:
    bad = tmp_path / "bad"
    make_bad(bad)
    for run_dir in (bad / "below", bad):
        if kind is NotADirectoryError and run_dir == bad:
            kind = OSError
        with pytest.raises(kind) as caught:
            make(run_dir, install=True)
        assert isinstance(caught.value, OSError)
        assert caught.value.filename == str(run_dir)
        assert caught.value.errno in errno.errorcode
        assert str(run_dir) in str(caught.value)
    assert exported() == (None, None, None)
    assert accounting.installed_profiler() is None
    gc.collect()


def test_without_permission_E9(tmp_path: Path) -> None:
    code = """
import os, sys
from lineprofiler.accounting import Profiler
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    Profiler(sys.argv[1])
except PermissionError as error:
    assert error.filename == sys.argv[1], error.filename
    assert sys.argv[1] in str(error)
    print("refused")
"""
    bad = tmp_path / "bad"
    bad.mkdir(mode=0o500)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", code, str(bad / "run")], cwd="/", capture_output=True, text=True
    )
    if "Permission" in done.stderr and "lineprofiler" not in done.stdout and not done.stdout:
        pytest.skip("that user cannot read the package here")
    assert done.stdout == "refused\n", done.stderr


def test_defaults_E10() -> None:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(Profiler).parameters.items()
    }
    assert defaults == {
        "run_dir": None,
        "role": None,
        "enabled": None,
        "run_id": None,
        "install": False,
        "measure_cpu": True,
        "thread_names": False,
        "strict_names": False,
        "annotate": False,
        "backend": None,
        "backend_window": (3, 6),
        "window_phase": "iteration",
        "snapshot_interval_s": 30.0,
        "sample_interval_s": 1.0,
        "measure_pss": False,
        "packages": (),
        "index": None,
        "wait_detail": None,
    }
    started = inspect.signature(accounting.start).parameters
    assert {name: p.default for name, p in started.items()} == {
        name: default for name, default in defaults.items() if name != "install"
    }


def keepers() -> int:
    """Count our threads; one that has ended and was joined may be seen a little longer."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.append(path.read_text())
    return names.count("lp-keeper\n")


def test_one_thread_by_default_E10(run_dir: Path, wait_until: Wait) -> None:
    wait_until(lambda: keepers() == 0)
    with Profiler(run_dir) as profiler:
        assert keepers() == 0
        with profiler.phase("a"):
            wait_until(lambda: keepers() == 1)
    wait_until(lambda: keepers() == 0)
    worker = merge_run(run_dir).workers[0]
    assert worker.measure_cpu
    assert worker.snapshot_interval_s == 30.0


def test_no_thread_where_both_intervals_are_none_E10(run_dir: Path) -> None:
    tasks = set(os.listdir("/proc/self/task"))
    with make(run_dir) as profiler, profiler.phase("a"):
        assert set(os.listdir("/proc/self/task")) <= tasks


@pytest.mark.parametrize("option", ["snapshot_interval_s", "sample_interval_s"])
def test_intervals_are_checked(run_dir: Path, option: str) -> None:
    options: dict[str, Any]
    for bad in (0, 0.0, -1, float("nan"), float("inf"), 1e10, 10**400):
        options = {option: bad}
        with pytest.raises(ValueError, match=option):
            Profiler(run_dir, **options)
    wrong: object
    for wrong in ("30", b"30", True, [], 1j):
        options = {option: wrong}
        with pytest.raises(TypeError):
            Profiler(run_dir, **options)
    assert not run_dir.exists()
    for good in (None, 1, 0.001, 1e9):
        options = {option: good}
        Profiler(run_dir, **options).close()


def test_arguments_are_checked(run_dir: Path) -> None:
    anything: Any = Profiler
    for arguments, error in (
        ({"run_dir": 3}, TypeError),
        ({"run_dir": ""}, ValueError),
        ({"run_dir": "a\0b"}, ValueError),
        ({"role": 3}, TypeError),
        ({"role": b"actor"}, TypeError),
        ({"role": "x" * 70_000}, ValueError),
        ({"run_id": 3}, TypeError),
        ({"run_id": ""}, ValueError),
        ({"run_id": "a\0b"}, ValueError),
        ({"run_id": "x" * 200}, ValueError),
        ({"no_such_option": 1}, TypeError),
    ):
        with pytest.raises(error):
            anything(**{"run_dir": run_dir, **arguments})
        gc.collect()
    assert exported() == (None, None, None)


def test_an_open_profiler_is_not_made_again_E7(run_dir: Path, tmp_path: Path) -> None:
    before = exported()
    profiler = make(run_dir)
    again: Any = profiler
    with pytest.raises(RuntimeError, match="opened before"):
        again.__init__(tmp_path / "other")
    assert not profiler.closed
    assert profiler.run_dir == str(run_dir)
    with profiler.phase("a"):
        pass
    profiler.close()
    assert exported() == before
    assert merge_run(run_dir).workers[0].closed


def test_a_profiler_that_could_not_be_made_can_be_made(run_dir: Path) -> None:
    profiler = Profiler.__new__(Profiler)
    made: Any = profiler
    with pytest.raises(ValueError, match="run_dir"):
        made.__init__("")
    made.__init__(run_dir)
    with profiler, profiler.phase("a"):
        pass
    assert list(merge_run(run_dir).tree) == [("a",)]


def test_closed_is_final_E7(run_dir: Path) -> None:
    profiler = make(run_dir)
    handle = profiler.phase("a")
    with handle:
        profiler.close()
        assert profiler.closed
        assert not profiler.enabled
        with handle, profiler.phase("b"):
            profiler.count("n")
            assert profiler.current() == ""
    profiler.close()
    profiler.snapshot()
    again: Any = profiler
    with pytest.raises(RuntimeError, match="opened before"):
        again.__init__(run_dir)
    run = merge_run(run_dir)
    assert list(run.tree) == [("a",)]
    assert run.workers[0].closed
    # It was open when the profiler was closed: its time counts up to then, its end never came.
    assert run.tree[("a",)].wall_ns > 0


def test_what_a_profiler_shows(run_dir: Path) -> None:
    profiler = make(run_dir, role="actor", run_id="one")
    assert repr(profiler) == f"<Profiler of 'actor' in {str(run_dir)!r}, enabled>"
    assert profiler.run_id == "one"
    assert profiler.worker is not None
    assert profiler.worker.startswith(f"w_one_{os.getpid()}_")
    assert profiler.path == str(next(run_dir.glob("workers/*")) / f"{profiler.worker}.json")
    for attribute in ("run_dir", "role", "enabled", "closed", "run_id", "worker", "path"):
        with pytest.raises(AttributeError):
            setattr(profiler, attribute, "x")
    profiler.close()
    assert repr(profiler) == f"<Profiler of 'actor' in {str(run_dir)!r}, closed>"
    assert repr(make(enabled=False)).endswith(", disabled>")


def test_a_failed_last_write_is_a_warning(run_dir: Path) -> None:
    import shutil

    profiler = make(run_dir)
    with profiler.phase("a"):
        pass
    shutil.rmtree(run_dir)
    run_dir.write_text("in the way")
    with pytest.raises(OSError, match="cannot write") as caught:
        profiler.snapshot()
    assert caught.value.filename == profiler.path
    assert str(caught.value).count(str(run_dir)) == 1
    with pytest.warns(RuntimeWarning, match="cannot write") as warned:
        profiler.close()
    assert warned[0].filename == __file__
    profiler.close()
    with pytest.raises(OSError, match="cannot write the run directory: Not a directory") as refused:
        make(run_dir)
    assert str(refused.value).count(str(run_dir)) == 1

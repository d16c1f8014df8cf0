"""Names of phases that are built from data."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from lineprofiler.accounting import Profiler, merge_run


def make(run_dir: Path, strict_names: bool = False) -> Profiler:
    return Profiler(
        run_dir, strict_names=strict_names, snapshot_interval_s=None, sample_interval_s=None
    )


def enter(profiler: Profiler, name: str) -> None:
    with profiler.phase(name):
        pass


def test_the_128th_name_of_a_shape_warns_once_G3(profiler: Profiler) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for repeat in range(2):
            for i in range(127):
                enter(profiler, f"episode_{i}")
            assert len(caught) == repeat
            for i in range(127, 300):
                enter(profiler, f"episode_{i}")
            assert len(caught) == 1
    [warning] = caught
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith("128 distinct phase names share the shape 'episode_#'")
    assert "most recently 'episode_127'" in text
    assert "use a fixed name, and count() for the varying part" in text


def test_each_run_of_digits_is_one_G3(profiler: Profiler) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(128):
            enter(profiler, f"{i}/step {i * 1000}é{i}")
            enter(profiler, "no digits " + "x" * i)
    [warning] = caught
    assert "'#/step #é#'" in str(warning.message)


def test_good_names_are_left_alone_G3(run_dir: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with make(run_dir, strict_names=True) as profiler:
            for name in ("conv2d", "resnet50", "mcts", "episode_#", "Änderung", "conv2d"):
                enter(profiler, name)
                profiler.count(f"counter {len(name)}")


def test_strict_names_refuse_the_second_of_a_shape_G3(run_dir: Path) -> None:
    with make(run_dir, strict_names=True) as profiler:
        enter(profiler, "episode_1")
        for _ in range(2):
            with pytest.raises(ValueError, match=r"'episode_2' shares the shape 'episode_#'"):
                profiler.phase("episode_2")
            enter(profiler, "episode_1")
        with pytest.raises(ValueError, match="strict_names"), profiler.phase("episode_33"):
            pytest.fail("the body ran")
        with pytest.raises(ValueError, match="strict_names"):
            enter(profiler, "episode_2")
    assert list(merge_run(run_dir).tree) == [("episode_1",)]


def test_a_name_that_another_profiler_knows_is_checked_too_G3(tmp_path: Path) -> None:
    names = [f"level_{i}" for i in range(3)]
    with make(tmp_path / "a") as lenient:
        for name in names:
            enter(lenient, name)
        with make(tmp_path / "b", strict_names=True) as strict:
            enter(strict, names[2])
            with pytest.raises(ValueError, match="level_0"):
                enter(strict, names[0])


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_begins_anew_G3(run_dir: Path) -> None:
    with make(run_dir, strict_names=True) as strict:
        enter(strict, "x1")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                enter(strict, "x2")
                try:
                    enter(strict, "x1")
                except ValueError:
                    status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_disabled_profiler_does_not_look_G3() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Profiler(enabled=False, strict_names=True) as profiler:
            for i in range(200):
                enter(profiler, f"episode_{i}")

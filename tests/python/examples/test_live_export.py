"""The learner of Connect Four writes its figures while it runs, and they are those of the run."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lineprofiler.accounting import Tree, merge_run

pytest.importorskip("numpy", reason="the example computes with numpy")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "connect_four"
HANG_S = 300

Points = dict[str, list[float]]


def run_example(tmp_path: Path, kind: str) -> Tree:
    """Run the demo as a user would; return what the learner did."""
    options = ["--seconds", "5", "--actors", "1", "--simulations", "4", "--run-dir", "profile"]
    options += ["--export", kind, "--export-dir", "export", "--export-every", "0.1"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    run = merge_run(tmp_path / "profile")
    assert not [caveat for caveat in run.caveats if caveat.kind == "failed_callbacks"]
    return run.tree_of("learner")


def has_all(points: Points, tree: Tree) -> None:
    """The intervals that were written add up to the run.

    How many there are depends on how long the packages take to load.
    """
    for path, stats in tree.items():
        name = f"profile/{'/'.join(path)}"
        assert sum(points[f"{name}/calls"]) == stats.calls
        assert sum(points[f"{name}/wall_s"]) == pytest.approx(stats.wall_ns / 1e9, rel=1e-3)
        assert all(0 <= wait <= 1 for wait in points[f"{name}/wait"])
        for counter, count in stats.counters.items():
            assert sum(points[f"{name}/{counter}"]) == count
    assert points["profile/iteration/receive_games/games"]


def event_records(path: Path) -> Iterator[bytes]:
    """Read a TFRecord file: length, its checksum, data, their checksum."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield data[at + 12 : at + 12 + length]
        at += length + 16


# Trains so many steps from a checkpoint on; each is long enough for several intervals.
RESUMED = """
import sys
import time

import live_export

from lineprofiler.accounting import Profiler

kind, begin = sys.argv[1], int(sys.argv[2])
with Profiler(run_dir="profile", role="learner", snapshot_interval_s=0.1) as profiler:
    with live_export.live_export(profiler, kind, "export", lambda: step):
        written = live_export.figures_of
        count = 0

        def counted(intervals):
            global count
            count += 1
            return written(intervals)

        live_export.figures_of = counted
        for step in range(begin, begin + 3):
            with profiler.phase("step"):
                pass
            before = count
            while count < before + 2:
                time.sleep(0.01)
"""


def resume(tmp_path: Path, kind: str, begin: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RESUMED, kind, str(begin)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLE.parent)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def events_in(folder: Path) -> list[Any]:
    """Return the events of one export, which have something to show."""
    schema = pytest.importorskip("tensorboardX.proto.event_pb2")
    [path] = folder.glob("events.out.tfevents.*")
    events = [schema.Event.FromString(record) for record in event_records(path)]
    path.unlink()
    return [event for event in events if event.summary.value]


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    tree = run_example(tmp_path, "tensorboard")
    points: Points = defaultdict(list)
    for event in events_in(tmp_path / "export"):
        for value in event.summary.value:
            points[value.tag].append(value.simple_value)
    has_all(points, tree)


def test_tensorboard_goes_on_at_the_step_of_the_checkpoint_MN08(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    for begin in 0, 1000:
        resume(tmp_path, "tensorboard", begin)
        events = events_in(tmp_path / "export")
        assert {event.step for event in events} == {begin, begin + 1, begin + 2}
        values = [value for event in events for value in event.summary.value]
        assert sum(value.simple_value for value in values if value.tag.endswith("/calls")) == 3


BLOCK = 32_768


def offline_records(path: Path) -> Iterator[bytes]:
    """Read an offline run: a header, then blocks of records, which may be parted."""
    data = path.read_bytes()
    assert data.startswith(b":W&B")
    at, record = 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def points_in(folder: Path) -> Points:
    """Return what one offline run logged."""
    schema = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    [path] = folder.glob("wandb/offline-run-*/*.wandb")
    points: Points = defaultdict(list)
    for data in offline_records(path):
        record: Any = schema.Record.FromString(data)
        for item in record.history.item:
            points[item.key or "/".join(item.nested_key)].append(float(item.value_json))
    path.unlink()
    return points


def test_wandb(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    tree = run_example(tmp_path, "wandb")
    has_all(points_in(tmp_path / "export"), tree)


def test_wandb_goes_on_at_the_step_of_the_checkpoint_MN08(tmp_path: Path) -> None:
    """Rows of one step are not put together, and one that begins lower is not refused."""
    pytest.importorskip("wandb")
    for begin in 1000, 0:
        resume(tmp_path, "wandb", begin)
        points = points_in(tmp_path / "export")
        assert set(points["step"]) == {begin, begin + 1, begin + 2}
        assert points["step"] == sorted(points["step"])
        assert sum(points["profile/step/calls"]) == 3

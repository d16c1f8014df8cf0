"""Disks that are full or broken under a run: what it costs is said, and no more than that."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import MOUNTS, PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

TMPFS = "mount -t tmpfs -o size=256k disk {disk}"
EXT4 = """
truncate -s 4M {disk}.image
mkfs.ext4 -q -F {disk}.image
mount -o loop {disk}.image {disk}
"""
QGROUP = """
truncate -s 120M {disk}.image
mkfs.btrfs -q -f {disk}.image
mount -o loop {disk}.image {disk}
btrfs quota enable {disk}
btrfs qgroup limit 2M {disk}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


FULL_AND_FREE_AGAIN = """
disk, run_dir = sys.argv[1], sys.argv[1] + "/run"
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("before"):
    pass
wait_until(lambda: flush_of(profiler.path) > 1)
fill(disk + "/filler")
for i in range(300):
    with profiler.phase(f"phase number {'abcdefghijklmnopqrstuvwxyz'[i % 26]}{i // 26}"):
        profiler.count("n")
wait_until(lambda: failed(profiler) > 3)
old = flush_of(profiler.path)
in_between = facts(merge_run(run_dir))
files = [file for file in files_of(run_dir) if not file.endswith(".json.tmp")]
temporary = len(files_of(run_dir)) - len(files)
os.unlink(disk + "/filler")
wait_until(lambda: flush_of(profiler.path) > old)
with profiler.phase("after"):
    pass
profiler.close()
tell(old=old, in_between=in_between, files=files, temporary=temporary, left=files_of(run_dir),
     run=facts(merge_run(run_dir)))
"""


@pytest.mark.parametrize("system", [TMPFS, EXT4, QGROUP], ids=["tmpfs", "ext4", "btrfs quota"])
def test_a_full_disk_that_is_freed_again_EX07(child: Child, disk: Path, system: str) -> None:
    found = child.json(
        PRELUDE + FULL_AND_FREE_AGAIN, disk, within=within(system.format(disk=disk), MOUNTS)
    )
    # Who reads meanwhile on this machine misses nothing; on others, the file is whole and older.
    assert found["old"] > 1
    assert len(found["in_between"]["calls"]) == 301
    assert found["in_between"]["unreadable"] == []
    assert len(found["files"]) == 2
    assert found["temporary"] <= 1, "they pile up"
    run = found["run"]
    assert run["calls"].keys() >= {"before", "after"}
    assert len(run["calls"]) == 302
    assert set(run["calls"].values()) == {1}
    assert run["caveats"].keys() == {"failed_flushes"}
    assert run["closed"] == [True]
    assert len(found["left"]) == 2, found["left"]


FULL_FROM_THE_BEGINNING = """
disk, run_dir = sys.argv[1], sys.argv[1] + "/run"
os.makedirs(run_dir)
fill(disk + "/filler")
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    wait_until(lambda: failed(profiler) > 3)
os.unlink(disk + "/filler")
wait_until(lambda: flush_of(profiler.path))
meanwhile = files_of(run_dir)
profiler.close()
tell(meanwhile=meanwhile, run=facts(merge_run(run_dir)), left=files_of(run_dir))
"""


def test_a_disk_that_was_full_from_the_beginning_EX07_MN05(child: Child, disk: Path) -> None:
    found = child.json(
        PRELUDE + FULL_FROM_THE_BEGINNING, disk, within=within(TMPFS.format(disk=disk))
    )
    assert found["run"]["calls"] == {"a": 1}
    assert found["run"]["caveats"].keys() == {"failed_flushes"}
    assert found["run"]["metadata"], "what could not be written then is written later"
    assert len(found["left"]) == 2, found["left"]


NEVER_FREED = """
disk, run_dir = sys.argv[1], sys.argv[1] + "/run"
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    wait_until(lambda: flush_of(profiler.path))
fill(disk + "/filler")
with profiler.phase("b"):
    wait_until(lambda: failed(profiler) > 0)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    profiler.close()
tell(warned=[(w.category.__name__, str(w.message)) for w in warned], path=profiler.path,
     files=files_of(run_dir), run=facts(merge_run(run_dir)))
"""


def test_a_disk_that_stays_full_EX07(child: Child, disk: Path) -> None:
    found = child.json(PRELUDE + NEVER_FREED, disk, within=within(TMPFS.format(disk=disk)))
    [[category, message]] = found["warned"]
    assert category == "RuntimeWarning"
    assert found["path"] in message
    assert "No space left on device" in message
    # The image is the only copy of the end, and is read.
    assert found["run"]["calls"] == {"a": 1, "b": 1}
    assert found["run"]["sources"] != ["file"]
    assert found["files"] == sorted(found["files"])
    assert len(found["files"]) == 2, "no temporary is left"


SERVER_ERRORS = """
import ctypes
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
call, why, run_dir = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    wait_until(lambda: flush_of(profiler.path))
    # Else its file might meet the errors, or be read once more.
    wait_until(lambda: "provenance" in Path(run_dir, "metadata.json").read_text())
    old = flush_of(profiler.path)
    wait_until(lambda: flush_of(profiler.path) > old + 2)
    old = flush_of(profiler.path)
    shim.faulty_begin(os.fsencode(os.path.realpath(run_dir)), call, why, 3)
    wait_until(lambda: failed(profiler) == 3 and not shim.faulty_left(call))
    wait_until(lambda: flush_of(profiler.path) > old + 3)
profiler.close()
"""

CALLS = ["open", "write", "fsync", "close", "rename"]


@pytest.mark.parametrize("why", [errno.ESTALE, errno.EIO], ids=["ESTALE", "EIO"])
@pytest.mark.parametrize("call", CALLS)
def test_errors_of_a_file_server_MN03(
    child: Child, run_dir: Path, faulty_calls: str, call: str, why: int
) -> None:
    child.run(
        PRELUDE + SERVER_ERRORS,
        CALLS.index(call),
        why,
        run_dir,
        env={"LD_PRELOAD": faulty_calls},
    )
    run = merge_run(run_dir)
    assert run.tree[("a",)].calls == 1
    assert {caveat.kind for caveat in run.caveats} == {"failed_flushes"}
    assert run.workers[0].troubles == {"failed_flushes": 3}
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix != ".samples"]) == 2

"""No shared memory, or too little, or somebody else's: recording goes on and says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

    from lineprofiler.run import Caveat, Run

pytestmark = pytest.mark.core

TMPFS = "mount -t tmpfs -o {options},mode=1777 shm /dev/shm"
NO_DEV_SHM = """
mkdir -p {folder}/dev
mount -t tmpfs dev {folder}/dev
for device in null zero full random urandom; do
    touch {folder}/dev/$device
    mount --bind /dev/$device {folder}/dev/$device
done
mount --rbind {folder}/dev /dev
"""
DISK = """
truncate -s 120M {folder}/shm.image
mkfs.btrfs -q -f {folder}/shm.image
mount -o loop {folder}/shm.image /dev/shm
chmod 1777 /dev/shm
"""
IN_THE_WAY = TMPFS.format(options="size=64m") + "\n{plant}"

NONE = {
    "full": TMPFS.format(options="size=64k") + "\nhead -c 65536 /dev/zero >/dev/shm/filler",
    "too small": TMPFS.format(options="size=256k"),
    "absent": NO_DEV_SHM,
    "read-only": TMPFS.format(options="size=64m") + "\nmount -o remount,ro,bind /dev/shm",
    "no more inodes": TMPFS.format(options="size=64m,nr_inodes=2") + "\ntouch /dev/shm/a",
    "inodes for a folder only": TMPFS.format(options="size=64m,nr_inodes=2"),
    "a quota": DISK + "btrfs quota enable /dev/shm\nbtrfs qgroup limit 32k /dev/shm",
    "on a disk": DISK,  # a store may wait for it, or be a SIGBUS
    # Of our name, and not ours: planted by another user, or by an accident.
    "another user's folder": IN_THE_WAY.format(
        plant="mkdir -m 700 /dev/shm/lineprofiler-0; chown 65534 /dev/shm/lineprofiler-0"
    ),
    "a link to another folder": IN_THE_WAY.format(
        plant="mkdir -m 700 /dev/shm/mine; ln -s mine /dev/shm/lineprofiler-0"
    ),
    "a link to nowhere": IN_THE_WAY.format(plant="ln -s nowhere /dev/shm/lineprofiler-0"),
    "a folder open to all": IN_THE_WAY.format(
        plant="mkdir /dev/shm/lineprofiler-0; chmod 777 /dev/shm/lineprofiler-0"
    ),
    "a folder that a group reads": IN_THE_WAY.format(
        plant="mkdir /dev/shm/lineprofiler-0; chmod 750 /dev/shm/lineprofiler-0"
    ),
    "a file": IN_THE_WAY.format(plant="touch /dev/shm/lineprofiler-0"),
    "a pipe": IN_THE_WAY.format(plant="mkfifo /dev/shm/lineprofiler-0"),
}

RECORD = """
run_dir = sys.argv[1]
shm = Path("/dev/shm")
before = sorted(str(p) for p in shm.rglob("*")) if shm.exists() else []
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    for i in range(200):
        with profiler.phase("b"):
            profiler.count("n")
    wait_until(lambda: flush_of(profiler.path) > 1)
    on_disk = json.loads(Path(profiler.path).read_text())["image"]
    pid = os.fork()
    if pid == 0:
        with profiler.phase("c"):
            pass
        profiler.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
profiler.close()
after = sorted(str(p) for p in shm.rglob("*")) if shm.exists() else []
tell(on_disk=on_disk, left=sorted(set(after) - set(before) - {"/dev/shm/lineprofiler-0"}))
"""


def without_dropped(run: Run) -> list[Caveat]:
    """Return the caveats but that around a fork I/O is not always known."""
    return [caveat for caveat in run.caveats if caveat.kind != "dropped"]


@pytest.mark.parametrize("what", NONE)
def test_without_shared_memory_F7(child: Child, tmp_path: Path, run_dir: Path, what: str) -> None:
    how = within(NONE[what].replace("{folder}", str(tmp_path)))
    found = child.json(PRELUDE + RECORD, run_dir, within=how)
    assert found == {"on_disk": "private", "left": []}
    run = merge_run(run_dir)
    assert {path: node.calls for path, node in run.tree.items()} == {
        ("a",): 1,
        ("a", "b"): 200,
        ("c",): 1,
    }
    [caveat] = without_dropped(run)
    assert caveat.kind == "private_image"
    assert "2 workers had no shared memory" in caveat.text


PLANTED_FOR_ANOTHER = {
    "root's folder": "mkdir -m 700 $P",
    "root's folder, open to all": "mkdir $P; chmod 777 $P",
    "a link to root's folder": "mkdir -m 777 /dev/shm/trap; ln -s trap $P",
    "a link to a folder of the user's own": (
        "mkdir -m 700 /dev/shm/own; chown 65534 /dev/shm/own; ln -s own $P"
    ),
    "a file": "touch $P",
    "nothing": "true",
}
AS_NOBODY = """
import shutil
run_dir = "/dev/shm/run"
before = sorted(str(p) for p in Path("/dev/shm").rglob("*"))
pid = os.fork()
if pid == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    with Profiler(run_dir, snapshot_interval_s=None) as profiler, profiler.phase("a"):
        profiler.snapshot()
        there = sorted(str(p) for p in Path("/dev/shm").rglob("*") if p.suffix == ".img")
        Path(run_dir, "images").write_text(json.dumps(there))
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
images = json.loads(Path(run_dir, "images").read_text())
after = [p for p in Path("/dev/shm").rglob("*") if not str(p).startswith(run_dir)]
tell(images=images, run=facts(merge_run(run_dir)),
     made=sorted({str(p) for p in after} - set(before)))
"""


@pytest.mark.parametrize("plant", PLANTED_FOR_ANOTHER)
def test_what_is_planted_for_another_user_is_not_used(child: Child, plant: str) -> None:
    name = "P=/dev/shm/lineprofiler-65534\n"
    how = within(IN_THE_WAY.format(plant=name + PLANTED_FOR_ANOTHER[plant]))
    found = child.json(PRELUDE + AS_NOBODY, within=how)
    assert found["run"]["calls"] == {"a": 1}
    if plant == "nothing":
        [image] = found["images"]
        assert image.startswith("/dev/shm/lineprofiler-65534/w_")
        # Who has changed its user may not read its own /proc/self/io.
        assert found["run"]["caveats"].keys() <= {"dropped"}
        assert found["made"] == ["/dev/shm/lineprofiler-65534"]
    else:
        assert found["images"] == []
        assert found["run"]["caveats"].keys() - {"dropped"} == {"private_image"}
        assert found["made"] == []


def test_shared_memory_that_nothing_may_be_run_from(child: Child, run_dir: Path) -> None:
    how = within(TMPFS.format(options="size=64m,noexec,nosuid,nodev"))
    found = child.json(PRELUDE + RECORD, run_dir, within=how)
    assert found == {"on_disk": "shared", "left": []}
    assert without_dropped(merge_run(run_dir)) == []


FILLS_UP = """
run_dir = sys.argv[1]
profiler = Profiler(run_dir, snapshot_interval_s=None)
with profiler.phase("early"):
    profiler.count("n", 5)
profiler.snapshot()
shared = document(profiler)["image"]
fill("/dev/shm/filler")
for i in range(3000):
    with profiler.phase("number " + "".join(chr(97 + int(digit)) for digit in str(i))):
        pass
profiler.snapshot()
private = document(profiler)["image"]
{end}
"""


def test_shared_memory_that_fills_up_EX07(child: Child, run_dir: Path) -> None:
    """The image goes on in private memory: no SIGBUS, and nothing is missing."""
    code = PRELUDE + FILLS_UP.format(end="profiler.close(); tell(image=[shared, private])")
    found = child.json(code, run_dir, within=within(TMPFS.format(options="size=1m")))
    assert found["image"] == ["shared", "private"]
    run = merge_run(run_dir)
    assert len(run.tree) == 3001
    assert sum(node.calls for node in run.tree.values()) == 3001
    assert [caveat.kind for caveat in run.caveats] == ["private_image"]


def test_killed_when_shared_memory_was_full_F7(child: Child, run_dir: Path) -> None:
    """What was flushed counts: the image alone would be a part that looks whole."""
    end = """
with profiler.phase("late"):
    pass
pid = os.fork()
if pid == 0:
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)
time.sleep(60)
"""
    how = within(TMPFS.format(options="size=1m"))
    # Read in the same place, after it has died.
    script = (
        PRELUDE
        + """
import subprocess
killed = subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
run = merge_run(sys.argv[1])
tell(status=killed.returncode, run=facts(run), paths=len(run.tree))
"""
    )
    found = child.json(script, run_dir, PRELUDE + FILLS_UP.format(end=end), within=how)
    assert found["status"] == -9
    assert found["paths"] >= 3001
    assert found["run"]["calls"]["early"] == 1
    assert found["run"]["caveats"].keys() == {"private_image", "unclosed"}
    assert found["run"]["unreadable"] == []


# ---- what lies in our folder ---------------------------------------------------------

STRANGERS = """
run_dir = sys.argv[1]
import socket, struct, subprocess
folder = Path(f"/dev/shm/lineprofiler-{os.getuid()}")
profiler = Profiler(run_dir, snapshot_interval_s=None)
with profiler.phase("a"):
    pass
image = (folder / (profiler.worker + ".img")).read_bytes()

def name(text):
    # as if it were of this very process: the lookup of ancestors looks at these
    return folder / f"w_{text}_{os.getpid()}_0123abcd.img"

name("empty").write_bytes(b"")
name("garbage").write_bytes(os.urandom(100_000))
name("short").write_bytes(image[:100])
for size in (1024, 4096, 65535):
    name(f"truncated{size}").write_bytes(image[:size])
name("version").write_bytes(image[:8] + struct.pack("<I", 999) + image[12:])
name("layout").write_bytes(image[:12] + struct.pack("<I", 999) + image[16:])
with open(name("sparse"), "wb") as file:
    file.write(image)
    file.truncate(1 << 40)
os.mkfifo(name("pipe"))
name("folder").mkdir()
socket.socket(socket.AF_UNIX).bind(str(name("socket")))
name("loop").symlink_to(name("loop"))
name("link").symlink_to(folder / (profiler.worker + ".img"))
name("unreadable").write_bytes(image)
name("unreadable").chmod(0)
tool = '''
from lineprofiler.accounting import Profiler
with Profiler(role="tool") as profiler, profiler.phase("b"):
    pass
'''
before = sorted(os.listdir(folder))
subprocess.run([sys.executable, "-c", tool], env={}, check=True)
live = facts(merge_run(run_dir))
subprocess.run([sys.executable, "-m", "lineprofiler", "report", run_dir], check=True,
               stdout=subprocess.DEVNULL)
profiler.close()
tell(live=live, run=facts(merge_run(run_dir)))
"""


def test_strange_files_among_the_images(child: Child, run_dir: Path) -> None:
    how = within(TMPFS.format(options="size=64m"))
    found = child.json(PRELUDE + STRANGERS, run_dir, within=how)
    # A copy that is whole, cut or not, is an image of this worker: it is never counted twice.
    assert found["live"]["calls"] == {"a": 1, "b": 1}
    assert found["run"]["calls"] == {"a": 1, "b": 1}

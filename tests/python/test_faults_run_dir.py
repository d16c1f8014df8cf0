"""Run directories that vanish, turn read-only, hang, or are full of traps laid by others."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import MOUNTS, PIDS, PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]

# ---- it goes, and comes back ---------------------------------------------------

GONE = """
import shutil
run_dir, aside = sys.argv[1], sys.argv[1] + ".aside"
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("before"):
    pass
wait_until(lambda: flush_of(profiler.path))
{happens}
with profiler.phase("after"):
    pass
profiler.close()
"""

WAYS_TO_GO = {
    "deleted": """
while Path(run_dir, "workers").exists():  # a flush may come in between, and is in the way
    with contextlib.suppress(OSError):
        shutil.rmtree(run_dir)
wait_until(lambda: flush_of(profiler.path) and Path(run_dir, "metadata.json").exists())
""",
    "its innermost folder deleted": """
shutil.rmtree(Path(profiler.path).parent)
wait_until(lambda: flush_of(profiler.path))
""",
    "another in its place": """
os.rename(run_dir, aside)
os.mkdir(run_dir)
wait_until(lambda: flush_of(profiler.path) and Path(run_dir, "metadata.json").exists())
""",
    "a file in its place": """
os.rename(run_dir, aside)
Path(run_dir).write_text("in the way")
wait_until(lambda: failed(profiler) > 2)
os.unlink(run_dir)
wait_until(lambda: flush_of(profiler.path) and Path(run_dir, "metadata.json").exists())
""",
    "a folder in the file's place": """
os.unlink(profiler.path)
with contextlib.suppress(FileExistsError):
    os.mkdir(profiler.path)
wait_until(lambda: failed(profiler) > 2 or not Path(profiler.path).is_dir())
with contextlib.suppress(NotADirectoryError):
    os.rmdir(profiler.path)
wait_until(lambda: flush_of(profiler.path))
""",
}


@pytest.mark.parametrize("way", WAYS_TO_GO)
def test_a_run_directory_that_goes_is_made_anew_F6(child: Child, run_dir: Path, way: str) -> None:
    child.run(PRELUDE + GONE.format(happens=WAYS_TO_GO[way]), run_dir)
    run = merge_run(run_dir)
    assert {path: node.calls for path, node in run.tree.items()} == {("before",): 1, ("after",): 1}
    assert run.run_id in run.metadata["runs"]
    assert {caveat.kind for caveat in run.caveats} <= {"failed_flushes"}
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix != ".samples"]) == 2


READ_ONLY = """
import ctypes
run_dir = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
REMOUNT, BIND, RDONLY = 32, 4096, 1

def mount(flags):
    assert libc.mount(None, run_dir.encode(), None, REMOUNT | BIND | flags, None) == 0

profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("before"):
    pass
wait_until(lambda: flush_of(profiler.path))
mount(RDONLY)
with profiler.phase("meanwhile"):
    wait_until(lambda: failed(profiler) > 2)
old = flush_of(profiler.path)
mount(0)
wait_until(lambda: flush_of(profiler.path) > old)
profiler.close()
"""


def test_a_run_directory_that_turns_read_only_F6(child: Child, run_dir: Path) -> None:
    run_dir.mkdir()
    child.run(PRELUDE + READ_ONLY, run_dir, within=within(f"mount --bind {run_dir} {run_dir}"))
    run = merge_run(run_dir)
    assert {path[0]: node.calls for path, node in run.tree.items()} == {"before": 1, "meanwhile": 1}
    assert {caveat.kind for caveat in run.caveats} == {"failed_flushes"}


# ---- other file systems -----------------------------------------------------------

ORDINARY = """
run_dir = sys.argv[1]
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    wait_until(lambda: flush_of(profiler.path) > 2)
    pid = os.fork()
    if pid == 0:
        with profiler.phase("b"):
            pass
        profiler.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
profiler.close()
tell(run=facts(merge_run(run_dir)), left=files_of(run_dir))
"""

SSHFS = """
printf '#!/bin/sh\\necho $$ >{server}.pid\\nexec /usr/lib/openssh/sftp-server\\n' >{server}
chmod +x {server}
sshfs -o cache=no,attr_timeout=0,entry_timeout=0 \\
    -o ssh_command={server} fake:{there} {here}
"""
SYSTEMS = {
    "tmpfs": "mount -t tmpfs there {here}",
    "bindfs": "bindfs {there} {here}",
    "sshfs": SSHFS,
    "overlay": "mkdir -p {there}/u {there}/w && mount -t tmpfs t {there} && "
    "mkdir -p {there}/l {there}/u {there}/w && "
    "mount -t overlay -o lowerdir={there}/l,upperdir={there}/u,workdir={there}/w o {here}",
}


def mounted(tmp_path: Path, system: str) -> tuple[Path, tuple[str, ...]]:
    """Return a folder, and what to start a program with so that the folder is that file system."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    setup = SYSTEMS[system].format(here=here, there=there, server=tmp_path / "server")
    return here, within(setup, PIDS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_other_file_systems_F1(child: Child, tmp_path: Path, system: str) -> None:
    here, how = mounted(tmp_path, system)
    found = child.json(PRELUDE + ORDINARY, here / "run", within=how)
    assert found["run"]["calls"] == {"a": 1, "b": 1}
    assert found["run"]["closed"] == [True, True]
    assert found["run"]["caveats"].keys() <= {"dropped"}  # around a fork, I/O is not always known
    assert found["run"]["metadata"]
    # A slow server may not have taken what describes the run when the program ends, and FUSE keeps
    # under a name of its own what was replaced while it was open.
    passing = ("metadata.json.", ".fuse_hidden")
    left = [path for path in found["left"] if not Path(path).name.startswith(passing)]
    assert len(left) == 3


# Whether the native thread waits for the file server.
HANGING = """
def hangs():
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text() == "lp-keeper\\n":
            return (task / "wchan").read_text() == "request_wait_answer"
    return False
"""
HANGS = """
run_dir, pid_file = sys.argv[1:]
server = int(Path(pid_file).read_text())
caught = []
signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
profiler = Profiler(run_dir, snapshot_interval_s=0.5)
with profiler.phase("before"):
    wait_until(lambda: flush_of(profiler.path) > 1)
os.kill(server, signal.SIGSTOP)
wait_until(hangs)  # a flush is due every half second
# Nothing here may wait for the server. If anything does, the watchdog lets it go on, and tells.
waited = threading.Event()
done = threading.Event()

def watch():
    if not done.wait(30):
        waited.set()
        os.kill(server, signal.SIGCONT)

watchdog = threading.Thread(target=watch)
watchdog.start()
for i in range(1000):
    with profiler.phase("meanwhile"):
        profiler.count("n")
{also}
done.set()
watchdog.join()
os.kill(server, signal.SIGCONT)
old = flush_of(profiler.path)

def flushed():
    with profiler.phase("afterwards"):  # a boundary starts the thread anew after a fork
        return flush_of(profiler.path) > old

wait_until(flushed)
profiler.close()
tell(never_waited=not waited.is_set(), run=facts(merge_run(run_dir)), left=files_of(run_dir))
"""

MEANWHILE = {
    "phases": "",
    "a fork": """
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the watchdog is a thread
    pid = os.fork()
if pid == 0:
    with profiler.phase("child"):
        pass
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
""",
    "a signal": """
os.kill(os.getpid(), signal.SIGUSR1)
wait_until(lambda: caught == [signal.SIGUSR1])
""",
    "subprocess": """
import subprocess
subprocess.run([sys.executable, "-c", "pass"], check=True)
""",
    "its own figures": """
assert profiler.merged_tree()[("meanwhile",)].calls == 1000
assert profiler.deltas()[("meanwhile",)].calls == 1000
""",
}


@pytest.fixture
def tells_waits() -> None:
    """Skip where the kernel does not say what a thread waits for."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        wchan = Path(f"/proc/{sleeper.pid}/wchan")
        for _ in range(100):
            known = wchan.exists() and "nanosleep" in wchan.read_text()
            if known:
                break
            time.sleep(0.01)
        sleeper.kill()
    if not known:
        pytest.skip("this kernel does not say what a thread waits for")


@pytest.mark.usefixtures("tells_waits")
@pytest.mark.parametrize("what", MEANWHILE)
def test_a_file_server_that_hangs_F6(child: Child, tmp_path: Path, what: str) -> None:
    here, how = mounted(tmp_path, "sshfs")
    found = child.json(
        PRELUDE + HANGING + HANGS.format(also=MEANWHILE[what]),
        here / "run",
        tmp_path / "server.pid",
        within=how,
    )
    assert found["never_waited"]
    assert found["run"]["calls"]["meanwhile"] == 1000
    assert found["run"]["calls"]["before"] == 1
    # Of an interval in which a child was reaped and a thread ended bytes may not be known.
    assert found["run"]["caveats"].keys() <= {"failed_flushes", "unclosed", "dropped"}


HANGS_AT_THE_END = (
    """
import subprocess
run_dir, pid_file, other = sys.argv[1:]
server = int(Path(pid_file).read_text())
if other:
    victim = """
    + "'''"
    + """
import os, signal, sys
from lineprofiler.accounting import Profiler
profiler = Profiler(sys.argv[1], snapshot_interval_s=None)
with profiler.phase("a"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    + "'''"
    + """
    subprocess.run([sys.executable, "-c", victim, run_dir])
    os.kill(server, signal.SIGSTOP)
profiler = Profiler(other or run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    if not other:
        wait_until(lambda: flush_of(profiler.path))
        os.kill(server, signal.SIGSTOP)
if not other:
    wait_until(hangs)
waited = threading.Event()

def watch():
    time.sleep(60)
    waited.set()
    os.kill(server, signal.SIGCONT)

threading.Thread(target=watch, daemon=True).start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    profiler.close()
never_waited = not waited.is_set()
os.kill(server, signal.SIGCONT)
path = Path(profiler.path)
wait_until(lambda: path.exists() and json.loads(path.read_text())["state"] == "closed")
tell(never_waited=never_waited, warned=[str(warning.message) for warning in caught])
"""
)


@pytest.mark.usefixtures("tells_waits")
@pytest.mark.parametrize("whose", ["its own run", "a dead worker's of another run"])
def test_closing_while_a_file_server_hangs(child: Child, tmp_path: Path, whose: str) -> None:
    """Also one that is nobody's business here: of a run whose worker was killed."""
    here, how = mounted(tmp_path, "sshfs")
    other = "" if whose == "its own run" else tmp_path / "other"
    found = child.json(
        PRELUDE + HANGING + HANGS_AT_THE_END,
        here / "run",
        tmp_path / "server.pid",
        other,
        within=how,
    )
    assert found["never_waited"]
    if other:
        assert found["warned"] == []
    else:  # and the file is written once the server answers again
        [warned] = found["warned"]
        assert "no answer for 10 seconds" in warned


# Looked at from outside while its file server hangs; also by a link, which nobody can follow then.
LOOKED_AT = """
import subprocess
run_dir, pid_file, link, native = sys.argv[1:]
server = int(Path(pid_file).read_text())
os.symlink(run_dir, link)
profiler = Profiler(run_dir, snapshot_interval_s=None)
done, waited = threading.Event(), threading.Event()

def watch():
    if not done.wait(60):
        waited.set()
        os.kill(server, signal.SIGCONT)

def where(*words):
    ended = subprocess.run([*words], capture_output=True, text=True)
    return ended.returncode, ended.stdout, ended.stderr

module = (sys.executable, "-P", "-m", "lineprofiler")
found = {}
with profiler.phase("iteration"), profiler.phase("read_file"):
    profiler.snapshot()
    found["answers"] = where(native, "where", link, "--json")
    os.kill(server, signal.SIGSTOP)
    watchdog = threading.Thread(target=watch)
    watchdog.start()
    found["native"] = where(native, "where", run_dir)
    found["module"] = where(*module, "where", run_dir)
    found["json"] = where(native, "where", run_dir, "--json")
    found["link"] = where(*module, "where", link)
    done.set()
    watchdog.join()
    os.kill(server, signal.SIGCONT)
    found["answers again"] = where(native, "where", run_dir, "--json")
profiler.close()
tell(never_waited=not waited.is_set(), **found)
"""


def test_where_does_not_wait_for_a_file_server(child: Child, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "where.schema.json").read_text(encoding="utf-8"))
    here, how = mounted(tmp_path, "sshfs")
    native = Path(sys.executable).parent / "lineprofiler"
    link = tmp_path / "link"
    found = child.json(
        PRELUDE + LOOKED_AT, here / "run", tmp_path / "server.pid", link, native, within=how
    )
    assert found["never_waited"]
    for key in ("answers", "json", "answers again"):
        status, out, err = found[key]
        assert (status, err) == (0, "")
        document = json.loads(out)
        jsonschema.Draft202012Validator(schema).validate(document)
        answers = key.startswith("answers")
        assert document["run"]["run_dir_answers"] is answers
        assert document["run"]["processes"] == (1 if answers else None)
        assert document["ended"] == document["elsewhere"] == ([] if answers else None)
        (worker,) = document["workers"]
        open_phases = [
            frame["name"]
            for thread in worker["threads"]
            for stack in thread["stacks"]
            for frame in stack["frames"]
        ]
        assert open_phases == ["iteration", "read_file"]
    for start in ("native", "module"):
        status, out, err = found[start]
        assert (status, err) == (0, "")
        first, second, *rest = out.splitlines()
        assert " · 1 worker lives on this machine · " in first
        assert second.startswith("RUN DIRECTORY DOES NOT ANSWER: ")
        assert any("iteration" in line and "read_file" in line for line in rest)
    status, out, err = found["link"]
    assert (status, out) == (2, "")
    assert f"'{link}' does not answer within 3 s" in err
    assert err.count("\n") == 1


# ---- traps --------------------------------------------------------------------------

# Who may write in the run directory plants what leads elsewhere. Nothing is to be made there.
TRAPS = {
    "workers": ("workers", ""),
    "the host's folder": ("workers/{host}", ""),
    "metadata": ("metadata.json", "file"),
    "the lock of metadata": ("metadata.json.lock", "file"),
}
PLANTED = """
run_dir, elsewhere, path, kind = sys.argv[1:]
import socket
path = Path(run_dir, path.format(host=socket.gethostname()))
path.parent.mkdir(parents=True, exist_ok=True)
path.symlink_to(elsewhere + ("/file" if kind else ""))
try:
    profiler = Profiler(run_dir, snapshot_interval_s=0.01)
except OSError as error:
    tell(error=str(error))
    sys.exit()
with profiler.phase("a"):
    wait_until(lambda: flush_of(profiler.path) or failed(profiler))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    profiler.close()
tell(error=None)
"""


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("trap", TRAPS)
def test_no_link_is_followed_for_writing(
    child: Child, tmp_path: Path, run_dir: Path, trap: str, dangling: bool
) -> None:
    path, kind = TRAPS[trap]
    elsewhere = tmp_path / "elsewhere"
    if not dangling:
        elsewhere.mkdir()
        (elsewhere / "file").write_text("precious")
    found = child.json(PRELUDE + PLANTED, run_dir, elsewhere, path, kind)
    if dangling:
        assert not elsewhere.exists()
    else:
        assert [p.name for p in elsewhere.iterdir()] == ["file"]
        assert (elsewhere / "file").read_text() == "precious"
    if not kind:
        assert str(run_dir) in found["error"], "where nothing can be written, it is said"


PLANTED_LATER = """
run_dir, elsewhere = sys.argv[1:]
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
with profiler.phase("a"):
    wait_until(lambda: flush_of(profiler.path))
    folder = Path(profiler.path).parent
    Path(folder, profiler.worker + ".json.tmp").unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):
        Path(folder, profiler.worker + ".json.tmp").symlink_to(elsewhere + "/file")
    old = document(profiler)["flush"]
    wait_until(lambda: document(profiler)["flush"] > old + 2)
    {how}
    old = document(profiler)["flush"]
    wait_until(lambda: document(profiler)["flush"] > old + 2)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    profiler.close()
"""


@pytest.mark.parametrize("place", ["folder.parent", "folder"])
def test_a_link_that_is_planted_later(
    child: Child, tmp_path: Path, run_dir: Path, place: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("precious")
    how = f"os.rename({place}, run_dir + '/aside'); os.symlink(elsewhere, {place})"
    child.run(PRELUDE + PLANTED_LATER.format(how=how), run_dir, elsewhere)
    assert [p.name for p in elsewhere.iterdir()] == ["file"]
    assert (elsewhere / "file").read_text() == "precious"


# ---- modes ---------------------------------------------------------------------------

UMASKS = {0: (0o777, 0o666), 0o027: (0o750, 0o640), 0o077: (0o700, 0o600), 0o777: (0, 0)}
MODES = """
run_dir, umask = sys.argv[1], int(sys.argv[2])
os.umask(umask)
profiler = Profiler(run_dir, snapshot_interval_s=None)
with profiler.phase("a"):
    profiler.snapshot()
shm = Path(f"/dev/shm/lineprofiler-{os.geteuid()}")
image = shm / (profiler.worker + ".img")
modes = {"shm": shm.stat().st_mode & 0o7777, "image": image.stat().st_mode & 0o7777}
profiler.close()
tell(modes=modes)
"""


@pytest.mark.parametrize("umask", UMASKS)
def test_modes_of_files_and_images_F1(child: Child, run_dir: Path, umask: int) -> None:
    shm = within("mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm", MOUNTS)
    found = child.json(PRELUDE + MODES, run_dir, umask, within=shm)
    assert found["modes"] == {"shm": 0o700, "image": 0o600}
    folder, file = UMASKS[umask]
    for path in [run_dir, *run_dir.rglob("*")]:
        expected = folder if path.is_dir() else file
        assert stat.S_IMODE(path.stat().st_mode) == expected, path

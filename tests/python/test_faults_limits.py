"""A process at its limits: descriptors, file sizes, address space, the memory of its cgroup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from machine import OWN_SHM, PRELUDE, within

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

pytestmark = pytest.mark.core

# ---- descriptors -----------------------------------------------------------------

NO_DESCRIPTOR = """
import resource
run_dir, when = sys.argv[1:]
held = []

def take_all():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))

def give_back():
    while held:
        os.close(held.pop())

merge_run, json.dumps({}), socket  # imported while there are descriptors
if when == "before":
    take_all()
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
if when == "after":
    take_all()
with profiler.phase("a"):
    wait_until(lambda: failed(profiler) > 2)
give_back()
wait_until(lambda: flush_of(profiler.path) > 1)
with profiler.phase("b"):
    pass
profiler.close()
left = sorted(os.listdir("/proc/self/fd"))
tell(left=len(left))
"""


NO_BOOT_ID = """
import resource
with Profiler(sys.argv[1], snapshot_interval_s=None) as first, first.phase("a"):
    held = []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    warnings.simplefilter("ignore")  # two in one process
    second = Profiler(sys.argv[1], snapshot_interval_s=None)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with second.phase("b"):
        pass
    second.close()
"""


def test_no_restart_is_made_up_for_want_of_descriptors_K10(child: Child, run_dir: Path) -> None:
    child.run(PRELUDE + NO_BOOT_ID, run_dir)
    run = merge_run(run_dir)
    assert len(run.workers) == 2
    assert "host_clocks" not in {caveat.kind for caveat in run.caveats}


@pytest.mark.parametrize("when", ["before", "after"])
def test_no_descriptor_is_left_F6(child: Child, run_dir: Path, when: str) -> None:
    found = child.json("import socket\n" + PRELUDE + NO_DESCRIPTOR, run_dir, when)
    assert found["left"] == 4, "the standard ones, and that of the listing"
    run = merge_run(run_dir)
    assert {path[0]: node.calls for path, node in run.tree.items()} == {"a": 1, "b": 1}
    kinds = {caveat.kind for caveat in run.caveats} - {"dropped"}  # I/O of that time
    assert kinds == {"failed_flushes"} | ({"private_image"} if when == "before" else set())
    assert run.run_id in run.metadata["runs"]


NEVER_ANY = """
import resource
run_dir = sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
for i in range(100):
    with profiler.phase("a"):
        profiler.count("n")
wait_until(lambda: failed(profiler) > 2)
assert profiler.merged_tree()[("a",)].counters == {"n": 100}
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    profiler.close()
print("\\n".join(f"{w.category.__name__}: {w.message}" for w in warned))
"""


def test_there_never_is_a_descriptor(child: Child, run_dir: Path) -> None:
    done = child.run(PRELUDE + NEVER_ANY, run_dir)
    [warned] = done.stdout.splitlines()
    assert warned.startswith("RuntimeWarning: ")
    assert "Too many open files" in warned
    assert str(run_dir) in warned


# ---- sizes of files and of the address space --------------------------------------

LIMITED = """
import resource
run_dir, name, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as in programs that are not Python's
if name == "RLIMIT_AS":
    limit += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
profiler = None
resource.setrlimit(getattr(resource, name), (limit, limit))
profiler = Profiler(run_dir, snapshot_interval_s=0.01)
for i in range(2000):
    with profiler.phase("number " + "".join(chr(97 + int(digit)) for digit in str(i))):
        profiler.count("n")
wait_until(lambda: document(profiler)["flush"] > 1)
tree = profiler.merged_tree()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    profiler.close()
tell(calls=sum(node.calls for node in tree.values()), paths=len(tree),
     troubles=document(profiler)["troubles"], warned=[str(w.message) for w in warned])
"""


@pytest.mark.parametrize("limit", [0, 100, 100_000])
def test_small_files_only_EX07(child: Child, run_dir: Path, limit: int) -> None:
    shm = within(OWN_SHM)
    found = child.json(PRELUDE + LIMITED, run_dir, "RLIMIT_FSIZE", limit, within=shm)
    assert (found["calls"], found["paths"]) == (2000, 2000)
    assert found["troubles"]["failed_flushes"] > 0
    [warned] = found["warned"]
    assert "File too large" in warned
    assert list(run_dir.rglob("*.tmp*")) == []


@pytest.mark.parametrize("megabytes", [24, 64, 400])
def test_little_address_space(child: Child, run_dir: Path, megabytes: int) -> None:
    found = child.json(PRELUDE + LIMITED, run_dir, "RLIMIT_AS", megabytes << 20)
    assert found["warned"] == []
    run = merge_run(run_dir)
    assert sum(node.calls for node in run.tree.values()) == found["calls"]
    lost = run.workers[0].troubles.get("image_full", 0)
    assert found["calls"] + lost >= 2000
    if megabytes == 400:
        assert (found["calls"], found["troubles"]) == (2000, {})


# ---- a memory cgroup ------------------------------------------------------------------

V1 = Path("/sys/fs/cgroup/memory")
NEAR_THE_LIMIT = """
import mmap
run_dir, group = sys.argv[1], Path(sys.argv[2])
profiler = Profiler(run_dir, snapshot_interval_s=None)
with profiler.phase("before"):
    pass
names = ["".join(chr(97 + int(digit)) for digit in str(i)) for i in range(4000)]

all_there = threading.Barrier(12)

def work():
    all_there.wait()  # each has a tree of its own, since all are there at once
    for name in names:
        with profiler.phase(name):
            pass
    all_there.wait()

def number(file):
    return int((group / file).read_text())

threads = [threading.Thread(target=work) for _ in range(12)]
# The program itself comes close to its limit, and stays there.
block = mmap.mmap(-1, 1 << 30)
for place in range(0, 1 << 30, 4096):
    if place % (1 << 18) == 0:
        left = number("memory.limit_in_bytes") - number("memory.usage_in_bytes")
        if left < 5 << 20:
            break
    block[place] = 1
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
troubles = document(profiler)["troubles"]
block.close()
while ("after",) not in profiler.merged_tree():  # room is not looked for at each request
    for i in range(1000):
        with profiler.phase("after"):
            pass
profiler.close()
tell(troubles=troubles)
"""


ENDS = ("before", "after")


@pytest.fixture
def group(run_dir: Path) -> Iterator[Path]:
    folder = V1 / f"lineprofiler-test-{run_dir.parent.name}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text("64M")
    except OSError as error:
        pytest.skip(f"no memory cgroup of our own: {error}")
    yield folder
    folder.rmdir()


def test_near_the_limit_of_its_memory(child: Child, run_dir: Path, group: Path) -> None:
    """What we take never is what gets the program killed."""
    enter = ("sh", "-euc", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh")
    found = child.json(PRELUDE + NEAR_THE_LIMIT, run_dir, group, within=enter)
    run = merge_run(run_dir)
    assert run.tree[("before",)].calls == 1
    assert run.tree[("after",)].calls >= 1, "once there is room again, it is taken"
    assert found["troubles"].keys() == {"image_full"}
    recorded = sum(node.calls for path, node in run.tree.items() if path[0] not in ENDS)
    assert recorded + found["troubles"]["image_full"] >= 12 * 4000
    assert {caveat.kind for caveat in run.caveats} <= {"private_image", "troubles"}

"""The claims of docs/gpu.md on a real device. `pytest -m gpu -rs` tells why they were skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu import DEVICE
from machine import PRELUDE

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

CHAIN_NS = 687_000_000

LOOK = """
import ctypes
n = ctypes.c_int()
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n)) or not n.value or nvml.nvmlInit_v2():
    raise SystemExit("the driver has no device")
"""


@cache
def why_not() -> str | None:
    """Return why there is no device to test on; None if there is one."""
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return said[-1] if done.returncode else None


@pytest.fixture(autouse=True)
def _device() -> None:
    reason = why_not()
    if reason:
        pytest.skip(f"no NVIDIA device: {reason}")


pytestmark = pytest.mark.gpu

PROGRAM = (
    PRELUDE
    + """
profiler = Profiler(sys.argv[1], "trainer", snapshot_interval_s=0.5, sample_interval_s=0.1)

def sample(n):
    path = Path(profiler.path).with_suffix(".gpu_samples")
    rows = lambda: path.stat().st_size // 64 if path.exists() else 0
    wanted = rows() + n
    wait_until(lambda: rows() >= wanted)
"""
)
END = "\nprofiler.close()\n"


def test_a_chain_of_687_ms_H7(child: Child, run_dir: Path) -> None:
    code = (
        PROGRAM
        + DEVICE
        + """
for _ in range(3):  # the first launch compiles the kernel
    enqueue(1), drain()
with profiler.phase("plain"):
    enqueue(687)
drain()
with profiler.phase("gpu", gpu=True):
    enqueue(687)
drain()
with profiler.phase("sync", sync=True):
    enqueue(687)
"""
    )
    child.run(code + END, run_dir)
    tree = merge_run(run_dir).tree
    assert tree[("gpu",)].gpu_ns == pytest.approx(CHAIN_NS, rel=0.02)
    assert tree[("sync",)].wall_ns == pytest.approx(CHAIN_NS, rel=0.05)
    assert tree[("plain",)].wall_ns < CHAIN_NS / 20
    assert tree[("gpu",)].wall_ns < CHAIN_NS / 20


def test_a_process_that_uses_no_device_takes_no_memory_of_one_H5(
    child: Child, run_dir: Path
) -> None:
    code = (
        PROGRAM
        + """
with profiler.phase("x", sync=True, gpu=True):
    sample(8)
assert "libcuda" not in Path("/proc/self/maps").read_text()
import ctypes
nvml, device, n = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint(512)
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
held = ctypes.create_string_buffer(512 * 32)
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), held) == 0
pids = [int.from_bytes(held.raw[i * 24 : i * 24 + 4], "little") for i in range(n.value)]
assert os.getpid() not in pids
"""
    )
    child.run(code + END, run_dir)
    assert len(merge_run(run_dir).workers[0].gpus) >= 1


def test_a_busy_device_is_seen_busy_H5(child: Child, run_dir: Path) -> None:
    code = (
        PROGRAM
        + DEVICE
        + """
with profiler.phase("x"):
    enqueue(4000)
    sample(20)
    drain()
"""
    )
    child.run(code + END, run_dir)
    (path,) = run_dir.glob("workers/*/*.gpu_samples")
    data = path.read_bytes()[2048:]
    busy = [int.from_bytes(data[i + 36 : i + 40], "little") for i in range(0, len(data), 64)]
    assert max(value for value in busy if value <= 1000) > 500


def test_a_forked_child_may_use_cuda_and_be_sampled_GP06_GP07(child: Child, run_dir: Path) -> None:
    code = (
        PROGRAM
        + """
with profiler.phase("parent"):
    sample(4)
pid = os.fork()
if pid == 0:
    with profiler.phase("child"):
        sample(4)
    import ctypes
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    profiler.close()
    os._exit(0)
with profiler.phase("parent"):
    sample(4)
assert os.waitpid(pid, 0)[1] == 0
"""
    )
    child.run(code + END, run_dir)
    assert [len(worker.gpus) > 0 for worker in merge_run(run_dir).workers] == [True, True]


def test_a_phase_with_events_costs_the_host_little(child: Child, run_dir: Path) -> None:
    code = (
        PROGRAM
        + DEVICE
        + """
enqueue(1), drain()
plain, timed = profiler.phase("plain"), profiler.phase("timed", gpu=True)
def cost(phase):
    begin = time.perf_counter_ns()
    for _ in range(1000):
        with phase:
            pass
    return (time.perf_counter_ns() - begin) / 1000
costs = [min(cost(phase) for _ in range(20)) for phase in (plain, timed)]
print(json.dumps(costs[1] - costs[0]))
"""
    )
    added_ns = json.loads(child.run(code + END, run_dir).stdout)
    assert added_ns < 3000

"""phase(sync=True), phase(gpu=True), phase(async_work=True), by a stand-in for the driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpu import CUDA, TORCH, FakeGpu
from machine import PRELUDE

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

PROGRAM = (
    PRELUDE
    + """
profiler = Profiler(sys.argv[1], "trainer", snapshot_interval_s=None, sample_interval_s=None)
"""
)
WITH_TORCH = PROGRAM + "import torch\n" + CUDA
END = "\nprofiler.close()\n"

CHAIN_NS = 687_000_000


def nodes_of(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Return the nodes of the only worker's file, by name; figures of equal names are not added."""
    (file,) = run_dir.glob("workers/*/w_*.json")
    document = json.loads(file.read_text())
    return {node["name"]: node for slot in document["threads"] for node in slot["nodes"][1:]}


@pytest.fixture
def torch_gpu(fake_gpu: FakeGpu) -> FakeGpu:
    fake_gpu.with_module("torch", TORCH)
    return fake_gpu


def test_a_chain_of_687_ms_H7(child: Child, run_dir: Path, torch_gpu: FakeGpu) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
with profiler.phase("before"):
    enqueue(50)
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
    child.run(code + END, run_dir, env=torch_gpu.env)
    nodes = nodes_of(run_dir)
    assert nodes["gpu"]["gpu_calls"] == 1
    assert nodes["gpu"]["gpu_ns"] == CHAIN_NS
    assert sum(int(pair.split(":")[1]) for pair in nodes["gpu"]["gpu_hist"].split()) == 1
    assert nodes["sync"]["wall_ns"] >= CHAIN_NS
    for submission in ("plain", "gpu"):
        assert nodes[submission]["wall_ns"] < CHAIN_NS / 2
    assert "gpu_ns" not in nodes["plain"]
    assert "gpu_calls" not in nodes["sync"]


def test_what_was_queued_before_is_not_billed_to_a_synchronised_phase(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH + "start_cuda(); enqueue(800)\nwith profiler.phase('own', sync=True): enqueue(1)"
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    assert 1_000_000 <= nodes_of(run_dir)["own"]["wall_ns"] < 400_000_000


def test_time_of_a_forward_pass_is_not_the_log_s_OV09(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
for mode in ({}, {"gpu": True}):
    for _ in range(2):
        with profiler.phase("events" if mode else "plain"):
            with profiler.phase("fwd", **mode):
                enqueue(300)
            with profiler.phase("log"):
                drain()  # as .item() does
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    tree = merge_run(run_dir).tree
    for mode in ("plain", "events"):
        assert tree[(mode, "fwd")].wall_ns < 150_000_000  # submission
        assert tree[(mode, "log")].wall_ns >= 600_000_000  # where it turns up
    fwd = tree[("events", "fwd")]
    assert (fwd.gpu_calls, fwd.gpu_ns) == (2, 600_000_000)
    assert fwd.gpu_hist is not None
    assert fwd.gpu_hist.total == 2
    assert tree[("plain", "fwd")].gpu_ns is None
    assert "cuCtxSynchronize" not in torch_gpu.calls()


def test_other_threads_run_while_the_device_is_waited_for(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
counted = [0]
def count():
    while counted[0] >= 0:
        counted[0] += 1
        time.sleep(0.001)
thread = threading.Thread(target=count)
thread.start()
enqueue(500)
before = counted[0]
with profiler.phase("x", sync=True):
    pass
during = counted[0] - before
counted[0] = -10**9
thread.join()
assert during > 10, during
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)


def test_no_context_is_made_and_the_driver_is_not_loaded_GP07(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    code = (
        PROGRAM
        + """
def use():
    for _ in range(3):
        with profiler.phase("x", sync=True, gpu=True, async_work=True):
            pass
use()
assert "libcuda" not in Path("/proc/self/maps").read_text()
import ctypes
ctypes.CDLL("libcuda.so.1")
use()
pid = os.fork()
if pid == 0:
    use()
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    )
    child.run(code + END, run_dir, env=fake_gpu.env)
    assert fake_gpu.calls() == ["cuInit"]  # by the program itself
    files = [json.loads(file.read_text()) for file in run_dir.glob("workers/*/w_*.json")]
    figures = [slot["nodes"][1] for file in files for slot in file["threads"]]
    assert sorted(node["calls"] for node in figures) == [3, 6]
    for node in figures:
        assert node["gpu_calls"] == node["gpu_ns"] == 0
        assert node["async_work"] is True


def test_times_are_taken_up_later_without_waiting(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
for i in range(5):
    with profiler.phase("step", gpu=True):
        enqueue(i + 1)
profiler.snapshot()
first = [n for t in document(profiler)["threads"] for n in t["nodes"]][1]
assert (first["calls"], first["gpu_calls"]) == (5, 0), first
drain()
with profiler.phase("step", gpu=True):
    enqueue(1)
assert [n for t in document(profiler)["threads"] for n in t["nodes"]][1]["gpu_calls"] == 5
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    node = nodes_of(run_dir)["step"]
    assert (node["calls"], node["gpu_calls"], node["gpu_ns"]) == (6, 5, 15_000_000)
    assert "cuCtxSynchronize" not in torch_gpu.calls()


def test_more_than_can_be_kept_are_not_measured_rather_than_guessed(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
for _ in range(2000):
    with profiler.phase("step", gpu=True):
        enqueue(0.001)
drain()
events = cuda.fake_live_events()
assert events < 1100, events
for _ in range(2000):
    with profiler.phase("step", gpu=True):
        enqueue(0.001)
    drain()
assert cuda.fake_live_events() == events
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    node = nodes_of(run_dir)["step"]
    assert node["calls"] == 4000
    assert 2000 <= node["gpu_calls"] < 3000
    assert node["gpu_ns"] == node["gpu_calls"] * 1000


@pytest.mark.parametrize(
    "obstacle",
    [
        pytest.param("cuda.fake_capture(torch.current, 1)", id="a stream under capture"),
        pytest.param("torch.current = 6", id="another stream than at the beginning"),
        pytest.param("torch.initialized = False", id="torch gone"),
        pytest.param("del sys.modules['torch']", id="no framework that we know"),
        pytest.param("torch.current = 'no number'", id="a framework that is not itself"),
        pytest.param("cuda.fake_replace_context()", id="another context"),
        pytest.param("cuda.cuCtxSetCurrent(None)", id="no context any more"),
    ],
)
def test_what_cannot_be_known_is_not_measured(
    child: Child, run_dir: Path, torch_gpu: FakeGpu, obstacle: str
) -> None:
    code = (
        WITH_TORCH
        + f"""
start_cuda()
with profiler.phase("x", gpu=True):
    {obstacle}
cuda.cuStreamSynchronize(5)
with profiler.phase("x", gpu=True):
    pass
assert cuda.fake_capture_state(5) in (0, 1)
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    node = nodes_of(run_dir)["x"]
    assert (node["calls"], node["gpu_calls"], node["gpu_ns"]) in ((2, 0, 0), (2, 1, 0))
    assert "gpu_hist" not in node or node["gpu_calls"] == 1


def test_a_graph_capture_survives_a_synchronised_phase(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
cuda.fake_capture(torch.current, 1)
with profiler.phase("x", sync=True, gpu=True):
    pass
assert cuda.fake_capture_state(torch.current) == 1
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    assert "cuEventRecord" not in torch_gpu.calls()


def test_cupy_and_the_fast_way_of_torch_are_asked(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    fake_gpu.with_module(
        "cupy",
        """
class Stream: ptr = 7
class cuda:
    get_current_stream = Stream
""",
    )
    fast = """
class _C:
    @staticmethod
    def _cuda_getDevice(): return 0
    @staticmethod
    def _cuda_getCurrentRawStream(device): return current + device
"""
    fake_gpu.with_module("torch", TORCH + fast)
    code = (
        PROGRAM
        + CUDA
        + """
start_cuda()
import cupy
with profiler.phase("cupy", gpu=True):
    cuda.fake_enqueue(7, 3000)
import torch
with profiler.phase("torch", gpu=True):
    enqueue(0.005)
drain(), cuda.cuStreamSynchronize(7)
assert torch.asked == 0
"""
    )
    child.run(code + END, run_dir, env=fake_gpu.env)
    nodes = nodes_of(run_dir)
    assert nodes["cupy"]["gpu_ns"] == 3000
    assert nodes["torch"]["gpu_ns"] == 5000


def test_skipped_entries_neither_drain_nor_record(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
for _ in range(8):
    with profiler.phase("x", sample=0.25, sync=True, gpu=True):
        with profiler.phase("inside", sync=True, gpu=True):
            enqueue(0.001)
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    nodes = nodes_of(run_dir)
    for name in ("x", "inside"):
        assert nodes[name]["stride"] == 4
        assert nodes[name]["gpu_calls"] == 8
        assert nodes[name]["gpu_ns"] == 8 * 1000
    assert torch_gpu.calls().count("cuCtxSynchronize") == 2 * 2 * 2


def test_a_forked_child_has_its_own(child: Child, run_dir: Path, torch_gpu: FakeGpu) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
with profiler.phase("parent", gpu=True):
    enqueue(2)
pid = os.fork()
if pid == 0:
    with profiler.phase("child", gpu=True, sync=True):
        pass
    profiler.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
drain()
with profiler.phase("parent", gpu=True):
    pass
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    files = [json.loads(file.read_text()) for file in run_dir.glob("workers/*/w_*.json")]
    figures = {n["name"]: n for f in files for t in f["threads"] for n in t["nodes"][1:]}
    assert figures["parent"]["gpu_ns"] == 2_000_000
    assert (figures["child"]["calls"], figures["child"]["gpu_calls"]) == (1, 0)


def test_a_phase_that_raises_or_is_dropped_ends(
    child: Child, run_dir: Path, torch_gpu: FakeGpu
) -> None:
    code = (
        WITH_TORCH
        + """
start_cuda()
with contextlib.suppress(KeyError):
    with profiler.phase("raises", gpu=True, sync=True):
        enqueue(1)
        raise KeyError
entry = profiler.phase("dropped", gpu=True, sync=True)
entry.__enter__()
del entry
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    nodes = nodes_of(run_dir)
    assert nodes["raises"]["gpu_ns"] == 1_000_000
    assert nodes["dropped"]["calls"] == 1


def test_a_kept_phase_in_several_threads(child: Child, run_dir: Path, torch_gpu: FakeGpu) -> None:
    code = (
        WITH_TORCH
        + """
step = profiler.phase("step", gpu=True)
start_cuda()
context = ctypes.c_void_p()
cuda.cuCtxGetCurrent(ctypes.byref(context))
def work():
    cuda.cuCtxSetCurrent(context)
    for _ in range(200):
        with step:
            pass
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
"""
    )
    child.run(code + END, run_dir, env=torch_gpu.env)
    (file,) = run_dir.glob("workers/*/w_*.json")
    nodes = [n for t in json.loads(file.read_text())["threads"] for n in t["nodes"][1:]]
    assert sum(node["calls"] for node in nodes) == 800
    assert sum(node["gpu_calls"] for node in nodes) == 800

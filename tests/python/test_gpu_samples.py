"""Samples of devices, and of torch's allocator, by stand-ins for NVIDIA's libraries."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpu import CUDA, ONE, OURS, TORCH, FakeGpu
from machine import PRELUDE

from lineprofiler.accounting import merge_run

if TYPE_CHECKING:
    from conftest import Child

FIRST_PID_NAMESPACE = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
NOT_MEASURED = 2**64 - 1

# Records until the samples file has so many rows more.
PROGRAM = (
    PRELUDE
    + """
profiler = Profiler(sys.argv[1], "trainer", snapshot_interval_s=0.05, sample_interval_s=0.01)

def rows(kind, profiler=profiler):
    path = Path(profiler.path).with_suffix("." + kind)
    size = path.stat().st_size - 2048 if path.exists() else 0
    return size // (128 if kind == "samples" else 64)

def sample(kind, n=1):
    wanted = rows(kind) + n
    wait_until(lambda: rows(kind) >= wanted)
"""
)


def rows_of(run_dir: Path, kind: str) -> list[dict[str, int]]:
    """Return the rows of the only worker's samples file, as docs/format.md tells to read it."""
    (path,) = run_dir.glob(f"workers/*/w_*.{kind}")
    with path.open("rb") as file:
        header = json.loads(file.readline())
        file.seek(header["header_bytes"])
        data = file.read()
    codes = {"u8": "Q", "u4": "I", "u2": "H"}
    layout = struct.Struct("<" + "".join(codes[code] for _, code in header["fields"]))
    assert layout.size == header["record_bytes"]
    names = [name for name, _ in header["fields"]]
    return [dict(zip(names, row, strict=True)) for row in layout.iter_unpack(data)]


def document_of(run_dir: Path) -> Any:
    (path,) = run_dir.glob("workers/*/w_*.json")
    return json.loads(path.read_text())


def test_a_device_and_this_run_s_share_of_it_H5(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    fake_gpu.say(ONE, OURS)
    code = PROGRAM + 'with profiler.phase("train"):\n    sample("gpu_samples", 5)\nprofiler.close()'
    child.run(code, run_dir, env=fake_gpu.env)
    run = merge_run(run_dir)
    (gpu,) = run.workers[0].gpus
    assert (gpu.index, gpu.name, gpu.uuid, gpu.state) == (0, "FakeA100", "GPU-1", "ok")
    assert gpu.memory_bytes == 80 << 30
    rows = rows_of(run_dir, "gpu_samples")
    assert rows[0]["busy_permille"] == 2**32 - 1  # of no window yet
    assert {row["busy_permille"] for row in rows[1:]} == {800}
    assert {row["device_used_bytes"] for row in rows} == {2 << 30}
    (node,) = document_of(run_dir)["threads"][0]["nodes"][1:]
    assert node["id"] in {row["phase"] for row in rows}
    if FIRST_PID_NAMESPACE:
        assert gpu.own == "ok"
        assert {row["own_busy_permille"] for row in rows[1:]} == {640}
        assert rows[-1]["own_used_bytes"] == 1 << 30
        assert rows[-1]["flags"] == 1
    else:
        assert gpu.own == "pid_namespace"
        assert {row["own_busy_permille"] for row in rows} == {2**32 - 1}
    assert run.caveats == [] or {c.kind for c in run.caveats} == {"samples"}


@pytest.mark.parametrize("said", [None, ONE + "error init 18"], ids=["no library", "mismatch"])
def test_without_a_working_driver_there_is_nothing_and_no_noise_GP09(
    child: Child, run_dir: Path, fake_gpu: FakeGpu, said: str | None
) -> None:
    env = fake_gpu.env
    if said is None:
        env = {**env, "LD_LIBRARY_PATH": ""}
    else:
        fake_gpu.say(said)
    code = PROGRAM + 'with profiler.phase("x"):\n    sample("samples", 9)\nprofiler.close()'
    done = child.run(code, run_dir, env=env)
    assert (done.stdout, done.stderr) == ("", "")
    document = document_of(run_dir)
    assert "gpus" not in document
    assert document["troubles"] == {}
    assert list(run_dir.glob("workers/*/*.gpu_samples")) == []
    assert merge_run(run_dir).workers[0].gpus == []


def test_a_hanging_driver_is_told_in_the_report_GP08(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    fake_gpu.say(ONE, "delay init 600000")
    code = (
        PROGRAM
        + """
with profiler.phase("train"):
    wait_until(lambda: "gpu_timeouts" in document(profiler)["troubles"])
    sample("samples", 3)
profiler.close()
"""
    )
    child.run(code, run_dir, env=fake_gpu.env)
    caveats = [c.text for c in merge_run(run_dir).caveats if "GPU driver" in c.text]
    assert len(caveats) == 1
    assert "did not answer" in caveats[0]


def test_forked_actors_read_for_themselves_GP06(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    fake_gpu.say(ONE, OURS)
    code = (
        PROGRAM
        + """
with profiler.phase("parent"):
    sample("gpu_samples", 3)
pid = os.fork()
if pid == 0:
    with profiler.phase("child"):
        sample("gpu_samples", 3)
    profiler.close()
    os._exit(0)
with profiler.phase("parent"):
    sample("gpu_samples", 3)
assert os.waitpid(pid, 0)[1] == 0
profiler.close()
"""
    )
    child.run(code, run_dir, env=fake_gpu.env)
    workers = merge_run(run_dir).workers
    assert [len(worker.gpus) for worker in workers] == [1, 1]
    for path in run_dir.glob("workers/*/*.gpu_samples"):
        assert path.stat().st_size >= 2048 + 3 * 64


def test_memory_of_torch_s_allocator_H6(child: Child, run_dir: Path, fake_gpu: FakeGpu) -> None:
    fake_gpu.with_module("torch", TORCH)
    code = (
        PROGRAM
        + """
sample("samples", 3) if profiler.phase("x").__enter__() else 0
import torch
torch.initialized = False
"""
        + CUDA
        + """
sample("samples", 6)
torch.initialized = True
start_cuda()
sample("samples", 20)
profiler.close()
"""
    )
    child.run(code, run_dir, env=fake_gpu.env)
    rows = rows_of(run_dir, "samples")
    pairs = [(row["cuda_allocated_bytes"], row["cuda_reserved_bytes"]) for row in rows]
    assert pairs[0] == (NOT_MEASURED, NOT_MEASURED)
    assert pairs[4] == (NOT_MEASURED, NOT_MEASURED)
    assert (2001, 6001) in pairs
    assert set(pairs) == {(NOT_MEASURED, NOT_MEASURED), (2001, 6001)}


def test_the_fast_way_to_torch_s_allocator_and_one_that_raises(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    fast = """
broken = False
class _C:
    @staticmethod
    def _cuda_memoryStats(device):
        if broken:
            raise RuntimeError("out of order")
        return {kind: {"all": {"current": size}} for kind, size in
                (("allocated_bytes", 10), ("reserved_bytes", 30))}
"""
    fake_gpu.with_module("torch", TORCH + fast)
    code = (
        PROGRAM
        + "import torch\n"
        + CUDA
        + """
start_cuda()
profiler.phase("x").__enter__()
sample("samples", 10)
def memory(device): raise RuntimeError("worse")
torch.broken, torch.cuda.memory_allocated = True, memory
sample("samples", 300)
assert not sys.exc_info()[0]
profiler.close()
"""
    )
    child.run(code, run_dir, env=fake_gpu.env)
    pairs = {
        (row["cuda_allocated_bytes"], row["cuda_reserved_bytes"])
        for row in rows_of(run_dir, "samples")
    }
    assert (20, 60) in pairs
    assert rows_of(run_dir, "samples")[-1]["cuda_allocated_bytes"] == NOT_MEASURED


def test_a_main_thread_that_is_not_there_holds_nothing_up(
    child: Child, run_dir: Path, fake_gpu: FakeGpu
) -> None:
    fake_gpu.with_module("torch", TORCH)
    code = (
        PROGRAM
        + "import torch\n"
        + CUDA
        + """
start_cuda()
done = threading.Event()
def work():
    with profiler.phase("x"):
        sample("samples", 20)
    done.set()
threading.Thread(target=work).start()
done.wait()  # in C, with the GIL let go
profiler.close()
"""
    )
    child.run(code, run_dir, env=fake_gpu.env)
    assert len(rows_of(run_dir, "samples")) >= 20

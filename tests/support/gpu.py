"""Stand-ins for NVIDIA's libraries, for child processes: what they say, and what they were asked.

tests/fake_gpu/script.h tells how the management library is told what to say, and cuda.c how the
driver's clock goes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

FAKE = Path(__file__).parents[1] / "fake_gpu"

# A device that is busy at 80 %, of which the process that asks has 64 %.
ONE = "device 0 name=FakeA100 uuid=GPU-1 total=85899345920 used=2147483648 busy=80\n"
OURS = "process 0 self sm=64 bytes=1073741824\n"

# What a program has that uses CUDA by a framework: the fake driver, and a module that stands for
# torch. `enqueue` puts work on the current stream; nothing of it is done before somebody waits.
CUDA = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.fake_enqueue.argtypes = [ctypes.c_size_t, ctypes.c_uint64]
cuda.cuStreamSynchronize.argtypes = [ctypes.c_size_t]
cuda.cuCtxSetCurrent.argtypes = [ctypes.c_void_p]

def start_cuda():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0

def enqueue(ms):
    assert cuda.fake_enqueue(torch.current, int(ms * 1e6)) == 0

def drain():
    assert cuda.cuStreamSynchronize(torch.current) == 0
"""

TORCH = """
current = 5
initialized = True
asked = 0

class Stream:
    @property
    def cuda_stream(self):
        return current

class cuda:
    @staticmethod
    def is_initialized():
        return initialized

    @staticmethod
    def current_stream():
        global asked
        asked += 1
        assert initialized, "torch would have initialised CUDA"
        return Stream()

    @staticmethod
    def memory_allocated(device):
        assert initialized
        return 1000 + device

    @staticmethod
    def memory_reserved(device):
        assert initialized
        return 3000 + device

    @staticmethod
    def device_count():
        assert initialized
        return 2
"""


class FakeGpu:
    """The libraries in a folder, with a script and a log of their calls."""

    def __init__(self, libraries: Path, folder: Path) -> None:
        self.script = folder / "fake_gpu_script"
        self.log = folder / "fake_gpu_log"
        self.modules = folder / "fake_modules"
        self.modules.mkdir()
        self.env = {
            "LD_LIBRARY_PATH": str(libraries),
            "FAKE_GPU_SCRIPT": str(self.script),
            "FAKE_GPU_LOG": str(self.log),
            "PYTHONPATH": str(self.modules),
        }

    def say(self, *lines: str) -> None:
        """Have the management library say this from now on."""
        new = self.script.with_suffix(".new")
        new.write_text("".join(line if line.endswith("\n") else line + "\n" for line in lines))
        new.rename(self.script)

    def with_module(self, name: str, text: str) -> None:
        """Give programs a module to import."""
        (self.modules / f"{name}.py").write_text(text)

    def calls(self) -> list[str]:
        """Return what the libraries were asked, by all processes."""
        if not self.log.exists():
            return []
        return [line.split()[1] for line in self.log.read_text().splitlines()]


def build(folder: Path, *names: str) -> Path:
    """Build stand-ins into the folder: "nvidia-ml" and "cuda"."""
    sources = {"nvidia-ml": "nvml.c", "cuda": "cuda.c"}
    for name in names or sources:
        command = ["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-fvisibility=hidden"]
        library = folder / f"lib{name}.so.1"
        command += [f"-Wl,-soname,{library.name}", "-o", str(library), str(FAKE / sources[name])]
        subprocess.run([*command, "-lpthread"], check=True)
    return folder


# The same on a real device, without a framework: kernels that watch the device's clock, on a
# stream that a stand-in for torch calls the current one.
DEVICE = r'''
import ctypes, types
cuda = ctypes.CDLL("libcuda.so.1")

def check(result):
    assert result == 0, result

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns) {
    .reg .u64 %rd<5>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [ns];
    mov.u64 %rd2, %globaltimer;
AGAIN:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
"""
device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
kernel, stream = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin"))
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))  # does not wait for the default stream

torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 0)
torch._C = types.SimpleNamespace(
    _cuda_getDevice=lambda: 0, _cuda_getCurrentRawStream=lambda device: stream.value
)
sys.modules["torch"] = torch

def enqueue(ms):
    # A chain of kernels, none longer than 10 ms.
    while ms > 0:
        ns = ctypes.c_uint64(int(min(ms, 10) * 1e6))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
        check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))
        ms -= 10

def drain():
    check(cuda.cuStreamSynchronize(stream))
'''

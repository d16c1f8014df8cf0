"""How each heavy profiler is started, stopped and made to write.

Packages are imported when a window begins, never before, and untyped: which version of them there
is, is the program's choice. A tool's methods raise whatever the package raises.
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Protocol

    class Tool(Protocol):
        """One use of one heavy profiler."""

        artifact: ClassVar[tuple[str, str]]
        """Name and suffix of what it writes; without a suffix a folder."""

        def start(self, path: str) -> None:
            """Begin to record; path is where export is going to write."""

        def stop(self) -> None:
            """Record no more."""

        def export(self, path: str) -> None:
            """Write what was recorded to path."""

        def settle(self) -> None:
            """On the thread that started it, some time after another one has stopped it."""

        def abandon(self) -> None:
            """In a forked child: record no more, and write nothing."""


def missing(backend: str) -> str | None:
    """Return why the package of that name cannot be used, as far as can be told by looking."""
    if sys.modules.get(backend) is not None:
        return None
    import importlib.util

    try:
        found = importlib.util.find_spec(backend)
    except (ImportError, ValueError):  # ValueError: None stands for it in sys.modules
        found = None
    if found is not None:
        return None
    return f"the package {backend} is not installed: pip install {backend}"


class Torch:
    """torch.profiler: CPU of all threads, and CUDA where the program uses it."""

    artifact: ClassVar[tuple[str, str]] = ("torch_trace", ".json")

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        importlib.import_module("torch.profiler")
        self._torch = torch
        kinds = torch.profiler.ProfilerActivity
        activities = [kinds.CPU]
        # Not before the program does: a context on a device takes memory of it.
        self._cuda = bool(torch.cuda.is_initialized())
        if self._cuda:
            activities.append(kinds.CUDA)
        self._profile = torch.profiler.profile(activities=activities, **self._all_threads())

    def _all_threads(self) -> dict[str, Any]:
        """Return the option by which it sees all threads, and any of them can stop it."""
        try:
            config = self._torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except Exception:  # before torch 2.5
            return {}
        return {"experimental_config": config}

    def start(self, path: str) -> None:  # noqa: ARG002
        self._profile.start()

    def stop(self) -> None:
        self._profile.stop()

    def export(self, path: str) -> None:
        self._profile.export_chrome_trace(path)

    def settle(self) -> None:
        """Nothing is left behind."""

    def abandon(self) -> None:
        if self._cuda:  # which must not be touched after a fork
            self._torch.autograd._enable_record_function(False)
        else:
            self._torch.autograd._disable_profiler()
            self._torch.autograd.profiler._set_is_profiler_enabled(False)


class VizTracer:
    """VizTracer with its defaults: a million entries at most, the last ones."""

    artifact: ClassVar[tuple[str, str]] = ("viztracer", ".json")

    def __init__(self) -> None:
        viztracer: Any = importlib.import_module("viztracer")
        self._tracer = viztracer.VizTracer(verbose=0, register_global=False)

    def start(self, path: str) -> None:  # noqa: ARG002
        self._tracer.start()

    def stop(self) -> None:
        self._tracer.stop()

    def export(self, path: str) -> None:
        self._tracer.save(path)
        self._tracer.terminate()

    def settle(self) -> None:
        if sys.getprofile() is self._tracer:  # before Python 3.12 it takes its hook from one thread
            sys.setprofile(None)

    def abandon(self) -> None:
        self._tracer.stop()
        self._tracer.clear()


class Jax:
    """jax.profiler, which writes a folder for TensorBoard with a trace for Perfetto in it."""

    artifact: ClassVar[tuple[str, str]] = ("jax_trace", "")

    def __init__(self) -> None:
        self._profiler: Any = importlib.import_module("jax.profiler")

    def start(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        self._profiler.start_trace(path)

    def stop(self) -> None:
        self._profiler.stop_trace()

    def export(self, path: str) -> None:
        """Nothing is left to do: stopping wrote it."""

    def settle(self) -> None:
        """Nothing is left behind."""

    def abandon(self) -> None:
        """Nothing can be done: a forked child must not use JAX."""


# By the names of their packages.
TOOLS: dict[str, type[Tool]] = {"torch": Torch, "viztracer": VizTracer, "jax": Jax}

"""The native core; see src/python/."""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, SupportsFloat, SupportsIndex, TypeVar, final

__version__: str
c_api: object  # a capsule with the table of the C interface, for lp_import()

_Function = TypeVar("_Function", bound=Callable[..., object])

class RunError(ValueError):
    """A run directory that holds nothing to report."""

@final
class Phase:
    """A named region: a context manager that measures its body. See src/python/phase.c."""

    @property
    def name(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

class Recorder:
    """One worker of a run; the base of accounting.Profiler. See src/python/recorder.c."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str] | None = None,
        *,
        role: str = "main",
        run_id: str | None = None,
        inherited: bool = False,
        measure_cpu: bool = True,
        thread_names: bool = False,
        deferred: bool = False,
        snapshot_interval_s: float = 0,
        sample_interval_s: float = 0,
        strict_names: bool = False,
        wait_detail: bool | None = None,
        measure_pss: bool = False,
        index: SupportsIndex | None = None,
    ) -> None: ...
    @property
    def enabled(self) -> bool:
        """Whether phases are recorded: switched on and not closed."""
    @property
    def asked_in_vain(self) -> bool:
        """Whether a phase was asked for while nothing was recorded."""
    @property
    def run_id(self) -> str | None:
        """The run id; None if never enabled."""
    @property
    def worker(self) -> str | None:
        """The worker's name; None if never enabled."""
    @property
    def path(self) -> str | None:
        """The path of the worker's file; None if never enabled."""
    def phase(
        self,
        name: str,
        io: bool = False,
        sync: bool = False,
        sample: SupportsFloat = 1.0,
        gpu: bool = False,
        async_work: bool = False,
    ) -> Phase:
        """Return a context manager that measures its body as the phase `name`."""
    def count(self, name: str, n: SupportsIndex = 1) -> None:
        """Add the integer n to the counter `name` of the phase open in this thread or task."""
    def current(self) -> str:
        """Return the names of the phases open in this thread or task, joined by "/"."""
    def snapshot(self) -> None:
        """Write the complete state to the worker's file now. OSError: it could not be written."""
    def begin_close(self) -> None:
        """Have no function that is called after flushes begin any more; close() comes next."""
    def close(self) -> None:
        """Write the last state and record nothing more."""
    def document(self) -> bytes | None:
        """Return what the worker's file would hold now; None if nothing was recorded."""
    def merged_tree(self) -> Any:
        """Return what was recorded, as pairs of a path and its figures. See src/python/tree.c."""
    def deltas(self) -> Any:
        """Return what was recorded since the last call, as merged_tree() has it."""
    def set_child_index(self, index: SupportsIndex | None, /) -> None:
        """Say which of its role a forked child is, before its first phase; else do nothing."""
    def describe_run(self, source_folder: str | None, packages: dict[str, str | None], /) -> None:
        """Before the first phase: say where the source is, and versions of packages or None."""
    def on_snapshot(self, function: _Function, /) -> _Function:
        """Have function called with the tree after each periodic flush; return function."""
    def wrap_phases(self, function: Callable[[Phase], object], name: str | None = None, /) -> None:
        """Have phase() return what function makes of the Phase: if it has that name, or of all.

        See src/python/wrap.c.
        """
    def note_in_metadata(self, key: str, text: str, /) -> None:
        """Add a text to what metadata.json says of the run, if it says none. OSError."""
    def _c_profiler(self) -> object:
        """Return a capsule for lp_profiler_of() of lineprofiler_python.h; None if never enabled."""
    @staticmethod
    def pause_callbacks() -> None:
        """Before a fork: stop the threads of all profilers, and wait shortly for callbacks."""
    @property
    def describes_run(self) -> bool:
        """Whether it is this worker that says what its run came from."""
    @property
    def callback_error(self) -> str | None:
        """What the on_snapshot function that failed last raised; None if none did."""

def phase(
    name: str,
    io: bool = False,
    sync: bool = False,
    sample: SupportsFloat = 1.0,
    gpu: bool = False,
    async_work: bool = False,
) -> Phase:
    """Profiler.phase() of the installed profiler; does nothing if there is none."""

def count(name: str, n: SupportsIndex = 1) -> None:
    """Profiler.count() of the installed profiler; does nothing if there is none."""

def current() -> str:
    """Return what current() of the installed profiler returns; "" if there is none."""

def installed_profiler() -> Recorder | None:
    """Return the profiler that phase(), count() and current() use, or None."""

def install(recorder: Recorder | None, /) -> None:
    """Make phase(), count() and current() use this recorder; None: no recorder."""

def call_inside(
    enter: Callable[[], Phase], function: Callable[..., Any], /, *args: Any, **named: Any
) -> Any:
    """Call the function inside the phase that enter returns. See src/python/inside.c."""

def find_run(
    run_dir: str | os.PathLike[str] | None, run_id: str | None, /
) -> tuple[str | None, str | None, bool]:
    """Return run directory, run id and whether an ancestor has an open profiler.

    See src/python/join.c.
    """

def ancestor_run() -> tuple[str, str] | None:
    """Return run directory and run id of the nearest ancestor with an open profiler."""

def is_open_here(worker: str, /) -> bool:
    """Whether the profiler of a worker of this name, on this machine, is not closed."""

def ancestor_run_id(run_dir: str | os.PathLike[str], /) -> str | None:
    """Return the run id of the nearest ancestor with an open profiler in that directory."""

def phase_parts(phase: Phase, /) -> tuple[Recorder | None, dict[str, Any]]:
    """Return a phase's recorder, and the options of phase() beside the name.

    See src/python/parts.c.
    """

def load_run(
    run_dir: str | os.PathLike[str],
    with_samples: bool,
    roles: tuple[bytes, ...],
    hosts: tuple[bytes, ...],
    ranks: tuple[bytes, ...],
    run_id: bytes | None,
    /,
) -> dict[str, Any]:
    """Read a run directory as plain objects. See src/python/run.c."""

def compare_runs(
    run_dir_a: str | os.PathLike[str],
    run_dir_b: str | os.PathLike[str],
    fail_over: float,
    run_id_a: bytes | None,
    run_id_b: bytes | None,
    /,
) -> str:
    """Compare two run directories and return JSON. See src/python/compare.c."""

def hist_quantile(counts: dict[int, int], q: float, /) -> float:
    """Return the q-quantile in ns of a histogram {bucket: count}."""

def hist_bounds(bucket: int, /) -> tuple[int, int]:
    """Return the first ns of a bucket and its width."""

class LineEngine:
    """Measures lines; the base of lines.LineProfiler. See src/python/line_engine.c."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        outside: list[str],
        include: list[str],
        exclude: list[str],
        functions: list[str],
    ) -> None: ...
    @property
    def running(self) -> bool:
        """Whether it measures at this moment."""
    def __enter__(self) -> Self:
        """Begin to measure. RuntimeError if a LineProfiler runs already."""
    def __exit__(self, *exception: object) -> None:
        """Cease to measure."""
    def clear(self) -> None:
        """Forget all that was measured. RuntimeError: it is running."""
    def region_enter(self, name: str, /) -> int:
        """Begin a region on this thread; return what region_exit() is to be given."""
    def region_exit(self, session: int, /) -> None:
        """End the innermost region."""
    def results(
        self,
    ) -> list[tuple[str, str, int, tuple[str, ...], int, int, int, list[tuple[int, ...]]]]:
        """Return the figures of each code object and region. Times are ns.

        Each is (file, qualified name, first line, regions, calls, wall, CPU, lines), a line
        (number, hits, own wall, own CPU, wall, CPU, awaited, awaiting at most).
        """
    def totals(self) -> dict[str, Any]:
        """Return figures of the whole."""

def lines_after_fork() -> None:
    """In a forked child: no session goes on there."""

def show_duration(ns: float, /) -> str:
    """Return a time as the report shows it: 9.4ms."""

def show_share(fraction: float, /) -> str:
    """Return a fraction as the report shows it: 82.9%."""

def show_percent(fraction: float, /) -> str:
    """Return a fraction as the report shows it in whole percent: 18%."""

def show_text(text: str, /) -> tuple[str, int]:
    """Return a text as a table can show it, and the columns that it takes there."""

def cli(argv: list[str], /) -> int:
    """Run one command line, argv[0] being the command's name; return its exit status."""

"""Accounting of named phases, over many processes and hours.

::

    from lineprofiler.accounting import Profiler

    with Profiler(run_dir="profile", role="actor") as profiler:
        with profiler.phase("iteration"), profiler.phase("self_play"):
            profiler.count("games")

Each process makes a Profiler; `lineprofiler report profile/` and ``merge_run("profile")`` read what
all of them wrote. With ``install=True`` the functions `phase`, `count` and `current` of this module
use that profiler; while none is installed they do nothing.
"""

from __future__ import annotations

import os

# Every process of a run imports this, so it loads little: what weakref and warnings have of the
# interpreter, but not those two, which load much in Python.
from _warnings import warn as _warn
from _weakref import ref as _ref

from lineprofiler import _core, _exits
from lineprofiler._core import RunError, count, current, phase
from lineprofiler._environment import Export, exporter, outlived
from lineprofiler._typing import overload as _overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable as _Callable
    from collections.abc import Iterable as _Iterable
    from typing import Any, Self
    from typing import TypeVar as _TypeVar

    from lineprofiler._backend import Backend as Backend
    from lineprofiler._wrapped import Hooks
    from lineprofiler.run import Run as Run
    from lineprofiler.run import merge_run as merge_run
    from lineprofiler.tree import Tree as Tree
    from lineprofiler.tree import decode_text as decode_text

    _Function = _TypeVar("_Function", bound=_Callable[..., Any])


__all__ = [
    "Backend",
    "Profiler",
    "Run",
    "RunError",
    "Tree",
    "count",
    "current",
    "decode_text",
    "installed_profiler",
    "join",
    "merge_run",
    "phase",
    "profile",
    "start",
    "stop",
]

_OFF = frozenset(("", "0", "false", "no", "off"))


class Profiler(_core.Recorder):
    """Records the phases and counters of this process as one worker of a run.

    run_dir:
        Where the run's files go; made absolute against the working directory of now. By default
        ``LINEPROFILER_RUN_DIR``, else that of an open profiler in an ancestor process, else
        "profile".
    role:
        What this process does in the run, any text. By default ``LINEPROFILER_ROLE``, else "main".
    enabled:
        Whether to record. By default yes if run_dir is given, else what ``LINEPROFILER_PROFILE``
        says (empty, 0, false, no and off say no, other texts yes), else yes if a profiler is open
        in an ancestor process, else no. A profiler that is not enabled reads no clock, starts no
        thread and writes no file.
    run_id:
        The attempt that this process belongs to. By default ``LINEPROFILER_RUN_ID``, else that of
        an ancestor process with an open profiler in the same directory, else a new one.
    install:
        Make the functions of this module use this profiler.
    measure_cpu:
        Measure CPU time too, and with it how long a phase waited.
    wait_detail:
        Tell why a phase waited: blocked, or pushed off its core. None, the default, is yes where
        CPU time is measured: it costs less than 1 % of a thread's time.
    thread_names:
        Nest the phases of each thread under its name when the run is read.
    strict_names:
        Make it a ValueError to ask for a second phase whose name has the shape of another's, the
        shape being the name with each run of digits as one "#". By default the 128th is a warning.
    annotate:
        Show each entry of a phase to other tools: as an NVTX range (torch's, else the package
        nvtx's), and as a `torch.profiler.record_function` if the program has imported torch. What
        is missing is left out.
    backend, backend_window, window_phase:
        A heavy profiler for a bounded time: "torch", "viztracer" or "jax" (or a `Backend`). It
        starts at entering the phase named window_phase for the start-th time in this process, and
        stops at entering it for the end-th, or at `close`; what it writes is in
        ``<run_dir>/backend/``. Without the package nothing is done, and metadata.json says so in
        ``unavailable_reason``. See docs/backends.md.
    snapshot_interval_s:
        Seconds between two writings of the worker's file by a native thread; None: never, only by
        `snapshot` and `close`.
    sample_interval_s:
        Seconds between two readings of the process's resources; None: no readings.
    measure_pss:
        At each writing of the file, measure also how much memory the process has if each shared
        page is divided among those who share it, which adds up over forked workers; in processes
        below 1.5 GiB. It stops the process's calls of mmap for up to 30 ms.
    packages:
        Names of installed packages whose versions are noted with the run, such as
        ``["torch", "numpy"]``. The first worker of the run looks them up.
    index:
        Which of those of its role this process is, for reports. By default the number in which the
        name of a process of multiprocessing ends: 3 of "ForkPoolWorker-3".

    While it is open, an enabled profiler sets ``LINEPROFILER_PROFILE``, ``LINEPROFILER_RUN_DIR``
    and ``LINEPROFILER_RUN_ID``, by which profilers in child processes join the run; those to whom
    the variables did not come find the run through their parent processes. A forked child is a
    worker of its own, from its first phase on.

    Pickled to a child process, a profiler becomes there one of the same run, with the same role and
    options, one for each process; where that run is over, one that is off. Copies are the same.

    OSError: the run directory cannot be written. TypeError, ValueError: an argument is not what it
    should be.
    """

    __slots__ = ("_closed", "_export", "_hooks", "_options", "_pid", "_role", "_run_dir", "_silent")

    def __init__(
        self,
        run_dir: str | os.PathLike[str] | None = None,
        role: str | None = None,
        *,
        enabled: bool | None = None,
        run_id: str | None = None,
        install: bool = False,
        measure_cpu: bool = True,
        wait_detail: bool | None = None,
        thread_names: bool = False,
        strict_names: bool = False,
        annotate: bool = False,
        backend: str | None = None,
        backend_window: tuple[int, int] = (3, 6),
        window_phase: str = "iteration",
        snapshot_interval_s: float | None = 30.0,
        sample_interval_s: float | None = 1.0,
        measure_pss: bool = False,
        packages: _Iterable[str] = (),
        index: int | None = None,
    ) -> None:
        if self.worker is not None or not getattr(self, "_closed", True):
            raise RuntimeError("this profiler was opened before: make another one")
        self._closed = True
        self._hooks: Hooks | None = _make_hooks(annotate, backend, backend_window, window_phase)
        self._export: Export | None = None
        self._pid = os.getpid()
        self._role = _choose_role(role)
        self._options: dict[str, Any] = {
            "role": self._role,
            "measure_cpu": measure_cpu,
            "wait_detail": wait_detail,
            "thread_names": thread_names,
            "strict_names": strict_names,
            "annotate": annotate,
            "backend": None if backend is None else str(backend),
            "backend_window": tuple(backend_window),
            "window_phase": window_phase,
            "snapshot_interval_s": snapshot_interval_s,
            "sample_interval_s": sample_interval_s,
            "measure_pss": measure_pss,
            "packages": _names(packages),
        }
        snapshot_s = _seconds("snapshot_interval_s", snapshot_interval_s)
        sample_s = _seconds("sample_interval_s", sample_interval_s)
        on, self._silent, self._run_dir, run = _find_run(run_dir, run_id, enabled)
        if on:
            self._warn_of_another()
            super().__init__(
                self._run_dir,
                role=self._role,
                run_id=run,
                inherited=run_id is None,
                measure_cpu=measure_cpu,
                wait_detail=wait_detail,
                thread_names=thread_names,
                deferred=_exits.in_fork_server(),
                strict_names=strict_names,
                snapshot_interval_s=snapshot_s,
                sample_interval_s=sample_s,
                measure_pss=measure_pss,
                index=_exits.process_number() if index is None else index,
            )
            if self.describes_run:
                self._describe_run()
            self._join_process()
            self._attach_hooks()
        else:
            super().__init__(index=index)  # what is wrong is so with the switch off, too
            self._hooks = None
        self._closed = False
        if install:
            self._install()

    @property
    def run_dir(self) -> str:
        """The run directory, absolute."""
        return self._run_dir

    @property
    def role(self) -> str:
        """What this process does in the run."""
        return self._role

    @property
    def closed(self) -> bool:
        """Whether it was closed. Closed is final."""
        return self._closed

    @_overload
    def profile(self, function: _Function, /) -> _Function: ...

    @_overload
    def profile(
        self, function: None = None, /, *, name: str | None = None, sample: float = 1.0
    ) -> _Callable[[_Function], _Function]: ...

    def profile(
        self, function: Any = None, /, *, name: str | None = None, sample: float = 1.0
    ) -> Any:
        """Make each call of a function an entry of a phase; a decorator, with or without arguments.

        ::

            @profiler.profile
            def step(batch): ...

            @profiler.profile(name="rollout")
            async def play(): ...

        The phase has the function's __name__, or `name`. That of a coroutine, a generator or an
        asynchronous generator is open from the first step of the body until the body ends.

        TypeError: it is no function. TypeError, ValueError: as phase() raises them.
        """
        return _profile(self.phase, function, name, sample)

    def close(self) -> None:
        """Write the last state and record nothing more, and give back what was changed outside.

        Further calls do nothing. A last state that cannot be written is a RuntimeWarning: the end
        of a program is no place to fail.
        """
        self._close(stacklevel=3)

    def merged_tree(self) -> Tree:
        """Return what this process has recorded so far, its threads merged, as a `Tree`.

        Entries that are open count up to now. After `close`: the last state. Empty where nothing
        was recorded. MemoryError: there is none.
        """
        from lineprofiler import tree

        return tree._make_tree(super().merged_tree())

    def deltas(self) -> Tree:
        """Return what this process has recorded since the last call of `deltas`, as a `Tree`.

        The first call goes back to the beginning. Each profiler has one cursor, which nothing else
        moves; calls at several places share the intervals out. No figure but the sum of a counter
        is ever negative, and all intervals, up to one after `close`, add up to `merged_tree`, but
        for CPU time of an open entry that another thread ended after it was handed out.

        Phases that did nothing are absent; one that was open all along did something. `calls`,
        `hist`, `ended_wall_ns` and `mean_ns` are of the entries that ended in the interval, each
        with all of its time; `wall_ns`, `cpu_ns`, `child_wall_ns` and what is derived of them are
        of the time in the interval. `open_calls` are the entries open now, and `open_wall_ns` the
        time since they were opened. `min` and `max` of counters are not known: None.
        """
        from lineprofiler import tree

        return tree._make_tree(super().deltas())

    def on_snapshot(self, function: _Function) -> _Function:
        """Have a function called with `merged_tree` after each periodic flush; a decorator.

        The thread that flushes calls it, every `snapshot_interval_s` and never from `snapshot` or
        `close`, so what came after the last flush is for the reader of the run. It may use the
        profiler. One that raises is counted (`callback_error` says what the last one raised, the
        report how many) and called again next time; one that blocks keeps the worker's file from
        being written. `close` waits for one that runs, but not longer than five seconds.

        TypeError: it cannot be called.
        """
        super().on_snapshot(function)
        _exits.call_before_forks(self.pause_callbacks)
        return function

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close(stacklevel=3)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._silent = True
            self._close(stacklevel=3)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from lineprofiler import _pickling

        return _pickling.reduce_profiler(self, self._options)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "enabled" if self.enabled else "disabled"
        return f"<{type(self).__name__} of {self._role!r} in {self._run_dir!r}, {state}>"

    def _describe_run(self) -> None:
        from lineprofiler import _provenance

        versions = _provenance.versions_of(self._options["packages"])
        self.describe_run(_provenance.source_folder(), versions)

    def _warn_of_another(self) -> None:
        here = os.path.realpath(self._run_dir)
        for other in _exits.watched():
            if not isinstance(other, Profiler) or other._is_inherited():
                continue
            if os.path.realpath(other.run_dir) == here:
                _warn(
                    f"another profiler of this process writes to {self._run_dir!r}: the time of"
                    " both is added up. Close that one first, or use it.",
                    RuntimeWarning,
                    stacklevel=3,
                )
                return

    def _is_inherited(self) -> bool:
        """Whether this is the child's side, after a fork, of a profiler of its parent."""
        return self._pid != os.getpid()

    def _join_process(self) -> None:
        self._export = Export(
            {
                "LINEPROFILER_PROFILE": "1",
                "LINEPROFILER_RUN_DIR": self._run_dir,
                "LINEPROFILER_RUN_ID": self.run_id or "",
                # Who says so: src/worker/join.h tells from it what is stale.
                "LINEPROFILER_EXPORTED": f"{self.worker}:{self.run_id}:{self._run_dir}",
            }
        )
        _exits.watch(self)

    def _attach_hooks(self) -> None:
        if self._hooks is not None:
            self._hooks.attach(self)
            if self._hooks.window is not None and not _exits.in_fork_server():
                self._hooks.window.look(self)

    def _install(self) -> None:
        installed = installed_profiler()
        if installed is None or installed._is_inherited():
            _core.install(self)
            return
        _warn(
            "a profiler is installed already and stays so: close it before installing another.",
            RuntimeWarning,
            stacklevel=3,
        )

    def _close(self, stacklevel: int) -> None:
        if self._closed:
            return
        self.begin_close()
        self._closed = True
        if self._hooks is not None:
            self._hooks.close(self)
        if _core.installed_profiler() is self:
            _core.install(None)
        _exits.forget(self)
        if self._export is not None:
            self._export.take_back()
        try:
            super().close()
        except OSError as error:
            _warn(str(error), RuntimeWarning, stacklevel=stacklevel)
        if self.asked_in_vain and not self._silent and self.worker is None:
            _warn(
                "phases were entered, but this profiler is off and wrote nothing to"
                f" {self._run_dir!r}. Set LINEPROFILER_PROFILE=1, or pass enabled=True or run_dir=;"
                " enabled=False says that this is meant.",
                RuntimeWarning,
                stacklevel=stacklevel,
            )


_HOMES = {
    "Backend": "_backend",
    "Run": "run",
    "Tree": "tree",
    "decode_text": "tree",
    "merge_run": "run",
}


def __getattr__(name: str) -> Any:
    """Import what few workers need when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = __import__(f"lineprofiler.{_HOMES[name]}", fromlist=[name])
    return globals().setdefault(name, getattr(home, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _profile(phase: Any, function: Any, name: str | None, sample: float) -> Any:
    # Raises what phase() does, here and not at the first call.
    _core.Recorder().phase("unnamed" if name is None else name, sample=sample)

    from lineprofiler import _decorate

    def decorate(function: Any) -> Any:
        chosen = _decorate.name_of(function) if name is None else name
        if sample == 1:
            return _decorate.decorate(function, lambda: phase(chosen))
        return _decorate.decorate(function, lambda: phase(chosen, sample=sample))

    return decorate if function is None else decorate(function)


@_overload
def profile(function: _Function, /) -> _Function: ...


@_overload
def profile(
    function: None = None, /, *, name: str | None = None, sample: float = 1.0
) -> _Callable[[_Function], _Function]: ...


def profile(function: Any = None, /, *, name: str | None = None, sample: float = 1.0) -> Any:
    """Profiler.profile() of whichever profiler is installed at each call."""
    return _profile(phase, function, name, sample)


def installed_profiler() -> Profiler | None:
    """Return the profiler that phase(), count() and current() use, or None."""
    installed = _core.installed_profiler()
    return installed if isinstance(installed, Profiler) else None


def start(
    run_dir: str | os.PathLike[str] | None = None,
    role: str | None = None,
    *,
    enabled: bool | None = None,
    run_id: str | None = None,
    measure_cpu: bool = True,
    wait_detail: bool | None = None,
    thread_names: bool = False,
    strict_names: bool = False,
    annotate: bool = False,
    backend: str | None = None,
    backend_window: tuple[int, int] = (3, 6),
    window_phase: str = "iteration",
    snapshot_interval_s: float | None = 30.0,
    sample_interval_s: float | None = 1.0,
    measure_pss: bool = False,
    packages: _Iterable[str] = (),
    index: int | None = None,
) -> Profiler:
    """Make a Profiler, install and return it; see there for the arguments.

    If one is installed already, that one is returned, with a RuntimeWarning; but one that a forked
    child inherited is replaced.
    """
    installed = installed_profiler()
    if installed is not None and not installed._is_inherited():
        _warn(
            "a profiler is installed already and is used: stop() it before starting another.",
            RuntimeWarning,
            stacklevel=2,
        )
        return installed
    return Profiler(
        run_dir,
        role,
        enabled=enabled,
        run_id=run_id,
        install=True,
        measure_cpu=measure_cpu,
        wait_detail=wait_detail,
        thread_names=thread_names,
        strict_names=strict_names,
        annotate=annotate,
        backend=backend,
        backend_window=backend_window,
        window_phase=window_phase,
        snapshot_interval_s=snapshot_interval_s,
        sample_interval_s=sample_interval_s,
        measure_pss=measure_pss,
        packages=packages,
        index=index,
    )


def join(role: str | None = None, index: int | None = None) -> Profiler | None:
    """Make this process a worker of the run that it was started in, once; return its profiler.

    For what a library calls in the processes that it starts: the initializer of a pool, the factory
    of an environment, a ``worker_init_fn``, a task. A profiler of this process that is open already
    is installed, if none is, and returned as it is: further calls do nothing, and neither does what
    a library calls in the program's own process. Without a run nothing is made, and None returned.

    A process that outlives the run, as those of a pool that is kept, is a worker of the program's
    next run from its first call in that one on.

    role, index: see `Profiler`.

    Where the run directory cannot be written, a RuntimeWarning says so and None is returned: an
    initializer that raises would cost the pool. TypeError, ValueError: as `Profiler` raises them,
    also where nothing is made.
    """
    _choose_role(role)
    _core.Recorder(index=index)
    with _exits.joining():
        try:
            return _join(role, index)
        except OSError as error:
            _warn(f"this process is not profiled: {error}", RuntimeWarning, 2)
            return None


def _join(role: str | None, index: int | None) -> Profiler | None:
    global _joined
    own = [one for one in _exits.watched() if isinstance(one, Profiler) and not one._is_inherited()]
    last = own[-1] if own else None
    origin = exporter()
    run_dir, run_id = _next_run(last, origin) or (None, None)
    if last is not None and run_dir is None:
        if installed_profiler() not in own:
            _core.install(last)
        return last
    if run_dir is None and not _find_run(None, None, None)[0]:
        return None
    if last is not None:
        last.close()
        role = last.role if role is None else role
        index = _joined[2] if _joined is not None and index is None else index
    profiler = Profiler(run_dir, role, run_id=run_id, index=index, install=True)
    _joined = _ref(profiler), origin if run_dir is None else None, index
    return profiler


# The profiler that join() made, the worker whose variables told of the run if any did, the index.
_joined: tuple[_ref[Profiler], str | None, int | None] | None = None


def _next_run(last: Profiler | None, origin: str | None) -> tuple[str, str] | None:
    """Return the run that the program has begun since the one that this process is in was over."""
    if last is not None:
        if _joined is None or _joined[0]() is not last or last.current():
            return None
        origin = _joined[1]
    elif origin is None:
        return None
    if origin is not None and _core.is_open_here(origin):
        return None
    found = _core.ancestor_run()
    here = (last.run_dir, last.run_id) if last is not None else None
    return None if found == here else found


def stop() -> None:
    """Close the installed profiler, if there is one."""
    installed = installed_profiler()
    if installed is not None:
        installed.close()


def _find_run(
    run_dir: str | os.PathLike[str] | None, run_id: str | None, enabled: bool | None
) -> tuple[bool, bool, str, str | None]:
    """Decide by arguments, environment and ancestors what a profiler is to do (E1).

    Returns whether to record, whether somebody said so in so many words, and in which run.
    """
    text = os.environ.get("LINEPROFILER_PROFILE")
    says_on = text is not None and text.strip().lower() not in _OFF
    given = None if run_dir is None else _absolute(run_dir)
    if enabled is None and given is not None:
        enabled = True
    if enabled is False or (enabled is None and text is not None and not says_on):
        default = os.environ.get("LINEPROFILER_RUN_DIR") or "profile"
        return False, True, given or _absolute(default), None
    found_dir, found_id, in_run = _core.find_run(given, run_id)
    on = bool(enabled) or in_run or (says_on and not outlived())
    said = enabled is not None or text is not None
    chosen = given or _absolute(found_dir or "profile")
    return on, said, chosen, found_id if run_id is None else run_id


def _absolute(run_dir: str | os.PathLike[str]) -> str:
    path = os.fsdecode(run_dir)
    if not path:
        raise ValueError("run_dir must not be empty")
    parts = path.split(os.sep)
    if os.pardir in parts:  # of a link's target: abspath() would take the link away instead
        end = len(parts) - parts[::-1].index(os.pardir)
        path = os.path.join(os.path.realpath(os.sep.join(parts[:end])), *parts[end:])
    return os.path.abspath(path)


def _choose_role(role: str | None) -> str:
    if role is not None and not isinstance(role, str):
        raise TypeError(f"role must be str, not {type(role).__name__}")
    return role or os.environ.get("LINEPROFILER_ROLE") or "main"


def _make_hooks(
    annotate: bool, backend: str | None, backend_window: tuple[int, int], window_phase: str
) -> Hooks | None:
    """Return what is to happen around entries; None, and nothing imported, for most profilers."""
    if annotate is False and backend is None:
        return None
    from lineprofiler import _wrapped

    return _wrapped.make_hooks(annotate, backend, backend_window, window_phase)


def _names(packages: _Iterable[str]) -> tuple[str, ...]:
    """Return the names of packages; that nobody asks for any is decided fast."""
    if packages == ():
        return ()
    from lineprofiler import _provenance

    return _provenance.names_of(packages)


def _seconds(name: str, value: float | None) -> float:
    """Return an interval as the core takes it: 0 for none."""
    if value is None:
        return 0.0
    if isinstance(value, str | bytes | bool):
        raise TypeError(f"{name} must be a number or None, not {type(value).__name__}")
    try:
        seconds = float(value)
    except OverflowError:  # an int that no float can hold
        seconds = -1.0
    if not 0.001 <= seconds <= 1e9:
        raise ValueError(f"{name} must be 0.001 to 1e9 seconds, or None, not {value!r}")
    return seconds

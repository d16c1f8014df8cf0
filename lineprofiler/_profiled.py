"""Runs a function in a fresh interpreter with a profiler, and reads the run back.

The function and its arguments go to the child as a pickle, the answer comes back as one. The child
leads a process group, and what is left of it when the function is done is ended with it: nothing
outlives the call but the run directory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lineprofiler import _profiled_child
from lineprofiler.accounting import RunError, _absolute, merge_run
from lineprofiler.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn, Self

    from lineprofiler._profiled_child import Definition

_GRACE_S = 2.0
_TAIL = 4000  # characters of the child's stderr in a note


class ChildTraceback(Exception):  # noqa: N818 # it is the cause of one, and shows where that was
    """Where in its process a function raised the exception of which this is the cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class ProfiledRun(Run):
    """The merged run of a function that ran in a process of its own."""

    __slots__ = ("returned", "stderr", "stdout")

    returned: Any
    """What the function returned."""
    stdout: str
    """What its process, and those that it started, wrote to standard output."""
    stderr: str
    """Likewise to standard error."""


def run_profiled(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    role: str | None = "main",
    timeout_s: float | None = 60.0,
    run_dir: str | os.PathLike[str] | None = None,
) -> ProfiledRun:
    """Run a function in a fresh interpreter with a profiler; return the merged run.

    function:
        Something that can be pickled: a function at the top level of a module, a method, a
        functools.partial. If it returns a coroutine, asyncio.run() runs that. Its module need not
        be importable by name, but is imported anew; a script must guard what it does by
        ``if __name__ == "__main__":``.
    args, kwargs:
        What it is called with; pickled too.
    role:
        The role of the profiler that is installed around the call, without threads of its own.
        None: no profiler is made, the function makes its own; one that names no run_dir is switched
        on and joins the run.
    timeout_s:
        Seconds until the function and all that it started are killed; None: never.
    run_dir:
        Where the run's files go, and stay. By default they are deleted when they have been read.

    The child has the working directory, the environment, ``sys.path`` and the interpreter's options
    of the caller. When it is done, what it has left running is ended.

    TypeError: function or arguments cannot be handed to another process. TimeoutError: it was not
    done in time; the text says in which phases it was. RuntimeError: the process ended without an
    answer, or what it returned cannot be pickled. RunError: nothing was recorded. What the function
    raises is raised here, from a cause that shows its traceback and what was written to stderr.
    """
    __tracebackhide__ = True
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_temporary_folder())
        path = os.path.join(folder, "run") if run_dir is None else _absolute(run_dir)
        call = _Call(function, args, kwargs or {}, role, folder, path)
        if run_dir is None:
            stack.callback(remove_images, call.run_id)
        return call.make(timeout_s)


class ProfiledRunner:
    """Calls run_profiled() with run directories in one folder: "run", "run-2" and so on.

    As a context manager, frees in the end the shared memory that killed processes have left. echo:
    what the processes wrote is written again by this one, where a test runner sees it.
    """

    def __init__(self, folder: str | os.PathLike[str], *, echo: bool = False) -> None:
        self._folder = Path(folder)
        self._echo = echo
        self._run_ids: list[str] = []

    def __call__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        role: str | None = "main",
        timeout_s: float | None = 60.0,
    ) -> ProfiledRun:
        """Run a function in a fresh interpreter with a profiler; see run_profiled()."""
        __tracebackhide__ = True
        number = len(self._run_ids) + 1
        run_dir = self._folder / ("run" if number == 1 else f"run-{number}")
        with _temporary_folder() as folder:
            call = _Call(function, args, kwargs or {}, role, folder, _absolute(run_dir))
            self._run_ids.append(call.run_id)
            try:
                run = call.make(timeout_s)
            except BaseException:
                self._show(call.said("out"), "")  # the other is with the exception
                raise
        self._show(run.stdout, run.stderr)
        return run

    def _show(self, out: str, err: str) -> None:
        if self._echo:
            sys.stdout.write(out)
            sys.stderr.write(err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for run_id in self._run_ids:
            remove_images(run_id)


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="lineprofiler-", ignore_cleanup_errors=True)


def remove_images(run_id: str) -> None:
    """Remove what the dead workers of a run have left in shared memory."""
    for image in Path(f"/dev/shm/lineprofiler-{os.geteuid()}").glob(f"w_{run_id}_*.img"):
        pid = image.name.removeprefix(f"w_{run_id}_").partition("_")[0]
        if not os.path.exists(f"/proc/{pid}"):
            image.unlink(missing_ok=True)


# ---- one call --------------------------------------------------------------


class _Call:
    """One call in a process of its own, with what it needs in a folder."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        role: str | None,
        folder: str,
        run_dir: str,
    ) -> None:
        __tracebackhide__ = True
        if _profiled_child.preparing:
            raise RuntimeError(
                "a function is to be profiled while the module that asks for it is being imported:"
                ' put the call into a function, or below if __name__ == "__main__":'
            )
        self.name = _name_of(function)
        self.run_dir = run_dir
        self.run_id = f"test-{secrets.token_hex(4)}"
        self._folder = folder
        self._main_name = _main_name()
        definitions = _definitions(function, self.name, self._main_name)
        self._write("call.pickle", _pickle(self.name, (function, tuple(args), dict(kwargs), role)))
        self._write("main.py", _script(folder, definitions, self._main_name).encode())

    def make(self, timeout_s: float | None) -> ProfiledRun:
        """Make the call and read its run."""
        __tracebackhide__ = True
        _check_timeout(timeout_s)
        status = self._run(timeout_s)
        returned = self._take_answer(status)
        try:
            run = merge_run(self.run_dir)
        except (RunError, FileNotFoundError) as error:
            raise self._noted(
                RunError(
                    f"{self.name} recorded nothing: {error}. With role=None it must make a profiler"
                )
            ) from None
        return ProfiledRun(
            **run._fields(), returned=returned, stdout=self.said("out"), stderr=self.said("err")
        )

    # -- the process

    def _run(self, timeout_s: float | None) -> int:
        """Return the exit status of the process, with nothing left of its group."""
        __tracebackhide__ = True
        with self._open("out") as out, self._open("err") as err:
            process = subprocess.Popen(
                [sys.executable, *_interpreter_options(), os.path.join(self._folder, "main.py")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment(),
                start_new_session=True,
            )
        where = None
        try:
            if _has_ended(process.pid, timeout_s):
                # multiprocessing's own helpers ignore it, and end when they have cleaned up.
                _end_group(process.pid, signal.SIGTERM)
            else:
                where = _open_phases(self.run_dir)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGABRT)
                _has_ended(process.pid, _GRACE_S)
        finally:
            _end_group(process.pid, signal.SIGKILL)
            status = process.wait()  # before it, the number of the group is nobody else's
        if where is not None:
            raise self._noted(
                TimeoutError(f"{self.name} was not done in {timeout_s:g} s and was killed; {where}")
            )
        return status

    def _environment(self) -> dict[str, str]:
        env = dict(os.environ)
        env.pop("LINEPROFILER_ROLE", None)
        env["LINEPROFILER_PROFILE"] = "1"
        env["LINEPROFILER_RUN_DIR"] = self.run_dir
        env["LINEPROFILER_RUN_ID"] = self.run_id
        return env

    # -- its answer

    def _take_answer(self, status: int) -> Any:
        """Return what the function returned, or raise what must be said of it."""
        __tracebackhide__ = True
        try:
            with open(os.path.join(self._folder, "answer.pickle"), "rb") as file:
                kind, value = pickle.load(file)
        except FileNotFoundError:
            message = f"{self.name} ended its process {_ended(status)} without an answer"
            raise self._noted(RuntimeError(message)) from None
        if kind == "raised":
            self._raise(*value)
        if kind == "not found":
            message = f"the new process could not load {self.name} and its arguments: "
            last = value.strip().splitlines()[-1]
            raise self._noted(RuntimeError(message + last), value)
        if kind == "not pickled":
            raise self._noted(RuntimeError(f"{self.name} returned a {value}; return plain data"))
        if status != 0:
            message = f"{self.name} returned, and then its process ended {_ended(status)}"
            raise self._noted(RuntimeError(message))
        try:
            return self._unpickle(value)
        except Exception as error:
            message = f"what {self.name} returned cannot be read here: {error}; return plain data"
            raise self._noted(RuntimeError(message)) from None

    def _raise(self, pickled: bytes | None, last: str, text: str) -> NoReturn:
        """Raise again what the function raised."""
        __tracebackhide__ = True
        error = None
        if pickled is not None:
            with contextlib.suppress(Exception):  # it can be read there, but not here
                error = self._unpickle(pickled)
        # Others would end the caller's process rather than tell it something.
        if not isinstance(error, Exception):
            error = RuntimeError(f"{self.name} raised {last}")
        # No note: that would be part of what pytest.raises(match=) looks at.
        raise error from ChildTraceback("\n".join([text, *self._stderr()]))

    def _unpickle(self, pickled: bytes) -> Any:
        return _profiled_child.Unpickler(pickled, self._main_name, "__main__").load()

    def _noted(self, error: Exception, text: str = "") -> Exception:
        """Return the exception with what the other process had to say."""
        for note in (text.rstrip(), *self._stderr()):
            if note:
                error.add_note(note)
        return error

    def _stderr(self) -> list[str]:
        """Return what was written to standard error, with a title; nothing if nothing was."""
        said = self.said("err").rstrip()
        if not said:
            return []
        cut = said if len(said) <= _TAIL else "..." + said[-_TAIL:]
        return [f"---- stderr of {self.name} ----\n{cut}"]

    # -- files

    def _write(self, name: str, data: bytes) -> None:
        Path(self._folder, name).write_bytes(data)

    def _open(self, name: str) -> Any:
        return open(os.path.join(self._folder, name), "wb")

    def said(self, name: str) -> str:
        """Return what was written to "out" or "err"."""
        try:
            return Path(self._folder, name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:  # it was never started
            return ""


# ---- what a call is made of ------------------------------------------------


def _check_timeout(timeout_s: float | None) -> None:
    __tracebackhide__ = True
    if timeout_s is None:
        return
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        raise TypeError(f"timeout_s must be a number or None, not {type(timeout_s).__name__}")
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be over 0, or None for no limit, not {timeout_s!r}")


def _name_of(function: Any) -> str:
    __tracebackhide__ = True
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function):
        raise TypeError(f"what is to be called must be callable, not {type(function).__name__}")
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name}()"


def _main_name() -> str:
    """Return what the main module of this process is called in the other one."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec.name if spec is not None else _profiled_child.MAIN


def _definitions(function: Any, shown: str, main_name: str) -> list[Definition]:
    """Return the module of the function, and the packages around it, from the outermost."""
    __tracebackhide__ = True
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__module__", None) or type(function).__module__
    module = sys.modules.get(name)
    if module is None:
        raise TypeError(
            f"{shown} says that it is of the module {name!r}, which is not among sys.modules:"
            " define it in a module that was imported"
        )
    file = getattr(module, "__file__", None)
    if name == "__main__":
        if file is None or not os.path.isfile(file):
            raise TypeError(
                f"{shown} was typed in, so a new process cannot find it: define it in a file"
            )
        name = main_name
    found = [_definition(name, module)]
    while "." in name:
        name = name.rpartition(".")[0]
        if name in sys.modules:
            found.insert(0, _definition(name, sys.modules[name]))
    return found


def _definition(name: str, module: Any) -> Definition:
    file = getattr(module, "__file__", None)
    folders = getattr(module, "__path__", None)
    return (
        name,
        None if file is None else os.path.abspath(file),
        None if folders is None else [os.path.abspath(folder) for folder in folders],
    )


def _pickle(name: str, call: tuple[Any, ...]) -> bytes:
    __tracebackhide__ = True
    try:
        pickle.dumps(call[0])
    except Exception as error:
        raise TypeError(f"{name} cannot be handed to a new process: {_why(name, error)}") from None
    try:
        return pickle.dumps(call)
    except Exception as error:
        raise TypeError(
            f"the arguments of {name} cannot be handed to a new process: {error}. Give it plain"
            " data, and let it make the rest there"
        ) from None


def _why(name: str, error: Exception) -> str:
    if "<lambda>" in name:
        return "it is a lambda. Make it a def at the top level of its module"
    if "<locals>" in name:
        return (
            "it is defined inside another function. Move it to the top level of its module, and"
            " hand it by args= what it took from around it"
        )
    return f"{error}"


def _script(folder: str, definitions: list[Definition], main_name: str) -> str:
    # "" means the working directory, which the function may change.
    path = [os.path.abspath(entry) if entry == "" else entry for entry in sys.path]
    return f"""import sys

if __name__ == "__main__":
    sys.path[:] = {path!a}

from lineprofiler import _profiled_child

definitions = {definitions!a}
if __name__ == "__main__":
    _profiled_child.main({folder!a}, definitions, {main_name!a})
else:
    _profiled_child.prepare(definitions)
"""


def _interpreter_options() -> list[str]:
    """Return the options of this interpreter, as multiprocessing hands them on."""
    find: Callable[[], list[str]] = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]
    return find()


# ---- processes -------------------------------------------------------------


def _has_ended(pid: int, timeout_s: float | None) -> bool:
    """Wait until a child has ended, or not in time; it is not reaped, so its number stays its."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    delay_s = 0.001
    with contextlib.suppress(ChildProcessError):  # somebody reaps all children
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(delay_s)
            delay_s = min(2 * delay_s, 0.02)
    return True


def _end_group(leader: int, signal_number: int) -> None:
    """Send a signal to all that is left of a child's group, and wait a little for its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal_number)
    deadline = time.monotonic() + _GRACE_S
    while any(_members(leader)) and time.monotonic() < deadline:
        time.sleep(0.005)


def _members(leader: int) -> Iterator[int]:
    """Yield the running processes of a group but its leader."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == leader:
            continue
        with contextlib.suppress(OSError):
            stat = Path("/proc", entry, "stat").read_bytes()
            state, _, group = stat.rpartition(b")")[2].split()[:3]
            if int(group) == leader and state not in (b"Z", b"X"):
                yield int(entry)


def _ended(status: int) -> str:
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


def _open_phases(run_dir: str) -> str:
    """Say in which phases the workers of a run are."""
    try:
        workers = merge_run(run_dir, with_samples=False).workers
    except (OSError, RunError):
        return "nothing had been recorded"
    inside = [
        f"{worker.role} (pid {worker.pid}) in {entry.path} for {entry.open_ns / 1e9:.1f} s"
        for worker in workers
        for entry in worker.open
    ]
    return "; ".join(inside) if inside else "no phase was open"

"""Profilers in the processes of Ray: each actor and each process of tasks joins the driver's run.

::

    import ray
    from lineprofiler.accounting import Profiler
    from lineprofiler.integrations.ray import runtime_env

    with Profiler(run_dir="profile", role="driver", install=True) as profiler:
        ray.init(runtime_env=runtime_env(profiler))

The role of an actor is the name of its class. A process of tasks runs many, of any function, one
after the other; its role is "ray task", and the phases of a task are in one with the name of its
function. In both, the functions of `lineprofiler.accounting` use the profiler. See
docs/launchers/ray.md.
"""

from __future__ import annotations

import importlib
import warnings

from lineprofiler import _decorate, accounting
from lineprofiler.accounting import Profiler

# By name: nobody who checks the package's types needs Ray.
try:
    importlib.import_module("ray")
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ImportError(
        "lineprofiler.integrations.ray needs Ray, which is not installed here: pip install ray"
    ) from None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["ANY_ROLE", "TASK_ROLE", "runtime_env"]

TASK_ROLE = "ray task"
ANY_ROLE = "ray"  # where Ray's processes do not tell what they are for

# What a profiler there does as that of the driver. The window of a backend is the driver's alone.
_HANDED_ON = (
    "measure_cpu",
    "wait_detail",
    "thread_names",
    "strict_names",
    "annotate",
    "snapshot_interval_s",
    "sample_interval_s",
    "measure_pss",
)

# The profiler that this module opened in this process.
_opened: Profiler | None = None


def runtime_env(profiler: Profiler, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a runtime environment for ``ray.init``, in which all processes join the run.

    profiler:
        That of the driver. Processes record as it does, but for a backend. If it is off, what is
        given is returned as it is.
    given:
        A runtime environment of the program's own: a dict, or a `ray.runtime_env.RuntimeEnv`. It is
        not changed. Its variables stand where both set one, and its
        ``worker_process_setup_hook``, a function or the name of one, is called first.

    The result is a dict with ``env_vars`` (text by name) and ``worker_process_setup_hook`` (a
    function) besides what was given.

    TypeError: it is no Profiler, or given is no mapping. ValueError: the profiler is closed.
    """
    if not isinstance(profiler, Profiler):
        raise TypeError(f"profiler must be a Profiler, not {type(profiler).__name__}")
    made = {} if given is None else dict(given)
    if profiler.closed:
        raise ValueError("the profiler is closed: call runtime_env() while it is open")
    if not profiler.enabled:
        return made
    made["env_vars"] = {
        "LINEPROFILER_PROFILE": "1",
        "LINEPROFILER_RUN_DIR": profiler.run_dir,
        "LINEPROFILER_RUN_ID": profiler.run_id,
        **(made.get("env_vars") or {}),
    }
    options = {name: profiler._options[name] for name in _HANDED_ON}
    made["worker_process_setup_hook"] = _hook(options, made.get("worker_process_setup_hook"))
    return made


def _hook(options: dict[str, Any], given: Callable[[], object] | str | None) -> Callable[[], None]:
    # Inside of a function, so that it is pickled by value: where this package is not installed, in
    # an environment that Ray made for the job, a process must go on, only without a profiler.
    def profile_this_process() -> None:
        if isinstance(given, str):
            import importlib

            module, _, name = given.rpartition(".")
            getattr(importlib.import_module(module), name)()
        elif given is not None:
            given()
        try:
            from lineprofiler.integrations.ray import _follow
        except ImportError:
            return
        _follow(options)

    return profile_this_process


def _follow(options: dict[str, Any]) -> None:
    """Open a profiler in this process of Ray once it is known what it is for.

    Ray starts processes ahead, and a hook cannot tell which of them will be an actor, of what
    class. The functions by which a process finds the code that it is to run can.
    """
    try:
        global_worker: Any = importlib.import_module("ray._private.worker").global_worker
        manager = global_worker.function_actor_manager
        load_actor_class = manager.load_actor_class
        get_execution_info = manager.get_execution_info
        global_worker.actor_id.is_nil()
    except (ImportError, AttributeError):
        _open_any(options)  # a Ray that is made otherwise: all have one role
        return
    wrapped: dict[Any, Any] = {}
    become: list[str] = []  # the class of the actor that this process is, once it is one

    def is_actor() -> bool:
        return not global_worker.actor_id.is_nil()

    # A process loads the classes of other actors too, whose handles it is given: only the first
    # one that is asked for when it is an actor is its own.
    def open_actor(args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not become:
            become.append(_last_part(_described(args, named).class_name))
            _open(become[0], options)

    def open_task(found: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        descriptor = _described(args, named)
        name, key = _last_part(descriptor.function_name), descriptor.function_id
        _open(TASK_ROLE, options)
        known, ours = wrapped.get(key, (None, None))
        if known is not found:
            ours = _in_phase(found, name)
            wrapped[key] = found, ours
        return ours

    # The two are Ray's own and may change: whatever they are called with goes on to them, and what
    # is made of it here must never cost the task.
    def load_and_open(*args: Any, **named: Any) -> Any:
        try:
            if is_actor():
                open_actor(args, named)
        except Exception:
            _open_any(options)
        return load_actor_class(*args, **named)

    def find_and_open(*args: Any, **named: Any) -> Any:
        found = get_execution_info(*args, **named)
        try:
            if not is_actor():
                return open_task(found, args, named)
            open_actor(args, named)
        except Exception:
            _open_any(options)
        return found

    manager.load_actor_class = load_and_open
    manager.get_execution_info = find_and_open


def _described(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return what Ray says of the code that is to run, among the arguments of a function of its."""
    return next(value for value in (*args, *named.values()) if hasattr(value, "function_name"))


def _last_part(name: str) -> str:
    return name.rpartition(".")[2] or name


def _phase(name: str) -> Any:
    try:
        return accounting.phase(name)
    except ValueError:  # refused as it is like another one (strict_names), or too long
        return accounting.phase(TASK_ROLE)


def _in_phase(info: Any, name: str) -> Any:
    try:
        ours = _decorate.inside(info.function, lambda: _phase(name))
        return info._replace(function=ours)
    except (AttributeError, TypeError, ValueError):
        return info  # what is no function


def _open_any(options: dict[str, Any]) -> None:
    if _opened is None:
        _open(ANY_ROLE, options)


def _open(role: str, options: dict[str, Any]) -> None:
    """Open and install a profiler, unless the program did; never fail the task for it."""
    global _opened
    installed = accounting.installed_profiler()
    if installed is not None and (installed is not _opened or installed.role == role):
        return
    if installed is None and _opened is not None and _opened.role == role:
        return  # the program has closed it, or it is off
    try:
        if _opened is not None:
            _opened.close()
        _opened = accounting.start(None, role, **options)
    except Exception as error:
        warnings.warn(f"this process of Ray is not profiled: {error}", RuntimeWarning, stacklevel=2)

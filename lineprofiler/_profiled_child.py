"""The child's side of testing.run_profiled(): find the function, run it, leave an answer.

The child's main module is a script that its parent wrote (_profiled.py) and that calls prepare()
and main(). Children that multiprocessing starts below it import that script too, as
``__mp_main__``, and so find the modules that prepare() loads, whether they can be imported by name
or not.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import io
import os
import pickle
import sys
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # Name, file, and if it is a package where its modules are.
    Definition = tuple[str, str | None, list[str] | None]

MAIN = "__profiled_main__"
"""What the parent's main script is called in the child, which has a main module of its own."""

preparing = False
"""A module is being loaded here: if it wants to run a function so again, it would never end."""


class Unpickler(pickle.Unpickler):
    """Reads what the other side pickled, whose main module has another name here."""

    def __init__(self, data: bytes, other: str, here: str) -> None:
        super().__init__(io.BytesIO(data))
        self._other = other
        self._here = here

    def find_class(self, module: str, name: str) -> Any:
        """Return what is called so."""
        return super().find_class(self._here if module == self._other else module, name)


# ---- the modules of the function -------------------------------------------


def prepare(definitions: list[Definition]) -> None:
    """Load modules, the packages around each before it, from the very files named."""
    global preparing
    preparing = True
    for name, file, folders in definitions:
        if name not in sys.modules and not _import(name, file, folders):
            _load(name, file, folders)
    preparing = False


def _import(name: str, file: str | None, folders: list[str] | None) -> bool:
    """Import a module by its name, if that leads to the file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None or not _is_same(spec, file, folders):
        return False
    importlib.import_module(name)
    return True


def _is_same(spec: Any, file: str | None, folders: list[str] | None) -> bool:
    if file is not None:
        return os.path.realpath(spec.origin or "") == os.path.realpath(file)
    if folders is not None:  # a package without a file of its own, as large as it was there
        return set(folders) <= set(spec.submodule_search_locations or ())
    return True


def _load(name: str, file: str | None, folders: list[str] | None) -> None:
    if file is None:
        module = types.ModuleType(name)
        module.__path__ = folders or []
        sys.modules[name] = module
        return
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file!r} is no module of Python", name=name, path=file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


# ---- the call --------------------------------------------------------------


def main(folder: str, definitions: list[Definition], main_name: str) -> None:
    """Make the call that the folder has, and leave its answer there, whole or not at all.

    A child that the function forks comes back here too, and has no say.
    """
    faulthandler.enable()  # SIGABRT says where it hangs
    pid = os.getpid()
    with open(os.path.join(folder, "call.pickle"), "rb") as file:
        call = file.read()
    kind, value = _answer(call, definitions, main_name)
    if os.getpid() != pid:
        if kind == "raised":
            sys.exit(value[2])
        return
    answer = pickle.dumps((kind, value))
    path = os.path.join(folder, "answer.pickle")
    with open(path + ".part", "wb") as file:
        file.write(answer)
    os.replace(path + ".part", path)


def _answer(call: bytes, definitions: list[Definition], main_name: str) -> tuple[str, Any]:
    try:
        prepare(definitions)
        function, args, kwargs, role = Unpickler(call, "__main__", main_name).load()
    except (Exception, SystemExit):
        return "not found", traceback.format_exc()
    profiler = _start(role)
    try:
        value = _call(function, args, kwargs)
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return "returned", pickle.dumps(None)
        return "raised", _describe(error)
    finally:
        if profiler is not None:
            profiler.close()
    try:
        return "returned", pickle.dumps(value)
    except Exception as error:
        return "not pickled", f"{type(value).__qualname__}, which cannot be pickled: {error}"


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value = function(*args, **kwargs)
    if isinstance(value, types.CoroutineType):
        import asyncio

        return asyncio.run(value)
    return value


def _start(role: str | None) -> Any:
    if role is None:
        return None
    from lineprofiler import accounting

    return accounting.start(
        None, role, enabled=True, snapshot_interval_s=None, sample_interval_s=None
    )


def _describe(error: BaseException) -> tuple[bytes | None, str, str]:
    """Return an exception pickled (None: it cannot be), its last line, and its whole text."""
    # Without the lines of this file that called the function.
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    error = error.with_traceback(step)
    text = "".join(traceback.format_exception(error))
    last = traceback.format_exception_only(error)[-1].strip()
    return _pickle_exception(error), last, text


def _pickle_exception(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
        survives = type(pickle.loads(data)) is type(error)
    except Exception:
        return None
    return data if survives else None

"""`lineprofiler run`: a program, run as ``python program.py`` would run it, line by line measured.

The program finds its own ``__main__``, ``sys.argv`` and ``sys.path``. Measuring begins with its
first line and ends when the interpreter does: after its threads have been waited for, and after
the functions that it registered with atexit. So the summary comes last, however it ended.
"""

from __future__ import annotations

import os
import sys

from lineprofiler import _core, _nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType, TracebackType
    from typing import Any, NoReturn

    from lineprofiler.lines import LineProfiler

__all__ = ["main"]

WRONG = 2


class _UsageError(Exception):
    """A wrong usage; the text is for the user."""


# ---- the command line ------------------------------------------------------

_VALUES = ("--top", "--functions", "--project", "--html", "--lprof", "--json")


class _Asked:
    """What the command line says."""

    def __init__(self) -> None:
        self.top = 20
        self.functions: list[str] = []
        self.project: str | None = None
        self.html: str | None = None
        self.lprof: str | None = None
        self.json: str | None = None
        self.is_module = False
        self.program: list[str] = []
        """The script's path or the module's name, and its arguments."""

    def take(self, option: str, value: str) -> None:
        """Take an option of _VALUES."""
        if option == "--top":
            if not value.isascii() or not value.isdigit():
                raise _UsageError(f"--top needs a number, 0 for no summary, not '{value}'")
            self.top = int(value[:9])
        elif option == "--functions":
            self.functions.append(value)
        else:
            setattr(self, option.removeprefix("--"), value)


def _read_arguments(words: list[str]) -> _Asked:
    """Read options up to the program: what follows is the program's."""
    asked = _Asked()
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--", "-m"):
        option, is_joined, value = words[at].partition("=")
        if option in ("-h", "--help"):
            raise SystemExit(_core.cli(["lineprofiler", "run", "--help"]))
        if option not in _VALUES:
            near = _nearest.nearest_names(option, [*_VALUES, "--help"])
            remedy = f"did you mean '{near[0]}'?" if near else "see lineprofiler run --help"
            raise _UsageError(f"unknown option '{option}'; {remedy}")
        if not is_joined:
            at += 1
            if at == len(words):
                raise _UsageError(f"option '{option}' needs a value; see lineprofiler run --help")
            value = words[at]
        asked.take(option, value)
        at += 1
    if words[at : at + 1] == ["-m"]:
        asked.is_module = True
        at += 1
    elif words[at : at + 1] == ["--"]:
        at += 1
    asked.program = words[at:]
    if not asked.program:
        what = "a module, as in: lineprofiler run -m package.module"
        raise _UsageError(
            f"name {what if asked.is_module else 'a script, as in: lineprofiler run x.py'}"
        )
    return asked


# ---- the program -----------------------------------------------------------


def _make_main(name_space: dict[str, Any]) -> ModuleType:
    """Put a new module in the place of __main__."""
    import builtins
    from types import ModuleType

    made = ModuleType("__main__")
    made.__dict__.update({"__builtins__": builtins, **name_space})
    if sys.version_info < (3, 14):
        made.__dict__["__annotations__"] = {}
    if "__main__" in sys.modules:
        _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = made
    return made


# The module that this began in: functions of it are still running.
_kept: list[ModuleType] = []


def _read_script(path: str) -> CodeType:
    """Compile a script; a SyntaxError is the program's."""
    import io

    whole = os.path.join(os.getcwd(), path)
    try:
        with io.open_code(whole) as file:
            text = file.read()
    except OSError as error:
        raise _UsageError(f"can't open file '{path}': {error.strerror}") from None
    return compile(text, whole, "exec", dont_inherit=True)


def _prepare_script(path: str) -> tuple[CodeType, ModuleType]:
    import importlib.machinery

    code = _read_script(path)
    whole = code.co_filename
    loader = importlib.machinery.SourceFileLoader("__main__", whole)
    name_space = {"__file__": whole, "__cached__": None, "__package__": None, "__spec__": None}
    return code, _make_main({"__loader__": loader, **name_space})


def _prepare_module(name: str) -> tuple[CodeType, ModuleType]:
    """Find a module as ``python -m`` does. ImportError: it cannot be run."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, name):
            raise _UsageError(f"No module named {error.name}") from None
        raise
    if spec is not None and spec.submodule_search_locations is not None:
        if name == "__main__" or name.endswith(".__main__"):
            raise _UsageError("Cannot use package as __main__ module")
        if importlib.util.find_spec(f"{name}.__main__") is None:
            raise _UsageError(
                f"No module named {name}.__main__; '{name}' is a package and cannot be directly "
                "executed"
            )
        return _prepare_module(f"{name}.__main__")
    if spec is None:
        raise _UsageError(f"No module named {name}")
    loader: Any = spec.loader
    code = loader.get_code(name) if hasattr(loader, "get_code") else None
    if code is None:
        raise _UsageError(f"No code object available for {name}")
    name_space = {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": loader,
        "__package__": spec.parent,
        "__spec__": spec,
    }
    return code, _make_main(name_space)


def _prepare_bundle() -> tuple[CodeType, ModuleType]:
    """Find the __main__ in front of sys.path, not the one that runs."""
    ours = sys.modules.pop("__main__")
    _kept.append(ours)
    try:
        return _prepare_module("__main__")
    finally:
        if "__main__" not in sys.modules:
            sys.modules["__main__"] = ours


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def _is_bundle(path: str) -> bool:
    """Whether it is a folder or a zip file, whose __main__ is to be run."""
    import zipfile

    return os.path.isdir(path) or (os.path.isfile(path) and zipfile.is_zipfile(path))


def _set_path(first: str, replaces: bool) -> None:
    """Put the folder in front that ``python`` would; replaces: ours stands there."""
    if replaces:
        sys.path[:1] = [first]
    else:
        sys.path.insert(0, first)


# ---- what is written in the end --------------------------------------------


class _Finish:
    """Ends measuring when the interpreter ends, and writes what was asked for."""

    def __init__(self, profiler: LineProfiler, asked: _Asked) -> None:
        self._profiler = profiler
        self._asked = asked
        self._pid = os.getpid()
        self.began = False

    def __call__(self) -> None:
        if os.getpid() != self._pid or not self.began:
            return
        self._profiler.__exit__(None, None, None)
        asked, profiler = self._asked, self._profiler
        if asked.top:
            self._summarise()
        for path, write in (
            (asked.html, profiler.to_html),
            (asked.lprof, profiler.dump_stats),
            (asked.json, profiler.to_json),
        ):
            if path is not None:
                try:
                    write(path)
                except OSError as error:
                    _say(f"cannot write '{path}': {error.strerror}")

    def _summarise(self) -> None:
        stream = sys.stderr if sys.stderr is not None else sys.__stderr__
        if stream is None:
            return
        try:
            print(file=stream)
            self._profiler.print_global_top_stats(self._asked.top, stream=stream)
            stream.flush()
        except (OSError, ValueError):  # nobody reads it, or it was closed
            return


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(f"lineprofiler run: {_core.show_text(text)[0]}", file=sys.stderr)


# ---- all of it -------------------------------------------------------------


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Return what is left of a traceback behind the frames that led to the program."""
    while traceback is not None and not _is_ours(traceback):
        traceback = traceback.tb_next
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    return traceback


def _is_ours(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_globals is globals()


def _raise_as_the_programs(error: BaseException) -> NoReturn:
    """Let the interpreter end by it, and tell of it, as if we were not here."""
    hook = sys.excepthook

    def tell(kind: Any, value: BaseException, traceback: TracebackType | None) -> None:
        sys.excepthook = hook
        traceback = _without_ours(traceback)
        hook(kind, value.with_traceback(traceback), traceback)

    sys.excepthook = tell
    raise error


def _make_profiler(asked: _Asked) -> LineProfiler:
    from lineprofiler import _lines_config
    from lineprofiler.lines import LineProfiler

    folder = asked.project
    if folder is None:
        folder = _lines_config.find_project(None if asked.is_module else asked.program[0])
    try:
        return LineProfiler(folder, functions=asked.functions or None)
    except OSError as error:
        if error.filename != os.path.abspath(folder):
            raise _UsageError(f"cannot read '{error.filename}': {error.strerror}") from None
        raise _UsageError(f"no project folder '{folder}': {error.strerror}") from None
    except (TypeError, ValueError) as error:
        raise _UsageError(str(error)) from None


def _check_outputs(asked: _Asked) -> None:
    from lineprofiler import _lines_files

    others: dict[str, str] = {}
    for name in ("html", "lprof", "json"):
        path = getattr(asked, name)
        if path is not None:
            try:
                _lines_files.check_writable(path)
            except OSError as error:
                raise _UsageError(f"cannot write '{path}': {error.strerror}") from None
            # The program may go to another folder.
            whole = os.path.abspath(path)
            setattr(asked, name, whole)
            other = others.setdefault(os.path.realpath(whole), name)
            if other != name and not _lines_files.is_special(whole):
                raise _UsageError(f"--{other} and --{name} would both write '{path}'")


def _import_for_the_end(asked: _Asked) -> None:
    """Import what the end needs while that works.

    Besides, modules that call eval() would make the interpreter forget that it ends by ^C.
    """
    import dis  # noqa: F401
    import io  # noqa: F401
    import linecache  # noqa: F401
    import textwrap  # noqa: F401
    import tokenize  # noqa: F401
    import warnings  # noqa: F401

    from lineprofiler import _lines_files, _lines_text  # noqa: F401

    if asked.html is not None:
        from lineprofiler import _lines_html  # noqa: F401
    if asked.json is not None:
        import json
        import platform

        json.dumps(platform.python_version())
    if asked.lprof is not None:
        import pickle  # noqa: F401


def _run(asked: _Asked, replaces: bool) -> None:
    import atexit

    program = asked.program[0]
    is_bundle = not asked.is_module and _is_bundle(program)
    _check_outputs(asked)
    profiler = _make_profiler(asked)
    _import_for_the_end(asked)
    finish = _Finish(profiler, asked)
    atexit.register(finish)  # before those of the program, so called after them
    sys.argv[:] = asked.program
    if asked.is_module or is_bundle:
        if is_bundle or not sys.flags.safe_path:
            _set_path(os.path.abspath(program) if is_bundle else os.getcwd(), replaces)
        sys.argv[0] = "-m" if asked.is_module else program
        profiler.__enter__()
        finish.began = True
        try:
            code, module = _prepare_module(program) if asked.is_module else _prepare_bundle()
        except _UsageError:
            finish.began = False
            profiler.__exit__(None, None, None)
            raise
        if asked.is_module:
            sys.argv[0] = module.__file__ or ""
    else:
        code, module = _prepare_script(program)
        if not sys.flags.safe_path:
            _set_path(os.path.dirname(os.path.realpath(program)), replaces)
        profiler.__enter__()
        finish.began = True
    exec(code, module.__dict__)


def main(words: list[str], replaces: bool = True) -> None:
    """Run the command line that follows "run"; ends by an exception or SystemExit as the program.

    replaces: sys.path[0] is ours, and gives way to the program's.
    """
    try:
        _run(_read_arguments(words), replaces and not sys.flags.safe_path)
    except _UsageError as error:
        _say(str(error))
        raise SystemExit(WRONG) from None
    except SystemExit:
        raise
    except BaseException as error:
        _raise_as_the_programs(error)

"""The magic %%lineprofile of IPython and Jupyter."""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

__all__ = ["load"]

HELP = """Run the cell, and print how long its lines took, and those of the project that it called.

    %%lineprofile [--top N] [--functions GLOB] [--project DIR]

--top N: only the N hottest lines, instead of every function. --functions: only functions whose
qualified names match. --project: code below DIR is measured; by default the nearest folder with a
.git, upwards from here, else this one. Functions of other cells are always measured.
"""


def load(shell: Any) -> None:
    """Register the magic with a shell."""

    def lineprofile(line: str, cell: str) -> Any:
        return _profile_cell(shell, line, cell)

    lineprofile.__doc__ = HELP
    shell.register_magic_function(lineprofile, magic_kind="cell", magic_name="lineprofile")


def _profile_cell(shell: Any, line: str, cell: str) -> Any:
    from IPython.core.error import UsageError

    from lineprofiler.lines import LineProfiler

    try:
        options = _read_options(line)
        profiler = LineProfiler(options["project"], functions=options["functions"])
    except OSError as error:
        raise UsageError(
            f"%%lineprofile: cannot use '{error.filename}': {error.strerror}"
        ) from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"%%lineprofile: {error}") from None
    code = _compile_cell(shell, cell)
    try:
        with profiler:
            exec(code, shell.user_ns)
    finally:
        value = shell.user_ns.pop(_VALUE, None)
        if options["top"] is None:
            profiler.print_stats(stream=sys.stdout)
        else:
            profiler.print_global_top_stats(options["top"], stream=sys.stdout)
    return value


def _read_options(line: str) -> dict[str, Any]:
    import shlex

    from lineprofiler import _lines_config, _nearest

    options: dict[str, Any] = {"top": None, "functions": None, "project": None}
    words = shlex.split(line)
    while words:
        option = words.pop(0)
        if not option.startswith("-"):
            raise ValueError(f"{option!r} is no option: what is to run goes on the lines below")
        name = option.removeprefix("--")
        if not option.startswith("--") or name not in options:
            near = _nearest.did_you_mean(
                _nearest.nearest_names(option, [f"--{name}" for name in options]),
                [f"--{name}" for name in options],
            )
            raise ValueError(f"unknown option {option!r}{near}")
        if not words:
            raise ValueError(f"option {option} needs a value")
        value = words.pop(0)
        if name == "top":
            if not value.isascii() or not value.isdigit():
                raise ValueError(f"--top needs a number, not {value!r}")
            options["top"] = int(value)
        elif name == "functions":
            options["functions"] = [*(options["functions"] or []), value]
        else:
            options["project"] = value
    if options["project"] is None:
        options["project"] = _lines_config.find_project(None)
    return options


# Where a cell puts the value of its last expression, which is to be shown.
_VALUE = "__lineprofile_value__"


def _compile_cell(shell: Any, cell: str) -> CodeType:
    """Compile the cell under a name of its own."""
    text = shell.transform_cell(cell)
    # The number of this cell: execution_count is that of the next one in some versions.
    name = shell.compile.cache(text, shell.displayhook.prompt_count, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
    _refuse_await(tree, name)
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not cell.rstrip().endswith(";"):
        last = tree.body[-1]
        target = ast.copy_location(ast.Name(_VALUE, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return compile(tree, name, "exec")


def _refuse_await(tree: ast.Module, name: str) -> None:
    """Shells run the bodies of magics outside of their event loops."""
    from inspect import CO_COROUTINE

    from IPython.core.error import UsageError

    code = compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & CO_COROUTINE:
        raise UsageError(
            "%%lineprofile: nothing can be awaited here: use `with LineProfiler() as profiler:` "
            "in a cell of its own"
        )

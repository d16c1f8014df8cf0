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
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(f"%%lineprofile: {error}") from None
    body, last = _compile_cell(shell, cell)
    value = None
    try:
        with profiler:
            exec(body, shell.user_ns)
            if last is not None:
                value = eval(last, shell.user_ns)
    finally:
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


def _compile_cell(shell: Any, cell: str) -> tuple[CodeType, CodeType | None]:
    """Compile the cell under a name of its own; its last expression apart, to be shown."""
    text = shell.transform_cell(cell)
    name = shell.compile.cache(text, shell.execution_count, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
    _refuse_await(tree, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not cell.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval")
    return compile(tree, name, "exec"), last


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

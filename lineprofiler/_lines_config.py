"""Which code a line profiler looks at: the project's folder, what is left out of it, and globs.

Globs come as keyword arguments, or from the project's pyproject.toml::

    [tool.lineprofiler]
    include = ["src/*"]         # files, by their paths below the project's folder
    exclude = ["src/vendor"]    # a folder stands for all that is in it
    functions = ["Search.*"]    # functions, by their qualified names
"""

from __future__ import annotations

import os
import sys

from lineprofiler import _nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Given = Mapping[str, Iterable[str] | None]

__all__ = ["KEYS", "find_project", "outside_folders", "read_globs"]

KEYS = ("include", "exclude", "functions")


def find_project(file: str | None) -> str:
    """Return the nearest folder with a .git, upwards from the file, else the file's own folder.

    Where there is no such file, as in an interactive session, the working directory is looked at.
    """
    real = os.path.realpath(file) if file and os.path.isfile(file) else None
    first = os.getcwd() if real is None else os.path.dirname(real)
    folder = first
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return first
        folder = above
    return folder


def outside_folders() -> list[str]:
    """Return the folders of the standard library, of installed packages, and of this package."""
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    found = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [folder for folder in sys.path if _is_of_packages(folder)]
    found += [os.path.dirname(os.path.abspath(__file__))]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    return list(dict.fromkeys(found))


def _is_of_packages(folder: object) -> bool:
    """Whether it is one that Debian's interpreter, say, adds to the path for itself."""
    if not isinstance(folder, str):
        return False
    return os.path.basename(folder.rstrip("/")) in ("site-packages", "dist-packages")


# ---- globs -----------------------------------------------------------------


def read_globs(folder: str, given: Given) -> dict[str, list[str]]:
    """Return the globs of each of KEYS: those given, else those of the folder's pyproject.toml.

    ValueError, TypeError: what stands there is not what it should be.
    """
    path = os.path.join(folder, "pyproject.toml")
    table = _read_table(path)
    globs: dict[str, list[str]] = {}
    for key in KEYS:
        chosen = given[key]
        if chosen is None:
            globs[key] = _check_globs(f"{path}: {key} in [tool.lineprofiler]", table.get(key, []))
        else:
            globs[key] = _check_globs(key, chosen)
    for key in ("include", "exclude"):
        globs[key] = [form for glob in globs[key] for form in _forms(glob)]
    return globs


def _read_table(path: str) -> dict[str, Any]:
    """Return the table [tool.lineprofiler] of a file, {} where there is none."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):  # of a folder that is none others will tell
        return {}
    import tomllib

    try:
        document = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, or nothing but brackets
        raise ValueError(f"{path}: not TOML: {error}") from None
    tool = document.get("tool")
    table = tool.get("lineprofiler", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ValueError(f"{path}: lineprofiler must be a table: write [tool.lineprofiler]")
    for key in table:
        if key not in KEYS:
            near = _nearest.did_you_mean(map(repr, _nearest.nearest_names(key, KEYS)), KEYS)
            raise ValueError(f"{path}: [tool.lineprofiler] has no key {key!r}{near}")
    return table


def _check_globs(what: str, value: object) -> list[str]:
    remedy = f'must be a list of str, as in ["{"Search.*" if "functions" in what else "src/*"}"]'
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        raise TypeError(f"{what} {remedy}, not {_nearest.short_repr(value)}")
    globs = list(value)
    for glob in globs:
        if not isinstance(glob, str):
            raise TypeError(f"{what} {remedy}: {_nearest.short_repr(glob)} is no str")
        if not glob or "\0" in glob:
            raise ValueError(f"{what}: {glob!r} matches nothing: take it out")
        if glob.startswith("/") and "functions" not in what:
            raise ValueError(f"{what}: {glob!r} is not relative to the project's folder")
    return globs


def _forms(glob: str) -> list[str]:
    """Return what is to match, as a folder stands for all that is in it."""
    glob = glob.removeprefix("./").rstrip("/")
    return [glob, f"{glob}/*"]

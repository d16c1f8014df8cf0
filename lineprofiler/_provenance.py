"""What a run came from, as far as only Python knows: its script's folder, versions of packages."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_SECONDS = 0.04


def names_of(packages: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a profiler was given. TypeError, ValueError: they are none."""
    if isinstance(packages, str | bytes):
        raise TypeError(f"packages takes several names, such as [{packages!r}], not one")
    names = tuple(packages)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"packages takes names as texts, not {type(name).__name__}")
        if not name or "\0" in name or "\\" in name or not name.isprintable():
            raise ValueError(f"no package is called {name!r}")
    return names


def source_folder() -> str:
    """Return the folder of the script that runs, else the working directory; "" if it is gone."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    try:
        path = os.path.realpath(script) if script else ""
        return os.path.dirname(path) if os.path.isfile(path) else os.getcwd()
    except (OSError, ValueError):
        return ""


def versions_of(names: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of installed packages.

    None for one that is not there or says none, or that was not looked for since a file system is
    slow: nobody is to wait for this.
    """
    late = time.monotonic() + _SECONDS
    return {name: _version(name) if time.monotonic() < late else None for name in names}


def _version(name: str) -> str | None:
    from importlib import metadata  # takes a while, and nobody may need it

    try:
        version = metadata.version(name)
        version.encode()
    except Exception:  # whatever lies in the folder of a package, the program is not to stop for it
        return None
    return version if isinstance(version, str) and version and "\0" not in version else None

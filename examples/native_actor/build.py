"""Builds the extension module of this folder: `python examples/native_actor/build.py`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
FOLDER = SOURCES / f"build-{sys.implementation.cache_tag}"
"""Where the module is built: each interpreter has one of its own."""


class BuildError(Exception):
    """The module cannot be built: one line says why."""


def build() -> None:
    """Bring the module up to date."""
    if not (os.environ.get("CXX") or any(map(shutil.which, ("c++", "g++", "clang++")))):
        raise BuildError(
            "the native search needs a C++ compiler, and there is none: install g++ or clang, "
            "set CXX, or go without --native"
        )
    if importlib.util.find_spec("mesonbuild") is None:
        raise BuildError("the native search is built by Meson: pip install meson ninja")
    again = ["--reconfigure"] if (FOLDER / "build.ninja").exists() else []
    _meson("setup", *again, str(FOLDER), str(SOURCES))
    _meson("compile", "-C", str(FOLDER))


def _meson(*arguments: str) -> None:
    """Run this interpreter's Meson: it builds for the interpreter that it runs in."""
    beside_python = os.path.dirname(sys.executable)  # ninja, in an environment that is not active
    done = subprocess.run(
        [sys.executable, "-m", "mesonbuild.mesonmain", *arguments],
        env=os.environ | {"PATH": f"{beside_python}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise BuildError(f"the native search could not be built:\n{done.stdout.rstrip()}")


if __name__ == "__main__":
    try:
        build()
    except BuildError as error:
        sys.exit(str(error))

"""The C victim, built."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = "tests/torture/torture-victim"


def build_victim() -> Path | None:
    """Return the C victim, brought up to date; None where it cannot be built.

    In the build folder of the C tests, if there is one, else in one of its own.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    meson, ninja = (shutil.which(tool, path=path) for tool in ("meson", "ninja"))
    if meson is None or ninja is None:
        return None
    folder = ROOT / "build-test"
    if not (folder / "build.ninja").exists():
        folder = ROOT / "build-torture"
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "PATH": path}
    with (folder / "torture.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run in several processes
        if not (folder / "build.ninja").exists():
            options = ["-Dbuildtype=release", "-Dtests=enabled"]
            subprocess.run([meson, "setup", folder, ROOT, *options], check=True, env=environment)
        subprocess.run([ninja, "-C", folder, TARGET], check=True, env=environment)
    return folder / TARGET

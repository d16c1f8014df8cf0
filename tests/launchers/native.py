"""Programs in C, compiled with the library that `make test-launchers` installs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from launchers.processes import run


def pkg_config(env: Mapping[str, str], *options: str) -> str:
    """Return what it says of the installed library; without one the test is skipped."""
    command = ["pkg-config", *options, "lineprofiler"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no C library here, make test-launchers installs it: {done.stderr}")
    return done.stdout.strip()


def compile_program(source: Path, env: Mapping[str, str], compiler: str | Path = "cc") -> Path:
    """Compile a program, which finds the library when it is run."""
    program = source.with_suffix("")
    flags = pkg_config(env, "--cflags", "--libs").split()
    options = [*flags, f"-Wl,-rpath,{pkg_config(env, '--variable=libdir')}"]
    run([compiler, "-O1", source, *options, "-o", program], source.parent, env)
    return program


def command(env: Mapping[str, str]) -> Path:
    """Return the command that came with the library, which needs no Python."""
    return Path(pkg_config(env, "--variable=prefix")) / "bin" / "lineprofiler"

"""What the command's own help lists: that is what other texts about it are held against."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "lineprofiler"


def help_of(*command: str) -> str:
    done = subprocess.run([COMMAND, *command, "--help"], check=True, capture_output=True, text=True)
    return done.stdout


def commands() -> list[str]:
    return re.findall(r"(?m)^  ([a-z]+) ", help_of())


def options_of(*command: str) -> set[str]:
    """Those that the help lists, "--format" and "-o" alike, each at the beginning of a line."""
    found = set()
    for line in re.findall(r"(?m)^  (-.*?)(?:  |$)", help_of(*command)):
        found |= set(re.findall(r"(?:^|, )(--?[a-z][a-z-]*)", line))
    assert {"-h", "--help"} <= found
    return found

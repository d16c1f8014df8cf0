"""The manual page: it has all that the command's own help lists, and is well formed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own_help import commands, options_of

pytestmark = pytest.mark.core

PAGE = Path(__file__).resolve().parents[2] / "packaging" / "lineprofiler.1"


def sections() -> dict[str, str]:
    """What the page says of each command, options as they are typed."""
    text = PAGE.read_text(encoding="utf-8").replace(r"\-", "-")
    parts = re.split(r"(?m)^\.S[sh] (.*)$", text)
    return {title.split(" ")[0]: part for title, part in zip(parts[1::2], parts[2::2], strict=True)}


def options_in(section: str) -> set[str]:
    found = set()
    for line in re.findall(r"(?m)^\.It (Fl .*)$", section):
        found |= {f"-{name}" for name in re.findall(r"(?:^|, )Fl (-?[a-z][a-z-]*)", line)}
        found |= {f"-{name}" for name in re.findall(r", (?!Fl)(-?[a-z][a-z-]*)", line)}
    return found


def test_it_has_every_command_and_option() -> None:
    said = sections()
    common = options_in(said["DESCRIPTION"])
    assert common == options_of()
    assert len(commands()) >= 7
    for command in commands():
        assert f".Cm {command}\n" in said["SYNOPSIS"]
        assert options_in(said[command]) == options_of(command) - {"-h", "--help"}, command


def test_it_is_installed() -> None:
    installed = Path(sys.prefix) / "share" / "man" / "man1" / "lineprofiler.1"
    assert installed.read_bytes() == PAGE.read_bytes()


@pytest.mark.parametrize("command", [["mandoc", "-Tlint"], ["groff", "-mdoc", "-ww", "-z"]])
def test_it_is_well_formed(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([*command, PAGE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

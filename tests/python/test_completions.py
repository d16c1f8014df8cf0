"""Completion in bash, zsh and fish, as it is asked for by who types: in the shells themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from own_help import commands, options_of
from terminal import Terminal

pytestmark = pytest.mark.core

FILES = Path(__file__).resolve().parents[2] / "packaging" / "completions"
BASH = f"""
PS1='ready> '
bind 'set show-all-if-ambiguous on'
bind 'set completion-query-items 0'
bind 'set page-completions off'
bind 'set enable-bracketed-paste off'
source '{FILES}/lineprofiler.bash'
"""
ZSH = f"""
PS1='ready> '
LISTMAX=1000
fpath=('{FILES}' $fpath)
autoload -U compinit && compinit -u -D
"""
FISH = f"source '{FILES}/lineprofiler.fish'; complete -C $argv[1]"

Ask = Callable[[str], set[str]]


class Typed:
    """An interactive shell in which a line is begun and the tabulator pressed."""

    def __init__(self, command: list[str], folder: Path) -> None:
        env = {"HOME": str(folder), "ZDOTDIR": str(folder), "LC_ALL": "C.UTF-8"}
        self.terminal = Terminal(command, rows=60, columns=120, env=env)
        self.terminal.wait_for("ready>")
        self.turn = 0

    def ask(self, line: str) -> set[str]:
        """Return the words on the screen: the line as it is then, and what may follow."""
        self.turn += 1
        # Keys are taken in their order: when the last one shows, the answer stands there.
        self.terminal.type(f"{line}\t#{self.turn}.")
        self.terminal.wait_for(rf"#{self.turn}\.")
        words = set(self.terminal.text.replace(f"#{self.turn}.", " ").split())
        self.terminal.type("\x15\x0c")  # The line is taken back, and the screen cleared.
        return words


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def ask(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Ask one of the shells, in a folder that has a script and a run directory."""
    shell = shutil.which(request.param)
    if shell is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "profile" / "workers").mkdir(parents=True)
    (folder / "program.py").touch()
    if request.param == "fish":

        def answer(line: str) -> set[str]:
            command = [shell, "--no-config", "-c", FISH, line]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
            assert done.stderr == ""
            return {found.split("\t")[0] for found in done.stdout.splitlines()}

        yield answer
        return
    begin = folder / ".zshrc"
    begin.write_text((BASH if request.param == "bash" else ZSH) + f"cd '{folder}'\n")
    options = ["--no-globalrcs"]
    if request.param == "bash":
        options = ["--noprofile", "--rcfile", str(begin)]
    typed = Typed([shell, *options, "-i"], folder)
    yield typed.ask
    typed.terminal.close()


def long_options(words: set[str]) -> set[str]:
    return {word.rstrip("=") for word in words if re.fullmatch("--[a-z-]+=?", word)}


def test_commands_and_their_options(ask: Ask) -> None:
    assert set(commands()) <= ask("lineprofiler ")
    assert long_options(ask("lineprofiler --")) == long_options(options_of())
    for command in commands():
        expected = long_options(options_of(command))
        assert long_options(ask(f"lineprofiler {command} --")) == expected, command


def test_values_of_options(ask: Ask) -> None:
    assert {"text", "json"} <= ask("lineprofiler report --format ")
    assert "--format=json" in ask("lineprofiler compare --format=j")
    assert {"auto", "always", "never"} <= ask("lineprofiler where --color ")
    assert {"csv", "jsonl"} <= ask("lineprofiler export --samples ")
    sorts = {"share", "self", "wait", "calls", "each", "name", "rss", "for", "pid", "rank", "host"}
    assert sorts | {"role", "state"} <= ask("lineprofiler top --sort ")


def test_files_and_folders(ask: Ask) -> None:
    """Commands about a run want its directory, what is written or run is a file."""
    for command in ("report", "compare", "compare profile", "top", "where", "export --gpu"):
        words = ask(f"lineprofiler {command} p")
        assert "profile/" in words
        assert "program.py" not in words
    for line in ("report -o", "export --output", "run", "run --html", "run --top 3"):
        assert "program.py" in ask(f"lineprofiler {line} prog")
    assert "profile/" in ask("lineprofiler run --project p")


def test_what_follows_a_program_is_the_programs(ask: Ask) -> None:
    assert not long_options(ask("lineprofiler run --top 3 program.py --")) - {"--top"}
    assert "profile/" in ask("lineprofiler run --top 3 program.py prof")


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        ("lineprofiler.bash", "bash-completion/completions/lineprofiler"),
        ("_lineprofiler", "zsh/site-functions/_lineprofiler"),
        ("lineprofiler.fish", "fish/vendor_completions.d/lineprofiler.fish"),
    ],
)
def test_they_are_installed(file: str, installed: str) -> None:
    there = Path(sys.prefix) / "share" / installed
    assert there.read_bytes() == (FILES / file).read_bytes()

"""README.md and docs/*.md keep their word: snippets run, links lead somewhere, schemas hold.

What a fenced block is, its info string says:

    python    a whole program. All of a file's run in order, in one empty folder, each by an
              interpreter of its own, and must exit 0 without a RuntimeWarning. A block whose first
              line is a comment with a file's name, `# train.py`, is kept under that name, so that
              later blocks can run it.
    python kept  is kept only.
    console   the lines that begin with `$ ` are run by one shell, in the same folder, and each must
              exit 0. Other lines show what they printed.
    c, cpp    a whole file, kept under the name in its first line, `/* actor.c */`, and compiled;
              later blocks can build and run it. In C without a name: statements, compiled only.

Blocks of any other kind (sh for what installs and builds, text, json) are only read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import Block, blocks

ROOT = Path(__file__).resolve().parents[2]
NO_PAGES = {"build-results", "subprojects"}
TIMEOUT_S = 120


def pages() -> list[Path]:
    """All Markdown files of the project, without those of what was built or installed."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(
            name for name in folders if not name.startswith((".", "build")) and name not in NO_PAGES
        )
        found += [Path(folder) / name for name in sorted(files) if name.endswith(".md")]
    return found


PAGES = pages()
READ_ALOUD = [page for page in PAGES if page.parent in (ROOT, ROOT / "docs")]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without its blocks and its code."""
    text = re.sub(r"(?ms)^\s*(`{3,}).*?^\s*\1\s*$", "", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


# ---- snippets --------------------------------------------------------------


def environment() -> dict[str, str]:
    """As that of a new shell in which the package's environment is active."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("LINEPROFILER")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["PYTHONWARNINGS"] = "error::RuntimeWarning"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return env


def run(where: str, command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{where}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


def keep_python(block: Block, where: str, folder: Path) -> Path:
    named = re.match(r"# (\w+\.py)\n", block.text)
    assert named or block.kind == "python", f"{where}: kept, but without a name"
    script = folder / (named[1] if named else f"snippet_{block.line}.py")
    script.write_text(block.text, encoding="utf-8")
    return script


def run_python(block: Block, where: str, folder: Path) -> None:
    run(where, [sys.executable, str(keep_python(block, where, folder))], folder)


def run_console(block: Block, where: str, folder: Path) -> None:
    commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    assert commands, f"{where}: no command"
    run(where, ["bash", "-e", "-x", "-c", "\n".join(commands)], folder)


def keep_native(block: Block, where: str, folder: Path) -> None:
    named = re.match(r"(?:/\* (\w+\.c) \*/|// (\w+\.cpp))\n", block.text)
    assert named or block.kind == "c", f"{where}: without a name"
    source = folder / (named[1] or named[2] if named else f"snippet_{block.line}.c")
    text = block.text if named else f"#include <lineprofiler.h>\nvoid s(void)\n{{\n{block.text}}}\n"
    source.write_text(text, encoding="utf-8")
    compiler = shutil.which("cc" if source.suffix == ".c" else "c++")
    if compiler is None:
        return
    options = ["-std=c11" if source.suffix == ".c" else "-std=c++11", "-Wall", "-Wextra", "-Werror"]
    paths = ["-I", str(ROOT / "include"), "-isystem", sysconfig.get_path("include")]
    run(where, [compiler, *options, *paths, "-fsyntax-only", str(source)], folder)


HANDLE: dict[str, Callable[[Block, str, Path], object]] = {
    "python": run_python,
    "python kept": keep_python,
    "console": run_console,
    "c": keep_native,
    "cpp": keep_native,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; what workers that were killed in it leave in shared memory is removed."""
    yield tmp_path
    for image in Path(f"/dev/shm/lineprofiler-{os.geteuid()}").glob("*.img"):
        with contextlib.suppress(OSError):
            if os.fsencode(tmp_path) in image.read_bytes():
                image.unlink()


@pytest.mark.parametrize("page", READ_ALOUD, ids=name_of)
def test_snippets_run(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.kind in HANDLE:
            HANDLE[block.kind](block, f"{name_of(page)}:{block.line}", folder)


def test_there_are_snippets() -> None:
    kinds = [(page.name, block.kind) for page in READ_ALOUD for block in blocks(page)]
    assert ("README.md", "python") in kinds
    assert ("README.md", "console") in kinds
    assert kinds.count(("accounting.md", "python")) >= 8
    assert kinds.count(("guide.md", "python")) >= 5


# ---- links -----------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor that a heading gets where Markdown is shown."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"(?ms)^\s*(`{3,}).*?^\s*\1\s*$", "", page.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"(?m)^#+ +(.*)$", text)}


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.is_relative_to(ROOT) or not there.exists():
        return False
    return not anchor or (there.suffix == ".md" and anchor in anchors(there))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^()\s]+)\)", prose(page))
    relative = [target for target in targets if not re.match(r"\w+:", target)]
    dead = [target for target in relative if not leads_somewhere(page, target)]
    assert not dead, f"{name_of(page)}: {dead}"


# ---- messages --------------------------------------------------------------


def source_text() -> str:
    """All C and Python of the package, with literals joined that stand side by side."""
    files = [*(ROOT / "src").rglob("*.c"), *(ROOT / "lineprofiler").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_messages_in_the_guide_are_those_of_the_program() -> None:
    """The first column of the tables of troubles; `...` and a colon part what is put together."""
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (`.*?) \| ", guide[guide.index("## When something is wrong") :])
    messages = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    assert len(messages) > 30
    source = source_text()
    for message in messages:
        for part in re.split(r"\.\.\.|: | inside ", message):
            assert part.strip(" '():?") in source, f"{message!r}: no {part!r}"


# ---- schemas ---------------------------------------------------------------


def schema_of(name: str) -> Any:
    return json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def test_the_worker_schema_accepts_what_the_readme_writes(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = schema_of("worker.schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    example = next(block for block in blocks(ROOT / "README.md") if block.kind == "python")
    run_python(example, f"README.md:{example.line}", folder)
    files = list(folder.glob("profile/workers/*/w_*.json"))
    assert files
    for path in files:
        validator.validate(json.loads(path.read_text(encoding="utf-8")))

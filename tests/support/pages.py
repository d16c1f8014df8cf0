"""Fenced blocks of Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Block(NamedTuple):
    """A fenced block: what kind of text, the line in the page where the text begins, the text."""

    kind: str
    line: int
    text: str


def blocks(page: Path) -> Iterator[Block]:
    kind, begin, lines = "", 0, list[str]()
    fence = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence and line.strip() == fence:
            yield Block(kind, begin, "\n".join(lines) + "\n")
            fence = ""
        elif fence:
            lines.append(line)
        elif opening := re.fullmatch(r"\s*(`{3,})([^`]*)", line):
            fence, kind, begin, lines = opening[1], opening[2].strip(), number + 1, []
    assert not fence, f"{page.name}:{begin}: a block without an end"

"""docs/requirements.md has a row for each number, and the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"

# How many numbers each letter has.
NUMBERS = {"A": 6, "B": 12, "C": 3, "D": 5, "E": 10, "F": 10, "G": 4, "H": 7, "I": 2, "J": 5}
NUMBERS |= {"K": 15, "L": 1, "M": 3, "N": 6, "O": 9}


class Row(NamedTuple):
    """One row of the table."""

    number: str
    what: str
    state: str
    shown_by: str


def rows() -> list[Row]:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| *[A-Z]\d", line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


ROWS = rows()


def test_each_number_has_one_row_in_order() -> None:
    expected = [f"{letter}{i}" for letter, n in NUMBERS.items() for i in range(1, n + 1)]
    assert [row.number for row in ROWS] == expected


def there_is(named: str) -> bool:
    """A Python or a C test function, `file::function`, or a file below tests/."""
    file, _, function = named.partition("::")
    path = TESTS / file
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8")
    if not function:
        return True
    if path.suffix == ".py":
        return re.search(rf"(?m)^(async )?def {re.escape(function)}\(", text) is not None
    defined = rf"(?m)^static void {re.escape(function)}\(void \*\*state\)"
    # Else it does not run.
    listed = rf"\b(TEST|in_\w+|cmocka_unit_test\w*)\({re.escape(function)}\b"
    return all(re.search(pattern, text) for pattern in (defined, listed))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_a_row_is_true(row: Row) -> None:
    assert row.what
    named = re.findall(r"`([^`]+)`", row.shown_by)
    targets = [name for name in named if name.startswith("make ")]
    missing = [name for name in named if name not in targets and not there_is(name)]
    assert not missing
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"(?m)^{target.split()[1]}\b.*:", makefile), target
    if row.state == "open":
        assert not named, "open, but something shows it"
    elif row.state == "done":
        assert named, "done, but nothing shows it"
    else:
        assert re.match(r"part: \S", row.state), row.state

"""Samples files read by docs/format.md alone: no code of ours, nothing but the standard library."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

LETTERS = {"u8": "Q", "u4": "I", "u2": "H"}
CHARS = ("read_chars", "write_chars")
BYTES = ("read_bytes", "write_bytes")

Row = dict[str, int | None]  # None: not measured


class Samples(NamedTuple):
    header: dict[str, Any]
    rows: list[Row]
    rest: bytes  # behind the last whole record

    def total(self, field: str) -> int:
        """Return how much the field grew from the first row that has it to the last."""
        values = [value for row in self.rows if (value := row[field]) is not None]
        assert values == sorted(values), field
        return values[-1] - values[0]

    def column(self, field: str) -> list[int | None]:
        return [row[field] for row in self.rows]


def read_samples(path: Path) -> Samples:
    with path.open("rb") as file:
        header = json.loads(file.readline())
        assert file.tell() == header["header_bytes"]
        data = file.read()
    names = [name for name, _ in header["fields"]]
    types = [kind for _, kind in header["fields"]]
    record = struct.Struct("<" + "".join(LETTERS[kind] for kind in types))
    assert record.size == header["record_bytes"]
    whole = len(data) // record.size * record.size
    missing = [(1 << 8 * int(kind[1])) - 1 for kind in types]
    rows = [
        {
            name: None if value == none else value
            for name, value, none in zip(names, values, missing, strict=True)
        }
        for values in record.iter_unpack(data[:whole])
    ]
    return Samples(header, rows, data[whole:])


def samples_of(run_dir: Path, worker: str | None = None) -> Samples:
    """Return those of a worker, or of the only one; numbered from 0 on without a hole."""
    [path] = run_dir.glob(f"workers/*/{worker or 'w_*'}.samples")
    samples = read_samples(path)
    assert samples.rest == b""
    assert samples.column("sequence") == list(range(len(samples.rows)))
    return samples


def gaps(rows: Iterable[Row]) -> int:
    """Return all bits of gaps that any row has."""
    together = 0
    for row in rows:
        together |= row["gaps"] or 0
    return together

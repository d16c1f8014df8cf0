"""Gives a run of make_run.py samples: what each worker used, a row a second.

    benchmarks/make_samples.py DIR --hours 12

Each worker's phases get ids. The rows of one worker are made once, and written for each: 64 workers
of 12 hours take a few seconds and 350 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import sys
import time
from pathlib import Path

FIELDS = [
    *((name, "u8") for name in ("monotonic_ns", "cpu_ns", "rss_bytes")),
    *((name, "u8") for name in ("read_chars", "write_chars", "read_bytes", "write_bytes")),
    *((name, "u8") for name in ("minor_faults", "major_faults")),
    *((name, "u8") for name in ("voluntary_switches", "involuntary_switches", "run_delay_ns")),
    *((name, "u8") for name in ("cuda_allocated_bytes", "cuda_reserved_bytes")),
    *((name, "u4") for name in ("open_files", "phase", "sequence")),
    *((name, "u2") for name in ("threads", "gaps")),
]
RECORD = struct.Struct("<14Q3I2H")
S = 10**9


def header(worker: str) -> bytes:
    """Return the header of a samples file."""
    document = {
        "format": "lineprofiler-samples",
        "version": 1,
        "kind": "process",
        "worker": worker,
        "byte_order": "little",
        "header_bytes": 2048,
        "record_bytes": RECORD.size,
        "fields": FIELDS,
    }
    return json.dumps(document, separators=(",", ":")).encode().ljust(2047) + b"\n"


def make_rows(start_ns: int, seconds: int, phases: int) -> bytes:
    """Return the records of a worker: a loader that reads, a checkpoint now and then."""
    rng = random.Random(1)
    none = 2**64 - 1
    rows = bytearray(RECORD.size * seconds)
    cpu = read_chars = write_chars = read_bytes = write_bytes = faults = switches = 0
    for i in range(seconds):
        at = start_ns + i * S + rng.randrange(10**6)
        phase = i * 7 // 11 % (phases + 1)
        rss = 4 * 10**9 + i * 20_000 + rng.randrange(10**7)
        RECORD.pack_into(
            rows,
            i * RECORD.size,
            *(at, cpu, rss, read_chars, write_chars, read_bytes, write_bytes),
            *(faults, i // 60, switches, switches // 9, cpu // 50, none, none),
            *(40, phase, i, 12, 0),
        )
        cpu += rng.randrange(S)
        read_chars += rng.randrange(10**8)
        read_bytes += rng.randrange(10**7)
        if i % 300 == 299:
            write_chars += 4 * 10**8
            write_bytes += 4 * 10**8
        faults += rng.randrange(10**4)
        switches += rng.randrange(10**3)
    return bytes(rows)


def main() -> int:
    """Write the samples of every worker in the run directory."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dir", help="a run of make_run.py")
    parser.add_argument("--hours", type=float, default=12)
    options = parser.parse_args()
    began, seconds = time.monotonic(), int(options.hours * 3600)
    rows: dict[int, bytes] = {}
    for path in sorted(Path(options.dir).glob("workers/*/w_*.json")):
        document = json.loads(path.read_bytes())
        nodes = document["threads"][0]["nodes"]
        for number, node in enumerate(nodes[1:], 1):
            node["id"] = number
        start = document["started"]
        document["samples"] = {"taken": seconds}
        document["written"] = {key: at + seconds * S for key, at in start.items()}
        path.write_text(json.dumps(document, separators=(",", ":")))
        boot = start["monotonic_ns"] // 10**13  # hosts differ; workers of one share their rows
        if boot not in rows:
            rows = {boot: make_rows(boot * 10**13 + 6 * S, seconds - 10, len(nodes) - 1)}
        data = header(document["worker"]) + rows[boot]
        path.with_suffix(".samples").write_bytes(data)
    print(f"{seconds} rows a worker, {time.monotonic() - began:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

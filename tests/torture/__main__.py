"""`make torture`: deaths on all cores, figures in docs/reliability.md.

python -m torture [--deaths N] [--seed S] [--only WAY] [--build FOLDER] [--write]
python -m torture --again WAY LANGUAGE SEED      one scene once more
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from torture.scene import Tools, adopt_orphans
from torture.table import write_table
from torture.torment import Tally, one, share
from torture.ways import make_cgroup


def run_all(tools: Tools, seed: str, deaths: int, only: str | None) -> dict[str, Tally]:
    cores = len(os.sched_getaffinity(0))
    each = -(-deaths // cores)
    context = multiprocessing.get_context("spawn")
    total: dict[str, Tally] = {}
    with ProcessPoolExecutor(cores, mp_context=context) as pool:
        parts = [pool.submit(share, tools, f"{seed}.{i}", each, only) for i in range(cores)]
    for part in (part.result() for part in parts):
        for way, tally in part.items():
            total.setdefault(way, Tally()).add(tally)
    return total


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--deaths", type=int, default=5000)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", help="ways whose name contains this")
    parser.add_argument("--build", type=Path, default=Path("build-torture"))
    parser.add_argument("--again", nargs=3, metavar=("WAY", "LANGUAGE", "SEED"))
    parser.add_argument("--write", type=Path, help="the page to write the figures to")
    return parser.parse_args()


def main() -> int:
    options = parse()
    build = options.build.resolve()
    disk = Path(tempfile.mkdtemp(prefix="torture-"))
    folder = disk
    if os.access("/dev/shm", os.W_OK):
        folder = Path(tempfile.mkdtemp(prefix="torture-", dir="/dev/shm"))
    victim, command = build / "tests/torture/torture-victim", build / "src/lineprofiler"
    tools = Tools(folder, disk, victim, command, make_cgroup())
    try:
        return torture(tools, options)
    finally:
        put_away(tools)


def torture(tools: Tools, options: argparse.Namespace) -> int:
    if options.again:
        adopt_orphans()
        outcome = one(tools, *options.again)
        print(outcome)
        return bool(outcome.faults)
    began = time.monotonic()
    total = run_all(tools, options.seed, options.deaths, options.only)
    print(write_table(total, time.monotonic() - began, options.seed, options.write))
    return any(tally.faults for tally in total.values())


def put_away(tools: Tools) -> None:
    """Remove what was made, but for scenes with faults: they are kept on disk."""
    if tools.cgroup is not None:
        tools.cgroup.rmdir()
    if tools.folder != tools.disk:
        for scene in tools.folder.iterdir():  # this /dev/shm may go with us
            shutil.move(scene, tools.disk)
        tools.folder.rmdir()
    if any(tools.disk.iterdir()):
        print(f"kept in {tools.disk}", file=sys.stderr)
    else:
        tools.disk.rmdir()


if __name__ == "__main__":
    sys.exit(main())

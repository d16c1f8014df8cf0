"""The figures, as a table; written into docs/reliability.md between two marks."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

from torture.torment import Tally
from torture.ways import WAYS

BEGIN, END = "<!-- written by make torture -->", "<!-- end -->"
COLUMNS = (
    "scenes",
    "deaths",
    "operations told",
    "losses",
    "duplicates",
    "half files",
    "stray",
    "other",
)


def row(name: str, tally: Tally) -> str:
    faults = tally.faults
    other = sum(faults[kind] for kind in ("STATUS", "HANG", "WRONG"))
    cells = [tally.scenes, tally.deaths, tally.operations, faults["LOSS"], faults["DUPLICATE"]]
    cells += [faults["HALF"], faults["STRAY"], other]
    return f"| {name} | " + " | ".join(f"{cell:,}" for cell in cells) + " |"


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"(?m)^model name\s*: (.*)$", info)
    cores = len(re.findall(r"(?m)^processor\s*:", info))
    return f"{model[1] if model else platform.machine()}, {cores} cores, Linux {platform.release()}"


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def table(total: dict[str, Tally], seconds: float, seed: str) -> str:
    everything = Tally()
    for tally in total.values():
        everything.add(tally)
    lines = ["| way to die | " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * len(COLUMNS) + "|"]
    lines += [row(name, total[name]) for name in WAYS if name in total]
    lines += [row("all", everything), ""]
    lines.append(f"{seconds:.0f} s on {machine()}; CPython {platform.python_version()}; ")
    lines[-1] += f"commit `{commit()}`, seed `{seed}`."
    return "\n".join(lines)


def write_table(total: dict[str, Tally], seconds: float, seed: str, page: Path | None) -> str:
    """Return the table; write it to the page too."""
    made = table(total, seconds, seed)
    if page is not None:
        text = page.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")
    return made

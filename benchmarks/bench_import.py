"""What importing lineprofiler and lineprofiler.accounting adds to the interpreter's start (A5).

    python benchmarks/bench_import.py [--rounds N] [--markdown]

Whole interpreters are started in turn, with and without the import; the best of many rounds is
compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

BAR_MS = 10.0


def start_ms(code: str) -> float:
    """Return how long an interpreter takes to run code and end, in ms."""
    start = time.perf_counter_ns()
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    return (time.perf_counter_ns() - start) / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What importing the package costs.")
    parser.add_argument("--rounds", type=int, default=20, help="rounds to take the best of (20)")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    codes = {"interpreter alone": "pass", "lineprofiler": "import lineprofiler"}
    codes["lineprofiler.accounting"] = "import lineprofiler.accounting"
    best = dict.fromkeys(codes, float("inf"))
    for _ in range(options.rounds):
        for name, code in codes.items():
            best[name] = min(best[name], start_ms(code))
    edge, gap, end = ("| ", " | ", " |") if options.markdown else ("", "  ", "")
    print(f"{edge}{'import':24}{gap}{'ms':>8}{gap}{'added ms':>9}{end}")
    if options.markdown:
        print("|---|---:|---:|")
    for name, ms in best.items():
        print(f"{edge}{name:24}{gap}{ms:8.1f}{gap}{ms - best['interpreter alone']:9.1f}{end}")
    added = best["lineprofiler"] - best["interpreter alone"]
    verdict = "met" if added < BAR_MS else "MISSED"
    print(f"\nA5: `import lineprofiler` adds {added:.1f} ms; under {BAR_MS:.0f} ms: {verdict}")


if __name__ == "__main__":
    main()

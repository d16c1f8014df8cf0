"""Run as `python examples/connect_four`, or as `python -m connect_four` from `examples`."""

import sys
from pathlib import Path

if not __package__:  # run as a folder: let it, and the processes it starts, be found by name
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from connect_four.launcher import main

if __name__ == "__main__":
    sys.exit(main())

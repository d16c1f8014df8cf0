"""`python -m lineprofiler`: the same command line as the native `lineprofiler`."""

import sys

from lineprofiler import _core

if __name__ == "__main__":
    sys.exit(_core.cli(["lineprofiler", *sys.argv[1:]]))

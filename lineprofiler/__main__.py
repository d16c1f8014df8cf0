"""`python -m lineprofiler`: the same command line as the native `lineprofiler`."""

import signal
import sys

from lineprofiler import _core

if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        from lineprofiler import _lines_script

        _lines_script.main(sys.argv[2:])
        sys.exit()
    # The interpreter would see a ^C only after the command's end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.cli(["lineprofiler", *sys.argv[1:]]))

"""`python -m lineprofiler`: the same command line as the native `lineprofiler`."""

import signal
import sys

from lineprofiler import _core


def main(words: list[str], replaces: bool = True) -> None:
    """Run the command line that follows the command's name; ends by an exception or SystemExit.

    replaces: sys.path[0] is ours, and gives way to that of a program that is run.
    """
    if words[:1] == ["run"]:
        from lineprofiler import _lines_script

        _lines_script.main(words[1:], replaces)
        sys.exit()
    # The interpreter would see a ^C only after the command's end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.cli(["lineprofiler", *words]))


if __name__ == "__main__":
    main(sys.argv[1:])

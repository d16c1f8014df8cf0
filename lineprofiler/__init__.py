"""Where the time of a multi-process training run goes, and that of a block of code, by lines.

`lineprofiler.accounting` records phases that the program names, `lineprofiler.testing` asserts on
what was recorded; `LineProfiler` measures lines. All are imported when first used, and so is the
native core.

To pytest, which would else warn when this is imported before its plugin: PYTEST_DONT_REWRITE.
"""

__all__ = [
    "LineProfiler",
    "__version__",
    "accounting",
    "get_include",
    "get_library_dir",
    "lines",
    "start_profiling",
    "stop_profiling",
    "testing",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lineprofiler import accounting, lines, testing
    from lineprofiler._core import __version__
    from lineprofiler.lines import LineProfiler, start_profiling, stop_profiling
else:
    _HOMES = {
        "__version__": "_core",
        "LineProfiler": "lines",
        "start_profiling": "lines",
        "stop_profiling": "lines",
    }

    def __getattr__(name):
        if name in _HOMES:
            home = __getattr__(_HOMES[name])
            return globals().setdefault(name, getattr(home, name))
        if name == "_core":
            try:
                return __import__("lineprofiler._core")._core
            except ModuleNotFoundError:
                raise ImportError(
                    f"{__path__[0]!r} holds the sources of lineprofiler only, and hides what is "
                    "installed: start the program in another folder, or install lineprofiler first"
                ) from None
        if name in ("accounting", "lines", "testing"):
            return getattr(__import__(f"lineprofiler.{name}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


def get_include() -> str:
    """Return the folder of the C and C++ headers, for the include path of a build.

    ``python -m lineprofiler config`` tells that to builds in other languages.
    """
    return _in_package("include")


def get_library_dir() -> str:
    """Return the folder of liblineprofiler.so, which programs in C and C++ link.

    Extension modules of Python link nothing: they include <lineprofiler_python.h>.
    """
    return _in_package("lib")


def _in_package(name: str) -> str:
    import os  # Loaded by the interpreter itself, before any program.

    return os.path.join(os.path.abspath(__path__[0]), name)


def load_ipython_extension(ipython: "Any") -> None:
    """Give an IPython shell the magic %%lineprofile: ``%load_ext lineprofiler`` calls this."""
    from lineprofiler import _lines_magic

    _lines_magic.load(ipython)

"""Where the time of a multi-process training run goes.

`lineprofiler.accounting` records phases that the program names. It is imported when first used.
"""

from lineprofiler._core import __version__

__all__ = ["__version__", "accounting"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lineprofiler import accounting
else:

    def __getattr__(name):
        if name == "accounting":
            import importlib

            return importlib.import_module("lineprofiler.accounting")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

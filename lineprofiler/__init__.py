"""Where the time of a multi-process training run goes.

`lineprofiler.accounting` records phases that the program names, `lineprofiler.testing` asserts on
what was recorded. Both are imported when first used, and so is the native core.

To pytest, which would else warn when this is imported before its plugin: PYTEST_DONT_REWRITE.
"""

__all__ = ["__version__", "accounting", "testing"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lineprofiler import accounting, testing
    from lineprofiler._core import __version__
else:

    def __getattr__(name):
        import importlib

        if name == "__version__":
            globals()[name] = __getattr__("_core").__version__
            return globals()[name]
        if name == "_core":
            try:
                return importlib.import_module("lineprofiler._core")
            except ModuleNotFoundError:
                raise ImportError(
                    f"{__path__[0]!r} holds the sources of lineprofiler only, and hides what is "
                    "installed: start the program in another folder, or install lineprofiler first"
                ) from None
        if name in ("accounting", "testing"):
            return importlib.import_module(f"lineprofiler.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})

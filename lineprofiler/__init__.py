"""Where the time of a multi-process training run goes."""

from lineprofiler._core import __version__

__all__ = ["__version__"]

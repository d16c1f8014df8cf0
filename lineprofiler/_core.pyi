"""The native core; see src/python/module.c."""

__version__: str

def cli(argv: list[str], /) -> int:
    """Run one command line and return its exit status."""

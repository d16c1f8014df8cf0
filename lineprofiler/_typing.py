"""What annotations need while a program runs; the import of typing would take milliseconds."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload
else:

    def overload(func):
        """Return the function."""
        return func


__all__ = ["overload"]

"""Plain objects with named attributes, as reading a run returns them."""

from __future__ import annotations

from lineprofiler import _nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class _Frozen:
    """Attributes that are set once, by _set()."""

    __slots__ = ()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} objects are not to be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} objects are not to be changed")


class _Record(_Frozen):
    """Attributes named by __slots__, given by keyword; equal if all of them are."""

    __slots__: tuple[str, ...] = ()

    _names: ClassVar[frozenset[str]] = frozenset()
    """All of them, those of the classes above included."""

    def __init_subclass__(cls) -> None:
        cls._names = cls._names.union(cls.__slots__)

    def __init__(self, **fields: Any) -> None:
        if fields.keys() != self._names:
            missing = self._names - fields.keys()
            wrong = ", ".join(sorted(missing or fields.keys() - self._names))
            what = "needs" if missing else "has no"
            raise TypeError(f"{type(self).__name__} {what} {wrong}")
        self._set(**fields)

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(self._names)}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, _Record):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self._names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = self._fields().items()
        inside = ", ".join(f"{name}={_nearest.short_repr(value)}" for name, value in fields)
        return f"{type(self).__name__}({inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self._fields())


def _same(one: object, other: object) -> bool:
    """Whether they are equal; a figure that there is not (NaN) is that of a copy too."""
    return one == other or (one != one and other != other)


def _restore(kind: type[_Record], fields: dict[str, Any]) -> _Record:
    return kind(**fields)

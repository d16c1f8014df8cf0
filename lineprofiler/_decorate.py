"""Makes each call of a function an entry of a phase.

What is returned is a function of the same kind - plain, coroutine, generator, asynchronous
generator - so that whoever asks for the kind gets the same answer. The phase of a generator is open
from the first step of its body until the body ends.
"""

from __future__ import annotations

from lineprofiler import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
    from typing import Any

    Enter = Callable[[], _core.Phase]

# Of code.co_flags, see the module inspect, whose import would take the program milliseconds.
_GENERATOR = 0x20
_COROUTINE = 0x80
_ITERABLE_COROUTINE = 0x100
_ASYNC_GENERATOR = 0x200
_KINDS = _GENERATOR | _COROUTINE | _ITERABLE_COROUTINE | _ASYNC_GENERATOR


def decorate(function: Callable[..., Any], enter: Enter) -> Callable[..., Any]:
    """Return a function that calls `function` inside the phase that `enter` returns.

    TypeError: it cannot be called, or is a class.
    """
    if isinstance(function, staticmethod | classmethod):
        return type(function)(decorate(function.__func__, enter))
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"a function can be profiled, not {function!r}")
    flags = _flags(function)
    if flags & _COROUTINE:
        made = _coroutine(function, enter)
    elif flags & _ASYNC_GENERATOR:
        made = _async_generator(function, enter)
    elif flags & _GENERATOR and not flags & _ITERABLE_COROUTINE:
        made = _generator(function, enter)
    else:
        made = _plain(function, enter)
    import functools  # here, since it loads much, and many programs decorate nothing

    return functools.wraps(function)(made)


def inside(function: Callable[..., Any], enter: Enter) -> Callable[..., Any]:
    """Return what decorate() does, for a plain function without a frame of ours in tracebacks.

    It is no function then, so it is for who only calls it.
    """
    if _flags(function):
        return decorate(function, enter)
    import functools

    made = functools.partial(_core.call_inside, enter, function)
    return functools.update_wrapper(made, function)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that a function's phase has by itself."""
    inner = function.__func__ if isinstance(function, staticmethod | classmethod) else function
    inner = _without_partial(inner)
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) and name else type(inner).__name__


def _without_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    import functools

    while isinstance(function, functools.partial):
        function = function.func
    return function


def _flags(function: Callable[..., Any]) -> int:
    """Return the flags of the code that a call runs, or of a callable object's __call__."""
    function = _without_partial(function)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__dict__.get("__call__"), "__code__", None)
    return int(getattr(code, "co_flags", 0)) & _KINDS


def _plain(function: Callable[..., Any], enter: Enter) -> Callable[..., Any]:
    def profiled(*args: Any, **kwargs: Any) -> Any:
        with enter():
            return function(*args, **kwargs)

    return profiled


def _coroutine(function: Callable[..., Awaitable[Any]], enter: Enter) -> Callable[..., Any]:
    async def profiled(*args: Any, **kwargs: Any) -> Any:
        with enter():
            return await function(*args, **kwargs)

    return profiled


def _generator(
    function: Callable[..., Generator[Any, Any, Any]], enter: Enter
) -> Callable[..., Any]:
    def profiled(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with enter():
            return (yield from function(*args, **kwargs))

    return profiled


def _async_generator(
    function: Callable[..., AsyncGenerator[Any, Any]], enter: Enter
) -> Callable[..., Any]:
    async def profiled(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with enter():
            inner = function(*args, **kwargs)
            try:
                step = inner.__anext__()
                while True:
                    try:
                        value = await step
                    except StopAsyncIteration:
                        return
                    try:
                        sent = yield value
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step = inner.athrow(error)
                    else:
                        step = inner.asend(sent)
            finally:
                await inner.aclose()

    return profiled

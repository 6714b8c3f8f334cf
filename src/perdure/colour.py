"""Whether a callable is async, looked at through partials, callable objects and wrappers.

A plain function may still return a coroutine (a lambda, a ``singledispatch`` front); the drivers look at what
it returned, see ``is_awaitable``.
"""

from __future__ import annotations

import sys
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, GeneratorType, MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SYNC, ASYNC, GENERATOR, ASYNC_GENERATOR = "sync", "async", "generator", "async generator"

_CO_GENERATOR = 0x20
_CO_COROUTINE = 0x80
_CO_ITERABLE_COROUTINE = 0x100
_CO_ASYNC_GENERATOR = 0x200


def colour(function: Callable[..., object]) -> str:
    """One of sync, async, generator, async generator, by what the callable is made of."""
    marked = _marked_coroutine(function) or _says_coroutine(function)
    code = underlying(function)
    if code is None:
        return ASYNC if marked else SYNC
    if marked or code.co_flags & (_CO_COROUTINE | _CO_ITERABLE_COROUTINE):
        return ASYNC
    if code.co_flags & _CO_ASYNC_GENERATOR:
        return ASYNC_GENERATOR
    return GENERATOR if code.co_flags & _CO_GENERATOR else SYNC


def underlying(function: object) -> CodeType | None:
    """The code that a call would run, through bound methods, partials and ``__call__``; None for C code."""
    for _ in range(16):  # nobody nests partials this deep; a cycle ends here
        if isinstance(function, FunctionType):
            return function.__code__
        if isinstance(function, MethodType):
            function = function.__func__
        elif _is_partial(function):
            function = getattr(function, "func", None)
        else:
            kind: type = type(function)
            call = next((vars(cls)["__call__"] for cls in kind.__mro__ if "__call__" in vars(cls)), None)
            if isinstance(function, type) or not isinstance(call, FunctionType):
                return None
            function = call
    return None


def is_awaitable(value: object) -> bool:
    """Whether a returned value must be awaited; a plain generator is not."""
    kind = type(value)
    if kind is GeneratorType:  # made by types.coroutine: await takes it
        return bool(value.gi_code.co_flags & _CO_ITERABLE_COROUTINE)  # type: ignore[attr-defined] # by kind
    return kind is CoroutineType or hasattr(kind, "__await__")


def discard(value: object) -> None:
    """Close an awaitable that nobody will await, so that Python does not warn about it."""
    close = getattr(value, "close", None)
    if isinstance(value, (CoroutineType, GeneratorType)) and close is not None:
        close()


def is_coroutine_function(function: object) -> bool:
    """Whether calling it gives something to await or to iterate asynchronously, as no hook may."""
    return callable(function) and colour(function) in {ASYNC, ASYNC_GENERATOR}


class OneShot:
    """Tells of something that can be sent once, such as the body of a request, whether it was begun."""

    __slots__ = ("is_begun",)

    def __init__(self) -> None:
        self.is_begun = False


ONE_SHOT = frozenset({GeneratorType, CoroutineType, AsyncGeneratorType, OneShot})
"""The types of which ``started`` can say yes."""


def started(value: object) -> bool:
    """Whether a generator, coroutine or one-shot was already begun, so that it cannot be replayed."""
    if isinstance(value, GeneratorType):
        return value.gi_running or value.gi_suspended or value.gi_frame is None
    if isinstance(value, CoroutineType):
        return value.cr_running or value.cr_suspended or value.cr_frame is None
    if isinstance(value, AsyncGeneratorType):
        return value.ag_running or value.ag_frame is None or _async_generator_suspended(value)
    return type(value) is OneShot and value.is_begun


def _async_generator_suspended(value: Any) -> bool:
    suspended: bool | None = getattr(value, "ag_suspended", None)
    if suspended is not None:
        return suspended
    # Python 3.11 does not say; a fresh one stands at the instruction that made it.
    from opcode import opmap

    frame = value.ag_frame
    return frame is not None and frame.f_code.co_code[frame.f_lasti] != opmap["RETURN_GENERATOR"]


def _marked_coroutine(function: object) -> bool:
    """``inspect.markcoroutinefunction`` (3.12) sets this on functions that return coroutines."""
    inspect = sys.modules.get("inspect")  # without which nobody can have marked it
    mark = getattr(inspect, "_is_coroutine_mark", None)
    return mark is not None and getattr(function, "_is_coroutine_marker", None) is mark


def _says_coroutine(function: object) -> bool:
    """Whether an object that is no function has the flags of a coroutine's code, as AsyncMock does."""
    if isinstance(function, (FunctionType, MethodType)):
        return False
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    return isinstance(flags, int) and bool(flags & _CO_COROUTINE)


def _is_partial(function: object) -> bool:
    return (
        type(function).__name__ in {"partial", "partialmethod"} and type(function).__module__ == "functools"
    )

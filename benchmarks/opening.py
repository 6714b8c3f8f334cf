"""Opens a breaker as its users would see it open: by calling a function that fails until it is not called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from benchmarks.targets import Function

_PATIENCE = 200


class NeverOpened(Exception):
    """So many failures in a row, and the function is still called."""


def open_breaker(function: Function, colour: str, loop: asyncio.AbstractEventLoop) -> int:
    """Call ``function``, whose target raises ``OSError``, until something else is raised; gives the failures.

    Raises:
        NeverOpened: the target is still called after 200 failures.
    """
    for failures in range(_PATIENCE):
        if not isinstance(error_of(function, colour, loop), OSError):
            return failures
    raise NeverOpened(f"{_PATIENCE} failures in a row did not open it")


def error_of(function: Function, colour: str, loop: asyncio.AbstractEventLoop) -> Exception | None:
    """Call once and give what it raised."""

    async def call() -> None:
        result: Any = function(1)
        if colour == "async":
            await result

    try:
        if colour == "async":
            loop.run_until_complete(call())
        else:
            function(1)
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        return error
    return None

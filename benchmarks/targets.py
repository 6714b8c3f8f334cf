"""The functions that get retried. Each maker returns a new function, so that no two contenders share one."""

import asyncio
from collections.abc import Callable
from itertools import cycle
from typing import Any

Function = Callable[..., Any]


def own_sync() -> Function:
    def target(x: int, y: int = 0) -> int:
        return x

    return target


def own_async() -> Function:
    async def target(x: int, y: int = 0) -> int:
        return x

    return target


def own_async_suspending() -> Function:
    """Gives the loop one turn. That alone costs more than most of the wrappers."""

    async def target(x: int, y: int = 0) -> int:
        await _one_turn()
        return x

    return target


def generic_sync() -> Function:
    def target(*args: int, **kwargs: int) -> int:
        return args[0]

    return target


def generic_async() -> Function:
    async def target(*args: int, **kwargs: int) -> int:
        return args[0]

    return target


def fails_twice_sync() -> Function:
    """Fails, fails, succeeds, for ever: a wrapper that makes three attempts succeeds on every call."""
    fails = cycle((True, True, False))

    def target(x: int, y: int = 0) -> int:
        if next(fails):
            raise OSError("down")
        return x

    return target


def fails_twice_async() -> Function:
    fails = cycle((True, True, False))

    async def target(x: int, y: int = 0) -> int:
        if next(fails):
            raise OSError("down")
        return x

    return target


# Bound before any benchmark replaces asyncio.sleep: the target's turn of the loop must stay a real one.
_sleep = asyncio.sleep


async def _one_turn() -> None:
    await _sleep(0)


def down_sync() -> Function:
    """Always fails, in a way that everybody takes for a failure of the other side."""

    def target(x: int, y: int = 0) -> int:
        raise ConnectionResetError(104, "Connection reset by peer")

    return target


def down_async() -> Function:
    async def target(x: int, y: int = 0) -> int:
        raise ConnectionResetError(104, "Connection reset by peer")

    return target

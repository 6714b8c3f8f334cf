"""The few things that asyncio and trio spell differently, for tests that hold on both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.testing import VirtualClock

LOOPS = ("asyncio", "trio")


async def turn(loop: str) -> None:
    """Let the other tasks run."""
    if loop.startswith("trio"):
        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)


async def forever(loop: str) -> None:
    """Wait for what never comes."""
    if loop.startswith("trio"):
        await trio.sleep_forever()
    await asyncio.Event().wait()


async def cancelled_after(
    loop: str, clock: VirtualClock, seconds: float, work: Callable[[], Awaitable[Any]]
) -> None:
    """Run ``work()`` in a task of its own, and cancel that from outside after a while."""
    if loop.startswith("trio"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            await clock.asleep(seconds)
            nursery.cancel_scope.cancel()
        return
    task = asyncio.ensure_future(work())
    await clock.asleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def together(loop: str, *works: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Run all in tasks of their own, until all have ended; what each returned, in order."""
    if not loop.startswith("trio"):
        return list(await asyncio.gather(*(work() for work in works)))
    results: list[Any] = [None] * len(works)

    async def keep(index: int, work: Callable[[], Awaitable[Any]]) -> None:
        results[index] = await work()

    async with trio.open_nursery() as nursery:
        for index, work in enumerate(works):
            nursery.start_soon(keep, index, work)
    return results

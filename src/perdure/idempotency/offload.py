"""Disk work of async callers in a thread: asyncio and trio."""

from __future__ import annotations

from perdure.engine import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["in_thread"]


async def in_thread(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run ``work`` in a thread and give what it gives.

    On asyncio, a caller that is cancelled leaves at once, and ``undo`` gets the result that nobody wants any more
    (in a thread too). On trio the caller is cancelled before the work or after it.
    """
    if waiting.in_trio():
        import trio

        return await trio.to_thread.run_sync(work)
    import asyncio
    from contextvars import copy_context

    loop = asyncio.get_running_loop()
    doing: Future[T] = loop.run_in_executor(None, copy_context().run, work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        if undo is not None:
            doing.add_done_callback(lambda done: _undo(done, undo))
        raise


def _undo(done: Future[T], undo: Callable[[T], object]) -> None:
    if done.cancelled() or done.exception() is not None:
        return
    try:
        done.get_loop().run_in_executor(None, undo, done.result())
    except RuntimeError:  # the loop ends: what is left shows as unfinished
        pass

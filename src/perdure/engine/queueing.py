"""Waiting for a turn: a pause of some seconds that somebody else may end early, in any colour.

Sync and async callers stand in the same queues, so whoever gives up a place wakes the next one without knowing
what it is: a thread, an asyncio task of some loop, a trio task.
"""

from __future__ import annotations

from _thread import allocate_lock

from perdure import clock
from perdure.engine import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Pause", "wake"]

_NEVER = float("inf")


class Pause:
    """A wait of ``duration`` seconds, or until ``wake()``. Waited for by one caller; woken from anywhere."""

    __slots__ = ("duration", "is_woken", "ring")

    def __init__(self, duration: float) -> None:
        self.duration = duration
        self.is_woken = False
        self.ring: Callable[[], object] | None = None

    def wake(self) -> None:
        """End the wait; before it began, too."""
        self.is_woken = True
        ring = self.ring
        if ring is not None:
            try:
                ring()
            except RuntimeError:
                pass  # rung already, or its loop is closed

    def wait(self) -> None:
        """Wait in a thread."""
        bell = allocate_lock()
        bell.acquire()
        self.ring = bell.release
        waiting.QUEUED.add(self)
        try:
            if self.is_woken or clock.is_closed():
                return
            if clock.virtual is None:
                clock.wait_for(bell, self.duration)
            elif not bell.acquire(timeout=0.01):  # other threads are real, and may be about to wake this one
                self._wait_virtually(bell)
        finally:
            waiting.QUEUED.discard(self)
            self.ring = None

    def hold(self) -> None:
        """Wait in a thread until woken, however long: not even a closing process ends it."""
        bell = allocate_lock()
        bell.acquire()
        self.ring = bell.release
        try:
            if not self.is_woken:
                bell.acquire()
        finally:
            self.ring = None

    def _wait_virtually(self, bell: Any) -> None:
        if self.duration < _NEVER:
            clock.sleep(self.duration)
        else:
            clock.wait_for(bell, _NEVER)

    async def wait_async(self) -> None:
        """Wait in a task, of asyncio or trio."""
        waiting.QUEUED.add(self)
        try:
            if waiting.in_trio():
                await self._in_trio()
            else:
                await self._in_asyncio()
        finally:
            waiting.QUEUED.discard(self)
            self.ring = None

    async def _in_asyncio(self) -> None:
        loop = waiting.running_loop()
        future = loop.create_future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        self.ring = lambda: loop.call_soon_threadsafe(done)
        if self.is_woken or clock.is_closed():
            return
        timer = None if self.duration == _NEVER else loop.call_later(self.duration, done)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()

    async def _in_trio(self) -> None:
        import trio

        event, token = trio.Event(), trio.lowlevel.current_trio_token()
        self.ring = lambda: token.run_sync_soon(event.set)
        if self.is_woken or clock.is_closed():
            await trio.lowlevel.checkpoint()
        elif clock.virtual is None:
            with trio.move_on_after(self.duration):
                await event.wait()
        elif self.duration == _NEVER:
            await event.wait()
        else:
            timer = clock.virtual.call_later(self.duration, event.set)
            try:
                await event.wait()
            finally:
                timer.cancel()


def wake(pause: Any) -> None:
    """Wake whoever was given a place, if anybody was."""
    if pause is not None:
        pause.wake()

"""Waiting and interrupting in async code: asyncio and trio, real time and virtual time.

On asyncio the waits of one loop that fall due in the same millisecond share one timer, and a wait is a bare
future that the driver awaits itself: 100,000 waiting tasks cost little more than their tasks. All waits end
at once when the process shuts down.
"""

from __future__ import annotations

import sys
from math import ceil

from perdure import bypass, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Generator
    from typing import Any

    import trio

    Loop = asyncio.AbstractEventLoop

TICKS = 1000.0  # per second: waits are rounded up to the next millisecond, never down

_loops: dict[Any, LoopWaits] = {}
_bells: set[tuple[trio.lowlevel.TrioToken, trio.Event]] = set()
QUEUED: set[Any] = set()
"""The pauses that wait in some queue, each with ``wake()``."""


class LoopWaits:
    """The waits of one asyncio loop, by the tick on which they end."""

    __slots__ = ("due", "loop")

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.due: dict[int, list[asyncio.Future[None]]] = {}

    def after(self, duration: float) -> asyncio.Future[None]:
        """A future that is done ``duration`` seconds from now."""
        loop = self.loop
        tick = ceil((loop.time() + duration) * TICKS)
        future = loop.create_future()
        waiting = self.due.get(tick)
        if waiting is None:
            self.due[tick] = [future]
            loop.call_at(tick / TICKS, self._ring, tick)
        else:
            waiting.append(future)
        return future

    def wake_all(self) -> None:
        """End every wait now."""
        for tick in tuple(self.due):
            self._ring(tick)

    def _ring(self, tick: int) -> None:
        for future in self.due.pop(tick, ()):
            if not future.done():
                future.set_result(None)


class _Yield:
    """An awaitable that lets the other tasks of an asyncio loop run once."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


YIELD = _Yield()


def wait(duration: float) -> Awaitable[None]:
    """What to await to wait ``duration`` seconds; less only when the process closes.

    Even without a delay the other tasks get their turn, so that a function which fails without waiting for
    anything does not keep the loop to itself.
    """
    if in_trio():
        return _trio_wait(duration)
    if duration <= 0 or clock.closed:
        return YIELD
    loop = running_loop()
    waits = _loops.get(loop)
    if waits is None:
        waits = _new_loop(loop)
    future = waits.after(duration)
    if clock.is_closed() and not future.done():  # looked at again: whoever closed may have looked before
        future.set_result(None)
    return future


def wake_all() -> None:
    """End every async wait that is going on, in whichever thread its loop runs."""
    for loop, waits in tuple(_loops.items()):
        if not loop.is_closed():
            _from_outside(loop.call_soon_threadsafe, waits.wake_all)
    for token, bell in tuple(_bells):
        _from_outside(token.run_sync_soon, bell.set)
    for pause in tuple(QUEUED):
        pause.wake()


def known_loops() -> list[Any]:
    """The asyncio loops that have waited here and are still open."""
    return [loop for loop in tuple(_loops) if not loop.is_closed()]


def in_trio() -> bool:
    """Whether this is a trio task; never imports trio."""
    module = sys.modules.get("trio")
    if module is None:
        return False
    try:
        return bool(module.lowlevel.in_trio_task())
    except AttributeError:  # another thread is about to import it
        return False


def running_loop() -> Loop:
    """The running asyncio loop."""
    import asyncio

    return asyncio.get_running_loop()


def maybe_loop() -> Loop | None:
    """The running asyncio loop, or None; never imports asyncio."""
    module = sys.modules.get("asyncio")
    if module is None:
        return None
    try:
        return module._get_running_loop()  # type: ignore[no-any-return] # asyncio's own function
    except AttributeError:  # another thread is about to import it
        return None


def current_task() -> object:
    """The running asyncio or trio task, or None."""
    if in_trio():
        import trio

        return trio.lowlevel.current_task()
    loop = maybe_loop()
    if loop is None:
        return None
    import asyncio

    return asyncio.current_task(loop)


def _new_loop(loop: Loop) -> LoopWaits:
    for old in tuple(_loops):
        if old.is_closed():
            _loops.pop(old, None)
    waits = _loops[loop] = LoopWaits(loop)
    return waits


async def _trio_wait(duration: float) -> None:
    import trio

    if duration <= 0 or clock.closed:
        await trio.lowlevel.checkpoint()
        return
    entry = (trio.lowlevel.current_trio_token(), trio.Event())
    _bells.add(entry)
    try:
        if clock.is_closed():  # looked at again: whoever closed may have looked before the bell was there
            await trio.lowlevel.checkpoint()
        elif clock.virtual is not None:
            handle = clock.virtual.call_later(duration, entry[1].set)
            try:
                await entry[1].wait()
            finally:
                handle.cancel()
        else:
            with trio.move_on_after(duration):
                await entry[1].wait()
    finally:
        _bells.discard(entry)


def _from_outside(call: Callable[..., object], *args: object) -> None:
    try:
        call(*args)
    except Exception:  # noqa: BLE001, S110 - the loop ended or crashed in the meantime, and its waits with it
        pass


def _forget() -> None:
    _loops.clear()
    _bells.clear()
    QUEUED.clear()


bypass.after_fork(_forget)

"""A clock that tests own: waiting costs no time, and every run is the same.

Sync waits advance it at once. On asyncio the loop's own clock becomes virtual too, so ``asyncio.sleep`` and
timeouts of the code under test are on it: when a loop has nothing left to do but wait, the time jumps to its
next timer. On trio, perdure's waits and timeouts are virtual (``trio.sleep`` is not: use ``clock.asleep``):
when all tasks are blocked, the time jumps to the next of them.
"""

from __future__ import annotations

import math
import time
from heapq import heappop, heappush
from itertools import count
from random import Random

from perdure import bypass, clock
from perdure.engine import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import BaseEventLoop
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self

__all__ = ["VirtualClock"]

PATIENCE = 50  # hundredths of a second in which a thread may do something before the time moves on
WALL = 1_900_000_000.0
"""What the wall clock says when a virtual clock starts: 17 March 2030, 17:46:40 UTC."""


class VirtualClock:
    """Replaces time and randomness of the whole process: ``with VirtualClock(seed=1) as clock: ...``.

    ``now`` is in seconds from the start, ``waits`` lists the sync waits, ``advance(s)`` moves the time on, and
    ``seed`` fixes every draw. Works as ``async with`` too, inside a running loop or around ``asyncio.run`` and
    ``trio.run``. Loops other than asyncio's own (uvloop) keep their real time.

    Process-wide, so one at a time: entering a second one raises RuntimeError. With several threads, each sync
    wait advances the common time.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed: int = seed
        self.now: float = 0.0
        self.waits: list[float] = []
        self.random: Random = Random(seed)
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order: count[int] = count()
        self._pumps: set[object] = set()
        self._patience = PATIENCE
        self._restore: list[Callable[[], None]] = []

    def advance(self, seconds: float) -> None:
        """Move the time on by ``seconds`` (>= 0), letting what falls due on the way happen at its time."""
        if not 0 <= seconds < float("inf"):
            from perdure.errors import ConfigError

            raise ConfigError(f"seconds must be a finite number >= 0, got {seconds!r}")
        self._move_to(self.now + seconds)
        for loop in waiting.known_loops():
            loop.call_soon_threadsafe(_nothing)

    def sleep(self, seconds: float) -> None:
        """Let time pass, for the sync code of a test: work that takes so long."""
        if seconds > 0:
            self.waits.append(seconds)
            self._move_to(self.now + seconds)

    async def asleep(self, seconds: float) -> None:
        """Let time pass, for the async code of a test; works on asyncio and trio."""
        await apass(seconds)

    def _wait(self, seconds: float) -> None:
        """A wait of the library, which ends when the process closes."""
        if not clock.closed:
            self.sleep(seconds)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> _Timer:
        """Have ``callback()`` called after ``delay`` seconds; returns a handle with ``cancel()``."""
        timer = _Timer(callback)
        heappush(self._timers, (self.now + delay, next(self._order), timer))
        if waiting.in_trio():
            self._start_pump()
        return timer

    def __enter__(self) -> Self:
        if clock.virtual is not None:
            raise RuntimeError("a virtual clock is in force already; one holds for the whole process")
        before = (clock.monotonic, clock.wall, clock.random, clock.sleep)

        def restore() -> None:
            clock.monotonic, clock.wall, clock.random, clock.sleep = before
            clock.virtual = None
            clock.epoch += 1
            bypass.release("virtual clock")

        self._restore = [restore, _patch_asyncio(self), _patch_hints(self)]
        clock.monotonic = lambda: self.now + 0.0  # a new object each time: it is also a call's token
        clock.wall = lambda: WALL + self.now
        clock.random = self.random.random
        clock.sleep = self._wait
        clock.virtual = self
        clock.epoch += 1
        bypass.hold("virtual clock")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for restore in self._restore:
            restore()
        self._restore = []

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _move_to(self, then: float) -> None:
        while self._timers and self._timers[0][0] <= then:
            due, _, timer = heappop(self._timers)
            self.now = max(self.now, due)
            timer.ring()
        self.now = max(self.now, then)

    def jump(self, loop: Any) -> None:
        """Where an asyncio loop would block until its next timer, let that moment be now."""
        if loop._ready or loop._stopping:
            self._patience = PATIENCE
            return
        if _threads_work(loop) and self._patience > 0:
            # In real time; but a thread that waits for a task on this clock would wait for ever.
            self._patience -= 1
            loop._process_events(loop._selector.select(0.01))
            loop.call_soon(_nothing)
            return
        self._drop_cancelled()
        timers = [handle._when for handle in loop._scheduled if not handle._cancelled]
        when = min([*timers, *(due for due, _, _ in self._timers[:1])], default=None)
        if when is None or when < self.now or (when == self.now and when in timers):
            return
        events = loop._selector.select(0)
        if events:
            loop._process_events(events)
            return
        # Far out, where floats are coarse, the loop takes a timer as due only after its moment.
        self._move_to(when if when + loop._clock_resolution > when else math.nextafter(when, math.inf))

    def _drop_cancelled(self) -> None:
        while self._timers and not self._timers[0][2].is_on:
            heappop(self._timers)

    def _start_pump(self) -> None:
        import trio

        token = trio.lowlevel.current_trio_token()
        if token not in self._pumps:
            self._pumps.add(token)
            trio.lowlevel.spawn_system_task(self._pump, token)

    async def _pump(self, token: object) -> None:
        """Move the time on whenever all trio tasks wait; ends when nothing waits on this clock."""
        import trio
        from trio.testing import wait_all_tasks_blocked

        try:
            while self._timers:
                await wait_all_tasks_blocked()
                self._drop_cancelled()
                if trio.to_thread.current_default_thread_limiter().borrowed_tokens and self._patience > 0:
                    self._patience -= 1
                    await trio.sleep(0.01)  # a thread works for some task: in real time, for a while
                elif self._timers:
                    self._patience = PATIENCE
                    self._move_to(self._timers[0][0])
        finally:
            self._pumps.discard(token)


def _threads_work(loop: Any) -> bool:
    """Whether threads of the loop's own pool are at work for it, which takes real time."""
    pool = loop._default_executor
    if pool is None:
        return False
    busy = bool(pool._work_queue.qsize()) or len(pool._threads) > pool._idle_semaphore._value
    return bool(loop._executor_shutdown_called or busy)


def pass_time(seconds: float) -> None:
    """Spend ``seconds`` on the clock in force, whatever happens meanwhile."""
    if clock.virtual is not None:
        clock.virtual.sleep(seconds)
    else:
        time.sleep(seconds)


async def apass(seconds: float) -> None:
    """The same for async code, on asyncio and trio."""
    if not waiting.in_trio():
        import asyncio

        await asyncio.sleep(seconds)  # on the virtual clock too, where the loop is
        return
    import trio

    if clock.virtual is None:
        await trio.sleep(seconds)
        return
    bell = trio.Event()
    handle = clock.virtual.call_later(seconds, bell.set)
    try:
        await bell.wait()
    finally:
        handle.cancel()


class _Timer:
    """Something to happen at a moment of the virtual clock, unless it is called off."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Call it off."""
        self._callback = None

    @property
    def is_on(self) -> bool:
        """Whether it is still to happen."""
        return self._callback is not None

    def ring(self) -> None:
        """Let it happen."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def _patch_asyncio(virtual: VirtualClock) -> Callable[[], None]:
    """Put every asyncio loop of the process on the virtual clock; returns the way back.

    ``loop.time`` and the one method that waits are replaced on the class, which also reaches loops that run
    already and those that are made later.
    """
    from asyncio import BaseEventLoop as Loop

    real_time, real_once = Loop.time, Loop._run_once  # type: ignore[attr-defined] # the method that waits

    def loop_time(_loop: BaseEventLoop) -> float:
        return virtual.now

    def run_once(loop: BaseEventLoop) -> None:
        virtual.jump(loop)
        real_once(loop)

    Loop.time, Loop._run_once = loop_time, run_once  # type: ignore[method-assign, assignment, attr-defined] # put back below

    def restore() -> None:
        Loop.time, Loop._run_once = real_time, real_once  # type: ignore[method-assign, attr-defined] # as it was

    return restore


def _patch_hints(virtual: VirtualClock) -> Callable[[], None]:
    """Have dates in Retry-After read against the virtual wall clock."""
    from perdure.faults import hints

    real = hints.wall_clock
    hints.wall_clock = lambda: WALL + virtual.now

    def restore() -> None:
        hints.wall_clock = real

    return restore


def _nothing() -> None:
    """Wake a loop up."""

"""Attempts over a block: ``for attempt in policy: with attempt: ...`` and ``async for``.

Each loop is a run of its own. The block's error is swallowed by ``with attempt`` while attempts remain, and
the loop waits before it gives the next one.
"""

from __future__ import annotations

import sys

from perdure import clock
from perdure.engine import aio, ambient, frames, sync, timers
from perdure.engine.guard import Guard
from perdure.engine.guarded import GuardedRun
from perdure.engine.run import Run
from perdure.errors import ResultRejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from types import FrameType, TracebackType
    from typing import Self, TypeVar

    from perdure.policies import Retry

    T = TypeVar("T")


class Attempt:
    """One attempt of a block: ``with attempt: ...`` (``async with`` works as well).

    ``number`` counts from 1. Belongs to the task or thread of its loop.
    """

    __slots__ = (
        "_around",
        "_block",
        "_caller",
        "_end",
        "_entered",
        "_frame",
        "_interrupts",
        "_lease",
        "_left",
        "_limit",
        "_mode",
        "_run",
        "_swallow",
        "_where",
        "number",
    )

    def __init__(self, run: Run, *, interrupts: bool) -> None:
        self.number: int = run.number
        self._around: Attempt | None = None  # the block it is entered in
        self._frame: int = 0  # the id of the frame that entered it
        self._where: tuple[int, object] = (0, None)  # and its thread and task
        self._run: Run = run
        self._interrupts: bool = interrupts
        self._limit: float | None = run.attempt_timeout()
        self._lease: timers.Lease | timers.TrioLease | None = None
        self._end: tuple[ambient.End, Token[ambient.End | None]] | None = None
        self._block: Token[Attempt | None] | None = None
        self._mode: tuple[ambient.Mode, Token[ambient.Mode | None]] | None = None
        self._caller: ambient.End | None = None
        self._swallow: bool = False
        self._entered: bool = False
        self._left: bool = False

    @property
    def timeout(self) -> float | None:
        """Seconds this attempt may take: the attempt timeout or the time to the nearest end; None: no bound."""
        bounds = [bound for bound in (self._limit, ambient.time_left()) if bound is not None]
        return min(bounds, default=None)

    @property
    def time_left(self) -> float | None:
        """Seconds until the policy's deadline or the nearest end, whichever comes first; None: neither is set."""
        run, end = self._run, ambient.time_left()
        deadline = run.policy.deadline
        if deadline is None:
            return end
        left = max(0.0, run.since() + deadline - clock.monotonic())
        return left if end is None else min(left, end)

    def result(self, value: T) -> T:
        """Return ``value``, or raise ResultRejected where ``reject=`` refuses it.

        The block swallows that while attempts remain. With ``on_exhausted="return"`` the last value is
        returned all the same.
        """
        run = self._run
        if run.policy.reject is None or self._accepts(value):
            return value
        if run.stop is not None:
            raise run.take_error()
        self._swallow = True
        raise ResultRejected(value)

    def _accepts(self, value: object) -> bool:
        """Decide about a result as after the attempt, whose own end does not hold then."""
        end = None if self._end is None else self._end[0]
        if end is None:
            return self._run.accepts(value)
        end.open = False
        try:
            return self._run.accepts(value)
        finally:
            end.open = True

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError("an attempt is entered once; the loop gives a new one for each")
        self._entered = True
        run = self._run
        self._frame = id(sys._getframe(1))
        self._where = frames.whereabouts()
        self._around = ambient.BLOCK.get()
        self._block = ambient.BLOCK.set(self)
        frames.BLOCKS[id(self)] = self._where
        if run.policy.nested == "outer":
            self._mode = ambient.quieten(run)
        limit = self._limit
        if self._interrupts:
            limit, self._caller = ambient.bound(limit)
            left = run.left_of_total()
            if left is not None and (limit is None or left < limit):
                limit, self._caller = left, ambient.End(clock.monotonic() + left, None)
            if limit is not None:
                self._lease = timers.arm(limit, shared=self._caller is None and run.policy.shrink == 1.0)
        if limit is not None:
            now = clock.monotonic()
            self._end = ambient.publish(now + limit, self._lease)
            if self._caller is not None:
                own = None if self._limit is None else now + self._limit
                ambient.borrow(self._end[0], self._caller, own, self._lease)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._left = True
        self._leave()
        if self._lease is not None and self._lease.settle(error):
            return self._timed_out(error)
        if self._swallow:
            return isinstance(error, ResultRejected)
        if self._run.stop is not None:  # result() decided already
            return False
        if error is not None:
            return self._run.failure(error)
        self._run.succeed()
        return False

    async def __aenter__(self) -> Self:
        self.__enter__()
        self._frame = id(sys._getframe(1))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.__exit__(kind, error, trace)

    def _timed_out(self, cancelled: BaseException | None) -> bool:
        caller, error = self._caller, None
        if self._end is not None and self._end[0].lender is None and self._limit is not None:
            caller = None  # its end was closed in the meantime, and this is the attempt's own
        cause = cancelled if caller is None else caller.last_failure or cancelled
        try:
            error = aio.timed_out(self._limit or 0.0) if caller is None else aio.caller_is_done()
            if self._run.failure(error):
                return True
            raise error from cause
        finally:
            del error, cause, cancelled

    def _leave(self) -> None:
        frames.BLOCKS.pop(id(self), None)
        if self._end is not None:
            ambient.retract(self._end)
        if self._mode is not None:
            ambient.loosen(self._mode)
        if self._block is not None:
            try:
                ambient.BLOCK.reset(self._block)
            except ValueError:
                pass  # left in another context, as a generator may be: what is set here is not ours
        self._block = self._mode = None


class _Block:
    """What both loops share: the run, and the attempt that was given out last."""

    __slots__ = ("_attempt", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._attempt: Attempt | None = None

    def __del__(self) -> None:
        if self._run.guard is not None:
            self._run.abandon()  # the loop was left before its attempt was entered

    def _goes_on(self) -> bool:
        """Whether another attempt is due; sees to it that the last one was used as meant."""
        attempt = self._attempt
        if attempt is None:
            self._run.begin()
            return True
        if not attempt._left:
            self._run.abandon()
            raise RuntimeError("the body of the loop must run inside `with attempt:`")
        return self._run.stop is None

    def _give(self, *, interrupts: bool) -> Attempt:
        self._attempt = Attempt(self._run, interrupts=interrupts)
        return self._attempt


def _new_run(policy: Retry | Guard, frame: FrameType) -> Run:
    if isinstance(policy, Guard):
        return GuardedRun(policy, frame.f_code, (), {})
    return Run(policy, frame.f_code, (), {})


class Loop(_Block):
    """The iterator of ``for attempt in policy``."""

    __slots__ = ()

    def __init__(self, policy: Retry | Guard) -> None:
        super().__init__(_new_run(policy, sys._getframe(2)))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Attempt:
        if not self._goes_on():
            raise StopIteration
        sync.prepare(self._run)
        return self._give(interrupts=False)


class AsyncLoop(_Block):
    """The iterator of ``async for attempt in policy``."""

    __slots__ = ()

    def __init__(self, policy: Retry | Guard) -> None:
        super().__init__(_new_run(policy, sys._getframe(2)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt:
        if not self._goes_on():
            raise StopAsyncIteration
        await aio.prepare(self._run)
        return self._give(interrupts=True)

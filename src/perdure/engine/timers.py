"""Interrupting async work after a while: attempt timeouts and ``perdure.deadline`` blocks.

All attempts of one policy on one loop have the same timeout, so they fall due in the order in which they began,
and one insertion-ordered dict and one timer serve them all, exactly: the timer is always set to the oldest one.
Other lengths (shrunk timeouts, ends) have a timer of their own.

Outer cancellation stays whole: a lease counts the cancel requests of its task when it begins and takes back
only its own (the protocol of ``asyncio.timeout``; see ``Task.uncancel``).
"""

from __future__ import annotations

import math
import sys

from perdure import bypass, clock
from perdure.engine.ambient import ENDS, give_back
from perdure.engine.waiting import in_trio, maybe_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextvars import Token
    from typing import Any

    from perdure.engine.ambient import End
    from perdure.engine.fused import Site

    Loop = asyncio.AbstractEventLoop

_queues: dict[tuple[Any, float, int], _Queue] = {}


class Lease:
    """The right to run until a moment; afterwards the task is cancelled. Ends with ``settle``."""

    __slots__ = ("at", "cancelling", "end", "fired", "queue", "task", "timer")

    def __init__(self, task: asyncio.Task[Any], at: float, queue: _Queue | None) -> None:
        self.end: End | None = None  # what was published for it, where it was borrowed from another task's
        self.task = task
        self.at = at
        self.queue = queue
        self.timer: asyncio.TimerHandle | None = None
        self.cancelling = task.cancelling()
        self.fired = False

    def alone(self) -> Lease:
        """Give the lease a timer of its own."""
        self.timer = self.task.get_loop().call_later(self.at - clock.monotonic(), self.fire)
        return self

    def fire(self) -> None:
        """The moment has come; unless it was borrowed from an end that is closed by now."""
        if self.end is not None and self.end.lender is not None and not self.end.lender.open:
            give_back(self.end)
            self.timer = None
            if self.end.open and self.end.at is not None:
                self.at = self.end.at
                self.alone()
            return
        self.fired = True
        self.timer = None  # it holds this method, and so this lease
        self.task.cancel()

    def pause(self) -> None:
        """Interrupt nothing until ``resume``."""
        if self.queue is not None:
            self.queue.leases.pop(self, None)
            self.queue = None
        if self.timer is not None:
            self.timer.cancel()

    def resume(self) -> None:
        """Count again; at once where the moment has passed."""
        if not self.fired:
            self.alone()

    def settle(self, error: BaseException | None) -> bool:
        """End the lease; True when ``error`` is the cancellation that this lease asked for, and only that."""
        if not self.fired:
            self.pause()
            return False
        left = self.task.uncancel()
        return left <= self.cancelling and error is not None and _is_cancelled(error)


class AttemptEnd:
    """The lease of an attempt and the end that it is for what runs inside, in one object: see ``open_attempt``.

    What most attempts never change stands on the class: making one has to cost next to nothing.
    """

    __slots__ = ("__dict__", "at", "cancelling", "queue", "task", "token")

    around: End | None = None
    end: End | None = None
    fired: bool = False
    last_failure: BaseException | None = None
    lender: End | None = None
    timer: asyncio.TimerHandle | None = None
    at: float
    cancelling: int
    queue: _Queue | None
    task: asyncio.Task[Any]
    token: Token[Any] | None

    fire, pause, resume, settle, alone = (
        Lease.fire,
        Lease.pause,
        Lease.resume,
        Lease.settle,
        Lease.alone,
    )

    @property
    def open(self) -> bool:
        """Whether the attempt still runs."""
        return self.token is not None

    @property
    def lease(self) -> AttemptEnd:
        """What interrupts the task that set this end: itself."""
        return self

    def interrupts(self, task: object) -> bool:
        """Whether the end itself interrupts this task."""
        return self.task is task


class _Queue:
    """The leases of one length on one loop, oldest first."""

    __slots__ = ("armed", "epoch", "leases", "length", "loop")

    def __init__(self, loop: Loop, length: float) -> None:
        self.loop = loop
        self.length = length
        self.epoch = clock.epoch
        self.leases: dict[Lease, None] = {}
        self.armed = False

    def add(self, task: asyncio.Task[Any]) -> Lease:
        lease = Lease(task, clock.monotonic() + self.length, self)
        self.leases[lease] = None
        if not self.armed:
            self.arm()
        return lease

    def arm(self) -> None:
        """Set the timer, for the first of them."""
        self.armed = True
        self.loop.call_later(self.length, self._ring)

    def _ring(self) -> None:
        now = clock.monotonic()
        while (oldest := next(iter(self.leases), None)) is not None and oldest.at <= now:
            del self.leases[oldest]
            oldest.fire()
        if oldest is None:
            self.armed = False
            _queues.pop((self.loop, self.length, self.epoch), None)
        else:
            self.loop.call_later(oldest.at - now, self._ring)


class TrioLease:
    """The same on trio: a cancel scope, entered and left by hand."""

    __slots__ = ("at", "end", "handle", "scope", "task", "token")

    def __init__(self, length: float) -> None:
        import trio

        self.token = trio.lowlevel.current_trio_token()
        self.end: End | None = None  # as of a Lease
        self.task: object = trio.lowlevel.current_task()
        self.handle: Any = None
        self.scope = trio.CancelScope()
        self.at = self._now() + length
        self.resume()
        self.scope.__enter__()

    def pause(self) -> None:
        """Interrupt nothing until ``resume``."""
        if self.handle is not None:
            self.handle.cancel()
        self.scope.deadline = math.inf

    def resume(self) -> None:
        """Count again; at once where the moment has passed."""
        if clock.virtual is not None:
            self.handle = clock.virtual.call_later(self.at - clock.monotonic(), self.scope.cancel)
        else:
            self.scope.deadline = self.at

    def let_go(self) -> None:
        """The end that it was borrowed from is closed, by whichever thread."""
        try:
            self.token.run_sync_soon(self._let_go)
        except Exception:  # noqa: BLE001, S110 - its loop has ended, and the attempt with it
            pass

    def _let_go(self) -> None:
        end = self.end
        if end is None or end.lender is None:
            return
        give_back(end)
        self.pause()
        if end.open and end.at is not None:
            self.at = self._now() + (end.at - clock.monotonic())
            self.resume()

    def _now(self) -> float:
        import trio

        return clock.monotonic() if clock.virtual is not None else trio.current_time()

    def settle(self, error: BaseException | None) -> bool:
        """Leave the scope; True when it swallowed the cancellation it asked for."""
        if self.handle is not None:
            self.handle.cancel()
        self.scope.__exit__(
            None if error is None else type(error), error, None if error is None else error.__traceback__
        )
        return self.scope.cancelled_caught


def open_attempt(site: Site, start: float) -> AttemptEnd | None:
    """Bound an attempt that began at ``start``, and publish that; None outside of an asyncio task.

    For fused wrappers: the lease and the end are one object, and no function is called for what can stand here.
    """
    loop: Any = _get_loop()
    task = None if loop is None else _current_task(loop)
    if task is None:
        return None
    queue: _Queue | None = site.queue
    if queue is None or queue.loop is not loop or not queue.armed or queue.epoch != clock.epoch:
        queue = site.queue = _queue_for(task.get_loop(), site.limit)
        if not queue.armed:
            queue.arm()
    end = AttemptEnd()
    end.at = start + queue.length
    end.task = task
    end.queue = queue
    end.cancelling = task.cancelling()
    queue.leases[end] = None  # type: ignore[index] # it does all that a Lease does
    end.token = _set_end(end)  # type: ignore[arg-type] # and all that an End does
    _open_ends.append(None)
    bypass.NAMESPACE["_slow"] = True
    return end


def close_attempt(end: AttemptEnd, error: BaseException | None = None) -> bool:
    """The attempt is over; True when ``error`` is the cancellation that its end asked for."""
    try:
        _reset_end(end.token)  # type: ignore[arg-type] # set when it was opened
    except ValueError:
        pass  # left in another context, where it was never set
    end.token = None
    _open_ends.pop()
    if end.last_failure is not None:
        end.last_failure = None
    queue = end.queue
    if queue is not None and not end.fired:
        queue.leases.pop(end, None)  # type: ignore[call-overload] # as above
        return False
    return end.settle(error)  # type: ignore[misc] # Lease's own, see above


_set_end, _reset_end = ENDS.set, ENDS.reset
_open_ends = bypass.OPEN_ENDS


def _queue_for(loop: Loop, length: float) -> _Queue:
    return _queues.get((loop, length, clock.epoch)) or _new_queue(loop, length)


def _first_loop() -> Loop | None:
    """Take asyncio's own functions when there is an asyncio."""
    global _get_loop, _current_task
    module = sys.modules.get("asyncio")
    if module is None or not hasattr(module, "current_task"):  # or another thread is about to import it
        return None
    _get_loop, _current_task = module._get_running_loop, module.current_task
    return _get_loop()  # type: ignore[no-any-return] # asyncio's own function


_get_loop: Callable[[], Any] = _first_loop
_current_task: Callable[[Any], Any]


def arm(length: float, *, shared: bool = True) -> Lease | TrioLease | None:
    """Have the current task cancelled after ``length`` seconds; None in sync code, which nothing interrupts.

    ``shared`` says that many attempts have this length, so that they can share a timer.
    """
    if in_trio():
        return TrioLease(length)
    loop = maybe_loop()
    if loop is None:
        return None
    task = sys.modules["asyncio"].current_task(loop)
    if task is None:
        return None
    if not shared:
        return Lease(task, clock.monotonic() + length, None).alone()
    return _queue_for(loop, length).add(task)


def _new_queue(loop: Loop, length: float) -> _Queue:
    for key in tuple(_queues):
        if key[0].is_closed():
            _queues.pop(key, None)
    queue = _queues[loop, length, clock.epoch] = _Queue(loop, length)
    return queue


def _is_cancelled(error: BaseException) -> bool:
    cancelled: type[BaseException] = sys.modules["asyncio"].CancelledError
    return isinstance(error, cancelled)


bypass.after_fork(_queues.clear)

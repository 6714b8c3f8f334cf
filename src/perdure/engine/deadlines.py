"""Blocks that set an end for what they hold, or lift those around it: ``deadline`` and ``no_deadline``."""

from __future__ import annotations

from perdure import clock
from perdure.engine.ambient import ENDS, End, publish, retract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType
    from typing import Any, Self

    from perdure.engine.timers import Lease, TrioLease

__all__ = ["Deadline", "deadline", "no_deadline"]


class Deadline:
    """The context manager behind ``perdure.deadline`` and ``perdure.no_deadline``."""

    __slots__ = ("_lease", "_length", "_paused", "_published", "_shield", "was_exceeded")

    def __init__(self, length: float | None) -> None:
        self._length = length
        self._lease: Lease | TrioLease | None = None
        self._paused: list[Lease | TrioLease] = []
        self._shield: Any = None  # a trio.CancelScope
        self._published: tuple[End, Token[End | None]] | None = None
        self.was_exceeded: bool = False

    def __enter__(self) -> Self:
        if self._published is not None:
            raise RuntimeError("a deadline block is entered once; make a new one for each block")
        from perdure.engine import timers

        if self._length is None:
            self._paused = _pause_all()
            self._shield = _shield_from(self._paused)
            self._published = publish(None)
        else:
            self._lease = timers.arm(self._length, shared=False)
            self._published = publish(clock.monotonic() + self._length, self._lease)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._published is None or self._published is _LEFT:
            return
        published, self._published = self._published, _LEFT
        last_failure = published[0].last_failure
        retract(published)
        if self._shield is not None:
            self._shield.__exit__(kind, error, trace)
        for paused in self._paused:
            paused.resume()
        lease, self._lease = self._lease, None
        try:
            ours = lease is not None and lease.settle(error)
            if ours or (lease is not None and _is_of_the_end(error, published[0])):
                self.was_exceeded = True
                raise _exceeded(self._length or 0.0) from (last_failure or error)
        finally:
            del error, last_failure

    def has_come(self) -> bool:
        """Whether the end has come and interrupts the block."""
        lease = self._lease
        scope = getattr(lease, "scope", None)
        return bool(getattr(lease, "fired", False) or (scope is not None and scope.cancel_called))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def deadline(seconds: float) -> Deadline:
    """Give everything in the block ``seconds``: ``with perdure.deadline(2): ...`` (also ``async with``).

    Async work is interrupted at the end, exactly, and ``DeadlineExceeded`` comes out, its cause the last
    failure of the guarded call that was cut. Sync work cannot be interrupted: guarded calls in the block begin
    no attempt and no wait past the end, and ``time_left()`` tells client libraries what is left. Ends nest:
    the nearest one holds. Tasks started in the block share its end until the block is left.

    Raises ConfigError unless seconds is a duration of 0 or more. One object serves one block, in one task or
    thread.
    """
    from perdure.durations import seconds as read

    return Deadline(read(seconds, field="seconds"))


def no_deadline() -> Deadline:
    """Lift all ends for the block: ``with perdure.no_deadline(): ...``, for clean-up that must be done.

    Ends around it, of this task, interrupt nothing meanwhile; one that passed interrupts when the block ends.
    The block is still cancelled when its task is (on trio not where an end had come before: there a cancellation
    goes on, and a shield keeps it out). One object serves one block, in one task or thread.
    """
    return Deadline(None)


def _shield_from(paused: list[Lease | TrioLease]) -> Any:
    """Trio goes on cancelling after an end has come: then the block needs a shield against that."""
    if not any(getattr(getattr(lease, "scope", None), "cancel_called", False) for lease in paused):
        return None
    import trio

    shield = trio.CancelScope(shield=True)
    shield.__enter__()
    return shield


def _pause_all() -> list[Lease | TrioLease]:
    """Keep the ends around from interrupting this task; those of other tasks are not touched."""
    from perdure.engine.waiting import current_task

    task, end = current_task(), ENDS.get()
    paused: list[Lease | TrioLease] = []
    while end is not None and end.at is not None:
        if end.open and end.lease is not None and end.lease.task is task:
            end.lease.pause()
            paused.append(end.lease)
        end = end.around
    return paused


def _is_of_the_end(error: BaseException | None, end: End) -> bool:
    """Whether a group holds nothing but what the end itself caused in the tasks of the block."""
    if error is None or end.at is None or clock.monotonic() < end.at:
        return False
    from perdure.errors import DeadlineExceeded
    from perdure.faults.chain import is_group, leaves

    return is_group(error) and all(isinstance(leaf, DeadlineExceeded) for leaf in leaves(error))


_LEFT: tuple[End, Token[End | None]] = (End(None, None), None)  # type: ignore[assignment] # stands for a block that was left


def _exceeded(length: float) -> BaseException:
    from perdure.durations import human
    from perdure.errors import DeadlineExceeded

    return DeadlineExceeded(f"the deadline of {human(length)} was exceeded")

"""What a guarded call ended with, and what each of its attempts did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    from perdure.faults import Fault

    T_co = TypeVar("T_co", covariant=True)

    class Valued(Generic[T_co]):
        """The generic base, for type checkers."""

else:
    from types import GenericAlias

    T_co = None

    class Valued:
        """Stands for typing.Generic, whose import every program would pay for."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


__all__ = ["AttemptRecord", "Outcome", "StopReason"]


class StopReason(StrEnum):
    """Why a guarded call ended. Members are also strings: ``outcome.stop == "deadline"``."""

    SUCCESS = "success"
    ATTEMPTS = "attempts"
    DEADLINE = "deadline"
    BUDGET = "budget"
    PERMANENT = "permanent"
    UNSAFE = "unsafe"
    NESTED = "nested"
    BREAKER = "breaker"
    GATE = "gate"
    HINT = "hint"
    REJECTED = "rejected"
    SHUTDOWN = "shutdown"
    UNREPLAYABLE = "unreplayable"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt that failed: what it was taken to be, and the wait decided after it.

    ``number`` counts from 1; ``started`` is in seconds from the start of the call and ``elapsed`` how long
    the attempt took (None for the first attempt of a policy without a deadline, which reads no clock);
    ``delay`` is the wait in seconds before the next attempt (None: there was none) and ``source`` where it
    came from: "computed", "hint" or "refresh". ``error`` is text; no exception object is kept.
    Immutable: safe to share between threads and tasks.
    """

    number: int
    started: float | None
    elapsed: float | None
    fault: Fault
    delay: float | None
    source: str | None
    error: str


@dataclass(frozen=True, slots=True)
class Outcome(Valued[T_co]):
    """How a guarded call ended, as a value: nothing is raised until ``unwrap()``.

    ``ok`` and ``value`` or ``error``; ``stop`` says why it ended, ``attempts`` how many were made,
    ``elapsed`` how many seconds it took and ``call_id`` names the call in logs and events. ``records`` are
    the attempts that failed. Immutable: safe to share between threads and tasks.
    """

    ok: bool
    value: T_co | None
    error: Exception | None
    stop: StopReason
    attempts: int
    elapsed: float
    call_id: str
    records: tuple[AttemptRecord, ...] = ()

    def unwrap(self) -> T_co:
        """Return the value, or raise the error that the call would have raised."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                del self  # else this frame, in the error's traceback, would hold what holds the error
        return self.value  # type: ignore[return-value] # ok means that the value is a T

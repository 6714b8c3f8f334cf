"""The retry loop in thirty lines: what every driver is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any

import perdure
from perdure import Fault, FaultKind, Retry, Safety
from perdure.core.backoff import DEFAULT, THROTTLED

RETRIED = {FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS}


class Failure(Exception):
    """An error of a kind that the test chose; ``fault_of`` is its rule."""

    def __init__(self, kind: FaultKind, hint: float | None = None) -> None:
        super().__init__(kind, hint)
        self.kind = kind
        self.hint = hint


class Leave(BaseException):
    """Something like a cancellation, which is nobody's failure."""


def fault_of(error: BaseException) -> Fault | None:
    return Fault(error.kind, error.hint) if isinstance(error, Failure) else None


@dataclass(frozen=True)
class Step:
    """One call of the function: it takes ``took`` seconds, then raises or returns ``outcome``."""

    outcome: object
    took: float = 0.0


@dataclass
class Predicted:
    """What a run must come to: the stop reason, when attempts began, the waits that were decided, when it ended."""

    stop: str = ""
    result: object = None
    times: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    refreshes: int = 0


def predict(policy: Retry, steps: list[Step], share: float, *, interrupts: bool, ticks: bool) -> Predicted:
    """Play the script by the rules of the design; every random share is ``share``."""
    seen = Predicted()
    previous: float | None = None
    for number, step in enumerate(steps, 1):
        seen.times.append(seen.elapsed)
        limit = (
            None if policy.attempt_timeout is None else policy.attempt_timeout * policy.shrink ** (number - 1)
        )
        if interrupts and limit is not None and step.took > limit:
            seen.elapsed += limit
            seen.result, fault = perdure.AttemptTimeout, Fault(FaultKind.AMBIGUOUS)
        else:
            seen.elapsed += step.took
            seen.result = step.outcome
            if isinstance(step.outcome, Leave):
                return stopped(seen, "neutral")
            if isinstance(step.outcome, Exception):
                fault = fault_of(step.outcome) or Fault(FaultKind.PERMANENT)
            elif policy.reject is None or not policy.reject(step.outcome):
                return stopped(seen, "success")
            else:
                fault = Fault(FaultKind.TRANSIENT, None, "rejected")
        delay = decide(policy, fault, number, seen, previous, share)
        if isinstance(delay, str):
            return stopped(seen, "rejected" if fault.why == "rejected" else delay)
        seen.waits.append(delay)
        seen.elapsed, previous = later(seen.elapsed, delay, ticks=ticks), delay
        if policy.deadline is not None and seen.elapsed > policy.deadline:  # the tick came just after it
            return stopped(seen, "deadline")
    raise AssertionError("a script must end the call")


def decide(
    policy: Retry, fault: Fault, number: int, seen: Predicted, previous: float | None, share: float
) -> float | str:
    """The delay before the next attempt, or the reason why there is none."""
    rejected = fault.why == "rejected"
    denied = not rejected and matches(policy.never, fault.kind, seen.result)
    wanted = rejected or (
        fault.kind in RETRIED if policy.on is None else matches(policy.on, fault.kind, seen.result)
    )
    refresh = (
        not denied and fault.kind is FaultKind.STALE and policy.refresh is not None and not seen.refreshes
    )
    if denied or not (wanted or refresh):
        return "neutral" if fault.kind is FaultKind.NEUTRAL else "permanent"
    if fault.kind is FaultKind.AMBIGUOUS and policy.safety is Safety.UNSAFE:
        return "unsafe"
    if policy.attempts is not None and number >= policy.attempts:
        return "attempts"
    if refresh:
        delay = 0.0
    elif fault.hint:
        if fault.hint > policy.hint_cap:
            return "hint"
        delay = fault.hint + share * min(fault.hint / 2, 10)
    else:
        slow = fault.kind is FaultKind.THROTTLED and policy.backoff is DEFAULT
        delay = (THROTTLED if slow else policy.backoff).delay(number, previous, lambda: share, u=share)
    if policy.deadline is not None and seen.elapsed + delay > policy.deadline:
        return "deadline"
    seen.refreshes += refresh
    return delay


def matches(wanted: Any, kind: FaultKind, error: object) -> bool:
    """``on=`` and ``never=`` as tuples of kinds and classes."""
    is_one = any(isinstance(one, type) and (isinstance(error, one) or error is one) for one in wanted or ())
    return is_one or kind in [one for one in wanted or () if isinstance(one, FaultKind)]


def later(now: float, seconds: float, *, ticks: bool) -> float:
    """When a wait ends; asyncio's end on the next millisecond, never before."""
    return ceil((now + seconds) * 1000) / 1000 if ticks and seconds > 0 else now + seconds


def stopped(seen: Predicted, reason: str) -> Predicted:
    seen.stop = reason
    return seen

"""Figures of the overload scene: pure arithmetic over calls, attempts and the server's ledger."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perdure.cli.demo.measure import Agreement, Curve, agreement, sent_at, share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.cli.demo.overload.plan import Plan
    from perdure.cli.demo.process import Seen
    from perdure.cli.demo.traffic import Call

WELL: Final = 0.9
WINDOW: Final = 2.0
_STEP: Final = 0.25


@dataclass(frozen=True, slots=True)
class Second:
    """One second of one arm: calls that came, that succeeded, attempts sent, calls refused unsent."""

    due: int
    good: int
    sent: int
    shed: int


def second(calls: Iterable[Call], begin: float) -> Second:
    """Count what happened in the second from `begin` on; a success counts when it came."""
    end = begin + 1
    due = good = sent = shed = 0
    for call in calls:
        due += begin <= call.due < end
        sent += sum(begin <= attempt.started < end for attempt in call.attempts)
        if call.ended is not None and begin <= call.ended < end:
            good += call.ok
            shed += call.shed
    return Second(due, good, sent, shed)


def succeeded(calls: Iterable[Call], begin: float, end: float) -> float | None:
    """Return the share of the calls due between `begin` and `end` that have succeeded by now."""
    due = [call for call in calls if begin <= call.due < end]
    return share(sum(call.ok for call in due), len(due))


def as_of(calls: Iterable[Call], elapsed: float) -> list[Call]:
    """Return the calls as they stood then: what ended later, the end of the server itself may have ended."""
    return [
        call
        if call.ended is None or call.ended <= elapsed
        else dataclasses.replace(call, ended=None, ok=False)
        for call in calls
    ]


def recovery(calls: Sequence[Call], plan: Plan) -> float | None:
    """Return how long after the fault the arm was well for good, in steps of 0.25 s; None: it was not.

    Well: of the calls due in any 2 s from then on, at least 90 % succeed. A call that has not ended when
    the scene does has not succeeded.
    """
    found = None
    for place in reversed(range(int((plan.after - WINDOW) / _STEP + 1e-9) + 1)):
        begin = plan.healed + place * _STEP
        if (succeeded(calls, begin, begin + WINDOW) or 0.0) < WELL:
            break
        found = place * _STEP
    return found


def longest_measured(plan: Plan) -> float:
    """Return the longest time to recover that the scene can see."""
    return max(0.0, plan.after - WINDOW)


def good_curve(calls: Iterable[Call], seconds: float) -> Curve:
    """Return the successes of each full second, as (middle, successes)."""
    counts = [0] * int(seconds)
    for call in calls:
        if call.ok and call.ended is not None and call.ended < len(counts):
            counts[int(call.ended)] += 1
    return [(place + 0.5, float(count)) for place, count in enumerate(counts)]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one arm came to. Times in seconds; None where nothing was measured. Immutable."""

    arm: str
    calls: int
    unfinished: int
    success: float | None
    before: float | None
    during: float | None
    after: float | None
    attempts: int
    amplification: float | None
    shed: int
    recovery: float | None
    server: Agreement
    done: int
    wasted: int


def figures(arm: str, calls: Sequence[Call], seen: Sequence[Seen], plan: Plan, elapsed: float) -> Figures:
    """Sum up one arm after `elapsed` seconds of the scene."""
    attempts = len(sent_at(calls))
    answered = sum(attempt.result == 200 for call in calls for attempt in call.attempts)
    done = sum(request.status == 200 for request in seen)
    return Figures(
        arm=arm,
        calls=len(calls),
        unfinished=sum(call.ended is None for call in calls),
        success=share(sum(call.ok for call in calls), len(calls)),
        before=succeeded(calls, 0.0, plan.calm),
        during=succeeded(calls, plan.calm, plan.healed),
        after=succeeded(calls, plan.healed, plan.seconds),
        attempts=attempts,
        amplification=share(attempts, len(calls)),
        shed=sum(call.shed for call in calls),
        recovery=recovery(calls, plan) if elapsed >= plan.seconds else None,
        server=agreement(calls, seen),
        done=done,
        wasted=done - answered,
    )

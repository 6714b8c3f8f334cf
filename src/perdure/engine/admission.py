"""Before an attempt on a dependency: waiting for its limits, and being admitted or refused.

The limits are waited for before the gate and the breaker admit an attempt, so that neither holds a place for
somebody who stands in line; both are looked at before the wait as well.
"""

from __future__ import annotations

from perdure import clock
from perdure.core.decide import Stop
from perdure.engine import attempts, ending, limiting, logs, queueing, shutdown, telling
from perdure.engine.attempts import Passage
from perdure.engine.naming import operation
from perdure.errors import BreakerOpen, Isolated, Overloaded, Refused, ShuttingDown
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from perdure.core.limits import Places
    from perdure.engine.guarded import GuardedRun
    from perdure.engine.queueing import Pause

__all__ = ["enter", "queue"]

_NEVER = float("inf")


def enter(run: GuardedRun, placed: Places | None) -> bool:
    """Have an attempt admitted, or end the call; False: with the error of the attempt before."""
    got = attempts.enter(run.state, clock.monotonic(), placed)
    if isinstance(got, Passage):
        run.passage = got  # before anything is told: a listener may raise what passes
        telling.news(run.state, run)
        return True
    telling.news(run.state, run)
    try:
        _refuse(run, got)
    finally:
        del got  # its traceback holds this frame
    return False


def queue(run: GuardedRun) -> Generator[Pause, None, object]:
    """Wait for the limits, then enter."""
    state, kit = run.state, run.state.kit
    rule = kit.bulkhead_rule
    refusal = attempts.peek(state, clock.monotonic())
    if refusal is None and kit.rate_rule is not None:
        refusal = yield from _wait_for_rate(run, kit.rate_rule.max_wait)
    if refusal is None and rule is not None:
        longest = _NEVER if rule.max_wait is None else rule.max_wait
        refusal = yield from _wait_for_place(run, min(longest, run.left()))
    elif refusal is None:
        enter(run, None)
    if refusal is not None:
        telling.news(state, run)
        try:
            _refuse(run, refusal)
        finally:
            refusal = None  # its traceback holds this frame
    return refusal


def _wait_for_rate(run: GuardedRun, longest: float) -> Generator[Pause, None, Refused | None]:
    state, end = run.state, clock.monotonic() + longest
    while True:
        now = clock.monotonic()
        wait = limiting.reserve(state, now, min(max(0.0, end - now), run.left()))
        if isinstance(wait, Refused):
            return wait
        if wait <= 0:
            return _not_now(run)
        try:
            yield queueing.Pause(wait)
        except BaseException:  # also a cancellation: the slot goes back, whatever ends the wait
            limiting.unreserve(state, clock.monotonic(), now + wait)
            raise
        refusal = _not_now(run)
        if refusal is not None or not limiting.is_paused_at(state, now + wait):
            return refusal


def _wait_for_place(run: GuardedRun, longest: float) -> Generator[Pause, None, Refused | None]:
    """Wait in the queue of the bulkhead, and enter with the place."""
    state = run.state
    pause = queueing.Pause(longest)
    got = limiting.take_place(state, pause)
    if isinstance(got, Refused):
        return got
    places, is_taken = got
    if places is None:  # a reload took the bulkhead away
        enter(run, None)
        return None
    is_waiting = not is_taken
    try:
        if is_waiting:
            yield pause
            is_waiting, is_taken = False, limiting.quit_queue(state, places, pause)
            if not is_taken:
                return _not_now(run) or limiting.full(state, places)
        if enter(run, places):
            is_taken = False  # the passage has it now
    finally:
        if is_waiting:  # thrown out of the queue
            is_taken = limiting.quit_queue(state, places, pause)
        if is_taken and run.passage is None:
            queueing.wake(limiting.leave_place(state, places))
    return None


def _not_now(run: GuardedRun) -> Refused | None:
    """The refusal of a process that began to close during the wait."""
    return shutdown.refusal(operation(run)) if shutdown.closing else None


def _refuse(run: GuardedRun, refusal: Refused) -> None:
    """End the call: with the refusal, or with the error of the attempt before."""
    run.abandon()
    reason = _reason(refusal)
    telling.refused_by(run, refusal, reason)
    logs.refused(run, refusal)
    if run.error is not None:
        why = str(refusal) if reason is StopReason.NEUTRAL else ""
        ending.end_late(run, Stop(reason, refusal.retry_after, why), clock.monotonic())
        return
    run.stop = reason
    try:
        ending.tell_exhausted(run, refusal)
        ending.refuse(run, refusal, reason)
    finally:
        del refusal  # its traceback holds this frame


def _reason(refusal: Refused) -> StopReason:
    if isinstance(refusal, (BreakerOpen, Isolated)):
        return StopReason.BREAKER
    if isinstance(refusal, ShuttingDown):
        return StopReason.SHUTDOWN
    return StopReason.GATE if isinstance(refusal, Overloaded) else StopReason.NEUTRAL

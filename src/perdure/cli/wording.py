"""perdure's own sentences on stderr: what happened, what comes next, why it ended. Pure text."""

from __future__ import annotations

from perdure.cli.child.signals import name_of
from perdure.cli.child.supervised import NOBODY_READS
from perdure.cli.exits import REFUSALS
from perdure.durations import human as exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.record import Attempt, Ending, Request

__all__ = ["counting_down", "ended", "running", "scheduled"]


def scheduled(attempt: Attempt, allowed: int | None, delay: float) -> str:
    """Say that an attempt failed: "attempt 1 of 4 exited 1 after 200 ms; next in 400 ms"."""
    following = f"next in {human(delay)}" if delay else "next at once"
    return f"perdure: {_attempt(attempt, allowed)}; {following}"


def ended(request: Request, ending: Ending, last: Attempt | None) -> str:
    """The last line of a run, after its ``last`` attempt; empty where there is nothing to say."""
    if ending.stop == "interrupted":
        return _interrupted(request, ending, last)
    if ending.stop in REFUSALS:
        what = "not started" if last is None else f"{_number(last.number + 1, request.allowed)} not made"
        return f"perdure: {what}: {ending.why}"
    if last is None:
        return f"perdure: {ending.why}"
    if ending.ok:
        if ending.attempts == 1:
            return ""
        number = _number(last.number, request.allowed)
        did = f"{last.verdict.event}, as looked for," if request.rules.until_fails else "succeeded"
        return f"perdure: {number} {did} after {human(last.duration)} ({human(ending.elapsed)} in all)"
    return _gave_up(request, ending, last)


def running(number: int, allowed: int | None, seconds: float, timeout: float | None) -> str:
    """The status line while an attempt runs."""
    cut = "" if timeout is None else f", timeout in {_whole(max(0.0, timeout - seconds))}"
    return f"perdure: {_number(number, allowed)} has run for {_whole(seconds)}{cut}"


def counting_down(number: int, allowed: int | None, left: float, deadline: float | None) -> str:
    """The status line during a wait; ``number`` is the attempt that comes after it."""
    end = "" if deadline is None else f", deadline in {_whole(max(0.0, deadline))}"
    return f"perdure: {_number(number, allowed)} in {_tenths(left)}{end} (Ctrl-C stops)"


def human(seconds: float) -> str:
    """Seconds for people, to the millisecond."""
    return exact(round(seconds, 3))


def _gave_up(request: Request, ending: Ending, last: Attempt) -> str:
    if not last.ran.started or last.ran.unread == NOBODY_READS:  # it has been said, or needs no words
        return ""
    return f"perdure: {_attempt(last, request.allowed)}; {_conclusion(request, ending)}"


def _attempt(attempt: Attempt, allowed: int | None) -> str:
    event = attempt.verdict.event
    took = "" if attempt.ran.timed_out else f" after {human(attempt.duration)}"
    return f"{_number(attempt.number, allowed)} {event}{took}"


def _conclusion(request: Request, ending: Ending) -> str:
    made = "1 attempt" if ending.attempts == 1 else f"{ending.attempts} attempts"
    if ending.stop == "attempts":
        return f"gave up after {made} in {human(ending.elapsed)}"
    if ending.stop == "deadline":
        limit = f"the deadline of {human(request.policy.deadline or 0.0)}"
        what = (
            f"the next wait, {human(ending.refused)}, would pass {limit}"
            if ending.refused
            else f"{limit} is over"
        )
        return f"gave up after {made} in {human(ending.elapsed)}: {what}"
    return f"not retried: {ending.why or ending.stop}"


def _interrupted(request: Request, ending: Ending, last: Attempt | None) -> str:
    name = name_of(ending.signal or 0)
    if last is not None and last.ran.asked_to_stop:
        return f"perdure: stopped by {name} during {_number(last.number, request.allowed)}"
    number = 1 if last is None else last.number + 1
    return f"perdure: stopped by {name} before {_number(number, request.allowed)}"


def _number(number: int, allowed: int | None) -> str:
    return f"attempt {number}" if allowed is None else f"attempt {number} of {allowed}"


def _whole(seconds: float) -> str:
    return human(float(round(seconds)))


def _tenths(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else human(seconds)

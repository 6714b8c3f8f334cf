"""Delays that servers ask for: what an answer says about when, and whether, to try again.

The classifier reads them by itself. This is for callers who see answers before anything is raised, and for rules of
their own. Everything here never raises, whatever a server sends.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.faults.asked import body_delay
from perdure.faults.hints import found_hint, retry_after, skew_of
from perdure.faults.said import limit_scope, should_retry
from perdure.faults.sentences import delay_in_text

__all__ = [
    "Hint",
    "body_delay",
    "delay_in_text",
    "hint_of",
    "limit_scope",
    "retry_after",
    "should_retry",
    "skew_of",
]


@dataclass(frozen=True, slots=True)
class Hint:
    """A delay that a server asked for: ``delay`` in seconds, > 0, and the field it stood in as ``source``.

    ``source`` is the name of a header in lower case ("retry-after"), of a field of the body ("retry_after"),
    "RetryInfo" or "throttleStatus", or "github" for the minute that GitHub asks for in its documentation.
    Immutable: safe to share between threads and tasks.
    """

    delay: float
    source: str


def hint_of(
    headers: object = None,
    *,
    status: int | None = None,
    body: object = None,
    now: float | None = None,
) -> Hint | None:
    """Give the delay that an answer asks for, and where it says so; None to use the computed backoff.

    ``headers`` is a mapping in any case or a list of pairs; ``body`` is bytes, text or parsed JSON. Fields in
    milliseconds and the body come first, then ``Retry-After``, then the reset headers of a rate limit that is
    used up. With a ``status``, the answer is None for one under which a delay means nothing, such as 200 or
    404, and reset headers count only where a limit was met (420, 429, 403 of GitHub); without one, the caller
    knows that another attempt makes sense. ``now`` is the wall time in epoch
    seconds (default: the clock).

    Zero, a moment that is over and everything malformed give None. The delay is finite and <= 1e10. Never
    raises. Reads only; safe from any thread or task.
    """
    found = found_hint(headers, now, status=status, body=body)
    return Hint(*found) if found is not None and found[0] > 0 else None

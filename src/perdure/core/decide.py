"""The retry decision: go on after a wait, or stop and say why.

Pure: the time, a random function and the fault come in, ``Again`` or ``Stop`` comes out. Sync calls, async
calls, blocks and the simulator all decide here.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core import backoff as backoffs
from perdure.core.backoff import DEFAULT, LARGEST, THROTTLED
from perdure.faults.kinds import FaultKind
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from perdure.core.backoff import Backoff, Draw
    from perdure.faults.kinds import Fault

    class Rule(Protocol):
        """What the decision needs to know of a policy."""

        @property
        def backoff(self) -> Backoff: ...
        @property
        def deadline(self) -> float | None: ...
        @property
        def hint_cap(self) -> float: ...


__all__ = ["Again", "Stop", "decide", "is_retried"]

HINT_SPREAD = 0.5
HINT_SPREAD_LIMIT = 10.0

_TRANSIENT = FaultKind.TRANSIENT
_NEUTRAL = FaultKind.NEUTRAL
_AMBIGUOUS = FaultKind.AMBIGUOUS
_THROTTLED = FaultKind.THROTTLED


@dataclass(slots=True)
class Again:
    """Make another attempt after ``delay`` seconds; ``source`` is "computed", "hint" or "refresh"."""

    delay: float
    source: str


@dataclass(slots=True)
class Stop:
    """End the call for ``reason``; ``delay`` is the wait in seconds that did not fit, where that is why.

    ``why`` says it in words where the reason alone does not.
    """

    reason: StopReason
    delay: float | None = None
    why: str = ""


_PERMANENT = Stop(StopReason.PERMANENT)
_NEUTRALLY = Stop(StopReason.NEUTRAL)
_UNSAFE = Stop(StopReason.UNSAFE)
_ATTEMPTS = Stop(StopReason.ATTEMPTS)


def decide(  # noqa: C901 - one decision, top to bottom
    rule: Rule,
    fault: Fault,
    number: int,
    allowed: int | None,
    wanted: bool,
    safe: bool,
    refresh: bool,
    now: float,
    start: float,
    end: float | None,
    previous: float | None,
    draw: Draw,
    u: float | None,
) -> Again | Stop:
    """Decide after attempt ``number`` (from 1) failed with ``fault`` at time ``now``.

    ``allowed`` attempts may be made in all (None: no bound). ``wanted``: the fault is one to retry;
    ``safe``: repeating is harmless even where the effect may have happened; ``refresh``: something can be
    refreshed once, so a stale fault is worth one attempt at once. ``start`` is when the call began, ``end``
    the nearest ambient end or None. ``previous`` is the last delay, ``u`` the call's one draw.

    The wait is what the server asked for and a spread, hint + U[0, min(hint / 2, 10 s)], so that nobody comes
    early and not all come at once; without a hint it is the backoff's.
    """
    kind = fault.kind
    if not wanted and not refresh:
        return _NEUTRALLY if kind is _NEUTRAL else _PERMANENT
    if kind is _AMBIGUOUS and not safe:
        return _UNSAFE
    if allowed is not None and number >= allowed:
        return _ATTEMPTS
    hint, source = fault.hint, "computed"
    if refresh:
        delay, source = 0.0, "refresh"
    elif hint:
        if hint > rule.hint_cap:
            return Stop(StopReason.HINT, hint)
        delay, source = hint + draw() * min(hint * HINT_SPREAD, HINT_SPREAD_LIMIT), "hint"
    else:
        backoff = rule.backoff
        if kind is _THROTTLED and backoff is DEFAULT:
            backoff = THROTTLED
        try:
            delay = backoff.drawn(number, previous, draw, u)
            if not 0.0 <= delay <= LARGEST:
                raise ValueError(f"its delay must be a finite number of seconds >= 0, got {delay!r}")  # noqa: TRY301
        except Exception as trouble:  # noqa: BLE001 - a user's backoff never replaces the user's error
            backoffs.report(backoff, "backoff=", trouble)
            delay = DEFAULT.drawn(number, previous, draw, u)
    then, deadline = now + delay, rule.deadline
    if (deadline is not None and then > start + deadline) or (end is not None and then >= end):
        return Stop(StopReason.DEADLINE, delay)
    return Again(delay, source)


def is_retried(fault: Fault) -> bool:
    """Whether the kind alone says that another attempt makes sense."""
    kind = fault.kind
    return kind is _TRANSIENT or kind is _AMBIGUOUS or kind is _THROTTLED

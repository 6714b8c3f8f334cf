"""When a breaker trips, and for how long it then stays open.

It trips when ``failures`` calls in a row failed within the window, or when of at least ``min_calls`` results in
the window a share >= ``failure_rate`` failed or >= ``slow_rate`` took ``slow`` seconds or more. The open time is

    min(max_cooldown, cooldown x 2^(trips - 1)) x U[0.8, 1]

or hint + U[0, min(hint / 2, 10 s)] where the server asked for a rest that makes it longer.
"""

from __future__ import annotations

from collections import deque

from perdure.core.backoff import LARGEST
from perdure.core.window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Protocol

    from perdure.core.backoff import Draw

    class BreakerRule(Protocol):
        """What the machine reads of a Breaker; ``None`` switches a rule off."""

        @property
        def failures(self) -> int | None: ...
        @property
        def failure_rate(self) -> float | None: ...
        @property
        def min_calls(self) -> int: ...
        @property
        def slow(self) -> float | None: ...
        @property
        def slow_rate(self) -> float | None: ...
        @property
        def cooldown(self) -> float: ...
        @property
        def max_cooldown(self) -> float: ...
        @property
        def probes(self) -> int: ...
        @property
        def successes(self) -> int: ...
        @property
        def ramp(self) -> bool: ...
        @property
        def mode(self) -> Literal["on", "shadow"]: ...


__all__ = ["Cooling", "Tally"]

MOST_TRIPS = 64  # counted; doubling once more would only near the end of floats
_LEAST = 0.8  # jitter shortens an open time to at least this share of it
_HINT_SPREAD = 0.5
_HINT_SPREAD_LIMIT = 10.0
_FOREVER = float("inf")


class Tally:
    """The results of one closed period, and whether they are reason to trip.

    Its holder takes care that one thread calls it at a time.
    """

    __slots__ = ("_rule", "_run", "_span", "_window", "watches_slow")

    def __init__(self, rule: BreakerRule, span: float) -> None:
        self._rule = rule
        self._span = span
        self._window = Window(span)
        self._run: deque[float] = deque(maxlen=rule.failures or 0)  # times of the latest failures in a row
        self.watches_slow: bool = rule.slow is not None and rule.slow_rate is not None

    def clear(self) -> None:
        """A new period begins."""
        self._window.clear()
        self._run.clear()

    def succeeded(self, now: float, calls: int = 1, took: float | None = None) -> bool:
        """Count successes; True when they were slow, which may be reason to trip."""
        slow = self._is_slow(took)
        self._run.clear()
        self._window.add(now, ok=calls, slow=calls if slow else 0)
        return slow

    def failed(self, now: float, took: float | None = None) -> None:
        """Count one failure."""
        self._run.append(now)
        self._window.add(now, failed=1, slow=int(self._is_slow(took)))

    def reason(self, now: float) -> str | None:
        """The rule by which to trip: failures, failure_rate or slow_rate; None: there is no reason to."""
        rule = self._rule
        if rule.failures is not None and len(self._run) >= rule.failures and now - self._run[0] <= self._span:
            return "failures"
        ok, failed, slow = self._window.totals(now)
        calls = ok + failed
        if calls == 0 or calls < rule.min_calls:
            return None
        if rule.failure_rate is not None and failed / calls >= rule.failure_rate:
            return "failure_rate"
        if rule.slow_rate is not None and slow / calls >= rule.slow_rate:
            return "slow_rate"
        return None

    def run_ages(self, now: float) -> list[float]:
        """The ages of the latest failures in a row, oldest first."""
        return [now - at for at in self._run]

    def result_ages(self, now: float) -> list[tuple[float, int, int, int]]:
        """The results as (age, ok, failed, slow), oldest first."""
        return self._window.ages(now)

    def refill(self, now: float, run: list[float], results: list[tuple[float, int, int, int]]) -> None:
        """Take up what ``run_ages`` and ``result_ages`` gave."""
        self._run.extend(now - age for age in run)
        for age, ok, failed, slow in results:
            self._window.add(now - age, ok, failed, slow)

    def _is_slow(self, took: float | None) -> bool:
        slow = self._rule.slow
        return slow is not None and took is not None and took >= slow


class Cooling:
    """How long the breaker stays open: longer with each trip since it was last closed for good.

    Its holder takes care that one thread calls it at a time.
    """

    __slots__ = ("_rule", "forgets_at", "length", "trips", "until")

    def __init__(self, rule: BreakerRule) -> None:
        self._rule = rule
        self.trips: int = 0
        self.length: float = 0.0  # the last open time, before jitter and hint
        self.until: float = 0.0  # the end of it
        self.forgets_at: float = _FOREVER  # from when on a trip counts as the first

    def begin(self, now: float, draw: Draw, hint: float | None) -> float:
        """Open ``now``; gives for how many seconds."""
        first = now >= self.forgets_at
        self.trips = 1 if first else min(self.trips + 1, MOST_TRIPS)
        self.length = min(self._rule.max_cooldown, self._rule.cooldown * 2.0 ** (self.trips - 1))
        seconds = _rest(self.length, draw, hint)
        self.until = now + seconds
        self.forgets_at = _FOREVER
        return seconds

    def end(self, good_at: float) -> None:
        """It closed, and if it does not trip before ``good_at``, for good."""
        self.forgets_at = good_at


def _rest(length: float, draw: Draw, hint: float | None) -> float:
    """The open time as it will be: jittered, and not shorter than the server asked for."""
    # Only shorter, so that max_cooldown holds; and by a fifth, so that clients do not probe in one instant.
    seconds = length * (_LEAST + (1 - _LEAST) * draw())
    if hint is None or not 0 < hint <= LARGEST:
        return seconds
    return max(seconds, hint + draw() * min(hint * _HINT_SPREAD, _HINT_SPREAD_LIMIT))

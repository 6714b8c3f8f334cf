"""The gate: an adaptive limit on attempts on the wire, for first attempts as well as retries.

A retry budget keeps retries from feeding an overload, but only fewer first attempts let the dependency work off
its queue. The gate lets all through until there is evidence of congestion, then keeps to a limit that falls by
steps and grows with successes (AIMD).

==========  ==============================================================================================
open        the limit is at its ceiling, as at the start; calls may take the fused path
cut         1 <= limit < ceiling: an attempt goes out while fewer than ``limit`` are on the wire
paced       limit < 1: one attempt on the wire, the next about 1 s / limit after the last was sent
==========  ==============================================================================================

An overload signal (a timeout, a 429, a 503; not a 500, a reset or a refused connection: these say nothing about
load) cuts the limit to 0.7 x min(limit, most attempts on the wire in the last 1-2 s), when the last cut is at
least 0.25 s ago and signals are a large share of the attempts that ended in the last 3 s: 0.8, or 0.1 where
latency says the same (its fast mean is above twice its slow one). So a slow shard does not close the gate for the
rest, and the first cut starts from what is really on the wire, not from the ceiling. It goes no lower than 1: a
lone call that fails may still be retried, and only signals after that pace the gate.

Attempts that ended, not those sent: an attempt on the wire has said nothing yet, and in a sudden overload these
are the most. Counting them delays the first cut by most of a timeout, while the queue behind it grows. A longer
window delays it too; a shorter one mistakes the chance of a few attempts for congestion.

A success doubles a paced limit, up to 1, and lets the next attempt out at once; above that it adds 1 / limit
while at least half of the limit is in use. After 30 s without a signal the limit is at its ceiling again. Signals
and successes of attempts sent before a cut count as any other: they tell of the same dependency.

Sends are told by their growing total, with the number on the wire, at ticks and at failures; of the successes of
an open gate a sample is enough. A time before the last one counts as the last one. Pure state: the holder calls
under its own lock.
"""

from __future__ import annotations

from perdure.core.backoff import LARGEST
from perdure.core.window import Window, later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Rule(Protocol):
        """What the gate needs to know of the value that users write."""

        @property
        def ceiling(self) -> float: ...
        @property
        def floor(self) -> float: ...


__all__ = ["GateState"]

CUT = 0.7
CUT_EVERY = 0.25  # seconds: what is on the wire answers the last cut first
WINDOW = 3.0  # seconds in which signals are compared with attempts that ended
BUCKETS = 6
ENOUGH = 0.8  # share of signals that is congestion by itself
ENOUGH_WHEN_SLOW = 0.1  # and where latency has risen
SLOW = 2.0
PACE = 1.0  # seconds between attempts at a limit of 1, unless the holder knows that attempts are shorter
QUIET = 30.0  # seconds without a signal after which the limit is at its ceiling

_FAST_GAIN = 0.1
_BASE_GAIN = 0.02
_BASE_GAIN_WHEN_SLOW = 0.001  # what was normal is forgotten slowly, or a long overload would become it


class GateState:
    """The gate of one key; not thread safe, the holder takes its lock."""

    __slots__ = (
        "_base",
        "_cut_at",
        "_ended",
        "_fast",
        "_now",
        "_peak",
        "_peak_before",
        "_samples",
        "_second",
        "_sent",
        "_sent_at",
        "_signal_at",
        "_spread",
        "_window",
        "limit",
        "pace",
        "rule",
    )

    def __init__(self, rule: Rule, pace: float = PACE) -> None:
        self.pace: float = pace
        self.rule: Rule = rule
        self.limit: float = rule.ceiling
        self._window = Window(WINDOW, BUCKETS)
        self._now = self._cut_at = self._signal_at = self._sent_at = -float("inf")
        self._sent = self._ended = 0  # attempts, as far as told
        self._fast = self._base = 0.0  # means of the latency of successes
        self._samples = 0
        self._second = 0  # the one that _peak is of; _peak_before is of the one before
        self._peak = self._peak_before = 0
        self._spread: float | None = None  # of the present pace, drawn once for each attempt

    @property
    def is_open(self) -> bool:
        """Whether the limit is at its ceiling: calls need not ask."""
        return self.limit >= self.rule.ceiling

    @property
    def is_slow(self) -> bool:
        """Whether successes take more than twice what is usual."""
        return self._fast > SLOW * self._base

    def admit(self, now: float, in_flight: int, draw: Callable[[], float]) -> bool:
        """Whether an attempt may go out while ``in_flight`` others are on the wire."""
        self.settle(now)
        if self.limit >= 1:
            if in_flight >= self.limit:
                return False
        elif self._now < self.next_at(draw) or in_flight:
            return False
        self._sent_at, self._spread = self._now, None
        self.saw(now, in_flight + 1)
        return True

    def retry_after(self, now: float) -> float:
        """Seconds until another attempt makes sense: the pace, or the time that a success takes."""
        self._clock(now)
        if self.limit < 1 and (wait := self._sent_at + self._interval() - self._now) > 0:
            return wait
        return self._fast or self.pace

    def saw(self, now: float, in_flight: int) -> None:
        """Learn how many attempts are on the wire; cuts start from the most of the last 1-2 s."""
        second = int(self._clock(now) // 1)
        if second != self._second:
            self._peak_before = self._peak if second == self._second + 1 else 0
            self._second, self._peak = second, 0
        self._peak = max(self._peak, in_flight)
        if (ended := self._sent - in_flight) > self._ended:
            self._window.add(self._now, ok=ended - self._ended)
            self._ended = ended

    def sent(self, now: float, total: int) -> None:
        """Learn that ``total`` attempts went out so far; tell how many are on the wire next."""
        if total > self._sent:
            self._sent = total
            if self.is_open:  # else admit() knows better
                self._sent_at = self._clock(now)

    def success(self, now: float, in_flight: int, took: float | None) -> None:
        """An attempt of ``in_flight`` on the wire succeeded, in ``took`` seconds (None: not measured)."""
        self.saw(now, in_flight)
        if took is not None and 0 <= took <= LARGEST:
            self._learn(took)
        limit = self.limit
        if limit < 1:
            self.limit = min(1.0, 2 * limit, self.rule.ceiling)
            self._sent_at = -float("inf")  # the next may go at once
        elif 2 * in_flight >= limit:
            self.limit = min(self.rule.ceiling, limit + 1 / limit)

    def overload(self, now: float, in_flight: int) -> bool:
        """An attempt ended with a sign of overload; True: the limit was cut.

        Tell what was sent first, by ``sent``.
        """
        self.settle(now)
        self.saw(now, in_flight)
        now = self._signal_at = self._now
        self._window.add(now, failed=1)
        if now - self._cut_at < CUT_EVERY:
            return False
        ended, signals, _ = self._window.totals(now)
        if signals < (ENOUGH_WHEN_SLOW if self.is_slow else ENOUGH) * ended:
            return False
        return self._cut()

    def settle(self, now: float) -> None:
        """Return to the ceiling when the last signal is long ago."""
        if self.limit < self.rule.ceiling and self._clock(now) - self._signal_at >= QUIET:
            self.limit = self.rule.ceiling

    def _cut(self) -> bool:
        """Lower the limit; False where it is at its lowest already."""
        before, peak = self.limit, max(self._peak, self._peak_before, 1)
        lowest = max(1.0, self.rule.floor) if self.is_open and before > 1 else self.rule.floor
        self._cut_at = self._now
        self.limit = max(lowest, CUT * min(before, peak))
        return self.limit < before

    def next_at(self, draw: Callable[[], float]) -> float:
        """When the next attempt of a paced gate may go out."""
        if self._spread is None:
            self._spread = 0.75 + 0.5 * draw()
        return self._sent_at + self._interval()

    def _interval(self) -> float:
        """Seconds between two attempts of a paced gate; spread, or the gates of many processes keep step."""
        return self.pace / self.limit * (1.0 if self._spread is None else self._spread)

    def _learn(self, took: float) -> None:
        """Take a latency into both means; the first ones count evenly, or the very first would weigh too much."""
        self._samples += 1
        even = 1 / self._samples
        base_gain = _BASE_GAIN_WHEN_SLOW if self.is_slow else _BASE_GAIN
        self._fast += max(_FAST_GAIN, even) * (took - self._fast)
        self._base += (even if even > _BASE_GAIN else base_gain) * (took - self._base)

    def _clock(self, now: float) -> float:
        """The time, which never goes back."""
        self._now = later(now, self._now)
        return self._now

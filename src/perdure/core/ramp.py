"""The ramp after a breaker closed: calls in flight from a tenth of the usual peak to all of it.

What just recovered does not take all of its load at once. The bound at time t after closing is

    max(1, share x peak), share = 0.1 + 0.9 t / length, length = max(10 s, the last open time)

where ``peak`` is the highest number in flight that the holder told while the breaker was closed, in the present
span of time or the one before, so that one crowded minute is not remembered for days.
"""

from __future__ import annotations

__all__ = ["Ramp"]

FIRST_SHARE = 0.1
SHORTEST = 10.0
_SLACK = 1e-9  # calls; a bound that is a whole number up to rounding admits that number


class Ramp:
    """The peak before a trip, and the bound on calls in flight after the next closing.

    ``span`` is how many seconds a peak is remembered at least. Its holder takes care that one thread calls it at
    a time.
    """

    __slots__ = ("_before", "_peak", "_span", "_turned", "began", "length")

    def __init__(self, span: float) -> None:
        self._span = span
        self._peak = 0
        self._before = 0  # the peak of the span before
        self._turned = -float("inf")
        self.began: float = 0.0
        self.length: float = SHORTEST

    @property
    def peak(self) -> int:
        """The highest number in flight of the present span and the one before."""
        return max(self._peak, self._before)

    @property
    def ends(self) -> float:
        """When all of the traffic is admitted again."""
        return self.began + self.length

    def saw(self, in_flight: int) -> None:
        """Learn how many calls are in flight."""
        self._peak = max(self._peak, in_flight)

    def turn(self, now: float) -> None:
        """Begin the next span where the present one is over."""
        if now - self._turned >= self._span:
            self._before, self._peak = self._peak, 0
            self._turned = now

    def start(self, now: float, opened_for: float) -> None:
        """The breaker closed after an open time of ``opened_for`` seconds."""
        self.began = now
        self.length = max(SHORTEST, opened_for)

    def finish(self, now: float) -> None:
        """The ramp is over: the peak it led back to is where the present span begins."""
        self._peak = self.peak
        self._turned = now

    def share(self, now: float) -> float:
        """The part of the peak that is admitted: from 0.1 to 1, linear in time."""
        return min(1.0, FIRST_SHARE + (1 - FIRST_SHARE) * max(0.0, now - self.began) / self.length)

    def admits(self, now: float, in_flight: int) -> bool:
        """Whether one more call may run beside those in flight."""
        return in_flight + 1 <= max(1.0, self.share(now) * self.peak) + _SLACK

    def room_at(self, in_flight: int) -> float:
        """When one more call may run beside those in flight, if none of them ends before."""
        if in_flight + 1 > self.peak:
            return self.ends
        share = (in_flight + 1) / self.peak
        return self.began + self.length * max(0.0, share - FIRST_SHARE) / (1 - FIRST_SHARE)

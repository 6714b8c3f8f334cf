"""The throttle of Google's SRE book: refuse at random, the more often the fewer requests are accepted.

p = max(0, (requests - k x accepts) / (requests + 1)) over the last ``window`` seconds. Requests are counted when
they are made, refused ones included; accepts when the answer comes. With k = 2 the dependency may get twice what
it accepts, which lets the throttle see a recovery. It never refuses all: with n requests and no accepts one in
about n + 1 still goes out.

It recovers slowly where local refusals feed its own count, after about window x ln(1 / accepted) / ln k seconds:
a window of 2 to 5 s with k = 2 does well, k below 1.5 does not. The window must be at least twice the timeout,
or requests leave it before their answers come (go-zero issue 5011 is about the same pairing). With fewer than
ten requests in the window nothing is refused: a share of so few is chance.
"""

from __future__ import annotations

from perdure.core.window import Window, later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ThrottleState"]

FEWEST = 10  # requests in the window below which nothing is refused
BUCKETS = 20


class ThrottleState:
    """The throttle of one key; not thread safe, the holder takes its lock."""

    __slots__ = ("_now", "_window", "k", "span")

    def __init__(self, k: float, window: float) -> None:
        self.k: float = k
        self.span: float = window
        self._window = Window(window, BUCKETS)  # its failures are requests, its successes accepts
        self._now: float = -float("inf")

    def admit(self, now: float, draw: Callable[[], float]) -> bool:
        """Count a request and say whether it may go out."""
        refused = self.probability(now)
        self._window.add(self._now, failed=1)
        return draw() >= refused

    def success(self, now: float, n: int = 1) -> None:
        """Count ``n`` requests as accepted: answered, whatever the answer, and not refused as too much."""
        self._window.add(self._clock(now), ok=n)

    def probability(self, now: float) -> float:
        """How likely it is that the next request is refused, between 0 and 1 (exclusive)."""
        accepts, requests, _ = self._window.totals(self._clock(now))
        if requests < FEWEST:
            return 0.0
        return max(0.0, (requests - self.k * accepts) / (requests + 1))

    def retry_after(self, now: float) -> float:
        """Seconds until a call makes more sense: the part of the window that has to pass, one bucket at least."""
        return self.span * max(self.probability(now), 1 / BUCKETS)

    def _clock(self, now: float) -> float:
        """The time, which never goes back."""
        self._now = later(now, self._now)
        return self._now

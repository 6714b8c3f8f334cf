"""How long a dependency usually takes, and the attempt timeout that follows from it.

``Latencies`` is a histogram with buckets of equal ratio (1.1 by default: every quantile is within 10 %) that
forgets: a sample is worth half after ``half_life`` further samples, or after ``half_life_s`` seconds, or any
mixture. Instead of making all old samples lighter, each new one is made heavier (forward decay), and once in
a long while all are scaled back. Memory is bounded by the number of buckets between 1 us and a day.

``AdaptiveTimeout`` is 1.2 times the 99.9th percentile. TCP's rule, mean + 4 deviations (RFC 6298), cuts off 4 %
of ordinary calls, whose latencies have long tails; this cuts off fewer than 0.1 %. A timeout says only that
the call took longer, so it enters as a sample of twice the time and doubles the next timeout, as in Karn's
algorithm, until a success.
"""

from __future__ import annotations

import math

__all__ = ["AdaptiveTimeout", "Latencies"]

_LEAST, _MOST = 1e-6, 86_400.0  # seconds; what is beyond counts as this
_HEAVY = 1e100  # a new sample this heavy: time to scale back
_LEAP = 400.0  # half-lives at once; more makes no difference, and 1e100 * 2**400 is still a float
_NOTHING = 1e-9  # lighter than a billionth of a new sample: forgotten

_QUANTILE, _MARGIN = 0.999, 1.2
_COLD = 100  # samples before the tail means anything
_FAINT = 50.0  # after a long silence: what is remembered must be worth this many new samples
_BACKED_OFF = 8.0


class Latencies:
    """A histogram of latencies that forgets; not thread safe: the holder has the lock."""

    __slots__ = (
        "_answers",
        "_buckets",
        "_now",
        "_per_log",
        "_per_sample",
        "_per_second",
        "_sum",
        "_worth",
        "count",
        "ratio",
    )

    def __init__(self, ratio: float = 1.1, half_life: float = 2000, half_life_s: float = 300) -> None:
        self.ratio: float = ratio
        self.count: int = 0  # samples since the start
        self._per_log = 1 / math.log(ratio)
        self._per_sample = 2 ** (1 / half_life)
        self._per_second = 1 / half_life_s
        self._buckets: dict[int, float] = {}  # k: the weight of samples in [ratio**k, ratio**(k + 1))
        self._sum = 0.0  # of all weights
        self._worth = 1.0  # the weight of the latest sample
        self._now = -math.inf
        self._answers: dict[float, float] = {}  # quantiles, until the next sample

    @property
    def weight(self) -> float:
        """How many new samples the remembered ones are worth; at most about 1.44 half-lives."""
        return self._sum / self._worth

    def add(self, now: float, took: float) -> None:
        """Learn that a call took so long; what is negative, infinite or no number is ignored."""
        if not 0.0 <= took < math.inf:
            return
        worth = self._worth * self._per_sample
        if self._now < now < math.inf:
            if self._now > -math.inf:
                worth *= 2 ** min(_LEAP, (now - self._now) * self._per_second)
            self._now = now
        self._worth = worth
        if worth > _HEAVY:
            self._scale_back()
            worth = 1.0
        took = min(_MOST, max(_LEAST, took))
        bucket = math.floor(math.log(took) * self._per_log)
        self._buckets[bucket] = self._buckets.get(bucket, 0.0) + worth
        self._sum += worth
        self.count += 1
        self._answers.clear()

    def quantile(self, q: float) -> float | None:
        """The latency that a share ``q`` of calls does not exceed, at most a bucket too high; None: no sample."""
        answer = self._answers.get(q)
        if answer is None and self._buckets:
            answer = self._answers[q] = self._find(q)
        return answer

    def as_dict(self) -> dict[str, float | None]:
        """The usual figures in seconds, ready for JSON."""
        figures = {f"p{100 * q:g}": self.quantile(q) for q in (0.5, 0.9, 0.95, 0.99, 0.999)}
        return {"count": self.count, "weight": self.weight, **figures}

    def _find(self, q: float) -> float:
        """Walk down from the slowest bucket until more than 1 - q of the weight lies above."""
        beyond = (1 - q) * self._sum
        bucket = 0
        for bucket in sorted(self._buckets, reverse=True):
            beyond -= self._buckets[bucket]
            if beyond < 0:
                break
        return self.ratio ** (bucket + 1)

    def _scale_back(self) -> None:
        """Make the latest sample weigh 1 again and drop what weighs nothing beside it."""
        share = 1 / self._worth
        self._buckets = {
            bucket: weight * share for bucket, weight in self._buckets.items() if weight * share > _NOTHING
        }
        self._sum = sum(self._buckets.values())
        self._worth = 1.0


class AdaptiveTimeout:
    """The attempt timeout of a key: 1.2 x p99.9 of its latencies, between ``floor`` and what the user allows.

    Until there are 100 samples, and after a silence in which most were forgotten, it is what the user allows.
    Not thread safe: the holder has the lock.
    """

    __slots__ = ("_factor", "floor", "latencies")

    def __init__(self, latencies: Latencies, floor: float = 0.01) -> None:
        self.latencies: Latencies = latencies
        self.floor: float = floor
        self._factor = 1.0

    def timeout(self, ceiling: float) -> float:
        """Seconds for the next attempt, never more than ``ceiling``."""
        latencies = self.latencies
        usual = latencies.quantile(_QUANTILE) if latencies.count >= _COLD else None
        if usual is None or latencies.weight < _FAINT:
            return ceiling
        return min(ceiling, max(self.floor, usual * _MARGIN * self._factor))

    def success(self, now: float, took: float) -> None:
        """The attempt came back: its latency counts, and timeouts are no longer doubled."""
        self._factor = 1.0
        self.latencies.add(now, took)

    def timed_out(self, now: float, after: float) -> None:
        """The attempt was cut off after so many seconds: it would have taken longer, nobody knows how much."""
        self._factor = min(_BACKED_OFF, self._factor * 2)
        self.latencies.add(now, 2 * after)

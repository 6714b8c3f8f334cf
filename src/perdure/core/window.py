"""Counts of results by time: what happened in the last ``span`` seconds, in a few buckets.

A result is forgotten at the latest ``span`` seconds after it was added, and at the earliest one bucket before
that. Buckets exist only while they hold something, so that a key nobody calls costs next to nothing. Time never
goes back here: an earlier ``now``, or one that is no number, counts as the latest one seen.
"""

from __future__ import annotations

import math

from perdure.core.backoff import LARGEST

__all__ = ["Window", "gap", "later"]

_SHORTEST = 1e-6  # seconds of one bucket; below it the number of a bucket grows past what a float can hold
_FOREVER = float("inf")


def later(now: float, last: float) -> float:
    """``now``, or ``last`` where ``now`` lies before it or is no time at all (NaN, infinite)."""
    if last < now <= LARGEST:
        return now
    return last if last > -_FOREVER else 0.0


def gap(at: float, end: float) -> float:
    """Seconds from ``at`` to ``end``; a last bit more where the sum would round to before the end."""
    seconds = max(0.0, end - at)
    return seconds if at + seconds >= end else seconds + math.ulp(end)


class Window:
    """Results of the last ``span`` seconds: ok, failed and slow ones.

    ``buckets`` (10) is into how many parts the span is cut. Its holder takes care that one thread calls it at
    a time.
    """

    __slots__ = ("_buckets", "_now", "_rows", "_width")

    def __init__(self, span: float, buckets: int = 10) -> None:
        self._buckets = buckets
        self._width = max(span / buckets, _SHORTEST)
        self._now = -_FOREVER
        # Number of the bucket, ok, failed, slow; oldest first.
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, now: float, ok: int = 0, failed: int = 0, slow: int = 0) -> None:
        """Count results at ``now``; a slow one is also ok or failed."""
        number = self._forget(now)
        if self._rows and self._rows[-1][0] == number:
            _, had_ok, had_failed, had_slow = self._rows.pop()
            ok, failed, slow = ok + had_ok, failed + had_failed, slow + had_slow
        self._rows.append((number, ok, failed, slow))

    def totals(self, now: float) -> tuple[int, int, int]:
        """The ok, failed and slow results that count at ``now``."""
        self._forget(now)
        ok = failed = slow = 0
        for row in self._rows:
            ok += row[1]
            failed += row[2]
            slow += row[3]
        return ok, failed, slow

    def clear(self) -> None:
        """Forget all results; the time seen stays."""
        self._rows.clear()

    def ages(self, now: float) -> list[tuple[float, int, int, int]]:
        """What it holds as (age in seconds, ok, failed, slow), oldest first, for ``add`` in another process."""
        self._forget(now)
        return [
            (max(0.0, self._now - (number + 0.5) * self._width), ok, failed, slow)
            for number, ok, failed, slow in self._rows
        ]

    def _forget(self, now: float) -> int:
        """Drop the buckets that ``now`` has left behind; gives the number of the present one."""
        self._now = later(now, self._now)
        number = int(self._now // self._width)
        oldest = number - self._buckets
        while self._rows and self._rows[0][0] <= oldest:
            del self._rows[0]
        return number

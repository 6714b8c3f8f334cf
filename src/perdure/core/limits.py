"""Two limits of a dependency: how many calls per time (``Gcra``) and how many at once (``Places``).

Pure bookkeeping: the holder calls it under its own lock, with the time where one is needed, and does the
waiting and the waking outside. Both never raise, and a ``now`` that goes backwards counts as no time passed.

``Gcra`` is the generic cell rate algorithm (ITU-T I.371), a token bucket kept as one number. Its places are
numbered from the moment the bucket was last full, the *anchor*. With ``interval = per / limit``, place k may
go out from ``anchor + (k - burst + 1) * interval`` and is worth nothing after ``anchor + k * interval``, when
the bucket would be full without it. Whatever set of places goes out inside these bounds, no stretch of T
seconds sees more than ``burst + T / interval`` calls. Times are computed from k, never summed up, so nothing
drifts; and a place that is given back may be given again, for it keeps its number.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import OrderedDict

__all__ = ["Gcra", "Places"]

_SLACK = 1e-9  # seconds: who waited exactly as told may wake a rounding error early


class Gcra:
    """At most ``limit`` calls per ``per`` seconds in the long run, and ``burst`` of them at once.

    ``limit`` and ``per`` are above 0, ``burst`` is a whole number from 1; the policy sees to that.
    Not thread safe: the holder has the lock.
    """

    __slots__ = ("_anchor", "_burst", "_free", "_last", "_limit", "_next", "_per", "_seen", "paused_until")

    def __init__(self, limit: float, per: float, burst: int) -> None:
        self._limit = limit
        self._per = per
        self._burst = burst
        self._anchor = -math.inf  # full since ever
        self._next = 0  # the number of the first place that was never given
        self._free: list[int] = []  # numbers that were given back, in order; all are below _next
        self._last: tuple[float, int] | None = None  # the place given last: its time and number
        self._seen = -math.inf
        self.paused_until: float = -math.inf  # who wakes before this reserves anew

    def reserve(self, now: float, max_wait: float) -> float | None:
        """Take a place: the seconds to wait for it, or None where it would be more than ``max_wait``.

        Places are given in order: a longer wait never overtakes. A refusal takes nothing.
        """
        now = self._time(now)
        if now >= self._full_at():
            self._begin(now, 0)
        number, wait = self._first(now)
        if not wait <= max_wait:
            return None
        if self._free:
            self._free.pop(0)
        else:
            self._next += 1
        self._last = (now + wait, number)
        return wait

    def cancel(self, now: float, reserved_at: float) -> None:
        """Give back a place that was not used; ``reserved_at`` is its time: the ``now`` of reserve + the wait.

        The next who asks gets it. Best effort: what is not the latest place given, and not ahead, is lost.
        A lost place makes the rate lower, never higher.
        """
        now = self._time(now)
        number = self._number(now, reserved_at)
        if number is None or not 0 <= number < self._next or number in self._free:
            return
        insort(self._free, number)
        while self._free and self._free[-1] == self._next - 1:  # as if never given: the bucket is full sooner
            self._free.pop()
            self._next -= 1

    def pause(self, until: float) -> None:
        """Let nobody out before ``until``: the server asked for it.

        After that calls go out one by one at the rate, for a burst at that moment is what the server does not
        want. A pause never shortens an earlier one. Whoever was already waiting looks at ``paused_until`` when
        it wakes, and reserves anew where that lies ahead.
        """
        if not max(self._seen, self.paused_until) < until < math.inf:
            return
        self.paused_until = until
        self._last = None
        if self._slot(self._next) < until:
            self._begin(until, self._burst - 1)
        else:
            self._free = [number for number in self._free if self._slot(number) >= until]

    def retry_after(self, now: float) -> float:
        """Seconds until a call need not wait; 0 where it need not now."""
        return self._first(self._time(now))[1]

    def level(self, now: float) -> float:
        """Places at hand, up to ``burst``, less those owed to callers who wait: below 0 while more wait."""
        now = self._time(now)
        self._first(now)  # drops places that are over
        owed = (self._full_at() - now) * self._limit / self._per
        return min(self._burst, self._burst - owed + len(self._free))

    def _time(self, now: float) -> float:
        """The latest time seen; what is no time, or an earlier one, changes nothing."""
        if self._seen < now < math.inf:
            self._seen = now
        return self._seen

    def _begin(self, anchor: float, number: int) -> None:
        """Number the places from here on."""
        self._anchor = anchor
        self._next = number
        self._free.clear()

    def _slot(self, number: int) -> float:
        """When that place may go out at the earliest."""
        return self._anchor + (number - self._burst + 1) * self._per / self._limit

    def _full_at(self) -> float:
        """When the bucket will be full if nobody comes."""
        return self._anchor + self._next * self._per / self._limit

    def _first(self, now: float) -> tuple[int, float]:
        """The place whoever asks now would get, and how long it would wait for it."""
        free = self._free
        while free and self._anchor + free[0] * self._per / self._limit < now:
            free.pop(0)
        number = free[0] if free else self._next
        wait = self._slot(number) - now
        return number, wait if wait > _SLACK + abs(now) * 1e-15 else 0.0

    def _number(self, now: float, reserved_at: float) -> int | None:
        """Which place it is: the latest one, or the one of that time where nobody can have used it yet."""
        if self._last is not None and reserved_at == self._last[0]:
            return self._last[1]
        if not max(now, self.paused_until) <= reserved_at < self._slot(self._next):
            return None
        number = round((reserved_at - self._anchor) * self._limit / self._per) + self._burst - 1
        at = self._slot(number)
        return number if abs(at - reserved_at) <= _SLACK + abs(at) * 1e-15 else None


class Places:
    """The places of a bulkhead and the line before them: ``limit`` inside, at most ``queue`` waiting.

    A place that comes free goes straight to whoever waits longest and is never free in between, so nobody
    overtakes. A waiter is any object, told apart by identity. Not thread safe: the holder has the lock, and
    wakes the waiters after releasing it.
    """

    __slots__ = ("_line", "limit", "queue", "taken")

    def __init__(self, limit: int, queue: int = 0) -> None:
        self.limit: int = limit
        self.queue: int = queue
        self.taken: int = 0  # places held, those handed to a waiter that has not woken yet included
        self._line: OrderedDict[int, object] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def try_enter(self) -> bool:
        """Take a place if one is free; each True is answered by one ``leave()``."""
        if self.taken >= self.limit:
            return False
        self.taken += 1
        return True

    def join(self, waiter: object) -> bool:
        """Stand in line after ``try_enter()`` said no, under the same lock; False: the line is full."""
        if id(waiter) in self._line:
            return True
        if len(self._line) >= self.queue:
            return False
        self._line[id(waiter)] = waiter
        return True

    def quit(self, waiter: object) -> bool:
        """Give up waiting, once, after ``join()`` said yes.

        True: a place had been handed over meanwhile. The waiter holds it and passes it on with ``leave()``.
        """
        return self._line.pop(id(waiter), None) is None

    def alone(self, taken: int) -> None:
        """Go on with so many places taken and nobody in line: in a forked child all others are gone."""
        self.taken = taken
        self._line.clear()

    def leave(self) -> object | None:
        """Give a place up: the waiter that has it now, which is to be woken, or None where nobody waits."""
        if not self.taken:
            return None
        if self._line and self.taken <= self.limit:  # more are in it where a reload made it smaller
            return self._line.popitem(last=False)[1]
        self.taken -= 1
        return None

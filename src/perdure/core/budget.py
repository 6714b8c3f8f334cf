"""Budgets: how much of the traffic may be retries and hedges.

``Bucket`` is funded by success: every success pays in a part of a retry, every retry costs one, and a small cap
bounds what can be saved up. Its income stops when successes stop, so it costs a collapsed dependency nothing;
budgets funded by requests slow its recovery down or keep it from ever coming back. ``Share`` is such a budget,
for those who must hold a share: retries may be at most ``max_ratio`` of the requests of the last ``window``
seconds. A dependency has one or the other.

Both withdraw when a retry is *decided*: retries that still wait count, or a thousand of them could decide during
an outage and go out together (envoy issue 30205). What was withdrawn and never sent is given back by ``refund``.

Pure state: the holder calls under its own lock and brings the time and the totals.
"""

from __future__ import annotations

from collections import deque

from perdure.core.window import later

__all__ = ["Bucket", "Share"]

_CELLS = 60  # a window is counted in sixtieths: by seconds in the usual window of a minute
_DUST = 1e-9  # ten deposits of 0.1 are a hair less than 1 in floats, and buy one retry


class Bucket:
    """Tokens: ``per_success`` each success pays in, up to ``cap``; a retry or a hedge costs one.

    Successes are not told one by one. Each question brings ``ok``, the total so far, and the bucket pays in what
    is new: the result is that of paying in at each success. A total below the last one pays in nothing.
    Not thread safe: the holder takes its lock.
    """

    __slots__ = ("_seen", "_tokens", "cap", "per_success")

    def __init__(self, per_success: float, cap: float, start: float) -> None:
        self.per_success: float = per_success
        self.cap: float = cap
        self._tokens: float = min(cap, max(0.0, start))
        self._seen: int = 0

    def withdraw(self, ok: int) -> bool:
        """Take one token; False: there is none, and nothing was taken."""
        if self.tokens(ok) < 1.0 - _DUST:
            return False
        self._tokens = max(0.0, self._tokens - 1.0)
        return True

    def refund(self) -> None:
        """Give one token back, for a retry that was decided and never sent."""
        self._tokens = min(self.cap, self._tokens + 1.0)

    def tokens(self, ok: int) -> float:
        """What is there, after ``ok`` successes in all."""
        if ok > self._seen:
            self._tokens = min(self.cap, self._tokens + self.per_success * (ok - self._seen))
            self._seen = ok
        return self._tokens

    def draw_start(self, amount: float) -> float:
        """Take up to ``amount``, as the start of a new key's bucket; gives what it took, perhaps 0.

        It counts what was paid in when the bucket was last asked: ask for ``tokens`` first to have all of it.
        """
        drawn = min(self._tokens, max(0.0, amount))
        self._tokens -= drawn
        return drawn


class Share:
    """Retries bounded by a share of the requests (first attempts) of the last ``window`` seconds.

    A retry is allowed while retries + 1 <= max(floor, max_ratio x requests). The window moves on by a sixtieth
    of itself at a time. A time before the last one counts as the last one. Not thread safe: the holder takes its
    lock.
    """

    __slots__ = ("_cells", "_now", "_number", "_requests", "_retries", "_seen", "floor", "max_ratio", "width")

    def __init__(self, max_ratio: float, window: float, floor: float) -> None:
        self.max_ratio: float = max_ratio
        self.floor: float = floor
        self.width: float = window / _CELLS
        self._cells: deque[list[int]] = deque()  # [cell number, requests, retries], oldest first
        self._now: float = -float("inf")
        self._number: int = 0  # of the present cell
        self._requests: int = 0  # sums over the cells
        self._retries: int = 0
        self._seen: int = 0

    def requests(self, now: float, total: int) -> None:
        """Learn that ``total`` first attempts were made so far."""
        if total > self._seen:
            self._count(now, total - self._seen, 0)
            self._seen = total

    def withdraw(self, now: float) -> bool:
        """Count one retry; False: the share is used up, and nothing was counted."""
        self._move(now)
        if self._retries + 1 > max(self.floor, self.max_ratio * self._requests) + _DUST:
            return False
        self._count(now, 0, 1)
        return True

    def refund(self, now: float, decided: float | None = None) -> None:
        """Give one back, for a retry that was ``decided`` then and never sent.

        The oldest in the window is taken off, whichever it was: no other stops counting too early. A retry decided
        before the window counts no more, so nothing is given back for it; without ``decided`` it is taken to be
        in the window.
        """
        self._move(now)
        if decided is not None and decided // self.width <= self._number - _CELLS:
            return
        for cell in self._cells:
            if cell[2]:
                cell[2] -= 1
                self._retries -= 1
                return

    def left(self, now: float) -> float:
        """How many retries the window has room for."""
        self._move(now)
        return max(0.0, max(self.floor, self.max_ratio * self._requests) - self._retries)

    def _count(self, now: float, requests: int, retries: int) -> None:
        """Add to the present cell."""
        self._move(now)
        if not self._cells or self._cells[-1][0] != self._number:
            self._cells.append([self._number, 0, 0])
        cell = self._cells[-1]
        cell[1] += requests
        cell[2] += retries
        self._requests += requests
        self._retries += retries

    def _move(self, now: float) -> None:
        """Go to the cell of ``now`` and drop those that left the window."""
        self._now = later(now, self._now)
        self._number = int(self._now // self.width)
        while self._cells and self._cells[0][0] <= self._number - _CELLS:
            _, requests, retries = self._cells.popleft()
            self._requests -= requests
            self._retries -= retries

"""How far a download is: a line that is drawn again and again on a terminal, a sentence now and then elsewhere."""

from __future__ import annotations

import time
from collections import deque

from perdure.cli.get.wording import size
from perdure.cli.wording import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.screen import Screen

__all__ = ["Progress", "line"]

OFTEN, SELDOM = 0.1, 10.0
"""Seconds between two lines on a terminal, and elsewhere."""

WINDOW = 5.0
"""The rate is that of so many seconds."""

FAR = 1e7
"""Seconds; what takes longer is not going anywhere."""

_WIDTH = 24


class Progress:
    """Shows how much is there. One thread uses it."""

    def __init__(self, screen: Screen, name: str, *, wanted: bool) -> None:
        self._screen = screen
        self._name = name
        self._wanted = wanted
        self._marks: deque[tuple[float, int]] = deque()
        self._last: tuple[int, int | None] = 0, None
        self._next = time.monotonic() + (0.0 if screen.live else SELDOM)

    def show(self, have: int, total: int | None) -> None:
        """So many bytes are there, of so many."""
        now = time.monotonic()
        self._last = have, total
        if now < self._next or not self._wanted:
            return
        self._next = now + (OFTEN if self._screen.live else SELDOM)
        text = line(self._name, have, total, self._rate(now, have))
        if self._screen.live:
            self._screen.draw(text)
        else:
            self._screen.line(text)

    def again(self) -> None:
        """Nothing has changed but the time."""
        if self._marks:
            self.show(*self._last)

    def stop(self) -> None:
        """Take the line away."""
        self._screen.erase()

    def _rate(self, now: float, have: int) -> float | None:
        """Bytes per second, lately; None where that cannot be said yet."""
        marks = self._marks
        if marks and have < marks[-1][1]:  # it starts again
            marks.clear()
        marks.append((now, have))
        while len(marks) > 2 and now - marks[0][0] > max(WINDOW, OFTEN if self._screen.live else SELDOM):
            marks.popleft()
        since, before = marks[0]
        return (have - before) / (now - since) if now - since >= OFTEN / 2 else None


def line(name: str, have: int, total: int | None, rate: float | None) -> str:
    """One line: "perdure: file.tgz [======      ] 50 %  6 of 12 MB  3 MB/s  2 s left"."""
    parts = [f"perdure: {name}"]
    if total:
        share = min(1.0, have / total)
        filled = round(share * _WIDTH)
        parts += [
            f"[{'=' * filled}{' ' * (_WIDTH - filled)}] {share * 100:.0f} %",
            f"{size(have)} of {size(total)}",
        ]
    else:
        parts.append(size(have))
    if rate is not None:
        parts.append(f"{size(rate)}/s")
        left = (total - have) / rate if total and rate > 0 else FAR
        if left < FAR:
            parts.append(f"{human(float(round(left)))} left")
    return "  ".join(parts)

"""How far a download is: a line that is drawn again and again on a terminal, a sentence now and then elsewhere."""

from __future__ import annotations

import sys
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

_BAR, _BAR_STEP = 24, 4  # in steps, so that it does not move with every digit of the figures
_SMALLEST_BAR = 8
_SMALLEST_NAME = 8
_GAP = "  "
_CUT = "..."


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
        rate = self._rate(now, have)
        if self._screen.live:
            self._screen.draw(line(self._name, have, total, rate, self._screen.width))
        else:
            self._screen.line(line(self._name, have, total, rate))

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


def line(name: str, have: int, total: int | None, rate: float | None, width: int | None = None) -> str:
    """One line: "perdure: file.tgz  [======      ] 50 %  6 MB of 12 MB  3 MB/s  2 s left".

    Where it does not fit into ``width`` characters, the bar gets smaller first, then the name; both may go. The
    figures stay, and of those only the size of the whole is left out in the end.
    """
    share = min(1.0, have / total) if total else None
    figures = _figures(have, total, rate)
    fixed = len(f"perdure: {_GAP}") + len(figures)
    room = sys.maxsize if width is None else width - fixed
    if share is not None:
        bar = min(_BAR, (room - len(name) - len("[] ")) // _BAR_STEP * _BAR_STEP)
        if bar >= _SMALLEST_BAR:
            filled = round(share * bar)
            return f"perdure: {name}{_GAP}[{'=' * filled}{' ' * (bar - filled)}] {figures}"
    if room >= min(_SMALLEST_NAME, len(name)):
        return f"perdure: {_shortened(name, room)}{_GAP}{figures}"
    if width is None or len(figures) <= width:
        return figures
    return _figures(have, total, rate, whole=False)


def _figures(have: int, total: int | None, rate: float | None, *, whole: bool = True) -> str:
    parts: list[str] = []
    if total:
        parts.append(f"{min(1.0, have / total) * 100:.0f} %")
    parts.append(f"{size(have)} of {size(total)}" if total and whole else size(have))
    if rate is not None:
        parts.append(f"{size(rate)}/s")
        left = max(0, total - have) / rate if total and rate > 0 else FAR
        if left < FAR:
            parts.append(f"{human(float(round(left)))} left")
    return _GAP.join(parts)


def _shortened(name: str, room: int) -> str:
    """Its beginning and its end, which says what kind of file it is."""
    if len(name) <= room:
        return name
    end = (room - len(_CUT)) // 2
    return name[: room - len(_CUT) - end] + _CUT + name[len(name) - end :]

"""The URLs of one content, in the order in which they are asked."""

from __future__ import annotations

import time

from perdure.cli.get.record import Mirror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.cli.get.record import Failed

__all__ = ["Mirrors", "hopeful"]


class Mirrors:
    """Knows which URL is to be asked next. One thread uses it."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Mirror(url) for url in urls]
        self._first = 0

    def next(self, asked: set[Mirror]) -> Mirror | None:
        """The next one of a round that is worth asking now; in its beginning, else the soonest."""
        live = [one for one in self._in_order() if one.struck is None and one not in asked]
        ready = [one for one in live if one.not_before <= time.monotonic()]
        if ready or asked:
            return ready[0] if ready else None
        return min(live, key=lambda one: one.not_before, default=None)

    def backups(self, mirror: Mirror, asked: set[Mirror]) -> list[Mirror]:
        """Those that may be asked together with this one."""
        others = [one for one in self._in_order() if one is not mirror and one not in asked]
        return [one for one in others if one.struck is None and one.not_before <= time.monotonic()]

    def begin_with(self, mirror: Mirror) -> None:
        """Rounds begin with this one from now on."""
        self._first = self._all.index(mirror)

    def struck(self) -> Failed:
        """Why none is left."""
        return hopeful([one.struck for one in self._all if one.struck is not None])

    def _in_order(self) -> list[Mirror]:
        return self._all[self._first :] + self._all[: self._first]


def hopeful(failures: list[Failed]) -> Failed:
    """The failure that says most about another attempt: one that allows it, and soonest."""
    return min(failures, key=lambda one: (not one.fault.retryable, not one.ending, one.fault.hint or 0.0))

"""What looks at a command's output as it passes: its last part, and patterns in it. Bounded memory."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

__all__ = ["TAIL", "Matcher", "Tail"]

TAIL = 8192
"""Bytes of output kept as evidence."""

WINDOW = 1 << 16
"""Bytes of one unfinished line that a pattern is searched in."""

OVERLAP = 1 << 12
"""Bytes of finished lines searched again with what follows, so that a pattern may span lines."""


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int = TAIL) -> None:
        self._limit = limit
        self._bytes = b""

    def feed(self, data: bytes) -> None:
        """See the next bytes."""
        limit = self._limit
        self._bytes = data[-limit:] if len(data) >= limit else (self._bytes + data)[-limit:]

    def end(self) -> None:
        """Nothing more comes."""

    def text(self) -> str:
        """The last bytes as text; what is not UTF-8 shows as replacement characters."""
        return self._bytes.decode("utf-8", "replace")


class Matcher:
    """Which patterns occur in a stream, wherever its pieces are cut.

    Lines are searched once they are complete, so ``^`` and ``$`` mean real ends of lines; a line longer than
    ``WINDOW`` is searched in pieces. A match may be up to ``OVERLAP`` bytes long.
    """

    def __init__(self, patterns: Iterable[re.Pattern[bytes]]) -> None:
        self.found: set[re.Pattern[bytes]] = set()
        self._patterns = tuple(patterns)
        self._bytes = b""
        self._fresh = 0  # where the bytes begin that were not searched yet

    def feed(self, data: bytes) -> None:
        """See the next bytes."""
        self._bytes += data
        end = self._bytes.rfind(b"\n", self._fresh) + 1
        if end:
            self._search(end)
        elif len(self._bytes) - self._fresh > WINDOW:
            self._search(len(self._bytes))

    def end(self) -> None:
        """Nothing more comes: what is left is a line too."""
        self._search(len(self._bytes))

    def _search(self, end: int) -> None:
        for pattern in self._patterns:
            if pattern not in self.found and pattern.search(self._bytes, 0, end):
                self.found.add(pattern)
        keep = max(0, end - OVERLAP)
        if keep:  # begin at a line where there is one: "^" must not match in the middle of it
            keep = self._bytes.find(b"\n", keep, end) + 1 or keep
        self._bytes = self._bytes[keep:]
        self._fresh = end - keep

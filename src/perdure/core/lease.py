"""What an admitted call holds: the right to report its result to the period in which it began.

A result that comes in another period says nothing about the present one, so whoever counts results compares the
``generation`` first. While a breaker is closed all calls share one lease, and a success is no more than
``lease.ok += 1`` on it: the counts are gathered when somebody next asks.
"""

from __future__ import annotations

__all__ = ["Lease"]

_FOREVER = float("inf")


class Lease:
    """One admission, or the shared one of a period; not thread safe but for ``ok += 1``, see the module."""

    __slots__ = ("done", "flag", "generation", "ok", "probe", "until")

    def __init__(self, generation: int = 0, *, probe: bool = False, until: float = _FOREVER) -> None:
        self.generation: int = generation
        self.probe: bool = probe
        self.until: float = until  # a probe that has not reported by then gives its place back
        self.ok: int = 0
        self.flag: bool = False  # set by wrappers that need not count: there was a success
        self.done: bool = False

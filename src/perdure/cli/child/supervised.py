"""What one run of a command came to, as a value."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

__all__ = ["NOBODY_READS", "TIMED_OUT", "Ran"]

TIMED_OUT = 124
"""The exit code of an attempt that was cut."""

NOBODY_READS = "nobody reads the output any more"
"""The ``unread`` of a command whose reader went away, as in ``perdure run -- yes | head -1``."""


class Ran(NamedTuple):
    """What one run of a command came to. Immutable.

    ``code`` is what a shell would show: the exit code, 128 + n for death by signal n, 124 if it was cut by
    its timeout. ``timeout`` and ``duration`` are in seconds. ``tail`` is the end of stderr (of both streams
    where they are one), None where it was not seen. ``unread`` says why its output could not be passed on.
    """

    code: int
    signal: int | None = None
    timed_out: bool = False
    timeout: float | None = None
    duration: float = 0.0
    tail: str | None = None
    found: frozenset[re.Pattern[bytes]] = frozenset()
    unread: str = ""
    asked_to_stop: bool = False  # a stopping signal came while it ran
    started: bool = True

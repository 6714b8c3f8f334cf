"""Where time, chance and sync waiting come from; the one place where tests replace them.

The functions are module attributes and are looked up at each use (``clock.monotonic()``), so that
``perdure.testing.VirtualClock`` replaces them for the whole process. Durations and deadlines use
``monotonic``; ``wall`` is only for HTTP dates and for records that people read.
"""

from __future__ import annotations

import time
from _thread import LockType, allocate_lock

from perdure import bypass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Handle(Protocol):
        """A timer that can be called off."""

        def cancel(self) -> None:
            """Call it off."""

    class Virtual(Protocol):
        """The virtual clock, as async waiting on trio sees it."""

        def advance(self, seconds: float) -> None:
            """Move the time on."""

        def sleep(self, seconds: float) -> None:
            """Let time pass for work that takes so long."""

        def call_later(self, delay: float, callback: Callable[[], object], /) -> Handle:
            """Have ``callback()`` called after ``delay`` seconds."""
            ...


LONGEST = 1.0
"""The longest single wait in seconds; longer ones are made of several.

A signal that comes in the last microsecond before Python blocks is handled only when it wakes: this is how late a
SIGTERM may be heard.
"""

_waiting: set[LockType] = set()

closed = False
"""True while the process closes: then nobody begins to wait."""


def is_closed() -> bool:
    """Whether nobody may begin to wait; another thread may change it at any moment."""
    return closed


def _real_sleep(duration: float) -> None:
    """Wait without holding anything; ends early when ``interrupt()`` is called."""
    if duration <= 0:
        return
    bell = allocate_lock()
    bell.acquire()
    wait_for(bell, duration)


def wait_for(bell: LockType, duration: float) -> None:
    """Wait until the bell, a lock that is held, is released, for at most ``duration`` real seconds."""
    _waiting.add(bell)
    try:
        if closed:  # looked at after the bell is there to be rung
            return
        end = time.monotonic() + duration
        while duration > 0 and not bell.acquire(timeout=min(duration, LONGEST)):
            duration = end - time.monotonic()
    finally:
        _waiting.discard(bell)


def interrupt() -> None:
    """End every sync wait that is going on now, in all threads."""
    for bell in tuple(_waiting):
        try:
            bell.release()
        except RuntimeError:
            pass  # rung already, by another thread


def _first_random() -> float:
    """Import ``random`` when chance is first needed: an import that a success never pays."""
    global random  # noqa: PLW0603 - a module attribute on purpose, see the module's first lines
    from random import random as real

    if random is _first_random:
        random = real  # the module's own function: reseeded in forked children
    return real()


monotonic: Callable[[], float] = time.monotonic
wall: Callable[[], float] = time.time
random: Callable[[], float] = _first_random
sleep: Callable[[float], None] = _real_sleep
epoch = 0
"""Changes whenever the clock is replaced: times of different epochs are not compared."""

virtual: Virtual | None = None
"""The virtual clock in force, or None in real time."""


bypass.after_fork(_waiting.clear)

"""Signals that end a download: they raise at once, wherever it is, for what is on the disk is whole at any time."""

from __future__ import annotations

import contextlib
import signal
import threading

from perdure.cli.child.signals import STOPPING, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType
    from typing import Any

__all__ = ["interruptible"]


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Within it a stopping signal raises Interrupted; one that was ignored from the start stays ignored.

    Does nothing in other threads than the main one, which no signal reaches.
    """
    before: dict[int, Any] = {}

    def interrupt(signum: int, _frame: FrameType | None) -> None:
        for one in before:  # once is enough: what follows is the way out
            signal.signal(one, signal.SIG_IGN)
        raise Interrupted(signum)

    if threading.current_thread() is threading.main_thread():
        for signum in STOPPING:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                before[signum] = signal.signal(signum, interrupt)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

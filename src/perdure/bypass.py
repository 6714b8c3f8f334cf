"""The one switch that sends calls off the fused path, and the namespace of the generated wrappers.

A fused wrapper tests one global, ``_slow``, and nothing else. It is true while anything wants to see or stop
every call: a listener, a virtual clock, an open end, a shutdown. Then calls take the general path, which looks at
all of these.

Ends are open most of the time where attempts have timeouts, and concern the calls below them only. So the general
path first looks whether they are all there is (``is_watched`` is false) and none is around the call.
"""

from __future__ import annotations

import os
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WRAPPER_FILE = "<perdure>"
"""The file name in the code of generated wrappers, by which their frames are known."""

NAMESPACE: dict[str, object] = {"__name__": "perdure.engine.wrapper", "_slow": False, "_watched": False}
"""The globals of every generated wrapper; ``perdure.engine.fused`` fills it."""

OPEN_ENDS: list[None] = []
"""One entry for each open end; appending and popping are atomic."""

_lock = RLock()  # a signal handler may come in the middle of a change
_reasons: dict[str, int] = {}


def overload(function: Any) -> Any:
    """Stand for typing.overload, whose import every program would pay for."""
    return function


def after_fork(callback: Callable[[], None]) -> None:
    """Have ``callback()`` called in forked children, to drop locks and waits of threads that are not there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callback)


def hold(reason: str) -> None:
    """Send all calls along the general path until ``release`` was called as often."""
    with _lock:
        _reasons[reason] = _reasons.get(reason, 0) + 1
        _choose()


def release(reason: str) -> None:
    """Take back one ``hold``; without any left, calls take the fused path again."""
    with _lock:
        left = _reasons.get(reason, 0) - 1
        if left > 0:
            _reasons[reason] = left
        else:
            _reasons.pop(reason, None)
        _choose()


def set_reason(reason: str, *, on: bool) -> None:
    """Hold or release for a reason that is either there or not."""
    with _lock:
        if on:
            _reasons[reason] = 1
        else:
            _reasons.pop(reason, None)
        _choose()


def open_end() -> None:
    """Send all calls to look for ends until ``close_end``."""
    OPEN_ENDS.append(None)
    NAMESPACE["_slow"] = True


def close_end() -> None:
    """An end is closed. The switch stays where it is until a call finds that no end is left."""
    OPEN_ENDS.pop()


def is_watched() -> bool:
    """Whether there is any reason to take the general path but an end around the call."""
    if not OPEN_ENDS and not _reasons:
        with _lock:
            _choose()
    return bool(_reasons)


def _choose() -> None:
    NAMESPACE["_watched"] = bool(_reasons)
    NAMESPACE["_slow"] = bool(_reasons or OPEN_ENDS)
    # Looked at again: it may have been opened in between, by a thread that set the switch too early.
    if OPEN_ENDS:
        NAMESPACE["_slow"] = True


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = RLock()


after_fork(_new_lock)

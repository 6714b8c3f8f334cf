"""The one switch that sends calls off the fused path, and the namespace of the generated wrappers.

A fused wrapper tests one global, ``_slow``, and nothing else. It is true while anything wants to see or stop
every call: a listener, a virtual clock, an open ``perdure.deadline`` block, a shutdown. Then calls take the
general path, which looks at all of these.
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

NAMESPACE: dict[str, object] = {"__name__": "perdure.engine.wrapper", "_slow": False}
"""The globals of every generated wrapper; ``perdure.engine.fused`` fills it."""

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
        NAMESPACE["_slow"] = True


def release(reason: str) -> None:
    """Take back one ``hold``; without any left, calls take the fused path again."""
    with _lock:
        left = _reasons.get(reason, 0) - 1
        if left > 0:
            _reasons[reason] = left
        else:
            _reasons.pop(reason, None)
        NAMESPACE["_slow"] = bool(_reasons)


def set_reason(reason: str, *, on: bool) -> None:
    """Hold or release for a reason that is either there or not."""
    with _lock:
        if on:
            _reasons[reason] = 1
        else:
            _reasons.pop(reason, None)
        NAMESPACE["_slow"] = bool(_reasons)


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = RLock()


after_fork(_new_lock)

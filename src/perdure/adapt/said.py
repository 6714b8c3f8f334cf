"""Warnings about a client, each client once."""

from __future__ import annotations

import sys
import warnings
from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["forget", "say_once"]

MOST = 1_000
"""Clients that weak references cannot be made to are remembered by class and text, so many of them."""

_clients: WeakSet[Any] = WeakSet()
_texts: set[str] = set()


def say_once(client: object, text: str) -> None:
    """Warn about a client unless that was done before; two threads at the same moment may both do it."""
    try:
        if client in _clients:
            return
        _clients.add(client)
    except TypeError:
        if text in _texts or len(_texts) >= MOST:
            return
        _texts.add(text)
    warnings.warn(text, RuntimeWarning, stacklevel=_outside())


def _outside() -> int:
    """The level of the first frame that is not ours, so that the warning names the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "perdure":
        level, frame = level + 1, frame.f_back
    return level


def forget() -> None:
    """Forget what was said (for tests)."""
    _clients.clear()
    _texts.clear()

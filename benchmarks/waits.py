"""Takes the waiting out of every contender in the same way: the primitive it sleeps with returns at once.

Every peer and the hand-written loops wait by ``time.sleep`` or ``asyncio.sleep``, looked up on the module
at the moment of the call. Both are replaced while a contender runs: the first by a function that does
nothing, the second by a coroutine function that does nothing and does not suspend. Perdure waits by
``perdure.clock.sleep`` and ``perdure.engine.waiting.wait``, looked up in the same way, and the very same
two functions replace them. All that leads up to the wait (computing the delay, drawing the jitter, logging)
stays.

So these rows say what a library does about a failure. What a real wait costs is a row of its own
(``waiting``).
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator


def _no_wait(seconds: float) -> None:
    """Stand in for ``time.sleep``."""


async def _no_wait_async(delay: float, result: object = None) -> object:
    """Stand in for ``asyncio.sleep``."""
    return result


_OURS = (
    ("perdure.clock", "sleep", _no_wait),
    ("perdure.engine.waiting", "wait", _no_wait_async),
)


@contextmanager
def removed() -> Iterator[None]:
    """Let nothing wait inside the block."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(time, "sleep", _no_wait))
        stack.enter_context(mock.patch.object(asyncio, "sleep", _no_wait_async))
        for module, name, stand_in in _OURS:
            if module in sys.modules:
                stack.enter_context(mock.patch.object(sys.modules[module], name, stand_in))
        yield

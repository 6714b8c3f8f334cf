"""Closing: waits end, calls in flight may finish, new ones are refused.

Nothing counts the calls in flight: a counter would cost every successful call more than all the rest of the
wrapper. Instead ``close`` looks at the stacks of threads and the coroutines of tasks until none of them is
inside a guarded call, see ``perdure.engine.frames``.
"""

from __future__ import annotations

import time

from perdure import bypass, clock
from perdure.engine import waiting
from perdure.engine.frames import in_flight
from perdure.errors import ShuttingDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["aclose", "close", "close_on_signals"]

POLL = 0.01
GRACE = 30.0

closing = False
_final = False


def close(*, grace: float = GRACE, final: bool = False) -> bool:
    """Let the process wind down: end all waits, refuse new calls, give calls in flight ``grace`` seconds.

    A call whose wait is ended gives up with its original error (stop reason shutdown); attempts that are under
    way run on, but none follows. Returns True when all calls had ended, False when the grace time ran out.
    Afterwards calls are admitted again, unless ``final``: then they are refused for good.

    Raises ConfigError unless grace is a duration of 0 or more. Callable from any thread; in async code use
    ``aclose``, which lets the loop run.
    """
    end = clock.monotonic() + _read(grace)
    begin(final=final)
    try:
        while in_flight():
            if clock.monotonic() >= end:
                return False
            _pause()
    finally:
        reopen()
    return True


async def aclose(*, grace: float = GRACE, final: bool = False) -> bool:
    """``close`` for async code (asyncio and trio): calls in flight, also those of other tasks, go on meanwhile.

    Defaults, result and errors as ``close``. Callable from any task.
    """
    end = clock.monotonic() + _read(grace)
    begin(final=final)
    try:
        while in_flight():
            if clock.monotonic() >= end:
                return False
            await _apause()
    finally:
        reopen()
    return True


def _pause() -> None:
    """Wait a little on the clock in force; the ordinary waits end at once while the process closes."""
    if clock.virtual is not None:
        clock.virtual.advance(POLL)
        time.sleep(0)
    else:
        time.sleep(POLL)


async def _apause() -> None:
    if waiting.in_trio():
        import trio

        if clock.virtual is not None:
            clock.virtual.advance(POLL)
        await trio.sleep(0 if clock.virtual is not None else POLL)
    else:
        import asyncio

        await asyncio.sleep(POLL)


def begin(*, final: bool = False) -> None:
    """Refuse new calls and end all waits, without waiting for anything."""
    global closing, _final  # noqa: PLW0603 - the process closes as a whole
    closing = clock.closed = True
    _final = _final or final
    bypass.set_reason("shutdown", on=True)
    clock.interrupt()
    waiting.wake_all()


def reopen(*, force: bool = False) -> None:
    """Admit calls again, unless the close was final (``force``: also then, for tests)."""
    global closing, _final  # noqa: PLW0603 - the process closes as a whole
    _final = _final and not force
    if not _final:
        closing = clock.closed = False
        bypass.set_reason("shutdown", on=False)


def refusal(operation: str) -> ShuttingDown:
    """The error for a call that comes too late."""
    return ShuttingDown(None, f"{operation} was called while the process is closing")


def close_on_signals(*signals: int, grace: float = GRACE) -> None:
    """On SIGTERM and SIGINT (or ``signals``), close for good first, then do what the signal did before.

    The first signal ends all waits and refuses new calls; when the calls in flight have ended, or after
    ``grace`` seconds, the earlier handler runs (by default: the process ends). A second signal runs it at once.

    Raises ConfigError for a bad grace; ValueError outside the main thread, as Python only sets handlers there.
    """
    import signal

    wait = _read(grace)
    for number in signals or (signal.SIGTERM, signal.SIGINT):
        _install(number, wait)


def _install(number: int, grace: float) -> None:
    import signal

    earlier = signal.getsignal(number)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        signal.signal(number, earlier if earlier is not None else signal.SIG_DFL)
        if closing:
            signal.raise_signal(number)
            return
        begin(final=True)  # its locks are reentrant: the handler may run in the middle of a change
        # A thread, since this handler runs on top of the very call that it should let finish.
        from threading import Thread

        Thread(target=_then_signal, args=(number, grace), name="perdure-close", daemon=True).start()

    signal.signal(number, on_signal)


def _then_signal(number: int, grace: float) -> None:
    import os

    close(grace=grace, final=True)
    os.kill(os.getpid(), number)


def _read(grace: float) -> float:
    from perdure.durations import seconds

    return seconds(grace, field="grace")


def _begin_anew() -> None:
    """The child has none of the other threads, and was not asked to close."""
    if not _final:
        reopen()


bypass.after_fork(_begin_anew)

"""Signals that reach perdure itself.

Two states. *Attending*: a command runs, so a signal is kept and the supervisor, woken through ``wake_fd``,
decides what it means for the command. *Idle*: nothing runs (a wait between attempts), so a stopping signal
raises ``Interrupted`` on the spot, which ends the wait and passes through the engine at once. A signal kept
at the end of attending is raised on the way to idle, so none is lost between the two.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType
    from typing import Self

    _Handler = Callable[[int, FrameType | None], object] | int

__all__ = ["STOPPING", "Interrupted", "Signals", "name_of", "suspend"]


def _known(*names: str) -> tuple[int, ...]:
    return tuple(int(getattr(signal, name)) for name in names if hasattr(signal, name))


STOPPING = _known("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""Signals that end perdure: passed on to the command first, and no attempt follows."""

_RELAYED = _known("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTSTP", "SIGCONT")
_WAKING = _known("SIGCHLD")


class Interrupted(BaseException):
    """A stopping signal came while no command ran; ``signum`` is its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """Catches signals for as long as it is entered. For the main thread only."""

    def __init__(self) -> None:
        self.stop: int | None = None  # the first stopping signal
        self.from_terminal = False  # it was a key pressed while the command had the terminal
        self.wake_fd, self._wake_write = os.pipe()
        self._kept: deque[int] = deque()
        self._attending = True  # from the start: nothing may be raised before there is someone to catch it
        self._before: dict[int, _Handler] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        for fd in (self.wake_fd, self._wake_write):
            os.set_blocking(fd, False)
        self._wakeup_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for signum in (*STOPPING, *_RELAYED, *_WAKING):
            # One that perdure was started with ignored (nohup, a shell's background job) stays ignored.
            if signum in _WAKING or signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._receive) or signal.SIG_DFL
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.wake_fd)
        os.close(self._wake_write)

    @contextlib.contextmanager
    def idle(self) -> Generator[None]:
        """Within it a stopping signal raises Interrupted at once; one that is already here does so now."""
        try:
            self._attending = False
            self._raise_if_stopped()
            yield
        finally:
            self._attending = True

    @contextlib.contextmanager
    def attending(self) -> Generator[None]:
        """Within it signals are kept for ``take()``; leaving it raises Interrupted if one of them stops."""
        self._attending = True
        self._raise_if_stopped()
        try:
            yield
        finally:
            self._attending = False
        self._raise_if_stopped()

    def take(self) -> list[int]:
        """The signals that came since the last time, oldest first; also empties the wake-up pipe."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.wake_fd, 4096):
                pass
        taken: list[int] = []
        while self._kept:
            taken.append(self._kept.popleft())
        return taken

    def _receive(self, signum: int, _frame: FrameType | None) -> None:
        if signum in _WAKING:
            return
        if self._attending:
            self._kept.append(signum)
        elif signum in STOPPING:
            self.stop = self.stop or signum
            raise Interrupted(signum)
        elif sys.platform != "win32" and signum == signal.SIGTSTP:
            suspend()

    def _raise_if_stopped(self) -> None:
        for signum in tuple(self._kept):
            if signum in STOPPING:
                self.stop = self.stop or signum
        if self.stop is not None:
            self._attending = True  # what follows is the way out, which nothing may cut short
            raise Interrupted(self.stop)


def suspend() -> None:
    """Stop this process and its whole job, as the terminal's own Ctrl-Z would; returns when it goes on.

    Does nothing where no shell could ever continue it (an orphaned process group).
    """
    if sys.platform == "win32":
        return
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        os.killpg(os.getpgrp(), signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, before)


def name_of(signum: int) -> str:
    """TERM for 15; the bare number where the system has no name for it."""
    try:
        return signal.Signals(signum).name.removeprefix("SIG")
    except ValueError:
        return str(signum)

"""stderr as a person sees it: the command's output, perdure's own lines, and a passing status line.

Three kinds of writers share one terminal without disturbing each other: the status line is drawn only where
the cursor stands at the start of a line, and is erased before anything else is written.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.cli.child.terminal import Terminal

__all__ = ["Screen"]

QUIET = 1.0
"""Seconds without output after which a status line may be drawn while the command runs."""

_ERASE = b"\r\x1b[2K"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Screen:
    """Writes to stderr. ``live`` allows the status line (only on a terminal). One thread uses it."""

    def __init__(self, *, quiet: bool = False, live: bool = True, fd: int = 2) -> None:
        self.fd = fd
        self.quiet = quiet
        self.tty = os.isatty(fd) and sys.platform != "win32"
        self.live = live and self.tty and not quiet and os.environ.get("TERM") != "dumb"
        self.colour = self.tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._at_start: bool | None = True  # None: somebody wrote whose output we did not see
        self._last_output = time.monotonic()
        self._shown = ""
        self.terminal: Terminal | None = (
            None  # where it is lent to the command, the status line may be drawn too
        )

    def saw(self, data: bytes) -> None:
        """The command's output is about to be written here: make room, and remember where it ends."""
        self.erase()
        self._at_start = data.endswith((b"\n", b"\r"))
        self._last_output = time.monotonic()

    def lost_sight(self) -> None:
        """The command wrote to the terminal by itself."""
        if self.tty:
            self._at_start = None

    def line(self, text: str) -> None:
        """Say one line, unless told to be quiet or there is nothing to say."""
        if text and not self.quiet:
            self.always(text)

    def always(self, text: str) -> None:
        """Say one line even when quiet: a report that was asked for, or that perdure itself failed."""
        self.erase()
        shown = f"{_DIM}{text}{_PLAIN}" if self.colour and text.startswith("perdure: ") else text
        self._write(self._new_line() + shown.encode("utf-8", "backslashreplace") + b"\n")
        self._at_start = True

    def draw(self, text: str) -> None:
        """Show the status line, where nothing else stands on its line."""
        if not self.live or self._at_start is False or text == self._shown or not self._in_foreground():
            return
        fitting = text[: self.width]
        lead = _ERASE if self._shown else self._new_line()
        self._write(lead + (f"{_DIM}{fitting}{_PLAIN}" if self.colour else fitting).encode())
        self._shown, self._at_start = text, True

    def erase(self) -> None:
        """Take the status line away."""
        if self._shown:
            self._shown = ""
            self._write(_ERASE)

    def rests(self, calm: Callable[[], bool]) -> bool:
        """Whether the command has been quiet long enough, at the start of a line, with a calm terminal."""
        return bool(self._at_start) and time.monotonic() - self._last_output >= QUIET and calm()

    def _in_foreground(self) -> bool:
        """Whether the person at the terminal is looking at this job, and not at a shell's prompt."""
        try:
            front = os.tcgetpgrp(self.fd)
        except OSError:
            return True  # not our controlling terminal: no job control there
        return front == os.getpgrp() or (self.terminal is not None and front == self.terminal.lent_to)

    def _new_line(self) -> bytes:
        """What brings the cursor to the start of a line, whether or not it is there."""
        if self._at_start:
            return b""
        if self._at_start is False:
            return b"\n"
        # As many blanks as reach the end of the line from its start: from anywhere else they end on the next
        return b" " * (self._columns() - 1) + b"\r\x1b[K"

    @property
    def width(self) -> int:
        """The characters of a status line that are shown; the last column stays free."""
        return self._columns() - 1

    def _columns(self) -> int:
        from perdure.cli.child.terminal import columns

        return columns(self.fd)

    def _write(self, data: bytes) -> None:
        if self.tty:
            from perdure.cli.child.terminal import write_quietly

            write_quietly(self.fd, data)
            return
        view = memoryview(data)
        with contextlib.suppress(OSError):  # nobody to talk to
            while view:
                view = view[os.write(self.fd, view) :]

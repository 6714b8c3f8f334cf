"""The terminal, lent to the command while it runs and put back in order afterwards.

A command in a process group of its own may read the terminal only as the terminal's foreground group. perdure
makes it that at once where the whole terminal is the command's, and otherwise when the command asks for it
and is stopped for that: in ``perdure run -- produce | less`` the keys are for the pager. While it is lent,
Ctrl-C and Ctrl-Z reach the command directly and not perdure; what it did with them is seen from how it ended
or stopped (see ``supervise``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from perdure.cli.child.signals import suspend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

__all__ = ["Loan", "Terminal", "columns", "copy_size", "open_like", "write_quietly"]


class Terminal:
    """The controlling terminal; see ``find``. ``lent_to`` is the group that has it from us, if one has."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.lent_to: int | None = None
        self._modes: list[Any] | None = None

    @classmethod
    def find(cls) -> Terminal | None:
        """The terminal that controls this process; None where there is none (cron, a service)."""
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
        except OSError:
            return None

    def lend(self, pgid: int) -> bool:
        """Make the group the foreground one, if we are: it may read, and the terminal's keys go to it.

        False for a background job, which has no say over the terminal until a shell gives it back.
        """
        import termios

        if self.holds(os.getpgrp()):
            with _may_touch_terminal(), contextlib.suppress(OSError, termios.error):
                self._modes = termios.tcgetattr(self.fd)
                os.tcsetpgrp(self.fd, pgid)
                self.lent_to = pgid
        return self.lent_to == pgid

    def holds(self, pgid: int) -> bool:
        """Whether that group is in the foreground now."""
        try:
            return os.tcgetpgrp(self.fd) == pgid
        except OSError:
            return False

    def take_back(self) -> None:
        """Be in the foreground again, with the modes (echo, line editing) there were before lending."""
        if self.lent_to is None:
            return
        import termios

        self.lent_to = None
        with _may_touch_terminal(), contextlib.suppress(OSError, termios.error):
            os.tcsetpgrp(self.fd, os.getpgrp())
            if self._modes is not None and termios.tcgetattr(self.fd) != self._modes:
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self._modes)

    def calm(self) -> bool:
        """Whether nobody asked for a password or took the whole screen: echo and line mode are both on."""
        import termios

        try:
            flags: int = termios.tcgetattr(self.fd)[3]
        except termios.error:
            return False
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON)


class Loan:
    """One command's use of the terminal (None: there is none to use). One thread uses it."""

    def __init__(self, terminal: Terminal | None) -> None:
        self._terminal = terminal
        self._given = False

    def give(self, pgid: int) -> bool:
        """Let the command have the terminal, if it is ours to lend or lent to it already."""
        terminal = self._terminal
        self._given = terminal is not None and (terminal.lent_to == pgid or terminal.lend(pgid))
        return self._given

    def end(self) -> None:
        """Take the terminal back, where it was given."""
        if self._terminal is not None:
            self._terminal.take_back()

    def rest(self, pgid: int) -> float:
        """Stop this process and its job until a shell continues it; returns for how many seconds that was."""
        since = time.monotonic()
        given = self._given
        self.end()
        suspend()
        if given:
            self.give(pgid)
        return time.monotonic() - since

    def key_behind(self, code: int) -> int | None:
        r"""The signal of the key, Ctrl-C or Ctrl-\\, that a command with the terminal seems to have ended by.

        Or HUP, when the terminal went away. Such a signal reached the command alone and is meant for us too.
        """
        signum = code - 128
        return signum if self._given and signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP) else None


@contextlib.contextmanager
def _may_touch_terminal() -> Generator[None]:
    """A background process that touches the terminal is stopped by TTOU unless it blocks that signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def write_quietly(fd: int, text: bytes) -> None:
    """Write to a terminal that a command may hold in the foreground; failures do not matter."""
    with _may_touch_terminal(), contextlib.suppress(OSError):
        os.write(fd, text)


def open_like(fd: int) -> tuple[int, int]:
    """A new pseudo terminal with the size of the terminal ``fd``: (our end, the command's end).

    It passes bytes on unchanged: the real terminal behind it does the line endings and the echo.
    """
    import termios

    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[0] = modes[1] = 0
    modes[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    copy_size(fd, theirs)
    return ours, theirs


def copy_size(source: int, target: int) -> None:
    """Give one terminal the rows and columns of another."""
    import termios

    with contextlib.suppress(OSError, termios.error):
        rows, cols = termios.tcgetwinsize(source)
        termios.tcsetwinsize(target, (rows, cols))


def columns(fd: int) -> int:
    """The width of the terminal in characters; 80 where it does not say."""
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80

"""A process group: the command of one attempt and everything it started and left behind."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["Group"]


class Group:
    """The processes of one attempt; asked about and signalled as a whole.

    The leader must have been reaped before ``alive()`` can say no: a dead leader that nobody waited for
    still counts as a member for the system. Not thread safe; one thread supervises one group.
    """

    __slots__ = ("pgid",)

    def __init__(self, pgid: int) -> None:
        self.pgid = pgid

    def send(self, signum: int) -> bool:
        """Signal every member; False when nobody is left to receive it."""
        try:
            os.killpg(self.pgid, signum)
        except ProcessLookupError:
            return False
        except PermissionError:  # a member changed its user; the others got the signal
            return True
        return True

    def terminate(self) -> bool:
        """Send TERM, and CONT so that stopped members can act on it."""
        there = self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        return there

    def kill(self) -> bool:
        """Send KILL, which no member can refuse."""
        return self.send(signal.SIGKILL)

    def alive(self) -> bool:
        """Whether a member still runs.

        Dead members whose parent never waits for them (a container whose first process reaps nobody) keep
        the group's number in use; where the system can be asked, they do not count.
        """
        if not self.send(0):
            return False
        if sys.platform != "linux":
            return True
        return _has_running_member(self.pgid)


def _has_running_member(pgid: int) -> bool:
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return True
    return any(_runs_in(pid, pgid) for pid in pids)


def _runs_in(pid: str, pgid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would cost its import
            # The command's name stands in brackets and may hold anything; what follows is: state parent group
            state, _parent, group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # gone in the meantime
    return int(group) == pgid and state not in (b"Z", b"X")

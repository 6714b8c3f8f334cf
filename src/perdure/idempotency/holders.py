"""Who holds a key, and whether that call may still be going on: in this process, in another, on another machine."""

from __future__ import annotations

import os
from typing import NamedTuple

from perdure import bypass, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weakref import WeakValueDictionary

__all__ = ["LEASE", "LONGEST_CALL", "Here", "Hold", "Holder", "is_held"]

LEASE = 60.0
"""Seconds for which a holder that cannot be seen from here (another machine, another container) counts as alive."""

LONGEST_CALL = 900.0
"""Seconds after which a holder counts as gone even though its process lives."""


class Here(NamedTuple):
    """The process, now: wall clock and monotonic seconds, the start of the machine, the process."""

    wall: float
    ticks: float
    boot: str
    pid: int
    started: str

    @classmethod
    def now(cls) -> Here:
        """Look at the clocks, which a virtual clock may replace."""
        boot = _boot() if clock.virtual is None else f"virtual {clock.epoch} {_boot()}"
        pid = os.getpid()
        return cls(clock.wall(), clock.monotonic(), boot, pid, _own_start(pid))


class Holder(NamedTuple):
    """A process that took a key, when it did, and the token of the call; an empty token: nobody."""

    wall: float
    ticks: float
    boot: str
    pid: int
    started: str
    token: str


class Hold:
    """What a call has while it goes on. Dropped without a word, it counts as gone."""

    __slots__ = ("__weakref__", "token")

    def __init__(self) -> None:
        self.token: str = os.urandom(12).hex()
        _holds()[self.token] = self


def is_held(holder: Holder, here: Here) -> bool:
    """Whether the call that took a key may still be at work."""
    if not holder.token:
        return False
    if holder.boot != here.boot:
        return abs(here.wall - holder.wall) < LEASE
    if not 0 <= here.ticks - holder.ticks < LONGEST_CALL:  # before 0: the machine was started anew
        return False
    if (holder.pid, holder.started) == (here.pid, here.started):
        return holder.token in _holds()
    return _is_running(holder.pid, holder.started)


_known: dict[str, str] = {}
_starts: dict[int, str] = {}
_all_holds: WeakValueDictionary[str, Hold] | None = None


def _holds() -> WeakValueDictionary[str, Hold]:
    global _all_holds  # noqa: PLW0603 - made when first needed: weakref is an import
    if _all_holds is None:
        from weakref import WeakValueDictionary

        _all_holds = WeakValueDictionary()
    return _all_holds


def _boot() -> str:
    """The start of this machine, and the space in which its process numbers hold; else the machine's name."""
    found = _known.get("boot")
    if found is None:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - no pathlib
                found = f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - as above
        except (OSError, ValueError):
            import platform

            found = f"{platform.system()} {platform.node()}"
        _known["boot"] = found
    return found


def _own_start(pid: int) -> str:
    """When this process started, looked up once."""
    known = _starts.get(pid)
    if known is None:
        known = _starts[pid] = _stat(pid)[1]
    return known


def _stat(pid: int) -> tuple[str, str]:
    """The state of a process, and when it started, in ticks of its machine; empty where it is not told.

    A number that was given out again belongs to a process that started later.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - no pathlib
            # The name of the program, in brackets, may contain anything.
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), fields[19].decode()
    except (OSError, IndexError, ValueError):
        return "", ""


def _is_running(pid: int, started: str) -> bool:
    if started:
        state, now = _stat(pid)
        return now == started and state not in {"Z", "X"}  # a zombie has ended, and nobody has asked yet
    if os.name == "nt":  # there, signal 0 would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _forget() -> None:
    """What the parent holds is the parent's; its process number tells."""
    global _all_holds  # noqa: PLW0603 - as in _holds
    _all_holds = None
    _starts.clear()


bypass.after_fork(_forget)

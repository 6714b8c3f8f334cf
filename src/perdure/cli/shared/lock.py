"""A lock by name: one process at a time.

Its row names the holder. While the holder is known to live the lock is held, and when it is known to be dead the
lock is free, at once. Where neither can be told (a holder in another container, another boot, Windows) the row
is a lease: a heartbeat writes it anew, and one that was not written for ``LEASE`` seconds is free.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NamedTuple

from perdure.cli.shared.holder import is_alive, this_process
from perdure.cli.shared.store import Store, Transaction, Trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from perdure.cli.shared.store import Kept

__all__ = ["Heartbeat", "Held", "Lock", "who_holds"]

KIND = "lock"

LEASE = 30.0
"""Seconds that a lock lasts without a beat, where its holder cannot be looked at."""

BEATS = 3
"""Beats per lease: two may fail."""


class Held(NamedTuple):
    """Who holds a lock, since when (seconds since 1970), and whether it is known to live. Immutable."""

    pid: int | None
    program: str
    since: float
    alive: bool | None


class Lock:
    """The side of one process of a lock. Stateless but for its token: any thread may use it, in a transaction."""

    def __init__(self, name: str, program: str, *, lease: float = LEASE) -> None:
        self.name = name
        self.lease = lease
        self._token = os.urandom(16).hex()
        self._program = program

    def take(self, tx: Transaction) -> Held | None:
        """Take it; or say who has it."""
        held = who_holds(tx, self.name)
        if held is None:
            tx.put(KIND, self.name, self._row(tx.now))
        return held

    def renew(self, tx: Transaction) -> bool:
        """Say that we are still there; False where the lock is no longer ours."""
        kept = tx.get(KIND, self.name)
        if kept is None or not self._is_ours(kept):
            return False
        tx.put(KIND, self.name, kept.data)
        return True

    def release(self, tx: Transaction) -> None:
        """Give it back; does nothing where it is not ours."""
        kept = tx.get(KIND, self.name)
        if kept is not None and self._is_ours(kept):
            tx.drop(KIND, self.name)

    def _row(self, now: float) -> dict[str, Any]:
        who = this_process()
        return {**who, "token": self._token, "since": now, "lease": self.lease, "program": self._program}

    def _is_ours(self, kept: Kept) -> bool:
        return bool(kept.data.get("token") == self._token)


def who_holds(tx: Transaction, name: str, *, write: bool = True) -> Held | None:
    """Who holds a lock; None: nobody who still counts. ``write``: whether the transaction may write."""
    kept = tx.get(KIND, name)
    if kept is None:
        return None
    data = kept.data
    alive = is_alive(data)
    if alive is False or (alive is None and tx.now - kept.at >= _number(data.get("lease"), LEASE)):
        return None
    if alive is None and kept.at > tx.now and write:  # the clock was set back: the lease runs from now
        tx.put(KIND, name, data)
    pid = data.get("pid")
    since = min(tx.now, _number(data.get("since"), kept.at))
    return Held(pid if isinstance(pid, int) else None, str(data.get("program", "")), since, alive)


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, (int, float)) else otherwise


class Heartbeat:
    """A thread that renews a lock until it is told to stop. ``lost``: the lock is no longer ours."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.lost = False
        self._path = path
        self._lock = lock
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="perdure lock", daemon=True)

    def start(self) -> None:
        """Begin to beat. Signals stay with the threads that are there: they wake the main one from its wait."""
        if sys.platform == "win32":
            self._thread.start()
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """Stop beating; returns when no beat is under way."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._end.wait(self._lock.lease / BEATS):
            try:
                with Store(self._path) as store, store.changing() as tx:
                    self.lost = not self._lock.renew(tx)
            except Trouble:
                continue  # the next beat may do better; whoever looks sees that this process lives
            if self.lost:
                return

"""A SQLite file that is ours or is not, and that others write to at the same time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from perdure import clock
from perdure.durations import human

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

__all__ = ["Ours", "is_damaged"]


@dataclass(frozen=True, slots=True)
class Ours:
    """Tells a file of ours from others, and waits for those who write to it.

    ``what`` is kept in it, for people. ``application`` and ``version`` are what SQLite keeps of the program a file
    belongs to. ``patience`` is how many seconds to wait, with ``pauses`` from the first to the longest. ``trouble``
    makes the exception of a reason in words. Immutable, safe to share everywhere.
    """

    what: str
    application: int
    version: int
    patience: float
    pauses: tuple[float, float]
    trouble: Callable[[str], Exception]

    def has(self, db: sqlite3.Connection) -> bool:
        """Whether the file is ours; False for an empty one. Raises the trouble for any other.

        For one thread at a time, as the connection is.
        """
        application, version, tables = (
            db.execute(ask).fetchone()[0]
            for ask in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if application == self.application and version > self.version:
            raise self.trouble(f"written by a newer perdure (version {version} of the file)")
        if application != self.application and (application or version or tables):
            raise self.trouble(f"this is the database of another program, no file of {self.what}")
        return bool(application == self.application)

    def sign(self, db: sqlite3.Connection) -> None:
        """Make an empty file ours, inside a transaction. For one thread at a time, as the connection is."""
        db.execute(f"PRAGMA application_id={self.application}")
        db.execute(f"PRAGMA user_version={self.version}")

    def patiently(self, step: Callable[[], object]) -> None:
        """Do it, and again while others are in the way; SQLite's own waiting would see no signal.

        The pauses grow, as many who look often keep out who writes, and are drawn, so that nobody is always late.
        Raises the trouble when patience ends. Callable from any thread.
        """
        import sqlite3

        busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
        end = time.monotonic() + self.patience
        pause, longest = self.pauses
        while True:
            try:
                step()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in busy:
                    raise
                if time.monotonic() >= end:
                    raise self.trouble(
                        f"locked by another process for more than {human(self.patience)}"
                    ) from None
                time.sleep(pause * (0.5 + clock.random() / 2))
                pause = min(longest, pause * 1.5)
            else:
                return


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether SQLite cannot read the file, as it is damaged or no database. Pure: safe from any thread or task."""
    import sqlite3

    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)

"""One SQLite file that threads and processes of a machine write to, with every commit on the disk.

One connection per process, used by one thread at a time. After a fork the child opens its own: SQLite's state
must not be used on both sides, not even to close it.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from threading import Lock

from perdure import clock
from perdure.idempotency import forks
from perdure.idempotency.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Generator

__all__ = ["Database"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_left_behind: list[object] = []
"""Connections of a parent process: kept, for collecting them would close them."""


class Database:
    """The file at ``path``, with a schema that statements make; opened, and made, when first used.

    ``application`` and ``version`` tell it from other files. ``patience`` is how many seconds to wait for others
    who write. Whatever goes wrong is a StoreUnavailable. Safe from any thread, task or forked child.
    """

    def __init__(
        self, path: str, *, application: int, version: int, schema: tuple[str, ...], patience: float
    ) -> None:
        self.path = path
        self._application = application
        self._version = version
        self._schema = schema
        self._patience = patience
        self._opened: sqlite3.Connection | None = None
        self._lock = Lock()
        forks.watch(self)

    @contextmanager
    def changing(self) -> Generator[sqlite3.Connection]:
        """Read and write as the only one; all of it is on the disk afterwards, or nothing happened."""
        with self._alone(), self._in_words():
            db = self._connection()
            try:
                self._patiently(lambda: db.execute("BEGIN IMMEDIATE"))
                yield db
                self._patiently(lambda: db.execute("COMMIT"))
            finally:
                if db.in_transaction:
                    _quietly(lambda: db.execute("ROLLBACK"))

    def close(self) -> None:
        """Close the file once nobody uses it; the next use opens it again."""
        with self._alone():
            self.drop()

    def drop(self) -> None:
        """Close the file, for one who is alone with it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            _quietly(opened.close)

    def renew(self) -> None:
        """Begin anew in a forked child: a thread that held the lock is not there."""
        self._lock = Lock()
        opened, self._opened = self._opened, None
        if opened is not None:
            _left_behind.append(opened)

    @contextmanager
    def _alone(self) -> Generator[None]:
        lock = self._lock
        if not lock.acquire(timeout=self._patience):
            raise self._trouble("other threads use it for too long")
        try:
            yield
        finally:
            lock.release()

    # Opening

    def _connection(self) -> sqlite3.Connection:
        import sqlite3

        if self._opened is not None:
            return self._opened
        # Made first with the rights of its owner alone: keys are worth something to others.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        self._opened = db
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        # FULL: a commit is on the disk, not only with the system, before the request leaves.
        self._patiently(lambda: db.execute("PRAGMA synchronous=FULL"))
        self._patiently(lambda: self._see_whose(db))
        self._patiently(lambda: db.execute("PRAGMA journal_mode=WAL"))  # stays as it was where that cannot be
        try:
            self._patiently(lambda: db.execute("BEGIN IMMEDIATE"))
            if not self._see_whose(db):
                for statement in self._schema:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id={self._application}")
                db.execute(f"PRAGMA user_version={self._version}")
            self._patiently(lambda: db.execute("COMMIT"))
        finally:
            if db.in_transaction:
                _quietly(lambda: db.execute("ROLLBACK"))

    def _see_whose(self, db: sqlite3.Connection) -> bool:
        """Whether it is a file of ours; False for an empty one."""
        application, version, tables = (
            db.execute(ask).fetchone()[0]
            for ask in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if application == self._application and version > self._version:
            raise self._trouble(f"written by a newer perdure (version {version} of the file)")
        if application != self._application and (application or version or tables):
            raise self._trouble("the database of another program")
        return bool(application == self._application)

    # Trouble

    def _patiently(self, step: Callable[[], object]) -> None:
        """Do it, and again while others are in the way; SQLite's own waiting would see no signal."""
        import sqlite3

        busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
        end, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                step()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in busy:
                    raise
                if time.monotonic() >= end:
                    raise self._trouble(f"locked by another process for {self._patience:g} s") from None
                time.sleep(pause * (0.5 + clock.random() / 2))  # drawn, so that nobody is always late
                pause = min(_LONGEST_PAUSE, pause * 1.5)
            else:
                return

    @contextmanager
    def _in_words(self) -> Generator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            damaged = code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
            self.drop()  # the next use finds out whether it is well again
            raise self._trouble("damaged, or no file of keys" if damaged else str(error)) from None
        except OSError as error:
            raise self._trouble(error.strerror or str(error)) from None

    def _trouble(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(self.path, reason)


def _quietly(step: Callable[[], object]) -> None:
    """Do what may fail without harm, also while the interpreter ends."""
    try:
        step()
    except Exception:  # noqa: BLE001, S110 - nothing can be done about it
        pass

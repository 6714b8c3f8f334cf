"""One SQLite file that threads and processes of a machine write to, with every commit on the disk.

One connection per process, used by one thread at a time. After a fork the child opens its own: SQLite's state
must not be used on both sides, not even to close it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from threading import Lock

from perdure.idempotency import forks
from perdure.idempotency.errors import StoreUnavailable
from perdure.store.ours import Ours, is_damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Generator

__all__ = ["Database"]

_PAUSES = (0.001, 0.05)
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
        self._trouble = partial(StoreUnavailable, path)
        self._ours = Ours("keys", application, version, patience, _PAUSES, self._trouble)
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
                self._ours.patiently(lambda: db.execute("BEGIN IMMEDIATE"))
                yield db
                self._ours.patiently(lambda: db.execute("COMMIT"))
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
        except BaseException:  # also an interrupt: nobody else would close it
            db.close()
            raise
        self._opened = db
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        # FULL: a commit is on the disk, not only with the system, before the request leaves.
        self._ours.patiently(lambda: db.execute("PRAGMA synchronous=FULL"))
        self._ours.patiently(lambda: self._ours.has(db))
        self._ours.patiently(
            lambda: db.execute("PRAGMA journal_mode=WAL")
        )  # stays as it was where that cannot be
        try:
            self._ours.patiently(lambda: db.execute("BEGIN IMMEDIATE"))
            if not self._ours.has(db):
                for statement in self._schema:
                    db.execute(statement)
                self._ours.sign(db)
            self._ours.patiently(lambda: db.execute("COMMIT"))
        finally:
            if db.in_transaction:
                _quietly(lambda: db.execute("ROLLBACK"))

    # Trouble

    @contextmanager
    def _in_words(self) -> Generator[None]:
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            self.drop()  # the next use finds out whether it is well again
            raise self._trouble("damaged, or no file of keys" if is_damaged(error) else str(error)) from None
        except OSError as error:
            raise self._trouble(error.strerror or str(error)) from None


def _quietly(step: Callable[[], object]) -> None:
    """Do what may fail without harm, also while the interpreter ends."""
    try:
        step()
    except Exception:  # noqa: BLE001, S110 - nothing can be done about it
        pass

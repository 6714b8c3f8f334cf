"""The keys of a client in a file, so that a program that was killed finds them again."""

from __future__ import annotations

import os
from typing import NamedTuple

from perdure.checks import check_seconds, check_whole, refuse
from perdure.idempotency.database import Database
from perdure.idempotency.holders import Here, Holder, is_held
from perdure.idempotency.ledger import Row, settle, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, Self

    from perdure.idempotency.holders import Hold
    from perdure.idempotency.ledger import Ask

__all__ = ["ClientStore", "Pending"]

WEEK = 7 * 86_400.0

_APPLICATION = 0x7065726B  # "perk", where SQLite keeps which program a file belongs to
_VERSION = 1
_SCHEMA = (
    """
    CREATE TABLE client_key (
        host TEXT NOT NULL, key TEXT NOT NULL, operation TEXT, print TEXT NOT NULL, given INTEGER NOT NULL,
        state TEXT NOT NULL, status INTEGER,
        first REAL NOT NULL, first_ticks REAL NOT NULL, first_boot TEXT NOT NULL,
        wall REAL NOT NULL, ticks REAL NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
        token TEXT NOT NULL,
        UNIQUE (host, key)
    )
    """,
    "CREATE UNIQUE INDEX client_key_operation ON client_key (operation) WHERE operation IS NOT NULL",
    "CREATE INDEX client_key_done ON client_key (wall) WHERE state = 'done'",
    "CREATE INDEX client_key_unfinished ON client_key (first) WHERE state <> 'done'",
)
_SELECT = "SELECT * FROM client_key WHERE "
_PUT = "INSERT OR REPLACE INTO client_key VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FIELDS = 10
"""The columns of a row that come before those of its holder."""

# By both clocks: one that was set far ahead must not make the file forget what was done today.
_PURGE = """
    DELETE FROM client_key WHERE rowid IN (
        SELECT rowid FROM client_key
        WHERE state = 'done' AND token = '' AND wall < ? AND (boot <> ? OR ticks < ?) ORDER BY wall LIMIT ?
    )
"""
_BATCH = 100


class Pending(NamedTuple):
    """A key whose call has not ended well: ``first`` is when it was given out, in seconds since 1970.

    ``in_progress``: its call may still be going on. ``status`` is the last answer, if there was one.
    """

    key: str
    operation: str | None
    host: str
    status: int | None
    first: float
    in_progress: bool


class ClientStore:
    """A file of keys for ``Keys(store=...)``: a key and the print of its payload are on the disk before it is sent.

    One file serves the threads and processes of one machine; payloads are not in it. ``keep`` is for how many
    seconds (default a week) what was done is remembered by its operation or key; what is unfinished stays until it
    ends or is forgotten. ``patience`` is how many seconds to wait for others who write (default 5).

    Raises ConfigError for values that cannot be; its methods raise StoreUnavailable where the file is locked,
    damaged or full. Safe from any thread, task or forked child.
    """

    is_durable = True

    def __init__(self, path: str | os.PathLike[str], *, keep: float = WEEK, patience: float = 5.0) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path) or "\0" in os.fspath(path):
            raise refuse("path", "must be the path of a file", path)
        check_seconds("keep", keep, above=0)
        check_seconds("patience", patience)
        self.keep: float = float(keep)
        self._database = Database(
            os.path.abspath(path),  # noqa: PTH100 - pathlib is an import
            application=_APPLICATION,
            version=_VERSION,
            schema=_SCHEMA,
            patience=float(patience),
        )

    @property
    def path(self) -> str:
        """The file."""
        return self._database.path

    def __repr__(self) -> str:
        return f"ClientStore({self.path!r})"

    def take(self, ask: Ask, hold: Hold) -> tuple[Row, bool]:
        """Give out a key. Raises a KeyProblem where it may not be. ``Keys`` calls it."""
        with self._database.changing() as db:
            self._purge(db)
            return take(_Rows(db), ask, hold)

    def settle(self, row: Row, state: str | None, status: int | None) -> None:
        """Write down how a call ended. ``Claim`` calls it."""
        with self._database.changing() as db:
            settle(_Rows(db), row, state, status)

    def pending(self, limit: int = 1000) -> list[Pending]:
        """The keys whose calls have not ended well, oldest first: what to look up at the server after a crash."""
        check_whole("limit", limit, least=1)
        with self._database.changing() as db:
            found = db.execute(_SELECT + "state <> 'done' ORDER BY first LIMIT ?", (limit,)).fetchall()
        here = Here.now()
        return [
            Pending(row.key, row.operation, row.host, row.status, row.first, is_held(row.holder, here))
            for row in map(_row, found)
        ]

    def forget(self, key: str) -> bool:
        """Drop a key, whatever became of it; its operation then gets a new one. False where there was none."""
        with self._database.changing() as db:
            return db.execute("DELETE FROM client_key WHERE key = ?", (key,)).rowcount > 0

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_database"):
            self._database.drop()

    def _purge(self, db: sqlite3.Connection) -> None:
        here = Here.now()
        db.execute(_PURGE, (here.wall - self.keep, here.boot, here.ticks - self.keep, _BATCH))


class _Rows:
    """The table of one transaction."""

    keeps_minted = False

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def get(self, host: str, key: str) -> Row | None:
        return self._one("host = ? AND key = ?", host, key)

    def of_operation(self, operation: str) -> Row | None:
        return self._one("operation = ?", operation)

    def put(self, row: Row) -> None:
        self._db.execute(_PUT, (*row[:_FIELDS], *row.holder))

    def drop(self, row: Row) -> None:
        self._db.execute("DELETE FROM client_key WHERE host = ? AND key = ?", (row.host, row.key))

    def _one(self, where: str, *values: str) -> Row | None:
        found = self._db.execute(_SELECT + where, values).fetchone()
        return None if found is None else _row(found)


def _row(found: tuple[Any, ...]) -> Row:
    host, key, operation, payload, given, state, status, first, ticks, boot, *holder = found
    known = (host, key, operation, payload, bool(given), state, status, first, ticks, boot)
    return Row(*known, Holder(*holder))

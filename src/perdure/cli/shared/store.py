"""The file that processes of one machine share: small JSON documents by kind and name, in SQLite.

Whoever changes something does it in one short IMMEDIATE transaction, so that what was read still holds when it
is written. SQLite's write-ahead log keeps a file whole whatever is killed in the middle; where the file system
has none, its rollback journal does the same. Nothing is held between transactions.

Times are those of the wall clock, for processes share no other. Each document has the time at which it was
written; one from the future means that the clock was set back, and readers take it as written now.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from perdure import clock
from perdure.store.ours import Ours, is_damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Self, TypeGuard

__all__ = ["Kept", "Store", "Transaction", "Trouble", "default_path", "fields_of"]

PATIENCE = 10.0
"""Seconds to wait for others who write; five hundred who come at once take a few on two slow processors."""

PAUSES = (0.002, 0.2)
"""Seconds between two looks at a file that others write, at first and at most."""

FORGOTTEN = 30 * 86400.0
"""Seconds after which a name that nobody used is forgotten."""

_APPLICATION = 0x70657264  # "perd", where SQLite keeps which program a file belongs to
_VERSION = 1
_TABLE = (
    "CREATE TABLE shared (kind TEXT NOT NULL, name BLOB NOT NULL, data TEXT NOT NULL, at REAL NOT NULL, "
    "PRIMARY KEY (kind, name)) WITHOUT ROWID"
)


class Trouble(Exception):
    """The shared state cannot be used. The message is one line that names the file and says why."""


class Kept(NamedTuple):
    """A document and when it was written, in seconds since 1970. Immutable, but for the document."""

    data: dict[str, Any]
    at: float


class Transaction:
    """Reads and writes documents; valid inside the ``with`` block that gave it. ``now`` is read once in it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.now = clock.wall()

    def get(self, kind: str, name: str) -> Kept | None:
        """The document of a name; one that cannot be read is empty."""
        row = self._db.execute(
            "SELECT data, at FROM shared WHERE kind = ? AND name = ?", (kind, os.fsencode(name))
        ).fetchone()
        return None if row is None else Kept(_parsed(row[0]), float(row[1]))

    def put(self, kind: str, name: str, data: dict[str, Any]) -> None:
        """Keep a document as written now."""
        self._db.execute(
            "INSERT OR REPLACE INTO shared VALUES (?, ?, ?, ?)",
            (kind, os.fsencode(name), json.dumps(data, separators=(",", ":")), self.now),
        )

    def drop(self, kind: str, name: str) -> bool:
        """Forget a document; False where there was none."""
        done = self._db.execute("DELETE FROM shared WHERE kind = ? AND name = ?", (kind, os.fsencode(name)))
        return done.rowcount > 0

    def forget_old(self, kind: str) -> None:
        """Drop the documents of a kind that nobody wrote for a long time."""
        self._db.execute("DELETE FROM shared WHERE kind = ? AND at < ?", (kind, self.now - FORGOTTEN))

    def names(self, kind: str) -> list[str]:
        """The names of a kind, sorted."""
        rows = self._db.execute("SELECT name FROM shared WHERE kind = ? ORDER BY name", (kind,))
        return [os.fsdecode(row[0]) for row in rows]


class Store:
    """The shared file at ``path``; made when first written to. One thread uses it; each has its own.

    ``patience`` is how many seconds to wait for a file that others have locked.
    """

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self.path = path.absolute()
        self._trouble = partial(_trouble, self.path)
        self._ours = Ours("shared state", _APPLICATION, _VERSION, patience, PAUSES, self._trouble)
        self._db: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    @contextlib.contextmanager
    def changing(self) -> Generator[Transaction]:
        """Read and write as the only one: all of it happens, or (on an exception) nothing. Raises Trouble."""
        with self._transaction("BEGIN IMMEDIATE", create=True) as transaction:
            yield transaction

    @contextlib.contextmanager
    def looking(self) -> Generator[Transaction]:
        """Only read; makes no file. Raises Trouble, also where there is nothing to read yet."""
        if not self.path.exists():
            raise Trouble(f"{self.path}: there is no shared state yet")
        with self._transaction("BEGIN", create=False) as transaction:
            yield transaction

    @contextlib.contextmanager
    def _transaction(self, begin: str, *, create: bool) -> Generator[Transaction]:
        with self._in_words():
            db = self._opened(create=create)
            try:
                self._ours.patiently(lambda: db.execute(begin))
                yield Transaction(db)
                self._ours.patiently(lambda: db.execute("COMMIT"))
            finally:
                if db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        db.execute("ROLLBACK")

    # Opening

    def _opened(self, *, create: bool) -> sqlite3.Connection:
        if self._db is not None:
            if self._db.in_transaction:  # a signal broke off between its beginning and its end
                self._db.execute("ROLLBACK")
            return self._db
        if create:
            _make(self.path, self._ours)
        db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            self._ours.patiently(lambda: self._prepare(db, create=create))
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _prepare(self, db: sqlite3.Connection, *, create: bool) -> None:
        """See that it is a file of ours, and make an empty one so."""
        db.execute("PRAGMA synchronous=NORMAL")
        with _at_once(db, "BEGIN"):
            ours = self._ours.has(db)
        if ours:
            return
        if not create:
            raise Trouble(f"{self.path}: there is no shared state yet")
        with _at_once(db, "BEGIN IMMEDIATE"):
            if not self._ours.has(db):
                _fill(db, self._ours)

    # Trouble

    @contextlib.contextmanager
    def _in_words(self) -> Generator[None]:
        """Make every way in which a file fails one Trouble."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._trouble(self._why(error)) from None
        except OSError as error:
            raise Trouble(f"{error.filename or self.path}: {error.strerror}") from None

    def _why(self, error: sqlite3.Error) -> str:
        if is_damaged(error):
            return "damaged, or no file of shared state; move it away to start afresh"
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_CANTOPEN:  # which says no more than that
            try:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666))
            except OSError as reason:
                return reason.strerror or str(error)
        return str(error)


def _trouble(path: Path, reason: str) -> Trouble:
    return Trouble(f"{path}: {reason}")


def _make(path: Path, ours: Ours) -> None:
    """Put a complete file in place where there is none.

    Not step by step in the place itself: hundreds who come at once would keep each other from turning the log on.
    """
    if path.exists():
        return
    if path == default_path().absolute():
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}")
    try:
        with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=OFF")
            db.execute("PRAGMA journal_mode=WAL")  # stays as it was where the file system cannot do it
            with _at_once(db, "BEGIN IMMEDIATE"):
                _fill(db, ours)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        _place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _place(draft: Path, path: Path) -> None:
    """Give the file its name, unless somebody was faster."""
    with contextlib.suppress(FileExistsError):
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if not path.exists():
                draft.rename(path)


def _fill(db: sqlite3.Connection, ours: Ours) -> None:
    db.execute(_TABLE)
    ours.sign(db)


@contextlib.contextmanager
def _at_once(db: sqlite3.Connection, begin: str) -> Generator[None]:
    """All of it in one transaction, or nothing; does not wait for others."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def default_path() -> Path:
    """Where the shared state of this user is. Raises Trouble where the user has no home."""
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        else:
            base = Path(os.environ.get("XDG_STATE_HOME", ""))
            if not base.is_absolute():  # as the specification of these folders has it
                base = Path.home() / ".local" / "state"
    except RuntimeError:
        raise Trouble("no home folder is known for the shared state; name a file with --state") from None
    return base / "perdure" / "shared.sqlite"


def fields_of(value: object) -> dict[str, Any]:
    """An object of JSON, or an empty one in place of anything else."""
    return value if _is_object(value) else {}


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _parsed(text: object) -> dict[str, Any]:
    try:
        return fields_of(json.loads(str(text)))
    except ValueError:
        return {}

"""SQLite files that are locked, full, damaged or read-only, and transactions that are run again."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import FaultKind, classify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T, P = FaultKind.TRANSIENT, FaultKind.PERMANENT

AGAIN = perdure.Retry(backoff=perdure.Constant(0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "base.sqlite", isolation_level=None)) as base:
        base.execute("pragma journal_mode=wal")
        base.execute("create table t (id integer primary key, n int)")
        base.execute("insert into t values (1, 0)")
    return tmp_path / "base.sqlite"


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(path)) as base:
        yield base


def connect(path: Path | str, **options: Any) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, **options)


def error_of(base: sqlite3.Connection, *statements: str) -> sqlite3.Error:
    *before, last = statements
    for statement in before:
        base.execute(statement).fetchall()
    with pytest.raises(sqlite3.Error) as caught:
        base.execute(last).fetchall()
    return caught.value


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["pragma max_page_count = 3", "insert into t select null, zeroblob(9999)"], "SQLITE_FULL"),
        (["insert into t values (1, 1)"], "SQLITE_CONSTRAINT_PRIMARYKEY"),
        (["nonsense"], "SQLITE_ERROR"),
        (["pragma query_only = on", "insert into t values (2, 2)"], "SQLITE_READONLY"),
        (["select * from missing"], "SQLITE_ERROR"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_stays_as_it_is_is_permanent(path: Path, statements: list[str], why: str) -> None:
    with closing(connect(path)) as base:
        fault = classify(error_of(base, *statements))
    assert fault.kind is P
    assert fault.why == why


def test_a_file_opened_for_reading_only(path: Path) -> None:
    with closing(connect(f"file:{path}?mode=ro", uri=True)) as base:
        fault = classify(error_of(base, "insert into t values (2, 2)"))
    assert (fault.kind, fault.why) == (P, "SQLITE_READONLY")


def test_a_file_that_is_no_database_and_one_that_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database at all " * 100)
    with closing(connect(tmp_path / "text")) as base:
        assert classify(error_of(base, "select * from t")).why == "SQLITE_NOTADB"
    with closing(connect(tmp_path / "damaged")) as base:
        base.execute("create table t (x)")
        base.execute("insert into t values (zeroblob(20000))")
    content = bytearray((tmp_path / "damaged").read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    (tmp_path / "damaged").write_bytes(content)
    with closing(connect(tmp_path / "damaged")) as base:
        fault = classify(error_of(base, "select * from t"))
    assert fault.kind is P
    assert fault.why.startswith("SQLITE_CORRUPT")


def test_a_missing_folder_is_permanent(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        connect(tmp_path / "missing" / "base")
    assert (classify(caught.value).kind, classify(caught.value).why) == (P, "SQLITE_CANTOPEN")


def test_a_writer_that_meets_a_lock_succeeds_when_it_is_gone(path: Path, other: sqlite3.Connection) -> None:
    other.execute("begin immediate")
    whys: list[str] = []

    @AGAIN
    def write() -> None:
        if perdure.current().attempt == 3:
            other.execute("commit")
        with closing(connect(path)) as base:
            base.execute("update t set n = n + 1")

    stop = perdure.listen(
        lambda event: whys.append(event.fault.why) if event.name == "retry.scheduled" else None
    )
    try:
        write()
    finally:
        stop()
    assert whys == ["SQLITE_BUSY", "SQLITE_BUSY"]
    assert other.execute("select n from t").fetchone() == (1,)


def test_a_stale_snapshot_needs_the_whole_transaction_not_the_statement(
    path: Path, other: sqlite3.Connection
) -> None:
    def transaction(base: sqlite3.Connection, *, statement_again: bool) -> None:
        base.execute("begin")
        (n,) = base.execute("select n from t").fetchone()
        if perdure.current().attempt == 1:
            other.execute("update t set n = n + 1")
        update = f"update t set n = {n} + 10"
        try:
            AGAIN.call(base.execute, update) if statement_again else base.execute(update)
            base.execute("commit")
        except sqlite3.OperationalError:
            base.execute("rollback")
            raise

    with closing(connect(path)) as base:
        # Three retries of the statement inside see the same snapshot; the outer run does not repeat their failure.
        outcome = AGAIN.outcome(transaction, base, statement_again=True)
        assert classify(outcome.error).why.startswith("SQLITE_BUSY_SNAPSHOT")
        assert outcome.stop is perdure.StopReason.NESTED
        AGAIN.call(transaction, base, statement_again=False)
    assert other.execute("select n from t").fetchone() == (12,)


def test_aiosqlite_raises_the_same_exceptions(path: Path, other: sqlite3.Connection) -> None:
    aiosqlite = pytest.importorskip("aiosqlite")
    other.execute("begin immediate")

    @AGAIN
    async def write() -> int:
        attempt = perdure.current().attempt
        if attempt == 2:
            other.execute("commit")
        async with aiosqlite.connect(path, timeout=0, isolation_level=None) as base:
            await base.execute("update t set n = n + 1")
        return attempt

    assert asyncio.run(write()) == 2

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from perdure.faults import Fault, FaultKind, classify

if TYPE_CHECKING:
    from pathlib import Path

T, P, N = FaultKind.TRANSIENT, FaultKind.PERMANENT, FaultKind.NEUTRAL


def coded(code: int, name: str = "SQLITE_X") -> sqlite3.OperationalError:
    exc = sqlite3.OperationalError("text")
    exc.sqlite_errorcode, exc.sqlite_errorname = code, name
    return exc


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, T) for code in (5, 261, 517, 773, 6, 262, 518, 15, 17, 1294, 2314, 2826, 3850)),
        (5 | 99 << 8, T),  # a BUSY of a later SQLite
        (9, N),
        *((code, P) for code in (1, 8, 10, 266, 11, 13, 14, 19, 2067, 21, 26, 999_999)),
    ],
)
def test_a_code_decides_whatever_the_text_says(code: int, kind: FaultKind) -> None:
    exc = coded(code)
    exc.args = ("database is locked",)
    assert classify(exc).kind is kind


def test_a_stale_snapshot_says_that_the_transaction_must_run_again() -> None:
    assert classify(coded(517)).why == "SQLITE_BUSY_SNAPSHOT: run the whole transaction again"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("database is locked", T),
        ("database table is locked: t", T),
        ("database schema is locked: main", T),
        ("no such table: t", P),
        ("", P),
    ],
)
def test_without_a_code_the_text_decides(text: str, kind: FaultKind) -> None:
    assert classify(sqlite3.OperationalError(text)).kind is kind


def failure(connection: sqlite3.Connection, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement)
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "base.sqlite"


def test_a_real_busy_database(path: Path) -> None:
    one, two = (sqlite3.connect(path, timeout=0, isolation_level=None) for _ in range(2))
    try:
        one.execute("create table t (x)")
        one.execute("begin immediate")
        assert classify(failure(two, "begin immediate")) == Fault(T, None, "SQLITE_BUSY")
    finally:
        one.close()
        two.close()


def test_a_real_stale_snapshot(path: Path) -> None:
    one, two = (sqlite3.connect(path, timeout=0, isolation_level=None) for _ in range(2))
    try:
        one.execute("pragma journal_mode=wal")
        one.execute("create table t (x)")
        two.execute("begin")
        two.execute("select * from t").fetchall()
        one.execute("insert into t values (1)")
        assert classify(failure(two, "insert into t values (2)")).why.startswith("SQLITE_BUSY_SNAPSHOT")
    finally:
        one.close()
        two.close()


def test_a_real_locked_table() -> None:
    uri = "file:faults?mode=memory&cache=shared"
    one, two = (sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None) for _ in range(2))
    try:
        one.execute("create table t (x)")
        one.execute("begin")
        one.execute("insert into t values (1)")
        assert classify(failure(two, "select * from t")).why.startswith("SQLITE_LOCKED")
    finally:
        one.close()
        two.close()


def test_real_permanent_failures_are_named() -> None:
    base = sqlite3.connect(":memory:")
    try:
        base.execute("create table t (x primary key)")
        base.execute("insert into t values (1)")
        assert classify(failure(base, "insert into t values (1)")).why == "SQLITE_CONSTRAINT_PRIMARYKEY"
        assert classify(failure(base, "nonsense")) == Fault(P, None, "SQLITE_ERROR")
    finally:
        base.close()
    assert classify(failure(base, "select 1")).kind is P  # closed: a bug of the caller


def test_a_real_interrupt_is_neutral() -> None:
    base = sqlite3.connect(":memory:", check_same_thread=False)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    running = threading.Event()
    base.set_progress_handler(lambda: running.set() or 0, 1_000)
    stopper = threading.Thread(target=lambda: running.wait(10) and base.interrupt())
    stopper.start()
    try:
        assert classify(failure(base, endless)) == Fault(N, None, "SQLITE_INTERRUPT")
    finally:
        stopper.join(10)
        base.close()

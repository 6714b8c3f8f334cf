"""Whose file it is, and how long to wait for those who write to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from perdure.store.ours import Ours, is_damaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Trouble(Exception):
    """What the tests have made of a reason."""


def ours(*, application: int = 7, version: int = 2, patience: float = 0.0) -> Ours:
    return Ours("tests", application, version, patience, (0.0, 0.0), Trouble)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "file", timeout=0, isolation_level=None)) as db:
        yield db


def test_an_empty_file_is_nobodys_until_it_is_signed(db: sqlite3.Connection) -> None:
    assert not ours().has(db)
    ours().sign(db)
    assert ours().has(db)
    assert ours(version=3).has(db), "a newer perdure reads the files of older ones"


def test_a_file_of_a_newer_perdure_and_that_of_another_program_are_refused(db: sqlite3.Connection) -> None:
    ours().sign(db)
    with pytest.raises(Trouble, match=r"^written by a newer perdure \(version 2 of the file\)$"):
        ours(version=1).has(db)
    with pytest.raises(Trouble, match=r"^this is the database of another program, no file of tests$"):
        ours(application=8).has(db)


def test_a_file_with_tables_that_nobody_signed_is_of_another_program(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE t (a)")
    with pytest.raises(Trouble, match="another program"):
        ours().has(db)


def test_a_locked_file_is_asked_again_until_patience_ends(db: sqlite3.Connection, tmp_path: Path) -> None:
    asked: list[int] = []

    def step() -> None:
        asked.append(1)
        if len(asked) == 3:
            other.execute("ROLLBACK")
        db.execute("BEGIN IMMEDIATE")

    with closing(sqlite3.connect(tmp_path / "file", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Trouble, match=r"^locked by another process for more than 0 s$"):
            ours().patiently(lambda: db.execute("BEGIN IMMEDIATE"))
        ours(patience=20).patiently(step)
    assert len(asked) == 3
    assert db.in_transaction


def test_what_is_no_lock_comes_out_at_once(db: sqlite3.Connection) -> None:
    asked: list[int] = []

    def step() -> None:
        asked.append(1)
        db.execute("SELECT * FROM nowhere")

    with pytest.raises(sqlite3.OperationalError, match="no such table") as caught:
        ours(patience=20).patiently(step)
    assert len(asked) == 1
    assert not is_damaged(caught.value)


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database at all " * 100)
    with closing(sqlite3.connect(tmp_path / "text")) as db:
        with pytest.raises(sqlite3.DatabaseError) as caught:
            ours().has(db)
    assert is_damaged(caught.value)
    assert not is_damaged(sqlite3.Error("without a code"))

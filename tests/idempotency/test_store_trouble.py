"""A file that fails refuses the call before anything is sent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from perdure import ConfigError
from perdure.idempotency import ClientStore, Keys, StoreUnavailable
from tests.idempotency.claims import claimed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"not a database at all " * 100), "damaged, or no file of keys"),
        (lambda path: path.mkdir(), "directory"),
        (lambda path: path.symlink_to(path.parent / "nowhere" / "keys"), "No such file"),
    ],
)
def test_a_file_that_cannot_be_used_refuses_the_call(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "keys.sqlite"
    make(path)  # type: ignore[operator]
    with ClientStore(path) as store:
        for attempt in (lambda: claimed(Keys(store=store)), store.pending, lambda: store.forget("k")):
            with pytest.raises(StoreUnavailable, match=says) as caught:
                attempt()
            assert caught.value.path == str(path)


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (["CREATE TABLE t (a)"], "another program"),
        ([f"PRAGMA application_id={0x7065726B}", "PRAGMA user_version=99"], "newer perdure"),
    ],
)
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, statements: list[str], says: str) -> None:
    path = tmp_path / "keys.sqlite"
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    before = path.read_bytes()
    with ClientStore(path) as store, pytest.raises(StoreUnavailable, match=says):
        store.pending()
    assert path.read_bytes() == before


def test_a_file_that_was_damaged_in_use_refuses_and_a_new_one_serves_again(store: ClientStore) -> None:
    keys = Keys(store=store)
    claimed(keys).unknown()
    store.close()
    with open(store.path, "r+b") as file:  # noqa: PTH123 - the store has a string
        file.write(b"x" * 8192)
    with pytest.raises(StoreUnavailable):
        claimed(keys)
    os.unlink(store.path)  # noqa: PTH108 - as above
    assert claimed(keys).key


def test_a_locked_file_refuses_after_some_patience(store: ClientStore) -> None:
    claimed(Keys(store=store)).unknown()
    with (
        closing(sqlite3.connect(store.path, isolation_level=None)) as other,
        ClientStore(store.path, patience=0.02) as hasty,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by another process for more than 20 ms"):
            claimed(Keys(store=hasty))
        other.execute("ROLLBACK")
        assert claimed(Keys(store=hasty)).key


def test_an_answer_is_not_lost_because_the_store_fails(store: ClientStore) -> None:
    with ClientStore(store.path, patience=0.02) as hasty:
        claim = claimed(Keys(store=hasty), operation="a")
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert claim.done(201) is False
            other.execute("ROLLBACK")
    assert [one.operation for one in store.pending()] == ["a"]


FULL = """
import resource, signal, sys
from perdure.idempotency import ClientStore, Keys, StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
keys = Keys(store=ClientStore(sys.argv[1]))
keys.claim("POST", "https://x/").unknown()
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))
try:
    for _ in range(1000):
        keys.claim("POST", "https://x/").unknown()
except StoreUnavailable as error:
    print("refused", error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit stands for a full disk")
def test_a_full_disk_refuses_the_call_and_the_file_stays_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "keys.sqlite")
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(f"refused {path}: "), done
    assert done.stderr == ""
    with ClientStore(path) as store:
        assert len(store.pending()) > 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": ""}, "path must be"),
        ({"path": 7}, "path must be"),
        ({"path": "a\0b"}, "path must be"),
        ({"keep": 0}, "keep must be"),
        ({"patience": -1}, "patience must be"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ClientStore(**{"path": "keys.sqlite", **options})  # type: ignore[arg-type]


def test_the_file_is_its_owners_and_holds_no_payload(store: ClientStore) -> None:
    claimed(Keys(store=store), b"a secret amount", operation="a").unknown()
    store.close()
    with open(store.path, "rb") as file:  # noqa: PTH123 - the store has a string
        assert b"secret" not in file.read()
    if os.name == "posix":
        assert os.stat(store.path).st_mode & 0o077 == 0  # noqa: PTH116 - as above

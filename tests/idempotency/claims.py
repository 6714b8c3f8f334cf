"""Short ways to claim a key and to look into the file of a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.idempotency import Claim, ClientStore, Keys

URL = "https://api.example.com/charges"


def claimed(keys: Keys, body: bytes = b"{}", **more: str) -> Claim:
    claim = keys.claim("POST", URL, {}, body, **more)
    assert claim is not None
    return claim


def rows(store: ClientStore) -> list[tuple[str, str | None, str]]:
    """Key, operation and state of each row, oldest first."""
    with closing(sqlite3.connect(store.path)) as db:
        return db.execute("SELECT key, operation, state FROM client_key ORDER BY first, rowid").fetchall()

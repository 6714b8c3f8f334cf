"""The keys of this process, where no file holds them: enough to notice a key that is used twice."""

from __future__ import annotations

from threading import Lock

from perdure.idempotency import forks
from perdure.idempotency.ledger import settle, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.idempotency.holders import Hold
    from perdure.idempotency.ledger import Ask, Row

__all__ = ["MOST", "MemoryStore"]

MOST = 10_000
"""Keys that are remembered; the one that was not used for longest goes first."""


class MemoryStore:
    """Keys and prints of this process, at most ``most`` of them. Safe from any thread or task."""

    is_durable = False

    def __init__(self, most: int = MOST) -> None:
        self._table = _Memory(most)
        self._lock = Lock()
        forks.watch(self)

    def take(self, ask: Ask, hold: Hold) -> tuple[Row, bool]:
        """Give out a key. Raises a KeyProblem where it may not be."""
        with self._lock:
            return take(self._table, ask, hold)

    def settle(self, row: Row, state: str | None, status: int | None) -> None:
        """Write down how a call ended."""
        with self._lock:
            settle(self._table, row, state, status)

    def renew(self) -> None:
        """Begin anew in a forked child: a thread that held the lock is not there."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._table.rows)


class _Memory:
    """A table in two dictionaries; the order of the first is that of use."""

    keeps_minted = True

    def __init__(self, most: int) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.operations: dict[str, tuple[str, str]] = {}
        self._most = most

    def get(self, host: str, key: str) -> Row | None:
        return self.rows.get((host, key))

    def of_operation(self, operation: str) -> Row | None:
        place = self.operations.get(operation)
        return None if place is None else self.rows.get(place)

    def put(self, row: Row) -> None:
        place = (row.host, row.key)
        self.rows.pop(place, None)
        self.rows[place] = row
        if row.operation is not None:
            self.operations[row.operation] = place
        if len(self.rows) > self._most:
            self.drop(next(iter(self.rows.values())))

    def drop(self, row: Row) -> None:
        self.rows.pop((row.host, row.key), None)
        if row.operation is not None:
            self.operations.pop(row.operation, None)

"""One key for one logical call: what to send with it, and how the call ended."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from perdure.idempotency.answers import fault_of_keyed
from perdure.idempotency.errors import KeyReused, StoreUnavailable
from perdure.idempotency.ledger import DONE, UNKNOWN
from perdure.idempotency.offload import in_thread
from perdure.idempotency.payload import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from perdure.idempotency.holders import Hold
    from perdure.idempotency.ledger import Ask, Row

    class Store(Protocol):
        """What remembers keys."""

        is_durable: bool

        def take(self, ask: Ask, hold: Hold) -> tuple[Row, bool]:
            """Give out a key."""
            ...

        def settle(self, row: Row, state: str | None, status: int | None) -> None:
            """Write down how a call ended."""


__all__ = ["Claim", "Sent"]


_NOT_YET = (307, 308)
"""Send it to another place: nothing was done here."""

_NOT_YET_KNOWN = (408, 409, 425, 429)
"""Whatever the server says about sending it again, these do not say that nothing happened."""


class Sent(NamedTuple):
    """What goes out with a key: the header fields to add, and the whole body."""

    method: str
    content_type: str
    headers: dict[str, str]
    body: bytes | None


class Claim:
    """An idempotency key that one logical call has, over all its attempts, redirects and hedges.

    ``key``, ``operation`` and ``host`` say for what; ``headers`` are the fields to add (empty where the request
    has the key already), ``body`` is what to send in place of the body (changed where the key goes into it).
    ``resumed``: the key was given out before, so an earlier call may have acted.

    End it once, with ``done``, ``unknown`` or ``failed``; the first counts. They never raise, as the answer is
    there already: they give False where the store could not take it, and the key then stays unfinished. A claim
    that is dropped unended counts as unknown. Safe from any thread or task.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_hold",
        "_lock",
        "_lost",
        "_row",
        "_sent",
        "_store",
        "resumed",
    )

    def __init__(self, store: Store, hold: Hold, row: Row, sent: Sent, *, resumed: bool) -> None:
        self._store = store
        self._hold: Hold | None = hold
        self._row = row
        self._sent = sent
        self.resumed: bool = resumed
        self._lost = resumed
        self._ended = False
        self._lock = Lock()

    @property
    def key(self) -> str:
        """The key, without quotes."""
        return self._row.key

    @property
    def operation(self) -> str | None:
        """The operation that the key was claimed for."""
        return self._row.operation

    @property
    def host(self) -> str:
        """Where the key was first claimed for."""
        return self._row.host

    @property
    def headers(self) -> dict[str, str]:
        """The header fields to add to the request; a new dict each time."""
        return dict(self._sent.headers)

    @property
    def body(self) -> bytes | None:
        """The body to send."""
        return self._sent.body

    def __repr__(self) -> str:
        return f"<Claim of {self.key!r}{f' for {self.operation!r}' if self.operation else ''}>"

    def check(self, body: bytes | None) -> None:
        """Raise KeyReused unless ``body`` is the one the key was claimed for, with or without the key in it."""
        sent = self._sent
        if body != sent.body and fingerprint(sent.method, sent.content_type, body) != self._row.print:
            raise KeyReused(self.key, self.operation, self.host)

    def lost(self) -> None:
        """An attempt ended without an answer. From here on a refusal does not prove that nothing happened."""
        self._lost = True

    def done(self, status: int, headers: object = None) -> bool:
        """The last attempt was answered; False where the store could not take it.

        Below 400 the server acted. From 500 on, and after what would be retried, the outcome is unknown. Any other
        answer is a refusal: if no attempt was lost before it, the key stands for nothing, and the operation may
        take a corrected payload.
        """
        if not isinstance(status, int) or not 200 <= status < 600:
            return self._end(UNKNOWN, None)
        if status < 400 and status not in _NOT_YET:
            return self._end(DONE, status)
        refused = status < 500 and status not in _NOT_YET_KNOWN
        if not refused or self._lost or fault_of_keyed(status, headers, method=self._sent.method).retryable:
            return self._end(UNKNOWN, status)
        return self._end(None, status)

    def unknown(self) -> bool:
        """The call ended without an answer; the server may have acted. The operation gives out the key again."""
        return self._end(UNKNOWN, None)

    def failed(self) -> bool:
        """The call ended before anything reached the server; counts as unknown after a lost attempt."""
        return self._end(UNKNOWN if self._lost else None, None)

    async def adone(self, status: int, headers: object = None) -> bool:
        """As ``done``; the disk work is done in a thread, on asyncio and trio."""
        return (
            await in_thread(lambda: self.done(status, headers))
            if self._is_slow
            else self.done(status, headers)
        )

    async def aunknown(self) -> bool:
        """As ``unknown``; the disk work is done in a thread, on asyncio and trio."""
        return await in_thread(self.unknown) if self._is_slow else self.unknown()

    async def afailed(self) -> bool:
        """As ``failed``; the disk work is done in a thread, on asyncio and trio."""
        return await in_thread(self.failed) if self._is_slow else self.failed()

    @property
    def _is_slow(self) -> bool:
        return self._store.is_durable and not self._ended

    def _end(self, state: str | None, status: int | None) -> bool:
        with self._lock:
            if self._ended:
                return True
            self._ended = True
        try:
            self._store.settle(self._row, state, status)
        except StoreUnavailable:
            return False
        finally:
            self._hold = None
        return True

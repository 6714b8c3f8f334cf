"""What is remembered of the keys that were given out, and when one may be given out again.

A row is ``open`` from the claim until the call ends; then ``done`` (the server acted and answered) or ``unknown``
(it may have acted). A call that was refused for sure leaves no row. A row is taken over, with the same key, by
the next call of its operation once its holder is gone: ended, killed, or silent for too long.

An ending counts only from the holder that the row has now, except ``done``: that the server acted stays true.
Ages come from the wall clock and, within one start of the machine, from the monotonic one too; the larger counts,
so that a clock that jumps can hold a key back but not give it out too late.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.idempotency.errors import AlreadyDone, InProgress, KeyReused, OutcomeUnknown
from perdure.idempotency.holders import Here, Hold, Holder, is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Table(Protocol):
        """Where rows are kept; one caller at a time uses it."""

        keeps_minted: bool
        """Whether keys that nobody can ask for again stay when they are done."""

        def get(self, host: str, key: str) -> Row | None:
            """The row of a key."""

        def of_operation(self, operation: str) -> Row | None:
            """The row of an operation."""

        def put(self, row: Row) -> None:
            """Keep a row in place of the one of its key."""

        def drop(self, row: Row) -> None:
            """Forget the row of this key."""


__all__ = ["DONE", "OPEN", "UNKNOWN", "Ask", "Row", "age", "settle", "take"]

OPEN, DONE, UNKNOWN = "open", "done", "unknown"

_AHEAD = 60.0
"""Seconds by which a clock may have been set back without a doubt about the age of what it stamped."""


class Ask(NamedTuple):
    """What a call wants: a key at a host, for a payload. ``given``: the key is the caller's, not drawn.

    ``limit`` is the age in seconds from which the key may not be sent any more; None: there is none.
    """

    host: str
    key: str
    operation: str | None
    print: str
    given: bool
    limit: float | None


class Row(NamedTuple):
    """One key: for which payload, how its call ended, when it was first given out, and who has it since when."""

    host: str
    key: str
    operation: str | None
    print: str
    given: bool
    state: str
    status: int | None
    first: float
    first_ticks: float
    first_boot: str
    holder: Holder


def take(table: Table, ask: Ask, hold: Hold) -> tuple[Row, bool]:
    """Give out the key: its row, and whether it was given out before. Raises a KeyProblem where it may not be."""
    here = Here.now()
    holder = Holder(*here, hold.token)
    row = _known(table, ask)
    if row is None:
        new = Row(
            host=ask.host,
            key=ask.key,
            operation=ask.operation,
            print=ask.print,
            given=ask.given,
            state=OPEN,
            status=None,
            first=here.wall,
            first_ticks=here.ticks,
            first_boot=here.boot,
            holder=holder,
        )
        table.put(new)
        return new, False
    names = (row.key, row.operation, row.host, row.status)
    if row.print != ask.print:
        raise KeyReused(*names)
    if is_held(row.holder, here):
        raise InProgress(*names)
    if ask.limit is not None and age(row, here) >= ask.limit:
        raise AlreadyDone(*names) if row.state == DONE else OutcomeUnknown(*names)
    row = row._replace(state=DONE if row.state == DONE else OPEN, holder=holder)
    table.put(row)
    return row, True


def _known(table: Table, ask: Ask) -> Row | None:
    """The row of the operation, or else of the key. What the caller says of both must not contradict it."""
    row = table.get(ask.host, ask.key)
    if ask.operation is None:
        return row
    known = table.of_operation(ask.operation)
    if known is not None and ask.given and known.key != ask.key:
        raise KeyReused(known.key, known.operation, known.host, known.status)
    if known is None and row is not None:
        raise KeyReused(row.key, row.operation, row.host, row.status)
    return known


def settle(table: Table, row: Row, state: str | None, status: int | None) -> None:
    """Write down how a call ended; state None: it was refused, and its key stands for nothing."""
    known = table.get(row.host, row.key)
    if known is None or known.print != row.print:
        return
    ours = known.holder.token == row.holder.token
    nobody = Holder(*Here.now(), "") if ours else known.holder
    if state == DONE and (known.operation or known.given or table.keeps_minted):
        table.put(known._replace(state=DONE, status=status, holder=nobody))
    elif state == DONE or (ours and state is None and known.state != DONE):
        table.drop(known)
    elif ours and known.state == DONE:
        table.put(known._replace(holder=nobody))
    elif ours and state is not None:
        table.put(known._replace(state=state, status=status, holder=nobody))


def age(row: Row, here: Here) -> float:
    """Seconds since the key was first given out, the largest that may be true."""
    wall = here.wall - row.first
    if row.first_boot == here.boot and here.ticks >= row.first_ticks:
        return max(wall, here.ticks - row.first_ticks)
    return max(wall, 0.0) if wall >= -_AHEAD else float("inf")

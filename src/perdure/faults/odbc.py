"""ODBC through pyodbc: the driver's SQLSTATE, and the server's own number in the text.

    ('40001', '[40001] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]... (1205) (SQLExecDirectW)')

SQL Server and Azure SQL say most by number. Microsoft adds to the list of transient ones from time to time.
"""

from __future__ import annotations

from perdure.faults.dbapi import AGAIN, NAMES
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.sqlstate import fault_of_sqlstate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.faults.custom import Step

__all__ = ["RULES", "fault_of_sql_server"]

_T, _R, _A, _P = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS, FaultKind.PERMANENT

_ERRORS: dict[int, tuple[FaultKind, str]] = {
    1205: (_T, f"deadlock: {AGAIN}"),
    1222: (_T, "lock request timeout"),
    1204: (_T, "no locks left"),
    # The database moves, or is not there yet.
    615: (_T, "database moved"),
    926: (_T, "database not recovered yet"),
    4060: (_T, "database cannot be opened now"),
    4221: (_T, "secondary not ready for reading"),
    40020: (_T, "database moving"),
    40143: (_T, "database moving"),
    40166: (_T, "database moving"),
    40197: (_T, "service error"),
    40540: (_T, "service error"),
    40613: (_T, "database not available now"),
    42108: (_T, "pool is resuming"),
    42109: (_T, "pool is waking up"),
    # The service asks for less.
    10928: (_R, "resource limit reached"),
    10929: (_R, "server too busy"),
    40501: (_R, "service busy"),
    49918: (_R, "not enough resources"),
    49919: (_R, "too many operations at once"),
    49920: (_R, "too many operations at once"),
    # The line; where the driver says that it could not connect (08001), its state has already decided.
    **dict.fromkeys((0, 20, 64, 121, 233, 997, 10053, 10054), (_A, "connection lost")),
    10060: (_A, "connection timeout"),
    11001: (_T, "host name not resolved"),
    20009: (_T, "cannot connect"),  # FreeTDS, with the state of a lost connection
    -2: (_A, "timeout"),
    # The session was ended for what it did: it would do the same again.
    40544: (_P, "size quota reached"),
    40549: (_P, "session ended: transaction too long"),
    40550: (_P, "session ended: too many locks"),
    40551: (_P, "session ended: too much temporary space"),
    40552: (_P, "session ended: too much log space"),
    40553: (_P, "session ended: too much memory"),
}

_HINTS = {40501: 10.0}
"""Azure says "Retry the request after 10 seconds" in the text; the figure has not changed in ten years."""

_FAULTS = {
    number: Fault(kind, _HINTS.get(number), f"SQL Server error {number}: {why}")
    for number, (kind, why) in _ERRORS.items()
}

_NOT_SENT = ("08001", "HYT01")
_LOGIN_TIMEOUT = Fault(_T, None, "SQLSTATE HYT00 login timeout")
_MICROSOFT = "SQL Server]"
_MYSQL = ("[MySQL]", "[MariaDB]", "[ma-")


def fault_of_sql_server(number: int) -> Fault | None:
    """Classify an error number of SQL Server or Azure SQL; None where it is not known to pass.

    Never raises. Pure: safe from any thread or task.
    """
    return _FAULTS.get(number)


def _odbc_error(exc: BaseException) -> Fault:
    state, text = (*map(str, exc.args[:2]), "", "")[:2]
    if state in _NOT_SENT:
        return _login(text) or fault_of_sqlstate(state) or _other(exc, state)
    if state == "HYT00" and "Login timeout" in text:
        return _LOGIN_TIMEOUT
    return _by_number(text) or fault_of_sqlstate(state, text) or _other(exc, state)


def _login(text: str) -> Fault | None:
    """PostgreSQL's driver gives 08001 for a refused login as well; libpq's text follows the state."""
    from perdure.faults.postgres import fault_of_connecting

    return fault_of_connecting(text.partition("] ")[2])


def _by_number(text: str) -> Fault | None:
    """The first number that its server's table knows: one text may hold several records."""
    if any(mark in text for mark in _MYSQL):
        from perdure.faults.mysql import fault_of_number

        return next((fault_of_number(number, text) for number in _numbers(text) if number > 0), None)
    if _MICROSOFT in text:
        return next(filter(None, map(fault_of_sql_server, _numbers(text))), None)
    return None


def _numbers(text: str) -> Iterator[int]:
    """The numbers in brackets that end a record: those in the message proper belong to its sentence."""
    import re

    for found in re.finditer(r"\((-?\d{1,9})\)(?= \(SQL|; \[|$)", text):
        yield int(found[1])


def _other(exc: BaseException, state: str) -> Fault:
    return Fault(_P, None, f"ODBC {state}" if len(state) == 5 else f"pyodbc {type(exc).__name__}")


RULES: dict[str, Step] = {f"pyodbc.{name}": _odbc_error for name in NAMES}

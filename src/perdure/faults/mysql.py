"""MySQL and MariaDB by error number: PyMySQL (and aiomysql), mysqlclient, asyncmy, mysql-connector, mariadb.

The classes say nothing: PyMySQL's OperationalError is a deadlock as much as a wrong password.
"""

from __future__ import annotations

from perdure.faults.dbapi import AGAIN, NAMES
from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.custom import Step

__all__ = ["RULES", "fault_of_number"]

_T, _R, _A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
_S, _P = FaultKind.STALE, FaultKind.PERMANENT

_ERRORS: dict[int, tuple[FaultKind, str]] = {
    # Rolled back, or refused before anything was done. 1205 rolls back the statement alone by default, so the
    # transaction has to be rolled back before it is run again.
    1213: (_T, f"deadlock: {AGAIN}"),
    1205: (_T, f"lock wait timeout: {AGAIN}"),
    1020: (_T, f"record changed since it was read: {AGAIN}"),
    1614: (_T, f"deadlock in a distributed transaction: {AGAIN}"),
    1689: (_T, f"lock wait aborted: {AGAIN}"),
    3101: (_T, f"rolled back during commit: {AGAIN}"),
    3572: (_T, "lock not available (NOWAIT)"),
    # No connection was made.
    2002: (_T, "cannot connect through the socket"),
    2003: (_T, "cannot connect"),
    2005: (_T, "host name not resolved"),
    1040: (_T, "too many connections"),
    1203: (_T, "too many connections of this user"),
    1226: (_R, "limit of this user reached"),
    1129: (_P, "host blocked after too many errors"),
    # Lost in use.
    2006: (_A, "server has gone away"),
    2013: (_A, "connection lost during the query"),
    2055: (_A, "connection lost"),
    1053: (_A, "server shutting down"),
    1158: (_A, "error reading from the network"),
    1159: (_A, "timeout reading from the network"),
    1160: (_A, "error writing to the network"),
    1161: (_A, "timeout writing to the network"),
    1317: (_A, "query interrupted"),
    1927: (_A, "connection killed"),
    4031: (_A, "connection closed, inactive"),
    # Over its own limit: the same query takes as long again, and a server under load would do it twice.
    3024: (_P, "statement timeout"),
    1969: (_P, "statement timeout"),
    # The writer is another server now.
    1792: (_S, "read-only transaction: connect to the primary"),
    1836: (_S, "read-only: connect to the primary"),
}

_FAULTS = {
    number: Fault(kind, None, f"MySQL error {number}: {why}") for number, (kind, why) in _ERRORS.items()
}

_READ_ONLY = Fault(_S, None, "MySQL error 1290: read-only: connect to the primary")
_GALERA = Fault(_T, None, "MySQL error 1047: Galera node not ready")
_CLOSED = Fault(_S, None, "connection is closed: take a new one")
_POOL = Fault(_T, None, "no connection of the pool is free")
_POOL_TEXTS = ("pool exhausted", "No connection available", "Timeout expired")
_NOT_SENT = Fault(_T, None, "connection lost while it was made")
_HANDSHAKE = ("handshake", "initial communication packet", "authorization packet")


def fault_of_number(number: int, text: str = "") -> Fault:
    """Classify an error number of MySQL or MariaDB; `text` tells apart what shares a number.

    Never raises. Pure: safe from any thread or task.
    """
    if number == 1290 and ("read-only" in text or "read_only" in text):
        return _READ_ONLY
    if number == 1047 and "WSREP" in text:  # otherwise: unknown command
        return _GALERA
    if number == 2013 and any(part in text for part in _HANDSHAKE):
        return _NOT_SENT
    return _FAULTS.get(number) or Fault(_P, None, f"MySQL error {number}")


def _by_number(exc: BaseException) -> Fault:
    number, text = _number_of(exc), str(exc)
    if number is not None and number > 0:
        return fault_of_number(number, text)
    if number == 0 or any(part in text for part in ("Not connected", "not available", "lready closed")):
        return _CLOSED
    return Fault(_P, None, f"{type(exc).__module__.partition('.')[0]} {type(exc).__name__}")


def _number_of(exc: BaseException) -> int | None:
    """The number: an attribute of mysql-connector and mariadb, else the first argument."""
    first = exc.args[0] if exc.args else None
    for number in (getattr(exc, "errno", None), first):
        if isinstance(number, int):
            return number
    return None


def _pool_error(exc: BaseException) -> Fault:
    text = str(exc)
    return _POOL if any(part in text for part in _POOL_TEXTS) else Fault(_P, None, "connection pool refused")


_MODULES = ("pymysql.err", "MySQLdb._exceptions", "asyncmy.errors", "mysql.connector.errors", "mariadb")
_NAMES = ("MySQLError", *NAMES)

RULES: dict[str, Step] = {
    # Every class by name: for those that are not named, the vague SQLSTATE some of them carry would be asked first.
    **{f"{module}.{name}": _by_number for module in _MODULES for name in _NAMES},
    "mysql.connector.errors.PoolError": _pool_error,
    "mysql.connector.errors.ConnectionTimeoutError": Fault(_T, None, "connecting timed out"),
    "mysql.connector.errors.ReadTimeoutError": Fault(_A, None, "timed out"),
    "mysql.connector.errors.WriteTimeoutError": Fault(_A, None, "timed out"),
    "mariadb.PoolError": _pool_error,
}

"""PostgreSQL drivers: psycopg, psycopg2, psycopg_pool, asyncpg.

The server's SQLSTATE decides. libpq gives none for a connection that was not made or was lost, only its text; the
base classes say nothing either: a wrong password is an OperationalError as much as a cut line.
"""

from __future__ import annotations

from perdure.faults.dbapi import AGAIN, NAMES
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.sqlstate import fault_of_sqlstate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES", "fault_of_connecting"]

_T, _A, _S, _P = FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.STALE, FaultKind.PERMANENT

_CLOSED = Fault(_S, None, "connection is closed: take a new one")
_LOST = Fault(_A, None, "connection lost")
_SHARED = Fault(_P, None, "connection already in use by another command")
_NOT_CONNECTED = Fault(_T, None, "cannot connect")
_CONNECT_TIMEOUT = Fault(_T, None, "connecting timed out")
_NOT_YET = Fault(_T, None, "server takes no connections now")
_REFUSED_LOGIN = Fault(_P, None, "login refused")
_NO_SUCH_HOST = Fault(_P, None, "unknown host name")
_NOT_THE_ONE = Fault(_S, None, "server has another role: connect to the other one")
_SETTINGS = Fault(_P, None, "connection settings refused")
_POOL_TIMEOUT = Fault(_T, None, "waiting for a connection of the pool timed out")
_OLD_PLAN = Fault(_T, None, f"prepared statement out of date: {AGAIN}")

_CONNECTING = (
    "connection failed:",
    "connection to server",
    "could not connect to server",
    "connection timeout expired",
    "failed to resolve host",
    "could not translate host name",
)
"""How libpq and psycopg begin when no connection was made."""

# The first that is found decides: what passes comes before what stays.
_CONNECT_TEXTS: tuple[tuple[Fault, tuple[str, ...]], ...] = (
    (_CONNECT_TIMEOUT, ("timeout expired", "Connection timed out")),
    (
        _NOT_CONNECTED,
        ("Temporary failure in name resolution", "closed the connection", "Connection re", "EOF detected"),
    ),
    (
        _NOT_YET,
        (
            "starting up",
            "shutting down",
            "not yet accepting connections",
            "in recovery mode",
            "too many clients",
            "too many connections",
            "connection slots are reserved",
            "no more connections allowed",
            "server_login_retry",
            "query_wait_timeout",
        ),
    ),
    (_REFUSED_LOGIN, ("FATAL:", "no password supplied", "authentication")),
    (_NOT_THE_ONE, ("hot standby mode", "session is read-only", "session is not read-only")),
    (_NO_SUCH_HOST, ("resolve host", "translate host name")),
    (_SETTINGS, ("SSL", "certificate", "private key", "GSSAPI", "invalid ")),
)

_CLOSED_TEXTS = ("connection is closed", "connection is lost", "connection already closed")
_LOST_TEXTS = (
    "closed the connection",
    "connection has been closed unexpectedly",
    "connection socket closed",
    "consuming input failed",
    "sending query failed",
    "could not receive data",
    "could not send data",
    "EOF detected",
    "terminating connection",
)
_MADE_FOR_CONNECTIONS = "OperationalError"


def _libpq(exc: Any) -> Fault:
    """Classify what psycopg or psycopg2 raised."""
    text = str(exc)
    state = getattr(exc, "sqlstate", None) or getattr(exc, "pgcode", None)
    return fault_of_sqlstate(state, text) or _by_text(exc, text)


def fault_of_connecting(text: str) -> Fault | None:
    """Classify libpq's text for a connection that was not made; None when it is about something else.

    Never raises. Pure: safe from any thread or task.
    """
    if not text.startswith(_CONNECTING):
        return None
    return next((fault for fault, parts in _CONNECT_TEXTS if _has(text, parts)), _NOT_CONNECTED)


def _by_text(exc: BaseException, text: str) -> Fault:
    connecting = fault_of_connecting(text)
    if connecting is not None:
        return connecting
    if _has(text, _CLOSED_TEXTS):
        return _CLOSED
    if "already in progress" in text:
        return _SHARED
    names = {cls.__name__ for cls in type(exc).__mro__}
    if _has(text, _LOST_TEXTS) or _MADE_FOR_CONNECTIONS in names:
        return _LOST
    return Fault(_P, None, f"{type(exc).__module__.partition('.')[0]} {type(exc).__name__}")


def _asyncpg(exc: Any) -> Fault:
    """Classify what the server said through asyncpg."""
    return fault_of_sqlstate(getattr(exc, "sqlstate", None), str(exc)) or Fault(
        _P, None, f"asyncpg {type(exc).__name__}"
    )


def _misuse(exc: BaseException) -> Fault:
    """Classify asyncpg's own refusals: nothing was sent, and all but a closed connection are bugs."""
    text = str(exc)
    return _CLOSED if "connection is closed" in text else Fault(_P, None, f"asyncpg {type(exc).__name__}")


def _has(text: str, parts: tuple[str, ...]) -> bool:
    return any(part in text for part in parts)


RULES: dict[str, Step] = {
    # Every class by name: for those that are not named, the SQLSTATE is looked at without its text.
    **{f"{package}.{name}": _libpq for package in ("psycopg", "psycopg2") for name in NAMES},
    "psycopg.errors.QueryCanceled": _libpq,
    "psycopg.errors.ProtocolViolation": _libpq,
    "psycopg.errors.ConnectionTimeout": _CONNECT_TIMEOUT,
    "psycopg.errors.CancellationTimeout": Fault(_A, None, "canceling a query timed out"),
    "psycopg.errors.PipelineAborted": Fault(_P, None, "an earlier statement of the pipeline failed"),
    "psycopg2.errors.QueryCanceled": _libpq,
    "psycopg2.errors.ProtocolViolation": _libpq,
    "psycopg2.extensions.QueryCanceledError": _libpq,
    "psycopg2.pool.PoolError": Fault(_T, None, "no connection of the pool is free"),
    "psycopg_pool.PoolTimeout": _POOL_TIMEOUT,
    "psycopg_pool.TooManyRequests": Fault(_T, None, "too many wait for a connection of the pool"),
    "psycopg_pool.PoolClosed": Fault(_P, None, "connection pool is closed"),
    # Older releases of psycopg_pool say where the classes really are.
    "psycopg_pool.errors.PoolTimeout": _POOL_TIMEOUT,
    "psycopg_pool.errors.TooManyRequests": Fault(_T, None, "too many wait for a connection of the pool"),
    "psycopg_pool.errors.PoolClosed": Fault(_P, None, "connection pool is closed"),
    "asyncpg.exceptions._base.PostgresError": _asyncpg,
    "asyncpg.exceptions.QueryCanceledError": _asyncpg,
    "asyncpg.exceptions.ProtocolViolationError": _asyncpg,
    "asyncpg.exceptions.InvalidCachedStatementError": _OLD_PLAN,
    "asyncpg.exceptions._base.OutdatedSchemaCacheError": _OLD_PLAN,
    "asyncpg.exceptions._base.TargetServerAttributeNotMatched": _NOT_THE_ONE,
    "asyncpg.exceptions._base.InternalClientError": Fault(_P, None, "asyncpg and the server disagree"),
    "asyncpg.exceptions._base.InterfaceError": _misuse,
}

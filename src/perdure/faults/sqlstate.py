"""SQLSTATE, the five characters by which SQL databases say what happened.

PostgreSQL and what speaks its protocol (CockroachDB, PgBouncer), ODBC drivers, and in part MySQL.
"""

from __future__ import annotations

from perdure.faults.dbapi import AGAIN
from perdure.faults.kinds import Fault, FaultKind

__all__ = ["fault_of_sqlstate"]

_T, _R, _A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
_S, _P, _N = FaultKind.STALE, FaultKind.PERMANENT, FaultKind.NEUTRAL

_STATES: dict[str, tuple[FaultKind, str]] = {
    # Rolled back as a whole.
    "40": (_T, "transaction rolled back"),
    "40001": (_T, f"serialization failure: {AGAIN}"),
    "40P01": (_T, f"deadlock: {AGAIN}"),
    "40002": (_P, "integrity constraint violated at commit"),
    "40003": (_A, "statement completion unknown"),
    "55P03": (_T, "lock not available"),
    "72000": (_T, f"snapshot too old: {AGAIN}"),
    # The connection: never made, or lost in use.
    "08": (_A, "connection lost"),
    "08001": (_T, "cannot connect"),
    "08004": (_T, "connection rejected"),
    "08007": (_A, "transaction outcome unknown"),
    "08P01": (_P, "protocol violation"),
    # The server is short of something. What the disk lacks it still lacks in a minute.
    "53": (_P, "insufficient resources"),
    "53200": (_R, "out of memory"),
    "53300": (_T, "too many connections"),
    # Somebody stepped in.
    "57014": (_P, "query canceled"),
    "57P01": (_A, "server shutting down, or session terminated"),
    "57P02": (_A, "server crashed"),
    "57P03": (_T, "server not accepting connections yet"),
    # Another connection is needed: this one is closed, or leads to a replica.
    "25006": (_S, "read-only: connect to the primary"),
    "25P03": (_S, "session closed, idle in transaction"),
    "25P04": (_S, "session closed, transaction too long"),
    "57P05": (_S, "session closed, idle"),
    # Named because a transaction that goes on after an error, or a wrong password, is often taken for a cut.
    "25P02": (_P, "transaction already failed: roll back first"),
    "28": (_P, "not authorized"),
    # ODBC drivers
    "08S01": (_A, "communication link failure"),
    "HYT00": (_A, "timeout"),
    "HYT01": (_T, "connection timeout"),
}
"""By the whole state, else by its class, the first two characters; permanent where neither is here."""

_NO_FAILURE = ("00", "01", "02")  # success, warning, no data
_SAYS_NOTHING = ("HY000",)  # "general error", which MySQL and ODBC drivers give for nearly everything

_CANCELED = {
    "due to user request": Fault(_N, None, "SQLSTATE 57014 canceled by a user"),
    "due to statement timeout": Fault(_P, None, "SQLSTATE 57014 statement timeout"),
}

# PgBouncer gives protocol violation for all its own refusals.
_BOUNCED = {
    "query_wait_timeout": _T,
    "server_login_retry": _T,
    "cannot connect to server": _T,
    "no more connections allowed": _T,
    "server conn crashed": _A,
    "query timeout": _A,
}


def _faults() -> dict[str, Fault]:
    return {state: Fault(kind, None, f"SQLSTATE {state} {why}") for state, (kind, why) in _STATES.items()}


_FAULTS = _faults()


def fault_of_sqlstate(state: object, text: str = "") -> Fault | None:
    """Classify a SQLSTATE; None when `state` is none, says success, or says nothing.

    `text` is the server's message, which tells apart what shares a state: who canceled a query, and what
    PgBouncer refused. Never raises. Pure: safe from any thread or task.
    """
    if not isinstance(state, str) or len(state) != 5 or not (state.isascii() and state.isalnum()):
        return None
    if state in _SAYS_NOTHING or state[:2] in _NO_FAILURE:
        return None
    return _by_text(state, text) or _FAULTS.get(state) or _by_class(state)


def _by_class(state: str) -> Fault:
    kind, why = _STATES.get(state[:2], (FaultKind.PERMANENT, ""))
    return Fault(kind, None, f"SQLSTATE {state} {why}".rstrip())


def _by_text(state: str, text: str) -> Fault | None:
    if not text:
        return None
    if state == "57014":
        return next((fault for part, fault in _CANCELED.items() if part in text), None)
    if state in {"08P01", "08006"}:
        found = next((part for part in _BOUNCED if part in text), None)
        return None if found is None else Fault(_BOUNCED[found], None, f"SQLSTATE {state} PgBouncer: {found}")
    return None

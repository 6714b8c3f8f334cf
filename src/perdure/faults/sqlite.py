"""SQLite by result code: exceptions of `sqlite3`."""

from __future__ import annotations

from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]


def _later(why: str) -> Fault:
    return Fault(FaultKind.TRANSIENT, None, why)


# Extended codes first; else the primary code, the low byte, decides.
_FAULTS = {
    5: _later("SQLITE_BUSY"),
    261: _later("SQLITE_BUSY_RECOVERY"),
    # The snapshot is too old to write from: the same statement fails for ever, a new transaction does not.
    517: _later("SQLITE_BUSY_SNAPSHOT: run the whole transaction again"),
    773: _later("SQLITE_BUSY_TIMEOUT"),
    6: _later("SQLITE_LOCKED"),
    262: _later("SQLITE_LOCKED_SHAREDCACHE"),
    518: _later("SQLITE_LOCKED_VTAB"),
    15: _later("SQLITE_PROTOCOL"),
    17: _later("SQLITE_SCHEMA"),
    1294: _later("SQLITE_CANTOPEN_DIRTYWAL"),
    2314: _later("SQLITE_IOERR_RDLOCK"),
    2826: _later("SQLITE_IOERR_BLOCKED"),
    3850: _later("SQLITE_IOERR_LOCK"),
    9: Fault(FaultKind.NEUTRAL, None, "SQLITE_INTERRUPT"),
}
_PRIMARY = 0xFF

_LOCKED = _later("SQLite database or table is locked")
_LOCKED_TEXTS = ("database is locked", "table is locked", "schema is locked")
_OTHER = Fault(FaultKind.PERMANENT, None, "SQLite error")


def _sqlite_error(exc: Any) -> Fault:
    """By code where SQLite gave one; errors made by hand or by a wrapper have their text only."""
    code = getattr(exc, "sqlite_errorcode", None)
    if not isinstance(code, int):
        text = str(exc)
        return _LOCKED if any(locked in text for locked in _LOCKED_TEXTS) else _OTHER
    known = _FAULTS.get(code) or _FAULTS.get(code & _PRIMARY)
    return known or Fault(
        FaultKind.PERMANENT, None, str(getattr(exc, "sqlite_errorname", f"SQLite error {code}"))
    )


RULES: dict[str, Step] = {
    "sqlite3.Error": _sqlite_error,
    "sqlite3.Warning": Fault(FaultKind.PERMANENT, None, "SQLite warning"),
}

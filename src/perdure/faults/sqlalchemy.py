"""SQLAlchemy: what the driver said decides; its wrapper adds whether the pool replaces the connection."""

from __future__ import annotations

from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.custom import Step

__all__ = ["RULES"]

_T, _S, _P = FaultKind.TRANSIENT, FaultKind.STALE, FaultKind.PERMANENT

_INVALIDATED = "connection invalidated"


def _driver_error(exc: BaseException) -> Fault:
    """Classify what was wrapped; when the pool has dropped the connection, what asked for a new one has it."""
    from perdure.faults.rules import UNDECIDED, classify

    below = getattr(exc, "orig", None)
    fault = classify(below) if isinstance(below, BaseException) else None
    if getattr(exc, "connection_invalidated", False) is not True:
        return fault or Fault(_P, None, f"sqlalchemy {type(exc).__name__}")
    if fault is None or fault.why in UNDECIDED:
        return Fault(_S, None, _INVALIDATED)
    if fault.kind is _S:
        return Fault(_T, fault.hint, f"{fault.why} ({_INVALIDATED}, the pool gives a new one)")
    return fault


RULES: dict[str, Step] = {
    "sqlalchemy.exc.DBAPIError": _driver_error,
    "sqlalchemy.exc.StatementError": _driver_error,
    "sqlalchemy.exc.TimeoutError": Fault(_T, None, "waiting for a connection of the pool timed out"),
    "sqlalchemy.exc.DisconnectionError": Fault(_S, None, _INVALIDATED),
    "sqlalchemy.exc.PendingRollbackError": Fault(_P, None, "transaction already failed: roll back first"),
    "sqlalchemy.exc.SQLAlchemyError": Fault(_P, None, "SQLAlchemy refused"),
}

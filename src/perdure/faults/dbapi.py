"""What the tables of SQL drivers share: the classes that PEP 249 gives every one of them, and a common advice."""

from __future__ import annotations

__all__ = ["AGAIN", "NAMES"]

AGAIN = "run the whole transaction again"

NAMES = (
    "Error",
    "InterfaceError",
    "DatabaseError",
    "DataError",
    "OperationalError",
    "IntegrityError",
    "InternalError",
    "ProgrammingError",
    "NotSupportedError",
)

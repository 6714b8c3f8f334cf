"""What is transient: one table per library or protocol, the user's rules, and server delays.

Nothing here imports the rest of the library or a client library: classes are recognised by name.
"""

from __future__ import annotations

from perdure.faults.chain import chain
from perdure.faults.kinds import Fault, FaultKind, Retryable, Safety
from perdure.faults.rules import classify, register, reset
from perdure.faults.safety import safety_of
from perdure.faults.verdict import permanent, transient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.hints import retry_after
    from perdure.faults.http import fault_of_status

__all__ = [
    "Fault",
    "FaultKind",
    "Retryable",
    "Safety",
    "chain",
    "classify",
    "fault_of_status",
    "permanent",
    "register",
    "reset",
    "retry_after",
    "safety_of",
    "transient",
]

_LATER = {"fault_of_status": "http", "retry_after": "hints"}


def __getattr__(name: str) -> object:
    """Load the parts that only a failure needs when one is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value

"""The user's own word on an exception: it outranks every rule and table."""

from __future__ import annotations

from perdure.faults.chain import causes
from perdure.faults.kinds import Fault, FaultKind, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    E = TypeVar("E", bound=BaseException)

__all__ = ["KEY", "permanent", "transient", "verdict_of"]

KEY = "_perdure_verdict"
"""The name in the exception's `__dict__`. The value is plain data, `(kind, seconds or None)`, so that an
exception which travels to a process without this library still unpickles there."""

_PERMANENT = Fault(FaultKind.PERMANENT, None, "marked permanent")
_TRANSIENT = Fault(FaultKind.TRANSIENT, None, "marked transient")

# The descriptor of BaseException itself: it reaches the dict of classes that hide or freeze theirs.
_dict_of = BaseException.__dict__["__dict__"].__get__


def permanent(exc: E) -> E:
    """Mark `exc` as not worth another attempt and return the same object.

        raise perdure.permanent(exc)

    The mark is pickled and copied with the exception and is also read through `raise ... from exc`.
    A later mark replaces it. Safe from any thread or task that holds the exception.

    Raises:
        TypeError: `exc` is not an exception instance, or its class leaves no room for the mark.
    """
    return _mark("permanent", exc, None)


def transient(exc: E, *, after: float | None = None) -> E:
    """Mark `exc` as worth another attempt and return the same object.

        raise perdure.transient(exc, after=2.0)

    `after` is the least delay in seconds before that attempt (default: what the policy computes).
    The mark is pickled and copied with the exception and is also read through `raise ... from exc`.
    A later mark replaces it. Safe from any thread or task that holds the exception.

    Raises:
        TypeError: `exc` is not an exception instance, or its class leaves no room for the mark.
        ConfigError: `after` is not a finite number of seconds >= 0.
    """
    return _mark("transient", exc, None if after is None else seconds("after", after))


def verdict_of(exc: BaseException) -> Fault | None:
    """Give the verdict marked on `exc` or, nearest first, on one of its explicit causes."""
    fault = _read(exc)
    if fault is not None:
        return fault
    return next((found for cause in causes(exc) if (found := _read(cause)) is not None), None)


def _mark(kind: str, exc: E, after: float | None) -> E:
    if not isinstance(exc, BaseException):
        raise TypeError(f"{kind}() takes an exception instance, got {exc!r}")
    mark = (kind, after)
    _dict_of(exc)[KEY] = mark
    if _mark_on(exc) is not mark:
        del _dict_of(exc)[KEY]
        name = type(exc).__qualname__
        raise TypeError(
            f"{kind}() cannot mark {name}: the class hides its __dict__; register() a rule for it"
        )
    return exc


def _read(exc: BaseException) -> Fault | None:
    match _mark_on(exc):
        case ("permanent", None):
            return _PERMANENT
        case ("transient", None):
            return _TRANSIENT
        case ("transient", float(after)):
            return Fault(FaultKind.TRANSIENT, after, "marked transient")
        case _:
            return None


def _mark_on(exc: BaseException) -> object:
    try:
        return getattr(exc, KEY, None)
    except Exception:  # noqa: BLE001 - a class may answer for attributes it lacks with any error
        return None

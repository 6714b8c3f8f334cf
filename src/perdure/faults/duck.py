"""What an unknown object shows: a response or its status, an SQLSTATE, an errno."""

from __future__ import annotations

from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.posix import fault_of_errno
from perdure.faults.safety import method_of, peek, request_of

__all__ = ["evidence", "fault_of_response", "fault_of_sqlstate"]


def evidence(exc: BaseException) -> Fault | None:
    """Classify an exception of an unknown class by what it carries; None when it shows nothing."""
    return _by_status(exc) or fault_of_sqlstate(_sqlstate_of(exc)) or _by_errno(exc)


def fault_of_response(response: object) -> Fault | None:
    """Classify a response by status and headers; None when `response` is no response."""
    status = _status_in(response, "status_code", "status")
    headers = peek(response, "headers")
    return None if status is None or headers is None else _fault(status, headers, response)


def fault_of_sqlstate(state: object) -> Fault | None:
    """Classify a five-character SQLSTATE of PostgreSQL; None when `state` is none, or says success."""
    if not isinstance(state, str) or len(state) != 5 or not state.isalnum() or state[:2] in _NO_FAILURE:
        return None
    kind = _SQLSTATE.get(state) or _SQLSTATE.get(state[:2]) or FaultKind.PERMANENT
    return Fault(kind, None, f"SQLSTATE {state}")


_NO_FAILURE = ("00", "01", "02")  # success, warning, no data

_SQLSTATE: dict[str, FaultKind] = {
    # Rolled back as a whole, or never begun.
    **dict.fromkeys(("40001", "40P01", "55P03", "53300", "57P03", "08001", "08004"), FaultKind.TRANSIENT),
    **dict.fromkeys(("08", "40003", "57P01", "57P02"), FaultKind.AMBIGUOUS),
    # Another connection is needed: this one is closed, or leads to a replica.
    **dict.fromkeys(("25006", "25P03", "25P04", "57P05"), FaultKind.STALE),
}


def _by_status(exc: BaseException) -> Fault | None:
    response = peek(exc, "response")
    status = _status_in(exc, "status_code", "status")
    if status is None:
        status = _status_in(response, "status_code", "status")
    if status is None and _is_http(exc, response):
        status = _status_in(exc, "code")
    if status is None or status < 300:  # an error after a good status is about something else
        return None
    headers = peek(exc, "headers")
    return _fault(status, peek(response, "headers") if headers is None else headers, exc)


def _fault(status: int, headers: object, carrier: object) -> Fault:
    from perdure.faults.http import fault_of_status

    return fault_of_status(status, headers, method_of(request_of(carrier)))


def _by_errno(exc: BaseException) -> Fault | None:
    return None if isinstance(exc, OSError) else fault_of_errno(peek(exc, "errno"))


def _sqlstate_of(exc: BaseException) -> object:
    return peek(exc, "sqlstate") or peek(exc, "pgcode")


def _status_in(carrier: object, *names: str) -> int | None:
    for name in names:
        value = peek(carrier, name)
        if isinstance(value, int) and 100 <= value <= 599:
            return value
    return None


def _is_http(exc: BaseException, response: object) -> bool:
    """Whether `.code` means a status: exceptions of other things have codes as well."""
    if response is not None or peek(exc, "headers") is not None or peek(exc, "request") is not None:
        return True
    return any("http" in f"{cls.__module__}.{cls.__qualname__}".lower() for cls in type(exc).__mro__)

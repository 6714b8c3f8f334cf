"""What an unknown object shows: a response or its status, a gRPC code, an SQLSTATE, an errno.

Nothing is read from a connection: headers are attributes, and a body counts only where it is already in memory.
"""

from __future__ import annotations

from perdure.faults.chain import chain
from perdure.faults.kinds import Fault
from perdure.faults.posix import fault_of_errno
from perdure.faults.safety import holders, method_of, peek, request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    # What one object shows of an HTTP answer: status, headers, method, body.
    Seen: TypeAlias = tuple[int, object, str | None, object]

__all__ = ["evidence", "fault_of_response", "loaded_body", "status_of"]

# The first of these that an object has itself. Properties are left alone: some of them read from the wire.
_BODIES = ("body", "json_body", "http_body", "_content", "content", "_body", "data")

_RPC_CODES = frozenset(
    {
        *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
        *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"),
        *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
    }
)


def evidence(exc: BaseException) -> Fault | None:
    """Classify an exception of an unknown class by what it carries; None when it shows nothing."""
    return _by_status(exc) or _by_rpc_code(exc) or _by_sqlstate(exc) or _by_errno(exc)


def fault_of_response(response: object) -> Fault | None:
    """Classify a response by status, headers and loaded body; None when `response` is no response."""
    status = status_of(response)
    headers = peek(response, "headers")
    if status is None or headers is None:
        return None
    return _fault((status, headers, method_of(request_of(response)), loaded_body(response)))


def status_of(response: object) -> int | None:
    """Give the HTTP status of a response; None when `response` has none. Never raises."""
    return _status_in(response, "status_code", "status")


def loaded_body(carrier: object) -> object:
    """Give the body that `carrier` holds in memory: bytes, text or a parsed document; else None.

    Never reads from a connection. Reads only; as safe for threads as `carrier` is.
    """
    own: Any = peek(carrier, "__dict__")
    if type(own) is not dict:
        return None
    for name in _BODIES:
        body: Any = own.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(body, (bytes, bytearray, str, dict, list)):
            return body  # pyright: ignore[reportUnknownVariableType]
    return None


def _by_status(exc: BaseException) -> Fault | None:
    seen = _seen(exc)
    if seen is None:
        return None
    seen = _with_what_lies_under(exc, seen)
    return _fault(seen) if seen[0] >= 300 else _error_after_success(seen)


def _error_after_success(seen: Seen) -> Fault | None:
    """An error after a good status is about something else, unless a code says what: a stream broke off."""
    if seen[3] is None:
        return None
    from perdure.faults.bodies import code_in
    from perdure.faults.documents import load
    from perdure.faults.http import fault_of_status

    code = code_in(seen[0], None, seen[3], load(seen[3]))
    why = None if code is None else f"{fault_of_status(seen[0]).why}: {code[1]}"
    return None if code is None or why is None else Fault(code[0], None, why)


def _seen(exc: BaseException) -> Seen | None:
    own, *responses = holders(exc)
    status = _status_in(own, "status_code", "status", "http_status")
    for response in responses:
        status = status_of(response) if status is None else status
    if status is None and _is_http(exc, responses):
        status = _status_in(exc, "code")
    if status is None:
        return None
    headers = [peek(holder, "headers") for holder in (own, *responses)]
    bodies = [loaded_body(holder) for holder in (own, *responses)]
    return (status, _first(*headers), method_of(request_of(exc)), _first(*bodies))


def _with_what_lies_under(exc: BaseException, seen: Seen) -> Seen:
    """A wrapper often keeps the status only: what is missing is looked for where that status came from."""
    for link in chain(exc):
        if seen[1] is not None and seen[3] is not None:
            break
        below = None if link is exc else _seen(link)
        if below is not None and below[0] == seen[0]:
            seen = (seen[0], _first(seen[1], below[1]), _first(seen[2], below[2]), _first(seen[3], below[3]))
    return seen


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _fault(seen: Seen) -> Fault | None:
    from perdure.faults.http import fault_of_status

    return fault_of_status(*seen)


def _by_rpc_code(exc: BaseException) -> Fault | None:
    code = peek(exc, "code")
    if callable(code):
        from perdure.faults.grpc import fault_of_rpc

        return fault_of_rpc(exc) if _rpc_name(_called(code)) is not None else None
    name = _rpc_name(code) or _rpc_name(peek(exc, "status"))
    if name is None:
        return None
    from perdure.faults.grpc import fault_of_code

    return fault_of_code(name)


def _called(method: Any) -> Any:
    from perdure.colour import is_coroutine_function

    try:
        return None if is_coroutine_function(method) else method()
    except Exception:  # noqa: BLE001 - a foreign method, and perhaps one that takes arguments
        return None


def _rpc_name(code: object) -> str | None:
    name = peek(code, "name")
    return name if isinstance(name, str) and name in _RPC_CODES else None


def _by_sqlstate(exc: BaseException) -> Fault | None:
    state = peek(exc, "sqlstate") or peek(exc, "pgcode")
    if not isinstance(state, str):
        return None
    from perdure.faults.sqlstate import fault_of_sqlstate

    return fault_of_sqlstate(state)


def _by_errno(exc: BaseException) -> Fault | None:
    return None if isinstance(exc, OSError) else fault_of_errno(peek(exc, "errno"))


def _status_in(carrier: object, *names: str) -> int | None:
    for name in names:
        value = peek(carrier, name)
        if isinstance(value, int) and 100 <= value <= 599:
            return value
    return None


def _is_http(exc: BaseException, responses: list[object]) -> bool:
    """Whether `.code` means a status: exceptions of other things have codes as well."""
    if responses or peek(exc, "headers") is not None or peek(exc, "request") is not None:
        return True
    return any("http" in f"{cls.__module__}.{cls.__qualname__}".lower() for cls in type(exc).__mro__)

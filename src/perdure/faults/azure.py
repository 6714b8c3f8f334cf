"""Azure by what was sent and by status: exceptions of `azure.core` and the packages on it."""

from __future__ import annotations

from perdure.faults.codes import plain
from perdure.faults.hints import retry_after
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import RETRIED, Fault, FaultKind
from perdure.faults.rules import fault_held, known_fault
from perdure.faults.safety import method_of, peek, request_of
from perdure.faults.signal import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

_CODES: dict[str, FaultKind] = {
    **dict.fromkeys(map(plain, ("ServerBusy", "TooManyRequests")), FaultKind.THROTTLED),
    **dict.fromkeys(map(plain, ("OperationTimedOut", "InternalError", "ServerTimeout")), FaultKind.AMBIGUOUS),
    plain("AllocationFailed"): FaultKind.PERMANENT,  # no machine free here: minutes to hours
}
_LONGEST_CODE = 100


def _response_error(exc: Any) -> Fault:
    """By the service's code, then the status; without an answer it was cut or damaged on the way."""
    status = peek(exc, "status_code")
    if not isinstance(status, int):
        return _beneath(exc) or _DAMAGED
    code = _code(exc)
    kind = FaultKind.TRANSIENT if status == 449 else _CODES.get(plain(code))  # 449: Retry With
    headers = peek(peek(exc, "response"), "headers")
    if kind is None:
        return fault_of_status(status, headers, method_of(request_of(exc)), {"code": code} if code else None)
    hint = retry_after(headers) if kind in RETRIED else None
    word = (code if plain(code) in _CODES else quoted(code)) if code else "Retry With"
    return Fault(kind, hint, f"HTTP {status} {word}")


def _code(exc: Any) -> str | None:
    """The code in the document, in the storage header, or on the exceptions of older packages."""
    found = (peek(peek(exc, "error"), "code"), peek(exc, "error_code"))
    return next((str(peek(code, "value") or code)[:_LONGEST_CODE] for code in found if code), None)


def _decode_error(exc: Any) -> Fault:
    """The answer came and was damaged, whatever its status says."""
    status = peek(exc, "status_code")
    return _response_error(exc) if isinstance(status, int) and status >= 400 else _DAMAGED


def _not_sent(exc: Any) -> Fault:
    """Nothing was sent, so any method may be repeated; a bad certificate or an unknown name stays bad."""
    below = _beneath(exc)
    return below if below is not None and below.kind is FaultKind.PERMANENT else _UNSENT


def _beneath(exc: Any) -> Fault | None:
    return fault_held(exc, peek(exc, "inner_exception"))


def _cosmos_error(exc: Any) -> Fault:
    """410 means that the partition has moved: read the routing again."""
    if peek(exc, "status_code") == 410:
        return Fault(FaultKind.STALE, None, "HTTP 410 Gone: refresh the routing")
    return _response_error(exc)


_DAMAGED = Fault(FaultKind.AMBIGUOUS, None, "response body cut short or damaged")
_UNSENT = Fault(FaultKind.TRANSIENT, None, "request was not sent")


def _wrong(why: str) -> Fault:
    return Fault(FaultKind.PERMANENT, None, why)


_IN_CORE: dict[str, Step] = {
    "ServiceRequestError": _not_sent,
    "ServiceRequestTimeoutError": Fault(FaultKind.TRANSIENT, None, "connect timed out"),
    "ServiceResponseError": Fault(FaultKind.AMBIGUOUS, None, "no answer that can be read"),
    "ServiceResponseTimeoutError": Fault(FaultKind.AMBIGUOUS, None, "read timed out"),
    **dict.fromkeys(
        (
            *("HttpResponseError", "ResourceExistsError", "ResourceNotFoundError", "ResourceModifiedError"),
            *("ResourceNotModifiedError", "ODataV4Error"),
        ),
        _response_error,
    ),
    "DecodeError": _decode_error,
    "IncompleteReadError": _decode_error,
    "TooManyRedirectsError": _wrong("too many redirects"),
    "StreamConsumedError": _wrong("local: response was read already"),
    "StreamClosedError": _wrong("local: response was closed"),
    "ResponseNotReadError": _wrong("local: response was not read"),
    "SerializationError": _wrong("local: request cannot be serialized"),
    "DeserializationError": _wrong("response cannot be deserialized"),
}


def _authentication_error(exc: Any) -> Fault:
    """Refused by the service: by its status. A credential that got no token has no answer."""
    if isinstance(peek(exc, "status_code"), int):
        return _response_error(exc)
    below = None if exc.__cause__ is None else known_fault(exc.__cause__)
    return _beneath(exc) or below or _wrong("local: no token")


RULES: dict[str, Step] = {
    **{f"azure.core.exceptions.{name}": step for name, step in _IN_CORE.items()},
    "azure.core.exceptions.ClientAuthenticationError": _authentication_error,
    "azure.cosmos.exceptions.CosmosHttpResponseError": _cosmos_error,
}

"""Google by status and gRPC code: exceptions of `google.api_core`, `google.auth` and `google.genai`."""

from __future__ import annotations

from perdure.faults.grpc import fault_of_code, fault_of_rpc
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.rules import fault_held, known_fault
from perdure.faults.safety import method_of, peek, request_of
from perdure.faults.websockets import fault_of_close

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]


def _said(kind: FaultKind, why: str) -> Fault:
    return Fault(kind, None, why)


# -- google.api_core ---------------------------------------------------------------------------------------


def _call_error(exc: Any) -> Fault | None:
    """By the answer behind it: a class stands for a status and for a gRPC code, which say different things."""
    response = peek(exc, "response")
    if isinstance(peek(response, "status_code"), int):
        return _by_status(exc, response)
    for call in (response, *_listed(peek(exc, "errors"))):
        fault = fault_of_rpc(call)
        if fault is not None:
            return fault
    code = peek(peek(exc, "grpc_status_code"), "name")
    if isinstance(code, str):
        return fault_of_code(code)
    status = peek(exc, "code")
    return fault_of_status(status) if isinstance(status, int) else None


def _by_status(exc: Any, response: Any) -> Fault:
    body = {"error": {"errors": _listed(peek(exc, "errors")), "details": _listed(peek(exc, "details"))}}
    status = response.status_code
    return fault_of_status(status, peek(response, "headers"), method_of(request_of(exc)), body)


def _listed(value: Any) -> list[Any]:
    listed: list[Any] = [*value] if isinstance(value, (list, tuple)) else []
    return listed


def _given_up(exc: Any) -> Fault:
    """`google.api_core.retry` ran out of time; what it last saw is `cause`."""
    return fault_held(exc, peek(exc, "cause")) or _said(
        FaultKind.AMBIGUOUS, "google.api_core timed out retrying"
    )


_CALL_ERRORS = (
    *("GoogleAPICallError", "Redirection", "MovedPermanently", "NotModified", "TemporaryRedirect"),
    *("ResumeIncomplete", "ClientError", "BadRequest", "InvalidArgument", "FailedPrecondition", "OutOfRange"),
    *("Unauthorized", "Unauthenticated", "Forbidden", "PermissionDenied", "NotFound", "MethodNotAllowed"),
    *("Conflict", "AlreadyExists", "Aborted", "LengthRequired", "PreconditionFailed", "TooManyRequests"),
    *("RequestRangeNotSatisfiable", "ResourceExhausted", "Cancelled", "ServerError", "InternalServerError"),
    *("Unknown", "DataLoss", "MethodNotImplemented", "BadGateway", "ServiceUnavailable", "GatewayTimeout"),
    "DeadlineExceeded",
)
"""All by name: what a table does not name itself is first asked for a bare status."""

# -- google.auth -------------------------------------------------------------------------------------------


def _auth_error(exc: Any) -> Fault:
    if peek(exc, "retryable") is True:
        return _said(FaultKind.TRANSIENT, "token endpoint failed for now")
    return _said(FaultKind.PERMANENT, "local: Google credentials are missing or refused")


def _auth_transport(exc: Any) -> Fault:
    """The call itself was not sent: it waits for a token, and asking for one again does no harm."""
    cause = exc.__cause__ or exc.__context__
    known = known_fault(cause) if cause is not None else None
    if known is not None and known.kind is FaultKind.PERMANENT and "certificate" in known.why:
        return known
    return _said(FaultKind.TRANSIENT, "token endpoint not reached")


# -- google.genai ------------------------------------------------------------------------------------------


def _genai_error(exc: Any) -> Fault:
    code = peek(exc, "code")
    if isinstance(code, int) and 1000 <= code <= 4999:
        return fault_of_close(code)  # of the WebSocket of a live session, in the place of a status
    response = peek(exc, "response")
    method = method_of(request_of(exc))
    return fault_of_status(code, peek(response, "headers"), method, peek(exc, "details"))


_GENAI = "google.genai.errors"

RULES: dict[str, Step] = {
    **dict.fromkeys((f"google.api_core.exceptions.{name}" for name in _CALL_ERRORS), _call_error),
    "google.api_core.exceptions.RetryError": _given_up,
    "google.api_core.exceptions.DuplicateCredentialArgs": _said(
        FaultKind.PERMANENT, "local: credentials given twice"
    ),
    "google.api_core.exceptions.TransferStalledError": _said(
        FaultKind.AMBIGUOUS, "transfer timed out: stalled"
    ),
    "google.api_core.exceptions.MissingStatusHeaderError": _said(
        FaultKind.AMBIGUOUS, "transfer status missing"
    ),
    "google.api_core.exceptions.UnseekableStreamError": _said(
        FaultKind.PERMANENT, "local: stream cannot be rewound"
    ),
    "google.api_core.exceptions.UploadCancelledError": _said(FaultKind.NEUTRAL, "upload cancelled"),
    "google.auth.exceptions.GoogleAuthError": _auth_error,
    "google.auth.exceptions.RefreshError": _auth_error,
    "google.auth.exceptions.DefaultCredentialsError": _auth_error,
    "google.auth.exceptions.TransportError": _auth_transport,
    "google.auth.exceptions.TimeoutError": _said(FaultKind.TRANSIENT, "token endpoint timed out"),
    "google.auth.exceptions.ResponseError": _said(FaultKind.TRANSIENT, "token endpoint answered nonsense"),
    **dict.fromkeys(
        (f"{_GENAI}.{name}" for name in ("APIError", "ClientError", "ServerError")), _genai_error
    ),
    f"{_GENAI}.UnknownApiResponseError": _said(FaultKind.AMBIGUOUS, "response is not JSON"),
    # The work of earlier requests is paid: starting anew would pay it twice.
    f"{_GENAI}.ContinuationInterruptedError": _said(
        FaultKind.PERMANENT, "interrupted: resume with its token"
    ),
}

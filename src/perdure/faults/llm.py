"""Model providers: exceptions of `openai`, `anthropic`, `litellm` and `ollama`.

The clients have a class per status, but what a status means is in the body: a 429 may be a queue or an unpaid bill,
and an overload may come as an event inside a stream that began with 200.
"""

from __future__ import annotations

from perdure.faults.codes import plain
from perdure.faults.documents import fields
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind, seconds
from perdure.faults.rules import fault_held, known_fault
from perdure.faults.safety import method_of, peek, request_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]


def _said(kind: FaultKind, why: str) -> Fault:
    return Fault(kind, None, why)


# -- answers with a status -----------------------------------------------------------------------------------


def _status_error(exc: Any) -> Fault:
    status = peek(exc, "status_code")
    if not isinstance(status, int) or status < 400:
        return _in_stream(exc)
    headers, body = _headers(exc), _body(exc)
    method = method_of(request_of(exc))
    if status == 409:  # both providers lock for a moment; as 408, but codes and x-should-retry still count
        lock = fault_of_status(408, headers, "GET", body)
        if lock.kind is FaultKind.TRANSIENT:
            return Fault(lock.kind, lock.hint, "HTTP 409 Conflict: locked for now")
    return fault_of_status(status, headers, method, body)


def _headers(exc: Any) -> object:
    """Those of the answer; litellm also puts some on the exception."""
    return peek(peek(exc, "response"), "headers") or peek(exc, "headers")


def _body(exc: Any) -> object:
    body = peek(exc, "body")
    return peek(peek(exc, "response"), "content") if body is None else body


# -- errors inside a stream ----------------------------------------------------------------------------------

_STANDS_FOR: dict[str, int] = {
    plain("overloaded_error"): 529,
    plain("rate_limit_error"): 429,
    plain("rate_limit_exceeded"): 429,
    plain("insufficient_quota"): 429,
    plain("api_error"): 500,
    plain("server_error"): 500,
    plain("internal_server_error"): 500,
    plain("timeout_error"): 504,
    plain("slow_down"): 503,
    plain("authentication_error"): 401,
    plain("billing_error"): 402,
    plain("permission_error"): 403,
    plain("not_found_error"): 404,
    plain("request_too_large"): 413,
    plain("invalid_request_error"): 400,
}
"""The status that the same error has when it comes before the stream."""


def _in_stream(exc: Any) -> Fault:
    """The stream began with 200, so the status says nothing: the type of the event does."""
    body = peek(exc, "body")
    status = _status_in(body)
    if status is None:
        return _said(FaultKind.AMBIGUOUS, "error in the stream")
    fault = fault_of_status(status, None, method_of(request_of(exc)), body)
    return Fault(fault.kind, fault.hint, f"{fault.why}, in the stream")


def _status_in(body: object) -> int | None:
    own = fields(body)
    for holder in (fields(own.get("error")), own):
        for name in ("code", "type"):
            word = holder.get(name)
            if isinstance(word, int) and 400 <= word <= 599:  # as gateways write them
                return word
            if (status := _STANDS_FOR.get(plain(word))) is not None:
                return status
    return None


# -- no answer -------------------------------------------------------------------------------------------------


def _connection_error(exc: Any) -> Fault:
    return _beneath(exc) or _said(FaultKind.AMBIGUOUS, "connection failed")


def _timeout_error(exc: Any) -> Fault:
    """A timeout while connecting has sent nothing; what else timed out may have been answered."""
    return _beneath(exc) or _said(FaultKind.AMBIGUOUS, "timed out")


def _beneath(exc: BaseException) -> Fault | None:
    """What the HTTP client says; of an implicit context only a failure, as it may hold anything."""
    if exc.__cause__ is not None:
        return known_fault(exc.__cause__)
    known = None if exc.__context__ is None else known_fault(exc.__context__)
    return None if known is None or known.kind in (FaultKind.PERMANENT, FaultKind.NEUTRAL) else known


# -- litellm ---------------------------------------------------------------------------------------------------


def _litellm_limit(exc: Any) -> Fault:
    """One class for the limits of providers and for litellm's own: a spent budget does not come back."""
    kind = peek(exc, "rate_limit_type")
    if kind in ("budget", "max_iterations"):
        return _said(FaultKind.PERMANENT, f"HTTP 429 Too Many Requests: {kind}")
    return _status_error(exc)


def _litellm_stream(exc: Any) -> Fault:
    return fault_held(exc, peek(exc, "original_exception")) or _status_error(exc)


def _router_limit(exc: Any) -> Fault:
    """Every deployment cools down, for so many seconds."""
    cooldown = peek(exc, "cooldown_time")
    try:
        hint = seconds("cooldown_time", cooldown)
    except ValueError:
        hint = 0.0
    return Fault(FaultKind.THROTTLED, hint or None, "HTTP 429 Too Many Requests: no deployment available")


# -- ollama ----------------------------------------------------------------------------------------------------


def _ollama_error(exc: Any) -> Fault:
    status = peek(exc, "status_code")
    if status == -1:
        return _said(FaultKind.AMBIGUOUS, "error in the stream")
    if status == 503:  # its queue is full: nothing was begun
        return _said(FaultKind.THROTTLED, "HTTP 503 Service Unavailable: queue full")
    if status == 404:
        return _said(FaultKind.STALE, "HTTP 404 Not Found: pull the model")
    return fault_of_status(status)


# -- names -----------------------------------------------------------------------------------------------------
# Every class by name: what a table does not name itself is first asked for a bare status.

_STATUS_ERRORS = (
    *("APIStatusError", "BadRequestError", "AuthenticationError", "PaymentRequiredError", "NotFoundError"),
    *("PermissionDeniedError", "RequestTimeoutError", "ConflictError", "PreconditionFailedError"),
    *("ContentTooLargeError", "RequestTooLargeError", "UnprocessableEntityError", "RateLimitError"),
    *("RequestHeaderFieldsTooLargeError", "ClientClosedRequestError", "InternalServerError"),
    *("HTTPNotImplementedError", "ServiceUnavailableError", "GatewayTimeoutError", "DeadlineExceededError"),
    *("OverloadedError", "OAuthError"),
)
_SPENT = (
    *("ContractSpendLimitReachedError", "EnforcedSpendLimitReachedError", "RampLimitExceededError"),
    *("LinkedOrganizationSpendLimitReachedError", "LinkedOrganizationBillingUnavailableError"),
)
"""Anthropic's, below RateLimitError and PaymentRequiredError: the code in the body tells which come back."""

_COMMON: dict[str, Step] = {
    **dict.fromkeys((*_STATUS_ERRORS, *_SPENT), _status_error),
    "APIError": _in_stream,
    "APIConnectionError": _connection_error,
    "APITimeoutError": _timeout_error,
    "APIResponseValidationError": _said(FaultKind.PERMANENT, "response does not fit its schema"),
    "LengthFinishReasonError": _said(FaultKind.PERMANENT, "answer cut at the length limit"),
    "ContentFilterFinishReasonError": _said(FaultKind.PERMANENT, "stopped by the content filter"),
    "WebSocketConnectionClosedError": _said(FaultKind.AMBIGUOUS, "WebSocket closed with messages unsent"),
    "WebSocketQueueFullError": _said(FaultKind.PERMANENT, "local: outgoing queue is full"),
    "RetryableError": _said(FaultKind.TRANSIENT, "raised to be retried"),
    "CredentialsError": _said(FaultKind.PERMANENT, "local: credentials cannot be loaded"),
}

_IN_LITELLM: dict[str, Step] = {
    **dict.fromkeys(
        (*_STATUS_ERRORS, "BadGatewayError", "ContextWindowExceededError", "ContentPolicyViolationError"),
        _status_error,
    ),
    "APIError": _status_error,
    "RateLimitError": _litellm_limit,
    "CallerCredentialRateLimitError": _litellm_limit,
    "APIConnectionError": _connection_error,
    "Timeout": _timeout_error,
    "MidStreamFallbackError": _litellm_stream,
    "APIResponseValidationError": _said(FaultKind.PERMANENT, "response does not fit its schema"),
    "JSONSchemaValidationError": _said(FaultKind.PERMANENT, "response does not fit its schema"),
    "BudgetExceededError": _said(FaultKind.PERMANENT, "local: budget is spent"),
}

RULES: dict[str, Step] = {
    **{
        f"{module}.{name}": step
        for module in ("openai", "openai._exceptions", "anthropic", "anthropic._exceptions")
        for name, step in _COMMON.items()
    },
    **{f"litellm.exceptions.{name}": step for name, step in _IN_LITELLM.items()},
    "litellm.types.router.RouterRateLimitError": _router_limit,
    "litellm.types.router.RouterRateLimitErrorBasic": _router_limit,
    "ollama._types.ResponseError": _ollama_error,
    "ollama._types.RequestError": _said(FaultKind.PERMANENT, "local: invalid request"),
}

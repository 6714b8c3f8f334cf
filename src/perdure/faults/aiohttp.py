"""Exceptions of aiohttp's client."""

from __future__ import annotations

from perdure.faults.chain import causes
from perdure.faults.clients import (
    BAD_URL,
    CONNECT_TIMED_OUT,
    NO_CONNECTION,
    POOL_EXHAUSTED,
    READ_TIMED_OUT,
    TOO_MANY_REDIRECTS,
    cut,
    fault_beneath,
    fault_of_proxy,
    local,
    unsent,
)
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.network import functions_of
from perdure.faults.posix import fault_of_errno
from perdure.faults.safety import method_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

_GARBAGE = cut("garbage instead of an HTTP response")
_BODY_CUT = cut("response body cut short or damaged")
_TOO_LONG = Fault(FaultKind.PERMANENT, None, "header line too long")
_UNREADABLE = "aiohttp.http_exceptions"


def _response_error(exc: Any) -> Fault | None:
    """By the status; but what the HTTP parser did not understand is reported as a 400 that no server sent."""
    unread = [type(cause).__name__ for cause in causes(exc) if type(cause).__module__ == _UNREADABLE]
    if unread:
        return _TOO_LONG if "LineTooLong" in unread else _GARBAGE
    if exc.status < 300:  # an error after a good status is about something else
        return None
    return fault_of_status(exc.status, exc.headers, method_of(exc.request_info))


def _after_a_good_status(why: str) -> Step:
    wrong = Fault(FaultKind.PERMANENT, None, why)

    def rule(exc: Any) -> Fault | None:
        return _response_error(exc) if exc.status >= 400 else wrong

    return rule


def _proxy_error(exc: Any) -> Fault | None:
    return fault_of_proxy(exc.status, exc.headers)


def _connect_timeout(exc: BaseException) -> Fault:
    """The same class says that the pool had no free connection; where it waited is in the stack."""
    waited = any(_POOL_WAIT in functions_of(cause, "connector.py") for cause in causes(exc))
    return POOL_EXHAUSTED if waited else CONNECT_TIMED_OUT


_POOL_WAIT = "_wait_for_available_connection"

_LOST = cut("connection lost")
_CLOSED = local("connector closed")


def _connection_error(exc: BaseException) -> Fault:
    return _CLOSED if str(exc).startswith("Connector is closed") else fault_beneath(exc) or _LOST


def _os_error(exc: Any) -> Fault:
    """The cause goes first: an SSLError's number, copied into this one, means another thing as an errno."""
    return fault_beneath(exc) or fault_of_errno(exc.errno) or _LOST


_BAD_REDIRECT = Fault(FaultKind.PERMANENT, None, "redirect to an invalid URL")


def _named(module: str, table: dict[str, Step]) -> dict[str, Step]:
    return {f"aiohttp.{module}.{name}": step for name, step in table.items()}


_MESSAGES = (
    "BadHttpMessage",
    "BadHttpMethod",
    "BadStatusLine",
    "HttpBadRequest",
    "HttpProcessingError",
    "InvalidHeader",
    "InvalidURLError",
)
_BODIES = (
    "ContentEncodingError",
    "ContentLengthError",
    "DecompressSizeError",
    "PayloadEncodingError",
    "TransferEncodingError",
)

RULES: dict[str, Step] = {
    **_named(
        "client_exceptions",
        {
            "ClientConnectionError": _connection_error,
            "ClientConnectionResetError": cut("connection reset"),
            "ClientConnectorCertificateError": Fault(FaultKind.PERMANENT, None, "certificate not accepted"),
            "ClientConnectorError": unsent(NO_CONNECTION),
            "ClientHttpProxyError": _proxy_error,
            "ClientOSError": _os_error,
            "ClientPayloadError": _BODY_CUT,
            "ClientResponseError": _response_error,
            "ConnectionTimeoutError": _connect_timeout,
            "ContentTypeError": _after_a_good_status("not the content type asked for"),
            "InvalidURL": BAD_URL,
            "InvalidUrlRedirectClientError": _BAD_REDIRECT,
            "NonHttpUrlClientError": BAD_URL,
            "NonHttpUrlRedirectClientError": _BAD_REDIRECT,
            "RedirectClientError": _BAD_REDIRECT,
            "ServerDisconnectedError": cut("server closed the connection without an answer"),
            "ServerFingerprintMismatch": Fault(
                FaultKind.PERMANENT, None, "certificate of another fingerprint"
            ),
            "ServerTimeoutError": cut("timed out"),
            "SocketTimeoutError": READ_TIMED_OUT,
            "TooManyRedirects": TOO_MANY_REDIRECTS,
            "UploadAbortedError": cut("request body not sent to its end"),
            "WSMessageTypeError": local("WebSocket message of another type"),
            "WSServerHandshakeError": _after_a_good_status("no WebSocket handshake"),
        },
    ),
    # All by name: by what they carry they would be a 400.
    **_named("http_exceptions", dict.fromkeys(_MESSAGES, _GARBAGE)),
    **_named("http_exceptions", dict.fromkeys(_BODIES, _BODY_CUT)),
    **_named("http_exceptions", {"LineTooLong": _TOO_LONG}),
}

"""Exceptions of urllib3, and of urllib3-future, which has them under both names."""

from __future__ import annotations

import re

from perdure.faults.clients import (
    BAD_URL,
    CONNECT_TIMED_OUT,
    NO_CONNECTION,
    POOL_EXHAUSTED,
    READ_TIMED_OUT,
    TOO_MANY_REDIRECTS,
    as_below,
    beneath,
    cut,
    fault_of_proxy,
    in_handshake,
    local,
    unsent,
)
from perdure.faults.duck import fault_of_response
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.custom import Step

__all__ = ["RULES"]

_HANDSHAKE_TIMED_OUT = Fault(FaultKind.TRANSIENT, None, "TLS handshake timed out")
_HANDSHAKE_BROKEN = Fault(FaultKind.TRANSIENT, None, "connection lost during the TLS handshake")
_BODY_CUT = cut("response body cut short")


def _read_timeout(exc: BaseException) -> Fault:
    """Also what urllib3 raises when the TLS handshake takes too long, before anything was sent."""
    return _HANDSHAKE_TIMED_OUT if in_handshake(exc) else READ_TIMED_OUT


_broken = as_below(cut("connection broken"))


def _protocol_error(exc: BaseException) -> Fault:
    return _HANDSHAKE_BROKEN if in_handshake(exc) else _broken(exc)


_NO_PROXY = unsent(Fault(FaultKind.TRANSIENT, None, "could not connect to the proxy"))


def _proxy_error(exc: BaseException) -> Fault:
    """A proxy that says no does it in the text of an OSError."""
    said = (fault_of_proxy(link) for link in beneath(exc) if isinstance(link, OSError))
    return next((fault for fault in said if fault is not None), None) or _NO_PROXY(exc)


_TOO_MANY = re.compile(r"too many ([1-5]\d\d) error responses")
_ERROR_ANSWERS = cut("too many error responses")


def _response_error(exc: BaseException) -> Fault:
    """What is left of the last answer when urllib3's own retries are used up: the status, in words."""
    said = fault_of_response(peek(exc, "response"))  # where an integration put it
    if said is not None:
        return said
    text = str(exc)
    found = _TOO_MANY.search(text)
    if found is not None:
        return fault_of_status(int(found[1]))
    return TOO_MANY_REDIRECTS if "redirect" in text else _ERROR_ANSWERS


_BAD_PROXY = local("invalid proxy URL")

_EXCEPTIONS: dict[str, Step] = {
    "BodyNotHttplibCompatible": local("body of another HTTP library"),
    "ClosedPoolError": local("pool closed"),
    "ConnectTimeoutError": CONNECT_TIMED_OUT,
    "DecodeError": cut("response body damaged"),
    "EarlyResponse": cut("answered before the request was sent"),
    "EmptyPoolError": POOL_EXHAUSTED,
    "FullPoolError": POOL_EXHAUSTED,
    "HeaderParsingError": cut("header block damaged"),
    "HostChangedError": local("pool of another host"),
    "IncompleteRead": _BODY_CUT,
    "InvalidChunkLength": _BODY_CUT,
    "InvalidHeader": cut("header damaged"),
    "LocationValueError": BAD_URL,
    "MaxRetryError": as_below(cut("retries of the client used up")),
    "NameResolutionError": unsent(Fault(FaultKind.TRANSIENT, None, "name resolution failed")),
    "NewConnectionError": unsent(NO_CONNECTION),
    "ProtocolError": _protocol_error,
    "ProxyError": _proxy_error,
    "ProxySchemeUnknown": _BAD_PROXY,
    "ProxySchemeUnsupported": _BAD_PROXY,
    "ReadTimeoutError": _read_timeout,
    "RecoverableError": cut("connection to be made anew"),
    "ResponseError": _response_error,
    "ResponseNotChunked": local("response is not chunked"),
    "ResponseNotReady": local("response not ready"),
    "SSLError": as_below(Fault(FaultKind.PERMANENT, None, "TLS failure")),
    "TimeoutError": cut("timed out"),
    "TimeoutStateError": local("timeout in the wrong state"),
    "URLSchemeUnknown": BAD_URL,
    "UnrewindableBodyError": local("body cannot be sent again"),
}

_RULES: dict[str, Step] = {
    **{f"exceptions.{name}": step for name, step in _EXCEPTIONS.items()},
    "util.ssl_match_hostname.CertificateError": Fault(FaultKind.PERMANENT, None, "certificate not accepted"),
    "util.traffic_police.TrafficPoliceFine": POOL_EXHAUSTED,
}

RULES: dict[str, Step] = {
    f"{package}.{name}": step for package in ("urllib3", "urllib3_future") for name, step in _RULES.items()
}

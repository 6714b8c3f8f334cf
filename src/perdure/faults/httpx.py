"""Exceptions of httpx and httpcore, and of httpx2 and httpcore2, which have classes of their own.

httpx drops the causes of its exceptions (`from None`); what really failed is in the arguments of httpcore's.
"""

from __future__ import annotations

from perdure.faults.clients import (
    BAD_URL,
    CONNECT_TIMED_OUT,
    NO_CONNECTION,
    POOL_EXHAUSTED,
    READ_TIMED_OUT,
    TOO_MANY_REDIRECTS,
    cut,
    fault_of_proxy,
    local,
    unsent,
    with_response,
)
from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.custom import Step

__all__ = ["RULES"]

_HTTP2_CLOSED = "in state ConnectionState.CLOSED"
_HTTP2_UNSENT = Fault(FaultKind.TRANSIENT, None, "HTTP/2 connection was closed before the request")
_HTTP2_CUT = cut("HTTP/2 connection closed during the request")
_BROKEN_RULES = local("request breaks the protocol")


def _local_protocol(exc: BaseException) -> Fault:
    """Our own mistake, but for HTTP/2: a connection that the server closed is reported in the same way."""
    text = str(exc)
    if _HTTP2_CLOSED not in text:
        return _BROKEN_RULES
    return _HTTP2_UNSENT if "SEND_HEADERS" in text else _HTTP2_CUT


_NO_ANSWER = cut("server closed the connection without an answer")
_BODY_CUT = cut("response body cut short")
_GARBAGE = cut("garbage instead of an HTTP response")
_GOING_AWAY = cut("HTTP/2 connection closed by the server")


def _remote_protocol(exc: BaseException) -> Fault:
    """Always ambiguous; the text only says it better."""
    text = str(exc)
    if "disconnected without sending" in text:
        return _NO_ANSWER
    if "complete message body" in text:
        return _BODY_CUT
    return _GOING_AWAY if "ConnectionTerminated" in text or "StreamReset" in text else _GARBAGE


_NO_PROXY = Fault(FaultKind.TRANSIENT, None, "proxy could not connect")
_NO_PROXY_LOGIN = Fault(FaultKind.PERMANENT, None, "proxy: login refused")


def _proxy(exc: BaseException) -> Fault:
    text = str(exc)
    if "password" in text or "was requested but" in text:  # SOCKS
        return _NO_PROXY_LOGIN
    return fault_of_proxy(text) or _NO_PROXY


_COMMON: dict[str, Step] = {
    "ConnectError": unsent(NO_CONNECTION),
    "ConnectTimeout": CONNECT_TIMED_OUT,
    "LocalProtocolError": _local_protocol,
    "NetworkError": cut("connection lost"),
    "PoolTimeout": POOL_EXHAUSTED,
    "ProtocolError": cut("HTTP not understood"),
    "ProxyError": _proxy,
    "ReadError": cut("connection lost while reading"),
    "ReadTimeout": READ_TIMED_OUT,
    "RemoteProtocolError": _remote_protocol,
    "TimeoutException": cut("timed out"),
    "UnsupportedProtocol": BAD_URL,
    "WriteError": cut("connection lost while writing"),
    "WriteTimeout": cut("write timed out"),
}

_CORE: dict[str, Step] = {
    "ConnectionNotAvailable": Fault(FaultKind.TRANSIENT, None, "local: connection taken by another request"),
}

_CLIENT: dict[str, Step] = {
    "CloseError": cut("connection lost while closing"),
    "CookieConflict": local("several cookies of one name"),
    "DecodingError": cut("response body damaged"),
    "HTTPStatusError": with_response,
    "InvalidURL": BAD_URL,
    "StreamError": local("stream used twice, or not read"),
    "TooManyRedirects": TOO_MANY_REDIRECTS,
    "TransportError": cut("connection lost"),
    "SSEError": Fault(FaultKind.PERMANENT, None, "not a stream of server-sent events"),
}


def _named(package: str, *tables: dict[str, Step]) -> dict[str, Step]:
    return {f"{package}.{name}": step for table in tables for name, step in table.items()}


RULES: dict[str, Step] = {
    **_named("httpx", _COMMON, _CLIENT),
    **_named("httpx2", _COMMON, _CLIENT),
    **_named("httpcore", _COMMON, _CORE),
    **_named("httpcore2", _COMMON, _CORE),
}

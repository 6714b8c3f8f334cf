"""Exceptions of requests, and of niquests, which has the same under its own name.

Most wrap an exception of urllib3, as their first argument.
"""

from __future__ import annotations

from perdure.faults.builtin import bad_json
from perdure.faults.clients import (
    BAD_URL,
    CONNECT_TIMED_OUT,
    READ_TIMED_OUT,
    TOO_MANY_REDIRECTS,
    as_below,
    cut,
    local,
    with_response,
)
from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.custom import Step

__all__ = ["RULES"]

_BAD_HEADER = local("invalid header in the request")
_as_said = as_below(_BAD_HEADER)


def _invalid_header(exc: BaseException) -> Fault:
    """Of the request, where requests checks it; of the response, where urllib3 could not read it."""
    return _as_said(exc) if any(isinstance(arg, Exception) for arg in exc.args) else _BAD_HEADER


_EXCEPTIONS: dict[str, Step] = {
    "ChunkedEncodingError": as_below(cut("response body cut short")),
    "ConnectTimeout": CONNECT_TIMED_OUT,
    "ConnectionError": as_below(cut("connection lost")),
    "ContentDecodingError": cut("response body damaged"),
    "HTTPError": with_response,
    "InvalidHeader": _invalid_header,
    "InvalidJSONError": local("not to be written as JSON"),
    "InvalidProxyURL": local("invalid proxy URL"),
    "InvalidSchema": BAD_URL,
    "InvalidURL": BAD_URL,
    "JSONDecodeError": bad_json,
    "MissingSchema": BAD_URL,
    "MultiplexingError": cut("multiplexed answer lost"),
    "ProxyError": as_below(Fault(FaultKind.TRANSIENT, None, "could not connect to the proxy")),
    "ReadTimeout": as_below(READ_TIMED_OUT),
    "RetryError": as_below(cut("retries of the client used up")),
    "SSLError": as_below(Fault(FaultKind.PERMANENT, None, "TLS failure")),
    "StreamConsumedError": local("stream used twice"),
    "Timeout": as_below(cut("timed out")),
    "TooManyRedirects": TOO_MANY_REDIRECTS,
    "URLRequired": BAD_URL,
    "UnrewindableBodyError": local("body cannot be sent again"),
}

RULES: dict[str, Step] = {
    f"{package}.exceptions.{name}": step
    for package in ("requests", "niquests")
    for name, step in _EXCEPTIONS.items()
}

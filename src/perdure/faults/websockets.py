"""WebSocket connections by close code: exceptions of `websockets`."""

from __future__ import annotations

from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES", "fault_of_close"]


def _is(kind: FaultKind, why: str) -> Fault:
    return Fault(kind, None, why)


_CLOSES = {
    1000: _is(FaultKind.NEUTRAL, "peer closed normally (1000)"),
    1001: _is(FaultKind.TRANSIENT, "peer is going away (1001)"),
    1005: _is(FaultKind.NEUTRAL, "peer closed without a code (1005)"),
    1006: _is(FaultKind.AMBIGUOUS, "connection cut without a close (1006)"),
    1011: _is(FaultKind.AMBIGUOUS, "internal error of the peer (1011)"),
    1012: _is(FaultKind.TRANSIENT, "peer restarts (1012)"),
    1013: _is(FaultKind.THROTTLED, "peer is overloaded: try again later (1013)"),
    1014: _is(FaultKind.AMBIGUOUS, "bad gateway (1014)"),
    3008: _is(FaultKind.AMBIGUOUS, "peer says that it timed out (3008)"),
}
"""What is not here is permanent: protocol, policy, size, and the codes of applications (4000 to 4999)."""


def fault_of_close(code: int) -> Fault:
    """Classify the close code that a peer sent."""
    return _CLOSES.get(code) or _is(FaultKind.PERMANENT, f"WebSocket closed ({code})")


_PING_TIMEOUT = _is(FaultKind.AMBIGUOUS, "keepalive ping timed out")
_OWN_CLOSE = _is(FaultKind.NEUTRAL, "closed by this process")


def _connection_closed(exc: Any) -> Fault:
    """By what the peer sent; where it sent nothing, or only answered, by what this side sent."""
    received, sent = peek(exc, "rcvd"), peek(exc, "sent")
    if sent is not None and (received is None or exc.rcvd_then_sent is False):
        return _closed_here(sent)
    return _CLOSES[1006] if received is None else fault_of_close(received.code)


def _closed_here(sent: Any) -> Fault:
    if sent.code == 1011:
        return _PING_TIMEOUT if "ping timeout" in str(sent.reason) else _CLOSES[1011]
    return _OWN_CLOSE if sent.code in (1000, 1001, 1005) else fault_of_close(sent.code)


def _rejected(exc: Any) -> Fault:
    """The server answered the handshake, which is a GET, with a status of its own."""
    response = peek(exc, "response") or exc
    return fault_of_status(
        peek(response, "status_code"), peek(response, "headers"), "GET", peek(response, "body")
    )


_HANDSHAKE_CUT = _is(FaultKind.TRANSIENT, "no HTTP answer to the WebSocket handshake")
_REFUSED = _is(FaultKind.PERMANENT, "WebSocket handshake not possible")
_BROKEN = _is(FaultKind.PERMANENT, "WebSocket protocol error")
_PROXY = _is(FaultKind.TRANSIENT, "no HTTP answer of the proxy")

RULES: dict[str, Step] = {
    "websockets.exceptions.WebSocketException": _BROKEN,
    "websockets.exceptions.ConnectionClosed": _connection_closed,
    "websockets.exceptions.ConnectionClosedOK": _connection_closed,
    "websockets.exceptions.ConnectionClosedError": _connection_closed,
    "websockets.exceptions.InvalidURI": _is(FaultKind.PERMANENT, "local: not a WebSocket address"),
    "websockets.exceptions.InvalidHandshake": _REFUSED,
    "websockets.exceptions.InvalidMessage": _HANDSHAKE_CUT,
    "websockets.exceptions.InvalidStatus": _rejected,
    "websockets.exceptions.InvalidStatusCode": _rejected,  # before version 14
    "websockets.legacy.exceptions.InvalidStatusCode": _rejected,
    "websockets.exceptions.InvalidProxyStatus": _rejected,
    "websockets.exceptions.InvalidProxyMessage": _PROXY,
    # An AssertionError as well.
    "websockets.exceptions.InvalidState": _is(FaultKind.PERMANENT, "local: WebSocket in the wrong state"),
}

"""WebSocket closes and refused handshakes; over real connections in tests/integration/test_websockets.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.signal import Signal, signal_of
from perdure.faults.websockets import fault_of_close

websockets = pytest.importorskip("websockets")
errors = pytest.importorskip("websockets.exceptions")
frames = pytest.importorskip("websockets.frames")

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
P, N = FaultKind.PERMANENT, FaultKind.NEUTRAL


def closed(
    received: int | None, sent: int | None = None, *, first: bool | None = None, reason: str = ""
) -> Exception:
    rcvd = None if received is None else frames.Close(received, "")
    close = None if sent is None else frames.Close(sent, reason)
    error: Exception = errors.ConnectionClosedError(rcvd, close, first)
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1000, N),
        (1001, T),
        (1002, P),
        (1003, P),
        (1005, N),
        (1007, P),
        (1008, P),
        (1009, P),
        (1010, P),
        (1011, A),
        (1012, T),
        (1013, R),
        (1014, A),
        (3000, P),
        (3003, P),
        (3008, A),
        (4000, P),
        (4999, P),
    ],
)
def test_the_code_that_the_peer_sent(code: int, kind: FaultKind) -> None:
    assert classify(closed(code)).kind is kind
    assert classify(closed(code, code, first=True)).kind is kind
    assert str(code) in classify(closed(code)).why


@given(st.integers(0, 65_535))
def test_any_code_has_an_answer(code: int) -> None:
    assert str(code) in fault_of_close(code).why


def test_a_connection_that_was_cut() -> None:
    assert classify(closed(None)) == Fault(A, None, "connection cut without a close (1006)")


def test_a_close_of_this_side_says_why_this_side_closed() -> None:
    silent = closed(None, 1011, reason="keepalive ping timeout")
    assert classify(silent) == Fault(A, None, "keepalive ping timed out")
    assert signal_of(silent, classify(silent), wanted=False) is Signal.OVERLOAD
    assert classify(closed(1000, 1000, first=False)).kind is N
    assert classify(closed(None, 1001)).kind is N
    assert classify(closed(1002, 1002, first=False)).kind is P
    assert classify(closed(None, 1011)).kind is A


def rejected(status: int, body: bytes = b"", **headers: str) -> Exception:
    http: Any = pytest.importorskip("websockets.http11")
    fields = pytest.importorskip("websockets.datastructures").Headers(headers)
    error: Exception = errors.InvalidStatus(http.Response(status, "x", fields, body))
    return error


def test_a_handshake_that_the_server_answers_with_a_status() -> None:
    assert classify(rejected(503)).kind is A
    assert classify(rejected(503, **{"Retry-After": "7"})) == Fault(R, 7.0, "HTTP 503 Service Unavailable")
    assert classify(rejected(429)).kind is R
    assert classify(rejected(401)).kind is FaultKind.STALE
    assert classify(rejected(404)).kind is P


def test_other_classes() -> None:
    assert classify(errors.InvalidMessage("did not receive a valid HTTP response")).kind is T
    assert classify(errors.InvalidHandshake("x")).kind is P
    assert classify(errors.InvalidUpgrade("Upgrade", "x")).kind is P
    assert classify(errors.InvalidURI("x", "y")).kind is P
    assert classify(errors.InvalidState("x")).kind is P
    assert classify(errors.WebSocketException("x")).kind is P
    assert classify(TimeoutError("timed out during opening handshake")).kind is T

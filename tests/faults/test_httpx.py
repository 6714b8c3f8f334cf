"""Classes of httpx and httpx2 as a test double raises them, without anything under them.

What the real ones become is in tests/integration/test_http_faults.py.
"""

from __future__ import annotations

from typing import Any

import httpcore
import httpcore2
import httpx
import httpx2
import pytest

from perdure.faults import FaultKind, Safety, classify, safety_of
from perdure.faults.httpx import RULES
from tests.faults.libraries import exceptions_in, without_row

T, A, S, P, R = (
    FaultKind.TRANSIENT,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
    FaultKind.THROTTLED,
)

BOTH = pytest.mark.parametrize("package", [httpx, httpx2], ids=["httpx", "httpx2"])
BOTH_CORES = pytest.mark.parametrize("package", [httpcore, httpcore2], ids=["httpcore", "httpcore2"])

SHARED = {
    "ConnectError": T,
    "ConnectTimeout": T,
    "LocalProtocolError": P,
    "NetworkError": A,
    "PoolTimeout": T,
    "ProtocolError": A,
    "ProxyError": T,
    "ReadError": A,
    "ReadTimeout": A,
    "RemoteProtocolError": A,
    "TimeoutException": A,
    "UnsupportedProtocol": P,
    "WriteError": A,
    "WriteTimeout": A,
}
OF_THE_CLIENT = {
    "CloseError": A,
    "CookieConflict": P,
    "DecodingError": A,
    "InvalidURL": P,
    "StreamError": P,
    "TooManyRedirects": P,
    "TransportError": A,
}


@BOTH
@pytest.mark.parametrize(("name", "kind"), [*SHARED.items(), *OF_THE_CLIENT.items()])
def test_a_class_of_the_client(name: str, kind: FaultKind, package: Any) -> None:
    assert classify(getattr(package, name)("told by a test double")).kind is kind


@BOTH_CORES
@pytest.mark.parametrize(("name", "kind"), [*SHARED.items(), ("ConnectionNotAvailable", T)])
def test_a_class_of_the_core(name: str, kind: FaultKind, package: Any) -> None:
    assert classify(getattr(package, name)()).kind is kind


def test_httpx2_is_not_httpx() -> None:
    """So a table of one says nothing about the other."""
    assert not issubclass(httpx2.ConnectError, httpx.ConnectError)


@pytest.mark.parametrize("modules", [(httpx, httpcore), (httpx2, httpcore2)], ids=["httpx", "httpx2"])
def test_every_class_has_a_row_but_the_bases_that_say_nothing(modules: Any) -> None:
    assert without_row(exceptions_in(*modules), RULES) == {"HTTPError", "RequestError"}


@BOTH
def test_streams_used_in_the_wrong_way_are_local(package: Any) -> None:
    for error in (package.StreamConsumed(), package.StreamClosed(), package.ResponseNotRead()):
        assert classify(error).kind is P
        assert classify(error).why.startswith("local: ")


@BOTH
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Invalid input ConnectionInputs.SEND_HEADERS in state ConnectionState.CLOSED", T),
        ("Invalid input ConnectionInputs.RECV_WINDOW_UPDATE in state ConnectionState.CLOSED", A),
        ("Too much data for declared Content-Length", P),
    ],
)
def test_a_closed_http2_connection_is_not_our_mistake(text: str, kind: FaultKind, package: Any) -> None:
    assert classify(package.LocalProtocolError(text)).kind is kind


@BOTH
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Server disconnected without sending a response.", "server closed the connection without an answer"),
        ("peer closed connection without sending complete message body (x)", "response body cut short"),
        ("<ConnectionTerminated error_code:0, last_stream_id:1>", "HTTP/2 connection closed by the server"),
        ("<StreamReset stream_id:1, error_code:7>", "HTTP/2 connection closed by the server"),
        ("illegal status line", "garbage instead of an HTTP response"),
    ],
)
def test_a_broken_protocol_is_ambiguous_and_said_in_words(text: str, why: str, package: Any) -> None:
    fault = classify(package.RemoteProtocolError(text))
    assert (fault.kind, fault.why) == (A, why)


@BOTH
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("502 Bad Gateway", T),
        ("407 Proxy Authentication Required", S),
        ("403 Forbidden", P),
        ("Invalid username/password", P),
        ("USERNAME/PASSWORD was requested but NO ACCEPTABLE METHODS was received", P),
        ("Proxy Server could not connect: Host unreachable.", T),
    ],
)
def test_a_proxy_in_its_own_words(text: str, kind: FaultKind, package: Any) -> None:
    assert classify(package.ProxyError(text)).kind is kind


@BOTH
def test_a_status_error_goes_by_all_that_the_response_says(package: Any) -> None:
    def error(status: int, method: str = "POST", **response: Any) -> Exception:
        request = package.Request(method, "http://host.test", headers={"Idempotency-Key": "k"})
        answer = package.Response(status, request=request, **response)
        return package.HTTPStatusError("x", request=request, response=answer)  # type: ignore[no-any-return]

    assert classify(error(503, headers={"Retry-After": "7"})).hint == 7
    assert classify(error(408)).kind is A
    assert classify(error(408, "GET")).kind is T
    assert classify(error(429, json={"error": {"code": "insufficient_quota"}})).kind is P
    assert classify(error(404)).kind is P
    assert safety_of(error(500)) is Safety.KEYED


@BOTH
def test_a_request_that_was_never_set_is_no_crash(package: Any) -> None:
    error = package.ConnectError("x")
    with pytest.raises(RuntimeError):
        _ = error.request
    assert safety_of(error) is None


def test_a_subclass_of_the_user_is_as_its_base() -> None:
    class Mine(httpx.PoolTimeout):
        pass

    assert classify(Mine("x")).why.startswith("local: ")

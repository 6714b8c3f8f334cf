"""Every event on the wire, through every client: the exception it becomes, and what that is taken for.

B095 (a closed connection is no NetworkError of httpx), B087 (clients that take a cut header block for an answer).
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from perdure.faults import FaultKind, Safety, classify, safety_of
from perdure.faults.signal import Signal, signal_of
from tests.integration import wire
from tests.integration.http_clients import CLIENTS, failure, post

if TYPE_CHECKING:
    from perdure.faults import Fault

T, R, A, S, P = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.PERMANENT,
)
FAILURE, OVERLOAD, NEUTRAL, ANSWER = Signal.FAILURE, Signal.OVERLOAD, Signal.NEUTRAL, Signal.ANSWER

WAIT = 0.05  # seconds, where the event is a timeout


class Raised(NamedTuple):
    """The class in each library; None where it raises nothing. `aiohttp` last."""

    httpx: str
    requests: str | None
    urllib3: str | None
    aiohttp: str

    def by(self, client: str) -> str | None:
        return getattr(self, client.partition("-")[0].replace("httpx2", "httpx"))  # type: ignore[no-any-return]


class Event(NamedTuple):
    """What the server does, and what that is."""

    step: wire.Step
    kind: FaultKind
    signal: Signal
    raised: Raised
    timeout: float = 10


EVENTS = {
    "closed before any byte": Event(
        wire.close(),
        A,
        FAILURE,
        Raised("RemoteProtocolError", "ConnectionError", "ProtocolError", "ServerDisconnectedError"),
    ),
    "reset before any byte": Event(
        wire.reset(), A, FAILURE, Raised("ReadError", "ConnectionError", "ProtocolError", "ClientOSError")
    ),
    "garbage": Event(
        wire.garbage(),
        A,
        FAILURE,
        Raised("RemoteProtocolError", "ConnectionError", "ProtocolError", "ClientResponseError"),
    ),
    "damaged header": Event(
        wire.garbage(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
        A,
        FAILURE,
        Raised("RemoteProtocolError", None, None, "ClientResponseError"),
    ),
    "cut headers": Event(
        wire.cut_headers(), A, FAILURE, Raised("RemoteProtocolError", None, None, "ServerDisconnectedError")
    ),
    "short body": Event(
        wire.short_body(),
        A,
        FAILURE,
        Raised("RemoteProtocolError", "ChunkedEncodingError", "ProtocolError", "ClientPayloadError"),
    ),
    "cut chunk": Event(
        wire.cut_chunked(),
        A,
        FAILURE,
        Raised("RemoteProtocolError", "ChunkedEncodingError", "ProtocolError", "ClientPayloadError"),
    ),
    "reset in body": Event(
        wire.reset_in_body(),
        A,
        FAILURE,
        Raised("ReadError", "ChunkedEncodingError", "ProtocolError", "ClientPayloadError"),
    ),
    "no headers in time": Event(
        wire.hang(),
        A,
        OVERLOAD,
        Raised("ReadTimeout", "ReadTimeout", "ReadTimeoutError", "SocketTimeoutError"),
        WAIT,
    ),
    "no body in time": Event(
        wire.hang_in_body(),
        A,
        OVERLOAD,
        Raised("ReadTimeout", "ConnectionError", "ReadTimeoutError", "SocketTimeoutError"),
        WAIT,
    ),
    "broken gzip": Event(
        wire.bad_gzip(),
        A,
        FAILURE,
        Raised("DecodingError", "ContentDecodingError", "DecodeError", "ClientPayloadError"),
    ),
    "redirects without end": Event(
        wire.redirect("/"),
        P,
        NEUTRAL,
        Raised("TooManyRedirects", "TooManyRedirects", None, "TooManyRedirects"),
    ),
    "not found": Event(
        wire.answer(404), P, ANSWER, Raised("HTTPStatusError", "HTTPError", None, "ClientResponseError")
    ),
    "overloaded": Event(
        wire.answer(503, {"Retry-After": "7"}),
        R,
        OVERLOAD,
        Raised("HTTPStatusError", "HTTPError", None, "ClientResponseError"),
    ),
}


def judged(error: Exception) -> tuple[FaultKind, Signal]:
    fault: Fault = classify(error)
    return fault.kind, signal_of(error, fault, wanted=bool(fault.retryable))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_the_server(name: str, client: str) -> None:
    event = EVENTS[name]
    raised = event.raised.by(client)
    with wire.serve(event.step) as server:
        if raised is None:
            post(client, server.url, timeout=event.timeout)
            return
        error = failure(client, server.url, timeout=event.timeout)
    assert type(error).__name__ == raised
    assert judged(error) == (event.kind, event.signal)


# -- before the request was sent -----------------------------------------------------------------------

REFUSED = Raised("ConnectError", "ConnectionError", "NewConnectionError", "ClientConnectorError")
UNRESOLVED = Raised("ConnectError", "ConnectionError", "NameResolutionError", "ClientConnectorDNSError")
SILENT = Raised("ConnectTimeout", "ConnectTimeout", "ConnectTimeoutError", "ConnectionTimeoutError")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_is_no_timeout_and_no_congestion(client: str) -> None:
    with wire.refused() as port:
        error = failure(client, f"http://127.0.0.1:{port}")
    assert type(error).__name__ == REFUSED.by(client)
    assert judged(error) == (T, FAILURE)
    assert classify(error).why.startswith("connection refused")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_connect_timeout(client: str) -> None:
    with wire.silent() as port:
        error = failure(client, f"http://127.0.0.1:{port}", timeout=WAIT)
    assert type(error).__name__ == SILENT.by(client)
    assert judged(error) == (T, OVERLOAD)
    assert classify(error).why == "connect timed out"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("number", "expected"), [("EAI_AGAIN", (T, FAILURE)), ("EAI_NONAME", (P, NEUTRAL))], ids=str
)
def test_a_host_that_cannot_be_resolved(
    monkeypatch: pytest.MonkeyPatch, number: str, expected: tuple[FaultKind, Signal], client: str
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise socket.gaierror(getattr(socket, number), "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = failure(client, "http://host.test")
    assert type(error).__name__ == UNRESOLVED.by(client)
    assert judged(error) == expected
    assert number in classify(error).why


@pytest.mark.parametrize("client", CLIENTS)
def test_a_scheme_that_no_client_knows(client: str) -> None:
    error = failure(client, "nonsense://host.test")
    raised = Raised("UnsupportedProtocol", "InvalidSchema", "URLSchemeUnknown", "NonHttpUrlClientError")
    assert type(error).__name__ == raised.by(client)
    assert judged(error) == (P, NEUTRAL)
    assert classify(error).why == "local: invalid URL"


CERTIFICATE = Raised("ConnectError", "SSLError", "SSLError", "ClientConnectorCertificateError")

HANDSHAKES = {
    "wrong_host": (P, NEUTRAL, CERTIFICATE),
    "expired": (P, NEUTRAL, CERTIFICATE),
    "untrusted": (P, NEUTRAL, CERTIFICATE),
    "plain": (P, NEUTRAL, Raised("ConnectError", "SSLError", "SSLError", "ClientConnectorSSLError")),
    "close": (T, FAILURE, Raised("ConnectError", "SSLError", "SSLError", "ClientConnectorError")),
    "reset": (T, FAILURE, Raised("ConnectError", "ConnectionError", "ProtocolError", "ClientConnectorError")),
    "hang": (
        T,
        OVERLOAD,
        Raised("ConnectTimeout", "ReadTimeout", "ReadTimeoutError", "ConnectionTimeoutError"),
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", HANDSHAKES)
def test_a_tls_handshake_that_fails_was_sent_nothing(mode: Any, client: str) -> None:
    kind, signal, raised = HANDSHAKES[mode]
    timeout = WAIT if mode == "hang" else 10
    with wire.serve(tls=mode) as server:
        error = failure(client, server.url, timeout=timeout, trust=server.trust, ca_file=server.ca_file)
    assert type(error).__name__ == raised.by(client)
    assert judged(error) == (kind, signal)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("step", [wire.reset(), wire.short_body()], ids=["reset", "cut"])
def test_after_the_handshake_the_request_was_sent(step: wire.Step, client: str) -> None:
    with wire.serve(step, tls="good") as server:
        error = failure(client, server.url, trust=server.trust, ca_file=server.ca_file)
        assert len(server.requests) == 1
    assert classify(error).kind is A


# -- proxies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("status", "kind", "signal"), [(502, T, FAILURE), (403, P, NEUTRAL), (407, S, NEUTRAL)]
)
def test_a_proxy_that_refuses_to_connect_sent_nothing_on(
    status: int, kind: FaultKind, signal: Signal, client: str
) -> None:
    with wire.serve(wire.answer(status, keep=False)) as server:
        error = failure(client, "https://host.test", proxy=server.url)
        assert server.requests[0].method == "CONNECT"
    raised = Raised("ProxyError", "ProxyError", "ProxyError", "ClientHttpProxyError")
    assert type(error).__name__ == raised.by(client)
    assert judged(error) == (kind, signal)
    assert classify(error).why.startswith(f"proxy: HTTP {status}")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_proxy_that_is_not_there(client: str) -> None:
    with wire.refused() as port:
        error = failure(client, "https://host.test", proxy=f"http://127.0.0.1:{port}")
    raised = Raised("ConnectError", "ProxyError", "ProxyError", "ClientProxyConnectionError")
    assert type(error).__name__ == raised.by(client)
    assert judged(error) == (T, FAILURE)


# -- which request it was ------------------------------------------------------------------------------

WITH_REQUEST = {
    "httpx": ("refused", "close", "short", "status"),
    "httpx-async": ("refused", "close", "short", "status"),
    "httpx2": ("refused", "close", "short", "status"),
    "httpx2-async": ("refused", "close", "short", "status"),
    "requests": ("refused", "close", "status"),
    "urllib3": (),
    "aiohttp": ("status",),
}
"""Where the exception leads to its request. The others count as safe unless the policy says otherwise."""


STEPS = {
    "close": wire.close(),
    "short": wire.short_body(),
    "status": wire.answer(500),
}


@pytest.mark.parametrize("name", ["refused", *STEPS])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("method", "safety"), [("POST", Safety.UNSAFE), ("PUT", Safety.SAFE)])
def test_the_request_is_found_on_the_exception(method: str, safety: Safety, client: str, name: str) -> None:
    if (client, name) == ("urllib3", "status"):
        return  # it gives the response and raises nothing
    if name == "refused":
        with wire.refused() as port:
            error = failure(client, f"http://127.0.0.1:{port}", method=method)
    else:
        with wire.serve(STEPS[name]) as server:
            error = failure(client, server.url, method=method)
    assert safety_of(error) is (safety if name in WITH_REQUEST[client] else None)

"""TLS, sockets and name resolution; where it can be, with a real failure on the loopback interface."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
import struct
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from perdure.faults import Fault, FaultKind, classify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T, R, A, P = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS, FaultKind.PERMANENT

# -- made by hand --------------------------------------------------------------------------------------


def tls(cls: type[ssl.SSLError], reason: str | None, number: int = 1) -> ssl.SSLError:
    exc = cls(number, f"[SSL: {reason}] text")
    exc.reason = reason
    return exc


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (tls(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED"), P),
        (tls(ssl.SSLError, "WRONG_VERSION_NUMBER"), P),
        (tls(ssl.SSLError, "NO_PROTOCOLS_AVAILABLE"), P),
        (tls(ssl.SSLError, "SSLV3_ALERT_HANDSHAKE_FAILURE"), P),
        (tls(ssl.SSLError, "TLSV1_ALERT_PROTOCOL_VERSION"), P),
        (tls(ssl.SSLError, None), P),
        (tls(ssl.SSLError, "UNEXPECTED_EOF_WHILE_READING"), A),
        (tls(ssl.SSLError, "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"), A),
        (tls(ssl.SSLError, "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), A),
        (tls(ssl.SSLError, "SSLV3_ALERT_BAD_RECORD_MAC"), A),
        (tls(ssl.SSLEOFError, "UNEXPECTED_EOF_WHILE_READING", 8), A),
        (tls(ssl.SSLZeroReturnError, None, 6), A),
        (tls(ssl.SSLWantReadError, None, 2), T),
        (tls(ssl.SSLWantWriteError, None, 3), T),
        (tls(ssl.SSLSyscallError, None, 5), A),
        (tls(ssl.SSLSyscallError, None, errno.EHOSTUNREACH), T),
        (tls(ssl.SSLSyscallError, None, errno.ECONNRESET), A),
        (ssl.SSLError(), P),
        (ssl.SSLSyscallError(), A),
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'reason', value)}",
)
def test_tls_errors(exc: Exception, kind: FaultKind) -> None:
    fault = classify(exc)
    assert fault.kind is kind
    assert fault.why


def test_a_tls_failure_is_named_by_its_reason() -> None:
    assert classify(tls(ssl.SSLError, "WRONG_VERSION_NUMBER")).why == "TLS WRONG_VERSION_NUMBER"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("EAI_AGAIN", T),
        ("EAI_MEMORY", T),
        ("EAI_FAIL", P),
        ("EAI_NONAME", P),
        ("EAI_NODATA", P),
        ("EAI_SERVICE", P),
        ("EAI_FAMILY", P),
        ("EAI_SYSTEM", P),
    ],
)
def test_a_resolver_error_is_compared_by_name(name: str, kind: FaultKind) -> None:
    number = getattr(socket, name, None)
    if number is None:
        pytest.skip(f"this platform has no {name}")
    assert classify(socket.gaierror(number, "x")).kind is kind


def test_resolver_errors_without_a_number_are_permanent() -> None:
    assert classify(socket.gaierror("x")).kind is P
    assert classify(socket.gaierror()).kind is P
    assert classify(socket.herror(2, "x")).kind is T
    assert classify(socket.herror(1, "x")).kind is P


# -- provoked ------------------------------------------------------------------------------------------


@contextmanager
def server(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """Accept one connection on the loopback interface and hand it to `answer`, then close it."""

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(10)
        with connection:
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(10)
    assert not thread.is_alive()


def says(*parts: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        for part in parts:
            connection.sendall(part)

    return answer


def resets(connection: socket.socket) -> None:
    connection.recv(65_536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def get(port: int) -> Exception:
    def fetch() -> None:
        connection.request("GET", "/")
        connection.getresponse().read()

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with pytest.raises((OSError, http.client.HTTPException)) as caught:
        fetch()
    connection.close()
    return caught.value


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as bound:  # bound but not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_refused_port(closed_port: int) -> None:
    assert classify(get(closed_port)) == Fault(T, None, "connection refused")


def test_a_reset_connection() -> None:
    with server(resets) as port:
        assert classify(get(port)) == Fault(A, None, "connection reset")


def test_a_connection_closed_without_an_answer() -> None:
    with server(says()) as port:
        assert classify(get(port)).why == "server closed the connection without an answer"


@pytest.mark.parametrize(
    ("parts", "kind", "why"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"short"], A, "response body cut short"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort"], A, "response body cut short"),
        ([b"garbage\r\n\r\n"], A, "garbage instead of a status line"),
        ([b"HTTP/9.9 200 OK\r\n\r\n"], P, "unknown HTTP version"),
    ],
)
def test_a_broken_answer(parts: list[bytes], kind: FaultKind, why: str) -> None:
    with server(says(*parts)) as port:
        assert classify(get(port)) == Fault(kind, None, why)


def test_a_connection_used_out_of_step() -> None:
    with server(says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        with pytest.raises(http.client.CannotSendRequest) as caught:
            connection.request("GET", "/")
        connection.close()
    assert classify(caught.value).kind is FaultKind.STALE


def open_url(url: str) -> urllib.error.URLError:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.URLError) as caught:
        opener.open(url, timeout=10)
    return caught.value


def test_urllib_against_a_refused_port_a_busy_server_and_a_missing_file(closed_port: int) -> None:
    assert classify(open_url(f"http://127.0.0.1:{closed_port}/")) == Fault(T, None, "connection refused")
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    with server(says(busy)) as port:
        error = open_url(f"http://127.0.0.1:{port}/")
    assert classify(error) == Fault(R, 7.0, "HTTP 503 Service Unavailable")
    assert isinstance(error, urllib.error.HTTPError)
    error.close()
    assert classify(open_url("file:///no/such/file")).kind is P
    assert classify(open_url("nonsense:x")).kind is P


def test_names_that_cannot_be_resolved_without_a_network() -> None:
    with pytest.raises(socket.gaierror) as caught:
        socket.getaddrinfo("no number", 80, flags=socket.AI_NUMERICHOST)
    assert classify(caught.value) == Fault(P, None, "unknown host name, or no network (EAI_NONAME)")


def test_a_pipe_without_a_reader_and_a_socket_without_data() -> None:
    one, two = socket.socketpair()
    with one:
        one.setblocking(False)
        with pytest.raises(BlockingIOError) as waiting:
            one.recv(1)
        two.close()
        with pytest.raises(OSError, match=r".") as broken:
            one.send(b"x")
    assert classify(waiting.value).kind is T
    assert classify(broken.value).kind is A


def handshake(port: int, timeout: float = 10) -> Exception:
    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as plain:
        with pytest.raises(OSError, match=r".") as caught:
            context.wrap_socket(plain, server_hostname="host.test")
        return caught.value


def test_tls_to_a_plain_text_port_is_configuration() -> None:
    with server(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        fault = classify(handshake(port))
    assert fault.kind is P
    assert fault.why.startswith("TLS ")


def test_a_peer_that_closes_during_the_handshake_was_sent_nothing() -> None:
    with server(says()) as port:
        assert classify(handshake(port)) == Fault(T, None, "peer closed during the TLS handshake")


def test_a_handshake_that_times_out_was_sent_nothing() -> None:
    done = threading.Event()
    with server(lambda _: done.wait(10)) as port:
        fault = classify(handshake(port, timeout=0.05))
        done.set()
    assert fault == Fault(T, None, "TLS handshake timed out")


def test_a_handshake_cut_in_memory() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls_object = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="host.test")
    with pytest.raises(ssl.SSLWantReadError) as waiting:
        tls_object.do_handshake()
    incoming.write_eof()
    with pytest.raises(ssl.SSLError) as cut:
        tls_object.do_handshake()
    assert classify(waiting.value).kind is classify(cut.value).kind is T


def test_an_asyncio_stream_that_ends_too_early() -> None:
    async def read() -> None:
        reader = asyncio.StreamReader(limit=8)
        reader.feed_data(b"abc")
        reader.feed_eof()
        await reader.readexactly(4)

    with pytest.raises(asyncio.IncompleteReadError) as caught:
        asyncio.run(read())
    assert classify(caught.value).kind is A


def test_an_answer_cut_after_the_handshake_was_sent_the_request() -> None:
    """Over an anonymous cipher, which needs no certificate; both ends in memory."""
    ends: list[ssl.SSLObject] = []
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    for protocol, incoming, outgoing in (
        (ssl.PROTOCOL_TLS_CLIENT, to_client, to_server),
        (ssl.PROTOCOL_TLS_SERVER, to_server, to_client),
    ):
        context = ssl.SSLContext(protocol)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
        except ssl.SSLError:
            pytest.skip("this OpenSSL has no anonymous cipher")
        ends.append(context.wrap_bio(incoming, outgoing, server_side=protocol is ssl.PROTOCOL_TLS_SERVER))
    for end in (*ends, *ends):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    to_client.write_eof()
    with pytest.raises(ssl.SSLEOFError) as caught:
        ends[0].read(10)
    assert classify(caught.value) == Fault(A, None, "TLS connection cut")

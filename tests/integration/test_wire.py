"""The misbehaving server does to a bare socket, and to http.client, what its steps say."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration import wire

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
PATIENCE = 10


def connect(server: wire.Server) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def said(step: wire.Step, request: bytes = GET) -> bytes:
    """All that the server sends before it closes."""
    with wire.serve(step) as server, connect(server) as connection:
        connection.sendall(request)
        return read_all(connection)


def fetch(connection: http.client.HTTPConnection, method: str = "GET", **options: Any) -> tuple[int, bytes]:
    connection.request(method, "/", **options)
    response = connection.getresponse()
    return response.status, response.read()


def test_steps_are_played_in_order_and_the_last_one_repeats() -> None:
    with wire.serve(wire.answer(503), wire.answer(body="ok")) as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        answers = [fetch(connection) for _ in range(3)]
        connection.close()
        assert answers == [(503, b""), (200, b"ok"), (200, b"ok")]
        assert (server.connections, len(server.requests)) == (1, 3)


def test_a_request_is_recorded_as_it_was_sent() -> None:
    with wire.serve(wire.answer(keep=False)) as server:
        request = b"POST /a?b HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n\r\nabc"
        with connect(server) as connection:
            connection.sendall(request)
            read_all(connection)
        (seen,) = server.requests
    assert (seen.method, seen.target, seen.body, seen.connection) == ("POST", "/a?b", b"abc", 1)
    assert seen.headers == {"host": "h", "x-a": "2", "content-length": "3"}
    assert seen.raw[1:3] == [("X-A", "1"), ("x-a", "2")]


def test_a_chunked_body_is_put_together_and_an_expectation_is_met() -> None:
    with wire.serve() as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        assert fetch(connection, "POST", body=iter([b"ab", b"c"]), encode_chunked=True) == (200, b"")
        expecting = {"Expect": "100-continue"}
        assert fetch(connection, "POST", body=b"xyz", headers=expecting) == (200, b"")
        connection.close()
        assert [request.body for request in server.requests] == [b"abc", b"xyz"]


OK = b"HTTP/1.1 200 OK\r\n"
CLOSE = b"Connection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (wire.answer(keep=False), OK + b"Content-Length: 0\r\n" + CLOSE),
        (wire.answer(body=b"no", keep=False), OK + b"Content-Length: 2\r\n" + CLOSE + b"no"),
        (wire.answer(204, keep=False), b"HTTP/1.1 204 No Content\r\n" + CLOSE),
        (
            wire.answer(299, {"Content-Length": "0"}),
            b"HTTP/1.1 299 Unassigned\r\nContent-Length: 0\r\n" + CLOSE,
        ),
        (wire.answer(204, [("A", "1"), ("A", "2")]), b"HTTP/1.1 204 No Content\r\nA: 1\r\nA: 2\r\n" + CLOSE),
        (
            wire.answer(body="x" * 17, chunked=True),
            OK + CHUNKED + CLOSE + b"10\r\n%b\r\n1\r\nx\r\n0\r\n\r\n" % (b"x" * 16),
        ),
        (wire.close(), b""),
        (wire.close_idle(body="a"), OK + b"Content-Length: 1\r\n\r\na"),
        (wire.garbage(), b"garbage\r\n\r\n"),
        (wire.garbage(b"\0"), b"\0"),
        (wire.cut_headers(), OK + b"Content-Le"),
        (wire.short_body(9, 2), OK + b"Content-Length: 9\r\n\r\nxx"),
        (wire.cut_chunked(), OK + CHUNKED + b"\r\nff\r\nshort"),
        (wire.early(400), b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n" + CLOSE),
        (wire.call(lambda request: wire.garbage(request.target.encode())), b"/x"),
    ],
)
def test_what_a_step_sends_before_it_closes(step: wire.Step, expected: bytes) -> None:
    assert said(step, b"GET /x HTTP/1.0\r\n\r\n") == expected


def test_the_client_decides_too_whether_the_connection_stays_open() -> None:
    assert b"Connection: close" in said(wire.answer(), b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert b"Connection: close" in said(wire.answer(), b"GET / HTTP/1.0\r\n\r\n")


def test_the_answer_to_head_has_no_body() -> None:
    assert said(wire.answer(body="abc", keep=False), b"HEAD / HTTP/1.1\r\n\r\n").endswith(b"close\r\n\r\n")


def test_an_early_answer_comes_before_the_body() -> None:
    with wire.serve(wire.early(413)) as server, connect(server) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")
        assert server.requests[0].body == b""


def test_a_redirect_says_where() -> None:
    sent = said(wire.redirect("/there", 308), b"GET / HTTP/1.0\r\n\r\n")
    assert sent.startswith(b"HTTP/1.1 308 Permanent Redirect\r\nLocation: /there\r\n")


def test_a_broken_gzip_body_is_whole_and_no_gzip() -> None:
    with wire.serve(wire.bad_gzip()) as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        assert fetch(connection) == (200, b"this is not gzip")
        connection.close()


@pytest.mark.parametrize(("step", "first"), [(wire.reset(), b""), (wire.reset_in_body(), b"HTTP/1.1 200 OK")])
def test_a_reset_is_a_reset(step: wire.Step, first: bytes) -> None:
    with wire.serve(step) as server, connect(server) as connection:
        connection.sendall(GET)
        if first:
            assert connection.recv(65_536).startswith(first)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


@pytest.mark.parametrize("step", [wire.hang(), wire.hang_in_body()])
def test_what_hangs_ends_when_the_client_leaves(step: wire.Step) -> None:
    with wire.serve(step) as server:
        with connect(server) as connection:
            connection.sendall(GET)
            server.wait_for(requests=1)
        assert len(server.requests) == 1


@pytest.mark.parametrize("step", [wire.hang(), wire.answer()])
def test_what_hangs_or_is_idle_ends_when_the_server_closes(step: wire.Step) -> None:
    with wire.serve(step) as server:
        idle, used = connect(server), connect(server)
        used.sendall(GET)
        server.wait_for(requests=1, connections=2)
    with idle, used:
        assert read_all(idle) == b""
        read_all(used)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("wire")]


def test_closing_twice_does_no_harm_and_nobody_listens_any_more() -> None:
    with wire.serve() as server:
        server.close()
        with pytest.raises(ConnectionRefusedError):
            connect(server)


def test_what_a_function_raises_comes_out_where_the_server_ends() -> None:
    def refuse(request: wire.Request) -> wire.Step:
        raise ZeroDivisionError(request.target)

    with pytest.raises(ZeroDivisionError, match="/x"):
        said(wire.call(refuse))


def test_a_client_that_leaves_inside_its_request_is_no_error() -> None:
    with wire.serve() as server:
        for part in (b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"):
            with connect(server) as connection:
                connection.sendall(part)
        assert server.requests == []


def test_many_clients_at_once_get_one_step_each() -> None:
    taken = iter(range(60))
    with wire.serve(wire.call(lambda _: wire.answer(body=str(next(taken))))) as server:

        def work(_: int) -> list[bytes]:
            connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
            try:
                return [fetch(connection)[1] for _ in range(10)]
            finally:
                connection.close()

        with ThreadPoolExecutor(6) as pool:
            bodies = [body for found in pool.map(work, range(6)) for body in found]
        assert sorted(map(int, bodies)) == list(range(60))
        assert server.connections == 6


def test_a_refused_and_a_silent_port() -> None:
    with wire.refused() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    with wire.silent() as port, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), timeout=0.05)


# -- TLS -----------------------------------------------------------------------------------------------


def over_tls(server: wire.Server) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection(server.host, server.port, timeout=PATIENCE, context=server.trust)
    try:
        return fetch(connection)
    finally:
        connection.close()


def test_a_good_certificate_is_trusted() -> None:
    with wire.serve(wire.answer(body="ok"), tls="good") as server:
        assert server.url.startswith("https://")
        assert over_tls(server) == (200, b"ok")
        with open(server.ca_file, "rb") as file:  # noqa: PTH123
            assert file.read().startswith(b"-----BEGIN CERTIFICATE-----")


@pytest.mark.parametrize(
    ("mode", "error", "text"),
    [
        ("wrong_host", ssl.SSLCertVerificationError, "IP address mismatch"),
        ("expired", ssl.SSLCertVerificationError, "certificate has expired"),
        ("untrusted", ssl.SSLCertVerificationError, "unable to get local issuer"),
        ("plain", ssl.SSLError, "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE"),
        ("close", ssl.SSLEOFError, "EOF"),
        ("reset", ConnectionResetError, "reset by peer|forcibly closed"),
    ],
)
def test_a_handshake_fails_as_scripted(mode: Any, error: type[Exception], text: str) -> None:
    with wire.serve(tls=mode) as server, pytest.raises(error, match=text):
        over_tls(server)
    assert server.requests == []


def test_a_handshake_that_hangs() -> None:
    with wire.serve(tls="hang") as server, connect(server) as plain:
        plain.settimeout(0.05)
        with pytest.raises(TimeoutError, match="handshake"):
            server.trust.wrap_socket(plain, server_hostname=server.host)


def test_a_server_closes_while_a_client_leaves_its_handshake_unfinished() -> None:
    with wire.serve(tls="good") as server:
        silent = connect(server)
        while not server.connections:
            pass
    with silent:
        assert read_all(silent) == b""

"""What the misbehaving server does with one request; `wire` has the names that tests use."""

from __future__ import annotations

import http
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from tests.integration.wire_connection import Connection, Request

    Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]

BODILESS = {204, 304}
CHUNK = 16


@dataclass(frozen=True)
class Exchange:
    """A request, the connection it came on, and whether the client lets that stay open."""

    connection: Connection
    request: Request
    keeps: bool


@dataclass(frozen=True)
class Step:
    """What to do with a request: `play` gives whether the connection stays open."""

    play: Callable[[Exchange], bool]
    reads_body: bool = True


def answer(
    status: int = 200,
    headers: Headers = (),
    body: bytes | str = b"",
    *,
    chunked: bool = False,
    keep: bool = True,
) -> Step:
    """Answer as a server should. `keep=False` says so, and closes."""

    def play(exchange: Exchange) -> bool:
        keeps = keep and exchange.keeps
        exchange.connection.send(_message(exchange, status, headers, body, chunked=chunked, keeps=keeps))
        return keeps

    return Step(play)


def redirect(location: str, status: int = 307, headers: Headers = ()) -> Step:
    """Answer with a redirect to `location`."""
    return answer(status, [("Location", location), *_pairs(headers)])


def close_idle(status: int = 200, headers: Headers = (), body: bytes | str = b"") -> Step:
    """Answer as if the connection stayed open, and close it."""

    def play(exchange: Exchange) -> bool:
        exchange.connection.send(_message(exchange, status, headers, body, keeps=True))
        return False

    return Step(play)


def early(status: int, headers: Headers = (), body: bytes | str = b"") -> Step:
    """Answer before the body is read, then read what the client still sends, and close."""

    def play(exchange: Exchange) -> bool:
        exchange.connection.send(_message(exchange, status, headers, body, keeps=False))
        exchange.connection.finish()
        return False

    return Step(play, reads_body=False)


def call(function: Callable[[Request], Step]) -> Step:
    """Ask `function` for the step. What it raises comes out where `serve` ends; the client sees a close."""
    return Step(lambda exchange: function(exchange.request).play(exchange))


def close() -> Step:
    """Close before any byte."""
    return Step(lambda _: False)


def reset() -> Step:
    """Reset the connection before any byte."""
    return _then_reset(b"")


def garbage(data: bytes = b"garbage\r\n\r\n") -> Step:
    """Send `data` as it is, and close."""
    return _then_close(data)


def cut_headers() -> Step:
    """Close inside the header block."""
    return _then_close(b"HTTP/1.1 200 OK\r\nContent-Le")


def short_body(length: int = 100, sent: int = 5) -> Step:
    """Announce `length` bytes, send `sent` of them, and close."""
    return _then_close(_begun(length, sent))


def cut_chunked() -> Step:
    """Close inside a chunk."""
    return _then_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort")


def reset_in_body() -> Step:
    """Announce 100 bytes, send 5, and reset the connection."""
    return _then_reset(_begun(100, 5))


def hang() -> Step:
    """Send nothing until the client leaves or the server closes."""
    return _then_hang(b"")


def hang_in_body() -> Step:
    """Announce 100 bytes, send 5, and then nothing."""
    return _then_hang(_begun(100, 5))


def bad_gzip() -> Step:
    """Answer with a body that says it is gzip and is not."""
    return answer(200, {"Content-Encoding": "gzip"}, b"this is not gzip")


def _begun(length: int, sent: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (length, b"x" * sent)


def _then_close(data: bytes) -> Step:
    def play(exchange: Exchange) -> bool:
        exchange.connection.send(data)
        return False

    return Step(play)


def _then_reset(data: bytes) -> Step:
    def play(exchange: Exchange) -> bool:
        exchange.connection.send(data)
        exchange.connection.reset()
        return False

    return Step(play)


def _then_hang(data: bytes) -> Step:
    def play(exchange: Exchange) -> bool:
        exchange.connection.send(data)
        exchange.connection.wait_for_end()
        return False

    return Step(play)


def _message(
    exchange: Exchange,
    status: int,
    headers: Headers,
    body: bytes | str,
    *,
    keeps: bool,
    chunked: bool = False,
) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    fields = _pairs(headers)
    if chunked:
        fields.append(("Transfer-Encoding", "chunked"))
        content = _in_chunks(content)
    elif status not in BODILESS and not any(name.lower() == "content-length" for name, _ in fields):
        fields.append(("Content-Length", str(len(content))))
    if not keeps:
        fields.append(("Connection", "close"))
    head = [f"HTTP/1.1 {status} {_phrase(status)}", *(f"{name}: {value}" for name, value in fields)]
    if status in BODILESS or exchange.request.method == "HEAD":
        content = b""
    return "\r\n".join([*head, "", ""]).encode("latin-1") + content


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    return list(headers.items() if hasattr(headers, "items") else headers)


def _in_chunks(content: bytes) -> bytes:
    pieces = [content[start : start + CHUNK] for start in range(0, len(content), CHUNK)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Unassigned"

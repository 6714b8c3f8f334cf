"""What both servers of the demo need of HTTP and sockets: one request per connection, on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from typing import Final

HOST: Final = "127.0.0.1"
_REASONS: Final = {
    200: "OK",
    404: "Not Found",
    422: "Unprocessable Content",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
# An abort with this option sends RST: the peer sees a reset, not the end of a stream.
_RESET: Final = struct.pack("ii", 1, 0)


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Read a request and return its call and attempt: `GET /items/17?attempt=2` is (17, 2)."""
    head = await reader.readuntil(b"\r\n\r\n")
    path, _, query = head.split(b" ", 2)[1].decode("ascii").partition("?")
    return int(path.rpartition("/")[2]), int(query.rpartition("=")[2])


def response(status: int, retry_after: int | None = None) -> bytes:
    """Return an answer with this status as it goes over the wire."""
    body = json.dumps({"status": status}).encode()
    hint = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{hint}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def cut(writer: asyncio.StreamWriter) -> None:
    """Drop the connection, so that the peer sees a reset."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def reserve() -> tuple[int, socket.socket]:
    """Pick a free port and, where the system allows it, hold it while nothing listens there.

    Without the hold the system may give the port of a closed listener to somebody else, even to the
    very client that connects to it, which then talks to itself. Only Linux both lets a second socket
    bind the port and refuses connections to one that is bound and not listening.
    """
    sock = bound(0)
    port: int = sock.getsockname()[1]
    if sys.platform != "linux":
        sock.close()
    return port, sock


def bound(port: int) -> socket.socket:
    """Return a socket bound to the port; 0 takes any."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there the option lets two servers share one port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except OSError:
        sock.close()
        raise
    return sock


async def bind_again(port: int) -> socket.socket:
    """Bind a port that was picked before, as soon as that is possible."""
    while True:
        try:
            return bound(port)
        except OSError:  # only where the port could not be held: wait until it is free again
            await asyncio.sleep(0.01)

"""One connection of the misbehaving server: reads requests, and ends in every way a connection can end."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

__all__ = ["Connection", "Gone", "Head", "Request"]

QUIET = 30  # seconds after which a client that says nothing has left
MOST_HEAD = 1 << 20


class Gone(Exception):
    """The client left in the middle of a request."""


@dataclass(frozen=True)
class Head:
    """The request line and the header block."""

    method: str
    target: str
    version: str
    raw: list[tuple[str, str]]
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", {name.lower(): value for name, value in self.raw})

    @property
    def keeps(self) -> bool:
        """Whether the client lets the connection stay open."""
        said = self.headers.get("connection", "").lower()
        return said == "keep-alive" if self.version == "HTTP/1.0" else said != "close"


@dataclass(frozen=True)
class Request:
    """A request as read: `headers` by lower-case name (the last of several), `raw` every field as written."""

    method: str
    target: str
    headers: dict[str, str]
    raw: list[tuple[str, str]]
    body: bytes
    connection: int


class Connection:
    """A socket with what was read ahead of the present request."""

    def __init__(self, raw: socket.socket) -> None:
        raw.settimeout(QUIET)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = raw
        self._ahead = b""
        self._interrupted = False

    def wrap(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on."""
        tls = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.socket = tls
        if self._interrupted:  # it may have found the plain socket, which is no more
            raise Gone
        tls.do_handshake()

    def send(self, data: bytes) -> None:
        """Send all of `data`."""
        self.socket.sendall(data)

    def read_head(self) -> Head | None:
        """Read up to the blank line; None when the client has nothing more to ask."""
        while b"\r\n\r\n" not in self._ahead:
            assert len(self._ahead) < MOST_HEAD
            if not self._receive():
                if self._ahead:
                    raise Gone
                return None
        head, self._ahead = self._ahead.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        pairs = [line.partition(":") for line in lines]
        return Head(method, target, version, [(name, value.strip()) for name, _, value in pairs])

    def read_body(self, head: Head) -> bytes:
        """Read the body that `head` announces."""
        if head.headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in head.headers.get("transfer-encoding", "").lower():
            return self._read_chunks()
        return self._read(int(head.headers.get("content-length", "0")))

    def _read_chunks(self) -> bytes:
        chunks: list[bytes] = []
        while size := int(self._read_line().partition(b";")[0], 16):
            chunks.append(self._read(size))
            self._read_line()
        while self._read_line():
            pass  # trailers
        return b"".join(chunks)

    def _read(self, size: int) -> bytes:
        while len(self._ahead) < size:
            if not self._receive():
                raise Gone
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._ahead:
            if not self._receive():
                raise Gone
        line, self._ahead = self._ahead.split(b"\r\n", 1)
        return line

    def _receive(self) -> bool:
        data = self.socket.recv(65_536)
        self._ahead += data
        return bool(data)

    def wait_for_end(self) -> None:
        """Read and forget until the client leaves or the server closes."""
        while self.socket.recv(65_536):
            pass

    def finish(self) -> None:
        """Say that nothing more is sent, and let the client send what it has: else it might see a reset."""
        socket.socket.shutdown(self.socket, socket.SHUT_WR)
        self.wait_for_end()

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Close, without a TLS good-bye."""
        self.socket.close()

    def interrupt(self) -> None:
        """From another thread: whoever reads or writes here finds the connection ended."""
        self._interrupted = True
        try:
            # Not SSLSocket.shutdown, which takes the TLS state away from the thread that uses it.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            pass  # the client was faster

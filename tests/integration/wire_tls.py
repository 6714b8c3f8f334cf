"""TLS for the misbehaving server: certificates that are right or wrong, and handshakes that go nowhere."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    import trustme

    from tests.integration.wire_connection import Connection

Mode: TypeAlias = Literal["good", "wrong_host", "expired", "untrusted", "plain", "hang", "close", "reset"]

NAMES = ("127.0.0.1", "localhost")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@cache
def _authority(name: str) -> trustme.CA:
    import trustme

    return trustme.CA(organization_name=name)


@cache
def _server_context(mode: Mode) -> ssl.SSLContext:
    authority = _authority("stranger" if mode == "untrusted" else "trusted")
    names = ("elsewhere.test",) if mode == "wrong_host" else NAMES
    expires = LONG_AGO if mode == "expired" else None
    certificate = authority.issue_cert(*names, not_after=expires)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


class Setup:
    """How a server greets, and what its clients may trust."""

    def __init__(self, mode: Mode, ca_file: str) -> None:
        self.mode = mode
        self.ca_file = ca_file

    def client_context(self) -> ssl.SSLContext:
        """A context that trusts only the authority of the good certificates."""
        return ssl.create_default_context(cafile=self.ca_file)

    def greet(self, connection: Connection) -> bool:
        """Shake hands, or do not; whether requests follow."""
        match self.mode:
            case "hang":
                connection.wait_for_end()
            case "plain":
                connection.socket.recv(65_536)
                connection.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            case "close":
                connection.socket.recv(65_536)
            case "reset":
                connection.socket.recv(65_536)
                connection.reset()
            case _:
                connection.wrap(_server_context(self.mode))
                return True
        return False


@contextmanager
def setup(mode: Mode) -> Iterator[Setup]:
    """Give the setup; its file of authorities is there until the block ends."""
    with _authority("trusted").cert_pem.tempfile() as ca_file:
        yield Setup(mode, ca_file)

"""A small HTTP/2 server: one status for each request, in turn, over TLS on loopback."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import jh2.config
import jh2.connection
import jh2.events

from tests.integration.wire_tls import _authority

if TYPE_CHECKING:
    from collections.abc import Iterator


class Server:
    """What `serve` gives: its address, what its clients may trust, and the streams it has answered."""

    def __init__(self, statuses: tuple[int, ...], ca_file: str) -> None:
        self.ca_file = ca_file
        self.streams: list[int] = []
        self.connections = 0
        self._statuses = statuses
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _authority("trusted").issue_cert("127.0.0.1").configure_cert(self._context)
        self._context.set_alpn_protocols(["h2"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; a connection ends when its client leaves, or after some seconds."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.settimeout(5)
            with suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as tls:
                self.connections += 1
                self._speak(tls)

    def _speak(self, tls: ssl.SSLSocket) -> None:
        config = jh2.config.H2Configuration(client_side=False)
        connection = jh2.connection.H2Connection(config)
        connection.initiate_connection()
        tls.sendall(connection.data_to_send())
        while received := tls.recv(65_536):
            for event in connection.receive_data(received):
                if isinstance(event, jh2.events.StreamEnded):
                    status = self._statuses[min(len(self.streams), len(self._statuses) - 1)]
                    self.streams.append(event.stream_id)
                    body = f"answer {len(self.streams)}".encode()
                    fields = [
                        (b":status", str(status).encode()),
                        (b"content-length", str(len(body)).encode()),
                    ]
                    connection.send_headers(event.stream_id, fields)
                    connection.send_data(event.stream_id, body, end_stream=True)
            tls.sendall(connection.data_to_send())


@contextmanager
def serve(*statuses: int) -> Iterator[Server]:
    """Answer with these statuses until the block ends; the last one stays."""
    with _authority("trusted").cert_pem.tempfile() as ca_file:
        server = Server(statuses, ca_file)
        try:
            yield server
        finally:
            server.close()

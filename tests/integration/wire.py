"""An HTTP/1.1 server on the loopback interface that misbehaves as scripted.

    with wire.serve(wire.answer(503, {"Retry-After": "7"}), wire.reset(), wire.answer(body=b"ok")) as server:
        client.get(server.url)

Each step plays one request, in the order in which requests arrive; the last step repeats. Every connection has a
thread; when the block ends, all threads and sockets end with it. What a function given to `call` raises comes out
there. Safe from several client threads and tasks at once.
"""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from tests.integration import wire_tls
from tests.integration.wire_asgi import asgi
from tests.integration.wire_connection import Connection, Gone, Request
from tests.integration.wire_steps import (
    Exchange,
    Step,
    answer,
    bad_gzip,
    call,
    close,
    close_idle,
    cut_chunked,
    cut_headers,
    early,
    garbage,
    hang,
    hang_in_body,
    redirect,
    reset,
    reset_in_body,
    short_body,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

__all__ = [
    "Request",
    "Server",
    "Step",
    "answer",
    "asgi",
    "bad_gzip",
    "call",
    "close",
    "close_idle",
    "cut_chunked",
    "cut_headers",
    "early",
    "garbage",
    "hang",
    "hang_in_body",
    "redirect",
    "refused",
    "reset",
    "reset_in_body",
    "serve",
    "short_body",
    "silent",
]

HOST = "127.0.0.1"
MOST_CONNECTIONS = 1_000
PATIENCE = 10  # seconds
END_WITHIN = 5  # seconds; it takes milliseconds


class Server:
    """What `serve` gives: where it listens, and what it has seen."""

    def __init__(self, steps: tuple[Step, ...], tls: wire_tls.Setup | None) -> None:
        self._steps = steps or (answer(),)
        self._tls = tls
        self._lock = threading.Condition()
        self._taken = 0
        self._requests: list[Request] = []
        self._open: set[Connection] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._errors: list[Exception] = []
        self._listener = socket.create_server((HOST, 0), backlog=256)
        self.host, self.port = HOST, int(self._listener.getsockname()[1])
        self.connections = 0
        """How many were accepted. The `connection` of a request counts from 1."""
        self.ended = 0
        """How many of these were closed by the server."""
        self._acceptor = threading.Thread(target=self._accept, name="wire")
        self._acceptor.start()

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """Those read so far, in the order in which they were complete."""
        with self._lock:
            return list(self._requests)

    def wait_for(self, *, requests: int = 0, connections: int = 0, ended: int = 0) -> None:
        """Wait until this many requests were read, connections accepted, connections ended."""

        def is_so() -> bool:
            return len(self._requests) >= requests and self.connections >= connections and self.ended >= ended

        with self._lock:
            assert self._lock.wait_for(is_so, PATIENCE), (
                f"after {PATIENCE} s {len(self._requests)} requests, {self.connections} connections, "
                f"{self.ended} of them ended"
            )

    @property
    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts this server's authority (not the one of `tls="untrusted"`)."""
        assert self._tls is not None, "not a TLS server"
        return self._tls.client_context()

    @property
    def ca_file(self) -> str:
        """The same as a file, for requests. Gone when the block ends."""
        assert self._tls is not None, "not a TLS server"
        return self._tls.ca_file

    def close(self) -> None:
        """End all threads and sockets. Once is enough, and again does no harm."""
        with self._lock:
            self._closing = True
            for connection in self._open:
                connection.interrupt()
        with suppress(OSError), socket.create_connection((self.host, self.port), timeout=1):
            pass  # wakes the acceptor, on every platform
        self._acceptor.join(END_WITHIN)
        self._listener.close()
        for thread in (self._acceptor, *self._threads):
            thread.join(END_WITHIN)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def raise_errors(self) -> None:
        """Raise the first exception out of a function given to `call`."""
        if self._errors:
            raise self._errors[0]

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._closing or self.connections >= MOST_CONNECTIONS:
                    raw.close()
                    return
                self.connections += 1
                number = self.connections
                connection = Connection(raw)
                self._open.add(connection)
                self._lock.notify_all()
            thread = threading.Thread(target=self._serve, args=(connection, number), name=f"wire {number}")
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: Connection, number: int) -> None:
        try:
            if self._tls is None or self._tls.greet(connection):
                while self._play(connection, number):
                    pass
        except (OSError, Gone):
            pass  # clients leave when they like
        except Exception as error:  # noqa: BLE001 - it comes out where the block ends
            self._errors.append(error)
        finally:
            connection.close()
            with self._lock:
                self._open.discard(connection)
                self.ended += 1
                self._lock.notify_all()

    def _play(self, connection: Connection, number: int) -> bool:
        head = connection.read_head()
        if head is None:
            return False
        with self._lock:
            step = self._steps[min(self._taken, len(self._steps) - 1)]
            self._taken += 1
        body = connection.read_body(head) if step.reads_body else b""
        request = Request(head.method, head.target, head.headers, head.raw, body, number)
        with self._lock:
            self._requests.append(request)
            self._lock.notify_all()
        return step.play(Exchange(connection, request, keeps=head.keeps))


@contextmanager
def serve(*steps: Step, tls: wire_tls.Mode | None = None) -> Iterator[Server]:
    """Serve `steps` until the block ends; without any, every answer is an empty 200.

    `tls`: "good", or a certificate that is "wrong_host", "expired" or "untrusted"; or no TLS at all: "plain" (a
    port that speaks plain HTTP), "hang", "close" and "reset" (in the handshake).
    """
    with ExitStack() as stack:
        setup = None if tls is None else stack.enter_context(wire_tls.setup(tls))
        server = Server(steps, setup)
        try:
            yield server
        finally:
            server.close()
        server.raise_errors()


@contextmanager
def refused() -> Iterator[int]:
    """Give a port that refuses: bound, so that nobody else takes it, and not listening."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        yield bound.getsockname()[1]


@contextmanager
def silent() -> Iterator[int]:
    """Give a port that answers no connection attempt: its queue is full (Linux; others may refuse)."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        yield address[1]

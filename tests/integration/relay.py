"""A relay on the loopback interface that cuts the connection in the middle of an exchange."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["cut_at"]

PATIENCE = 10


@contextmanager
def cut_at(host: str, port: int, words: bytes, *, reset: bool = False) -> Iterator[int]:
    """Relay connections to `host` and `port` until a client says `words`; give the port to connect to.

    What holds the words is passed on; then both sides are closed, with a reset of the client's if asked for. So the
    server has the request, and its answer never arrives.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = _Relay((host, port), words, reset=reset)
        relay.begin(relay.accept, listener)
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes accept
            relay.end()


class _Relay:
    def __init__(self, target: tuple[str, int], words: bytes, *, reset: bool) -> None:
        self.target, self.words, self.reset = target, words, reset
        self.ends: list[socket.socket] = []
        self.threads: list[threading.Thread] = []

    def begin(self, work: Callable[..., None], *args: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=args))
        self.threads[-1].start()

    def end(self) -> None:
        self.threads[0].join(PATIENCE)  # nothing is accepted from here on
        for side in self.ends:
            _shut(side)
        for thread in self.threads:
            thread.join(PATIENCE)
        for side in self.ends:
            side.close()

    def accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self.target, timeout=PATIENCE)
                for side in (client, server):
                    side.settimeout(PATIENCE)
                    self.ends.append(side)
                self.begin(self.ask, client, server)
                self.begin(self.answer, client, server)

    def ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                server.sendall(data)
                if self.words in data:
                    break
        if self.reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        _shut(client)
        _shut(server)

    def answer(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)
        _shut(client)
        _shut(server)


def _shut(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)

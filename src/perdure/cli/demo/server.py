"""The server of the demo, run as a process of its own: it follows the script and keeps a ledger.

It speaks one JSON object per line with its parent: settings in, ports out, `start` in, and after
`stop` (or when its input closes, so that it never outlives the parent) the ledger out. Each arm has
a port of its own on 127.0.0.1; when the port is closed a connection is refused by the system, as it
is when a real server is down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import sys
import threading
from typing import TYPE_CHECKING, Final

from perdure.cli.demo.script import Answer, Script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_HOST: Final = "127.0.0.1"
_REASONS: Final = {
    200: "OK",
    404: "Not Found",
    422: "Unprocessable Content",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
# An abort with this option sends RST: the peer sees a reset, not the end of a stream.
_RESET: Final = struct.pack("ii", 1, 0)


class ScriptedServer:
    """One listener for each arm, all opened, hung and closed by the same script.

    Lives in one event loop and is not for use from other threads.
    """

    def __init__(self, script: Script, arms: list[str]) -> None:
        """Reserve a port for each arm; nothing listens yet."""
        self.script = script
        self.ledger: dict[str, list[tuple[int, int, float, int]]] = {arm: [] for arm in arms}
        self._reserved = {arm: _reserve() for arm in arms}
        self._listeners: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._started = 0.0

    @property
    def ports(self) -> dict[str, int]:
        """The port of each arm; it stays the same through every outage."""
        return {arm: port for arm, (port, _) in self._reserved.items()}

    async def listen(self) -> None:
        """Open the port of each arm."""
        for arm, port in self.ports.items():
            self._listeners.append(await asyncio.start_server(self._handler(arm), sock=await _bind(port)))

    async def follow_script(self) -> None:
        """Take the present moment for second 0, then close and open the ports when it is time."""
        loop = asyncio.get_running_loop()
        self._started = loop.time()
        for begin, end in self.script.downs:
            await asyncio.sleep(self._started + begin - loop.time())
            self._go_down()
            await asyncio.sleep(self._started + end - loop.time())
            await self.listen()

    def _go_down(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for writer in tuple(self._open):
            _cut(writer)

    def _handler(self, arm: str) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            try:
                await self._serve(arm, reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # the client went away, or the script cut the line
            finally:
                self._open.discard(writer)
                writer.close()

        return handle

    async def _serve(self, arm: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call, attempt = _identity(await reader.readuntil(b"\r\n\r\n"))
        now = asyncio.get_running_loop().time() - self._started
        answer = self.script.answer(call, attempt, now)
        self.ledger[arm].append((call, attempt, now, 0 if answer is None else answer.status))
        if answer is None:
            await reader.read()  # hangs until the client leaves or the script drops the connection
            return
        await asyncio.sleep(answer.delay)
        if answer.reset:
            _cut(writer)
        else:
            writer.write(_response(answer))
            await writer.drain()


def _identity(head: bytes) -> tuple[int, int]:
    """Read `GET /items/17?attempt=2` as (17, 2)."""
    path, _, query = head.split(b" ", 2)[1].decode("ascii").partition("?")
    return int(path.rpartition("/")[2]), int(query.rpartition("=")[2])


def _response(answer: Answer) -> bytes:
    body = json.dumps({"status": answer.status}).encode()
    hint = "" if answer.retry_after is None else f"Retry-After: {answer.retry_after}\r\n"
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{hint}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _cut(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def _reserve() -> tuple[int, socket.socket]:
    """Pick a free port and, where the system allows it, hold it while nothing listens there.

    Without the hold the system may give the port of a closed listener to somebody else, even to the
    very client that connects to it, which then talks to itself. Only Linux both lets a second socket
    bind the port and refuses connections to one that is bound and not listening.
    """
    sock = _bound(0)
    port: int = sock.getsockname()[1]
    if sys.platform != "linux":
        sock.close()
    return port, sock


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there the option lets two servers share one port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((_HOST, port))
    except OSError:
        sock.close()
        raise
    return sock


async def _bind(port: int) -> socket.socket:
    while True:
        try:
            return _bound(port)
        except OSError:  # only where the port could not be held: wait until it is free again
            await asyncio.sleep(0.01)


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _commands() -> Iterator[str]:
    for line in sys.stdin:
        yield line.strip()
    yield "parent gone"


async def _run(script: Script, arms: list[str]) -> None:
    loop = asyncio.get_running_loop()
    commands: asyncio.Queue[str] = asyncio.Queue()

    def listen_to_parent() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody listens any more
            for command in _commands():
                loop.call_soon_threadsafe(commands.put_nowait, command)

    server = ScriptedServer(script, arms)
    await server.listen()
    _say({"ports": server.ports})
    threading.Thread(target=listen_to_parent, daemon=True).start()
    following: asyncio.Task[None] | None = None
    while (command := await commands.get()) == "start":
        following = asyncio.create_task(server.follow_script())
        _say({"started": True})
    if following is not None and not following.cancel():
        following.result()  # a script that broke must not pass for one that ran
    if command == "stop":
        _say({"ledger": server.ledger})


def main() -> None:
    """Serve until told to stop. Ctrl-C goes to the whole group, so the parent alone decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    asyncio.run(_run(Script.build(settings["seed"], settings["seconds"]), settings["arms"]))

"""The server of the demo, run as a process of its own: it follows the script and keeps a ledger.

It speaks one JSON object per line with its parent: settings in, ports out, `start` in, and after
`stop` (or when its input closes, so that it never outlives the parent) the ledger out. Each arm has
a port of its own on 127.0.0.1; when the port is closed a connection is refused by the system, as it
is when a real server is down. The overload scene has a server of its own, which speaks the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

from perdure.cli.demo.script import Script
from perdure.cli.demo.wire import bind_again, cut, read_request, reserve, response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server(Protocol):
    """What this process runs: one of the two servers."""

    @property
    def ports(self) -> dict[str, int]:
        """The port of each arm."""
        ...

    @property
    def ledger(self) -> dict[str, list[tuple[int, int, float, int]]]:
        """For each arm every request read: call, attempt, second and status."""
        ...

    async def listen(self) -> None:
        """Open the ports."""

    async def follow_script(self) -> None:
        """Take the present moment for second 0, and do what is due when it is due."""


class ScriptedServer:
    """One listener for each arm, all opened, hung and closed by the same script.

    Lives in one event loop and is not for use from other threads.
    """

    def __init__(self, script: Script, arms: Sequence[str]) -> None:
        """Reserve a port for each arm; nothing listens yet."""
        self.script = script
        self.ledger: dict[str, list[tuple[int, int, float, int]]] = {arm: [] for arm in arms}
        self._reserved = {arm: reserve() for arm in arms}
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
            listener = await asyncio.start_server(self._handler(arm), sock=await bind_again(port))
            self._listeners.append(listener)

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
            cut(writer)

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
        call, attempt = await read_request(reader)
        now = asyncio.get_running_loop().time() - self._started
        answer = self.script.answer(call, attempt, now)
        self.ledger[arm].append((call, attempt, now, 0 if answer is None else answer.status))
        if answer is None:
            await reader.read()  # hangs until the client leaves or the script drops the connection
            return
        await asyncio.sleep(answer.delay)
        if answer.reset:
            cut(writer)
        else:
            writer.write(response(answer.status, answer.retry_after))
            await writer.drain()


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _commands() -> Iterator[str]:
    for line in sys.stdin:
        yield line.strip()
    yield "parent gone"


async def _run(server: Server) -> None:
    loop = asyncio.get_running_loop()
    commands: asyncio.Queue[str] = asyncio.Queue()

    def listen_to_parent() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody listens any more
            for command in _commands():
                loop.call_soon_threadsafe(commands.put_nowait, command)

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


def _server_of(scene: str, values: dict[str, Any], arms: list[str]) -> Server:
    if scene == "overload":
        from perdure.cli.demo.overload.plan import Plan
        from perdure.cli.demo.overload.server import CrowdedServer

        return CrowdedServer(Plan(**values), arms)
    return ScriptedServer(Script.build(**values), arms)


def main() -> None:
    """Serve until told to stop. Ctrl-C goes to the whole group, so the parent alone decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    asyncio.run(_run(_server_of(settings["scene"], settings["values"], settings["arms"])))

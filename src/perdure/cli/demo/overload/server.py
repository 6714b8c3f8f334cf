"""The server of the overload scene: few workers, a queue without a bound, and work nobody waits for.

Each arm has a port, workers and a queue of its own, so that no arm suffers from what another does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from perdure.cli.demo.overload.plan import Workers
from perdure.cli.demo.wire import bound, read_request, response

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from perdure.cli.demo.overload.plan import Plan
    from perdure.cli.demo.server import Handler

# The queue is the server's own: with a short one of the system, connections would be lost instead.
_BACKLOG: Final = 1024


class CrowdedServer:
    """One server for each arm. Lives in one event loop and is not for use from other threads."""

    def __init__(self, plan: Plan, arms: Sequence[str]) -> None:
        """Take a port for each arm; nothing listens yet."""
        self._sockets: dict[str, socket.socket] = {arm: bound(0) for arm in arms}
        self._workers = {arm: Workers(plan) for arm in arms}
        self._read: dict[str, list[tuple[int, int, float]]] = {arm: [] for arm in arms}
        self._done: dict[str, set[tuple[int, int]]] = {arm: set() for arm in arms}
        self._listeners: list[asyncio.Server] = []
        self._started = 0.0

    @property
    def ports(self) -> dict[str, int]:
        """The port of each arm."""
        return {arm: sock.getsockname()[1] for arm, sock in self._sockets.items()}

    @property
    def ledger(self) -> dict[str, list[tuple[int, int, float, int]]]:
        """For each arm every request read; status 0 where the work is not done yet."""
        return {
            arm: [
                (call, attempt, at, 200 if (call, attempt) in self._done[arm] else 0)
                for call, attempt, at in read
            ]
            for arm, read in self._read.items()
        }

    async def listen(self) -> None:
        """Open the port of each arm."""
        for arm, sock in self._sockets.items():
            listener = await asyncio.start_server(self._handler(arm), sock=sock, backlog=_BACKLOG)
            self._listeners.append(listener)

    async def follow_script(self) -> None:
        """Take the present moment for second 0; the workers know the rest."""
        self._started = asyncio.get_running_loop().time()

    def _handler(self, arm: str) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._serve(arm, reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # the client went away
            finally:
                writer.close()

        return handle

    async def _serve(self, arm: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        call, attempt = await read_request(reader)
        now = loop.time() - self._started
        done = self._started + self._workers[arm].take(call, attempt, now)
        self._read[arm].append((call, attempt, now))
        # A timer of its own: the work is done even if the client leaves and the connection is closed.
        loop.call_at(done, self._done[arm].add, (call, attempt))
        try:
            async with asyncio.timeout_at(done):
                await reader.read()  # ends when the client leaves
        except TimeoutError:
            writer.write(response(200))
            await writer.drain()

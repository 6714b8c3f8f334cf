"""WebSocket closes over real connections on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from perdure.faults import Fault, FaultKind, classify

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytest.importorskip("websockets.asyncio.client")
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import WebSocketException

T, R, A = FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS
P, N = FaultKind.PERMANENT, FaultKind.NEUTRAL


async def failure(handler: Callable[[Any], Awaitable[object]], **options: Any) -> Exception:
    """What a client that waits for a message fails with."""
    async with serve(handler, "127.0.0.1", 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(WebSocketException) as caught:
            async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as client:
                await client.recv()
    return caught.value


@pytest.mark.parametrize(
    ("code", "kind"),
    [(1000, N), (1001, T), (1002, P), (1008, P), (1009, P), (1011, A), (1012, T), (1013, R), (4001, P)],
)
def test_a_server_that_closes_with_a_code(code: int, kind: FaultKind) -> None:
    async def close(connection: Any) -> None:
        await connection.close(code, "reason")

    fault = classify(asyncio.run(failure(close)))
    assert fault.kind is kind
    assert f"({code})" in fault.why


def test_a_server_that_is_cut_off() -> None:
    async def abort(connection: Any) -> None:
        connection.transport.abort()

    assert classify(asyncio.run(failure(abort))) == Fault(A, None, "connection cut without a close (1006)")


def test_a_server_that_refuses_the_handshake() -> None:
    def busy(connection: Any, request: Any) -> Any:
        response = connection.respond(503, "busy")
        response.headers["Retry-After"] = "7"
        return response

    async def never(connection: Any) -> None:
        raise AssertionError

    error = asyncio.run(failure(never, process_request=busy))
    assert classify(error) == Fault(R, 7.0, "HTTP 503 Service Unavailable")


async def refused(port: int, **options: Any) -> Exception:
    with pytest.raises((OSError, WebSocketException)) as caught:
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None, **options):
            pass
    return caught.value


def test_nobody_a_silent_peer_and_one_that_hangs_up() -> None:
    with socket.socket() as bound:  # bound but not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        assert classify(asyncio.run(refused(bound.getsockname()[1]))) == Fault(T, None, "connection refused")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = asyncio.run(refused(silent.getsockname()[1], open_timeout=0.05))
    assert classify(error) == Fault(T, None, "opening handshake timed out")

    async def hang_up() -> Exception:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            return await refused(server.sockets[0].getsockname()[1])

    assert classify(asyncio.run(hang_up())).kind is T

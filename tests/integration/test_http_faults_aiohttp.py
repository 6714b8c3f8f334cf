"""What only aiohttp raises, provoked; the rest is in test_http_faults.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from perdure.faults import Fault, FaultKind, chain, classify
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

A, P, R = FaultKind.AMBIGUOUS, FaultKind.PERMANENT, FaultKind.THROTTLED


def failed(use: Callable[[aiohttp.ClientSession], Awaitable[Any]], **options: Any) -> Exception:
    async def main() -> None:
        async with aiohttp.ClientSession(**options) as session:
            await use(session)

    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what the test is about
        asyncio.run(main())
    return caught.value


def test_a_handshake_of_a_websocket_goes_by_the_status() -> None:
    busy = wire.answer(503, {"Retry-After": "7"})
    with wire.serve(busy, wire.answer(200)) as server:
        errors = [failed(lambda session: session.ws_connect(server.url)) for _ in range(2)]
    assert {type(error) for error in errors} == {aiohttp.WSServerHandshakeError}
    assert classify(errors[0]) == Fault(R, 7.0, "HTTP 503 Service Unavailable")
    assert classify(errors[1]) == Fault(P, None, "no WebSocket handshake")


def test_another_content_type_than_json() -> None:
    async def read(session: aiohttp.ClientSession) -> None:
        async with session.get(server.url) as response:
            await response.json()

    with wire.serve(wire.answer(200, {"Content-Type": "text/html"}, "<html>")) as server:
        error = failed(read)
    assert isinstance(error, aiohttp.ContentTypeError)
    assert classify(error).kind is P


def test_a_header_that_is_too_long_stays_too_long() -> None:
    with wire.serve(wire.answer(200, {"X-Long": "x" * 20_000})) as server:
        error = failed(lambda session: session.get(server.url))
    assert isinstance(error, aiohttp.ClientResponseError)
    assert error.status == 400
    assert classify(error) == Fault(P, None, "header line too long")


def test_a_certificate_of_another_fingerprint() -> None:
    async def use(session: aiohttp.ClientSession) -> None:
        try:
            await session.get(server.url, ssl=aiohttp.Fingerprint(b"x" * 32))
        finally:
            # aiohttp does not wait until its TLS connection is closed, and the loop must not end before.
            await asyncio.to_thread(server.wait_for, ended=1)
            for _ in range(5):
                await asyncio.sleep(0)

    with wire.serve(tls="good") as server:
        error = failed(use)
    assert isinstance(error, aiohttp.ServerFingerprintMismatch)
    assert classify(error).kind is P


@pytest.mark.parametrize(
    "timeout",
    [aiohttp.ClientTimeout(total=0.05), aiohttp.ClientTimeout(sock_connect=0.05)],
    ids=["total", "connect"],
)
def test_a_timeout_ends_in_a_cancellation_and_is_none(timeout: aiohttp.ClientTimeout) -> None:
    with wire.silent() as port:
        error = failed(lambda session: session.get(f"http://127.0.0.1:{port}"), timeout=timeout)
    assert any(isinstance(link, asyncio.CancelledError) for link in chain(error))
    assert "timed out" in classify(error).why
    assert classify(error).retryable


def test_a_total_timeout_of_an_answer_is_ambiguous() -> None:
    with wire.serve(wire.hang()) as server:
        error = failed(lambda session: session.get(server.url), timeout=aiohttp.ClientTimeout(total=0.05))
    assert type(error) is TimeoutError
    assert classify(error) == Fault(A, None, "timed out")


def test_a_closed_connector_is_a_mistake_of_ours() -> None:
    async def use(session: aiohttp.ClientSession) -> None:
        assert session.connector is not None
        await session.connector.close()
        await session.get(server.url)

    with wire.serve() as server:
        error = failed(use)
    assert classify(error).kind is P

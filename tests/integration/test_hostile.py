"""What hostile servers, and users in a hurry, do to the HTTP integrations."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests
import urllib3

from perdure import Dependency, Hedge, Retry, content
from perdure.idempotency import ClientStore, Keys
from perdure.integrations import Options
from perdure.integrations.answers import LOOKS
from perdure.integrations.httpx import AsyncTransport
from perdure.integrations.requests import Adapter
from perdure.integrations.urllib3 import PoolManager
from perdure.testing import no_waits
from tests.integration import wire
from tests.integration.clients import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.clients import Client

MANY = 20_000
TOO_LONG = 10  # seconds; it takes less than one


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with no_waits():
        yield


def in_chunks(status: int, chunk: bytes, times: int) -> wire.Step:
    head = b"HTTP/1.1 %d Of Many\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % status
    return wire.garbage(head + (b"%x\r\n%s\r\n" % (len(chunk), chunk)) * times + b"0\r\n\r\n")


@each()
@pytest.mark.timeout(TOO_LONG)
def test_a_failure_in_single_bytes_costs_no_more_than_its_length(client: Client) -> None:
    with wire.serve(in_chunks(503, b"x", MANY), wire.answer(body=b"ok")) as server:
        with client.open(Retry(attempts=2)) as session:
            assert session.send("GET", server.url).body == b"ok"


@each()
@pytest.mark.timeout(TOO_LONG)
def test_a_stream_that_begins_with_comments_is_looked_at_so_often_and_no_more(client: Client) -> None:
    asked = []

    def enough(start: bytes) -> bool:
        asked.append(len(start))
        return content.sse.is_enough(start)

    rule = content.Rule("counted", "start", content.sse, enough)
    with wire.serve(in_chunks(200, b": wait\n\n", MANY // 4)) as server:
        with client.open(Retry(attempts=2), content=rule) as session:
            assert session.send("GET", server.url).body == b": wait\n\n" * (MANY // 4)
    assert len(asked) <= LOOKS


def test_a_bomb_in_a_stream_is_not_unpacked_to_look_at_it() -> None:
    bomb = gzip.compress(gzip.compress(bytes(64 << 20)))
    assert len(bomb) < 1000
    told = wire.answer(503, {"Content-Encoding": "gzip, gzip"}, bomb)
    with wire.serve(told) as server, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", Adapter(Retry(attempts=2)))
        with session.get(server.url, stream=True) as response:
            assert response.raw.read() == bomb
        with PoolManager(Retry(attempts=2)) as manager:
            answer = manager.request("GET", server.url, preload_content=False)
            assert answer.read(decode_content=False) == bomb
    assert len(server.requests) == 4


@pytest.mark.parametrize("options", [{}, {"validate": lambda _: True}], ids=["403", "200"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_stream_that_was_looked_at_has_all_of_its_body(options: Any, *, packed: bool) -> None:
    """However it is read, and without perdure the same."""
    status, said = 200 if options else 403, b"the reason, at length"
    fields = {"Content-Encoding": "gzip"} if packed else {}
    told = wire.answer(status, fields, gzip.compress(said) if packed else said)
    with wire.serve(told) as server:
        for manager in (PoolManager(Retry(), options=Options(**options)), urllib3.PoolManager()):
            with manager:
                got = [manager.request("GET", server.url, preload_content=False) for _ in range(5)]
                assert got[0].read() == b"".join(got[1].stream(4)) == b"".join(got[2].stream(None)) == said
                assert (got[3].data, got[3].data, got[4].read(4)) == (said, said, said[:4])
                for one in got[:4]:
                    assert (one.read(), one.tell()) == (b"", len(told_body(one, said, packed=packed)))
        for adapter in (Adapter(Retry(), **options), requests.adapters.HTTPAdapter()):
            with requests.Session() as session:
                session.trust_env = False
                session.mount("http://", adapter)
                read = [session.get(server.url, stream=True) for _ in range(4)]
                assert read[0].content == b"".join(read[1].iter_content(None)) == said
                assert b"".join(read[2].iter_content(4)) == said
                assert read[3].raw.read(decode_content=True) == said


def told_body(response: Any, said: bytes, *, packed: bool) -> bytes:
    """The body as it came: `tell` counts it so."""
    return bytes(int(response.headers["content-length"])) if packed else said


@each()
def test_a_dependency_that_hedges_sends_what_may_be_sent_once_as_well(client: Client) -> None:
    policy = Dependency("hedged", hedge=Hedge(delay=5), gate=None, replace=True)
    with wire.serve(wire.answer(201)) as server, client.open(policy) as session:
        assert session.send("POST", server.url, b"order").status == 201
        assert session.send("GET", server.url).status == 201
    assert [request.method for request in server.requests] == ["POST", "GET"]


@each(only=lambda client: not client.is_async)
def test_a_call_that_is_given_up_leaves_no_cycles(client: Client) -> None:
    """httpx leaves some of its own: as many as without perdure."""

    def left(policy: Retry) -> int:
        with client.open(policy) as session:
            session.send("GET", server.url)
            gc.collect()
            gc.disable()
            try:
                for _ in range(20):
                    session.send("GET", server.url)
                return gc.collect()
            finally:
                gc.enable()

    with wire.serve(wire.answer(503)) as server:
        given_up, single = left(Retry(attempts=2)), left(Retry(attempts=2, on=ZeroDivisionError))
    assert given_up <= single + 20 * 8  # what one more response of httpx leaves


@pytest.mark.parametrize("status", [201, 503])
def test_a_call_cancelled_while_its_key_is_written_gives_its_connection_back(
    tmp_path: Path, status: int
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(ClientStore):
        def settle(self, *given: Any) -> None:
            begun.set()
            assert go_on.wait(TOO_LONG)
            super().settle(*given)

    async def main() -> None:
        keys = Keys(store=Slow(tmp_path / "keys"))
        inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=1))
        transport = AsyncTransport(Retry(attempts=1), inner, idempotency=keys)
        async with httpx.AsyncClient(transport=transport, timeout=1) as session:
            sending = asyncio.create_task(session.post(server.url, content=b"order"))
            await asyncio.to_thread(begun.wait, TOO_LONG)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            go_on.set()
            assert (await session.get(server.url)).status_code == status

    with wire.serve(wire.answer(status, body=bytes(100_000))) as server:
        asyncio.run(main())

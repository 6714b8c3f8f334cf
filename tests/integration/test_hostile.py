"""What hostile servers, and users in a hurry, do to the HTTP integrations."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import pytest
import requests
import urllib3
from requests.auth import HTTPDigestAuth

from perdure import ConfigError, Dependency, FaultKind, Hedge, Retry, content, retry
from perdure.idempotency import ClientStore, Keys
from perdure.integrations import Options
from perdure.integrations.aiohttp import Middleware
from perdure.integrations.httpx import AsyncTransport, Transport
from perdure.integrations.requests import Adapter
from perdure.integrations.shared.answers import LOOKS
from perdure.integrations.urllib3 import PoolManager
from perdure.testing import no_waits
from tests.integration import wire
from tests.integration.clients import CLIENTS, each

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


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("library", ["requests", "urllib3"])  # httpx makes cycles of its own
def test_a_call_that_is_given_up_leaves_no_cycles(library: str, *, raises: bool) -> None:
    client = next(one for one in CLIENTS if one.name == library)
    with wire.serve(wire.answer(503)) as server:
        with client.open(Retry(attempts=2), raise_on_exhausted=raises) as session:
            error = client.load().exceptions.HTTPError if raises else ZeroDivisionError

            def left() -> int:
                for _ in range(20):
                    with suppress(error):
                        session.send("GET", server.url)
                return gc.collect()

            left()  # what a first call makes, and keeps
            gc.disable()
            try:
                assert left() < 20
            finally:
                gc.enable()


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
        keys = Keys(store=store)
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

    with wire.serve(wire.answer(status, body=bytes(100_000))) as server, Slow(tmp_path / "keys") as store:
        asyncio.run(main())


@pytest.mark.parametrize("raises", [False, True], ids=["raise_for_status()", "raise_for_status=True"])
def test_a_retry_around_an_aiohttp_call_does_not_multiply_with_it(*, raises: bool) -> None:
    """B157. The error of aiohttp has no response by which this could be seen."""

    async def main() -> int:
        middleware = Middleware(Retry(attempts=3))
        async with aiohttp.ClientSession(middlewares=[middleware], raise_for_status=raises) as session:

            @retry(attempts=3)
            async def fetch() -> None:
                async with session.get(server.url) as response:
                    response.raise_for_status()

            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await fetch()
            assert "had already given up on it" in " ".join(caught.value.__notes__)
        return len(server.requests)

    with wire.serve(wire.answer(503)) as server:
        assert asyncio.run(main()) == 3


def test_what_answers_a_challenge_sends_under_the_policy_as_well() -> None:
    """`HTTPDigestAuth` of requests sends through what the first response names as its connection."""
    challenge = wire.answer(401, {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'})
    with wire.serve(challenge, wire.answer(503), wire.answer(body=b"ok")) as server:
        with requests.Session() as session:
            session.trust_env = False
            session.mount("http://", Adapter(Retry()))
            assert session.get(server.url, auth=HTTPDigestAuth("user", "word")).content == b"ok"
    assert len(server.requests) == 3


@each()
@pytest.mark.parametrize("option", ["content", "validate"])
def test_a_function_may_say_the_kind_of_failure_alone(client: Client, option: str) -> None:
    def busy(reply: content.Reply) -> FaultKind | None:
        return FaultKind.THROTTLED if reply.body == b"busy" else None

    with wire.serve(wire.answer(body=b"busy"), wire.answer(body=b"ok")) as server:
        with client.open(Retry(), **{option: busy}, whole=True) as session:
            answer = session.send("GET", server.url)
    assert (answer.body, answer.attempts[0].fault.kind) == (b"ok", FaultKind.THROTTLED)


@pytest.mark.parametrize("option", ["content", "validate", "key"])
def test_a_function_that_nobody_would_await_is_refused(option: str) -> None:
    async def never(_: object) -> bool:
        raise AssertionError

    with pytest.raises(ConfigError, match=f"{option} must be a plain function"):
        Options(**{option: never})  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [5, "retry", [1]])
def test_what_one_request_says_is_a_mapping(given: object) -> None:
    with httpx.Client(transport=Transport(Retry())) as session:
        with pytest.raises(ConfigError, match="must be a mapping"):
            session.get("http://127.0.0.1:1/", extensions={"perdure": given})

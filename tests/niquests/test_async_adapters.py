"""What is particular to niquests in async code: promises, AsyncResponse, bodies iterated asynchronously."""

from __future__ import annotations

import asyncio
import gzip
import io
from typing import TYPE_CHECKING, Any

import niquests
import pytest

import perdure
from perdure import Retry
from perdure.integrations.niquests import async_session
from perdure.testing import no_waits
from tests.integration import wire
from tests.niquests import h2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


def run(use: Callable[[Any], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """Give what `use` makes of an open session."""

    async def main() -> Any:
        async with async_session(Retry(), **options) as client:
            client.trust_env = False
            return await use(client)

    return asyncio.run(main())


def test_a_multiplexed_session_gets_each_answer_in_turn_and_one_warning() -> None:
    async def use(client: Any) -> None:
        client.multiplexed, client.verify = True, server.ca_file
        with pytest.warns(RuntimeWarning, match="multiplexed=True"):
            one = await client.get(server.url)
        two = await client.get(server.url)
        await client.gather()
        await client.gather(one, two)
        assert (one.lazy, one.content, two.lazy, two.content) == (False, b"answer 2", False, b"answer 3")
        assert len(perdure.attempts_of(one)) == 1

    with h2.serve(503, 200) as server:
        run(use)
    assert server.connections == 1


def test_requests_side_by_side() -> None:
    async def use(client: Any) -> list[int]:
        answers = await asyncio.gather(*(client.get(server.url) for _ in range(8)))
        return [answer.status_code for answer in answers]

    with wire.serve(*[wire.answer(503)] * 3, wire.answer(200)) as server:
        assert run(use) == [200] * 8
    assert len(server.requests) == 11


def test_a_session_that_was_closed_and_is_used_again_still_goes_by_the_policy() -> None:
    async def use(client: Any) -> Any:
        await client.get(server.url)
        await client.close()
        return await client.get(server.url)

    with wire.serve(wire.answer(200), wire.answer(503), wire.answer(200)) as server:
        answer = run(use)
    assert (answer.status_code, len(perdure.attempts_of(answer))) == (200, 1)


def test_the_answer_to_a_challenge_goes_by_the_policy() -> None:
    async def use(client: Any) -> Any:
        return await client.get(server.url, auth=niquests.auth.AsyncHTTPDigestAuth("me", "secret"))

    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}
    with wire.serve(wire.answer(401, challenge), wire.answer(503), wire.answer(200)) as server:
        answer = run(use)
    assert (answer.status_code, len(perdure.attempts_of(answer))) == (200, 1)


# Streams

TEXT = b"what is looked at is still there " * 100


async def by_content(answer: Any) -> bytes:
    return await answer.content  # type: ignore[no-any-return] # bytes


async def by_chunks(answer: Any) -> bytes:
    return b"".join([chunk async for chunk in await answer.iter_content(50)])


async def as_they_come(answer: Any) -> bytes:
    return b"".join([chunk async for chunk in answer])


@pytest.mark.parametrize("read", [by_content, by_chunks, as_they_come])
@pytest.mark.parametrize("options", [{}, {"whole": True}, {"validate": lambda _: True}], ids=str)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_stream_begins_at_its_start(read: Any, options: dict[str, Any], *, packed: bool) -> None:
    async def use(client: Any) -> bytes:
        answer = await client.get(server.url, stream=True)
        assert isinstance(answer, niquests.AsyncResponse)
        assert len(perdure.attempts_of(answer)) == 1
        return await read(answer)  # type: ignore[no-any-return] # bytes

    good = wire.answer(
        200, {"Content-Encoding": "gzip"} if packed else {}, gzip.compress(TEXT) if packed else TEXT
    )
    with wire.serve(wire.answer(503, body=b"busy"), good) as server:
        assert run(use, **options) == TEXT


@pytest.mark.parametrize("size", [10, 200_000])
def test_the_last_answer_of_a_stream_can_be_read(size: int) -> None:
    async def use(client: Any) -> bytes:
        return await by_chunks(await client.get(server.url, stream=True))

    with wire.serve(wire.answer(503, body=b"y" * size)) as server:
        assert run(use) == b"y" * size
    assert len(server.requests) == 4


def test_the_error_code_in_a_short_stream_counts() -> None:
    async def use(client: Any) -> bytes:
        return await by_content(await client.get(server.url, stream=True))

    quota = b'{"error": {"code": "insufficient_quota"}}'
    with wire.serve(wire.answer(429, body=quota)) as server:
        assert run(use) == quota
    assert len(server.requests) == 1


def test_a_stream_of_events_is_opened_again_and_not_read_to_its_end() -> None:
    async def use(client: Any) -> str:
        answer = await client.get(f"psse{server.url.removeprefix('http')}")
        event = await answer.extension.next_payload()
        await answer.extension.close()
        return event.data  # type: ignore[no-any-return] # text

    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with wire.serve(wire.answer(503), wire.garbage(head + b"d\r\ndata: hello\n\n\r\n")) as server:
        assert run(use) == "hello"
    assert len(server.requests) == 2


# Bodies


async def chunks() -> AsyncIterator[bytes]:
    yield b"all "
    yield b"of it"


class AsyncFile:
    """A file whose methods are all async, as those of several libraries are."""

    def __init__(self) -> None:
        self._file = io.BytesIO(b"all of it")

    async def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    async def tell(self) -> int:
        return self._file.tell()

    async def seek(self, place: int) -> int:
        return self._file.seek(place)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._file.read()


@pytest.mark.parametrize("body", [chunks, AsyncFile])
def test_what_is_iterated_asynchronously_is_sent_once(body: Any) -> None:
    async def use(client: Any) -> Any:
        return await client.put(server.url, data=body())

    with wire.serve(wire.answer(503), wire.answer(200)) as server:
        assert run(use).status_code == 503
    assert [request.body for request in server.requests] == [b"all of it"]


@pytest.mark.parametrize("body", [chunks, AsyncFile])
def test_it_is_still_there_after_a_refused_connection(body: Any) -> None:
    async def use(client: Any) -> None:
        with pytest.raises(niquests.exceptions.ConnectionError) as caught:
            await client.put(f"http://127.0.0.1:{port}", data=body())
        assert len(perdure.attempts_of(caught.value)) == 4

    with wire.refused() as port:
        run(use)

"""A request that is sent again is the same request, with the whole body, or it is not sent: B109, B110, B113."""

from __future__ import annotations

import io
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from perdure import Retry
from perdure.testing import no_waits
from tests.cases.http_sessions import Ask, clients, dependency, is_async, play
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


PART = b"the part to send"
LENGTH = {"Content-Length": str(len(PART))}  # some clients count a file from its very start
BUSY = wire.answer(429, body=b"busy")
OK = wire.answer(body=b"ok")


class Chunks:
    """Can be iterated over as often as need be."""

    def __iter__(self) -> Iterator[bytes]:
        yield from (PART[:4], PART[4:])


class AsyncChunks:
    """The same for async clients."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in Chunks():
            yield part


def at_part(file: Any) -> Any:
    """Write into a file, and let it stand where the part begins."""
    file.write(b"head|" + PART)
    file.seek(5)
    return file


def opened(path: Path) -> Any:
    path.write_bytes(b"head|" + PART)
    file = path.open("rb")
    file.seek(5)
    return file


def unbuffered(path: Path) -> Any:
    path.write_bytes(b"head|" + PART)
    file = path.open("rb", buffering=0)
    file.seek(5)
    return file


FILES: dict[str, Callable[[Path], Any]] = {
    "bytes in memory": lambda _: at_part(io.BytesIO()),
    "opened rb": opened,
    "unbuffered": unbuffered,
    "temporary": lambda _: at_part(tempfile.TemporaryFile()),  # noqa: SIM115 - the test closes it; and below
    "named temporary": lambda _: at_part(tempfile.NamedTemporaryFile()),  # noqa: SIM115
    "spooled": lambda _: at_part(tempfile.SpooledTemporaryFile(max_size=100)),  # noqa: SIM115
    "spooled to disk": lambda _: at_part(tempfile.SpooledTemporaryFile(max_size=2)),  # noqa: SIM115
}
AS_BYTES = {"bytes": PART, "text": PART.decode(), "list": [PART[:4], PART[4:]], "chunks": Chunks()}
FILE_CLIENTS = ("httpx", "httpx2", "requests", "urllib3", "aiohttp")


@clients(*FILE_CLIENTS)
@pytest.mark.parametrize("make", [Retry, dependency], ids=["retry", "dependency"])
def test_b109_a_file_is_sent_from_where_it_stood(client: str, make: Any, tmp_path: Path) -> None:
    for kind, opening in FILES.items():
        with opening(tmp_path / kind) as file:
            body = (
                file.file if client == "aiohttp" and kind == "named temporary" else file
            )  # it takes no wrapper
            with wire.serve(BUSY, wire.close(), wire.answer(503), OK) as server:
                played = play(client, make(), Ask(server.url, "PUT", body, LENGTH))
        assert played.statuses == [200], kind
        assert [request.body for request in server.requests] == [PART] * 4, kind


@pytest.mark.filterwarnings("ignore:Requests has determined the content-length")
@clients("requests", "urllib3", "aiohttp")
def test_b109_a_text_file(client: str, tmp_path: Path) -> None:
    """Its places are no counts of bytes; they are given back as they were taken."""
    path = tmp_path / "text"
    path.write_bytes(b"head|" + PART)
    with path.open() as file:
        file.read(5)
        with wire.serve(BUSY, BUSY, OK) as server:
            played = play(client, Retry(), Ask(server.url, "PUT", file, LENGTH))
    assert played.statuses == [200]
    assert [request.body for request in server.requests] == [PART] * 3


@clients()
def test_b109_what_can_be_read_again_is(client: str) -> None:
    for kind, given in AS_BYTES.items():
        if kind == "list" and client == "requests":
            continue  # it takes a list for the fields of a form
        body: Any = AsyncChunks() if kind in {"list", "chunks"} and is_async(client) else given
        with wire.serve(BUSY, wire.close(), OK) as server:
            played = play(client, Retry(), Ask(server.url, "PUT", body))
        if kind in {"list", "chunks"} and client == "aiohttp":
            # It begins to iterate before anyone can ask what it iterates over: not sent again, and not cut.
            assert played.statuses == [429]
            assert [request.body for request in server.requests] == [PART]
        else:
            assert played.statuses == [200], kind
            assert [request.body for request in server.requests] == [PART] * 3, kind


def generator() -> Iterator[bytes]:
    yield from Chunks()


async def async_generator() -> AsyncIterator[bytes]:
    for part in Chunks():
        yield part


class Pipe:
    """Can be read once, and says so."""

    def __init__(self) -> None:
        self._file = io.BytesIO(PART)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self.read(4):
            yield chunk


def once(client: str, kind: str) -> Any:
    if is_async(client):
        return async_generator()
    return generator() if kind == "generator" else Pipe()


@clients()
@pytest.mark.parametrize("kind", ["generator", "pipe"])
@pytest.mark.parametrize("make", [Retry, dependency], ids=["retry", "dependency"])
def test_b109_what_can_be_sent_once_is(client: str, kind: str, make: Any) -> None:
    """The original end comes out, with a note where it is an error."""
    with wire.serve(BUSY, wire.close(), OK) as server:
        asks = [Ask(server.url, "PUT", once(client, kind)) for _ in range(2)]
        answered, lost = play(client, make(), *asks).ends
    assert [request.body for request in server.requests] == [PART, PART]
    assert (answered.status, answered.body) == (429, b"busy")
    assert "can be used only once" in " ".join(lost.__notes__)


@clients(*FILE_CLIENTS)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_b110_a_redirect_takes_the_whole_body_or_none(client: str, method: str) -> None:
    """urllib3#5181: an empty body under the same method, and a 200. Only a GET goes without its body."""
    for status in (301, 302, 303, 307, 308):
        if (client, status, method) == ("requests", 301, "PUT"):
            continue  # requests repeats the method without its body by itself
        with wire.serve(BUSY, wire.redirect("/there", status), BUSY, OK) as server:
            played = play(client, dependency(), Ask(server.url, method, at_part(io.BytesIO()), LENGTH))
        assert played.statuses == [200], status
        there = [request.method for request in server.requests if request.target == "/there"]
        assert len(there) == 2
        for request in server.requests:
            assert request.body == (b"" if request.method == "GET" else PART), status
        if status in {303, 307, 308}:
            assert set(there) == {"GET" if status == 303 else method}


@clients()
@pytest.mark.parametrize("status", [307, 308])
def test_b110_a_redirect_of_what_was_sent_already_is_an_error(client: str, status: int) -> None:
    with wire.serve(wire.redirect("/there", status), OK) as server:
        played = play(client, dependency(), Ask(server.url, "PUT", once(client, "generator")))
    assert isinstance(played.ends[0], Exception)
    assert [request.body for request in server.requests if request.target == "/there"] in ([], [PART])


@clients()
def test_b110_a_303_goes_without_what_was_sent_already(client: str) -> None:
    with wire.serve(wire.redirect("/there", 303), BUSY, OK) as server:
        played = play(client, dependency(), Ask(server.url, "POST", once(client, "generator")))
    assert played.statuses == [200]
    assert [(request.method, request.body) for request in server.requests] == [
        ("POST", PART),
        ("GET", b""),
        ("GET", b""),
    ]


@clients()
def test_b113_what_a_user_gave_is_left_as_it_was(client: str) -> None:
    headers, body = {"X-One": "1", "Content-Type": "application/json"}, b'{"a": 1}'
    with wire.serve(BUSY, wire.close(), OK) as server:
        played = play(client, Retry(), *[Ask(server.url, "PUT", body, headers)] * 2, announce=True)
    assert played.statuses == [200, 200]
    assert headers == {"X-One": "1", "Content-Type": "application/json"}
    assert {request.body for request in server.requests} == {body}
    said = [
        sorted((name.lower(), value) for name, value in request.raw if name.lower() != "x-attempt")
        for request in server.requests
    ]
    assert said[1:] == said[:-1]
    assert [request.headers["x-attempt"] for request in server.requests] == ["1", "2", "3", "1"]

"""What answers the requests of rows 10: transports of httpx without a network, as a server would answer."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

URL = "https://api.example.com/orders/17"
OK = (200,)
FAILS_TWICE = (503, 503, 200)
DOWN = (503,)

_FIELDS = [
    (b"Date", b"Mon, 30 Nov 2026 12:00:00 GMT"),
    (b"Server", b"nginx"),
    (b"Content-Type", b"application/json"),
    (b"Content-Length", b"26"),
    (b"Connection", b"keep-alive"),
]
_BODY = b'{"message": "as expected"}'


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body as it comes from a connection: it has to be read, and let go."""

    def __iter__(self) -> Iterator[bytes]:
        yield _BODY

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield _BODY


def request() -> httpx.Request:
    """A request as a client makes it."""
    return httpx.Client().build_request("GET", URL)


def Prepared() -> httpx.MockTransport:  # noqa: N802 - it makes one, as Server does
    """A mock transport that gives one response, made beforehand: what is left is what a wrapper costs."""
    response = httpx.Response(200, headers=_FIELDS, stream=Body())
    return httpx.MockTransport(lambda _: response)


class Server(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Gives a new response to each request, with these statuses in turn, for ever."""

    def __init__(self, statuses: Iterable[int]) -> None:
        self._statuses = cycle(statuses)
        self.served = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.answer(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.answer(request)

    def answer(self, _: Any) -> httpx.Response:
        self.served += 1
        return httpx.Response(next(self._statuses), headers=_FIELDS, stream=Body())


def mock(statuses: Iterable[int]) -> httpx.MockTransport:
    """The stand-in of httpx itself for a transport, which gives a new response each time."""
    return httpx.MockTransport(Server(statuses).answer)

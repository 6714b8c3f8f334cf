"""The async transport for httpx and httpx2, under asyncio and trio; see ``transports``."""

from __future__ import annotations

from perdure.errors import FaultyResponse
from perdure.integrations.shared import streams
from perdure.integrations.shared.transports import (
    EXTENSION,
    PARSED,
    WHOLE,
    Common,
    check_wrap,
    ends,
    overrides,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from perdure.integrations.shared.answers import Judge
    from perdure.integrations.shared.exchange import Exchange
    from perdure.integrations.shared.options import Options

__all__ = ["AsyncBase"]


class AsyncBase(Common):
    """The async transport; see ``perdure.integrations.httpx.AsyncTransport``."""

    def __init__(self, library: ModuleType, policy: Any, wrap: Any, options: Options) -> None:
        check_wrap(wrap, library.AsyncBaseTransport)
        self._wrapped = wrap
        inner, looks, reads = wrap.handle_async_request, options.looks, options.whole

        async def quick(request: Any, fields: list[Any] | None = None) -> Any:
            if fields is not None and request.headers._list != fields:
                request.headers._list[:] = fields
            response = await inner(request)
            if reads or WHOLE in request.extensions:
                await self._read(response)
            if response.status_code < 400 and not looks:
                return response
            return await self._judged(request, response, self._lines.judge)

        async def full(_request: Any, exchange: Exchange, _once: Any) -> Any:
            request = self._begin(exchange)
            response = await inner(request)
            if reads or WHOLE in request.extensions:
                await self._read(response)
            return await self._judged(request, response, exchange.judge())

        self._prepare(library, policy, options, quick, full)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        url = request.url
        place = getattr(url, PARSED, url)
        quick = self._quick.get((request.method, place.host, place.port))
        if quick is None or self._seen is not self._guard.settings:
            quick = self._learn(request)
        # Anything special takes an exchange. Written out: a call would cost as much as all the rest.
        if (
            quick is None
            or type(request.stream) is not self._bytes
            or EXTENSION in request.extensions
            or overrides() is not None
            or ends() is not None
        ):
            return await self._handle(request)
        try:
            return await (quick(request) if self._is_own else quick(request, request.headers._list.copy()))
        except FaultyResponse as faulty:
            failed = faulty
        return self._ended(failed, request, self._lines.options)

    async def _handle(self, request: Any) -> Any:
        exchange = self._exchange(request)
        keys = exchange.options.idempotency
        if keys is not None:
            self._claimed(exchange, await keys.aclaim(**self._asked(exchange)))
        if exchange.source.once is not None:
            request.stream = streams.aonce(self._httpx.AsyncByteStream, request.stream, exchange.source)
        return await exchange.aconclude(
            lambda: self._send(exchange), lambda faulty: self._ended(faulty, request, exchange.options)
        )

    async def _judged(self, request: Any, response: Any, judge: Judge) -> Any:
        status, response.request = response.status_code, request
        scope = judge.scope(status, request.method)
        if scope is None and status not in judge.watched:
            return response
        body, complete = b"", True
        try:
            if scope is not None:
                body, complete = await self._peek(response, self._lines.options.peek, judge, scope)
            fault = judge.fault(status, response.headers, request.method, body, complete=complete)
        except BaseException:  # a cancellation, or out of a user's function
            await response.aclose()
            raise
        if fault is None:
            return response
        raise self._faulty(response, fault, is_async=True)

    async def _peek(self, response: Any, limit: int, judge: Judge, scope: str) -> tuple[bytes, bool]:
        """A copy of the body as far as the limit; the response keeps all of it."""
        stream: Any = response.stream
        if streams.is_long(response, limit):
            return b"", False
        if (raw := streams.bytes_of(stream, self._bytes)) is not None:
            return streams.copy_of(raw, response, limit), len(raw) <= limit
        seen, chunks = streams.Seen(limit, judge, scope, response), aiter(stream)
        try:
            while seen.wants_more:
                seen.add(await anext(chunks))
        except StopAsyncIteration:
            await stream.aclose()
            response.stream = self._bytes(b"".join(seen.parts))
            return seen.body, seen.size <= limit
        except Exception as error:  # noqa: BLE001 - whoever reads the response will meet it
            seen.broken = error
        response.stream = streams.achained(self._httpx.AsyncByteStream, seen, chunks, stream)
        return seen.body, False

    async def _read(self, response: Any) -> None:
        """Have the body inside the attempt, so that one which is cut short is a failure of the attempt."""
        stream: Any = response.stream
        if type(stream) is not self._bytes:
            try:
                raw = b"".join([part async for part in stream])
            finally:
                await stream.aclose()
            response.stream = self._bytes(raw)

    async def aclose(self) -> None:
        """Close the transport that is wrapped."""
        await self._wrapped.aclose()

"""The async adapter for niquests; see ``perdure.integrations.shared.adapters``, which has the sync one."""

from __future__ import annotations

from perdure.colour import is_awaitable
from perdure.engine import responses
from perdure.errors import FaultyResponse
from perdure.integrations.shared.adapters import Common, is_read, is_short, is_upgraded, start_of_body
from perdure.integrations.shared.answers import Scope, is_cut
from perdure.integrations.shared.lines import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from perdure.integrations.shared.exchange import Exchange
    from perdure.integrations.shared.options import Options

__all__ = ["AsyncBase"]


class AsyncBase(Common):
    """The async adapter; see ``perdure.integrations.niquests.AsyncAdapter``."""

    def __init__(self, library: ModuleType, policy: Any, wrap: Any, options: Options) -> None:
        super().__init__()
        self._library = library
        self._wrapped = wrap

        async def full(_request: Any, exchange: Exchange, _once: Any) -> Any:
            return await self._attempt(exchange)

        self._lines = Lines(policy, options, full, full, library.Response)
        responses.KINDS[library.AsyncResponse] = (None, _close)

    async def send(self, request: Any, stream: Any = None, timeout: Any = None, **settings: Any) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        exchange = self._exchange(request, stream, timeout, settings)
        keys = exchange.options.idempotency
        if keys is not None:
            self._claimed(exchange, await keys.aclaim(**self._asked(exchange)))
        return await exchange.aconclude(
            lambda: self._send(exchange), lambda faulty: self._ended(faulty, request, exchange.options)
        )

    async def close(self) -> None:
        """Close the adapter that is wrapped."""
        await self._wrapped.close()

    async def _attempt(self, exchange: Exchange) -> Any:
        sending, request = self._begin(exchange), exchange.request
        response = await self._wrapped.send(request, **sending)
        response.connection = self  # by which what answers a challenge sends again
        if is_cut(getattr(response.raw, "_original_response", None)):
            await _close(response)
            raise self._cut(request)
        is_stream = sending["stream"]
        if (not is_stream or exchange.options.whole) and not is_upgraded(response):
            await _read(response)
        try:
            return await self._judged(exchange, response)
        finally:
            if is_stream and is_read(response):
                _put_back(response)

    async def _judged(self, exchange: Exchange, response: Any) -> Any:
        judge, status = exchange.judge(), response.status_code
        scope = judge.scope(status, exchange.request.method)
        if (scope is None and status not in judge.watched) or is_upgraded(response):
            return response
        fault = self._fault(exchange, response, await self._peek(response, exchange.options.peek, scope))
        if fault is None:
            return response

        async def close() -> None:
            await _close(response)

        aclose = None if is_read(response) else close
        raise FaultyResponse(fault.why, response, status=status, fault=fault, aclose=aclose)

    async def _peek(self, response: Any, limit: int, scope: str | None) -> tuple[bytes, bool]:
        """The start of a body. Of a stream: only one that is short, as all of it has to be read."""
        if scope is None:
            return b"", True
        if not is_read(response):
            if scope == Scope.START or not is_short(response, limit):
                return b"", False
            await _read(response)
        return start_of_body(response, limit)


async def _read(response: Any) -> None:
    content = response.content
    if is_awaitable(content):
        await content


def _put_back(response: Any) -> None:
    """Let a stream begin at its start again: niquests does not iterate over what it has read."""
    content, buffer = response._content, getattr(response.raw, "_decoded_buffer", None)
    if buffer is not None:
        if content:
            buffer.put(content)
        response._content, response._content_consumed = False, False


async def _close(response: Any) -> None:
    closing = response.close()
    if is_awaitable(closing):
        await closing

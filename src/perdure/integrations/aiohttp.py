"""perdure for aiohttp: a client middleware, and sessions that have it.

async with perdure.integrations.aiohttp.session(payments) as session:
response = await session.get("https://api.example.com/orders/17")
"""

from __future__ import annotations

import asyncio
from copy import copy
from functools import cache
from weakref import WeakKeyDictionary

import aiohttp

from perdure.colour import OneShot
from perdure.engine import responses
from perdure.errors import FaultyResponse
from perdure.integrations.shared.answers import LOOKS, Scope
from perdure.integrations.shared.bodies import PLAIN, Source
from perdure.integrations.shared.exchange import Exchange, ended, origin_of
from perdure.integrations.shared.lines import Lines
from perdure.integrations.shared.options import OVERRIDE, Options, check_arguments, check_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Unpack

    from perdure.dependency import Dependency, View
    from perdure.integrations.shared.answers import Judge
    from perdure.integrations.shared.options import Given
    from perdure.policies import Retry

    Handler = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]

__all__ = ["Middleware", "session"]


class Middleware:
    """Sends each request under a policy: ``aiohttp.ClientSession(middlewares=[Middleware(payments)])``.

    ``policy`` is a Dependency, a view of one, or a Retry; the rest are the fields of
    ``perdure.integrations.Options``. Requests in a ``perdure.integrations.override`` block are treated otherwise.
    Attempts are bounded by ``connect`` + ``read`` of the dependency's
    timeouts, as aiohttp takes no timeouts for one attempt. It should be the first of several middlewares.

    Raises ConfigError for values that cannot work. Task safe: one serves any number of sessions and loops.
    """

    def __init__(self, policy: Dependency | View | Retry, **options: Unpack[Given]) -> None:
        async def full(_request: Any, exchange: Exchange, _once: Any) -> Any:
            return await self._attempt(exchange)

        self._lines = Lines(policy, Options.of(options), full, full, aiohttp.ClientResponse)
        # What the call that a task makes came to so far: a redirect, or aiohttp's own repetition, comes here again.
        self._calls: WeakKeyDictionary[Any, _Call] = WeakKeyDictionary()
        responses.KINDS[aiohttp.ClientResponse] = (aiohttp.ClientResponse.close, None)

    async def __call__(self, request: aiohttp.ClientRequest, handler: Handler) -> aiohttp.ClientResponse:
        """Send a request under the policy; the last response where attempts are used up."""
        before = self._call_of(request)
        if before.error is not None:
            raise before.error  # aiohttp would send an idempotent request once more after a lost connection
        exchange = Exchange(self._lines, request, _source(request), OVERRIDE.get())
        exchange.before = (handler, request.headers.copy())
        await self._claim(exchange, before)
        url = request.url
        origin = origin_of(url.scheme, url.host or "", url.port)
        safety = exchange.safety(request.method, request.headers.__contains__)
        try:
            return await exchange.aconclude(  # type: ignore[no-any-return] # what the handler gave
                lambda: self._lines.send(exchange, request.method, origin, safety),
                lambda faulty: _ended(faulty, exchange.options),
            )
        except Exception as error:  # of whatever kind: the policy has had its say on this call
            before.error = error
            raise

    def _call_of(self, request: Any) -> _Call:
        task, mark = asyncio.current_task(), getattr(request, "_traces", None)
        call = self._calls.get(task)
        if call is None or mark is None or call.mark is not mark:
            call = _Call(mark)
            if task is not None:
                self._calls[task] = call
        return call

    async def _claim(self, exchange: Exchange, before: _Call) -> None:
        """Give an unsafe request its key, the same one after a redirect."""
        keys, request = exchange.options.idempotency, exchange.request
        if keys is None:
            return
        if before.claim is None:
            body = getattr(request.body, "_value", request.body)
            before.claim = await keys.aclaim(
                method=request.method,
                url=str(request.url),
                headers=request.headers,
                body=body if isinstance(body, bytes) else None,
                **exchange.keyed,
            )
        exchange.claim = claim = before.claim
        if claim is not None:
            request.headers.update(claim.headers)
            if claim.body is not None and not before.is_rewritten:
                before.is_rewritten = True
                await request.update_body(claim.body)
            exchange.before = (exchange.before[0], request.headers.copy())

    async def _attempt(self, exchange: Exchange) -> Any:
        exchange.begin_attempt()
        request, (handler, headers) = exchange.request, exchange.before
        if exchange.number > 1:
            # A copy: nothing an attempt did to it is in the next one, and hedges run side by side.
            request = copy(request)
            request.headers = headers.copy()
            vars(request)["_ClientRequest__writer"] = None
        if exchange.options.adds:
            request.headers.update(exchange.added())
        try:
            response = await handler(request)
            if exchange.options.whole:
                await response.read()
        finally:
            once = exchange.source.once
            if once is not None:
                once.is_begun = bool(request.body) and request.body.consumed
        return await self._judged(exchange, response)

    async def _judged(self, exchange: Exchange, response: Any) -> Any:
        judge, status, method = exchange.judge(), response.status, exchange.request.method
        scope = judge.scope(status, method)
        if scope is None and status not in judge.watched:
            return response
        try:
            body, complete = await _peek(response, exchange.options.peek, judge, scope)
            fault = judge.fault(status, response.headers, method, body, complete=complete)
        except BaseException:  # a cancellation, or out of a user's function
            response.close()
            raise
        if fault is None:
            return response
        raise FaultyResponse(fault.why, response, status=status, fault=fault, close=response.close)


class _Call:
    """What is remembered of one call of a session; ``mark`` is the list that it makes for itself."""

    __slots__ = ("claim", "error", "is_rewritten", "mark")

    def __init__(self, mark: object) -> None:
        self.mark = mark
        self.claim: Any = None
        self.error: Exception | None = None
        self.is_rewritten = False


def session(
    policy: Dependency | View | Retry, *, options: Options | None = None, **arguments: Any
) -> aiohttp.ClientSession:
    """A session that sends everything under the policy; ``arguments`` are those of ``aiohttp.ClientSession``.

    Its middlewares are the policy's and then the given ones. The caller's to close; of one loop, as sessions are.
    """
    given = check_options(options).given()
    check_arguments(arguments)
    own = arguments.pop("middlewares", ())
    return aiohttp.ClientSession(middlewares=(Middleware(policy, **given), *own), **arguments)


def _source(request: Any) -> Source:
    """How the body can be sent again: aiohttp's payloads put themselves back, or say that they cannot."""
    body = request.body
    if not hasattr(body, "consumed") or isinstance(body, aiohttp.BytesPayload):
        return PLAIN
    return Source(once=OneShot())


async def _peek(response: Any, limit: int, judge: Judge, scope: str | None) -> tuple[bytes, bool]:
    """A copy of the body as far as the limit; the response keeps all of it."""
    if scope is None:
        return b"", True
    if response._body is not None:
        return response._body[:limit], len(response._body) <= limit
    stream, parts, size = response.content, list[bytes](), 0
    try:
        while size <= limit and not stream.at_eof():
            parts.append(await stream.readany())
            size += len(parts[-1])
            if scope == Scope.START and (len(parts) > LOOKS or judge.is_enough(b"".join(parts))):
                break
    except Exception:  # noqa: BLE001, S110 - whoever reads the response will meet it
        pass
    body = b"".join(parts)
    _put_back(stream, body)
    return body[:limit], size <= limit and response.content.is_eof()


def _put_back(stream: Any, data: bytes) -> None:
    """What StreamReader.unread_data did, which aiohttp gives up without giving anything in its place."""
    if data:
        stream._size += len(data)
        stream._cursor -= len(data)
        stream._buffer.appendleft(data)


@cache
def _given_up(kind: type[aiohttp.ClientResponse]) -> type[aiohttp.ClientResponse]:
    """The class of responses of calls that were given up: a retry around the call has to see that they were."""

    class GivenUp(kind):  # type: ignore[valid-type, misc] # the session's own class
        def raise_for_status(self) -> None:
            try:
                super().raise_for_status()
            except aiohttp.ClientResponseError as error:
                vars(error)["response"] = self  # as the errors of other clients have it
                raise

    GivenUp.__name__, GivenUp.__qualname__ = kind.__name__, kind.__qualname__
    GivenUp.__module__, GivenUp.__doc__ = kind.__module__, kind.__doc__
    responses.KINDS[GivenUp] = responses.KINDS[aiohttp.ClientResponse]
    return GivenUp


def _ended(faulty: FaultyResponse, options: Options) -> Any:
    response = ended(faulty, options, _error)
    if isinstance(response, aiohttp.ClientResponse):
        kind: Any = type(response)  # mypy takes its hash for that of a response
        response.__class__ = _given_up(kind)
    return response


def _error(faulty: FaultyResponse) -> Exception:
    response: aiohttp.ClientResponse = faulty.response
    response.close()
    return aiohttp.ClientResponseError(
        response.request_info,
        response.history,
        status=response.status,
        message=str(faulty),
        headers=response.headers,
    )

"""Transports for httpx and httpx2, which differ in name only: what both have in common, sync and async.

A request that asks for nothing special goes to the inner transport through a decorated function, and that is all.
Whatever else there is (time to hand over, a file as its body, a key, an override) makes an exchange of it.
"""

from __future__ import annotations

from perdure.checks import refuse
from perdure.engine import responses
from perdure.engine.ambient import ENDS
from perdure.errors import FaultyResponse
from perdure.faults import Safety
from perdure.faults.safety import REPLAYABLE
from perdure.integrations.shared import streams
from perdure.integrations.shared.exchange import Exchange, ended, origin_of, shortest
from perdure.integrations.shared.lines import KEPT, Lines
from perdure.integrations.shared.options import OVERRIDE, Override
from perdure.policies import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType
    from typing import Any

    from perdure.faults import Fault
    from perdure.integrations.shared.answers import Judge
    from perdure.integrations.shared.options import Options

__all__ = [
    "EXTENSION",
    "PARSED",
    "WHOLE",
    "Base",
    "Common",
    "check_wrap",
    "ends",
    "guard",
    "overrides",
    "timed",
]

EXTENSION = "perdure"
"""The request's extension that says how it is treated: ``client.get(url, extensions={"perdure": {...}})``."""

WHOLE = "perdure.whole"
"""The extension by which a client says that it will read the body whole."""

PARSED = "_uri_reference"
"""Where a URL keeps its parts: to read them there costs half of what its properties take."""

_TIMEOUTS = ("connect", "read", "write", "pool")
overrides, ends = OVERRIDE.get, ENDS.get


class Common:
    """What the sync and the async transport share."""

    _httpx: ModuleType
    _lines: Lines
    _guard: Any
    _seen: Any
    _wrapped: Any
    _is_own: bool
    _renews: bool
    _quick: dict[tuple[str, str, int | None], Callable[..., Any]]
    _bytes: type

    def _prepare(
        self,
        library: ModuleType,
        policy: Any,
        options: Options,
        quick: Callable[..., Any],
        full: Callable[..., Any],
    ) -> None:
        self._httpx = library
        self._bytes = library.ByteStream
        self._lines = Lines(policy, options, quick, full, library.Response)
        # Another's transport may change the headers, and each attempt begins with them as they were.
        self._is_own = type(self._wrapped).__module__.partition(".")[0] == library.__name__
        self._renews = hasattr(library.Headers(), "_list")
        self._guard = self._lines.guard or _NoGuard
        # The lines of requests that asked for nothing special, while the dependency has the values it had then.
        self._seen, self._quick = self._guard.settings, {}
        responses.KINDS[library.Response] = (_close, _aclose)

    def _learn(self, request: Any) -> Callable[..., Any] | None:
        """The line of a request that asks for nothing special, kept for the next; None: it needs an exchange."""
        lines, options, method = self._lines, self._lines.options, request.method
        if self._seen is not self._guard.settings:
            self._seen, self._quick = self._guard.settings, {}
        if (
            not (self._is_own or self._renews)
            or self._guard.fallback is not None
            or lines.is_timed
            or options.adds
            or options.idempotency is not None
            or method not in REPLAYABLE
        ):
            return None
        if callable(options.key) or (self._lines.guard is not None and self._guard.key_of is not None):
            return None
        url = request.url
        origin = origin_of(url.scheme, url.host, url.port)
        line = lines.line(method, lines.key(request, origin), origin, Safety.SAFE)
        if len(self._quick) >= KEPT:
            self._quick.clear()
        place = getattr(url, PARSED, url)
        self._quick[method, place.host, place.port] = line.quick
        return line.quick

    def _exchange(self, request: Any) -> Exchange:
        given, override = request.extensions.get(EXTENSION), OVERRIDE.get()
        if given is not None:
            override = Override.of(given).over(override)
        source = streams.source(request.stream, self._bytes)
        if source.is_spent:
            raise self._httpx.StreamConsumed
        source.rewind()  # a redirect sends it again
        exchange = Exchange(self._lines, request, source, override)
        exchange.before = (request.headers.raw, request.extensions.get("timeout") or {})
        return exchange

    def _claimed(self, exchange: Exchange, claim: Any) -> None:
        """Put the key on the request itself: the client copies its headers when it follows a redirect."""
        exchange.claim = claim
        if claim is None:
            return
        request = exchange.request
        if claim.body is not None and claim.body != self._body(request):
            request.stream = self._bytes(claim.body)
            request.headers["content-length"] = str(len(claim.body))
        request.headers.update(claim.headers)
        exchange.before = (request.headers.raw, exchange.before[1])

    def _body(self, request: Any) -> bytes | None:
        return streams.bytes_of(request.stream, self._bytes)

    def _asked(self, exchange: Exchange) -> dict[str, Any]:
        """What is asked of ``Keys.claim``."""
        request = exchange.request
        return {
            "method": request.method,
            "url": str(request.url),
            "headers": request.headers,
            "body": self._body(request),
            **exchange.keyed,
        }

    def _send(self, exchange: Exchange) -> Any:
        """Give an exchange to its line; the response, or what is to be awaited for it."""
        request, lines = exchange.request, self._lines
        url = request.url
        origin = origin_of(url.scheme, url.host, url.port)
        safety = exchange.safety(request.method, request.headers.__contains__)
        return lines.send(exchange, request.method, origin, safety)

    def _begin(self, exchange: Exchange) -> Any:
        """The request as an attempt sends it: with its own times, and without what an earlier attempt did to it."""
        exchange.begin_attempt()
        request, (headers, own) = exchange.request, exchange.before
        if exchange.number > 1:
            request.headers = self._httpx.Headers(headers)
        connect, read, left = exchange.bounds()
        if left is not None or exchange.timeouts is not None:
            bounds = {"connect": connect, "read": read, "write": left, "pool": left}
            timeout = {name: shortest(own.get(name), bounds[name]) for name in _TIMEOUTS}
            request.extensions = {**request.extensions, "timeout": timeout}
        if exchange.options.adds:
            request.headers.update(exchange.added())
        return request

    def _faulty(self, response: Any, fault: Fault, *, is_async: bool) -> FaultyResponse:
        is_free = type(response.stream) is self._bytes
        return FaultyResponse(
            fault.why,
            response,
            status=response.status_code,
            fault=fault,
            close=None if is_free or is_async else response.close,
            aclose=response.aclose if is_async and not is_free else None,
        )

    def _ended(self, faulty: FaultyResponse, request: Any, options: Options) -> Any:
        made = self._httpx.HTTPStatusError
        return ended(faulty, options, lambda said: made(str(said), request=request, response=said.response))


class _NoGuard:
    """Stands for the guard of a Retry, which has none."""

    settings = key_of = fallback = None


class Base(Common):
    """The sync transport; see ``perdure.integrations.httpx.Transport``."""

    def __init__(self, library: ModuleType, policy: Any, wrap: Any, options: Options) -> None:
        check_wrap(wrap, library.BaseTransport)
        self._wrapped = wrap
        inner, looks, reads = wrap.handle_request, options.looks, options.whole

        def quick(request: Any, fields: list[Any] | None = None) -> Any:
            if fields is not None and request.headers._list != fields:
                request.headers._list[:] = fields
            response = inner(request)
            if reads or WHOLE in request.extensions:
                self._read(response)
            if response.status_code < 400 and not looks:
                return response
            return self._judged(request, response, self._lines.judge)

        def full(_request: Any, exchange: Exchange, _once: Any) -> Any:
            request = self._begin(exchange)
            response = inner(request)
            if reads or WHOLE in request.extensions:
                self._read(response)
            return self._judged(request, response, exchange.judge())

        self._prepare(library, policy, options, quick, full)

    def handle_request(self, request: Any) -> Any:
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
            return self._handle(request)
        try:
            return quick(request) if self._is_own else quick(request, request.headers._list.copy())
        except FaultyResponse as faulty:
            failed = faulty
        return self._ended(failed, request, self._lines.options)

    def _handle(self, request: Any) -> Any:
        exchange = self._exchange(request)
        keys = exchange.options.idempotency
        if keys is not None:
            self._claimed(exchange, keys.claim(**self._asked(exchange)))
        if exchange.source.once is not None:
            request.stream = streams.once(self._httpx.SyncByteStream, request.stream, exchange.source)
        return exchange.conclude(
            lambda: self._send(exchange), lambda faulty: self._ended(faulty, request, exchange.options)
        )

    def _judged(self, request: Any, response: Any, judge: Judge) -> Any:
        status, response.request = response.status_code, request
        scope = judge.scope(status, request.method)
        if scope is None and status not in judge.watched:
            return response
        body, complete = b"", True
        try:
            if scope is not None:
                body, complete = self._peek(response, self._lines.options.peek, judge, scope)
            fault = judge.fault(status, response.headers, request.method, body, complete=complete)
        except BaseException:  # out of a user's function
            response.close()
            raise
        if fault is None:
            return response
        raise self._faulty(response, fault, is_async=False)

    def _peek(self, response: Any, limit: int, judge: Judge, scope: str) -> tuple[bytes, bool]:
        """A copy of the body as far as the limit; the response keeps all of it."""
        stream: Any = response.stream
        if streams.is_long(response, limit):
            return b"", False
        if (raw := streams.bytes_of(stream, self._bytes)) is not None:
            return streams.copy_of(raw, response, limit), len(raw) <= limit
        seen, chunks = streams.Seen(limit, judge, scope, response), iter(stream)
        try:
            while seen.wants_more:
                seen.add(next(chunks))
        except StopIteration:
            stream.close()
            response.stream = self._bytes(b"".join(seen.parts))
            return seen.body, seen.size <= limit
        except Exception as error:  # noqa: BLE001 - whoever reads the response will meet it
            seen.broken = error
        response.stream = streams.chained(self._httpx.SyncByteStream, seen, chunks, stream)
        return seen.body, False

    def _read(self, response: Any) -> None:
        """Have the body inside the attempt, so that one which is cut short is a failure of the attempt."""
        stream: Any = response.stream
        if type(stream) is not self._bytes:
            try:
                raw = b"".join(stream)
            finally:
                stream.close()
            response.stream = self._bytes(raw)

    def close(self) -> None:
        """Close the transport that is wrapped."""
        self._wrapped.close()


def check_wrap(wrap: Any, kind: type) -> None:
    """A ConfigError for what cannot send, such as the transport of the other colour."""
    if not isinstance(wrap, kind):
        raise refuse("wrap", f"must be a {kind.__module__.partition('.')[0]}.{kind.__name__}", wrap)


def guard(client: Any, transport: Callable[[Any], Any]) -> Any:
    """Put a guarded transport around each transport of a client, those for proxies included."""
    client._transport = transport(client._transport)
    client._mounts = {
        pattern: None if inner is None else transport(inner) for pattern, inner in client._mounts.items()
    }
    return client


def timed(policy: Any, timeout: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a client, with the timeouts of its dependency where the user gave none."""
    timeouts = None if isinstance(policy, Retry) or not hasattr(policy, "_guard") else policy._guard.timeouts
    if timeouts is None or "timeout" in arguments:
        return arguments
    read = timeouts.read
    return {
        **arguments,
        "timeout": timeout(connect=timeouts.connect, read=read, write=read, pool=timeouts.connect),
    }


def _close(response: Any) -> None:
    response.close()


def _aclose(response: Any) -> Awaitable[None]:
    return response.aclose()  # type: ignore[no-any-return] # a coroutine

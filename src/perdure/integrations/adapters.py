"""The adapter for requests and niquests, which differ in name only."""

from __future__ import annotations

from urllib.parse import urlsplit

from perdure.engine import responses
from perdure.errors import FaultyResponse
from perdure.integrations.answers import Scope, is_cut
from perdure.integrations.bodies import PLAIN, once_of, source_of
from perdure.integrations.exchange import Exchange, keep_trail, origin_of, shortest
from perdure.integrations.lines import Lines
from perdure.integrations.options import OVERRIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from perdure.integrations.bodies import Source
    from perdure.integrations.options import Options

__all__ = ["Base"]


class Base:
    """Sends what a session gives it through another adapter; see ``perdure.integrations.requests.Adapter``."""

    def __init__(self, library: ModuleType, policy: Any, wrap: Any, options: Options) -> None:
        super().__init__()
        self._library = library
        self._wrapped = wrap

        def full(exchange: Exchange, _: Any = None) -> Any:
            return self._attempt(exchange)

        self._lines = Lines(policy, options, full, full)
        responses.KINDS[library.Response] = (_close, None)

    def send(self, request: Any, stream: Any = None, timeout: Any = None, **settings: Any) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        source = self._source(request)
        exchange = Exchange(self._lines, request, source, OVERRIDE.get())
        exchange.before = (dict(request.headers), _pair(timeout), bool(stream), settings)
        self._claim(exchange)
        address = urlsplit(str(request.url))
        origin = origin_of(address.scheme, address.hostname or "", address.port)
        safety = exchange.safety(request.method, request.headers.__contains__)
        try:
            response = self._lines.send(exchange, request.method, origin, safety)
        except FaultyResponse as faulty:
            failed = faulty
        except BaseException as error:
            exchange.failed(error)
            raise
        else:
            exchange.settle(response.status_code, response.headers)
            return response
        exchange.settle(failed.status, failed.response.headers)
        return self._ended(failed, request, exchange.options)

    def close(self) -> None:
        """Close the adapter that is wrapped."""
        self._wrapped.close()

    def _source(self, request: Any) -> Source:
        body = request.body
        if body is None or isinstance(body, (bytes, str)):
            return PLAIN
        source = source_of(body)
        if source.is_spent:
            raise self._library.exceptions.UnrewindableBodyError(
                "the body was sent already, and cannot be sent again"
            )
        if source.once is not None:
            request.body = once_of(body, source)
        return source

    def _claim(self, exchange: Exchange) -> None:
        """Give an unsafe request its key; the session copies its headers when it follows a redirect."""
        keys, request = exchange.options.idempotency, exchange.request
        if keys is None:
            return
        body = request.body.encode() if isinstance(request.body, str) else request.body
        exchange.claim = claim = keys.claim(
            method=request.method,
            url=request.url,
            headers=request.headers,
            body=body if isinstance(body, bytes) else None,
            **exchange.keyed,
        )
        if claim is not None:
            request.headers.update(claim.headers)
            if claim.body is not None and claim.body != body:
                request.prepare_body(claim.body, None)
            exchange.before = (dict(request.headers), *exchange.before[1:])

    def _attempt(self, exchange: Exchange) -> Any:
        exchange.begin_attempt()
        request, (headers, own, stream, settings) = exchange.request, exchange.before
        if exchange.number > 1:
            request.headers.clear()
            request.headers.update(headers)
        if exchange.options.announce:
            request.headers.update(exchange.announced())
        connect, read, _ = exchange.bounds()
        timeout = (shortest(own[0], connect), shortest(own[1], read))
        response = self._wrapped.send(request, stream=stream, timeout=timeout, **settings)
        if is_cut(getattr(response.raw, "_original_response", None)):
            response.close()
            raise self._library.exceptions.ConnectionError(
                "the response ended inside its headers", request=request
            )
        if not stream or exchange.options.whole:
            response.content  # noqa: B018 - reads it, so that one which is cut short is a failure of the attempt
        return self._judged(exchange, response)

    def _judged(self, exchange: Exchange, response: Any) -> Any:
        judge, status, method = exchange.judge(), response.status_code, exchange.request.method
        scope = judge.scope(status, method)
        if scope is None and status not in judge.watched:
            return response
        body, complete = self._peek(response, exchange.options.peek, scope)
        fault = judge.fault(status, response.headers, method, body, complete=complete)
        if fault is None:
            return response
        is_free = response._content is not False
        raise FaultyResponse(
            fault.why, response, status=status, fault=fault, close=None if is_free else response.close
        )

    def _peek(self, response: Any, limit: int, scope: str | None) -> tuple[bytes, bool]:
        """The start of a body. Of a stream: only one that is short, as what was read cannot be put back."""
        if scope is None:
            return b"", True
        if response._content is False:
            length = response.headers.get("content-length", "")
            if scope == Scope.START or not (length.isascii() and length.isdigit() and int(length) <= limit):
                return b"", False
            response.content  # noqa: B018 - reads it
        content = response.content or b""
        return content[:limit], len(content) <= limit

    def _ended(self, faulty: FaultyResponse, request: Any, options: Options) -> Any:
        response = keep_trail(faulty)
        if not options.raise_on_exhausted:
            return response
        if faulty.status is None or faulty.status < 400:
            raise faulty
        error = self._library.exceptions.HTTPError(str(faulty), request=request, response=response)
        error.__dict__.update(faulty.__dict__)  # the record of its attempts
        raise error from None


def _pair(timeout: Any) -> tuple[float | None, float | None]:
    """A timeout of requests as seconds for connecting and reading."""
    if timeout is None:
        return None, None
    if isinstance(timeout, tuple):
        return timeout if len(timeout) == 2 else (timeout[0], timeout[-1])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # as the user gave it
    if isinstance(timeout, (int, float)):
        return timeout, timeout
    return timeout.connect_timeout, timeout.read_timeout  # urllib3's own


def _close(response: Any) -> None:
    response.close()

"""The adapter for requests and niquests, which differ in little; for async code see ``aadapters``."""

from __future__ import annotations

from urllib.parse import urlsplit

from perdure.checks import refuse
from perdure.engine import responses
from perdure.errors import FaultyResponse
from perdure.integrations.shared.again import can_put_back, look
from perdure.integrations.shared.answers import Scope, is_cut, length_of
from perdure.integrations.shared.bodies import PLAIN, once_of, source_of
from perdure.integrations.shared.exchange import Exchange, ended, origin_of, shortest
from perdure.integrations.shared.lines import Lines
from perdure.integrations.shared.options import OVERRIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from perdure.faults import Fault
    from perdure.integrations.shared.bodies import Source
    from perdure.integrations.shared.options import Options

__all__ = ["Base", "Common"]


class Common:
    """What the adapters have in common, sync or async."""

    _library: Any  # the client's module
    _wrapped: Any
    _lines: Lines

    def _exchange(self, request: Any, stream: Any, timeout: Any, settings: dict[str, Any]) -> Exchange:
        exchange = Exchange(self._lines, request, self._source(request), OVERRIDE.get())
        exchange.before = (dict(request.headers), _limits(timeout), bool(stream), settings)
        return exchange

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

    def _asked(self, exchange: Exchange) -> dict[str, Any]:
        """What an idempotency key is made from."""
        request, body = exchange.request, _bytes_of(exchange.request)
        return {
            "method": request.method,
            "url": request.url,
            "headers": request.headers,
            "body": body if isinstance(body, bytes) else None,
            **exchange.keyed,
        }

    def _claimed(self, exchange: Exchange, claim: Any) -> None:
        """Give an unsafe request its key; the session copies its headers when it follows a redirect."""
        request, exchange.claim = exchange.request, claim
        if claim is not None:
            request.headers.update(claim.headers)
            if claim.body is not None and claim.body != _bytes_of(request):
                request.prepare_body(claim.body, None)
            exchange.before = (dict(request.headers), *exchange.before[1:])

    def _send(self, exchange: Exchange) -> Any:
        """Send one request; the response, or what is to be awaited for it."""
        request = exchange.request
        address = urlsplit(str(request.url))
        origin = origin_of(address.scheme, address.hostname or "", address.port)
        safety = exchange.safety(request.method, request.headers.__contains__)
        return self._lines.send(exchange, request.method, origin, safety)

    def _begin(self, exchange: Exchange) -> dict[str, Any]:
        """Make an attempt's request; the arguments that send it."""
        exchange.begin_attempt()
        request, (headers, own, stream, settings) = exchange.request, exchange.before
        if exchange.number > 1:
            request.headers.clear()
            request.headers.update(headers)
        if exchange.options.adds:
            request.headers.update(exchange.added())
        connect, read, left = exchange.bounds()
        timeout: Any = (shortest(own[0], connect), shortest(own[1], read))
        if own[2] is not None:
            kind = self._library.adapters.TimeoutSauce
            timeout = kind(connect=timeout[0], read=timeout[1], total=shortest(own[2], left))
        return {"stream": stream, "timeout": timeout, **settings}

    def _cut(self, request: Any) -> Exception:
        error: Exception = self._library.exceptions.ConnectionError(
            "the response ended inside its headers", request=request
        )
        return error

    def _fault(self, exchange: Exchange, response: Any, body: tuple[bytes, bool]) -> Fault | None:
        seen, complete = body
        method = exchange.request.method
        return exchange.judge().fault(response.status_code, response.headers, method, seen, complete=complete)

    def _ended(self, faulty: FaultyResponse, request: Any, options: Options) -> Any:
        made = self._library.exceptions.HTTPError
        return ended(faulty, options, lambda said: made(str(said), request=request, response=said.response))


class Base(Common):
    """Sends what a session gives it through another adapter; see ``perdure.integrations.requests.Adapter``."""

    def __init__(self, library: ModuleType, policy: Any, wrap: Any, options: Options) -> None:
        super().__init__()
        if not isinstance(wrap, library.adapters.BaseAdapter):
            raise refuse("wrap", f"must be a {library.__name__}.adapters.BaseAdapter", wrap)
        self._library = library
        self._wrapped = wrap

        def full(_request: Any, exchange: Exchange, _once: Any) -> Any:
            return self._attempt(exchange)

        self._lines = Lines(policy, options, full, full, library.Response)
        responses.KINDS[library.Response] = (_close, None)

    def send(self, request: Any, stream: Any = None, timeout: Any = None, **settings: Any) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        exchange = self._exchange(request, stream, timeout, settings)
        keys = exchange.options.idempotency
        if keys is not None:
            self._claimed(exchange, keys.claim(**self._asked(exchange)))
        return exchange.conclude(
            lambda: self._send(exchange), lambda faulty: self._ended(faulty, request, exchange.options)
        )

    def close(self) -> None:
        """Close the adapter that is wrapped."""
        self._wrapped.close()

    def _attempt(self, exchange: Exchange) -> Any:
        sending, request = self._begin(exchange), exchange.request
        response = self._wrapped.send(request, **sending)
        response.connection = self  # by which what answers a challenge, such as HTTPDigestAuth, sends again
        if is_cut(getattr(response.raw, "_original_response", None)):
            response.close()
            raise self._cut(request)
        if (not sending["stream"] or exchange.options.whole) and not is_upgraded(response):
            response.content  # noqa: B018 - reads it, so that one which is cut short is a failure of the attempt
        return self._judged(exchange, response)

    def _judged(self, exchange: Exchange, response: Any) -> Any:
        judge, status = exchange.judge(), response.status_code
        scope = judge.scope(status, exchange.request.method)
        if (scope is None and status not in judge.watched) or is_upgraded(response):
            return response
        try:
            fault = self._fault(exchange, response, self._peek(response, exchange.options.peek, scope))
        except BaseException:  # out of a user's function
            response.close()
            raise
        if fault is None:
            return response
        close = None if is_read(response) else response.close
        raise FaultyResponse(fault.why, response, status=status, fault=fault, close=close)

    def _peek(self, response: Any, limit: int, scope: str | None) -> tuple[bytes, bool]:
        """The start of a body. Of a stream: only one that is short, as it has to be put back."""
        if scope is None:
            return b"", True
        if not is_read(response):
            if scope == Scope.START or not is_short(response, limit):
                return b"", False
            if can_put_back(response.raw):
                return look(response.raw, limit), True
            response.content  # noqa: B018 - reads it
        return start_of_body(response, limit)


def is_upgraded(response: Any) -> bool:
    """Whether the answer became something else, such as a WebSocket, which has no body and no end."""
    return getattr(response, "extension", None) is not None


def is_read(response: Any) -> bool:
    """Whether the client has the body."""
    return response._content is not False


def is_short(response: Any, limit: int) -> bool:
    """Whether the answer says that its body has no more bytes than may be looked at."""
    length = length_of(response.headers.get("content-length"))
    return length is not None and length <= limit


def start_of_body(response: Any, limit: int) -> tuple[bytes, bool]:
    """The start of a body that was read, and whether it is all of it."""
    content = response._content or b""
    return content[:limit], len(content) <= limit


def _bytes_of(request: Any) -> Any:
    body = request.body
    return body.encode() if isinstance(body, str) else body


def _limits(timeout: Any) -> tuple[Any, Any, Any]:
    """A timeout as seconds for connecting, for reading, and for both together; None: no bound."""
    if timeout is None:
        return None, None, None
    if isinstance(timeout, tuple):
        connect, read, total = (*timeout, None, None, None)[:3]  # pyright: ignore[reportUnknownVariableType] # as given
        return connect, read, total  # pyright: ignore[reportUnknownVariableType]
    if isinstance(timeout, (int, float)):
        return timeout, timeout, None
    own = (
        timeout._connect,
        timeout._read,
        timeout.total,
    )  # urllib3's own: where one is not set stands a mark
    connect, read, total = (bound if isinstance(bound, (int, float)) else None for bound in own)
    return connect, read, total


def _close(response: Any) -> None:
    response.close()

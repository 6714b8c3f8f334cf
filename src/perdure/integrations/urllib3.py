"""perdure for urllib3: a pool manager whose requests go under a policy.

http = perdure.integrations.urllib3.PoolManager(payments)
http.request("GET", "https://api.example.com/orders/17")
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import urllib3
from urllib3.exceptions import ProtocolError, ResponseError, UnrewindableBodyError
from urllib3.util import Timeout
from urllib3.util.request import set_file_position

from perdure.checks import refuse
from perdure.engine import responses
from perdure.errors import FaultyResponse
from perdure.integrations.shared.again import can_put_back, look
from perdure.integrations.shared.answers import Scope, is_cut, length_of
from perdure.integrations.shared.bodies import Source, once_of, source_of
from perdure.integrations.shared.exchange import Exchange, ended, origin_of, shortest
from perdure.integrations.shared.lines import Lines
from perdure.integrations.shared.options import OVERRIDE, Options, check_arguments, check_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, Unpack

    from perdure.dependency import Dependency, View
    from perdure.integrations.shared.options import Given
    from perdure.policies import Retry

    M = TypeVar("M", bound=urllib3.PoolManager)

__all__ = ["PoolManager", "guard"]


class PoolManager(urllib3.PoolManager):
    """A ``urllib3.PoolManager`` that sends everything under a policy; urllib3 itself does not retry then.

    ``policy`` is a Dependency, a view of one, or a Retry; ``options`` are those of the integration; the rest are
    the arguments of ``urllib3.PoolManager``. Of ``retries=``, only what it says about redirects counts. Requests in
    a ``perdure.integrations.override`` block are treated otherwise. Thread safe.

    Raises ConfigError for values that cannot work.
    """

    def __init__(
        self, policy: Dependency | View | Retry, *, options: Options | None = None, **arguments: Any
    ) -> None:
        check_arguments(arguments)
        super().__init__(**arguments)
        _put_under(self, policy, check_options(options))

    def urlopen(  # type: ignore[override] # as that of urllib3.PoolManager
        self,
        method: str,
        url: str,
        redirect: bool = True,  # noqa: FBT001, FBT002
        **given: Any,
    ) -> Any:
        """See ``urllib3.PoolManager.urlopen``."""
        return super().urlopen(method, url, redirect, **_for_redirects(self, given))


def guard(manager: M, policy: Dependency | View | Retry, **options: Unpack[Given]) -> M:
    """Put a manager that exists, such as a ``ProxyManager``, under a policy, and give it back.

    Its open connections are dropped. Raises ConfigError for values that cannot work.
    """
    if not isinstance(manager, urllib3.PoolManager):
        raise refuse("manager", "must be a urllib3.PoolManager", manager)
    manager.clear()
    _put_under(manager, policy, Options.of(options))
    plain = manager.urlopen

    def urlopen(method: str, url: str, redirect: bool = True, **given: Any) -> Any:  # noqa: FBT001, FBT002
        return plain(method, url, redirect, **_for_redirects(manager, given))

    manager.urlopen = urlopen  # type: ignore[method-assign] # of this one manager
    return manager


def _for_redirects(manager: urllib3.PoolManager, given: dict[str, Any]) -> dict[str, Any]:
    """What a request that is redirected has to take along: where its file stood, and the key it was given."""
    given["headers"] = _Headers(manager.headers if given.get("headers") is None else given["headers"])
    body = given.get("body")
    if body is not None and given.get("body_pos") is None:
        source = source_of(body)
        if source.once is not None:
            given["body"] = once_of(body, source)
        elif hasattr(body, "tell"):
            given["body_pos"] = set_file_position(body, None)
    return given


class _Headers(urllib3.HTTPHeaderDict):
    """The headers of one request to a manager, kept over redirects."""


def _put_under(manager: urllib3.PoolManager, policy: Any, options: Options) -> None:
    sender = _Sender(policy, options)
    classes: dict[str, Any] = {
        scheme: type(cls.__name__, (_Guarded, cls), {"sender": sender})
        for scheme, cls in manager.pool_classes_by_scheme.items()
    }
    manager.pool_classes_by_scheme = classes


class _Guarded:
    """What the pools of a guarded manager do first."""

    sender: _Sender

    def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **given: Any) -> Any:
        """Send a request under the policy."""
        return self.sender.send(self, method, url, body, headers, given)

    def once(self, method: str, url: str, body: Any, headers: Any, **given: Any) -> Any:
        """Send it as urllib3 does, once: errors come as they are, redirects are the manager's business."""
        asked = given.get("retries")
        given.update(retries=False, redirect=False)
        # In the type of the pool, after this class.
        response: Any = _PLAIN(super())(method, url, body, headers, **given)
        if isinstance(asked, urllib3.Retry) or asked is None:
            response.retries = asked  # how many redirects the manager may follow; other forms it has itself
        return response


_PLAIN: Callable[[Any], Callable[..., Any]] = attrgetter("urlopen")


class _Request:
    """What one attempt sends."""

    __slots__ = ("body", "given", "headers", "method", "pool", "url")

    def __init__(
        self, pool: Any, method: str, url: str, body: Any, headers: Any, given: dict[str, Any]
    ) -> None:
        self.pool, self.method, self.url = pool, method, url
        self.body, self.headers, self.given = body, headers, given


class _Sender:
    def __init__(self, policy: Any, options: Options) -> None:
        def full(_request: Any, exchange: Exchange, _once: Any) -> Any:
            return self._attempt(exchange)

        self._lines = Lines(policy, options, full, full, urllib3.BaseHTTPResponse)
        responses.KINDS[urllib3.HTTPResponse] = (_close, None)

    def send(self, pool: Any, method: str, url: str, body: Any, headers: Any, given: dict[str, Any]) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        if not isinstance(headers, _Headers):
            headers = _Headers(pool.headers if headers is None else headers)
        source = _source(body, given.pop("body_pos", None))
        exchange = Exchange(
            self._lines, _Request(pool, method, url, body, headers, given), source, OVERRIDE.get()
        )
        self._claim(exchange)
        origin = origin_of(pool.scheme, pool.host, pool.port)
        safety = exchange.safety(method, headers.__contains__)
        return exchange.conclude(
            lambda: self._lines.send(exchange, method.upper(), origin, safety),
            lambda faulty: ended(faulty, exchange.options, _error),
        )

    def _claim(self, exchange: Exchange) -> None:
        keys, request = exchange.options.idempotency, exchange.request
        if keys is None:
            return
        pool, body = request.pool, request.body
        exchange.claim = claim = keys.claim(
            method=request.method,
            url=f"{pool.scheme}://{pool.host}:{pool.port}{request.url}",
            headers=request.headers,
            body=body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else None,
            **exchange.keyed,
        )
        if claim is not None:
            request.headers.update(claim.headers)
            if claim.body is not None:
                request.body = claim.body

    def _attempt(self, exchange: Exchange) -> Any:
        exchange.begin_attempt()
        request = exchange.request
        given, headers = dict(request.given), request.headers.copy()
        if exchange.options.adds:
            headers.update(exchange.added())
        connect, read, left = exchange.bounds()
        if left is not None or exchange.timeouts is not None:
            own = Timeout.from_float(given["timeout"]) if "timeout" in given else request.pool.timeout
            own = own if isinstance(own, Timeout) else request.pool.timeout
            given["timeout"] = Timeout(
                connect=shortest(_number(own.connect_timeout), connect),
                read=shortest(_number(own.read_timeout), read),
            )
        response = request.pool.once(request.method, request.url, request.body, headers, **given)
        if is_cut(getattr(response, "_original_response", None)):
            _close(response)
            raise ProtocolError("the response ended inside its headers")
        if exchange.options.whole:
            response.data  # noqa: B018 - reads it, so that one which is cut short is a failure of the attempt
        return self._judged(exchange, response)

    def _judged(self, exchange: Exchange, response: Any) -> Any:
        judge, status, method = exchange.judge(), response.status, exchange.request.method
        scope = judge.scope(status, method)
        if scope is None and status not in judge.watched:
            return response
        try:
            body, complete = _peek(response, exchange.options.peek, scope)
            fault = judge.fault(status, response.headers, method, body, complete=complete)
        except BaseException:  # out of a user's function
            _close(response)
            raise
        if fault is None:
            return response
        is_free = response._body is not None
        raise FaultyResponse(
            fault.why,
            response,
            status=status,
            fault=fault,
            close=None if is_free else lambda: _close(response),
        )


def _source(body: Any, start: Any) -> Source:
    if isinstance(start, int) and hasattr(body, "seek"):
        source = Source(((body, start),))
        source.rewind()
        return source
    source = source_of(body)
    if source.is_spent:
        raise UnrewindableBodyError("the body was sent already, and cannot be sent again")
    return source


def _peek(response: Any, limit: int, scope: str | None) -> tuple[bytes, bool]:
    """The start of a body that was read already, or is short: of a stream, it has to be put back."""
    if scope is None:
        return b"", True
    if response._body is None:
        length = length_of(response.headers.get("content-length"))
        if scope == Scope.START or length is None or length > limit:
            return b"", False
        if can_put_back(response):
            return look(response, limit), True
    content: bytes = response.data
    return content[:limit], len(content) <= limit


def _error(faulty: FaultyResponse) -> Exception:
    error: Any = ResponseError(str(faulty))
    error.response = faulty.response  # urllib3 has no place for it
    return error  # type: ignore[no-any-return] # see above


def _number(bound: Any) -> float | None:
    """A bound of urllib3's, whose default is an object."""
    return bound if isinstance(bound, (int, float)) else None


def _close(response: Any) -> None:
    response.close()
    response.release_conn()

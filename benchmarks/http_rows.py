"""What is timed of requests (10), as one table: ``ROWS``.

Where requests succeed, the figure is what a contender adds to the bare request, in us. Where they fail, it is the
whole call, beside that of the hand loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import http_server
from benchmarks.aiohttp_contenders import AIOHTTP, SessionPlan
from benchmarks.http_contenders import HTTP, HttpPlan
from benchmarks.rows import Calls, Row

if TYPE_CHECKING:
    from collections.abc import Callable


def _request() -> dict[str, Any]:
    from benchmarks import http_targets

    return {"request": http_targets.request(), "url": http_targets.URL}


REQUEST = Calls("(request)", given=_request)
GET = Calls("(url)", given=_request)
SESSION = Calls("()", times=4)

_BASELINE = "hand loop"


def _target(kind: str, statuses: str) -> Callable[[], Any]:
    """Makes what answers; the client library is loaded when the row is measured."""

    def make() -> Any:
        from benchmarks import http_targets

        return getattr(http_targets, kind)(*([] if kind == "Prepared" else [getattr(http_targets, statuses)]))

    return make


def _lineup(lineup: dict[str, Any], *without: str) -> tuple[str, ...]:
    return tuple(name for name in lineup if name not in without)


_DECORATORS = ("tenacity", "stamina", "retryhttp")
_TRANSPORTS = _lineup(HTTP, "perdure, ready client", *_DECORATORS)


def _ok(row_id: str, plan: HttpPlan) -> Row:
    title = f"httpx, {plan.colour} transport, success, added to the bare transport"
    target = _target("Prepared", "OK")
    return Row(
        row_id,
        title,
        plan,
        target,
        _BASELINE,
        _TRANSPORTS,
        0.8,
        REQUEST,
        lineup="http",
        above="bare",
        weight=3.0,
    )


def _failing(row_id: str, plan: HttpPlan) -> Row:
    title = f"httpx, {plan.colour} transport, 503, 503, 200, waits removed"
    contenders = tuple(name for name in _TRANSPORTS if name != "bare")
    target = _target("Server", "FAILS_TWICE")
    return Row(row_id, title, plan, target, _BASELINE, contenders, 1.1, REQUEST, lineup="http", weight=3.0)


_SYNC, _ASYNC, _CLIENT = HttpPlan("sync"), HttpPlan("async"), HttpPlan("sync", "client")

ROWS = (
    _ok("10.http.sync.ok", _SYNC),
    _ok("10.http.async.ok", _ASYNC),
    _failing("10.http.sync.failing", HttpPlan("sync", fails=True)),
    _failing("10.http.async.failing", HttpPlan("async", fails=True)),
    Row(
        "10.http.client.ok",
        "httpx, client.get with httpx's MockTransport, success, added to the bare client",
        _CLIENT,
        _target("mock", "OK"),
        "bare",
        _lineup(HTTP),
        None,
        GET,
        lineup="http",
        above="bare",
        weight=10.0,
    ),
    Row(
        "10.http.client.failing",
        "httpx, client.get with httpx's MockTransport, 503, 503, 200, waits removed",
        HttpPlan("sync", "client", fails=True),
        _target("mock", "FAILS_TWICE"),
        _BASELINE,
        _lineup(HTTP, "bare"),
        None,
        GET,
        lineup="http",
        weight=10.0,
    ),
    Row(
        "10.aiohttp.ok",
        "aiohttp, session.get from a server on the same machine, success, added to the bare session",
        SessionPlan(),
        lambda: http_server.url("ok"),
        "bare",
        _lineup(AIOHTTP),
        None,
        SESSION,
        lineup="aiohttp",
        above="bare",
        weight=10.0,
    ),
    Row(
        "10.aiohttp.failing",
        "aiohttp, session.get from a server on the same machine, 503, 503, 200, waits removed",
        SessionPlan(fails=True),
        lambda: http_server.url("fails"),
        _BASELINE,
        _lineup(AIOHTTP, "bare"),
        1.1,
        SESSION,
        lineup="aiohttp",
        weight=10.0,
    ),
)

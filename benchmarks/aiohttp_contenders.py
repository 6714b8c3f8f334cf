"""Everything that retries requests of aiohttp, as one table: ``AIOHTTP``.

Each contender has a session of its own, with one connection that stays open, and what is timed is a request whose
body is read. Wanted of all: as in ``http_contenders``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.contenders import Contender
from benchmarks.http_contenders import ATTEMPTS, dependency, retry

Around = Callable[[str], Callable[[], Any]]

_HOUR = 3600.0
_sessions: list[Any] = []


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """There is one colour only; ``fails`` as in ``HttpPlan``."""

    fails: bool = False
    colour: Literal["async"] = "async"


async def close() -> None:
    """Close all sessions that were opened."""
    while _sessions:
        await _sessions.pop().close()


def session(**arguments: Any) -> Any:
    """A session, to be closed by ``close``; called inside the loop."""
    import aiohttp

    made = aiohttp.ClientSession(connector=aiohttp.TCPConnector(keepalive_timeout=_HOUR), **arguments)
    _sessions.append(made)
    return made


def bare(plan: SessionPlan) -> Around:
    return lambda url: _reading(session().get, url)


def hand(plan: SessionPlan) -> Around:
    import aiohttp

    from benchmarks.hand_http import session_loop

    def around(url: str) -> Callable[[], Any]:
        get = session_loop(session().get, aiohttp.ClientError)

        async def w() -> int:
            response = await get(url)
            await response.read()
            return int(response.status)

        return w

    return around


def perdure(plan: SessionPlan) -> Around:
    from perdure.integrations.aiohttp import Middleware

    return lambda url: _reading(session(middlewares=[Middleware(dependency(fails=plan.fails))]).get, url)


def perdure_retry(plan: SessionPlan) -> Around:
    from perdure.integrations.aiohttp import Middleware

    return lambda url: _reading(session(middlewares=[Middleware(retry())]).get, url)


def aiohttp_retry(plan: SessionPlan) -> Around:
    import aiohttp_retry as library

    options = library.ExponentialRetry(attempts=ATTEMPTS, start_timeout=0.05, max_timeout=5.0, factor=2.0)

    def around(url: str) -> Callable[[], Any]:
        return _reading(library.RetryClient(client_session=session(), retry_options=options).get, url)

    return around


def tenacity(plan: SessionPlan) -> Around:
    import aiohttp
    import tenacity as library

    return _decorating(
        library.retry(
            retry=library.retry_if_exception_type(aiohttp.ClientError),
            stop=library.stop_after_attempt(ATTEMPTS),
            wait=library.wait_random_exponential(multiplier=0.1, max=5),
            reraise=True,
        )
    )


def stamina(plan: SessionPlan) -> Around:
    import aiohttp
    import stamina as library

    return _decorating(
        library.retry(
            on=aiohttp.ClientError,
            attempts=ATTEMPTS,
            timeout=30.0,
            wait_initial=0.1,
            wait_max=5.0,
            wait_jitter=1.0,
            wait_exp_base=2.0,
        )
    )


def retryhttp(plan: SessionPlan) -> Around:
    import retryhttp as library
    from tenacity import wait_random_exponential

    wait = wait_random_exponential(multiplier=0.1, max=5)
    return _decorating(
        library.retry(
            max_attempt_number=ATTEMPTS,
            wait_server_errors=wait,
            wait_network_errors=wait,
            wait_timeouts=wait,
            reraise=True,
        )
    )


def _reading(get: Callable[..., Any], url: str) -> Callable[[], Any]:
    async def w() -> int:
        async with get(url) as response:
            await response.read()
            return int(response.status)

    return w


def _decorating(decorate: Callable[[Any], Any]) -> Around:
    """A decorator sees errors only, so the request raises for its status."""

    def around(url: str) -> Callable[[], Any]:
        get = session().get

        @decorate
        async def w() -> int:
            async with get(url) as response:
                response.raise_for_status()
                await response.read()
                return int(response.status)

        return w  # type: ignore[no-any-return]

    return around


_RAISES = "around session.get with raise_for_status(), as it sees exceptions only"

AIOHTTP = {
    contender.name: contender
    for contender in (
        Contender("bare", bare, note="the session itself"),
        Contender("hand loop", hand, note="full jitter, releases what it gives up, no deadline"),
        Contender(
            "perdure", perdure, "perdure", "a Dependency, keyed by host; failing row: no budget, no gate"
        ),
        Contender("perdure, Retry only", perdure_retry, note="for information"),
        Contender("aiohttp-retry", aiohttp_retry, "aiohttp-retry", "no jitter"),
        Contender("tenacity", tenacity, "tenacity", _RAISES),
        Contender("stamina", stamina, "stamina", f"logs WARNING per retry; {_RAISES}"),
        Contender("retryhttp", retryhttp, "retryhttp", f"built on tenacity; {_RAISES}"),
    )
}

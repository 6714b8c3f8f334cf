"""One session of each HTTP client for several requests in a row, and how many connections these left taken.

`clients()` gives the names as parameters of a test, `play(name, policy, *requests)` sends the requests through a
session with a pool of one connection and reports how each ended.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import trio

import perdure
from perdure import Dependency
from perdure.integrations import aiohttp as for_aiohttp
from perdure.integrations import requests as for_requests
from perdure.integrations import urllib3 as for_urllib3

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import urllib3

SYNC = ("httpx", "httpx2", "requests", "urllib3")
ASYNC = ("httpx-asyncio", "httpx-trio", "httpx2-asyncio", "httpx2-trio", "aiohttp")
ALL = SYNC + ASYNC
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads many files


def clients(*names: str) -> Any:
    """The clients as parameters of a test."""
    return pytest.mark.parametrize("client", names or ALL)


def dependency(**given: Any) -> Dependency:
    """A dependency of its own, without what bounds retries: in a time that does not pass none come back."""
    return Dependency("payments", replace=True, **{"gate": None, "budget": None, **given})


class Leave(BaseException):
    """An exit, as KeyboardInterrupt and SystemExit are."""


@dataclass(frozen=True)
class Ask:
    """A request."""

    url: str
    method: str = "GET"
    body: Any = None
    headers: Any = None


@dataclass(frozen=True)
class Got:
    """An answer, read whole."""

    status: int
    body: bytes
    attempts: tuple[Any, ...]
    response: Any


@dataclass
class Played:
    """How each request ended, and how many connections were taken after it."""

    ends: list[Any] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    @property
    def statuses(self) -> list[Any]:
        """The status of each answer; an error as it is."""
        return [end.status if isinstance(end, Got) else end for end in self.ends]


@dataclass(frozen=True)
class Session:
    """An open session; `send` of an async one is to be awaited."""

    send: Callable[[Ask], Any]
    taken: Callable[[], int]


def is_async(client: str) -> bool:
    return client in ASYNC


def run(client: str, main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function on the loop of the client."""
    return trio.run(main) if client.endswith("trio") else asyncio.run(main())


def play(client: str, policy: Any, *asks: Ask, **options: Any) -> Played:
    """Send one request after the other, as long as connections come back."""
    played = Played()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            session = await aopened(stack, client, policy, **options)
            for ask in asks:
                try:
                    played.ends.append(await session.send(ask))
                except (Exception, Leave) as error:  # noqa: BLE001 - the report holds it
                    played.ends.append(error)
                if not _noted(played, session):
                    return

    if is_async(client):
        run(client, main)
        return played
    with ExitStack() as stack:
        session = opened(stack, client, policy, **options)
        for ask in asks:
            try:
                played.ends.append(session.send(ask))
            except (Exception, Leave) as error:  # noqa: BLE001 - as above
                played.ends.append(error)
            if not _noted(played, session):
                break
    return played


def _noted(played: Played, session: Session) -> bool:
    """Whether there is a connection for another request: some pools would wait for one without end."""
    played.taken.append(session.taken())
    return played.taken[-1] == 0


def opened(
    stack: ExitStack, client: str, policy: Any, *, pool: int = 1, timeout: float = 5, **options: Any
) -> Session:
    """A session of a sync client, closed with the stack."""
    if client == "requests":
        inner = requests.adapters.HTTPAdapter(pool_maxsize=pool, pool_block=True)
        session = stack.enter_context(requests.Session())
        session.trust_env = False
        session.mount("http://", for_requests.Adapter(policy, inner, **options))

        def by_requests(ask: Ask) -> Got:
            got = session.request(ask.method, ask.url, data=ask.body, headers=ask.headers, timeout=timeout)
            return Got(got.status_code, got.content, perdure.attempts_of(got), got)

        return Session(by_requests, lambda: _taken(inner.poolmanager))
    if client == "urllib3":
        manager = stack.enter_context(
            for_urllib3.PoolManager(
                policy, options=for_urllib3.Options(**options), maxsize=pool, block=True, timeout=timeout
            )
        )

        def by_urllib3(ask: Ask) -> Got:
            got = manager.request(ask.method, ask.url, body=ask.body, headers=ask.headers)
            return Got(got.status, got.data, perdure.attempts_of(got), got)

        return Session(by_urllib3, lambda: _taken(manager))
    library, integration = _of_httpx(client)
    transport = library.HTTPTransport(verify=NO_TLS, limits=library.Limits(max_connections=pool))
    made = stack.enter_context(
        library.Client(
            transport=integration.Transport(policy, transport, **options),
            timeout=timeout,
            follow_redirects=True,
            trust_env=False,
        )
    )

    def by_httpx(ask: Ask) -> Got:
        got = made.request(ask.method, ask.url, content=ask.body, headers=ask.headers)
        return Got(got.status_code, got.content, perdure.attempts_of(got), got)

    return Session(by_httpx, lambda: len(transport._pool._requests))


async def aopened(
    stack: AsyncExitStack, client: str, policy: Any, *, pool: int = 1, timeout: float = 5, **options: Any
) -> Session:
    """A session of an async client, closed with the stack."""
    if client == "aiohttp":
        connector = aiohttp.TCPConnector(limit=pool)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                middlewares=[for_aiohttp.Middleware(policy, **options)],
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=timeout),
            )
        )

        async def by_aiohttp(ask: Ask) -> Got:
            response = await session.request(ask.method, ask.url, data=ask.body, headers=ask.headers)
            async with response as got:
                return Got(got.status, await got.read(), perdure.attempts_of(got), got)

        return Session(by_aiohttp, lambda: len(connector._acquired))
    library, integration = _of_httpx(client)
    transport = library.AsyncHTTPTransport(verify=NO_TLS, limits=library.Limits(max_connections=pool))
    made = await stack.enter_async_context(
        library.AsyncClient(
            transport=integration.AsyncTransport(policy, transport, **options),
            timeout=timeout,
            follow_redirects=True,
            trust_env=False,
        )
    )

    async def by_httpx(ask: Ask) -> Got:
        got = await made.request(ask.method, ask.url, content=ask.body, headers=ask.headers)
        return Got(got.status_code, got.content, perdure.attempts_of(got), got)

    return Session(by_httpx, lambda: len(transport._pool._requests))


def _of_httpx(client: str) -> tuple[Any, Any]:
    name = client.partition("-")[0]
    return {"httpx": httpx, "httpx2": httpx2}[name], importlib.import_module(f"perdure.integrations.{name}")


def _taken(manager: urllib3.PoolManager) -> int:
    pools: Any = [manager.pools[key] for key in manager.pools.keys()]  # noqa: SIM118 - it cannot be iterated
    return sum(pool.pool.maxsize - pool.pool.qsize() for pool in pools)

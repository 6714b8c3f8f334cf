"""One POST through each HTTP client, and what it raises. Importing this needs all of them."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CLIENTS", "Call", "failure", "post"]

PATIENCE = 10.0


class Call(NamedTuple):
    """One call: `times` POSTs over one client, `between` after each, `timeout` seconds for each of its waits."""

    url: str
    timeout: float = PATIENCE
    times: int = 1
    method: str = "POST"
    trust: ssl.SSLContext | None = None
    ca_file: str | None = None
    proxy: str | None = None
    between: Callable[[], None] = lambda: None


class Client(Protocol):
    def __call__(self, call: Call) -> Any: ...


def _context(call: Call) -> ssl.SSLContext:
    return call.trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads many files


async def _between(call: Call) -> None:
    await asyncio.to_thread(call.between)
    for _ in range(5):
        await asyncio.sleep(0)  # until the loop has seen what arrived meanwhile


def _httpx_options(call: Call) -> dict[str, Any]:
    return {
        "timeout": call.timeout,
        "verify": _context(call),
        "trust_env": False,
        "follow_redirects": True,
        "proxy": call.proxy,
    }


def sync_httpx(package: Any) -> Client:
    def run(call: Call) -> Any:
        with package.Client(**_httpx_options(call)) as client:
            for _ in range(call.times):
                response = client.request(call.method, call.url)
                call.between()
        return response.raise_for_status()

    return run


def async_httpx(package: Any) -> Client:
    def run(call: Call) -> Any:
        async def main() -> Any:
            async with package.AsyncClient(**_httpx_options(call)) as client:
                for _ in range(call.times):
                    response = await client.request(call.method, call.url)
                    await _between(call)
            return response.raise_for_status()

        return asyncio.run(main())

    return run


def by_requests(call: Call) -> Any:
    with requests.Session() as session:
        session.trust_env = False
        session.verify = call.ca_file
        if call.proxy:
            session.proxies = {"http": call.proxy, "https": call.proxy}
        for _ in range(call.times):
            response = session.request(call.method, call.url, timeout=call.timeout)
            call.between()
    response.raise_for_status()
    return response


def by_urllib3(call: Call) -> Any:
    options: dict[str, Any] = {"retries": False, "timeout": call.timeout, "ssl_context": _context(call)}
    pool = urllib3.ProxyManager(call.proxy, **options) if call.proxy else urllib3.PoolManager(**options)
    with pool:
        for _ in range(call.times):
            response = pool.request(call.method, call.url)
            call.between()
        return response


def by_aiohttp(call: Call) -> Any:
    async def main() -> Any:
        timeout = aiohttp.ClientTimeout(sock_connect=call.timeout, sock_read=call.timeout)
        connector = aiohttp.TCPConnector(ssl=_context(call))
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            for _ in range(call.times):
                async with session.request(call.method, call.url, proxy=call.proxy) as response:
                    await response.read()
                    response.raise_for_status()
                await _between(call)
            return response

    return asyncio.run(main())


CLIENTS: dict[str, Client] = {
    "httpx": sync_httpx(httpx),
    "httpx-async": async_httpx(httpx),
    "httpx2": sync_httpx(httpx2),
    "httpx2-async": async_httpx(httpx2),
    "requests": by_requests,
    "urllib3": by_urllib3,
    "aiohttp": by_aiohttp,
}


def post(client: str, url: str, **options: Any) -> Any:
    """POST, and give the client's response."""
    return CLIENTS[client](Call(url, **options))


def failure(client: str, url: str, **options: Any) -> Exception:
    """POST, and give what that raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what the test is about
        post(client, url, **options)
    return caught.value

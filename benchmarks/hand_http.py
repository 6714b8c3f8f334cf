"""What one would write by hand around a client: five attempts on the statuses that ask for another one.

As the other baselines: exponential backoff with full jitter, no hook, no log line, no deadline. A response that is
given up is closed, so that its connection is free.
"""

from __future__ import annotations

import asyncio
import time
from random import random
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RETRIED = frozenset({429, 500, 502, 503, 504})
ATTEMPTS = 5


class Loop(httpx.BaseTransport):
    """Around a transport of httpx."""

    def __init__(self, wrap: httpx.BaseTransport) -> None:
        self._wrapped = wrap

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        for i in range(ATTEMPTS):
            try:
                response = self._wrapped.handle_request(request)
            except httpx.TransportError:
                if i == ATTEMPTS - 1:
                    raise
            else:
                if response.status_code not in RETRIED or i == ATTEMPTS - 1:
                    return response
                response.close()
            time.sleep(min(5.0, 0.1 * 2**i) * random())
        raise AssertionError("the last attempt ends the loop")


class AsyncLoop(httpx.AsyncBaseTransport):
    """Around an async transport of httpx."""

    def __init__(self, wrap: httpx.AsyncBaseTransport) -> None:
        self._wrapped = wrap

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for i in range(ATTEMPTS):
            try:
                response = await self._wrapped.handle_async_request(request)
            except httpx.TransportError:
                if i == ATTEMPTS - 1:
                    raise
            else:
                if response.status_code not in RETRIED or i == ATTEMPTS - 1:
                    return response
                await response.aclose()
            await asyncio.sleep(min(5.0, 0.1 * 2**i) * random())
        raise AssertionError("the last attempt ends the loop")


def client_loop(get: Callable[[str], Any]) -> Callable[[str], Any]:
    """Around the ``get`` of a client of httpx."""

    def w(url: str) -> Any:
        for i in range(ATTEMPTS):
            try:
                response = get(url)
            except httpx.TransportError:
                if i == ATTEMPTS - 1:
                    raise
            else:
                if response.status_code not in RETRIED or i == ATTEMPTS - 1:
                    return response
            time.sleep(min(5.0, 0.1 * 2**i) * random())
        return None

    return w


def session_loop(get: Callable[[str], Awaitable[Any]], error: type[Exception]) -> Callable[[str], Any]:
    """Around the ``get`` of a session of aiohttp; ``error`` is what it raises when there is no answer."""

    async def w(url: str) -> Any:
        for i in range(ATTEMPTS):
            try:
                response = await get(url)
            except error:
                if i == ATTEMPTS - 1:
                    raise
            else:
                if response.status not in RETRIED or i == ATTEMPTS - 1:
                    return response
                response.release()
            await asyncio.sleep(min(5.0, 0.1 * 2**i) * random())
        return None

    return w

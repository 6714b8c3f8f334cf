"""What becomes of such failures in a retried call, over connections that are used again, and in a pool of one.

B100: what was never sent is safe for any method. B104: silence on a kept connection is ambiguous.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

import perdure
from perdure import Breaker, Dependency, Retry
from perdure.faults import FaultKind, classify
from perdure.faults.clients import CONNECT_TIMED_OUT, POOL_EXHAUSTED
from perdure.faults.signal import Signal, signal_of
from perdure.testing import no_waits
from tests.integration import wire
from tests.integration.http_clients import CLIENTS, failure, post

if TYPE_CHECKING:
    from collections.abc import Callable

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads many files
SAYS_WHICH_REQUEST = [client for client in CLIENTS if client not in {"urllib3", "aiohttp"}]


@pytest.fixture(autouse=True)
def _without_waiting() -> Any:
    with no_waits():
        yield


# -- in a retried call ---------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_b100_a_post_that_was_never_sent_is_sent_again(client: str) -> None:
    with wire.refused() as port:
        outcome = Retry(attempts=3).outcome(failed, client, f"http://127.0.0.1:{port}")
    assert (outcome.stop, outcome.attempts) == (perdure.StopReason.ATTEMPTS, 3)


def failed(client: str, url: str, method: str = "POST") -> None:
    raise failure(client, url, method=method)


@pytest.mark.parametrize("client", SAYS_WHICH_REQUEST)
def test_a_lost_answer_to_a_post_ends_the_call(client: str) -> None:
    with wire.serve(wire.close()) as server:
        outcome = Retry(attempts=3).outcome(failed, client, server.url)
        assert len(server.requests) == 1
    assert outcome.stop is perdure.StopReason.UNSAFE


@pytest.mark.parametrize("client", CLIENTS)
def test_b095_a_lost_answer_to_a_put_is_asked_for_again(client: str) -> None:
    with wire.serve(wire.close(), wire.reset(), wire.answer()) as server:
        Retry(attempts=3).call(post, client, server.url, method="PUT")
        assert len(server.requests) == 3


@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "urllib3"])
def test_throttling_is_waited_for_whatever_the_method(client: str) -> None:
    busy = wire.answer(429, {"Retry-After": "7"})
    with wire.serve(busy, wire.answer()) as server, no_waits() as waits:
        Retry(attempts=3).call(post, client, server.url)
    assert len(waits) == 1
    assert 7 <= waits[0] <= 10.5


# -- kept connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_a_connection_closed_while_idle_is_noticed_by_the_client(client: str) -> None:
    with wire.serve(wire.close_idle()) as server:
        post(client, server.url, times=3, between=lambda: server.wait_for(ended=server.connections))
        assert [request.connection for request in server.requests] == [1, 2, 3]


@pytest.mark.parametrize("client", CLIENTS)
def test_b104_silence_on_a_kept_connection_is_ambiguous(client: str) -> None:
    """No client says on its exception whether the connection had been used before."""
    with wire.serve(wire.answer(), wire.close()) as server:
        kept = failure(client, server.url, times=2)
        assert [request.connection for request in server.requests] == [1, 1]
    with wire.serve(wire.close()) as server:
        fresh = failure(client, server.url)
    assert classify(kept) == classify(fresh)
    assert classify(kept).kind is FaultKind.AMBIGUOUS


# -- a pool of one -------------------------------------------------------------------------------------

WAIT = 0.05


def pool_of_httpx(package: Any, url: str) -> None:
    timeout, limits = package.Timeout(10, pool=WAIT), package.Limits(max_connections=1)
    with (
        package.Client(timeout=timeout, limits=limits, verify=NO_TLS, trust_env=False) as client,
        client.stream("GET", url),
    ):
        client.get(url)


def pool_of_async_httpx(package: Any, url: str) -> None:
    async def main() -> None:
        timeout, limits = package.Timeout(10, pool=WAIT), package.Limits(max_connections=1)
        async with (
            package.AsyncClient(timeout=timeout, limits=limits, verify=NO_TLS, trust_env=False) as client,
            client.stream("GET", url),
        ):
            await client.get(url)

    asyncio.run(main())


def pool_of_urllib3(url: str) -> None:
    where = urllib3.util.parse_url(url)
    assert where.host is not None
    with urllib3.HTTPConnectionPool(where.host, where.port, maxsize=1, block=True, retries=False) as pool:
        held = pool.urlopen("GET", "/", preload_content=False)
        try:
            pool.urlopen("GET", "/", pool_timeout=WAIT)
        finally:
            held.close()


def pool_of_aiohttp(url: str) -> None:
    async def main() -> None:
        connector, timeout = aiohttp.TCPConnector(limit=1), aiohttp.ClientTimeout(connect=WAIT)
        async with aiohttp.ClientSession(connector=connector) as session, session.get(url):
            await session.get(url, timeout=timeout)

    asyncio.run(main())


POOLS: dict[str, Callable[[str], None]] = {
    "httpx": lambda url: pool_of_httpx(httpx, url),
    "httpx-async": lambda url: pool_of_async_httpx(httpx, url),
    "httpx2": lambda url: pool_of_httpx(httpx2, url),
    "httpx2-async": lambda url: pool_of_async_httpx(httpx2, url),
    "urllib3": pool_of_urllib3,
    "aiohttp": pool_of_aiohttp,
}


def exhausted(client: str) -> Exception:
    with wire.serve(wire.hang_in_body()) as server, pytest.raises(Exception) as caught:  # noqa: PT011
        POOLS[client](server.url)
    return caught.value


@pytest.mark.parametrize("client", POOLS)
def test_an_exhausted_pool_is_worth_another_attempt_and_no_failure_of_the_server(client: str) -> None:
    error = exhausted(client)
    assert type(error).__name__ in {"PoolTimeout", "EmptyPoolError", "ConnectionTimeoutError"}
    fault = classify(error)
    assert fault is POOL_EXHAUSTED
    assert signal_of(error, fault, wanted=True) is Signal.NEUTRAL


def test_a_breaker_does_not_open_for_an_exhausted_pool() -> None:
    error = exhausted("httpx")

    def fail(error: Exception) -> None:
        raise error

    dependency = Dependency("shop", retry=None, breaker=Breaker(failures=2))
    for _ in range(5):
        assert dependency.outcome(fail, error).stop is not perdure.StopReason.BREAKER
    with wire.refused() as port:
        refused = failure("httpx", f"http://127.0.0.1:{port}")
    stops = [dependency.outcome(fail, refused).stop for _ in range(3)]
    assert stops[-1] is perdure.StopReason.BREAKER


def test_a_connect_timeout_of_aiohttp_is_told_from_a_wait_for_the_pool() -> None:
    async def main(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            await session.get(url, timeout=aiohttp.ClientTimeout(connect=WAIT))

    with wire.silent() as port, pytest.raises(aiohttp.ConnectionTimeoutError) as caught:
        asyncio.run(main(f"http://127.0.0.1:{port}"))
    assert classify(caught.value) is CONNECT_TIMED_OUT


# -- bodies --------------------------------------------------------------------------------------------

QUOTA = wire.answer(429, {"Content-Type": "application/json"}, '{"error": {"code": "insufficient_quota"}}')


@pytest.mark.parametrize("client", SAYS_WHICH_REQUEST)
def test_an_error_code_in_a_loaded_body_counts(client: str) -> None:
    with wire.serve(QUOTA) as server:
        fault = classify(failure(client, server.url))
    assert fault.kind is FaultKind.PERMANENT
    assert "insufficient_quota" in fault.why


def test_a_body_that_is_still_on_the_wire_is_left_there() -> None:
    with (
        wire.serve(QUOTA) as server,
        requests.Session() as session,
        session.get(server.url, stream=True) as response,
    ):
        with pytest.raises(requests.HTTPError) as caught:
            response.raise_for_status()
        assert classify(caught.value).kind is FaultKind.THROTTLED
        assert response.json()["error"]["code"] == "insufficient_quota"
    with (
        wire.serve(QUOTA) as server,
        httpx.Client(verify=NO_TLS, trust_env=False) as client,
        client.stream("GET", server.url) as streamed,
    ):
        with pytest.raises(httpx.HTTPStatusError) as unread:
            streamed.raise_for_status()
        assert classify(unread.value).kind is FaultKind.THROTTLED
        assert b"insufficient_quota" in streamed.read()

"""Every attempt begins with the request as the user made it, whatever an earlier attempt did to it: B113.

Inner transports, adapters and middlewares sign requests, add headers to them, and change their bodies. Multipart
bodies are made anew, from files that stand where they stood.
"""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import trio
import urllib3

from perdure import Retry
from perdure.integrations import aiohttp as for_aiohttp
from perdure.integrations import httpx as for_httpx
from perdure.integrations import httpx2 as for_httpx2
from perdure.integrations import requests as for_requests
from perdure.integrations import urllib3 as for_urllib3
from perdure.testing import no_waits
from tests.cases.http_sessions import NO_TLS
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


BUSY = wire.answer(429, body=b"busy")
STEPS = (BUSY, wire.close(), BUSY, wire.answer(body=b"ok"))
OF_HTTPX = pytest.mark.parametrize(
    ("library", "integration"), [(httpx, for_httpx), (httpx2, for_httpx2)], ids=["httpx", "httpx2"]
)


def sent(server: Any, field: str) -> list[list[str]]:
    """What each request said in a field, as often as it said it."""
    return [[value for name, value in one.raw if name.lower() == field] for one in server.requests]


def sign(headers: Any) -> None:
    """As a signer does that appends to what is there."""
    headers["X-Trace"] = ",".join(filter(None, [headers.get("X-Trace"), "hop"]))
    headers.pop("X-Secret", None)


@OF_HTTPX
def test_b113_an_inner_transport_of_httpx_that_adds_headers(library: Any, integration: Any) -> None:
    class Signing(library.HTTPTransport):
        def handle_request(self, request: Any) -> Any:
            secrets.append(request.headers.get("x-secret"))
            sign(request.headers)
            return super().handle_request(request)

    secrets: list[Any] = []
    with wire.serve(*STEPS) as server:
        transport = integration.Transport(Retry(), Signing(verify=NO_TLS))
        with library.Client(transport=transport, trust_env=False) as client:
            assert client.put(server.url, content=b"x", headers={"X-Secret": "s"}).status_code == 200
    assert sent(server, "x-trace") == [["hop"]] * 4
    assert secrets == ["s"] * 4


@OF_HTTPX
@pytest.mark.parametrize("run", [asyncio.run, lambda made: trio.run(lambda: made)], ids=["asyncio", "trio"])
def test_b113_an_async_inner_transport_that_adds_headers(library: Any, integration: Any, run: Any) -> None:
    class Signing(library.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            sign(request.headers)
            return await super().handle_async_request(request)

    async def main(url: str) -> None:
        transport = integration.AsyncTransport(Retry(), Signing(verify=NO_TLS))
        async with library.AsyncClient(transport=transport, trust_env=False) as client:
            assert (await client.put(url, content=b"x")).status_code == 200

    with wire.serve(*STEPS) as server:
        run(main(server.url))
    assert sent(server, "x-trace") == [["hop"]] * 4


def test_b113_an_adapter_of_requests_that_adds_headers_and_changes_the_body() -> None:
    class Signing(requests.adapters.HTTPAdapter):
        def send(self, request: Any, *args: Any, **given: Any) -> Any:
            sign(request.headers)
            return super().send(request, *args, **given)

    with wire.serve(*STEPS) as server, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", for_requests.Adapter(Retry(), Signing()))
        assert session.put(server.url, data=b"x", headers={"X-Secret": "s"}).status_code == 200
    assert sent(server, "x-trace") == [["hop"]] * 4


def test_b113_a_middleware_of_aiohttp_that_adds_headers() -> None:
    async def signing(request: Any, handler: Any) -> Any:
        request.headers.add("X-Trace", "hop")
        return await handler(request)

    async def main(url: str) -> None:
        async with for_aiohttp.session(Retry(), middlewares=[signing]) as session:
            async with session.put(url, data=b"x") as response:
                assert response.status == 200

    with wire.serve(*STEPS) as server:
        asyncio.run(main(server.url))
    assert sent(server, "x-trace") == [["hop"]] * 4


def test_b113_a_pool_of_urllib3_that_adds_headers() -> None:
    class Signing(urllib3.HTTPConnectionPool):
        def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **given: Any) -> Any:
            headers.add("X-Trace", "hop")
            return super().urlopen(method, url, body, headers, **given)

    manager = urllib3.PoolManager()
    manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "http": Signing}
    with wire.serve(*STEPS) as server, for_urllib3.guard(manager, Retry()):
        assert manager.request("PUT", server.url, body=b"x").status == 200
    assert sent(server, "x-trace") == [["hop"]] * 4


# Multipart


def upload_by_httpx(library: Any, integration: Any, url: str, file: Any) -> int:
    transport = integration.Transport(Retry(), library.HTTPTransport(verify=NO_TLS))
    with library.Client(transport=transport, trust_env=False, follow_redirects=True) as client:
        response = client.post(url, files={"file": ("name", file)}, data={"field": "value"})
    return int(response.status_code)


def upload_by_async_httpx(library: Any, integration: Any, url: str, file: Any) -> int:
    async def main() -> int:
        transport = integration.AsyncTransport(Retry(), library.AsyncHTTPTransport(verify=NO_TLS))
        async with library.AsyncClient(transport=transport, trust_env=False, follow_redirects=True) as client:
            response = await client.post(url, files={"file": ("name", file)}, data={"field": "value"})
        return int(response.status_code)

    return asyncio.run(main())


def upload_by_requests(url: str, file: Any) -> int:
    with for_requests.session(Retry()) as session:
        session.trust_env = False
        return session.post(url, files={"file": ("name", file)}, data={"field": "value"}).status_code


def upload_by_urllib3(url: str, file: Any) -> int:
    with for_urllib3.PoolManager(Retry()) as manager:
        fields = {"file": ("name", file.read()), "field": "value"}
        return manager.request("POST", url, fields=fields).status


def upload_by_aiohttp(url: str, file: Any) -> int:
    async def main() -> int:
        form = aiohttp.FormData({"field": "value"})
        form.add_field("file", file, filename="name")
        async with for_aiohttp.session(Retry()) as session, session.post(url, data=form) as response:
            return response.status

    return asyncio.run(main())


UPLOADS: dict[str, Callable[[str, Any], int]] = {
    "httpx": lambda url, file: upload_by_httpx(httpx, for_httpx, url, file),
    "httpx2": lambda url, file: upload_by_httpx(httpx2, for_httpx2, url, file),
    "httpx-asyncio": lambda url, file: upload_by_async_httpx(httpx, for_httpx, url, file),
    "httpx2-asyncio": lambda url, file: upload_by_async_httpx(httpx2, for_httpx2, url, file),
    "requests": upload_by_requests,
    "urllib3": upload_by_urllib3,
    "aiohttp": upload_by_aiohttp,
}


@pytest.mark.parametrize("upload", UPLOADS.values(), ids=UPLOADS)
@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize(
    "steps", [(BUSY, BUSY), (wire.redirect("/there", 307), BUSY)], ids=["again", "there"]
)
def test_b109_a_multipart_upload_is_the_same_each_time(upload: Any, start: int, steps: Any) -> None:
    file = io.BytesIO(b"head|the part to send")
    file.seek(start)
    with wire.serve(*steps, wire.answer(body=b"ok")) as server:
        status = upload(server.url, file)
    first, *others = [request.body for request in server.requests]
    assert len(others) == 2
    assert others == [first, first]
    assert status == 200
    assert b"the part to send" in first
    assert b'name="field"' in first

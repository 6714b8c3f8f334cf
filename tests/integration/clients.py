"""Every HTTP client that perdure has an integration for, behind one small face: what holds, holds for all of them.

`each()` gives the clients as parameters; `client.open(policy, **options)` gives a session whose `send` makes one
request and reads the answer. A client that is not installed is left out, and says so.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Answer:
    """What a request came to."""

    status: int
    headers: dict[str, str]
    body: bytes
    attempts: tuple[Any, ...] = ()
    response: Any = None


@dataclass
class Session:
    """An open client: `send(method, url, body=, headers=, override=, timeout=)` gives an Answer or raises."""

    send: Callable[..., Answer]
    raw: Any = None
    seen: list[str] = field(default_factory=list)


class Client:
    """A client library in one colour."""

    name = ""
    package = ""
    is_async = False
    status_error: str = "HTTPStatusError"
    follows_redirects = True

    def load(self) -> Any:
        return importlib.import_module(self.package)

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        """A session under the policy; `pool` is how many connections it may have."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


class HttpxSync(Client):
    def __init__(self, library: str) -> None:
        self.name = self.package = library

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        httpx = self.load()
        integration = importlib.import_module(f"perdure.integrations.{self.package}")
        inner = httpx.HTTPTransport(limits=httpx.Limits(max_connections=pool))
        transport = integration.Transport(policy, inner, **options)
        with httpx.Client(transport=transport, timeout=timeout, follow_redirects=True) as client:

            def send(
                method: str, url: str, body: Any = None, headers: Any = None, override: Any = None
            ) -> Answer:
                extensions = {} if override is None else {"perdure": override}
                got = client.request(method, url, content=body, headers=headers, extensions=extensions)
                return Answer(got.status_code, dict(got.headers), got.content, perdure.attempts_of(got), got)

            yield Session(send, client)


class HttpxAsync(Client):
    is_async = True

    def __init__(self, library: str, loop: str) -> None:
        self.package, self.loop = library, loop
        self.name = f"{library}-{loop}"

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        httpx = self.load()
        integration = importlib.import_module(f"perdure.integrations.{self.package}")
        run: Any = asyncio.run if self.loop == "asyncio" else lambda made: trio.run(lambda: made)

        async def one(
            method: str, url: str, body: Any, headers: Any, override: Any, times: int
        ) -> list[Answer]:
            inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=pool))
            transport = integration.AsyncTransport(policy, inner, **options)
            answers = []
            async with httpx.AsyncClient(
                transport=transport, timeout=timeout, follow_redirects=True
            ) as client:
                for _ in range(times):
                    extensions = {} if override is None else {"perdure": override}
                    got = await client.request(
                        method, url, content=_async_body(body), headers=headers, extensions=extensions
                    )
                    answers.append(
                        Answer(got.status_code, dict(got.headers), got.content, perdure.attempts_of(got), got)
                    )
            return answers

        def send(
            method: str, url: str, body: Any = None, headers: Any = None, override: Any = None, times: int = 1
        ) -> Any:
            answers = run(one(method, url, body, headers, override, times))
            return answers if times > 1 else answers[0]

        yield Session(send)


class Requests(Client):
    status_error = "HTTPError"

    def __init__(self, library: str) -> None:
        self.name = self.package = library

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        requests = self.load()
        integration = importlib.import_module(f"perdure.integrations.{self.package}")
        inner = requests.adapters.HTTPAdapter(pool_maxsize=pool, pool_block=True)
        with requests.Session() as session:
            session.trust_env = False
            for prefix in ("http://", "https://"):
                session.mount(prefix, integration.Adapter(policy, inner, **options))

            def send(
                method: str, url: str, body: Any = None, headers: Any = None, override: Any = None
            ) -> Answer:
                with perdure.integrations.override(**(override or {})):
                    got = session.request(method, url, data=body, headers=headers, timeout=timeout)
                return Answer(
                    got.status_code, _lower(got.headers), got.content, perdure.attempts_of(got), got
                )

            yield Session(send, session)


class Urllib3(Client):
    name = package = "urllib3"

    def load(self) -> Any:
        urllib3 = importlib.import_module("urllib3")
        if importlib.util.find_spec("urllib3_future") is not None:
            raise ImportError("niquests has put its own in the place of urllib3")
        return urllib3

    status_error = "ResponseError"

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        integration = importlib.import_module("perdure.integrations.urllib3")
        made = integration.Options(**options)
        with integration.PoolManager(
            policy, options=made, maxsize=pool, block=True, timeout=timeout
        ) as manager:

            def send(
                method: str, url: str, body: Any = None, headers: Any = None, override: Any = None
            ) -> Answer:
                with perdure.integrations.override(**(override or {})):
                    got = manager.request(method, url, body=body, headers=headers)
                return Answer(got.status, _lower(got.headers), got.data, perdure.attempts_of(got), got)

            yield Session(send, manager)


class Niquests(Requests):
    """Takes the place of urllib3, so it is tested alone."""


class NiquestsAsync(Client):
    name, package = "niquests-asyncio", "niquests"
    is_async = True
    status_error = "HTTPError"

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        niquests = self.load()
        integration = importlib.import_module("perdure.integrations.niquests")

        async def one(method: str, url: str, body: Any, headers: Any, override: Any) -> Answer:
            inner = niquests.adapters.AsyncHTTPAdapter(pool_maxsize=pool, pool_block=True)
            async with niquests.AsyncSession() as session:
                session.trust_env = False
                session.mount("http://", integration.AsyncAdapter(policy, inner, **options))
                with perdure.integrations.override(**(override or {})):
                    got = await session.request(method, url, data=body, headers=headers, timeout=timeout)
                return Answer(
                    got.status_code, _lower(got.headers), got.content, perdure.attempts_of(got), got
                )

        def send(
            method: str, url: str, body: Any = None, headers: Any = None, override: Any = None
        ) -> Answer:
            return asyncio.run(one(method, url, body, headers, override))

        yield Session(send)


class Aiohttp(Client):
    name = package = "aiohttp"
    is_async = True
    status_error = "ClientResponseError"

    @contextmanager
    def open(self, policy: Any, *, timeout: float = 5, pool: int = 10, **options: Any) -> Iterator[Session]:
        aiohttp = self.load()
        integration = importlib.import_module("perdure.integrations.aiohttp")
        middleware = integration.Middleware(policy, **options)

        async def one(method: str, url: str, body: Any, headers: Any, override: Any) -> Answer:
            async with aiohttp.ClientSession(
                middlewares=[middleware],
                connector=aiohttp.TCPConnector(limit=pool),
                timeout=aiohttp.ClientTimeout(total=timeout),
            ) as session:
                is_iterated = hasattr(body, "__next__") and not getattr(body, "seekable", lambda: False)()
                data = _chunks(body) if is_iterated else body
                with perdure.integrations.override(**(override or {})):
                    got = await session.request(method, url, data=data, headers=headers)
                async with got:
                    content = await got.read()
                return Answer(got.status, _lower(got.headers), content, perdure.attempts_of(got), got)

        def send(
            method: str, url: str, body: Any = None, headers: Any = None, override: Any = None
        ) -> Answer:
            return asyncio.run(one(method, url, body, headers, override))

        yield Session(send)


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _async_body(body: Any) -> Any:
    """What an async client takes for the body that a sync one was given."""
    if body is None or isinstance(body, (bytes, str)) or hasattr(body, "aread"):
        return body
    if hasattr(body, "read"):
        return _AsyncFile(body)

    return _chunks(body)


async def _chunks(body: Any) -> Any:
    for chunk in body:
        yield chunk


class _AsyncFile:
    """A file that is read as async files are, and put back as files are."""

    def __init__(self, file: Any) -> None:
        self._file = file

    async def aread(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int) -> None:
        self._file.seek(place)

    def seekable(self) -> bool:
        return self._file.seekable()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> bytes:
        chunk = self._file.read(16)
        if not chunk:
            raise StopAsyncIteration
        return chunk


CLIENTS: list[Client] = [
    HttpxSync("httpx"),
    HttpxSync("httpx2"),
    HttpxAsync("httpx", "asyncio"),
    HttpxAsync("httpx", "trio"),
    HttpxAsync("httpx2", "asyncio"),
    Requests("requests"),
    Urllib3(),
    Aiohttp(),
    Niquests("niquests"),
    NiquestsAsync(),
]


def each(*, only: Callable[[Client], bool] = lambda _: True) -> Any:
    """The clients as parameters of a test."""
    made = []
    for client in CLIENTS:
        if only(client):
            missing = True
            with suppress(ImportError):
                client.load()
                missing = False
            marks = [pytest.mark.skip(reason=f"{client.package} is not installed")] if missing else []
            made.append(pytest.param(client, id=client.name, marks=marks))
    return pytest.mark.parametrize("client", made)

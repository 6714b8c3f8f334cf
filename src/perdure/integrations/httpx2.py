"""perdure for httpx2: transports, and clients that have them.

client = perdure.integrations.httpx2.client(payments)
client.get("https://api.example.com/orders/17")
"""

from __future__ import annotations

import httpx2

from perdure.integrations.shared import atransports, transports
from perdure.integrations.shared.options import Options, check_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Unpack

    from perdure.dependency import Dependency, View
    from perdure.integrations.shared.options import Given
    from perdure.policies import Retry

__all__ = ["AsyncTransport", "Transport", "async_client", "client"]


class Transport(transports.Base, httpx2.BaseTransport):
    """A transport that sends each request under a policy: ``httpx2.Client(transport=Transport(payments))``.

    ``policy`` is a Dependency, a view of one, or a Retry; ``wrap`` the transport that sends (default: a new
    ``httpx2.HTTPTransport()``); the rest are the fields of ``perdure.integrations.Options``. One request says
    otherwise with ``extensions={"perdure": {"retry": None}}`` or in a ``perdure.integrations.override`` block.

    Raises ConfigError for values that cannot work. As thread safe as the wrapped transport.
    """

    def __init__(
        self,
        policy: Dependency | View | Retry,
        wrap: httpx2.BaseTransport | None = None,
        **options: Unpack[Given],
    ) -> None:
        super().__init__(
            httpx2, policy, httpx2.HTTPTransport() if wrap is None else wrap, Options.of(options)
        )


class AsyncTransport(atransports.AsyncBase, httpx2.AsyncBaseTransport):
    """The same for ``httpx2.AsyncClient``, under asyncio and trio.

    Parameters and errors as for Transport. As task safe as the wrapped transport.
    """

    def __init__(
        self,
        policy: Dependency | View | Retry,
        wrap: httpx2.AsyncBaseTransport | None = None,
        **options: Unpack[Given],
    ) -> None:
        super().__init__(
            httpx2, policy, httpx2.AsyncHTTPTransport() if wrap is None else wrap, Options.of(options)
        )


class _Client(httpx2.Client):
    """Says which bodies it will read whole."""

    def send(self, request: httpx2.Request, *, stream: bool = False, **arguments: Any) -> httpx2.Response:
        if not stream:
            request.extensions[transports.WHOLE] = True
        return super().send(request, stream=stream, **arguments)


class _AsyncClient(httpx2.AsyncClient):
    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **arguments: Any
    ) -> httpx2.Response:
        if not stream:
            request.extensions[transports.WHOLE] = True
        return await super().send(request, stream=stream, **arguments)


def client(
    policy: Dependency | View | Retry, *, options: Options | None = None, **arguments: Any
) -> httpx2.Client:
    """An ``httpx2.Client`` that sends everything under the policy; ``arguments`` are those of ``httpx2.Client``.

    Bodies that are not streamed are read inside the attempt, so that one which is cut short is asked for again.

    Its timeouts are those of the dependency, where it has some and no ``timeout`` is given. Proxies from arguments
    or the environment are used, guarded as well. The client is the caller's to close, and thread safe.
    """
    made, given = (
        _Client(**transports.timed(policy, httpx2.Timeout, arguments)),
        check_options(options).given(),
    )
    return transports.guard(made, lambda inner: Transport(policy, inner, **given))  # type: ignore[no-any-return]


def async_client(
    policy: Dependency | View | Retry, *, options: Options | None = None, **arguments: Any
) -> httpx2.AsyncClient:
    """An ``httpx2.AsyncClient`` that sends everything under the policy; see ``client``. Task safe."""
    made, given = (
        _AsyncClient(**transports.timed(policy, httpx2.Timeout, arguments)),
        check_options(options).given(),
    )
    return transports.guard(made, lambda inner: AsyncTransport(policy, inner, **given))  # type: ignore[no-any-return]

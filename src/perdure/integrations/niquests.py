"""perdure for niquests: adapters, and sessions that have them, sync and async.

session = perdure.integrations.niquests.session(payments)
session.get("https://api.example.com/orders/17")
"""

# niquests takes the place of urllib3, so it is not there where types are checked: what is its own is unknown.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportAttributeAccessIssue=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import warnings

import niquests  # type: ignore[import-not-found] # as said above
from niquests.adapters import (  # type: ignore[import-not-found] # as above
    AsyncBaseAdapter,
    AsyncHTTPAdapter,
    BaseAdapter,
    HTTPAdapter,
)

from perdure.checks import refuse
from perdure.integrations.shared import aadapters, adapters
from perdure.integrations.shared.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Unpack

    from perdure.dependency import Dependency, View
    from perdure.integrations.shared.options import Given
    from perdure.policies import Retry

__all__ = ["Adapter", "AsyncAdapter", "async_session", "session"]


class Adapter(adapters.Base, BaseAdapter):  # type: ignore[misc] # as above
    """An adapter that sends each request under a policy: ``session.mount("https://", Adapter(payments))``.

    ``policy`` is a Dependency, a view of one, or a Retry; ``wrap`` the adapter that sends (default: a new
    ``HTTPAdapter()``); the rest are fields of ``perdure.integrations.Options``. Requests in a
    ``perdure.integrations.override`` block are treated otherwise. Bodies of requests that do not stream are read
    inside the attempt. A multiplexed session gets each answer before it sends the next request, and one warning.

    Raises ConfigError for values that cannot work, an adapter with ``max_retries`` among them. As thread safe as
    the wrapped adapter.
    """

    def __init__(
        self, policy: Dependency | View | Retry, wrap: BaseAdapter | None = None, **options: Unpack[Given]
    ) -> None:
        super().__init__(
            niquests, policy, _single(HTTPAdapter() if wrap is None else wrap), Options.of(options)
        )

    def send(self, request: Any, stream: Any = None, timeout: Any = None, **settings: Any) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        return super().send(request, stream, timeout, **_in_turn(self, settings))


class AsyncAdapter(aadapters.AsyncBase, AsyncBaseAdapter):  # type: ignore[misc] # as above
    """The same for ``niquests.AsyncSession``: ``session.mount("https://", AsyncAdapter(payments))``.

    ``wrap`` is an ``AsyncHTTPAdapter()`` by default. Answers to ``stream=True`` are niquests' ``AsyncResponse``.

    Raises ConfigError for values that cannot work, an adapter with ``max_retries`` among them. As task safe as
    the wrapped adapter, and of one loop as that is.
    """

    def __init__(
        self,
        policy: Dependency | View | Retry,
        wrap: AsyncBaseAdapter | None = None,
        **options: Unpack[Given],
    ) -> None:
        super().__init__(
            niquests, policy, _single(AsyncHTTPAdapter() if wrap is None else wrap), Options.of(options)
        )

    async def send(self, request: Any, stream: Any = None, timeout: Any = None, **settings: Any) -> Any:
        """Send a request under the policy; the last response where attempts are used up."""
        return await super().send(request, stream, timeout, **_in_turn(self, settings))


def session(policy: Dependency | View | Retry, **options: Unpack[Given]) -> niquests.Session:
    """A ``niquests.Session`` that sends everything under the policy; ``options`` are those of Adapter.

    The caller's to close; as thread safe as a session is.
    """
    made = _Session()
    for prefix, wrapped in list(made.adapters.items()):
        made.mount(prefix, Adapter(policy, wrapped, **options))
    return made


def async_session(policy: Dependency | View | Retry, **options: Unpack[Given]) -> niquests.AsyncSession:
    """A ``niquests.AsyncSession`` that sends everything under the policy; ``options`` are those of AsyncAdapter.

    The caller's to close; of one loop, as sessions are.
    """
    made = _AsyncSession()
    for prefix, wrapped in list(made.adapters.items()):
        made.mount(prefix, AsyncAdapter(policy, wrapped, **options))
    return made


class _Session(niquests.Session):  # type: ignore[misc] # as above
    def send(self, request: Any, **settings: Any) -> Any:
        _keep_adapters(self)
        return super().send(request, **settings)


class _AsyncSession(niquests.AsyncSession):  # type: ignore[misc] # as above
    async def send(self, request: Any, **settings: Any) -> Any:
        _keep_adapters(self)
        return await super().send(request, **settings)


def _keep_adapters(used: Any) -> None:
    """Open the resolver of a session that was closed: niquests would mount new adapters, which know no policy."""
    if not used.resolver.is_available():
        used.resolver = used.resolver.recycle()


def _single(wrap: Any) -> Any:
    """An adapter that does not retry by itself."""
    retries = getattr(wrap, "max_retries", 0)
    if getattr(retries, "total", retries) not in (0, False):
        raise refuse("wrap", "must be an adapter with max_retries=0, as the policy retries", retries)
    return wrap


def _in_turn(adapter: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without promises: an answer that is not there yet cannot be judged, nor asked for again."""
    if settings.get("multiplexed"):
        settings["multiplexed"] = False
        if not vars(adapter).get("_has_warned"):
            adapter._has_warned = True
            warnings.warn(
                "multiplexed=True: under a perdure policy each answer is awaited before the next request is sent; "
                "for requests side by side use threads or tasks",
                RuntimeWarning,
                stacklevel=3,
            )
    return settings

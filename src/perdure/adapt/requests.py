"""requests and niquests, whose sessions retry in the adapters that are mounted."""

from __future__ import annotations

from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]


def knows(client: Any) -> bool:
    """Whether it is a session."""
    return hasattr(client, "adapters") and hasattr(client, "mount")


def without_retries(client: Any) -> Any:
    """As an adapter is by default: errors come out as they are, and redirects are the session's."""
    for adapter in _adapters(client):
        adapter.max_retries = type(adapter.max_retries)(0, read=False)
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """A session has none of its own, so each adapter fills them in where a call has none."""
    for adapter in _adapters(client):
        adapter.send = _timed(adapter, (times.connect, times.read))
    return client


def _timed(adapter: Any, default: tuple[float | None, float | None]) -> Any:
    send: Any = adapter.__class__.send  # not what an earlier call of this has put there

    @wraps(send)
    def timed(request: Any, stream: bool = False, timeout: Any = None, **rest: Any) -> Any:  # noqa: FBT001, FBT002
        return send(adapter, request, stream=stream, timeout=default if timeout is None else timeout, **rest)

    return timed


def retries(client: Any) -> int | None:
    """The most that any adapter makes of one request; `False` and a `total` of None leave the other counters."""
    return max((_most(adapter.max_retries) for adapter in _adapters(client)), default=0)


def _most(retry: Any) -> int:
    total = retry.total
    if total is False:
        return 0
    if total is None:
        return sum(int(getattr(retry, name) or 0) for name in ("connect", "read", "status", "other"))
    return int(total)


def _adapters(client: Any) -> Iterator[Any]:
    return (adapter for adapter in client.adapters.values() if hasattr(adapter, "max_retries"))

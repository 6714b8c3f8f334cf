"""httpx and httpx2, and clients that are little more than one of them (ollama)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["four", "knows", "retries", "with_timeouts", "without_retries"]


def knows(client: Any) -> bool:
    """Whether it is a client of either colour, or holds one."""
    return hasattr(_inner(client), "_transport")


def without_retries(client: Any) -> Any:
    """Their one retry is of connecting, `HTTPTransport(retries=)`; changed in place."""
    for pool in _pools(_inner(client)):
        pool._retries = 0
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """Changed in place."""
    _inner(client).timeout = four(times)
    return client


def four(times: Times) -> tuple[float | None, float | None, float | None, float | None]:
    """Connect, read, write and pool, the form that a Timeout is made from."""
    return times.connect, times.read, times.read, times.connect


def retries(client: Any) -> int | None:
    """The most of any transport."""
    return max((int(pool._retries) for pool in _pools(_inner(client))), default=0)


def _inner(client: Any) -> Any:
    return client if hasattr(client, "_transport") else getattr(client, "_client", None)


def _pools(client: Any) -> Iterator[Any]:
    """The connection pools of its transports; transports of another make have none."""
    for transport in (client._transport, *client._mounts.values()):
        pool = getattr(transport, "_pool", None)
        if hasattr(pool, "_retries"):
            yield pool

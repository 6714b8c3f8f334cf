"""openai and anthropic, whose clients are generated alike."""

from __future__ import annotations

from perdure.adapt import httpx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]


def knows(client: Any) -> bool:
    """Whether it is a client: parts of it, such as `client.chat`, have no options of their own."""
    return hasattr(client, "with_options") and hasattr(client, "max_retries")


def without_retries(client: Any) -> Any:
    """A copy with the same connections; the HTTP client below may retry connecting."""
    httpx.without_retries(client._client)
    return client.with_options(max_retries=0)


def with_timeouts(client: Any, times: Times) -> Any:
    """A copy with the same connections: the HTTP client itself may belong to others."""
    timeout: Any = client._client.timeout.__class__
    return client.with_options(timeout=timeout(httpx.four(times)))


def retries(client: Any) -> int | None:
    """As the client says, and what the HTTP client below does while it connects."""
    return int(client.max_retries) + (httpx.retries(client._client) or 0)

"""google-genai: a client, its async twin and their parts share one inner client."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]


def knows(client: Any) -> bool:
    """Whether it is a client or the one inside it."""
    return hasattr(_inner(client), "_http_options")


def without_retries(client: Any) -> Any:
    """Changed in place, for both colours. Uploads keep three retries, which are written into the library."""
    inner = _inner(client)
    once = import_module("google.genai.types").HttpRetryOptions(attempts=1)
    inner._http_options.retry_options = once
    for retrying in (inner._retry, inner._async_retry):
        retrying.stop = import_module("tenacity").stop_after_attempt(1)
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """One number for everything, in milliseconds; it is also what the server is told."""
    whole = times.whole
    _inner(client)._http_options.timeout = None if whole is None else max(1, round(whole * 1000))
    return client


def retries(client: Any) -> int | None:
    """None unless retry options were given; five attempts if they do not say how many."""
    options = _inner(client)._http_options.retry_options
    if options is None:
        return 0
    return max(0, (5 if options.attempts is None else options.attempts) - 1)


def _inner(client: Any) -> Any:
    return client if hasattr(client, "_http_options") else getattr(client, "_api_client", None)

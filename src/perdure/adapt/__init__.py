"""Clients that retry by themselves: ``perdure.adapt(client)`` switches that off, ``retries_of`` counts them.

Layers that retry multiply: 4 attempts of a policy over the 3 requests of an SDK are 12 requests, and the deadline,
the budget and the logs see 4. No client library is imported here: a client is known by the names of its classes.
"""

from __future__ import annotations

import sys
from types import ModuleType

from perdure.adapt import known
from perdure.adapt.said import say_once
from perdure.adapt.times import timeouts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from perdure.dependency import Dependency, View
    from perdure.parts import Timeouts
    from perdure.policies import Retry

    C = TypeVar("C")

__all__ = ["adapt", "retries_of", "warn_if_retrying"]

_UNREADABLE = (AttributeError, ImportError, KeyError, TypeError, ValueError)
"""What a release of a library whose inside has changed makes of the attempt to adapt it."""


def adapt(client: C, policy: Dependency | View | Retry | Timeouts | None = None) -> C:
    """Switch off a client's own retries, and give it the timeouts of ``policy``; returns the client to use.

    openai and anthropic clients come back as copies that share the connections; all others are changed in place:
    google-genai, boto3 and botocore (clients, resources, Sessions; a Config as a copy), azure pipelines, litellm
    Routers, ollama, requests, urllib3, httpx and httpx2. Of litellm's functions, which have no client, the result
    is a partial. Redirects are followed as before.

    ``policy`` gives ``connect`` and ``read`` seconds: those of its Timeouts, else its ``attempt_timeout`` for both.
    None: the client keeps its timeouts. What cannot be switched off or handed over is said once per client, in a
    RuntimeWarning that names it. Calls are not guarded by this: use ``policy.call(client.method, ...)``.

    Raises ConfigError for a ``policy`` of another kind. Adapt a client before threads and tasks share it.
    """
    times = timeouts_of(policy)
    adapter = known.adapter_of(client)
    if adapter is None:
        say_once(client, f"perdure does not know {known.name_of(client)}: its own retries and timeouts stay")
        return client
    try:
        adapted: C = adapter.without_retries(client)
    except _UNREADABLE as error:
        say_once(client, f"the retries of {known.name_of(client)} cannot be switched off: {error}")
        return client
    if times is not None:
        try:
            adapted = adapter.with_timeouts(adapted, times)
        except _UNREADABLE as error:
            say_once(adapted, f"{known.name_of(client)} does not take timeouts: {error}")
    return adapted


def retries_of(client: object) -> int | None:
    """How many requests a client, or a function of one, makes on its own after the first has failed.

    0: none. None: it is not known. Reads only, never raises and imports no client library. Safe from any thread.
    """
    found = known.client_of(client)
    if found is None:
        return None
    adapter = known.adapter_of(found)
    try:
        return None if adapter is None else adapter.retries(found)
    except Exception:  # noqa: BLE001 - a release whose inside has changed is one that is not known
        return None


def warn_if_retrying(function: Callable[..., Any], attempts: int | None) -> None:
    """Say once per client that a guarded function makes requests again on its own.

    For the engine, when a function is decorated or given to ``call``. Never raises; safe from any thread.
    """
    client = known.client_of(function)
    if client is None or attempts == 1:
        return
    retries = retries_of(client)
    if retries:
        most = "" if attempts is None else f": up to {attempts * (retries + 1)} requests per call"
        say_once(
            client,
            f"{known.name_of(client)} retries by itself ({retries} more requests for each attempt){most}; "
            "switch that off with perdure.adapt(client)",
        )


class _Callable(ModuleType):
    """So that ``perdure.adapt(client)`` works whether or not ``perdure.adapt`` was imported as a package."""

    __call__ = staticmethod(adapt)


sys.modules[__name__].__class__ = _Callable

"""botocore and boto3: clients, resources, sessions and the Config that they are made with."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]

_DEFAULT = {"legacy": 5, "standard": 3, "adaptive": 3}
_DYNAMODB = {"legacy": 10, "standard": 4, "adaptive": 4}
"""Requests in all, where no number was given."""


def knows(client: Any) -> bool:
    """Whether it is a client, a resource, a session of either package, or a Config."""
    return _client(client) is not None or _session(client) is not None or _is_config(client)


def without_retries(client: Any) -> Any:
    """Clients and sessions are changed in place, of a Config comes a copy.

    What a client registered when it was made is taken out; redirects to a bucket's region stay.
    """
    if _is_config(client):
        return client.merge(_config(retries={**(client.retries or {}), "total_max_attempts": 1}))
    if (session := _session(client)) is not None:
        return _by_default(client, session, retries={"total_max_attempts": 1})
    inner = _client(client)
    service = inner.meta.service_model.service_id.hyphenize()
    inner.meta.events.unregister(f"needs-retry.{service}", unique_id=f"retry-config-{service}")
    inner.meta.config.retries = {**(inner.meta.config.retries or {}), "total_max_attempts": 1}
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """As for retries; in a client that exists they stand in the pools that its HTTP session makes."""
    values = {"connect_timeout": times.connect, "read_timeout": times.read}
    if _is_config(client):
        return client.merge(_config(**values))
    if (session := _session(client)) is not None:
        return _by_default(client, session, **values)
    inner = _client(client)
    http = inner._endpoint.http_session
    http._timeout = type(http._timeout)(connect=times.connect, read=times.read)
    for manager in (http._manager, *http._proxy_managers.values()):
        manager.connection_pool_kw["timeout"] = http._timeout
    inner.meta.config.connect_timeout, inner.meta.config.read_timeout = times.connect, times.read
    return client


def retries(client: Any) -> int | None:
    """As configured, else the default of the retry mode; for a session, of the clients it makes."""
    if (session := _session(client)) is not None:
        config = session.get_default_client_config()
        return _count({**_asked(session), **((config and config.retries) or {})}, "")
    if _is_config(client):
        return _count(client.retries or {}, "")
    inner = _client(client)
    return _count(inner.meta.config.retries or {}, inner.meta.service_model.service_name)


def _asked(session: Any) -> dict[str, Any]:
    """What the environment and the user's files say."""
    names = {"mode": "retry_mode", "total_max_attempts": "max_attempts"}
    found = {key: session.get_config_variable(name) for key, name in names.items()}
    return {key: value for key, value in found.items() if value is not None}


def _count(given: dict[str, Any], service: str) -> int | None:
    if "total_max_attempts" in given:
        return max(0, int(given["total_max_attempts"]) - 1)
    if "max_attempts" in given:  # of a Config, where it means retries
        return int(given["max_attempts"])
    table = _DYNAMODB if service.startswith("dynamodb") else _DEFAULT
    most = table.get(given.get("mode", ""))
    return None if most is None else most - 1


def _by_default(client: Any, session: Any, **values: Any) -> Any:
    """Have a session make its clients with these values, besides those it was given."""
    config, known = _config(**values), session.get_default_client_config()
    session.set_default_client_config(config if known is None else known.merge(config))
    return client


def _config(**values: Any) -> Any:
    return import_module("botocore.config").Config(**values)


def _client(client: Any) -> Any:
    """The client itself, or that of a resource."""
    meta = getattr(client, "meta", None)
    return (
        client
        if hasattr(meta, "service_model") and hasattr(meta, "events")
        else getattr(meta, "client", None)
    )


def _session(client: Any) -> Any:
    """The session of botocore, also out of boto3's."""
    inner = getattr(client, "_session", client)
    return inner if hasattr(inner, "set_default_client_config") else None


def _is_config(client: Any) -> bool:
    return hasattr(client, "retries") and hasattr(client, "merge")

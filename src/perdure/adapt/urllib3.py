"""urllib3: managers hand their retries and timeouts to the pools they make, pools have them themselves."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]


def knows(client: Any) -> bool:
    """Whether it is a manager, or a pool of one host."""
    return hasattr(client, "connection_pool_kw") or (
        hasattr(client, "urlopen") and hasattr(client, "retries")
    )


def without_retries(client: Any) -> Any:
    """Redirects are still followed, as they are no retries; answers come back whatever their status."""
    retry = _retry_of(client).new(
        connect=0, read=0, status=0, other=0, status_forcelist=(), respect_retry_after_header=False
    )
    _set(client, "retries", retry)
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """Pools that exist are left to the calls that use them: a manager makes new ones for new values."""
    _set(client, "timeout", import_module("urllib3").Timeout(connect=times.connect, read=times.read))
    return client


def retries(client: Any) -> int | None:
    """Of a request that fails to connect; `False` is none."""
    retry = _retry_of(client)
    if retry.total is False or retry.connect == 0:
        return 0
    return int(retry.connect or 0) if retry.total is None else int(retry.total)


def _set(client: Any, name: str, value: Any) -> None:
    if hasattr(client, "connection_pool_kw"):
        client.connection_pool_kw[name] = value
    else:
        setattr(client, name, value)


def _retry_of(client: Any) -> Any:
    """As urllib3 reads it: None is its default, a number or False is turned into one."""
    kind = import_module("urllib3").Retry
    given = (
        client.connection_pool_kw.get("retries") if hasattr(client, "connection_pool_kw") else client.retries
    )
    return kind.from_int(given)

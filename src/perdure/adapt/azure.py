"""azure-core: every client of Azure has a pipeline of policies, one of which retries up to ten times."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.adapt.times import Times

__all__ = ["knows", "retries", "with_timeouts", "without_retries"]


def knows(client: Any) -> bool:
    """Whether it has a pipeline."""
    return hasattr(_pipeline(client), "_impl_policies")


def without_retries(client: Any) -> Any:
    """Changed in place. Redirects have a policy of their own."""
    for policy in _retrying(client):
        policy.total_retries = 0
    return client


def with_timeouts(client: Any, times: Times) -> Any:
    """Defaults of the transport; a call may still give its own."""
    config = _pipeline(client)._transport.connection_config
    config.timeout, config.read_timeout = times.connect, times.read
    return client


def retries(client: Any) -> int | None:
    """The most of any policy in the pipeline."""
    return max((int(policy.total_retries) for policy in _retrying(client)), default=0)


def _retrying(client: Any) -> Iterator[Any]:
    policies = _pipeline(client)._impl_policies
    return (policy for policy in policies if hasattr(policy, "total_retries"))


def _pipeline(client: Any) -> Any:
    """Of a pipeline client, or of the generated client that holds one."""
    for holder in (client, getattr(client, "_client", None)):
        pipeline = getattr(holder, "_pipeline", None)
        if pipeline is not None:
            return pipeline
    return None

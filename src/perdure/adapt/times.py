"""The timeouts that a policy has for the client under it."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.checks import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Times", "timeouts_of"]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds for connecting, and for each wait for bytes; None: no bound. Immutable."""

    connect: float | None
    read: float | None

    @property
    def whole(self) -> float | None:
        """For clients that have one number for everything."""
        return None if self.connect is None or self.read is None else self.connect + self.read


def timeouts_of(policy: Any) -> Times | None:
    """Connect and read of a Dependency, a view, a Timeouts or a Retry; None where it bounds no attempt.

    Policies are known by what they have, as this stands below them.
    """
    if policy is None:
        return None
    if hasattr(policy, "connect") and hasattr(policy, "read"):
        return Times(policy.connect, policy.read)
    guard = getattr(policy, "_guard", None)
    retry = policy if guard is None else guard.retry
    if guard is not None and guard.timeouts is not None:
        return Times(guard.timeouts.connect, guard.timeouts.read)
    if not hasattr(retry, "attempt_timeout"):
        raise refuse("policy", "must be a Dependency, a Retry, a Timeouts, or None", policy)
    bound = retry.attempt_timeout
    return None if bound is None else Times(bound, bound)

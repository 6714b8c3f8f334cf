"""The environment of the command, its verification and hooks: facts about the run in PERDURE_* variables."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.cli.record import Attempt, Ending, Request

__all__ = ["MOMENT", "command_environment", "giveup_environment", "new_key", "retry_environment"]

MOMENT = 1e8
"""A PERDURE_DEADLINE of at least this much is a moment (seconds since 1970), not a duration: three years."""


def command_environment(request: Request, attempts: list[Attempt], evidence: str | None) -> dict[str, str]:
    """What the attempt after ``attempts`` may know; those of an outer run that do not apply are removed."""
    env = dict(os.environ)
    _set(env, "PERDURE_ATTEMPT", attempts[-1].number + 1 if attempts else 1)
    _set(env, "PERDURE_MAX_ATTEMPTS", request.allowed)
    _set(env, "PERDURE_DEADLINE", None if request.ends_at is None else f"{request.ends_at:.3f}")
    _set(env, "PERDURE_IDEMPOTENCY_KEY", request.idempotency_key)
    _set(env, "PERDURE_LAST_EXIT", attempts[-1].verdict.code if attempts else None)
    _set(env, "PERDURE_EVIDENCE", evidence)
    return env


def retry_environment(request: Request, attempts: list[Attempt], evidence: str | None) -> dict[str, str]:
    """For ``--on-retry``: that of the attempt about to begin, and why it was needed."""
    env = command_environment(request, attempts, evidence)
    _set(env, "PERDURE_REASON", attempts[-1].verdict.event)
    _set(env, "PERDURE_DELAY", attempts[-1].delay)
    return env


def giveup_environment(
    request: Request, ending: Ending, attempts: list[Attempt], evidence: str | None
) -> dict[str, str]:
    """For ``--on-giveup``: the last attempt, and how the run ended."""
    env = command_environment(request, attempts, evidence)
    _set(env, "PERDURE_ATTEMPT", ending.attempts)
    _set(env, "PERDURE_REASON", attempts[-1].verdict.event if attempts else None)
    _set(env, "PERDURE_STOP", ending.stop)
    _set(env, "PERDURE_EXIT", ending.code)
    _set(env, "PERDURE_ELAPSED", f"{ending.elapsed:.3f}")
    return env


def new_key() -> str:
    """A fresh idempotency key: 128 random bits in hexadecimal."""
    return os.urandom(16).hex()


def _set(env: dict[str, str], name: str, value: object) -> None:
    if value is None:
        env.pop(name, None)
    else:
        env[name] = str(value)

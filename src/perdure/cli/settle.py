"""From options, environment and policy file to one ``Request``; refuses what contradicts itself."""

from __future__ import annotations

import os
import sys

from perdure import clock
from perdure.cli.environment import MOMENT, new_key
from perdure.cli.loop import CommandFailed, CommandStopped
from perdure.cli.options import Bad
from perdure.cli.record import Request, Sharing
from perdure.cli.rules import Rules
from perdure.cli.values import NO_CODES, read_deadline, read_exit_map
from perdure.core.backoff import DEFAULT, Exponential
from perdure.errors import ConfigError
from perdure.policies import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["deadline_from_environment", "outer_end", "settle"]

OUTER = "PERDURE_DEADLINE"


def settle(given: dict[str, Any]) -> Request:
    """Settle the values of the options (None: not given). Raises Bad for what cannot be."""
    _refuse_contradictions(given)
    given = {**given, "deadline": given["deadline"] or deadline_from_environment()}
    policy, ends_at = _within_outer_end(_policy(given), outer_end())
    try:
        exit_map = read_exit_map([text for text, _ in given["map_exit"]], "--map-exit")
    except ConfigError as error:
        raise Bad(str(error)) from None
    return Request(
        command=given["command"],
        policy=policy,
        rules=_rules(given, policy),
        grace=given["grace"],
        verify=given["verify"],
        on_retry=given["on_retry"],
        on_giveup=given["on_giveup"],
        stdin=not given["no_stdin"],
        stdin_limit=given["stdin_limit"],
        hold=given["hold"],
        exit_map=exit_map,
        idempotency_key=given["idempotency_key"] or new_key(),
        ends_at=ends_at,
        quiet=given["quiet"],
        progress=not given["no_progress"],
        json=given["json"],
        report=given["report"],
        events=given["events"],
        sharing=_sharing(given),
    )


def _refuse_contradictions(given: dict[str, Any]) -> None:
    if not given["command"][0]:
        raise Bad("COMMAND must be the name of a program, got ''")
    if given["until_fails"]:
        for name in ("verify", "retry_exit", "retry_match", "breaker", "budget"):
            if given[name]:
                option = "--" + name.replace("_", "-")
                raise Bad(f"--until-fails looks for any failure and does not go with {option}")
        if given["consecutive"] > 1:
            raise Bad(f"--until-fails does not go with --consecutive, got {given['consecutive']}")
    if sys.platform == "win32":
        _refuse_on_windows(given)
    if given["config"] and not given["policy"]:
        raise Bad(
            f"--config names a file of policies; say which with --policy, got --config {given['config']!r}"
        )


def _rules(given: dict[str, Any], policy: Retry) -> Rules:
    wanted, allowed = given["consecutive"], policy.attempts
    if allowed is not None and wanted > allowed:
        raise Bad(f"--consecutive must be from 1 to --attempts ({allowed}), got {wanted}")
    return Rules(
        retry_exit=given["retry_exit"],
        stop_exit=given["stop_exit"] or NO_CODES,
        retry_match=tuple(given["retry_match"]),
        stop_match=tuple(given["stop_match"]),
        until_fails=given["until_fails"],
        consecutive=wanted,
    )


def _sharing(given: dict[str, Any]) -> Sharing | None:
    for option, needs in (
        ("breaker_failures", "breaker"),
        ("breaker_cooldown", "breaker"),
        ("lock_wait", "lock"),
    ):
        if given[option] is not None and given[needs] is None:
            raise Bad(f"--{option.replace('_', '-')} goes with --{needs} NAME, got none")
    if given["breaker"] is None and given["budget"] is None and given["lock"] is None:
        return None
    plain = Sharing()
    failures, cooldown, wait = given["breaker_failures"], given["breaker_cooldown"], given["lock_wait"]
    return Sharing(
        breaker=given["breaker"],
        budget=given["budget"],
        lock=given["lock"],
        failures=plain.failures if failures is None else failures,
        cooldown=plain.cooldown if cooldown is None else cooldown,
        lock_wait=plain.lock_wait if wait is None else wait,
        state=given["state"],
    )


def _refuse_on_windows(given: dict[str, Any]) -> None:
    from perdure.cli.child.replay import stdin_kind

    for name in ("hold", "retry_match", "stop_match"):
        if given[name]:
            raise Bad(f"--{name.replace('_', '-')} is not available on Windows")
    if not given["no_stdin"] and stdin_kind() == "stream":
        raise Bad("a piped stdin cannot be replayed on Windows; redirect it from a file, or use --no-stdin")


# The policy


def _policy(given: dict[str, Any]) -> Retry:
    base = _named_policy(given["policy"], given["config"]) if given["policy"] else Retry(deadline=None)
    if base.backoff is DEFAULT:  # the same, but for "throttled" failures, of which a command has none
        base = base.replace(backoff=Exponential())
    changes: dict[str, Any] = {"on": CommandFailed, "never": CommandStopped, "name": given["command"][0]}
    changes |= {"reject": None, "refresh": None, "on_exhausted": None, "safety": None, "hint_cap": 0}
    for option, field in (("wait", "backoff"), ("deadline", "deadline"), ("timeout", "attempt_timeout")):
        if given[option] is not None:
            changes[field] = given[option]
    if given["attempts"] is not None:
        changes["attempts"] = given["attempts"][0]
    if changes.get("attempts", base.attempts) is None and changes.get("deadline", base.deadline) is None:
        raise Bad('--attempts unlimited needs --deadline (a duration, or "forever"), got none')
    try:
        return base.replace(**changes)
    except ConfigError as error:
        raise Bad(str(error)) from None


def _named_policy(name: str, path: str | None) -> Retry:
    from perdure.cli.policies import find_policy

    return find_policy(name, path)


# Ends


def outer_end() -> float | None:
    """The moment that an outer ``perdure run`` set for its command."""
    try:
        moment = float(os.environ.get(OUTER, ""))
    except ValueError:
        return None
    return moment if moment >= MOMENT else None


def deadline_from_environment() -> float | None:
    """The duration that the variable gives for ``--deadline``; None where it is an outer end. Raises Bad."""
    text = os.environ.get(OUTER, "")
    if not text or outer_end() is not None:
        return None
    try:
        return read_deadline(text, OUTER)
    except ConfigError as error:
        raise Bad(str(error)) from None


def _within_outer_end(policy: Retry, outer: float | None) -> tuple[Retry, float | None]:
    """The policy cut to an outer run's end, and the moment at which it ends (seconds since 1970)."""
    now = clock.wall()
    own = None if policy.deadline is None or policy.deadline == float("inf") else now + policy.deadline
    if outer is None or (own is not None and own <= outer):
        return policy, own
    left = outer - now
    if left <= 0:  # an attempt that has begun may finish, so its own command runs, once
        return policy.replace(attempts=1), outer
    return policy.replace(deadline=left), outer

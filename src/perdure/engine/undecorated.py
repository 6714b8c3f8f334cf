"""``Dependency.call`` and ``Dependency.outcome``: calls of functions that are not decorated."""

from __future__ import annotations

from perdure.colour import ASYNC, ASYNC_GENERATOR, GENERATOR, is_awaitable
from perdure.engine import dependent, ending
from perdure.engine.calls import colour_of
from perdure.engine.clients import look_at
from perdure.engine.fused import wrap_guarded
from perdure.engine.guarded import GuardedRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from perdure.engine.guard import Guard
    from perdure.outcome import Outcome

__all__ = ["call", "outcome"]


def call(guard: Guard, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of any colour."""
    look_at(fn, guard.retry.attempts)
    kind = colour_of(fn)
    if kind in {GENERATOR, ASYNC_GENERATOR}:
        return wrap_guarded(guard, fn, None)(*args, **kwargs)
    run = GuardedRun(guard, fn, args, kwargs)
    return dependent.acall(run) if kind == ASYNC else dependent.call(run)


def outcome(guard: Guard, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outcome of a call of a function of any colour."""
    look_at(fn, guard.retry.attempts)
    return (_aoutcome_of if colour_of(fn) == ASYNC else _outcome_of)(guard, fn, args, kwargs)


def _outcome_of(
    guard: Guard, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Outcome[Any]:
    run = GuardedRun(guard, fn, args, kwargs)
    try:
        value = dependent.call(run)
    except Exception as error:  # noqa: BLE001 - this is what outcome() promises
        return ending.outcome(run, None, error)
    if is_awaitable(value):
        return _aoutcome(run, value)  # type: ignore[return-value] # as the function turned out to be async
    return ending.outcome(run, value, None)


async def _aoutcome_of(
    guard: Guard, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Outcome[Any]:
    run = GuardedRun(guard, fn, args, kwargs)
    return await _aoutcome(run, dependent.acall(run))


async def _aoutcome(run: GuardedRun, begun: Awaitable[Any]) -> Outcome[Any]:
    try:
        value = await begun
    except Exception as error:  # noqa: BLE001 - this is what outcome() promises
        return ending.outcome(run, None, error)
    return ending.outcome(run, value, None)

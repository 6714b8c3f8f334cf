"""``policy.call`` and ``policy.outcome``: calls of functions that are not decorated."""

from __future__ import annotations

from perdure.colour import ASYNC, ASYNC_GENERATOR, GENERATOR, colour, is_awaitable
from perdure.engine import ending, sync
from perdure.engine.clients import look_at
from perdure.engine.fused import wrap
from perdure.engine.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from perdure.outcome import Outcome
    from perdure.policies import Retry


def call(policy: Retry, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of any colour, guarded."""
    look_at(fn, policy.attempts)
    kind = colour_of(fn)
    if kind in {GENERATOR, ASYNC_GENERATOR}:
        return wrap(policy, fn)(*args, **kwargs)
    run = Run(policy, fn, args, kwargs)
    if kind == ASYNC:
        return _acall(run)
    run.begin()
    return sync.drive(run)


def outcome(policy: Retry, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same, with the outcome as a value; a generator's is that of making it, as nothing ran yet."""
    look_at(fn, policy.attempts)
    run = Run(policy, fn, args, kwargs)
    if colour_of(fn) == ASYNC:
        return _aoutcome(run, None)
    try:
        run.begin()
        value = sync.drive(run)
    except Exception as error:  # noqa: BLE001 - this is what outcome() promises
        return ending.outcome(run, None, error)
    if is_awaitable(value):
        return _aoutcome(run, value)
    return ending.outcome(run, value, None)


async def _acall(run: Run) -> Any:
    from perdure.engine import aio

    run.begin()
    return await aio.drive(run)


async def _aoutcome(run: Run, begun: Awaitable[Any] | None) -> Outcome[Any]:
    from perdure.engine import aio

    try:
        if begun is not None:
            value = await begun
        else:
            run.begin()
            value = await aio.drive(run)
    except Exception as error:  # noqa: BLE001 - this is what outcome() promises
        return ending.outcome(run, None, error)
    return ending.outcome(run, value, None)


def colour_of(fn: object) -> str:
    """The colour of what is called; ConfigError for what cannot be."""
    if not callable(fn):
        from perdure.colour import discard
        from perdure.errors import ConfigError

        discard(fn)

        raise ConfigError(
            f"fn must be a callable; give the function and its arguments, not the result of calling it, got {fn!r}"
        )
    return colour(fn)

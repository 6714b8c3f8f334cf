"""What a call gives instead when it failed or was refused."""

from __future__ import annotations

from perdure.colour import discard, is_awaitable
from perdure.engine import logs, telling
from perdure.parts import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.guarded import GuardedRun
    from perdure.parts import Fallback


def instead(run: GuardedRun, error: Exception) -> Any:
    """The value of a sync call that ended with this error; raises it where there is none."""
    value = _ask(run, error)
    if is_awaitable(value) and run.guard.fallback.function is not None:  # type: ignore[union-attr] # there is one
        discard(value)
        trouble = TypeError("it returned an awaitable to a sync call; give it a plain function")
        logs.complain(run.guard.fallback, "fallback=", trouble)
        raise error
    _used(run, error)
    return value


async def ainstead(run: GuardedRun, error: Exception) -> Any:
    """The same for an async call, whose fallback may be async too."""
    value = _ask(run, error)
    if is_awaitable(value) and run.guard.fallback.value is UNSET:  # type: ignore[union-attr] # there is one
        value = await value
    _used(run, error)
    return value


def remember(run: GuardedRun, value: Any) -> None:
    """Keep what a call returned, where the fallback gives the last good value."""
    fallback = run.guard.fallback
    if fallback is not None and fallback.last_good is not None:
        what = _what(run)
        if what is not None:
            run.guard.core.remember(what, value)


def _ask(run: GuardedRun, error: Exception) -> Any:
    fallback: Fallback | None = run.guard.fallback
    if fallback is None:
        raise error
    if fallback.value is not UNSET:
        return fallback.value
    if fallback.function is not None:
        if _takes_error(fallback.function):
            return fallback.function(error, *run.args, **run.kwargs)
        return fallback.function(*run.args, **run.kwargs)
    if fallback.to is not None:
        return fallback.to.call(run.fn, *run.args, **run.kwargs)
    what = _what(run)
    found = None if what is None else run.guard.core.recall(what, fallback.last_good or 0.0)
    if found is None:
        raise error
    return found[0]


def _takes_error(function: Callable[..., Any]) -> bool:
    """Whether the first parameter is named ``error``."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return False
    names = code.co_varnames[: code.co_argcount]
    if getattr(function, "__self__", None) is not None:
        names = names[1:]
    return bool(names) and names[0] == "error"


def _what(run: GuardedRun) -> Any:
    """What a value is kept by: key, function and arguments; None where they cannot be compared."""
    named = tuple(sorted(run.kwargs.items())) if run.kwargs else ()
    types = (*map(type, run.args), *(type(value) for _, value in named))  # 1, 1.0 and True are equal
    what = (run.state.key, run.fn, run.args, named, types)
    try:
        hash(what)
    except TypeError:
        return None
    return what


def _used(run: GuardedRun, error: Exception) -> None:
    run.state.count("fallbacks")
    telling.happened(run, "fallback.used", severity="warning", reason=type(error).__name__)

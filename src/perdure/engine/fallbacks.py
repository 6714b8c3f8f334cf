"""What a call gives instead when it failed or was refused."""

from __future__ import annotations

from perdure.colour import discard, is_awaitable
from perdure.engine import logs, telling
from perdure.engine.run import END_OF_ITEMS
from perdure.parts import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from perdure.engine.guarded import GuardedRun
    from perdure.parts import Fallback


def instead(run: GuardedRun, error: Exception) -> Any:
    """The value of a sync call that ended with this error; raises it where there is none."""
    fallback = run.fallback
    try:
        value = _ask(run, fallback, error)
        if fallback is not None and fallback.function is not None and is_awaitable(value):
            discard(value)
            trouble = TypeError("it returned an awaitable to a sync call; give it a plain function")
            logs.complain(fallback, "fallback=", trouble)
            raise error
        _used(run, error)
    finally:
        del error  # where it comes out, its traceback holds this frame
    return value


async def ainstead(run: GuardedRun, error: Exception) -> Any:
    """The same for an async call, whose fallback may be async too."""
    fallback = run.fallback
    try:
        value = _ask(run, fallback, error)
        if fallback is not None and fallback.value is UNSET and is_awaitable(value):
            value = await value
        _used(run, error)
    finally:
        del error  # where it comes out, its traceback holds this frame
    return value


def remember(run: GuardedRun, value: Any) -> None:
    """Keep what a call returned, where the fallback gives the last good value."""
    fallback = run.fallback
    if fallback is not None and fallback.last_good is not None:
        what = _what(run)
        if what is not None:
            try:
                run.guard.core.remember(what, value)
            except Exception:  # noqa: BLE001, S110 - arguments that cannot be compared
                pass


def _ask(run: GuardedRun, fallback: Fallback | None, error: Exception) -> Any:
    try:
        if fallback is None or isinstance(error, END_OF_ITEMS):  # nothing, or no failure
            raise error
        if fallback.value is not UNSET:
            return fallback.value
        if fallback.function is not None:
            # An integration passes more than the user's request, and says how much of it is shown.
            args = run.args[: getattr(run.fn, "__perdure_shown__", None)]
            if _takes_error(fallback.function):
                return fallback.function(error, *args, **run.kwargs)
            return fallback.function(*args, **run.kwargs)
        if fallback.to is not None:
            return fallback.to.call(run.fn, *run.args, **run.kwargs)
        found = _recall(run, fallback.last_good or 0.0)
        if found is None:
            raise error
        return found[0]
    finally:
        del error  # where it comes out, its traceback holds this frame


def _recall(run: GuardedRun, oldest: float) -> tuple[Any] | None:
    what = _what(run)
    try:
        return None if what is None else run.guard.core.recall(what, oldest)
    except Exception:  # noqa: BLE001 - arguments that cannot be compared
        return None


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
    except Exception:  # noqa: BLE001 - an argument that cannot be hashed, for whatever reason
        return None
    return what


def _used(run: GuardedRun, error: Exception) -> None:
    with run.state.lock:
        run.state.count("fallbacks")
    telling.happened(run, "fallback.used", severity="warning", reason=type(error).__name__)

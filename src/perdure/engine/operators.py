"""What operators do to a dependency: isolate and restore it, save its breakers and load them."""

from __future__ import annotations

from perdure import clock
from perdure.checks import check_seconds, refuse
from perdure.engine import logs, telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.engine.guard import Core, Guard
    from perdure.engine.state import State


def isolate(guard: Guard, reason: str, owner: str, expires: float | None) -> None:
    """See ``Dependency.isolate``."""
    for name, value in (("reason", reason), ("owner", owner)):
        if not isinstance(value, str) or not value:
            raise refuse(name, "must be a string that is not empty", value)
    check_seconds("expires", expires, above=0, optional=True)
    until = None if expires is None else clock.monotonic() + expires
    state = guard.fixed_state()
    state.isolate(reason, owner, until)
    telling.news(state)
    _look_up(guard)


def restore(guard: Guard, owner: str | None) -> None:
    """See ``Dependency.restore``: of a whole dependency, its keys are restored too."""
    for state in [guard.fixed_state()] if guard.has_key else guard.core.states():
        state.restore(owner)
        telling.news(state)
    _look_up(guard)


def reset(guard: Guard) -> None:
    """See ``Dependency.reset``."""
    for state in [guard.fixed_state()] if guard.has_key else guard.core.states():
        state.reset()
        telling.news(state)


def _look_up(guard: Guard) -> None:
    for state in () if guard.has_key else guard.core.states()[1:]:
        state.look_up()


def saved(core: Core) -> dict[str, Any]:
    """The breakers of all keys that are text, as plain values."""
    keys = {
        state.key: kept for state in core.states() if isinstance(state.key, str) and (kept := _saved(state))
    }
    return {"version": 1, "name": core.name, "breaker": _saved(core.root), "keys": keys}


def _saved(state: State) -> dict[str, Any] | None:
    with state.lock:
        if state.breaker is None:
            return None
        state.total_ok()  # successes that wrappers only noted become counts, for the breaker to see
        return state.breaker.to_dict(clock.monotonic())


def load(core: Core, data: Any) -> None:
    """See ``Dependency.from_dict``."""
    kept: dict[Any, Any] = data if isinstance(data, dict) else {}  # pyright: ignore[reportUnknownVariableType] # checked piece by piece
    if kept.get("version") != 1:
        logs.warn(f"{core.name}: a saved state was not understood and left out")
        return
    _load(core.root, kept.get("breaker"))
    keys = kept.get("keys")
    for key, one in keys.items() if isinstance(keys, dict) else ():  # pyright: ignore[reportUnknownVariableType] # as above
        state = core.part(key) if isinstance(key, str) else core.root
        if state is not core.root:  # which stands in where there is no room for another key
            _load(state, one)


def _load(state: State, data: Any) -> None:
    if data is None or state.kit.breaker_rule is None:
        return
    try:
        state.load_breaker(data, clock.monotonic())
    except ValueError as error:
        logs.warn(f"{state.name}: a saved breaker was not understood and left out: {error}")

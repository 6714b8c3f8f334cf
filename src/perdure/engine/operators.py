"""What operators do to a dependency: isolate and restore it, save its breakers and load them."""

from __future__ import annotations

from perdure import clock
from perdure.checks import check_seconds, refuse
from perdure.engine import isolating, logs, telling

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
    isolating.isolate(state, reason, owner, until)
    telling.news(state)
    _look_up(guard)


def restore(guard: Guard, owner: str | None) -> None:
    """See ``Dependency.restore``: of a whole dependency, its keys are restored too."""
    for state in [guard.fixed_state()] if guard.has_key else guard.core.states():
        isolating.restore(state, owner)
        telling.news(state)
    _look_up(guard)


def reset(guard: Guard) -> None:
    """See ``Dependency.reset``."""
    for state in [guard.fixed_state()] if guard.has_key else guard.core.states():
        _reset(state)
        telling.news(state)


def _reset(state: State) -> None:
    """Close the breaker, open the gate and fill the budget by hand; isolations stay."""
    with state.lock:
        kit, places, rate, before = state.kit, state.places, state.rate, state.shared
        state.take_kit(kit)
        fresh, state.shared = state.shared, before
        state.take_lease(fresh)
        state.places, state.rate = places, rate
        state.choose_path()
        _count_from_here(state)
        if state.bucket is not None:
            state.bucket = kit.bucket(state.bucket.cap)
            _count_from_here(state)
        if state.breaker is not None:
            state.tell("breaker.closed", reason="reset")


def _count_from_here(state: State) -> None:
    """What was before a decider came is not for it to count."""
    if state.bucket is not None:
        state.bucket._seen = state.total_ok()
    if state.gate is not None:
        state.gate._sent = state.gate._ended = state.total_sent()
    if state.share is not None:
        state.share._seen = state.total_first()


def _look_up(guard: Guard) -> None:
    for state in () if guard.has_key else guard.core.states()[1:]:
        isolating.look_up(state)


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
        _load_breaker(state, data, clock.monotonic())
    except ValueError as error:
        logs.warn(f"{state.name}: a saved breaker was not understood and left out: {error}")


def _load_breaker(state: State, data: Any, now: float) -> None:
    """Take over a saved breaker; raises ValueError for what makes no sense."""
    from perdure.core.breaker import BreakerState

    with state.lock:
        rule = state.kit.breaker_rule
        if rule is not None:
            kit = state.kit
            state.breaker = BreakerState.from_dict(rule, data, now, window=kit.window, lease=kit.lease)
            state.take_lease(state.breaker.shared)
            state.opened, state.rejects_until = "as it was saved", 0.0
            state.choose_path()

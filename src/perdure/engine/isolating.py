"""Isolation: all calls of a dependency, or of one key, are refused until its owner or a moment lifts that."""

from __future__ import annotations

from perdure.errors import Isolated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.engine.state import State
    from perdure.errors import Refused

__all__ = ["isolate", "look_up", "refusal", "restore"]


def isolate(state: State, reason: str, owner: str, until: float | None) -> None:
    """Refuse all calls until ``restore`` by the same owner, or until a moment."""
    with state.lock:
        state.isolated[owner] = (reason, until)
        state.rejects_until = 0.0
        state.tell("breaker.isolated", severity="warning", reason=reason)
        state.choose_path()


def restore(state: State, owner: str | None) -> None:
    """Lift the isolation of one owner, or of all."""
    with state.lock:
        was = bool(state.isolated)
        if owner is None:
            state.isolated.clear()
        else:
            state.isolated.pop(owner, None)
        if was and not state.isolated:
            state.tell("breaker.restored", reason="restored")
        state.choose_path()


def look_up(state: State) -> None:
    """Choose the path anew: the whole dependency was isolated or restored."""
    with state.lock:
        state.choose_path()


def refusal(state: State, now: float) -> Refused | None:
    """The refusal of an isolated dependency, or of one whose whole is; drops what has expired."""
    _drop_expired(state, now)
    if state.whole is not None:
        _drop_expired(state.whole, now)
    for owner, (reason, until) in state.isolations().items():
        if until is None or now < until:
            by = "" if owner == "operator" else f" ({owner})"
            return state.refused(Isolated, "isolated", reason + by, None if until is None else until - now)
    return None


def _drop_expired(state: State, now: float) -> None:
    with state.lock:
        for owner, (_, until) in tuple(state.isolated.items()):
            if until is not None and now >= until:
                del state.isolated[owner]
                state.tell("breaker.restored", reason=f"the isolation by {owner} expired")

"""The rate limit and the bulkhead of a dependency: a turn is reserved, a place is taken, and both come back.

Nothing waits here. Whoever has to wait does so outside the lock, see ``perdure.engine.queueing``.
"""

from __future__ import annotations

from perdure import clock
from perdure.engine import attempts
from perdure.errors import BulkheadFull, RateLimited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.limits import Places
    from perdure.engine.state import State
    from perdure.errors import Refused

__all__ = ["full", "is_paused_at", "leave_place", "quit_queue", "reserve", "take_place", "unreserve"]


def reserve(state: State, now: float, longest: float) -> float | Refused:
    """Seconds until the rate limit has room for an attempt; refused where that is more than ``longest``."""
    rate = state.rate
    if rate is None:
        return 0.0
    with state.lock:
        wait = rate.reserve(now, longest)
        if wait is not None:
            return wait
        return state.refused(RateLimited, "rate_limit", "", rate.retry_after(now))


def unreserve(state: State, now: float, reserved: float) -> None:
    """Give back what was reserved at a moment and not used."""
    rate = state.rate
    if rate is not None:
        with state.lock:
            rate.cancel(now, reserved)


def is_paused_at(state: State, moment: float) -> bool:
    """Whether the server asked, after a place for that moment was reserved, for a later one."""
    rate = state.rate
    return rate is not None and rate.paused_until > moment + 1e-6


def take_place(state: State, waiter: Any) -> tuple[Places | None, bool] | Refused:
    """A place of the bulkhead, and True; or, and False, ``waiter`` queues for one; or refused."""
    places = state.places
    if places is None:
        return None, True
    with state.lock:
        if state.orphans:
            attempts.collect(state, clock.monotonic())
        if places.try_enter():
            return places, True
        if places.join(waiter):
            return places, False
        return _full(state, places)


def quit_queue(state: State, places: Places, waiter: Any) -> bool:
    """Stop waiting for a place; True: it had been given one in the meantime."""
    with state.lock:
        return places.quit(waiter)


def leave_place(state: State, places: Places) -> Any:
    """Give back a place that no attempt came to use; gives whoever must be woken."""
    with state.lock:
        return places.leave()


def full(state: State, places: Places) -> Refused:
    """The refusal of a call that waited long enough for a place."""
    with state.lock:
        return _full(state, places)


def _full(state: State, places: Places) -> Refused:
    why = f"{places.taken} of {places.limit} places are taken"
    return state.refused(BulkheadFull, "bulkhead", why, None)

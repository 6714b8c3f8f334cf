"""Other values for a state that is at work: a reload keeps what its deciders know, and calls in flight go on.

A decider of a part that was not there before begins afresh, from now on; one whose part is gone is dropped.
"""

from __future__ import annotations

from perdure import clock
from perdure.core import changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.engine.kit import Kit
    from perdure.engine.state import State

__all__ = ["change"]

_EVERYBODY = 10**9


def change(state: State, kit: Kit) -> list[Any]:
    """Have a state go by another kit, keeping all that is known; gives the callers to wake, who have a place now.

    Nothing is taken away in between: fused calls, which take no lock, go on all the time.
    """
    with state.lock:
        return _change(state, kit, clock.monotonic())


def _change(state: State, kit: Kit, now: float) -> list[Any]:
    old = state.kit
    state.kit = kit
    state.rejects_until = 0.0
    _breaker(state, kit, now)
    _gate(state, old, kit)
    _budget(state, kit, now)
    _rate(state, old, kit, now)
    if not kit.is_adaptive:
        state.adaptive = None
    elif state.adaptive is None:
        state.adaptive = kit.adaptive(state.latencies)
    woken = _places(state, kit)
    state.note_breaker()
    state.choose_path()
    return woken


def _breaker(state: State, kit: Kit, now: float) -> None:
    if kit.breaker_rule is None:
        state.breaker = None  # its shared lease goes on counting the successes
        return
    if state.breaker is not None:
        changed.breaker(state.breaker, kit.breaker_rule, now, window=kit.window, lease=kit.lease)
        return
    state.breaker = fresh = kit.breaker()
    if fresh is not None:
        state.take_lease(fresh.shared)


def _gate(state: State, old: Kit, kit: Kit) -> None:
    fresh = kit.gate()
    if fresh is None:
        state.gate = None
    elif state.gate is not None:
        changed.gate(state.gate, fresh.rule)
        state.gate.pace = fresh.pace
    else:
        state.gate = fresh
        fresh._sent = fresh._ended = state.total_sent()  # what was before it came is not for it to count
    if old.gate_rule != kit.gate_rule:
        state.throttle = kit.throttle()


def _budget(state: State, kit: Kit, now: float) -> None:
    bucket, share = kit.bucket(), kit.share()
    ok, first = state.total_ok(), state.total_first()
    if bucket is None:
        state.bucket = None
    elif state.bucket is not None:
        changed.bucket(state.bucket, bucket, ok, is_untouched=_is_untouched(state))
    else:
        bucket._seen = ok
        state.bucket = bucket
    if share is None:
        state.share = None
    elif state.share is not None:
        changed.share(state.share, share, now, first)
    else:
        share._seen = first
        state.share = share


def _is_untouched(state: State) -> bool:
    """Whether nothing was taken from its budget yet, as where a file is loaded at the start of the program."""
    return state.whole is None and not any(state.counts.get(what) for what in ("retries", "hedges"))


def _rate(state: State, old: Kit, kit: Kit, now: float) -> None:
    rule = kit.rate_rule
    if rule is None or state.rate is None or old.rate_rule is None:
        state.rate = kit.rate()
    elif (rule.limit, rule.per, rule.burst) != (old.rate_rule.limit, old.rate_rule.per, old.rate_rule.burst):
        changed.rate(state.rate, now, rule.limit, rule.per, kit.burst)


def _places(state: State, kit: Kit) -> list[Any]:
    rule = kit.bulkhead_rule
    if state.places is None:
        state.places = kit.places()
        return []
    if rule is None:  # nobody stands in line for what is gone
        before, state.places = state.places, None
        return changed.places(before, _EVERYBODY, 0)
    return changed.places(state.places, rule.limit, rule.queue)

"""Attempts on a dependency: each is admitted or refused, and one that was admitted says how it ended.

Here the deciders of a state are asked and told, under its lock. Attempts of fused wrappers come here only where
something is wrong; else they are gathered later, see ``perdure.engine.state``.
"""

from __future__ import annotations

from perdure import clock
from perdure.engine import isolating, queueing
from perdure.errors import BreakerOpen, Overloaded
from perdure.faults.signal import Signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.lease import Lease
    from perdure.core.limits import Places
    from perdure.engine.state import State
    from perdure.errors import Refused
    from perdure.faults import Fault

__all__ = ["TICK", "Passage", "collect", "enter", "leave", "outlasted", "peek"]

TICK = 0.02
"""Seconds between two calls that are looked at whole while all others take the success path."""


class Passage:
    """One attempt that was admitted; goes to ``leave`` exactly once."""

    __slots__ = ("began", "lease", "placed")

    def __init__(self, lease: Lease, began: float | None, placed: Places | None = None) -> None:
        self.lease: Lease = lease
        self.began: float | None = began
        self.placed: Places | None = placed  # the bulkhead that it holds a place of


def peek(state: State, now: float) -> Refused | None:
    """Whether an attempt would be refused at once, taking nothing: asked before a wait for a limit."""
    with state.lock:
        if state.isolations() and (refusal := isolating.refusal(state, now)) is not None:
            return refusal
        breaker = state.breaker
        if breaker is None or state.kit.is_shadow or breaker.state(now) in {"closed", "ramping"}:
            return None
        after = breaker.retry_after(now)
        return None if after <= 0 else state.refused(BreakerOpen, "breaker", state.opened, after)


def enter(state: State, now: float, placed: Places | None = None) -> Passage | Refused:
    """Admit an attempt, or say why not. ``placed``: the bulkhead that it holds a place of already."""
    with state.lock:
        _tick(state, now)
        if state.isolations() and (refusal := isolating.refusal(state, now)) is not None:
            return refusal
        lease: Lease | None = state.shared
        if state.breaker is not None:
            lease = state.breaker.acquire(now, clock.random)
            state.note_breaker()
            if lease is None:
                after = state.breaker.retry_after(now)
                if state.breaker.state(now) == "open":
                    state.reject_at_once(now, after)
                return state.refused(BreakerOpen, "breaker", state.opened, after)
        refusal = _gated(state, now)
        if refusal is not None:
            if state.breaker is not None:
                state.breaker.abandon(lease, now)  # type: ignore[arg-type] # not None, see above
            return refusal
        state.choose_path()
        passage = Passage(lease, now, placed)  # type: ignore[arg-type] # not None, see above
        state.flight.append(None)  # last, as what comes before may run out of stack
        return passage


def leave(
    state: State,
    passage: Passage,
    signal: Signal,
    now: float,
    fault: Fault | None = None,
    error: str | None = None,
) -> Any:
    """Take the result of an attempt; gives whoever waits for its place in the bulkhead and must be woken."""
    with state.lock:
        if state.flight:  # not where a fused wrapper does not count, or after a fork
            state.flight.pop()
        took = None if passage.began is None else max(0.0, now - passage.began)
        if signal is Signal.ANSWER:
            _answered(state, passage, now, took, is_value=fault is None)
        elif signal is Signal.NEUTRAL:
            state.count("neutral")
            if state.breaker is not None:
                state.breaker.abandon(passage.lease, now)
        else:
            hint = None if fault is None or fault.hint is None else min(fault.hint, state.kit.hint_cap)
            _failed(state, passage, signal, now, took, hint)
        if error is not None and signal is not Signal.NEUTRAL:
            kind = None if fault is None else fault.kind.value
            state.errors.append({"at": clock.wall(), "error": error, "kind": kind})
        woken = None if passage.placed is None else passage.placed.leave()
        state.note_breaker()
        state.choose_path()
        return woken


def outlasted(state: State, passage: Passage, now: float) -> None:
    """A copy lost and was cancelled: it would have taken at least so long, which counts among the latencies."""
    if passage.began is not None:
        with state.lock:
            state.latencies.add(now, max(0.0, now - passage.began))


def collect(state: State, now: float) -> None:
    """Take back the places of calls that nobody waits for any more."""
    while state.orphans:
        queueing.wake(leave(state, state.orphans.pop(), Signal.NEUTRAL, now))


def _answered(state: State, passage: Passage, now: float, took: float | None, *, is_value: bool) -> None:
    breaker, lease = state.breaker, passage.lease
    if lease is state.shared and (breaker is None or breaker.is_plain):
        lease.ok += 1
    else:
        state.base_ok += 1
        if breaker is not None:
            breaker.success(lease, now, took)
    _tick(state, now, 1)
    if took is not None and is_value:
        if state.adaptive is not None:
            state.adaptive.success(now, took)
        else:
            state.latencies.add(now, took)
    if state.gate is not None:
        state.gate.success(now, len(state.flight) + 1, took if is_value else None)
    if state.throttle is not None:
        state.throttle.success(now)


def _failed(
    state: State, passage: Passage, signal: Signal, now: float, took: float | None, hint: float | None
) -> None:
    state.count("failed")
    _tick(state, now, 1)
    if state.breaker is not None:
        if signal is Signal.THROTTLED:
            state.breaker.abandon(passage.lease, now)
        else:
            state.breaker.failure(passage.lease, now, clock.random, hint, took)
    gate, is_congestion = state.gate, signal in {Signal.OVERLOAD, Signal.THROTTLED}
    if gate is not None and is_congestion and gate.overload(now, len(state.flight) + 1):
        state.tell("gate.cut", severity="warning", reason=f"limit {gate.limit:.3g}")
    if state.throttle is not None and signal is Signal.FAILURE:
        state.throttle.success(now)  # answered, if badly: not a sign of too much load
    if state.rate is not None and hint:
        state.rate.pause(now + hint)
    if state.adaptive is not None and signal is Signal.OVERLOAD and took is not None:
        state.adaptive.timed_out(now, took)


def _gated(state: State, now: float) -> Refused | None:
    if state.gate is not None and not state.gate.admit(now, len(state.flight), clock.random):
        after = state.gate.retry_after(now)
        return state.refused(Overloaded, "gate", f"limit {state.gate.limit:.3g}", after)
    if state.throttle is not None and not state.throttle.admit(now, clock.random):
        after = state.throttle.retry_after(now)
        return state.refused(Overloaded, "gate", "most requests are not accepted", after)
    return None


def _tick(state: State, now: float, ended: int = 0) -> None:
    """Move the windows on, as a fused success never does; ``ended``: attempts that have just ended."""
    state.due = now + TICK
    if state.orphans:
        collect(state, now)
    in_flight = len(state.flight) + ended
    if state.breaker is not None:
        if state.shared.flag:
            state.total_ok()
        state.breaker.saw(in_flight)
        state.breaker.settle(now)
    if state.gate is not None:
        state.gate.settle(now)
        state.gate.sent(now, state.total_sent())
        state.gate.saw(now, in_flight)
    if state.share is not None:
        state.share.requests(now, state.total_first())

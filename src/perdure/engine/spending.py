"""What a retry or a hedge of a dependency costs, and whether there is room for one."""

from __future__ import annotations

from perdure import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.engine.state import State

__all__ = ["closed_for", "may_hedge", "pace", "refund", "withdraw"]


def withdraw(state: State, now: float, what: str) -> bool:
    """Pay for a retry or a hedge; False: the budget is empty."""
    with state.lock:
        if state.share is not None:
            state.share.requests(now, state.total_first())
        paid = (state.bucket is None or state.bucket.withdraw(state.total_ok())) and (
            state.share is None or state.share.withdraw(now)
        )
        state.count(what if paid else "refused.budget")
        if not paid:
            state.tell("budget.empty", severity="warning", reason=what)
        elif state.bucket is not None and state.bucket.tokens(state.total_ok()) < min(1.0, state.bucket.cap):
            state.tell("budget.low", reason=what)
        return paid


def refund(state: State, now: float, what: str) -> None:
    """Take back a withdrawal whose attempt was never made."""
    with state.lock:
        state.counts[what] = state.counts.get(what, 1) - 1
        if state.bucket is not None:
            state.bucket.refund()
        if state.share is not None:
            state.share.refund(now)


def may_hedge(state: State) -> bool:
    """Whether there is room for copies: the gate is not cut, and the budget at least half full."""
    with state.lock:
        if state.gate is not None and not state.gate.is_open:
            return False
        return state.bucket is None or state.bucket.tokens(state.total_ok()) >= state.bucket.cap / 2


def closed_for(state: State, now: float) -> float:
    """Seconds for which an open breaker will refuse everything; 0 where it is not open."""
    breaker = state.breaker
    if breaker is None or breaker.is_plain or state.kit.is_shadow:
        return 0.0
    with state.lock:
        return breaker.retry_after(now) if breaker.state(now) == "open" else 0.0


def pace(state: State, now: float) -> float:
    """Seconds until a gate that is cut below one attempt at a time lets the next one out; else 0."""
    gate = state.gate
    if gate is None or gate.limit >= 1:
        return 0.0
    with state.lock:
        return max(0.0, gate.next_at(clock.random) - now)

"""What a dependency looks like now, as plain values: for dashboards, metrics and people."""

from __future__ import annotations

from perdure import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.engine.guard import Guard
    from perdure.engine.state import State

__all__ = ["snapshot"]


def snapshot(guard: Guard) -> dict[str, Any]:
    """See ``Dependency.snapshot``."""
    core = guard.core
    shown = {"name": core.name, "at": clock.wall(), **_state(guard.fixed_state())}
    if not guard.has_key:
        parts = core.states()[1:]
        shown["keys"] = {str(state.key): _state(state) for state in parts}
    return shown


def _state(state: State) -> dict[str, Any]:
    now = clock.monotonic()
    with state.lock:
        state.collect(now)
        counts, failed = state.counts, state.counts.get("failed", 0)
        ok = state.total_ok()
        # Where a breaker that counts failures in a row is all there is, successes are not counted.
        counted = state.kit.counts_successes or not state.kit.is_fusable
        return {
            "key": None if state.key is None else str(state.key),
            "state": _word(state, now),
            "retry_after": _retry_after(state, now),
            "isolated": [
                {"owner": owner, "reason": reason, "left": None if until is None else max(0.0, until - now)}
                for owner, (reason, until) in state.isolations().items()
            ],
            "in_flight": len(state.flight) if state.kit.counts_flight or not state.kit.is_fusable else None,
            "counters": {
                "attempts": state.total_sent() if counted else None,
                "succeeded": ok if counted else None,
                "failed": failed,
                "neutral": counts.get("neutral", 0),
                "retries": counts.get("retries", 0),
                "hedges": counts.get("hedges", 0),
                "fallbacks": counts.get("fallbacks", 0),
                "refused": _refused(state),
            },
            "breaker": None if state.breaker is None else {"state": state.breaker.state(now)},
            "budget": _budget(state, now, ok),
            "gate": None
            if state.gate is None
            else {"limit": state.gate.limit, "ceiling": state.gate.rule.ceiling},
            "throttle": None if state.throttle is None else {"refusing": state.throttle.probability(now)},
            "rate_limit": None if state.rate is None else {"wait": state.rate.retry_after(now)},
            "bulkhead": None
            if state.places is None
            else {"taken": state.places.taken, "waiting": state.places.waiting, "limit": state.places.limit},
            "latency": state.latencies.as_dict(),
            "last_errors": list(state.errors),
        }


def _refused(state: State) -> dict[str, int]:
    refused = {what.partition(".")[2]: n for what, n in state.counts.items() if what.startswith("refused.")}
    if state.rejected:
        refused["breaker"] = refused.get("breaker", 0) + state.rejected
    return refused


def _word(state: State, now: float) -> str:
    """The state in one word: isolated, that of the breaker, or shedding while the gate is cut, or closed."""
    if any(until is None or until > now for _, until in state.isolations().values()):
        return "isolated"
    word = "closed" if state.breaker is None else str(state.breaker.state(now))
    if word == "closed" and state.gate is not None and not state.gate.is_open:
        return "shedding"
    return word


def _retry_after(state: State, now: float) -> float:
    untils = [until - now for _, until in state.isolations().values() if until is not None]
    waits = [0.0 if state.breaker is None else state.breaker.retry_after(now), *untils]
    return max(0.0, *waits)


def _budget(state: State, now: float, ok: int) -> dict[str, Any] | None:
    if state.bucket is not None:
        return {"tokens": state.bucket.tokens(ok), "cap": state.bucket.cap}
    return (
        None if state.share is None else {"left": state.share.left(now), "max_ratio": state.share.max_ratio}
    )

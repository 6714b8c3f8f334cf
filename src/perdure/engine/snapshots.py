"""What a dependency looks like now, as plain values: for dashboards, metrics and people."""

from __future__ import annotations

from perdure import clock
from perdure.engine import attempts
from perdure.engine.state import ERRORS_KEPT

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
    if guard.has_key:
        return shown
    parts = [(state.key, _state(state)) for state in core.states()[1:]]
    shown["keys"] = _by_name(parts)
    shown["all"] = _together([shown, *(one for _, one in parts)])
    return shown


def _by_name(parts: list[tuple[Any, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """By the text of the key; with its type where another key has the same text, as 1 and "1" have."""
    names = [one["key"] for _, one in parts]
    return {
        name if names.count(name) == 1 else f"{name} ({type(key).__name__})": one
        for name, (key, one) in zip(names, parts, strict=True)
    }


def _together(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The dependency itself and all of its keys in one: sums, how many are in which state, the latest errors."""
    counters: dict[str, Any] = {"refused": {}}
    words: dict[str, int] = {}
    for one in states:
        words[one["state"]] = words.get(one["state"], 0) + 1
        for name, value in one["counters"].items():
            if name == "refused":
                _add(counters["refused"], value)
            else:
                _add(counters, {name: value})
    errors = sorted((error for one in states for error in one["last_errors"]), key=lambda error: error["at"])
    flights = [one["in_flight"] for one in states]
    return {
        "states": words,
        "in_flight": None if None in flights else sum(flights),
        "counters": counters,
        "last_errors": errors[-ERRORS_KEPT:],
    }


def _add(sums: dict[str, Any], values: dict[str, int | None]) -> None:
    for name, value in values.items():
        sums[name] = None if value is None else (sums.get(name) or 0) + value


def _state(state: State) -> dict[str, Any]:
    now = clock.monotonic()
    with state.lock:
        attempts.collect(state, now)
        counts, failed = state.counts, state.counts.get("failed", 0)
        ok = state.total_ok()
        # Where a breaker that counts failures in a row is all there is, successes are not counted.
        counted = state.kit.counts_successes or not state.kit.is_fusable
        return {
            "key": state.text,
            "state": _word(state, now),
            "retry_after": _retry_after(state, now),
            "isolated": [
                {"owner": owner, "reason": reason, "left": None if until is None else max(0.0, until - now)}
                for owner, (reason, until) in state.isolations().items()
                if until is None or until > now
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

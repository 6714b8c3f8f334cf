"""What is timed of breakers (8) and whole stacks (9) on the hot path, as one table: ``ROWS``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import targets
from benchmarks.breakers import BREAKER_PEERS, BreakerPlan
from benchmarks.rows import POSITIONAL, Calls, Row
from benchmarks.stacks import STACKS, TOTAL, StackPlan

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

THREADS = 8
REFUSED = Calls("(1)", refused=True)
IN_THREADS = Calls("(1)", threads=THREADS)

_SYNC, _ASYNC = BreakerPlan("sync"), BreakerPlan("async")
_RAMP, _ASYNC_RAMP = BreakerPlan("sync", ramp=True), BreakerPlan("async", ramp=True)
_WINDOW, _ASYNC_WINDOW = (
    BreakerPlan("sync", window=True, ramp=True),
    BreakerPlan("async", window=True, ramp=True),
)
_WHAT = {False: "5 failures in a row", True: "half of >= 20 calls in a window"}


def _breaker(
    row_id: str,
    what: str,
    plan: BreakerPlan,
    target: Callable[[], targets.Function],
    goal: float | None,
    calls: Calls = POSITIONAL,
    baseline: str = "hand breaker",
    weight: float = 1.0,
) -> Row:
    ramp = ", perdure with its ramp" if plan.ramp else ""
    title = f"{plan.colour} breaker, {_WHAT[plan.window]}{ramp}, {what}"
    contenders = ("hand breaker", "perdure", *BREAKER_PEERS)
    if not calls.refused:
        contenders = ("bare", *contenders)
    return Row(
        row_id, title, plan, target, baseline, contenders, goal, calls, lineup="breaker", weight=weight
    )


def _threads(row_id: str, plan: BreakerPlan) -> Row:
    what = f"closed, {THREADS} threads at once"
    return _breaker(row_id, what, plan, targets.own_sync, 7.0, IN_THREADS, "bare", 20.0)


_LIBRARIES = tuple(name for name, one in STACKS.items() if one.distribution not in {None, "perdure"})
_SYNC_ONLY = {"tenacity + pybreaker", "dogged"}
_ASYNC_ONLY = {"tenacity + aiobreaker", "hyx"}
_PARTS = {
    "default": "retry, budget, gate",
    "breaker": "retry, budget, gate, breaker",
    "lean": "retry and breaker only",
    "rate": "retry, budget, gate, rate limit",
}


def _stack(
    row_id: str,
    colour: Literal["sync", "async"],
    parts: Literal["default", "breaker", "lean", "rate"],
    goal: float | None,
    *,
    total: float | None = None,
    attempt_timeout: float | None = None,
    suspends: bool = False,
) -> Row:
    plan = StackPlan(colour, parts, total, attempt_timeout)
    title = f"{colour} stack, success, perdure with {_PARTS[parts]}"
    title += "" if total is None else ", and Timeouts.total"
    baseline = "hand retry + breaker"
    others: tuple[str, ...] = ("bare",)
    if colour == "sync":
        target, others = targets.own_sync, ("bare", "hand, unlocked")
    else:
        target = targets.own_async_suspending if suspends else targets.own_async
    if parts == "rate":
        others = (*others, "hand + limit")
    if attempt_timeout is not None:
        title += f", attempt timeout 30 s, target {'suspends once' if suspends else 'does not suspend'}"
        baseline, others = "hand + asyncio.timeout", ("bare", "hand retry + breaker")
    unfit = _ASYNC_ONLY if colour == "sync" else _SYNC_ONLY
    peers = tuple(name for name in _LIBRARIES if name not in unfit)
    contenders = (baseline, *others, "perdure", *peers)
    return Row(row_id, title, plan, target, baseline, contenders, goal, lineup="stack")


ROWS = (
    _breaker("8.sync.plain", "closed", _SYNC, targets.own_sync, 0.5),
    _breaker("8.sync.ramp", "closed", _RAMP, targets.own_sync, 0.5),
    _breaker("8.sync.generic", "closed, *args/**kwargs", _SYNC, targets.generic_sync, 1.0),
    _breaker("8.sync.window", "closed", _WINDOW, targets.own_sync, 1.0),
    _breaker("8.async.plain", "closed", _ASYNC, targets.own_async, 1.0),
    _breaker("8.async.ramp", "closed", _ASYNC_RAMP, targets.own_async, 1.0),
    _breaker("8.async.window", "closed", _ASYNC_WINDOW, targets.own_async, 1.0),
    _breaker("8.sync.open", "open: a refusal, caught", _RAMP, targets.down_sync, 1.3, REFUSED),
    _breaker("8.async.open", "open: a refusal, caught", _ASYNC_RAMP, targets.down_async, 1.3, REFUSED),
    _threads("8.threads.plain", _SYNC),
    _threads("8.threads.ramp", _RAMP),
    _threads("8.threads.window", _WINDOW),
    _stack("9.sync.default", "sync", "default", 0.6),
    _stack("9.sync.total", "sync", "default", 0.9, total=TOTAL),
    _stack("9.sync.breaker", "sync", "breaker", 0.6),
    _stack("9.sync.lean", "sync", "lean", 0.3),
    _stack("9.sync.rate", "sync", "rate", 0.5),
    _stack("9.async.default", "async", "default", None),
    _stack("9.async.timeout", "async", "default", 0.4, attempt_timeout=30.0),
    _stack("9.async.timeout.breaker", "async", "breaker", 0.4, attempt_timeout=30.0),
    _stack("9.async.timeout.suspends", "async", "default", None, attempt_timeout=30.0, suspends=True),
)

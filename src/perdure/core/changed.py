"""Other values for deciders that are at work: what a reload of the configuration keeps.

A breaker stays in its state with its leases and counts, a gate that is cut stays cut, a bucket keeps its tokens, a
rate limit what it is owed and its pause, a bulkhead whoever is in it and in line. Only the values they go by from
here on are others. What has begun is not shortened: an open time, a pause, the lease of a probe.

Pure: the holder calls under its own lock and brings the time and the totals.
"""

from __future__ import annotations

from perdure.core.trip import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.core.breaker import BreakerState
    from perdure.core.budget import Bucket, Share
    from perdure.core.gate import GateState, Rule
    from perdure.core.limits import Gcra, Places
    from perdure.core.trip import BreakerRule

__all__ = ["breaker", "bucket", "gate", "places", "rate", "share"]


def breaker(state: BreakerState, rule: BreakerRule, now: float, *, window: float, lease: float) -> None:
    """Go by another rule; results count again as far as they lie in its window."""
    at = state._advance(now)
    run, results = state._tally.run_ages(at), state._tally.result_ages(at)
    state._rule, state._span = rule, window
    state._tally = Tally(rule, window)
    state._tally.refill(at, run, [row for row in results if row[0] < window])
    state._cooling._rule = rule
    state._places._term = lease
    state._ramp._span = window
    # The rule may ask for fewer probes by now: then one more decides, else nothing ever would.
    state._succeeded = min(state._succeeded, rule.successes - 1)
    if state._state == "ramping" and not rule.ramp:
        state._state = "closed"  # the same period: its leases and counts stay
        state._ramp.finish(at)
    state._tell_plain()


def gate(state: GateState, rule: Rule) -> None:
    """Go by other bounds; an open gate stays open, a cut one cut as far as the new ceiling allows."""
    was_open = state.is_open
    state.rule = rule
    state.limit = rule.ceiling if was_open else min(rule.ceiling, max(rule.floor, state.limit))


def bucket(state: Bucket, fresh: Bucket, ok: int, *, is_untouched: bool) -> None:
    """Take over income and cap of ``fresh``, after what was earned so far was paid in at the old rate.

    One that is untouched has at least what ``fresh`` starts with: a first call may need it for its attempts.
    """
    tokens = max(state.tokens(ok), fresh._tokens) if is_untouched else state.tokens(ok)
    state._tokens = min(fresh.cap, tokens)
    state.cap, state.per_success = fresh.cap, fresh.per_success


def share(state: Share, fresh: Share, now: float, total: int) -> None:
    """Take over the share of ``fresh``; one over another window begins to count anew."""
    state.requests(now, total)
    if state.width != fresh.width:
        state._cells.clear()
        state._requests = state._retries = 0
    state.max_ratio, state.floor, state.width = fresh.max_ratio, fresh.floor, fresh.width
    state._number = int(state._now // state.width) if state._now > -float("inf") else 0


def rate(state: Gcra, now: float, limit: float, per: float, burst: int) -> None:
    """Go by another rate: what was at hand or owed stays, and so does a pause that the server asked for."""
    at = state._time(now)
    level = min(burst, state.level(at))
    state._limit, state._per, state._burst = limit, per, burst
    state._last = None
    if state.paused_until > at:
        state._begin(state.paused_until, burst - 1)
    else:
        state._begin(at + (burst - level) * per / limit, 0)


def places(state: Places, limit: int, queue: int) -> list[object]:
    """Have other numbers of places; gives those that stood in line and have one now, to be woken.

    Where there are fewer, nobody is sent out: places that come free are given again once there are not too many.
    """
    state.limit, state.queue = limit, queue
    woken: list[object] = []
    while state._line and state.taken < limit:
        state.taken += 1
        woken.append(state._line.popitem(last=False)[1])
    return woken

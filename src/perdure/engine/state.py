"""The state of one dependency, or of one key of it: what all its callers share.

It holds the pure deciders of ``perdure.core`` and is the one who calls them, under its lock. The success path of a
fused wrapper takes no lock. While nothing is wrong, ``fast`` is a lease; a call appends to ``flight``, runs, pops,
and adds 1 to ``fast.ok``: appending and popping are atomic, and the counts are gathered later, when a decider is
next asked. As soon as a decider wants to be asked about each call, ``fast`` is None and all calls come through
``enter`` and ``leave``. So does one call every TICK: it moves the windows on and its latency is the sample.

What happens is collected in ``news`` and told after the lock is released: no user code runs under it.
"""

from __future__ import annotations

import sys
from _thread import RLock
from collections import deque
from sys import getrefcount

from perdure import clock
from perdure.core.lease import Lease
from perdure.engine import queueing
from perdure.errors import BreakerOpen, BulkheadFull, Isolated, Overloaded, RateLimited, Refused
from perdure.faults.signal import Signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.breaker import BreakerState
    from perdure.core.budget import Bucket, Share
    from perdure.core.gate import GateState
    from perdure.core.latency import AdaptiveTimeout, Latencies
    from perdure.core.limits import Gcra, Places
    from perdure.core.throttle import ThrottleState
    from perdure.engine.kit import Kit
    from perdure.faults import Fault

    News = tuple[str, dict[str, Any]]

__all__ = ["TICK", "Passage", "State"]

TICK = 0.02
"""Seconds between two calls that are looked at whole while all others take the success path."""

QUIET = 0.5
"""Seconds in which refusals of an open breaker are raised without asking it, telling or logging anything."""

ERRORS_KEPT = 5
_OURS = 3  # references to a lease that no call holds: the list's, the loop's, and that of the question itself
_new_refusal = BaseException.__new__  # __init__ would only set the same arguments once more
_HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)


class Passage:
    """One attempt that was admitted; goes to ``State.leave`` exactly once."""

    __slots__ = ("began", "lease", "placed")

    def __init__(self, lease: Lease, began: float | None, placed: Places | None = None) -> None:
        self.lease: Lease = lease
        self.began: float | None = began
        self.placed: Places | None = placed  # the bulkhead that it holds a place of


class State:
    """See the module. Safe from any thread and task: its lock is held for a few steps, never while waiting."""

    __slots__ = (
        *("adaptive", "base_ok", "breaker", "bucket", "counts", "due", "errors", "fast", "flight", "gate"),
        *("isolated", "key", "kit", "latencies", "lock", "name", "news", "opened", "opens_at", "orphans"),
        *("pinned", "places", "rate", "rejected", "rejects_until", "retired", "share", "shared", "throttle"),
        "text",
        "whole",
        "why",
    )

    def __init__(
        self, name: str, key: Any, kit: Kit, start: float | None = None, whole: State | None = None
    ) -> None:
        self.name: str = name
        self.key: Any = key
        self.text: str | None = _text_of(key)
        self.whole: State | None = whole  # the state of the dependency itself, of a key
        self.lock: RLock = RLock()  # reentrant: a signal handler may call the dependency in the middle
        self.flight: list[None] = []
        self.base_ok: int = 0  # successes that no living lease counts
        self.retired: list[Lease] = []
        self.counts: dict[str, int] = {}
        self.errors: deque[dict[str, Any]] = deque(maxlen=ERRORS_KEPT)
        self.isolated: dict[str, tuple[str, float | None]] = {}
        self.news: list[News] = []
        self.orphans: list[Passage] = []  # of calls that nobody waits for any more, see GuardedRun.__del__
        self.pinned: bool = False  # a decorated function has it, so it is never forgotten
        self.opened: str = ""  # why the breaker opened
        self.why: str = ""  # the same as refusals say it, with the key
        self.due: float = 0.0
        self.opens_at: float = 0.0
        self.rejected: int = 0  # calls refused at once, as counted without the lock
        self.rejects_until: float = 0.0  # until then calls may be refused at once, see refusal()
        self.latencies: Latencies = kit.latencies()
        self.take_kit(kit, start)

    def take_kit(self, kit: Kit, start: float | None = None) -> None:
        """Build what the values ask for, without any state."""
        self.rejects_until = 0.0
        self.kit: Kit = kit
        self.breaker: BreakerState | None = kit.breaker()
        self.shared: Lease = Lease() if self.breaker is None else self.breaker.shared
        self.gate: GateState | None = kit.gate()
        self.throttle: ThrottleState | None = kit.throttle()
        self.bucket: Bucket | None = kit.bucket(start)
        self.share: Share | None = kit.share()
        self.rate: Gcra | None = kit.rate()
        self.places: Places | None = kit.places()
        self.adaptive: AdaptiveTimeout | None = kit.adaptive(self.latencies)
        self.fast: Lease | None = None
        self._choose_path()

    def renew(self) -> None:
        """Begin anew, as when it was made (for tests); what is in flight comes back to it all the same."""
        with self.lock:
            self.base_ok, self.retired, self.counts = 0, [], {}
            self.errors.clear()
            self.isolated.clear()
            self.news = []
            self.rejected = 0
            self.due = self.opens_at = 0.0
            self.latencies = self.kit.latencies()
            self.take_kit(self.kit)

    def change(self, kit: Kit) -> list[Any]:
        """Take another kit, keeping all that is known; gives the callers to wake, see changing.py."""
        from perdure.engine.changing import change

        with self.lock:
            return change(self, kit, clock.monotonic())

    def _count_from_here(self) -> None:
        """What was before a decider came is not for it to count."""
        if self.bucket is not None:
            self.bucket._seen = self.total_ok()
        if self.gate is not None:
            self.gate._sent = self.gate._ended = self.total_sent()
        if self.share is not None:
            self.share._seen = self.total_first()

    # Counting

    def total_ok(self) -> int:
        """Successes so far; answers that are errors count too."""
        shared = self.shared
        if shared.flag:  # the form that only notes that there was one
            shared.flag = False
            shared.ok += 1
        return self.base_ok + sum(one.ok for one in self.retired) + shared.ok

    def total_sent(self) -> int:
        """Attempts that went out so far."""
        return (
            self.total_ok() + self.counts.get("failed", 0) + self.counts.get("neutral", 0) + len(self.flight)
        )

    def total_first(self) -> int:
        """First attempts that went out so far."""
        return self.total_sent() - self.counts.get("retries", 0) - self.counts.get("hedges", 0)

    def count(self, what: str) -> None:
        """Add to a counter of the snapshot."""
        self.counts[what] = self.counts.get(what, 0) + 1

    # Attempts

    def peek(self, now: float) -> Refused | None:
        """Whether an attempt would be refused at once, taking nothing: asked before a wait for a limit."""
        with self.lock:
            if self.isolations() and (refusal := self._isolation(now)) is not None:
                return refusal
            breaker = self.breaker
            if breaker is None or self.kit.is_shadow or breaker.state(now) in {"closed", "ramping"}:
                return None
            after = breaker.retry_after(now)
            return None if after <= 0 else self._refused(BreakerOpen, "breaker", self.opened, after)

    def enter(self, now: float, placed: Places | None = None) -> Passage | Refused:
        """Admit an attempt, or say why not. ``placed``: the bulkhead that it holds a place of already."""
        with self.lock:
            self._tick(now)
            if self.isolations() and (refusal := self._isolation(now)) is not None:
                return refusal
            lease: Lease | None = self.shared
            if self.breaker is not None:
                lease = self.breaker.acquire(now, clock.random)
                self._note_breaker()
                if lease is None:
                    after = self.breaker.retry_after(now)
                    if self.breaker.state(now) == "open":
                        self.opens_at = now + after
                        self.why = self._with_key(self.opened)
                        self.rejects_until = min(self.opens_at, now + QUIET) if _HAS_GIL() else 0.0
                    return self._refused(BreakerOpen, "breaker", self.opened, after)
            refusal = self._gated(now)
            if refusal is not None:
                if self.breaker is not None:
                    self.breaker.abandon(lease, now)  # type: ignore[arg-type] # not None, see above
                return refusal
            self._choose_path()
            passage = Passage(lease, now, placed)  # type: ignore[arg-type] # not None, see above
            self.flight.append(None)  # last, as what comes before may run out of stack
            return passage

    def leave(
        self,
        passage: Passage,
        signal: Signal,
        now: float,
        fault: Fault | None = None,
        error: str | None = None,
    ) -> Any:
        """Take the result of an attempt; gives whoever waits for its place in the bulkhead and must be woken."""
        with self.lock:
            if self.flight:  # not where a fused wrapper does not count, or after a fork
                self.flight.pop()
            took = None if passage.began is None else max(0.0, now - passage.began)
            if signal is Signal.ANSWER:
                self._answered(passage, now, took, is_value=fault is None)
            elif signal is Signal.NEUTRAL:
                self.count("neutral")
                if self.breaker is not None:
                    self.breaker.abandon(passage.lease, now)
            else:
                hint = None if fault is None or fault.hint is None else min(fault.hint, self.kit.hint_cap)
                self._failed(passage, signal, now, took, hint)
            if error is not None and signal is not Signal.NEUTRAL:
                kind = None if fault is None else fault.kind.value
                self.errors.append({"at": clock.wall(), "error": error, "kind": kind})
            woken = None if passage.placed is None else passage.placed.leave()
            self._note_breaker()
            self._choose_path()
            return woken

    def outlasted(self, passage: Passage, now: float) -> None:
        """A copy lost and was cancelled: it would have taken at least so long, which counts among the latencies."""
        if passage.began is not None:
            with self.lock:
                self.latencies.add(now, max(0.0, now - passage.began))

    def _answered(self, passage: Passage, now: float, took: float | None, *, is_value: bool) -> None:
        breaker, lease = self.breaker, passage.lease
        if lease is self.shared and (breaker is None or breaker.is_plain):
            lease.ok += 1
        else:
            self.base_ok += 1
            if breaker is not None:
                breaker.success(lease, now, took)
        self._tick(now, 1)
        if took is not None and is_value:
            if self.adaptive is not None:
                self.adaptive.success(now, took)
            else:
                self.latencies.add(now, took)
        if self.gate is not None:
            self.gate.success(now, len(self.flight) + 1, took if is_value else None)
        if self.throttle is not None:
            self.throttle.success(now)

    def _failed(
        self, passage: Passage, signal: Signal, now: float, took: float | None, hint: float | None
    ) -> None:
        self.count("failed")
        self._tick(now, 1)
        if self.breaker is not None:
            if signal is Signal.THROTTLED:
                self.breaker.abandon(passage.lease, now)
            else:
                self.breaker.failure(passage.lease, now, clock.random, hint, took)
        gate, is_congestion = self.gate, signal in {Signal.OVERLOAD, Signal.THROTTLED}
        if gate is not None and is_congestion and gate.overload(now, len(self.flight) + 1):
            self._tell("gate.cut", severity="warning", reason=f"limit {gate.limit:.3g}")
        if self.throttle is not None and signal is Signal.FAILURE:
            self.throttle.success(now)  # answered, if badly: not a sign of too much load
        if self.rate is not None and hint:
            self.rate.pause(now + hint)
        if self.adaptive is not None and signal is Signal.OVERLOAD and took is not None:
            self.adaptive.timed_out(now, took)

    def _gated(self, now: float) -> Refused | None:
        if self.gate is not None and not self.gate.admit(now, len(self.flight), clock.random):
            after = self.gate.retry_after(now)
            return self._refused(Overloaded, "gate", f"limit {self.gate.limit:.3g}", after)
        if self.throttle is not None and not self.throttle.admit(now, clock.random):
            after = self.throttle.retry_after(now)
            return self._refused(Overloaded, "gate", "most requests are not accepted", after)
        return None

    def _isolation(self, now: float) -> Refused | None:
        """The refusal of an isolated dependency, or of one whose whole is; drops what has expired."""
        self._drop_expired(now)
        if self.whole is not None:
            self.whole._drop_expired(now)
        for owner, (reason, until) in self.isolations().items():
            if until is None or now < until:
                by = "" if owner == "operator" else f" ({owner})"
                return self._refused(
                    Isolated, "isolated", reason + by, None if until is None else until - now
                )
        return None

    def _drop_expired(self, now: float) -> None:
        with self.lock:
            for owner, (_, until) in tuple(self.isolated.items()):
                if until is not None and now >= until:
                    del self.isolated[owner]
                    self._tell("breaker.restored", reason=f"the isolation by {owner} expired")

    def isolations(self) -> dict[str, tuple[str, float | None]]:
        """Who isolates it, and the whole dependency."""
        return self.isolated if self.whole is None else {**self.whole.isolated, **self.isolated}

    def refusal(self, now: float) -> BreakerOpen:
        """The refusal of an open breaker, for wrappers: all that ``enter`` would tell was told a moment ago."""
        self.rejected += 1
        return _new_refusal(BreakerOpen, self.name, self.why, self.opens_at - now)

    def _refused(self, kind: type[Refused], what: str, reason: str, after: float | None) -> Refused:
        self.count(f"refused.{what}")
        return kind(self.name, self._with_key(reason), after)

    def _with_key(self, reason: str) -> str:
        """A reason, saying of which key where there is one."""
        if self.text is None:
            return reason
        return f"{reason} (key {self.text})" if reason else f"key {self.text}"

    # Limits

    def reserve(self, now: float, longest: float) -> float | Refused:
        """Seconds until the rate limit has room for an attempt; refused where that is more than ``longest``."""
        rate = self.rate
        if rate is None:
            return 0.0
        with self.lock:
            wait = rate.reserve(now, longest)
            if wait is not None:
                return wait
            return self._refused(RateLimited, "rate_limit", "", rate.retry_after(now))

    def unreserve(self, now: float, reserved: float) -> None:
        """Give back what was reserved at a moment and not used."""
        rate = self.rate
        if rate is not None:
            with self.lock:
                rate.cancel(now, reserved)

    def is_paused_at(self, moment: float) -> bool:
        """Whether the server asked, after a place for that moment was reserved, for a later one."""
        rate = self.rate
        return rate is not None and rate.paused_until > moment + 1e-6

    def take_place(self, waiter: Any) -> tuple[Places | None, bool] | Refused:
        """A place of the bulkhead, and True; or, and False, ``waiter`` queues for one; or refused."""
        places = self.places
        if places is None:
            return None, True
        with self.lock:
            if self.orphans:
                self.collect(clock.monotonic())
            if places.try_enter():
                return places, True
            if places.join(waiter):
                return places, False
            return self._refused(
                BulkheadFull, "bulkhead", f"{places.taken} of {places.limit} places are taken", None
            )

    def quit_queue(self, places: Places, waiter: Any) -> bool:
        """Stop waiting for a place; True: it had been given one in the meantime."""
        with self.lock:
            return places.quit(waiter)

    def leave_place(self, places: Places) -> Any:
        """Give back a place that no attempt came to use; gives whoever must be woken."""
        with self.lock:
            return places.leave()

    def full(self, places: Places) -> Refused:
        """The refusal of a call that waited long enough for a place."""
        with self.lock:
            return self._refused(
                BulkheadFull, "bulkhead", f"{places.taken} of {places.limit} places are taken", None
            )

    # The budget

    def withdraw(self, now: float, what: str) -> bool:
        """Pay for a retry or a hedge; False: the budget is empty."""
        with self.lock:
            if self.share is not None:
                self.share.requests(now, self.total_first())
            paid = (self.bucket is None or self.bucket.withdraw(self.total_ok())) and (
                self.share is None or self.share.withdraw(now)
            )
            self.count(what if paid else "refused.budget")
            if not paid:
                self._tell("budget.empty", severity="warning", reason=what)
            elif self.bucket is not None and self.bucket.tokens(self.total_ok()) < min(1.0, self.bucket.cap):
                self._tell("budget.low", reason=what)
            return paid

    def refund(self, now: float, what: str) -> None:
        """Take back a withdrawal whose attempt was never made."""
        with self.lock:
            self.counts[what] = self.counts.get(what, 1) - 1
            if self.bucket is not None:
                self.bucket.refund()
            if self.share is not None:
                self.share.refund(now)

    def may_hedge(self) -> bool:
        """Whether there is room for copies: the gate is not cut, and the budget at least half full."""
        with self.lock:
            if self.gate is not None and not self.gate.is_open:
                return False
            return self.bucket is None or self.bucket.tokens(self.total_ok()) >= self.bucket.cap / 2

    def closed_for(self, now: float) -> float:
        """Seconds for which an open breaker will refuse everything; 0 where it is not open."""
        breaker = self.breaker
        if breaker is None or breaker.is_plain or self.kit.is_shadow:
            return 0.0
        with self.lock:
            return breaker.retry_after(now) if breaker.state(now) == "open" else 0.0

    def pace(self, now: float) -> float:
        """Seconds until a gate that is cut below one attempt at a time lets the next one out; else 0."""
        gate = self.gate
        if gate is None or gate.limit >= 1:
            return 0.0
        with self.lock:
            return max(0.0, gate.next_at(clock.random) - now)

    def fly(self) -> bool:
        """Count an attempt in flight without asking anybody; False: an open gate is at its ceiling."""
        self.flight.append(None)
        if self.kit.ceiling and len(self.flight) > self.kit.ceiling:
            self.flight.pop()
            return False
        return True

    # Paths

    def collect(self, now: float) -> None:
        """Take back the places of calls that nobody waits for any more."""
        while self.orphans:
            queueing.wake(self.leave(self.orphans.pop(), Signal.NEUTRAL, now))

    def _tick(self, now: float, ended: int = 0) -> None:
        """Move the windows on, as a fused success never does; ``ended``: attempts that have just ended."""
        self.due = now + TICK
        if self.orphans:
            self.collect(now)
        in_flight = len(self.flight) + ended
        if self.breaker is not None:
            if self.shared.flag:
                self.total_ok()
            self.breaker.saw(in_flight)
            self.breaker.settle(now)
        if self.gate is not None:
            self.gate.settle(now)
            self.gate.sent(now, self.total_sent())
            self.gate.saw(now, in_flight)
        if self.share is not None:
            self.share.requests(now, self.total_first())

    def _choose_path(self) -> None:
        """Whether calls may take the success path from here on."""
        plain = self.kit.is_fusable and not self.isolations() and _HAS_GIL()
        if plain and self.breaker is not None:
            plain = self.breaker.is_plain
        if plain and self.gate is not None:
            plain = self.gate.is_open
        self.fast = self.shared if plain else None

    def _note_breaker(self) -> None:
        """Take over what the breaker did: its news, and the lease of a new period."""
        breaker = self.breaker
        if breaker is None:
            return
        if breaker.changes:
            for name, fields in breaker.changes:
                if name == "breaker.opened":
                    self.opened = _opened(fields)
                self._tell(name, severity="warning" if name in _LOUD else "info", **fields)
            breaker.changes.clear()
        if breaker.shared is not self.shared:
            self.take_lease(breaker.shared)

    def take_lease(self, shared: Lease) -> None:
        """Have calls share another lease; successes still come in on those before it, while a call holds one."""
        self.retired.append(self.shared)
        self.shared = shared
        held: list[Lease] = []
        for one in self.retired:
            if getrefcount(one) > _OURS:
                held.append(one)
            else:
                self.base_ok += one.ok
        self.retired = held

    def _tell(self, name: str, **fields: Any) -> None:
        self.news.append((name, fields))

    def take_news(self) -> list[News]:
        """What happened since it was last asked, to be told outside the lock."""
        with self.lock:
            news, self.news = self.news, []
            return news

    # Operators

    def isolate(self, reason: str, owner: str, until: float | None) -> None:
        """Refuse all calls until ``restore`` by the same owner, or until a moment."""
        with self.lock:
            self.isolated[owner] = (reason, until)
            self.rejects_until = 0.0
            self._tell("breaker.isolated", severity="warning", reason=reason)
            self._choose_path()

    def restore(self, owner: str | None) -> None:
        """Lift the isolation of one owner, or of all."""
        with self.lock:
            was = bool(self.isolated)
            if owner is None:
                self.isolated.clear()
            else:
                self.isolated.pop(owner, None)
            if was and not self.isolated:
                self._tell("breaker.restored", reason="restored")
            self._choose_path()

    def look_up(self) -> None:
        """Choose the path anew: the whole dependency was isolated or restored."""
        with self.lock:
            self._choose_path()

    def load_breaker(self, data: Any, now: float) -> None:
        """Take over a saved breaker; raises ValueError for what makes no sense."""
        from perdure.core.breaker import BreakerState

        with self.lock:
            rule = self.kit.breaker_rule
            if rule is not None:
                kit = self.kit
                self.breaker = BreakerState.from_dict(rule, data, now, window=kit.window, lease=kit.lease)
                self.take_lease(self.breaker.shared)
                self.opened, self.rejects_until = "as it was saved", 0.0
                self._choose_path()

    def forked(self, in_flight: int) -> None:
        """Go on in a forked child with the attempts of this thread only: the others are not there."""
        self.lock = RLock()
        self.flight[:] = [None] * min(in_flight, len(self.flight))
        if self.places is not None:
            self.places.alone(min(in_flight, self.places.taken))

    def reset(self) -> None:
        """Close the breaker, open the gate and fill the budget by hand; isolations stay."""
        with self.lock:
            kit, places, rate, before = self.kit, self.places, self.rate, self.shared
            self.take_kit(kit)
            fresh, self.shared = self.shared, before
            self.take_lease(fresh)
            self.places, self.rate = places, rate
            self._choose_path()
            self._count_from_here()
            if self.bucket is not None:
                self.bucket = kit.bucket(self.bucket.cap)
                self._count_from_here()
            if self.breaker is not None:
                self._tell("breaker.closed", reason="reset")

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost by forgetting it: nothing in flight, nothing open, cut or isolated."""
        if self.flight or self.isolated or self.pinned:
            return False
        if self.places is not None and (self.places.taken or self.places.waiting):
            return False
        breaker = self.breaker
        if breaker is not None and not breaker.is_plain and breaker.state(clock.monotonic()) != "closed":
            return False
        return self.gate is None or self.gate.is_open


_LOUD = {"breaker.opened", "breaker.lease_expired"}


def _text_of(key: Any) -> str | None:
    """A key for people; one that cannot be printed has the name of its class."""
    try:
        return None if key is None else str(key)
    except Exception:  # noqa: BLE001 - anybody's class
        return f"<{type(key).__name__}>"


def _opened(fields: dict[str, Any]) -> str:
    return {
        "failures": "too many failures in a row",
        "failure_rate": "too large a share of failures",
        "slow_rate": "too large a share of slow calls",
        "probe": "a probe failed",
    }.get(str(fields.get("reason")), str(fields.get("reason")))

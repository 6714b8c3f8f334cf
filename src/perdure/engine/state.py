"""The state of one dependency, or of one key of it: what all its callers share.

It holds the pure deciders of ``perdure.core``, which are asked and told under its lock: about attempts in
``perdure.engine.attempts``, the limits in ``limiting``, the budget in ``spending``, operators in ``isolating``.

The success path of a fused wrapper takes no lock. While nothing is wrong, ``fast`` is a lease; a call appends to
``flight``, runs, pops, and adds 1 to ``fast.ok``: appending and popping are atomic, and the counts are gathered
later, when a decider is next asked. As soon as a decider wants to be asked about each call, ``fast`` is None and
all calls come through ``attempts.enter`` and ``attempts.leave``. So does one call every TICK: it moves the windows
on and its latency is the sample.

What happens is collected in ``news`` and told after the lock is released: no user code runs under it.
"""

from __future__ import annotations

import sys
from _thread import RLock
from collections import deque
from sys import getrefcount

from perdure import clock
from perdure.core.lease import Lease
from perdure.errors import BreakerOpen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.breaker import BreakerState
    from perdure.core.budget import Bucket, Share
    from perdure.core.gate import GateState
    from perdure.core.latency import AdaptiveTimeout, Latencies
    from perdure.core.limits import Gcra, Places
    from perdure.core.throttle import ThrottleState
    from perdure.engine.attempts import Passage
    from perdure.engine.kit import Kit
    from perdure.errors import Refused

    News = tuple[str, dict[str, Any]]

__all__ = ["State"]

QUIET = 0.5
"""Seconds in which refusals of an open breaker are raised without asking it, telling or logging anything."""

ERRORS_KEPT = 5
_OURS = 3  # references to a lease that no call holds: the list's, the loop's, and that of the question itself
_new_refusal = BaseException.__new__  # __init__ would only set the same arguments once more
_HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)


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
        self.choose_path()

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

    # Refusing

    def isolations(self) -> dict[str, tuple[str, float | None]]:
        """Who isolates it, and the whole dependency."""
        return self.isolated if self.whole is None else {**self.whole.isolated, **self.isolated}

    def refusal(self, now: float) -> BreakerOpen:
        """The refusal of an open breaker, for wrappers: all that ``enter`` would tell was told a moment ago."""
        self.rejected += 1
        return _new_refusal(BreakerOpen, self.name, self.why, self.opens_at - now)

    def reject_at_once(self, now: float, after: float) -> None:
        """Its breaker is open for so long: calls may be refused without asking it, for a moment."""
        self.opens_at = now + after
        self.why = self.with_key(self.opened)
        self.rejects_until = min(self.opens_at, now + QUIET) if _HAS_GIL() else 0.0

    def refused(self, kind: type[Refused], what: str, reason: str, after: float | None) -> Refused:
        """A refusal, which is counted."""
        self.count(f"refused.{what}")
        return kind(self.name, self.with_key(reason), after)

    def with_key(self, reason: str) -> str:
        """A reason, saying of which key where there is one."""
        if self.text is None:
            return reason
        return f"{reason} (key {self.text})" if reason else f"key {self.text}"

    def fly(self) -> bool:
        """Count an attempt in flight without asking anybody; False: an open gate is at its ceiling."""
        self.flight.append(None)
        if self.kit.ceiling and len(self.flight) > self.kit.ceiling:
            self.flight.pop()
            return False
        return True

    # Paths

    def choose_path(self) -> None:
        """Whether calls may take the success path from here on."""
        plain = self.kit.is_fusable and not self.isolations() and _HAS_GIL()
        if plain and self.breaker is not None:
            plain = self.breaker.is_plain
        if plain and self.gate is not None:
            plain = self.gate.is_open
        self.fast = self.shared if plain else None

    def note_breaker(self) -> None:
        """Take over what the breaker did: its news, and the lease of a new period."""
        breaker = self.breaker
        if breaker is None:
            return
        if breaker.changes:
            for name, fields in breaker.changes:
                if name == "breaker.opened":
                    self.opened = _opened(fields)
                self.tell(name, severity="warning" if name in _LOUD else "info", **fields)
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

    def tell(self, name: str, **fields: Any) -> None:
        """Add to the news."""
        self.news.append((name, fields))

    def take_news(self) -> list[News]:
        """What happened since it was last asked, to be told outside the lock."""
        with self.lock:
            news, self.news = self.news, []
            return news

    def forked(self, in_flight: int) -> None:
        """Go on in a forked child with the attempts of this thread only: the others are not there."""
        self.lock = RLock()
        self.flight[:] = [None] * min(in_flight, len(self.flight))
        if self.places is not None:
            self.places.alone(min(in_flight, self.places.taken))

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

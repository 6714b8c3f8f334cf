"""The circuit breaker as a state machine: it refuses calls to a dependency that fails, and probes its return.

=========  ===============================================================================================
closed     every call is admitted and shares one lease, the one in ``shared``
open       every call is refused until the open time is over
half_open  at most ``probes`` calls are out, and never more than are still needed to close it
ramping    closed, but calls in flight are bounded while the dependency takes up its load (core/ramp.py)
=========  ===============================================================================================

Transitions:

- closed or ramping -> open: by one of the rules of core/trip.py, which also has the open time. Only a failure or
  a slow success trips it: plain successes are counted later than they happen.
- open -> half_open: the first ``acquire`` after the open time.
- half_open -> open: a failed probe, at once.
- half_open -> ramping (closed, without a ramp): after ``successes`` successful probes.
- ramping -> closed: after max(10 s, the last open time). The breaker is then closed for good, and open times
  begin at ``cooldown`` again; without a ramp, max(window, the last open time) after closing.

Time moves the machine only when somebody asks: ``state`` and ``retry_after`` compute, all others also change.

Late results: each transition but the last begins a new generation. A result whose lease is of another
generation, or whose lease expired, changes nothing and gives "breaker.late_result". A probe that is abandoned or
expires gives its place back and decides nothing. Successes of the shared lease may come as ``lease.ok += 1``;
they are read from it before anything else is counted, so that one between two failures parts them all the same.
"""

from __future__ import annotations

from perdure.core.lease import Lease
from perdure.core.leases import Leases
from perdure.core.ramp import Ramp
from perdure.core.trip import Cooling, Tally
from perdure.core.window import gap, later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Self

    from perdure.core.backoff import Draw
    from perdure.core.trip import BreakerRule

    State = Literal["closed", "open", "half_open", "ramping"]

__all__ = ["BreakerState"]

TICK = 0.02  # seconds; while there is traffic, ``settle`` is called at least this often
SHADOW = -1  # the generation of a lease that stands for a refusal in shadow mode
_FOREVER = float("inf")


class BreakerState:
    """One breaker at work, by the ``rule`` the user wrote; see the module for its states.

    ``window`` is over how many seconds results count, ``lease`` after how many a silent probe gives its place
    back. Its holder takes care that one thread calls it at a time (``shared.ok += 1`` needs no care), gives the
    monotonic ``now``, and after each call takes what is in ``changes``, a list of (event name, fields), and
    reads ``is_plain`` again: whether calls may just run and add to ``shared.ok``.
    """

    __slots__ = (
        *("_cooling", "_draw", "_generation", "_now", "_places", "_ramp", "_rule", "_seen"),
        *("_span", "_state", "_succeeded", "_tally", "changes", "is_plain", "shared"),
    )

    def __init__(self, rule: BreakerRule, *, window: float, lease: float) -> None:
        self._rule = rule
        self._span = window
        self._tally = Tally(rule, window)
        self._cooling = Cooling(rule)
        self._places = Leases(lease)
        self._ramp = Ramp(window)
        self._draw: Draw = lambda: 0.5  # until somebody gives one
        self._now = -_FOREVER
        self._generation = -1
        self.changes: list[tuple[str, dict[str, object]]] = []
        self._begin("closed")

    def state(self, now: float) -> State:
        """The state at ``now``; an open time that is over reads as half_open. Changes nothing."""
        at = later(now, self._now)
        if self._state == "open" and at >= self._cooling.until:
            return "half_open"
        if self._state == "ramping" and at >= self._ramp.ends:
            return "closed"
        return self._state

    def retry_after(self, now: float) -> float:
        """Seconds until a call is admitted even if no other reports before; 0: at once. Changes nothing."""
        at = later(now, self._now)
        if self._state == "open":
            return gap(at, self._cooling.until)
        taken = self._places.taken(at)
        if self._has_place(at, taken):
            return 0.0
        end = self._places.next_expiry(at)
        if self._state == "ramping":
            end = min(end, self._ramp.ends, self._ramp.room_at(taken))
        return gap(at, end)

    def acquire(self, now: float, draw: Draw) -> Lease | None:
        """Admit a call: its lease, which takes exactly one of success, failure and abandon. None: refused.

        In shadow mode no call is refused: one that would be gets a lease whose result is ignored, and
        "breaker.rejected" goes into ``changes``.
        """
        at = self._advance(now)
        self._draw = draw
        if self._state == "closed":
            return self.shared
        if self._state == "open" and at >= self._cooling.until:
            self._begin("half_open")
            self._tell("breaker.half_open")
        if self._has_place(at, len(self._places)):
            return self._places.give(self._generation, at, probe=self._state == "half_open")
        if self._rule.mode != "shadow":
            return None
        self._tell("breaker.rejected", reason="shadow")
        return Lease(SHADOW)

    def success(self, lease: Lease, now: float, took: float | None = None) -> None:
        """The call of this lease succeeded, in ``took`` seconds; any answer is a success, a refusal too."""
        at = self._advance(now)
        if not self._accepts(lease, "success"):
            return
        if self._state != "half_open":
            if self._tally.succeeded(at, took=took):
                self._judge(at, self._draw, None)
            return
        self._succeeded += 1
        if self._succeeded >= self._rule.successes:
            self._close(at)

    def failure(
        self, lease: Lease, now: float, draw: Draw, hint: float | None = None, took: float | None = None
    ) -> None:
        """The call of this lease failed after ``took`` seconds; the server asks for ``hint`` seconds of rest."""
        at = self._advance(now)
        if not self._accepts(lease, "failure"):
            return
        if self._state == "half_open":
            self._open(at, "probe", draw, hint)
        else:
            self._tally.failed(at, took)
            self._judge(at, draw, hint)

    def abandon(self, lease: Lease, now: float) -> None:
        """The call of this lease ended without a word about the dependency: its place is free."""
        self._advance(now)
        self._places.take_back(lease)

    def settle(self, now: float) -> None:
        """Count what was added to ``shared.ok`` since the last call into the machine."""
        self._advance(now)

    def saw(self, in_flight: int) -> None:
        """Learn how many calls are in flight; a ramp leads back to the highest number before the trip."""
        if self._state == "closed":
            self._ramp.saw(in_flight)

    def to_dict(self, now: float) -> dict[str, object]:
        """What another process needs to go on from here, as JSON: ages instead of times; see core/kept.py."""
        from perdure.core.kept import kept

        return kept(self, self._advance(now))

    @classmethod
    def from_dict(cls, rule: BreakerRule, data: object, now: float, *, window: float, lease: float) -> Self:
        """The machine that ``to_dict`` described. Raises ValueError naming the field that makes no sense."""
        from perdure.core.kept import restore

        state = cls(rule, window=window, lease=lease)
        restore(state, data, state._advance(now))
        return state

    def _begin(self, state: State) -> None:
        """A new period: what was counted and lent in the one before is void."""
        self._state: State = state
        self._generation += 1
        self._places.clear()
        self._tally.clear()
        self._succeeded = 0  # probes of this half-open period
        self._seen = 0  # of shared.ok
        self.shared: Lease = Lease(self._generation)
        self._tell_plain()

    def _tell_plain(self) -> None:
        # A rule on slow calls needs the time each success took, which ``ok += 1`` does not tell.
        self.is_plain: bool = self._state == "closed" and not self._tally.watches_slow

    def _advance(self, now: float) -> float:
        """Let time pass up to ``now``: fused successes, expired leases, the end of a ramp. Never goes back."""
        at = later(now, self._now)
        ok = self.shared.ok
        if ok > self._seen:
            # Calls between two ticks end near the first: after an idle time they are as old as that.
            ended = min(at, self._now + TICK) if self._now > -_FOREVER else at
            self._tally.succeeded(ended, ok - self._seen)
            self._seen = ok
        self._now = at
        for _ in range(self._places.expire(at)):
            self._tell("breaker.lease_expired")
        if self._state == "ramping" and at >= self._ramp.ends:
            self._state = "closed"  # the same period: its leases and counts stay
            self._ramp.finish(at)
            self._tell_plain()
        if self._state == "closed":
            self._ramp.turn(at)
        return at

    def _has_place(self, at: float, taken: int) -> bool:
        if self._state == "half_open":
            return taken < min(self._rule.probes, self._rule.successes - self._succeeded)
        if self._state == "ramping":
            return self._ramp.admits(at, taken)
        return self._state == "closed"

    def _accepts(self, lease: Lease, result: str) -> bool:
        """Whether a result counts; it ends its lease."""
        if self._places.take_back(lease):
            return True
        if lease is self.shared and self._state in ("closed", "ramping"):
            return True
        if lease.generation != SHADOW and not lease.done:
            self._tell("breaker.late_result", reason=result)
        return False

    def _judge(self, at: float, draw: Draw, hint: float | None) -> None:
        """Open where one of the rules says so."""
        reason = self._tally.reason(at)
        if reason is not None:
            self._open(at, reason, draw, hint)

    def _open(self, at: float, reason: str, draw: Draw, hint: float | None) -> None:
        seconds = self._cooling.begin(at, draw, hint)
        self._begin("open")
        self._tell("breaker.opened", reason=reason, delay=seconds)

    def _close(self, at: float) -> None:
        self._begin("ramping" if self._rule.ramp else "closed")
        self._tell("breaker.closed")
        if self._rule.ramp:
            self._ramp.start(at, self._cooling.length)
            self._cooling.end(self._ramp.ends)
            self._tell("breaker.ramping", delay=self._ramp.length)
        else:
            self._cooling.end(at + max(self._span, self._cooling.length))

    def _tell(self, name: str, **fields: object) -> None:
        self.changes.append((name, fields))

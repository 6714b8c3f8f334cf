"""A breaker by name: the library's own state machine, loaded from the shared file for each question.

The machine keeps no leases when it is written down. Here they are kept beside it: each probe that is out with its
holder and its expiry, so that a killed holder's place comes back at once, and a hung one's in time. Results of
another period (counted in ``period``: each opening, half-opening and closing begins one) change nothing.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from perdure import clock
from perdure.cli.shared.holder import is_alive, this_process
from perdure.cli.shared.store import fields_of
from perdure.core.breaker import BreakerState
from perdure.core.lease import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypeGuard

    from perdure.cli.shared.store import Kept, Transaction

__all__ = ["Loaded", "SharedBreaker", "load"]

KIND = "breaker"

WINDOW = 600.0
"""Failures in a row count together when they are no further apart than this, or than five cooldowns."""

PROBE = 3600.0
"""Seconds after which a probe without --timeout gives its place back, although its process lives."""

MARGIN = 60.0
"""Seconds that a probe with --timeout may take beyond it and the grace: for hooks and slow machines."""

REMEMBERED = 86400.0
"""Seconds after which a success is written down although it changes nothing: the name is in use."""

_ANOTHER = -2  # the generation of a lease of another period: no machine has it


class Rule(NamedTuple):
    """What the machine reads of a breaker; the numbers beyond the options are the library's."""

    failures: int | None
    cooldown: float
    max_cooldown: float
    failure_rate: float | None = None
    min_calls: int = 20
    slow: float | None = None
    slow_rate: float | None = None
    probes: int = 1
    successes: int = 2
    ramp: bool = False
    mode: Literal["on", "shadow"] = "on"


class Loaded:
    """A machine as it was in the file, with its probes; changed, it is put back by ``save``."""

    def __init__(
        self, name: str, kept: Kept | None, rule: Rule, window: float, lease: float, now: float
    ) -> None:
        self.name = name
        self.now = now
        data = {} if kept is None else kept.data
        base = now if kept is None else min(kept.at, now)  # a clock set back: no time has passed
        self.changed = kept is not None and kept.at > now
        try:
            self.machine = BreakerState.from_dict(rule, data.get("machine"), base, window=window, lease=lease)
        except ValueError:  # nothing yet, or nothing that makes sense
            self.machine = BreakerState(rule, window=window, lease=lease)
            data = {}
        told = fields_of(data.get("machine"))
        fresh = kept is not None and now - kept.at < REMEMBERED
        self.is_calm = fresh and told.get("state") == "closed" and not told.get("run")
        period = data.get("period")
        self.period = period if isinstance(period, int) else 0
        self._generation = self.machine.shared.generation
        self._is_new = kept is None
        self.rule = rule
        self.probes: dict[Lease, dict[str, Any]] = {}
        for probe in _probes(data, now):
            self._lend_again(probe, base)

    def _lend_again(self, probe: dict[str, Any], base: float) -> None:
        """Take the place of a probe that is out, unless its time is over or its holder is dead."""
        if probe["until"] <= self.now or is_alive(probe) is False:
            self.changed = True
            self.machine.changes.append(("breaker.lease_expired", {}))
            return
        lease = self.machine.acquire(base, clock.random) if self.machine.state(base) == "half_open" else None
        if lease is not None and lease.probe:
            lease.until = probe["until"]
            self.probes[lease] = probe

    def lease_of(self, ident: str) -> Lease | None:
        """The lease of a probe that is still out."""
        return next((lease for lease, probe in self.probes.items() if probe["id"] == ident), None)

    def settle(self) -> None:
        """Count periods, and drop the probes that have ended with theirs."""
        begun = self.machine.shared.generation - self._generation
        if begun:
            self.period += begun
            self._generation = self.machine.shared.generation
            current = self._generation
            self.probes = {
                lease: probe for lease, probe in self.probes.items() if lease.generation == current
            }
        self.changed = self.changed or bool(begun)

    def save(self, tx: Transaction) -> None:
        """Write it down."""
        self.settle()
        if self._is_new:
            tx.forget_old(KIND)
        machine = {**self.machine.to_dict(self.now), "generation": 0}
        probes = [probe for lease, probe in self.probes.items() if not lease.done]
        rule = {"failures": self.rule.failures, "cooldown": self.rule.cooldown}
        tx.put(KIND, self.name, {"machine": machine, "period": self.period, "probes": probes, "rule": rule})


class SharedBreaker:
    """The view that one process has of a breaker: ``ask`` before each attempt, then ``report`` once.

    ``timeout`` is how long an attempt may take, its grace included; None: nothing bounds it.
    """

    def __init__(self, name: str, failures: int, cooldown: float, timeout: float | None) -> None:
        self.name = name
        self.rule = Rule(failures, cooldown, max_cooldown=5 * cooldown)
        self.window = max(WINDOW, 5 * cooldown, 2 * (timeout or 0.0))
        self.lease = PROBE if timeout is None else timeout + MARGIN
        self.changes: list[tuple[str, dict[str, object]]] = []
        self._period: int | None = None  # of the attempt that is out
        self._probe = ""

    @property
    def is_out(self) -> bool:
        """Whether an attempt was admitted and has not reported."""
        return self._period is not None

    def ask(self, tx: Transaction) -> tuple[str, float] | None:
        """Admit an attempt; or the state that refuses it, and the seconds until it makes sense to ask again."""
        one = self._load(tx)
        lease = one.machine.acquire(tx.now, clock.random)
        if lease is None:
            refused = one.machine.state(tx.now), one.machine.retry_after(tx.now)
            self._done(one, tx)
            return refused
        one.settle()
        self._probe = ""
        if lease.probe:
            self._probe = os.urandom(8).hex()
            until = {"id": self._probe, "until": tx.now + self.lease, "term": self.lease}
            one.probes[lease] = {**this_process(), **until}
            one.changed = True
        self._period = one.period
        self._done(one, tx)
        return None

    def report(self, tx: Transaction, meaning: str) -> None:
        """Tell how the attempt ended: "success", "failure", or "nothing" where it says nothing."""
        one = self._load(tx)
        lease = self._lease(one)
        self._period = None
        if meaning == "success":
            one.machine.success(lease, tx.now)
        elif meaning == "failure":
            one.machine.failure(lease, tx.now, clock.random)
        else:
            one.machine.abandon(lease, tx.now)
        one.probes.pop(lease, None)
        says_nothing_new = meaning == "nothing" or (meaning == "success" and one.is_calm)
        one.changed = one.changed or lease.probe or not says_nothing_new
        self._done(one, tx)

    def _lease(self, one: Loaded) -> Lease:
        another = Lease(_ANOTHER)
        if self._period != one.period:
            return another
        return one.lease_of(self._probe) or another if self._probe else one.machine.shared

    def _load(self, tx: Transaction) -> Loaded:
        kept = tx.get(KIND, self.name)
        return Loaded(self.name, kept, self.rule, self.window, self.lease, tx.now)

    def _done(self, one: Loaded, tx: Transaction) -> None:
        one.settle()
        if one.changed:
            one.save(tx)
        self.changes += one.machine.changes


def load(tx: Transaction, name: str) -> Loaded | None:
    """A breaker to look at, by the rule that was last used for it."""
    kept = tx.get(KIND, name)
    if kept is None:
        return None
    told = fields_of(kept.data.get("rule"))
    failures, cooldown = told.get("failures"), told.get("cooldown")
    failures = failures if isinstance(failures, int) and failures > 0 else 5
    cooldown = float(cooldown) if isinstance(cooldown, (int, float)) and cooldown > 0 else 60.0
    view = SharedBreaker(name, failures, cooldown, None)
    return Loaded(name, kept, view.rule, view.window, view.lease, tx.now)


def _probes(data: dict[str, Any], now: float) -> list[dict[str, Any]]:
    """The probes of a row that make sense, the first to expire first."""
    listed: object = data.get("probes")
    fine: list[dict[str, Any]] = []
    for probe in (fields_of(one) for one in (listed if _is_list(listed) else ())):
        until, term = probe.get("until"), probe.get("term")
        if isinstance(probe.get("id"), str) and _is_number(until) and _is_number(term):
            fine.append({**probe, "until": min(until, now + term)})  # less where the clock was set back
    return sorted(fine, key=lambda probe: float(probe["until"]))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float))


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)

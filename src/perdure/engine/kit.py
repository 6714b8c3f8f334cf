"""What a dependency is made of: the values its user wrote, turned into the deciders that each key gets.

A Kit is frozen and knows the numbers that depend on more than one value: the breaker's window and lease on the
attempt timeout, the budget's on the attempts and on whether there is a gate.
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.latency import AdaptiveTimeout, Latencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.core.breaker import BreakerState
    from perdure.core.budget import Bucket, Share
    from perdure.core.gate import GateState
    from perdure.core.limits import Gcra, Places
    from perdure.core.throttle import ThrottleState
    from perdure.parts import Breaker, Budget, Bulkhead, Gate, RateLimit

__all__ = ["Kit"]

PER_SUCCESS_WITH_GATE = 0.5
PER_SUCCESS_ALONE = 0.1
SHORTEST_WINDOW = 30.0
USUAL_LEASE = 30.0
LONGEST_PACE = 1.0


@dataclass(frozen=True, slots=True)
class Kit:
    """The parts with state, and the numbers they need from the rest. Immutable."""

    breaker_rule: Breaker | None
    budget_rule: Budget | None
    gate_rule: Gate | None
    rate_rule: RateLimit | None
    bulkhead_rule: Bulkhead | None
    attempts: int
    attempt_timeout: float | None
    is_adaptive: bool
    hint_cap: float

    @property
    def window(self) -> float:
        """Seconds over which the breaker counts."""
        given = None if self.breaker_rule is None else self.breaker_rule.window
        return max(SHORTEST_WINDOW, 2 * (self.attempt_timeout or 0.0)) if given is None else given

    @property
    def lease(self) -> float:
        """Seconds after which a silent probe gives its place back."""
        given = None if self.breaker_rule is None else self.breaker_rule.lease
        if given is not None:
            return given
        # Longer than an attempt can take: one that its timeout cuts has to report as the failure it is.
        return USUAL_LEASE if self.attempt_timeout is None else 2 * self.attempt_timeout

    @property
    def start(self) -> float:
        """What the budget starts with: enough for all retries of one call."""
        given = None if self.budget_rule is None else self.budget_rule.start
        return float(self.attempts - 1) if given is None else given

    @property
    def burst(self) -> int:
        """How many calls the rate limit lets out at once."""
        rule = self.rate_rule
        if rule is None:
            return 1
        return int(rule.burst if rule.burst is not None else max(1, rule.limit))

    @property
    def is_shadow(self) -> bool:
        """Whether the breaker only reports."""
        return self.breaker_rule is not None and self.breaker_rule.mode == "shadow"

    @property
    def has_limits(self) -> bool:
        """Whether attempts may have to wait for a limit."""
        return self.rate_rule is not None or self.bulkhead_rule is not None

    @property
    def is_fusable(self) -> bool:
        """Whether the success path holds all that a call needs."""
        throttles = self.gate_rule is not None and self.gate_rule.throttle_k is not None
        return not (self.has_limits or throttles or self.is_adaptive)

    @property
    def counts_flight(self) -> bool:
        """Whether somebody asks how many attempts are on the wire."""
        return self.gate_rule is not None or (self.breaker_rule is not None and self.breaker_rule.ramp)

    @property
    def needs_ticks(self) -> bool:
        """Whether the time has to be looked at before each call, as it matters when exactly things happened."""
        shares = self.budget_rule is not None and self.budget_rule.max_ratio is not None
        return self.gate_rule is not None or shares

    @property
    def has_window(self) -> bool:
        """Whether the breaker counts by time: then the time has to be looked at every few calls."""
        return self.breaker_rule is not None and self.breaker_rule.failure_rate is not None

    @property
    def counts_successes(self) -> bool:
        """Whether it matters how many successes there were, not only that there was one."""
        return self.needs_ticks or self.has_window or self.budget_rule is not None

    @property
    def ceiling(self) -> int:
        """How many attempts an open gate lets out at a time; 0 without one."""
        if self.gate_rule is None or self.gate_rule.throttle_k is not None:
            return 0
        return int(self.gate_rule.ceiling)

    def breaker(self) -> BreakerState | None:
        """A closed breaker."""
        if self.breaker_rule is None:
            return None
        from perdure.core.breaker import BreakerState

        return BreakerState(self.breaker_rule, window=self.window, lease=self.lease)

    def gate(self) -> GateState | None:
        """An open gate."""
        if self.gate_rule is None or self.gate_rule.throttle_k is not None:
            return None
        from perdure.core.gate import GateState

        return GateState(self.gate_rule, self.pace)

    @property
    def pace(self) -> float:
        """Seconds between two attempts of a gate that is cut to one: no longer than an attempt may take."""
        return LONGEST_PACE if self.attempt_timeout is None else min(LONGEST_PACE, self.attempt_timeout)

    def throttle(self) -> ThrottleState | None:
        """The other form of gate."""
        if self.gate_rule is None or self.gate_rule.throttle_k is None:
            return None
        from perdure.core.throttle import ThrottleState

        return ThrottleState(self.gate_rule.throttle_k, self.gate_rule.throttle_window)

    def bucket(self, start: float | None = None) -> Bucket | None:
        """A bucket with ``start`` tokens, for keys that drew theirs from the dependency's own."""
        rule = self.budget_rule
        if rule is None or rule.max_ratio is not None:
            return None
        from perdure.core.budget import Bucket

        usual = PER_SUCCESS_ALONE if self.gate_rule is None else PER_SUCCESS_WITH_GATE
        per_success = usual if rule.per_success is None else rule.per_success
        cap = max(rule.cap, self.attempts - 1)
        return Bucket(per_success, cap, self.start if start is None else start)

    def share(self) -> Share | None:
        """The other form of budget."""
        rule = self.budget_rule
        if rule is None or rule.max_ratio is None:
            return None
        from perdure.core.budget import Share

        return Share(rule.max_ratio, rule.window, self.start)

    def rate(self) -> Gcra | None:
        """A rate limit with its whole burst."""
        rule = self.rate_rule
        if rule is None:
            return None
        from perdure.core.limits import Gcra

        return Gcra(rule.limit, rule.per, self.burst)

    def places(self) -> Places | None:
        """An empty bulkhead."""
        if self.bulkhead_rule is None:
            return None
        from perdure.core.limits import Places

        return Places(self.bulkhead_rule.limit, self.bulkhead_rule.queue)

    def latencies(self) -> Latencies:
        """A histogram without samples."""
        return Latencies()

    def adaptive(self, latencies: Latencies) -> AdaptiveTimeout | None:
        """The timeout that follows the latencies."""
        return AdaptiveTimeout(latencies) if self.is_adaptive else None

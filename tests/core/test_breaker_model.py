"""Random lives of a breaker: at each step it does what the plain model says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.core.breaker import TICK, BreakerState
from tests.core.breakers import LEASE, WINDOW, Model, Rule, Token, told, whole

if TYPE_CHECKING:
    from perdure.core.lease import Lease

# Quarters of a second: sums are exact, so that no step falls on the other side of a bound by rounding.
quarters = st.integers(1, 400).map(lambda n: n / 4)
rules = st.builds(
    Rule,
    failures=st.one_of(st.none(), st.integers(1, 4)),
    failure_rate=st.one_of(st.none(), st.sampled_from((0.25, 0.5, 1.0))),
    min_calls=st.integers(1, 6),
    cooldown=st.sampled_from((0.5, 5, 20)),
    max_cooldown=st.sampled_from((20, 70)),
    probes=st.integers(1, 3),
    successes=st.integers(1, 3),
)


class Lives(RuleBasedStateMachine):
    """A holder of both: it acquires, reports, forgets, settles, and lets time pass."""

    @initialize(rule=rules, began=st.sampled_from((0.0, 1000.0)))
    def build(self, rule: Rule, began: float) -> None:
        self.rule = rule
        self.now = began
        self.settled = -1.0
        self.breaker = BreakerState(rule, window=WINDOW, lease=LEASE)
        self.model = Model(rule, now=began)
        self.out: list[tuple[Lease, Token]] = []  # not reported yet, of any age
        self.settle()

    # Time

    @rule(step=quarters)
    def time_passes(self, step: float) -> None:
        self.now += step

    @rule(step=quarters)
    def the_clock_goes_back(self, step: float) -> None:
        self.now -= step

    @rule()
    def the_open_time_ends(self) -> None:
        self.now = max(self.now, self.model.until)

    @rule()
    def settle(self) -> None:
        self.breaker.settle(self.now)
        self.model.wait(self.now)
        self.settled = self.now

    # Calls

    @rule()
    def acquire(self) -> None:
        lease, token = self.breaker.acquire(self.now, whole), self.model.acquire(self.now)
        assert (lease is None) == (token is None)
        if lease is not None and token is not None:
            assert (lease.generation, lease.probe) == (token[0], token[1] is not None)
            self.out.append((lease, token))

    @precondition(lambda self: self.breaker.is_plain)
    @rule(calls=st.integers(1, 5))
    def calls_succeed_without_asking(self, calls: int) -> None:
        # As the success path: it only looks whether a tick is due.
        if self.now - self.settled >= TICK:
            self.settle()
        for _ in range(calls):
            self.breaker.shared.ok += 1
            self.model.report((self.model.period, None), self.model.now, failed=False)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def a_call_succeeds(self, data: st.DataObject) -> None:
        lease, token = self.pick(data)
        self.breaker.success(lease, self.now)
        self.model.report(token, self.now, failed=False)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), hint=st.one_of(st.none(), st.integers(1, 100)))
    def a_call_fails(self, data: st.DataObject, hint: int | None) -> None:
        lease, token = self.pick(data)
        self.breaker.failure(lease, self.now, whole, hint)
        self.model.report(token, self.now, failed=True, hint=hint or 0)

    @rule(calls=st.integers(1, 6))
    def calls_fail_in_a_row(self, calls: int) -> None:
        # Three steps of five would have to be this one for breakers to open often.
        for _ in range(calls):
            lease, token = self.breaker.acquire(self.now, whole), self.model.acquire(self.now)
            assert (lease is None) == (token is None)
            if lease is not None and token is not None:
                self.breaker.failure(lease, self.now, whole)
                self.model.report(token, self.now, failed=True)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def a_call_is_abandoned(self, data: st.DataObject) -> None:
        lease, token = self.pick(data)
        self.breaker.abandon(lease, self.now)
        self.model.abandon(token, self.now)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def a_call_hangs_for_ever(self, data: st.DataObject) -> None:
        self.pick(data)

    def pick(self, data: st.DataObject) -> tuple[Lease, Token]:
        return self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))

    # What must hold

    @invariant()
    def both_tell_the_same(self) -> None:
        if hasattr(self, "breaker"):
            assert told(self.breaker) == self.model.news
            self.model.news.clear()

    @invariant()
    def both_are_in_the_same_state(self) -> None:
        if not hasattr(self, "breaker"):
            return
        now = max(self.now, self.model.now)
        ready = self.model.state == "open" and now >= self.model.until
        assert self.breaker.state(self.now) == ("half_open" if ready else self.model.state)
        assert self.breaker.is_plain == (self.model.state == "closed")
        assert self.breaker.shared.generation == self.model.period

    @invariant()
    def the_wait_it_names_is_the_one_that_ends_in_a_place(self) -> None:
        if not hasattr(self, "breaker"):
            return
        now, model = max(self.now, self.model.now), self.model
        wait = self.breaker.retry_after(self.now)
        alive = sorted(expiry for expiry in model.probes.values() if expiry > now)
        full = model.state == "half_open" and len(alive) >= min(
            self.rule.probes, self.rule.successes - model.good
        )
        end = model.until if model.state == "open" else alive[0] if full else now
        assert wait == max(0.0, end - now)


Lives.TestCase.settings = settings(stateful_step_count=60)
TestLives = Lives.TestCase

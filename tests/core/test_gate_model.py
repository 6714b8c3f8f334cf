"""The gate under every order of questions and reports: the limit keeps to its bounds and its pace."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perdure.core.gate import CUT_EVERY, QUIET, GateState
from tests.core.test_gate import Rule

rules = st.builds(Rule, ceiling=st.sampled_from((1, 2, 20, 1000)), floor=st.sampled_from((0.01, 0.1, 1)))


class AnyOrder(RuleBasedStateMachine):
    """Whatever is told in whatever order, the limit keeps to its bounds and its pace."""

    @initialize(rule_=rules)
    def begin(self, rule_: Rule) -> None:
        self.state, self.now, self.total = GateState(rule_), 0.0, 0
        self.cut_at = self.signal_at = -math.inf

    @rule(passed=st.floats(0, 1) | st.floats(0, 40) | st.floats(-5, 0))
    def pass_time(self, passed: float) -> None:
        self.now = self.now + passed

    @rule(n=st.integers(0, 30), in_flight=st.integers(0, 60))
    def send(self, n: int, in_flight: int) -> None:
        self.total += n
        self.state.sent(self.now, self.total)
        self.state.saw(self.now, in_flight)

    @rule(in_flight=st.integers(0, 60), share=st.floats(0, 1, exclude_max=True))
    def ask(self, in_flight: int, share: float) -> None:
        if self.state.admit(self.now, in_flight, lambda: share):
            assert in_flight < max(1, self.state.limit)
        else:
            assert not in_flight or in_flight >= self.state.limit
        assert 0 < self.state.retry_after(self.now) < math.inf

    @rule(in_flight=st.integers(1, 60), took=st.none() | st.floats(0.001, 5))
    def succeed(self, in_flight: int, took: float | None) -> None:
        before = self.state.limit
        self.state.success(self.now, in_flight, took)
        assert before <= self.state.limit <= before + 1

    @rule(in_flight=st.integers(0, 60))
    def overload(self, in_flight: int) -> None:
        state, before = self.state, self.state.limit
        was_open = self.state.is_open
        cut = state.overload(self.now, in_flight)
        if cut:
            assert state._now - self.cut_at >= CUT_EVERY
            self.cut_at = state._now
        assert cut is (state.limit < before) or (not was_open and state._now - self.signal_at >= QUIET)
        self.signal_at = state._now

    @rule()
    def settle(self) -> None:
        self.state.settle(self.now)
        if self.state._now - self.signal_at >= QUIET:
            assert self.state.is_open

    @invariant()
    def the_limit_is_between_floor_and_ceiling(self) -> None:
        if hasattr(self, "state"):
            assert self.state.rule.floor <= self.state.limit <= self.state.rule.ceiling


test_the_limit_keeps_to_its_bounds_and_its_pace_in_any_order = AnyOrder.TestCase

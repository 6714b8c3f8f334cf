"""Random lives of a breaker whose callers come in threads, at once: as the plain model says of one after the other.

Callers that do the same at the same moment may be taken in any order, so the model takes them in some order, and
how many were admitted, what was told and the state afterwards have to be the same.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure import Breaker, Dependency, clock, registry
from perdure.engine import attempts
from perdure.engine.attempts import Passage
from perdure.faults.signal import Signal
from tests.core.breakers import LEASE, WINDOW, Model, Rule, Token, whole
from tests.core.test_breaker_model import quarters, rules

if TYPE_CHECKING:
    from collections.abc import Callable

CROWD = 8
crowds = st.integers(2, CROWD)
KINDS = {"success": Signal.ANSWER, "failure": Signal.FAILURE, "abandon": Signal.NEUTRAL}


class Crowds(RuleBasedStateMachine):
    """Callers in threads: they enter together, report together, cancel together, or hang."""

    @initialize(rule=rules.filter(lambda rule: rule.failures or rule.failure_rate))
    def build(self, rule: Rule) -> None:
        self.chance = mock.patch.object(clock, "random", whole)
        self.chance.start()
        self.pool = ThreadPoolExecutor(CROWD)
        names = ("failures", "failure_rate", "min_calls", "cooldown", "max_cooldown", "probes", "successes")
        values = {name: getattr(rule, name) for name in names}
        breaker = Breaker(**values, window=WINDOW, lease=LEASE, ramp=False)
        self.before = registry.known()
        made = Dependency("crowded", retry=None, budget=None, gate=None, breaker=breaker, replace=True)
        self.state = made._guard.core.root
        self.state.breaker.settle(0.0)  # both lives begin at 0, also where the clock goes back at once
        self.model = Model(rule)
        self.now = 0.0
        self.out: list[tuple[Passage, Token]] = []

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.pool.shutdown()
            self.chance.stop()
            registry.restore(self.before)

    def together(self, works: list[Callable[[], Any]]) -> list[Any]:
        """Run all in threads of their own, from the same moment on."""
        start = Barrier(len(works))

        def run(work: Callable[[], Any]) -> Any:
            start.wait(10)
            return work()

        return list(self.pool.map(run, works))

    @rule(step=quarters)
    def time_passes(self, step: float) -> None:
        self.now += step

    @rule(step=quarters)
    def the_clock_goes_back(self, step: float) -> None:
        self.now -= step

    @rule()
    def the_open_time_ends(self) -> None:
        self.now = max(self.now, self.model.until)

    @rule(crowd=crowds)
    def they_enter(self, crowd: int) -> None:
        got = self.together([lambda: attempts.enter(self.state, self.now)] * crowd)
        passages = [one for one in got if isinstance(one, Passage)]
        tokens = [token for _ in range(crowd) if (token := self.model.acquire(self.now)) is not None]
        assert len(passages) == len(tokens)
        self.out += zip(passages, tokens, strict=True)

    @precondition(lambda self: self.out)
    @rule(crowd=crowds, kind=st.sampled_from(sorted(KINDS)), data=st.data())
    def they_report(self, crowd: int, kind: str, data: st.DataObject) -> None:
        picked = [
            self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
            for _ in range(min(crowd, len(self.out)))
        ]
        leaves = [
            lambda passage=passage: attempts.leave(self.state, passage, KINDS[kind], self.now)
            for passage, _ in picked
        ]
        self.together(leaves)
        for _, token in picked:
            if kind == "abandon":
                self.model.abandon(token, self.now)
            else:
                self.model.report(token, self.now, failed=kind == "failure")

    @rule(crowd=crowds)
    def they_come_and_fail(self, crowd: int) -> None:
        self.they_enter(crowd)
        late, self.out = self.out[-crowd:], self.out[:-crowd]
        self.together(
            [
                lambda passage=passage: attempts.leave(self.state, passage, Signal.FAILURE, self.now)
                for passage, _ in late
            ]
            or [lambda: None]
        )
        for _, token in late:
            self.model.report(token, self.now, failed=True)

    @precondition(lambda self: self.out)
    @rule()
    def one_hangs_for_ever(self) -> None:
        passage, _ = self.out.pop(0)
        del passage

    @invariant()
    def both_tell_the_same_and_are_in_the_same_state(self) -> None:
        if not hasattr(self, "state"):
            return
        told = sorted(name for name, _ in self.state.take_news())
        assert told == sorted(self.model.news)
        self.model.news.clear()
        now = max(self.now, self.model.now)
        ready = self.model.state == "open" and now >= self.model.until
        breaker = self.state.breaker
        assert breaker is not None
        assert breaker.state(self.now) == ("half_open" if ready else self.model.state)
        assert (self.state.fast is not None) == (self.model.state == "closed")


Crowds.TestCase.settings = settings(stateful_step_count=30, deadline=None)
TestCrowds = Crowds.TestCase

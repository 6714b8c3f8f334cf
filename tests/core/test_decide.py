"""The decision after a failed attempt: go on after a wait, or stop and say why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import perdure
from perdure import Fault, FaultKind, StopReason
from perdure.core.backoff import DEFAULT
from perdure.core.decide import Stop, decide, is_retried
from tests.core import draws

TRANSIENT = Fault(FaultKind.TRANSIENT)
RETRIED = {FaultKind.TRANSIENT, FaultKind.THROTTLED, FaultKind.AMBIGUOUS}
times = st.floats(0, 1e6)


@dataclass
class Rule:
    """The three fields that the decision reads."""

    backoff: perdure.Backoff = perdure.Constant(1)
    deadline: float | None = None
    hint_cap: float = 300


def decided(
    fault: Fault = TRANSIENT, number: int = 1, allowed: int | None = 4, **given_: Any
) -> tuple[Any, Any]:
    """Delay and source where the call goes on; reason and the delay that did not fit where it stops."""
    rule = Rule(**{name: given_.pop(name) for name in ("backoff", "deadline", "hint_cap") if name in given_})
    usual = {
        "wanted": is_retried(fault),
        "safe": True,
        "refresh": False,
        "now": 0.0,
        "start": 0.0,
        "end": None,
        "previous": None,
        "draw": lambda: 0.5,
        "u": None,
    }
    answer = decide(rule, fault, number, allowed, **{**usual, **given_})
    return (answer.reason, answer.delay) if isinstance(answer, Stop) else (answer.delay, answer.source)


def goes_on(answer: tuple[Any, Any]) -> bool:
    return not isinstance(answer[0], StopReason)


def test_a_transient_fault_is_retried_after_the_computed_delay() -> None:
    assert decided() == (1, "computed")


@pytest.mark.parametrize("kind", FaultKind)
def test_by_default_the_kind_decides(kind: FaultKind) -> None:
    answer = decided(Fault(kind))
    assert goes_on(answer) is (kind in RETRIED)
    assert is_retried(Fault(kind)) is (kind in RETRIED)


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_nobody_wants_retried_is_permanent_or_says_nothing(kind: FaultKind) -> None:
    reason = StopReason.NEUTRAL if kind is FaultKind.NEUTRAL else StopReason.PERMANENT
    assert decided(Fault(kind), wanted=False) == (reason, None)


@pytest.mark.parametrize("kind", FaultKind)
def test_what_is_wanted_is_retried_whatever_its_kind(kind: FaultKind) -> None:
    assert decided(Fault(kind), wanted=True) == (1, "computed")


@pytest.mark.parametrize(("kind", "stops"), [(FaultKind.AMBIGUOUS, True), (FaultKind.TRANSIENT, False)])
def test_only_an_effect_that_may_have_happened_needs_a_safe_operation(kind: FaultKind, stops: bool) -> None:
    answer = decided(Fault(kind), safe=False)
    assert (answer == (StopReason.UNSAFE, None)) is stops


@pytest.mark.parametrize(
    ("number", "allowed", "stops"), [(1, 1, True), (3, 4, False), (4, 4, True), (5, 4, True)]
)
def test_there_are_at_most_the_allowed_attempts(number: int, allowed: int, stops: bool) -> None:
    assert (decided(number=number, allowed=allowed) == (StopReason.ATTEMPTS, None)) is stops


@given(st.integers(1, 10**9))
def test_without_a_bound_there_is_always_another_attempt(number: int) -> None:
    assert decided(number=number, allowed=None) == (1, "computed")


def test_what_can_be_refreshed_is_worth_one_attempt_at_once() -> None:
    assert decided(Fault(FaultKind.STALE, 60.0), refresh=True, hint_cap=1) == (0.0, "refresh")


def test_a_refresh_needs_an_attempt_that_is_left() -> None:
    assert decided(Fault(FaultKind.STALE), number=4, refresh=True) == (StopReason.ATTEMPTS, None)


def test_a_refresh_needs_time_that_is_left() -> None:
    answer = decided(Fault(FaultKind.STALE), refresh=True, now=3.0, deadline=2)
    assert answer == (StopReason.DEADLINE, 0.0)


# -- hints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "share", "wait"),
    [(4.0, 0.0, 4), (4.0, 0.5, 5), (20.0, 0.5, 25), (21.0, 0.5, 26), (300.0, 0.5, 305), (0.01, 0.5, 0.0125)],
)
def test_the_wait_is_the_hint_and_a_spread_of_half_of_it_up_to_ten_seconds(
    hint: float, share: float, wait: float
) -> None:
    answer = decided(Fault(FaultKind.THROTTLED, hint), draw=lambda: share)
    assert answer == (pytest.approx(wait), "hint")


@given(st.floats(1e-6, 1e10), draws.every, draws.shares, draws.shares, st.sampled_from(sorted(RETRIED)))
def test_no_attempt_comes_before_the_server_allows_it(
    hint: float, backoff: perdure.Backoff, share: float, u: float, kind: FaultKind
) -> None:
    answer = decided(Fault(kind, hint), backoff=backoff, hint_cap=1e10, draw=lambda: share, u=u)
    assert answer[1] == "hint"
    assert hint <= answer[0] <= hint + min(hint / 2, 10)


@given(st.floats(1e-3, 1e9))
def test_clients_that_got_the_same_hint_do_not_come_back_together(hint: float) -> None:
    fault = Fault(FaultKind.THROTTLED, hint)
    waits = [decided(fault, hint_cap=1e9, draw=lambda s=s: s / 100)[0] for s in range(100)]
    assert len(set(waits)) == 100
    assert max(waits) - min(waits) == pytest.approx(0.99 * min(hint / 2, 10), rel=1e-3)


def test_a_hint_passes_the_cap_of_the_backoff() -> None:
    answer = decided(Fault(FaultKind.THROTTLED, 60.0), backoff=perdure.Exponential(cap=5), draw=lambda: 0.0)
    assert answer == (60, "hint")


@pytest.mark.parametrize(("hint", "stops"), [(299.0, False), (300.0, False), (300.1, True), (1e10, True)])
def test_a_hint_above_hint_cap_ends_the_call(hint: float, stops: bool) -> None:
    assert (decided(Fault(FaultKind.THROTTLED, hint)) == (StopReason.HINT, hint)) is stops


def test_with_a_hint_cap_of_zero_any_hint_ends_the_call_and_no_hint_does_not() -> None:
    assert decided(Fault(FaultKind.TRANSIENT, 0.001), hint_cap=0) == (StopReason.HINT, 0.001)
    assert decided(Fault(FaultKind.TRANSIENT, 0.0), hint_cap=0) == (1, "computed")


def test_a_hint_of_zero_asks_for_nothing() -> None:
    assert decided(Fault(FaultKind.TRANSIENT, 0.0)) == (1, "computed")


def test_a_hint_past_the_deadline_ends_the_call_and_says_how_long_it_is() -> None:
    answer = decided(Fault(FaultKind.THROTTLED, 60.0), deadline=30, draw=lambda: 0.5)
    assert answer == (StopReason.DEADLINE, 65)


def test_no_hint_is_looked_at_when_no_attempt_is_left() -> None:
    assert decided(Fault(FaultKind.THROTTLED, 1e9), number=4) == (StopReason.ATTEMPTS, None)


# -- throttled without a backoff of the user's ---------------------------------------------------------


def highest(backoff: perdure.Backoff, kind: FaultKind, number: int = 1) -> float:
    """The upper end of the computed delay."""
    delay, source = decided(Fault(kind), number, None, backoff=backoff, draw=lambda: 1 - 1e-12)
    assert source == "computed"
    return float(delay)


@pytest.mark.parametrize(("number", "top"), [(1, 1), (2, 2), (3, 4), (4, 5), (10**9, 5)])
def test_throttled_faults_start_at_one_second_when_no_backoff_was_given(number: int, top: float) -> None:
    assert highest(perdure.Retry().backoff, FaultKind.THROTTLED, number) == pytest.approx(top)
    assert decided(Fault(FaultKind.THROTTLED), number, None, backoff=DEFAULT, draw=lambda: 0.0)[0] == 0


@pytest.mark.parametrize("kind", sorted(RETRIED - {FaultKind.THROTTLED}))
def test_other_faults_start_at_a_tenth_of_a_second(kind: FaultKind) -> None:
    assert highest(perdure.Retry().backoff, kind) == pytest.approx(0.1)


def test_a_backoff_that_the_user_wrote_is_used_for_throttled_faults_as_well() -> None:
    own = perdure.Retry(backoff=perdure.Exponential()).backoff
    assert highest(own, FaultKind.THROTTLED) == pytest.approx(0.1)


# -- deadlines and ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay", "now", "deadline", "end", "fit"),
    [
        (1, 0, None, None, True),
        (1, 9, 10, None, True),  # exactly at the deadline an attempt may still begin
        (1.001, 9, 10, None, False),
        (0, 10.1, 10, None, False),
        (0, 0, 0, None, True),
        (1, 0, None, 1, False),  # at an end there is no time left to begin in
        (1, 0, None, 1.001, True),
        (1, 9, 10, 9.5, False),
        (1, 9, 9.5, 20, False),
    ],
)
def test_what_fits(delay: float, now: float, deadline: float | None, end: float | None, fit: bool) -> None:
    answer = decided(backoff=perdure.Constant(delay), now=now, deadline=deadline, end=end)
    assert answer == ((delay, "computed") if fit else (StopReason.DEADLINE, delay))


@given(
    backoff=draws.every,
    kind=st.sampled_from(FaultKind),
    hint=st.one_of(st.none(), st.floats(0, 1e10)),
    number=draws.retries,
    allowed=st.one_of(st.none(), st.integers(1, 10)),
    deadline=st.one_of(st.none(), times),
    hint_cap=times,
    took=times,
    start=times,
    end=st.one_of(st.none(), times),
    share=draws.shares,
    u=draws.shares,
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_whatever_happens_the_decision_keeps_its_promises(**case: Any) -> None:
    fault, number, allowed = Fault(case["kind"], case["hint"]), case["number"], case["allowed"]
    wanted, safe, refresh = case["flags"]
    now = case["start"] + case["took"]
    answer = decided(
        fault,
        number,
        allowed,
        **{name: case[name] for name in ("backoff", "deadline", "hint_cap", "start", "end", "u")},
        wanted=wanted,
        safe=safe,
        refresh=refresh,
        now=now,
        draw=lambda: case["share"],
    )
    if goes_on(answer):
        then = now + answer[0]
        assert wanted or refresh
        assert safe or fault.kind is not FaultKind.AMBIGUOUS
        assert allowed is None or number < allowed
        assert case["deadline"] is None or then <= case["start"] + case["deadline"]
        assert case["end"] is None or then < case["end"]
        assert 0 <= answer[0] < math.inf
        assert refresh or not fault.hint or fault.hint <= min(answer[0], case["hint_cap"])
    else:
        assert answer[0] in {
            *(StopReason.PERMANENT, StopReason.NEUTRAL, StopReason.UNSAFE),
            *(StopReason.ATTEMPTS, StopReason.HINT, StopReason.DEADLINE),
        }


@given(start=times, took=times, deadline=times, hint=st.floats(0.1, 250))
def test_a_wait_that_does_not_fit_is_named_in_the_answer(
    start: float, took: float, deadline: float, hint: float
) -> None:
    now = start + took
    assume(now + hint > start + deadline)
    answer = decided(
        Fault(FaultKind.THROTTLED, hint), start=start, now=now, deadline=deadline, draw=lambda: 0.0
    )
    assert answer == (StopReason.DEADLINE, hint)

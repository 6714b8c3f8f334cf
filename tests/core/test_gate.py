"""The gate: a limit on attempts on the wire that falls on signs of congestion and grows with successes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.gate import QUIET, GateState


@dataclass
class Rule:
    """The two fields that the gate reads."""

    ceiling: float = 1000
    floor: float = 0.1


def middle() -> float:
    return 0.5


def gate(limit: float | None = None, **rule_: Any) -> GateState:
    """A gate at time 0; with ``limit``, cut to that a moment ago."""
    state = GateState(Rule(**rule_))
    if limit is not None:
        state.overload(0.0, 1)
        state.limit = limit
    return state


def signals(state: GateState, at: float, n: int, of: int, in_flight: int = 0) -> list[bool]:
    """Tell that ``of`` more attempts were sent and ended, ``n`` of them with a signal, the rest before those."""
    state.sent(at, state._ended + of + in_flight)
    state.saw(at, in_flight)
    return [state.overload(at, in_flight) for _ in range(n)]


def learn(state: GateState, *latencies: float) -> None:
    for took in latencies:
        state.success(0.0, 0, took)


def test_it_starts_open_at_its_ceiling() -> None:
    assert gate().limit == 1000
    assert gate().is_open


def test_two_hundred_concurrent_first_calls_of_a_fresh_process_are_all_admitted() -> None:
    state = gate()
    assert all(state.admit(0.0, n, middle) for n in range(200))


@pytest.mark.parametrize(
    ("limit", "in_flight", "goes"), [(3, 2, True), (3, 3, False), (2.5, 2, True), (1, 1, False)]
)
def test_from_a_limit_of_one_up_it_admits_below_the_limit(limit: float, in_flight: int, goes: bool) -> None:
    assert gate(limit).admit(0.0, in_flight, middle) is goes


def test_below_one_it_admits_one_at_a_time() -> None:
    assert not gate(0.5).admit(99.0 - 70.0, 1, middle)
    assert gate(0.5).admit(99.0 - 70.0, 0, middle)


@pytest.mark.parametrize(("share", "spread"), [(0.0, 0.75), (0.5, 1.0), (0.999, 1.25)])
def test_below_one_the_next_goes_a_pace_after_the_last(share: float, spread: float) -> None:
    state = gate(0.5)
    assert state.admit(1.0, 0, lambda: share)
    pace = 1 / 0.5 * spread
    assert not state.admit(1.0 + pace - 0.01, 0, lambda: share)
    assert state.retry_after(1.0 + pace - 0.01) == pytest.approx(0.01, abs=0.002)
    assert state.admit(1.0 + pace + 0.01, 0, lambda: share)


def test_the_spread_of_a_pace_is_drawn_once_for_each_attempt() -> None:
    """Drawing anew at each question would let the most eager caller choose the shortest."""
    state, draws = gate(0.5), iter((0.9, 0.1))
    assert state.admit(1.0, 0, lambda: 0.9)
    assert not state.admit(2.9, 0, lambda: next(draws))
    assert not state.admit(2.91, 0, lambda: next(draws))
    assert next(draws) == 0.1


def test_the_pace_of_a_gate_cut_from_open_counts_from_the_last_send_told() -> None:
    state = gate()
    signals(state, 5.0, 1, of=1)
    signals(state, 5.3, 1, of=1)  # sent when the gate was cut: only those that were admitted count
    assert state.limit == 0.7
    assert not state.admit(6.42, 0, middle)
    assert state.admit(5.0 + 1 / 0.7, 0, middle)


def test_a_success_doubles_a_limit_below_one_up_to_one_and_lets_the_next_go_at_once() -> None:
    state = gate(0.3)
    assert state.admit(5.0, 0, middle)
    state.success(5.1, 1, 0.1)
    assert state.limit == pytest.approx(0.6)
    assert state.admit(5.1, 0, middle)
    state.success(5.2, 1, 0.1)
    assert state.limit == 1


def test_a_success_adds_one_over_the_limit_while_half_of_it_is_in_use() -> None:
    state = gate(4.0)
    state.success(0.0, 2, None)
    assert state.limit == 4.25
    state.success(0.0, 2, None)
    assert state.limit == 4.25


def test_it_grows_no_higher_than_the_ceiling() -> None:
    state = gate(9.99, ceiling=10)
    state.success(0.0, 10, None)
    assert state.limit == 10
    assert state.is_open


def test_a_signal_cuts_when_eight_tenths_of_what_ended_are_signals() -> None:
    state = gate()
    assert not any(signals(state, 1.0, 7, of=10))
    assert state.is_open
    assert any(signals(state, 1.0, 1, of=0))


def test_one_in_ten_is_enough_where_successes_became_slow() -> None:
    state = gate()
    learn(state, *[0.1] * 60, *[0.5] * 10)
    assert state.is_slow
    assert not any(signals(state, 1.0, 1, of=11))
    assert any(signals(state, 1.0, 1, of=0))


def test_attempts_on_the_wire_have_said_nothing_yet() -> None:
    """Ten of ten that ended are signals: forty that still hang do not make them few."""
    assert any(signals(gate(), 1.0, 10, of=10, in_flight=40))


def test_signals_are_compared_with_what_ended_in_three_seconds() -> None:
    state = gate()
    signals(state, 0.0, 0, of=100)
    assert not any(signals(state, 2.4, 10, of=10))
    assert any(signals(state, 3.1, 1, of=1))


def test_a_slow_shard_does_not_cut() -> None:
    """Half of the attempts time out, the other half are as fast as ever."""
    state = gate()
    for second in range(60):
        learn(state, 0.1)
        assert not any(signals(state, float(second), 5, of=10))
    assert state.is_open


def test_a_cut_is_seven_tenths_of_what_was_on_the_wire() -> None:
    state = gate()
    state.saw(1.0, 40)
    assert any(signals(state, 1.0, 1, of=1, in_flight=10))
    assert state.limit == 28


def test_the_most_on_the_wire_counts_for_one_to_two_seconds() -> None:
    for at, limit in ((2.9, 28.0), (3.0, 7.0)):
        state = gate()
        state.saw(1.5, 40)
        signals(state, at, 1, of=1, in_flight=10)
        assert state.limit == pytest.approx(limit)


def test_what_was_admitted_counts_as_on_the_wire() -> None:
    state = gate(8.0)
    assert state.admit(0.9, 5, middle)
    signals(state, 1.0, 1, of=1, in_flight=1)
    assert state.limit == pytest.approx(0.7 * 6)


def test_a_cut_is_seven_tenths_of_the_limit_where_that_is_less() -> None:
    state = gate(5.0)
    assert signals(state, 1.0, 1, of=1, in_flight=40) == [True]
    assert state.limit == 3.5


def test_the_first_cut_leaves_one_so_that_a_lone_call_may_be_retried() -> None:
    state = gate()
    assert signals(state, 1.0, 1, of=1) == [True]
    assert state.limit == 1
    assert state.admit(1.05, 0, middle)


def test_cuts_after_the_first_go_down_to_the_floor_and_no_further() -> None:
    state = gate(floor=0.2)
    cuts = [signals(state, 1.0 + n * 0.3, 1, of=1)[0] for n in range(10)]
    assert state.limit == 0.2
    assert cuts == [True] * 6 + [False] * 4


def test_a_gate_with_a_ceiling_of_one_is_cut_as_any_other() -> None:
    state = gate(ceiling=1)
    assert signals(state, 1.0, 1, of=1) == [True]
    assert state.limit == 0.7


def test_it_cuts_at_most_every_quarter_second() -> None:
    state = gate(100.0)
    assert signals(state, 1.0, 1, of=1, in_flight=200) == [True]
    assert signals(state, 1.24, 1, of=1, in_flight=200) == [False]
    assert signals(state, 1.25, 1, of=1, in_flight=200) == [True]


def test_it_returns_to_the_ceiling_thirty_seconds_after_the_last_signal() -> None:
    state = gate()
    signals(state, 1.0, 1, of=1)
    signals(state, 1.1, 1, of=1)  # too soon for a cut, and a signal all the same
    state.settle(31.0)
    assert not state.is_open
    state.settle(31.1)
    assert state.is_open


def test_the_question_alone_also_brings_it_back() -> None:
    state = gate(1.0)
    assert not state.admit(29.9, 5, middle)
    assert state.admit(30.0, 5, middle)


def test_retry_after_is_the_latency_of_successes_where_places_come_free() -> None:
    state = gate(2.0)
    assert state.retry_after(0.0) == 1.0  # nothing known yet
    learn(state, 0.2, 0.2)
    assert state.retry_after(0.0) == pytest.approx(0.2)


def test_the_first_latency_does_not_pass_for_what_is_usual() -> None:
    """A lucky first one would make every later one look slow, and the base would hardly learn from those."""
    state = gate()
    learn(state, 0.01, *[0.1] * 30)
    assert not state.is_slow


def test_a_long_overload_does_not_become_what_is_usual() -> None:
    state = gate()
    learn(state, *[0.1] * 100, *[1.0] * 100)
    assert state.is_slow


@pytest.mark.parametrize("odd", [math.nan, math.inf, -1.0])
def test_an_impossible_latency_is_not_learned(odd: float) -> None:
    state = gate(2.0)
    learn(state, 0.2, odd)
    assert state.retry_after(0.0) == pytest.approx(0.2)


@pytest.mark.parametrize("odd", [0.0, -1e9, math.nan, -math.inf, math.inf])
def test_a_time_that_goes_backwards_or_is_none_is_no_time_passed(odd: float) -> None:
    state = gate()
    signals(state, 100.0, 1, of=1)
    assert signals(state, odd, 1, of=1) == [False]
    state.settle(odd)
    assert not state.is_open
    assert state.admit(odd, 0, middle)
    assert math.isfinite(state.retry_after(odd))


def test_a_total_of_sends_that_goes_backwards_counts_nothing() -> None:
    state = gate()
    state.sent(1.0, 100)
    state.saw(1.0, 0)
    state.sent(1.0, 50)
    state.saw(1.0, 0)
    state.sent(1.0, 100)
    state.saw(1.0, 0)
    assert not any(state.overload(1.0, 0) for _ in range(79))
    assert state.overload(1.0, 0)


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=60), st.floats(QUIET, 1000))
def test_whatever_came_before_thirty_quiet_seconds_open_it(gaps: list[float], quiet: float) -> None:
    state, now = gate(), 0.0
    for gap in gaps:
        now += gap
        signals(state, now, 1, of=1)
    state.settle(now + quiet + 1e-6)
    assert state.is_open

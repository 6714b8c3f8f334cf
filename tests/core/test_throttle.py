"""The throttle: refuses at random, the more often the fewer requests are accepted."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.throttle import FEWEST, ThrottleState


def throttle(requests: int, accepts: int, k: float = 2, window: float = 5) -> ThrottleState:
    """One that has counted these, all at time 0."""
    state = ThrottleState(k, window)
    for _ in range(requests):
        state.admit(0.0, lambda: 1.0)
    state.success(0.0, accepts)
    return state


@given(st.integers(FEWEST, 300), st.floats(0, 1), st.floats(1, 5))
def test_the_probability_is_the_formula_of_the_book(requests: int, share: float, k: float) -> None:
    accepts = int(share * requests)
    p = throttle(requests, accepts, k).probability(0.0)
    assert p == pytest.approx(max(0, (requests - k * accepts) / (requests + 1)))
    assert 0 <= p < 1


def test_it_refuses_where_the_draw_is_below_the_probability() -> None:
    p = 100 / 101
    assert not throttle(100, 0).admit(0.0, lambda: p - 0.001)
    assert throttle(100, 0).admit(0.0, lambda: p)


def test_twice_what_is_accepted_goes_through() -> None:
    assert throttle(100, 50).admit(0.0, lambda: 0.0)
    assert not throttle(100, 49).admit(0.0, lambda: 0.0)


def test_fewer_than_ten_requests_are_never_refused() -> None:
    assert throttle(9, 0).admit(0.0, lambda: 0.0)
    assert not throttle(10, 0).admit(0.0, lambda: 0.0)


def test_refused_requests_count_as_requests() -> None:
    state = throttle(10, 0)
    before = state.probability(0.0)
    assert not state.admit(0.0, lambda: 0.0)
    assert state.probability(0.0) > before


def test_what_is_older_than_the_window_does_not_count() -> None:
    state = throttle(100, 0)
    assert state.probability(4.7) > 0
    assert state.probability(5.0) == 0


def test_even_in_a_total_outage_some_go_out() -> None:
    state, rng = ThrottleState(2, 5), Random(1)
    admitted = [state.admit(n * 0.01, rng.random) for n in range(5000)]
    assert 5 <= sum(admitted[1000:]) <= 40  # of 4,000; about 1 in 500


def test_it_lets_all_through_again_after_a_recovery() -> None:
    """Refusals feed its own count, so it takes about window x ln(1 / accepted) / ln k: here 5 x ln(250) / ln 2."""
    state, rng = ThrottleState(2, 5), Random(1)
    for n in range(2000):  # 20 s of outage
        state.admit(n * 0.01, rng.random)
    admitted = []
    for n in range(2000, 9000):
        admitted.append(state.admit(n * 0.01, rng.random))
        if admitted[-1]:
            state.success(n * 0.01)
    assert sum(admitted[:500]) < 250
    assert all(admitted[-2000:])


def test_retry_after_is_the_part_of_the_window_that_has_to_pass() -> None:
    assert throttle(100, 0).retry_after(0.0) == pytest.approx(5 * 100 / 101)
    assert throttle(100, 100).retry_after(0.0) == 0.25


@pytest.mark.parametrize("odd", [-5.0, math.nan, -math.inf, math.inf])
def test_a_time_that_goes_backwards_or_is_none_is_no_time_passed(odd: float) -> None:
    state = throttle(100, 0)
    assert state.probability(odd) == pytest.approx(100 / 101)
    state.success(odd, 50)
    assert state.probability(0.0) == 0

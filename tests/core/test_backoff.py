"""The raw delays of every backoff: formulas, bounds, saturation, cost."""

from __future__ import annotations

import math
import sys
import tracemalloc
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.core.backoff import Backoff
from tests.core import draws

if TYPE_CHECKING:
    from collections.abc import Callable

NONE = st.just("none")


def first(backoff: Backoff, count: int) -> list[float]:
    """The first delays of a backoff without jitter."""
    return [backoff.delay(n, None, draws.never_drawn) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (perdure.Exponential(base=1, factor=2, cap=30, jitter="none"), [1, 2, 4, 8, 16, 30, 30]),
        (perdure.Exponential(base=0.5, factor=1, cap=30, jitter="none"), [0.5, 0.5, 0.5]),
        (perdure.Exponential(base=2, factor=10, cap=2000, jitter="none"), [2, 20, 200, 2000, 2000]),
        (perdure.Exponential(base=5, factor=2, cap=5, jitter="none"), [5, 5]),
        (perdure.Linear(1, jitter="none"), [1, 2, 3, 4]),
        (perdure.Linear(20, cap=50, jitter="none"), [20, 40, 50, 50]),
        (perdure.Incremental(3, 4, jitter="none"), [3, 7, 11]),
        (perdure.Incremental(3, 4, cap=9, jitter="none"), [3, 7, 9, 9]),
        (perdure.Incremental(3, 0, jitter="none"), [3, 3, 3]),
        (perdure.Constant(2.5), [2.5, 2.5, 2.5]),
        (perdure.Fibonacci(jitter="none"), [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 60, 60]),
        (perdure.Fibonacci(0.5, cap=2, jitter="none"), [0.5, 0.5, 1, 1.5, 2, 2]),
        (perdure.Schedule([1, 2, 5]), [1, 2, 5, 5, 5]),
        (perdure.Schedule([5, 0, 1]), [5, 0, 1, 1]),
        (perdure.Exponential(1, 2, 30, "none").after_immediate(), [0, 1, 2, 4, 8]),
        (perdure.Schedule([3]).after_immediate().after_immediate(), [0, 0, 3, 3]),
    ],
    ids=repr,
)
def test_the_sequence_of_delays_is_exact(backoff: Backoff, delays: list[float]) -> None:
    assert first(backoff, len(delays)) == delays


@given(draws.every, draws.retries, draws.shares, draws.shares, st.data())
def test_a_delay_is_finite_and_between_zero_and_the_cap(
    backoff: Backoff, n: int, share: float, u: float, data: st.DataObject
) -> None:
    previous = data.draw(st.one_of(st.none(), st.floats(0, backoff.cap if backoff.cap < math.inf else 1e9)))
    delay = backoff.delay(n, previous, lambda: share, u=u)
    assert isinstance(delay, (int, float))
    assert 0 <= delay <= backoff.cap
    assert math.isfinite(delay)


@given(draws.every, draws.retries, draws.shares, draws.shares)
def test_what_is_called_typical_bounds_every_draw(backoff: Backoff, n: int, share: float, u: float) -> None:
    low, high = backoff.typical(n)
    previous = backoff.typical(n - 1)[1] if n > 1 else None
    assert low <= backoff.delay(n, previous, lambda: share, u=u) <= high


@given(draws.growing(NONE), draws.retries, draws.retries)
def test_raw_delays_never_fall_from_one_retry_to_a_later_one(backoff: Backoff, n: int, m: int) -> None:
    earlier, later = sorted((n, m))
    low, high = (backoff.delay(one, None, draws.never_drawn) for one in (earlier, later))
    assert low <= high


@pytest.mark.parametrize("n", [1023, 1024, 1025, 1026, 10**6, 10**9])
@pytest.mark.parametrize(
    "backoff",
    [
        perdure.Exponential(base=1, factor=2, cap=60, jitter="none"),
        perdure.Exponential(base=1.0, factor=2.0, cap=60.0, jitter="none"),
        perdure.Exponential(base=1e-9, factor=10, cap=60, jitter="none"),
        perdure.Exponential(base=60, factor=1e300, cap=60, jitter="none"),
        perdure.Linear(1, 60, "none"),
        perdure.Incremental(0, 1, 60, "none"),
        perdure.Fibonacci(1, 60, "none"),
    ],
    ids=repr,
)
def test_saturation_is_the_cap_and_nothing_else(backoff: Backoff, n: int) -> None:
    assert backoff.delay(n, None, draws.never_drawn) == 60


@pytest.mark.parametrize("n", [1, 2, 1025, 10**9])
@pytest.mark.parametrize(
    "backoff",
    [
        perdure.Exponential(base=0, cap=60),
        perdure.Exponential(base=0, cap=0),
        perdure.Linear(0),
        perdure.Incremental(0, 0),
        perdure.Fibonacci(0),
        perdure.Constant(0, jitter=0.5),
        perdure.Schedule([0]),
        perdure.Decorrelated(0, 0),
    ],
    ids=repr,
)
def test_zero_stays_zero(backoff: Backoff, n: int) -> None:
    assert backoff.delay(n, None, lambda: 0.999, u=0.999) == 0


@given(draws.exponentials(NONE), st.integers(1, 60))
def test_exponential_follows_its_formula(backoff: perdure.Exponential, n: int) -> None:
    exact = Fraction(backoff.base) * Fraction(backoff.factor) ** (n - 1)
    expected = min(Fraction(backoff.cap), exact)
    assert backoff.delay(n, None, draws.never_drawn) == pytest.approx(float(expected), rel=1e-12)


@given(draws.linears(NONE), st.integers(1, 10**9))
def test_linear_follows_its_formula(backoff: perdure.Linear, n: int) -> None:
    expected = min(Fraction(backoff.cap), Fraction(backoff.step) * n)
    assert backoff.delay(n, None, draws.never_drawn) == pytest.approx(float(expected), rel=1e-12)


@given(draws.incrementals(NONE), st.integers(1, 10**9))
def test_incremental_follows_its_formula(backoff: perdure.Incremental, n: int) -> None:
    expected = min(Fraction(backoff.cap), Fraction(backoff.first) + Fraction(backoff.step) * (n - 1))
    assert backoff.delay(n, None, draws.never_drawn) == pytest.approx(float(expected), rel=1e-12)


@given(draws.fibonaccis(NONE), st.integers(3, 78))
def test_each_fibonacci_delay_is_the_sum_of_the_two_before(backoff: perdure.Fibonacci, n: int) -> None:
    before, last, this = (backoff.delay(one, None, draws.never_drawn) for one in (n - 2, n - 1, n))
    assert this == pytest.approx(min(backoff.cap, before + last), rel=1e-12)


@given(st.lists(draws.amounts, min_size=1, max_size=20), draws.retries)
def test_a_schedule_gives_its_delays_and_then_the_last(delays: list[float], n: int) -> None:
    backoff = perdure.Schedule(delays)
    assert backoff.delay(n, None, draws.never_drawn) == delays[min(n, len(delays)) - 1]


@given(draws.plain, st.integers(2, 10**9), draws.shares, draws.shares)
def test_after_an_immediate_retry_the_backoff_begins_at_its_first(
    backoff: Backoff, n: int, share: float, u: float
) -> None:
    behind = backoff.after_immediate()
    assert behind.delay(1, None, draws.never_drawn) == 0
    assert behind.delay(2, 0.0, lambda: share, u=u) == backoff.delay(1, None, lambda: share, u=u)
    assert behind.delay(n, 1.0, lambda: share, u=u) == backoff.delay(n - 1, 1.0, lambda: share, u=u)


@given(draws.every, st.integers(max_value=0))
def test_retries_are_counted_from_one(backoff: Backoff, n: int) -> None:
    with pytest.raises(perdure.ConfigError, match=rf"n must be >= 1, got {n}$"):
        backoff.delay(n, None, draws.never_drawn)


def lines_of(call: Callable[[], object]) -> int:
    """How many lines Python runs for a call."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> Callable[..., object]:
        nonlocal count
        count += event == "line"
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(earlier)
    return count


KINDS = [
    perdure.Exponential(base=1, factor=2, cap=10**6),
    perdure.Exponential(base=1, factor=1, cap=10**6),
    perdure.Linear(1, cap=10**6),
    perdure.Incremental(1, 1, cap=10**6),
    perdure.Fibonacci(1, cap=10**6),
    perdure.Constant(1),
    perdure.Schedule([1, 2, 3]),
    perdure.Decorrelated(1, cap=10**6),
    perdure.Exponential(base=1, factor=2, cap=10**6).after_immediate(),
]


@pytest.mark.parametrize("backoff", KINDS, ids=repr)
def test_a_delay_costs_the_same_for_every_retry_number(backoff: Backoff) -> None:
    work = [lines_of(lambda n=n: backoff.delay(n, 1.0, lambda: 0.5)) for n in (20, 10**4, 10**9)]
    assert work[0] > 0
    assert max(work) <= work[0] + 2  # the two lines that handle a float overflow


@pytest.mark.parametrize("backoff", KINDS, ids=repr)
def test_no_delay_grows_a_big_integer(backoff: Backoff) -> None:
    backoff.delay(10**9, 1.0, lambda: 0.5)
    tracemalloc.start()
    try:
        backoff.delay(10**9, 1.0, lambda: 0.5)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


@given(st.floats(1e290, sys.float_info.max), draws.jitters, draws.shares, draws.shares)
def test_delays_near_the_largest_float_stay_finite_or_are_refused(
    amount: float, jitter: object, share: float, u: float
) -> None:
    try:
        backoffs = (perdure.Constant(amount, jitter), perdure.Schedule([amount], jitter))  # type: ignore[arg-type]
    except perdure.ConfigError:
        assert amount > 1e300  # nobody waits longer than the age of the universe
        return
    assert all(math.isfinite(backoff.delay(1, None, lambda: share, u=u)) for backoff in backoffs)


def test_a_random_object_serves_as_well_as_a_function() -> None:
    class Half:
        def random(self) -> float:
            return 0.5

    assert perdure.Exponential(2, 2, 8).delay(2, None, Half()) == perdure.Exponential(2, 2, 8).delay(
        2, None, lambda: 0.5
    )


def test_a_backoff_of_ones_own_needs_only_its_raw_delays() -> None:
    class Quadratic(Backoff):
        jitter = "none"
        cap = 50.0

        def _raw(self, n: int) -> float:
            return min(self.cap, float(n * n))

    assert first(Quadratic(), 8) == [1, 4, 9, 16, 25, 36, 49, 50]
    assert perdure.Retry(backoff=Quadratic(), attempts=4).delays() == (1, 4, 9)

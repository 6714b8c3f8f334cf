"""Counts by time: nothing older than the span counts, nothing younger than nine tenths of it is lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from perdure.core.window import Window, gap, later

spans = st.floats(0.01, 1e5)
times = st.floats(0, 1e6)
amounts = st.integers(0, 1000)
rows = st.lists(st.tuples(times, amounts, amounts, amounts), max_size=30)


def test_results_add_up_by_kind() -> None:
    window = Window(10)
    window.add(1, ok=2)
    window.add(1.2, failed=1, slow=1)
    window.add(5, ok=1, failed=3)
    assert window.totals(5) == (3, 4, 1)


def test_a_window_without_results_counts_none() -> None:
    assert Window(10).totals(123) == (0, 0, 0)


def test_a_result_counts_until_the_span_is_over() -> None:
    window = Window(10)
    window.add(20, failed=1)
    assert window.totals(29.99) == (0, 1, 0)
    assert window.totals(30) == (0, 0, 0)


def test_results_leave_a_bucket_at_a_time() -> None:
    window = Window(10)
    for second in range(10):
        window.add(second, ok=1)
    assert [window.totals(now)[0] for now in (9.9, 10, 10.9, 11, 18.9, 19, 30)] == [10, 9, 9, 8, 1, 0, 0]


def test_the_number_of_buckets_is_given() -> None:
    window = Window(10, buckets=2)
    window.add(4.9, ok=1)
    window.add(5, ok=1)
    assert [window.totals(now)[0] for now in (9.9, 10, 14.9, 15)] == [2, 1, 1, 0]


def test_clear_forgets_the_results_but_not_the_time() -> None:
    window = Window(10)
    window.add(100, ok=5)
    window.clear()
    assert window.totals(100) == (0, 0, 0)
    window.add(3, failed=1)
    assert window.totals(109) == (0, 1, 0), "it counts as of the latest time seen"


def test_a_time_that_goes_back_counts_as_the_latest() -> None:
    window = Window(10)
    window.add(100, ok=1)
    window.add(50, ok=1)
    assert window.totals(20) == (2, 0, 0)
    assert window.totals(109.9) == (2, 0, 0)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e301])
def test_a_time_that_is_none_changes_nothing(odd: float) -> None:
    window = Window(10)
    window.add(odd, ok=1)
    window.add(100, ok=1)
    window.add(odd, ok=1)
    assert window.totals(odd) == (2, 0, 0)
    assert later(odd, 5) == 5
    assert later(odd, -math.inf) == 0


@pytest.mark.parametrize("span", [0, 1e-300, 1e300, math.inf])
def test_no_span_is_too_short_or_too_long_to_count_in(span: float) -> None:
    window = Window(span)
    window.add(1e6, ok=1)
    assert window.totals(1e6) == (1, 0, 0)
    assert window.totals(1e300)[0] == (1 if span == math.inf else 0)


def test_an_idle_window_holds_no_more_than_its_buckets() -> None:
    window = Window(10)
    for tenth in range(1000):
        window.add(tenth / 10, ok=1)
    assert len(window.ages(100)) <= 10


@given(span=spans, rows=rows, more=st.floats(0, 2), buckets=st.integers(1, 20))
def test_what_is_counted_is_at_most_a_span_and_at_least_a_bucket_less_old(
    span: float, rows: list[tuple[float, int, int, int]], more: float, buckets: int
) -> None:
    window = Window(span, buckets)
    rows.sort()
    for at, *counts in rows:
        window.add(at, *counts)
    now = (rows[-1][0] if rows else 0) + more * span
    slack = 1e-9 * span + 2 * math.ulp(now)
    sure = [row for row in rows if now - row[0] < span * (1 - 1 / buckets) - slack]
    possible = [row for row in rows if now - row[0] < span + slack]
    for kind, total in enumerate(window.totals(now), 1):
        assert sum(row[kind] for row in sure) <= total <= sum(row[kind] for row in possible)


@given(rows=rows, more=st.floats(0, 20), moved=st.floats(-5000, 5000))
def test_ages_put_the_same_results_into_another_window(
    rows: list[tuple[float, int, int, int]], more: float, moved: float
) -> None:
    window, other = Window(10), Window(10)
    for at, *counts in sorted(rows):
        window.add(at, *counts)
    now = max((row[0] for row in rows), default=0) + more
    there = now + moved
    assume(there > 10)
    ages = window.ages(now)
    assert all(0 <= age <= 10 for age, *_ in ages)
    assert [age for age, *_ in ages] == sorted((age for age, *_ in ages), reverse=True)
    for age, *counts in ages:
        other.add(there - age, *counts)
    kept = sum(other.totals(there))
    youngest = sum(sum(counts) for age, *counts in ages if age < 8.99)
    assert youngest <= kept <= sum(window.totals(now)), "no more is lost than the oldest bucket"


def test_ages_at_the_same_time_are_exact() -> None:
    window, other = Window(10), Window(10)
    for at in (100.0, 100.5, 103.0, 109.99):
        window.add(at, ok=1, failed=2, slow=3)
    for age, *counts in window.ages(109.99):
        other.add(109.99 - age, *counts)
    for now in (109.99, 110, 112.9, 113, 118.99, 119, 120):
        assert other.totals(now) == window.totals(now)


@example(9.3, 55.1)  # 9.3 + (55.1 - 9.3) < 55.1
@given(at=st.floats(0, 1e9), end=st.floats(0, 1e9))
def test_who_waits_the_gap_is_not_early(at: float, end: float) -> None:
    seconds = gap(at, end)
    assert at + seconds >= end
    assert seconds == pytest.approx(max(0.0, end - at), abs=math.ulp(end))

"""What trips a breaker, and how long it then stays open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.trip import Cooling
from tests.core.breakers import Rule, admitted, breaker, fail, half_opened, succeed, told, trip, whole

if TYPE_CHECKING:
    from perdure.core.breaker import BreakerState

draws = st.floats(0, 1, exclude_max=True)


def test_a_new_breaker_is_closed_and_all_calls_share_one_lease() -> None:
    machine = breaker()
    assert machine.state(5) == "closed"
    assert machine.is_plain
    assert machine.retry_after(5) == 0
    assert admitted(machine, 5) is admitted(machine, 6) is machine.shared
    assert machine.changes == []


# Tripping by failures in a row


def test_it_opens_at_the_last_of_the_failures_in_a_row() -> None:
    machine = breaker()
    for now in (1, 2):
        fail(machine, now)
        assert machine.state(now) == "closed"
    fail(machine, 3)
    assert machine.changes == [("breaker.opened", {"reason": "failures", "delay": 60.0})]
    assert machine.state(3) == "open"
    assert not machine.is_plain
    assert machine.acquire(3, whole) is None


def test_a_success_between_failures_parts_them() -> None:
    machine = breaker()
    for now in range(12):
        succeed(machine, now) if now % 3 == 2 else fail(machine, now)
    assert machine.state(12) == "closed"


def test_a_success_that_was_only_added_to_the_lease_parts_failures_too() -> None:
    machine = breaker()
    fail(machine, 1)
    fail(machine, 2)
    machine.shared.ok += 1
    fail(machine, 3)
    fail(machine, 4)
    assert machine.state(4) == "closed"
    fail(machine, 5)
    assert machine.state(5) == "open"


def test_an_added_success_is_counted_once() -> None:
    machine = breaker()
    machine.shared.ok += 1
    machine.settle(1)
    trip(machine, 2)
    assert machine.state(2) == "open", "the old success did not part the failures again"


def test_an_excluded_outcome_between_failures_resets_nothing() -> None:
    machine = breaker()
    fail(machine, 1)
    fail(machine, 2)
    machine.abandon(admitted(machine, 3), 3)
    fail(machine, 4)
    assert machine.state(4) == "open"


def test_abandoned_calls_are_no_failures() -> None:
    machine = breaker(failure_rate=0.1, min_calls=1)
    for now in range(100):
        machine.abandon(admitted(machine, now), now)
    assert machine.state(100) == "closed"


@pytest.mark.parametrize(
    ("apart", "state"), [(14.9, "open"), (15, "open"), (15.1, "closed"), (86400, "closed")]
)
def test_failures_in_a_row_count_only_within_the_window(apart: float, state: str) -> None:
    """B146: a failure a day for days on end is no outage."""
    machine = breaker(window=30)
    for n in range(3):
        fail(machine, 1000 + n * apart)
    assert machine.state(1000 + 2 * apart) == state


def test_old_failures_in_a_row_do_not_hide_the_new_ones() -> None:
    """B146."""
    machine = breaker(window=30)
    for now in (0, 100, 200, 201):
        fail(machine, now)
    assert machine.state(201) == "closed"
    fail(machine, 202)
    assert machine.state(202) == "open"


# Tripping by rate


def test_a_share_of_failures_trips_it_from_the_least_number_of_calls_on() -> None:
    """B145: one failed call of one is a hundred percent, and means nothing."""
    machine = breaker(failures=None, failure_rate=0.5, min_calls=4)
    for now in (1, 2, 3):
        fail(machine, now)
    assert machine.state(3) == "closed"
    fail(machine, 4)
    assert machine.changes == [("breaker.opened", {"reason": "failure_rate", "delay": 60.0})]


@pytest.mark.parametrize(("good", "state"), [(7, "open"), (8, "closed")])
def test_the_share_is_reached_at_the_rate_itself(good: int, state: str) -> None:
    machine = breaker(failures=None, failure_rate=0.3, min_calls=5)
    machine.shared.ok += good
    for _ in range(3):
        fail(machine, 1)
    assert machine.state(1) == state


def test_added_and_reported_successes_count_alike_in_the_rate() -> None:
    machine = breaker(failures=None, failure_rate=0.5, min_calls=1)
    machine.shared.ok += 2
    succeed(machine, 1)
    for _ in range(2):
        fail(machine, 1)
    assert machine.state(1) == "closed"
    fail(machine, 1)
    assert machine.state(1) == "open"


def test_a_success_never_trips() -> None:
    machine = breaker(failures=None, failure_rate=0.5, min_calls=4)
    for now in (1, 2, 3):
        fail(machine, now)
    succeed(machine, 4)
    assert machine.state(4) == "closed"
    fail(machine, 5)
    assert machine.state(5) == "open"


def test_rules_that_are_off_trip_nothing() -> None:
    machine = breaker(failures=None, failure_rate=None, min_calls=1, slow=1)
    for now in range(200):
        fail(machine, now, took=9)
    assert machine.state(200) == "closed"


def test_results_leave_the_rate_with_the_window() -> None:
    machine = breaker(failures=None, failure_rate=0.5, min_calls=4, window=30)
    for _ in range(3):
        fail(machine, 0)
    fail(machine, 30)
    assert machine.state(30) == "closed"


def test_added_successes_belong_to_the_tick_they_came_after() -> None:
    """After an idle hour they are as old as that tick, and no excuse for what fails now."""
    machine = breaker(failures=None, failure_rate=0.5, min_calls=2, window=30)
    machine.settle(100)
    machine.shared.ok += 1000
    fail(machine, 3700)
    assert machine.state(3700) == "closed", "one result in the window"
    fail(machine, 3700)
    assert machine.state(3700) == "open"


def test_added_successes_of_the_running_tick_are_of_now() -> None:
    machine = breaker(failures=None, failure_rate=0.5, min_calls=2, window=30)
    machine.settle(100)
    machine.shared.ok += 3
    fail(machine, 100.01)
    fail(machine, 100.01)
    assert machine.state(100.01) == "closed"


def test_successes_added_before_the_first_tick_are_of_now() -> None:
    machine = breaker(failures=None, failure_rate=0.5, min_calls=2)
    machine.shared.ok += 3
    fail(machine, 5000)
    fail(machine, 5000)
    assert machine.state(5000) == "closed"


# Tripping by slow calls


def slow_breaker(**fields: object) -> BreakerState:
    return breaker(**{"failures": None, "slow": 2, "slow_rate": 0.5, "min_calls": 4, **fields})


def test_a_share_of_slow_calls_trips_it_though_they_succeed() -> None:
    machine = slow_breaker()
    for took in (1.9, 2, 1.9):
        succeed(machine, 1, took)
    assert machine.state(1) == "closed"
    succeed(machine, 1, 2.5)
    assert machine.changes == [("breaker.opened", {"reason": "slow_rate", "delay": 60.0})]


def test_a_slow_failure_is_slow_too() -> None:
    machine = slow_breaker()
    for took in (0.1, 0.1, 3, 3):
        fail(machine, 1, took=took)
    assert machine.state(1) == "open"


def test_quick_calls_and_calls_of_unknown_length_are_not_slow() -> None:
    machine = slow_breaker()
    for took in (None, 0.1, 1.99) * 50:
        succeed(machine, 1, took)
    assert machine.state(1) == "closed"


def test_a_slow_success_still_parts_failures() -> None:
    machine = slow_breaker(failures=2, min_calls=100)
    fail(machine, 1)
    succeed(machine, 2, 5)
    fail(machine, 3)
    assert machine.state(3) == "closed"


def test_a_rule_on_slow_calls_needs_to_be_told_each_success() -> None:
    assert not slow_breaker().is_plain
    assert breaker(slow=2).is_plain, "no share of slow calls trips it"
    assert breaker(slow_rate=0.5).is_plain, "no call is slow"


def test_a_trip_by_a_slow_success_is_jittered_as_any_other() -> None:
    machine = slow_breaker(min_calls=1)
    lease = machine.acquire(1, lambda: 0.0)
    assert lease is not None
    machine.success(lease, 1, 9)
    assert machine.retry_after(1) == pytest.approx(48)


# Open


def test_it_refuses_until_the_open_time_is_over_and_says_how_long() -> None:
    machine = breaker()
    trip(machine, 100)
    assert machine.retry_after(100) == 60
    assert machine.acquire(159.9, whole) is None
    assert machine.retry_after(159.9) == pytest.approx(0.1)
    assert machine.state(159.9) == "open"
    assert machine.retry_after(160) == 0


def test_the_state_reads_half_open_as_soon_as_a_probe_would_be_admitted() -> None:
    """B150: an open time that is over never reads, or acts, as closed."""
    machine = breaker()
    trip(machine, 100)
    assert machine.state(160) == machine.state(1e9) == "half_open"
    assert machine.changes == [], "reading changes nothing"
    assert admitted(machine, 1e9).probe
    assert machine.acquire(1e9, whole) is None
    assert told(machine) == ["breaker.half_open"]


def test_the_open_time_doubles_on_each_trip_up_to_its_bound() -> None:
    machine = breaker()
    now, times = 0.0, [trip(machine, 0)]
    for _ in range(70):
        now += times[-1]
        fail(machine, now)
        times.append(machine.changes[-1][1]["delay"])  # type: ignore[arg-type]
    assert times[:5] == [60, 120, 240, 300, 300]
    assert set(times[5:]) == {300}


def test_no_number_of_trips_is_too_much_for_the_open_time() -> None:
    cooling = Cooling(Rule(cooldown=1e-3, max_cooldown=1e300))
    times = [cooling.begin(0, whole, None) for _ in range(1100)]
    assert times[:64] == [1e-3 * 2**n for n in range(64)]
    assert set(times[64:]) == {times[63]}


def closed_again(now: float, **fields: object) -> BreakerState:
    """Tripped for 60 s, then closed ``now``."""
    machine, probe = half_opened(now, **{"successes": 1, **fields})
    machine.success(probe, now)
    assert told(machine)[0] == "breaker.closed"
    return machine


@pytest.mark.parametrize(
    ("window", "after", "delay"),
    [(30, 0, 120), (30, 59, 120), (30, 60, 60), (200, 199, 120), (200, 200, 60)],
)
def test_closed_for_good_it_starts_from_the_shortest_open_time_again(
    window: float, after: float, delay: float
) -> None:
    machine = closed_again(100, window=window)
    assert trip(machine, 100 + after) == delay


def test_the_time_that_a_breaker_spends_open_does_not_make_it_closed_for_good() -> None:
    machine = closed_again(100)
    assert trip(machine, 110) == 120
    fail(machine, 230)
    assert machine.retry_after(230) == 240


@given(draw=draws, trips=st.integers(1, 6))
def test_jitter_only_shortens_the_open_time_and_by_at_most_a_fifth(draw: float, trips: int) -> None:
    machine = breaker()
    now = 0.0
    for _ in range(2 + trips):
        now += machine.retry_after(now)
        machine.failure(admitted(machine, now), now, lambda: draw)
    raw = min(300, 60 * 2 ** (trips - 1))
    assert 0.8 * raw * (1 - 1e-12) <= machine.retry_after(now) <= raw
    assert machine.retry_after(now) == pytest.approx(raw * (0.8 + 0.2 * draw))


@given(draw=draws, hint=st.floats(1e-3, 1e6), cooldown=st.sampled_from((0.001, 60)))
def test_a_hint_keeps_it_open_at_least_as_long_with_its_spread(
    draw: float, hint: float, cooldown: float
) -> None:
    machine = breaker(cooldown=cooldown)
    for _ in range(3):
        machine.failure(admitted(machine, 0), 0, lambda: draw, hint)
    spread = min(hint / 2, 10)
    expected = max(cooldown * (0.8 + 0.2 * draw), hint + draw * spread)
    assert machine.retry_after(0) == pytest.approx(expected)
    assert machine.retry_after(0) >= hint


def test_a_hint_above_the_longest_open_time_is_kept() -> None:
    machine = breaker()
    assert trip(machine, 0, hint=1000) == 1010


def test_only_the_hint_of_the_failure_that_trips_counts() -> None:
    machine = breaker()
    fail(machine, 0, hint=1000)
    fail(machine, 0, hint=1000)
    fail(machine, 0)
    assert machine.retry_after(0) == 60


@pytest.mark.parametrize("odd", [math.nan, math.inf, -5, 0, 1e301])
def test_a_hint_that_is_none_is_ignored(odd: float) -> None:
    assert trip(breaker(), 0, hint=odd) == 60


def test_a_hint_on_a_failed_probe_counts_too() -> None:
    machine, probe = half_opened(100)
    machine.failure(probe, 100, whole, 500)
    assert machine.retry_after(100) == 510

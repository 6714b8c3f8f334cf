"""What probes decide, what becomes of late results and odd times, and a breaker that only watches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.breakers import admitted, breaker, fail, half_opened, succeed, told, trip, whole

if TYPE_CHECKING:
    from perdure.core.breaker import BreakerState

draws = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("callers", [2, 12])
def test_half_open_admits_at_most_as_many_as_probes_says(callers: int) -> None:
    """B142: twelve callers at the instant of the switch, two probes."""
    machine = breaker(probes=2, successes=5)
    trip(machine, 0)
    leases = [machine.acquire(60, whole) for _ in range(callers)]
    assert sum(lease is not None for lease in leases) == 2
    assert told(machine) == ["breaker.half_open"]


def test_half_open_admits_no_more_than_are_needed_to_close_it() -> None:
    machine, first = half_opened(probes=5, successes=2)
    second = admitted(machine, 100)
    assert machine.acquire(100, whole) is None
    machine.success(first, 101)
    assert machine.acquire(101, whole) is None, "the one that is out would close it"
    machine.success(second, 102)
    assert machine.state(102) == "closed"


def test_one_lucky_probe_does_not_close_it() -> None:
    """B141."""
    machine, probe = half_opened(successes=3)
    for now in (101, 102):
        machine.success(probe, now)
        assert machine.state(now) == "half_open"
        probe = admitted(machine, now)
    machine.success(probe, 103)
    assert machine.state(103) == "closed"
    assert machine.is_plain
    assert told(machine) == ["breaker.closed"]
    assert admitted(machine, 103) is machine.shared


@pytest.mark.parametrize("good", [0, 1, 2])
def test_a_failed_probe_reopens_at_once_whatever_went_well_before(good: int) -> None:
    """B138: no threshold has to be reached, and later successes do not make up for it."""
    machine, probe = half_opened(successes=3)
    for _ in range(good):
        machine.success(probe, 100)
        probe = admitted(machine, 100)
    machine.failure(probe, 101, whole)
    assert machine.changes == [("breaker.opened", {"reason": "probe", "delay": 120.0})]
    assert machine.state(101) == "open"


def test_successes_of_an_earlier_half_open_period_do_not_count() -> None:
    """B138."""
    machine, probe = half_opened(successes=2)
    machine.success(probe, 100)
    fail(machine, 100)
    succeed(machine, 220)
    assert machine.state(220) == "half_open"
    succeed(machine, 220)
    assert machine.state(220) == "closed"


def test_a_hung_probe_gives_its_place_back_when_its_lease_is_over() -> None:
    """B136: the thread of the probe died; the breaker does not wait for it for ever."""
    machine, _ = half_opened(100, lease=10)
    assert machine.retry_after(104) == 6
    assert machine.acquire(109.9, whole) is None
    assert told(machine) == []
    assert machine.retry_after(110) == 0
    assert admitted(machine, 110).probe
    assert told(machine) == ["breaker.lease_expired"]
    assert machine.acquire(110, whole) is None


def test_every_expired_lease_is_told_once() -> None:
    machine, _ = half_opened(100, lease=10, probes=3, successes=3)
    admitted(machine, 101)
    machine.settle(110)
    assert told(machine) == ["breaker.lease_expired"]
    machine.settle(111)
    machine.settle(500)
    assert told(machine) == ["breaker.lease_expired"]


@pytest.mark.parametrize("failed", [True, False])
def test_the_late_result_of_an_expired_probe_is_ignored(failed: bool) -> None:
    """B136: nothing of it counts, and the place it had is not given back twice."""
    machine, hung = half_opened(100, lease=10, successes=1)
    second = admitted(machine, 115)
    told(machine)
    machine.failure(hung, 116, whole) if failed else machine.success(hung, 116)
    assert machine.changes == [("breaker.late_result", {"reason": "failure" if failed else "success"})]
    assert machine.state(116) == "half_open"
    assert machine.acquire(116, whole) is None
    machine.success(second, 117)
    assert machine.state(117) == "closed"


def test_a_probe_that_reports_at_its_expiry_is_late() -> None:
    machine, probe = half_opened(100, lease=10)
    machine.failure(probe, 110, whole)
    assert told(machine) == ["breaker.lease_expired", "breaker.late_result"]
    assert machine.state(110) == "half_open"


def test_a_cancelled_probe_gives_its_place_back_and_decides_nothing() -> None:
    """B140: excluded outcomes do not use up the probes."""
    machine, probe = half_opened(successes=1)
    for now in range(100, 150):
        machine.abandon(probe, now)
        assert machine.state(now) == "half_open"
        probe = admitted(machine, now)
    machine.success(probe, 150)
    assert told(machine) == ["breaker.closed"]


def test_a_place_is_free_at_once_after_a_probe_was_cancelled() -> None:
    machine, probe = half_opened()
    assert machine.retry_after(100) > 0
    machine.abandon(probe, 100)
    assert machine.retry_after(100) == 0


def test_half_open_lasts_until_somebody_decides() -> None:
    machine, _ = half_opened(100)
    assert machine.state(1e6) == "half_open"
    assert admitted(machine, 1e6).probe


# Late results


def late(machine: BreakerState) -> bool:
    """Whether all that happened is that one result was late."""
    return told(machine) == ["breaker.late_result"]


def test_an_old_success_does_not_close_an_open_breaker() -> None:
    """B144."""
    machine = breaker(successes=1)
    slow = admitted(machine, 0)
    trip(machine, 1)
    machine.success(slow, 2)
    assert late(machine)
    assert machine.state(2) == "open"


def test_an_old_failure_neither_opens_again_nor_prolongs_the_open_time() -> None:
    """B144: hooks are told once per transition."""
    machine = breaker()
    slow = admitted(machine, 0)
    trip(machine, 1)
    machine.failure(slow, 30, whole)
    assert late(machine)
    assert machine.retry_after(30) == 31


def test_an_old_result_is_no_probe() -> None:
    """B144: neither closes nor reopens it while half-open."""
    machine = breaker(successes=1)
    first, second = admitted(machine, 0), admitted(machine, 0)
    trip(machine, 40)
    admitted(machine, 100)
    told(machine)
    machine.success(first, 101)
    assert late(machine)
    machine.failure(second, 101, whole)
    assert late(machine)
    assert machine.state(101) == "half_open"


def test_an_old_failure_does_not_count_in_the_next_closed_period() -> None:
    """B144."""
    machine = breaker(successes=1)
    old = [admitted(machine, 0) for _ in range(9)]
    trip(machine, 1)
    succeed(machine, 61)
    told(machine)
    for lease in old:
        machine.failure(lease, 62, whole)
        assert late(machine)
    assert machine.state(62) == "closed"


def test_a_probe_of_the_period_before_is_late_whatever_happened_since() -> None:
    """B139: one number says which period it is; nothing of another can undo a transition."""
    machine, first = half_opened(probes=2, successes=2)
    second = admitted(machine, 100)
    machine.failure(first, 100, whole)
    told(machine)
    machine.success(second, 101)
    assert late(machine)
    assert machine.state(101) == "open"


def test_an_addition_to_an_old_lease_goes_unseen() -> None:
    machine = breaker(successes=1)
    old = machine.shared
    trip(machine, 0)
    succeed(machine, 60)
    fail(machine, 61)
    fail(machine, 61)
    old.ok += 100
    fail(machine, 61)
    assert machine.state(61) == "open"


def test_the_lease_of_a_new_period_is_counted_from_its_start() -> None:
    machine = breaker(successes=1)
    machine.shared.ok += 5
    trip(machine, 0)
    succeed(machine, 60)
    fail(machine, 61)
    fail(machine, 61)
    machine.shared.ok += 1
    fail(machine, 61)
    assert machine.state(61) == "closed"


def test_a_late_abandon_changes_nothing() -> None:
    machine = breaker()
    old = admitted(machine, 0)
    trip(machine, 0)
    admitted(machine, 60)
    told(machine)
    machine.abandon(old, 60)
    assert told(machine) == []
    assert machine.acquire(60, whole) is None


def test_a_lease_that_reports_twice_counts_once() -> None:
    machine, probe = half_opened(successes=2)
    machine.success(probe, 100)
    machine.success(probe, 100)
    machine.failure(probe, 100, whole)
    assert machine.state(100) == "half_open"
    assert told(machine) == []


def test_the_shared_lease_of_an_open_period_is_nobodys() -> None:
    machine = breaker(successes=1)
    trip(machine, 0)
    machine.success(machine.shared, 1)
    machine.failure(machine.shared, 1, whole)
    assert told(machine) == ["breaker.late_result"] * 2
    admitted(machine, 60)
    machine.success(machine.shared, 60)
    assert machine.state(60) == "half_open"


# Time


def test_a_clock_that_goes_back_stands_still() -> None:
    machine = breaker()
    trip(machine, 1000)
    assert machine.retry_after(0) == 60
    assert machine.acquire(-5, whole) is None
    assert machine.acquire(1059, whole) is None
    machine.settle(3)
    assert machine.retry_after(3) == 1
    probe = admitted(machine, 1060)
    machine.failure(probe, 7, whole)
    assert machine.state(7) == "open"
    assert machine.retry_after(1060) == 120


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_none_counts_as_no_time_passed(odd: float) -> None:
    machine = breaker()
    machine.settle(odd)
    trip(machine, 1000)
    assert machine.acquire(odd, whole) is None
    assert machine.state(odd) == "open"
    assert machine.retry_after(odd) == 60


@given(now=st.floats(0, 1e9), cooldown=st.floats(1e-3, 1e6), draw=draws)
def test_who_waits_as_told_is_admitted(now: float, cooldown: float, draw: float) -> None:
    machine = breaker(failures=1, cooldown=cooldown, max_cooldown=1e6)
    machine.failure(admitted(machine, now), now, lambda: draw)
    then = now + machine.retry_after(now)
    assert machine.retry_after(then) == 0
    assert admitted(machine, then).probe
    then += machine.retry_after(then)
    assert admitted(machine, then).probe


# Shadow


def test_in_shadow_mode_no_call_is_refused_and_each_that_would_be_is_told() -> None:
    machine = breaker(mode="shadow")
    trip(machine, 0)
    lease = admitted(machine, 1)
    assert machine.changes == [("breaker.rejected", {"reason": "shadow"})]
    assert lease.generation == -1
    assert machine.state(1) == "open"


def test_results_of_calls_that_shadow_mode_let_through_are_ignored_without_a_word() -> None:
    machine = breaker(mode="shadow", successes=1)
    trip(machine, 0)
    leases = [admitted(machine, 1) for _ in range(3)]
    told(machine)
    machine.success(leases[0], 2)
    machine.failure(leases[1], 2, whole)
    machine.abandon(leases[2], 2)
    assert told(machine) == []
    assert machine.retry_after(2) == 58


def test_in_shadow_mode_probes_decide_as_they_would() -> None:
    machine, probe = half_opened(mode="shadow", successes=1)
    beside = admitted(machine, 100)
    assert told(machine) == ["breaker.rejected"]
    machine.failure(beside, 100, whole)
    assert machine.state(100) == "half_open"
    machine.success(probe, 101)
    assert told(machine) == ["breaker.closed"]

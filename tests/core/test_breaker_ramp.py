"""After closing: calls in flight from a tenth of the peak before the trip to all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.ramp import Ramp
from tests.core.breakers import admitted, breaker, fail, succeed, told, trip, whole

if TYPE_CHECKING:
    from perdure.core.breaker import BreakerState


def ramping(peak: int = 100, now: float = 1000, **fields: object) -> BreakerState:
    """A breaker with that peak which was open for 60 s and closed ``now``."""
    machine = breaker(**{"ramp": True, "successes": 1, **fields})
    machine.settle(now - 61)
    machine.saw(peak)
    trip(machine, now - 60)
    succeed(machine, now)
    return machine


def room(machine: BreakerState, now: float) -> int:
    """How many more calls are admitted ``now``; their places are given back."""
    leases = []
    while len(leases) < 1000:
        lease = machine.acquire(now, whole)
        if lease is None:
            break
        leases.append(lease)
    for lease in leases:
        machine.abandon(lease, now)
    return len(leases)


def test_closing_with_a_ramp_is_told_as_closed_then_ramping() -> None:
    machine = ramping()
    assert machine.changes == [
        ("breaker.half_open", {}),
        ("breaker.closed", {}),
        ("breaker.ramping", {"delay": 60.0}),
    ]
    assert machine.state(1000) == "ramping"
    assert not machine.is_plain


def test_the_bound_rises_from_a_tenth_of_the_peak_to_all_of_it() -> None:
    machine = ramping(peak=100)
    assert [room(machine, 1000 + 60 * part / 9) for part in range(9)] == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert room(machine, 1059.9) == 99


def test_when_the_ramp_is_over_it_is_closed_and_plain_without_another_event() -> None:
    machine = ramping()
    told(machine)
    assert machine.state(1060) == "closed"
    assert machine.retry_after(1060) == 0
    assert not machine.is_plain, "reading changes nothing"
    machine.settle(1060)
    assert machine.is_plain
    assert admitted(machine, 1060) is machine.shared
    assert told(machine) == []


@pytest.mark.parametrize("peak", [0, 1, 5, 10])
def test_one_call_is_admitted_however_low_the_peak(peak: int) -> None:
    assert room(ramping(peak=peak), 1000) == 1


@pytest.mark.parametrize(("cooldown", "length"), [(0.5, 10), (10, 10), (25, 25)])
def test_the_ramp_lasts_as_long_as_it_was_open_but_ten_seconds_at_least(
    cooldown: float, length: float
) -> None:
    machine = ramping(cooldown=cooldown)
    assert machine.changes[-1] == ("breaker.ramping", {"delay": length})
    assert machine.state(1000 + length - 0.01) == "ramping"
    assert machine.state(1000 + length) == "closed"


def test_a_hint_does_not_make_the_ramp_longer() -> None:
    machine = breaker(ramp=True, successes=1)
    trip(machine, 0, hint=3600)
    succeed(machine, 3610)
    assert machine.changes[-1] == ("breaker.ramping", {"delay": 60.0})


@pytest.mark.parametrize("way", ["success", "failure", "abandon"])
def test_each_call_of_the_ramp_holds_a_place_until_it_reports(way: str) -> None:
    machine = ramping(peak=20)
    first, second = admitted(machine, 1000), admitted(machine, 1000)
    assert first is not second
    assert not first.probe
    assert machine.acquire(1000, whole) is None
    if way == "success":
        machine.success(first, 1000)
    elif way == "failure":
        machine.failure(first, 1000, whole)
    else:
        machine.abandon(first, 1000)
    admitted(machine, 1000)
    assert machine.acquire(1000, whole) is None


def test_a_call_of_the_ramp_that_never_reports_gives_its_place_back() -> None:
    machine = ramping(peak=10, lease=0.5)
    hung = admitted(machine, 1000)
    assert machine.retry_after(1000.25) == 0.25
    assert machine.acquire(1000.25, whole) is None
    told(machine)
    admitted(machine, 1000.5)
    assert told(machine) == ["breaker.lease_expired"]
    machine.success(hung, 1000.6)
    assert told(machine) == ["breaker.late_result"]


def test_a_trip_in_the_ramp_reopens_for_longer() -> None:
    machine = ramping()
    assert trip(machine, 1030) == 120
    assert machine.state(1030) == "open"


def test_failures_before_the_trip_do_not_count_in_the_ramp() -> None:
    machine = ramping()
    fail(machine, 1001)
    fail(machine, 1001)
    assert machine.state(1001) == "ramping"


def test_results_of_the_ramp_count_in_the_closed_period_after_it() -> None:
    machine = ramping(peak=100)
    slow = admitted(machine, 1055)
    fail(machine, 1056)
    fail(machine, 1056)
    machine.failure(slow, 1061, whole)
    assert machine.state(1061) == "open"


@pytest.mark.parametrize(("after", "delay"), [(59.9, 120), (60, 60)])
def test_a_whole_ramp_makes_it_closed_for_good(after: float, delay: float) -> None:
    assert trip(ramping(window=600), 1000 + after) == delay


def test_results_of_ramp_calls_are_late_after_a_trip() -> None:
    machine = ramping()
    lease = admitted(machine, 1010)
    trip(machine, 1010)
    machine.success(lease, 1011)
    assert told(machine) == ["breaker.late_result"]


def test_a_full_ramp_says_when_the_next_place_comes_by_itself() -> None:
    machine = ramping(peak=90, lease=1000)
    for _ in range(9):
        admitted(machine, 1000)
    wait = machine.retry_after(1000)
    assert wait == pytest.approx(60 * (10 / 90 - 0.1) / 0.9)
    assert machine.acquire(1000 + wait * 0.99, whole) is None
    admitted(machine, 1000 + wait)


def test_a_ramp_without_a_peak_names_its_end() -> None:
    machine = ramping(peak=1, lease=1000)
    admitted(machine, 1000)
    assert machine.retry_after(1000) == 60
    assert machine.retry_after(1060) == 0


@given(peak=st.integers(0, 300), taken=st.integers(0, 30), part=st.floats(0, 2), length=st.floats(1, 1e4))
def test_the_bound_lies_between_a_tenth_and_all_of_the_peak_and_the_wait_is_right(
    peak: int, taken: int, part: float, length: float
) -> None:
    ramp = Ramp(30)
    ramp.saw(peak)
    ramp.start(1000, length)
    now = 1000 + part * ramp.length
    bound = next(n for n in range(400) if not ramp.admits(now, n))
    assert max(1, int(peak * 0.1)) <= bound <= max(1, peak)
    assert 0.1 <= ramp.share(now) <= 1
    room_at = ramp.room_at(taken)
    assert 1000 <= room_at <= ramp.ends
    if taken < peak:
        assert ramp.admits(room_at + 1e-6, taken)


def test_in_shadow_mode_the_ramp_refuses_nothing() -> None:
    machine = ramping(peak=10, mode="shadow")
    told(machine)
    admitted(machine, 1000)
    assert admitted(machine, 1000).generation == -1
    assert told(machine) == ["breaker.rejected"]


# The peak


def test_what_is_seen_after_the_trip_does_not_change_the_peak() -> None:
    machine = breaker(ramp=True, successes=1)
    machine.saw(20)
    trip(machine, 0)
    machine.saw(1000)
    succeed(machine, 60)
    machine.saw(1000)
    assert room(machine, 60) == 2


def test_a_trip_in_the_ramp_keeps_the_peak_from_before() -> None:
    machine = ramping(peak=50)
    machine.saw(5)
    trip(machine, 1010)
    succeed(machine, 1130)
    assert room(machine, 1130) == 5


@pytest.mark.parametrize(("later", "admits"), [(29, 10), (59, 10), (61, 2)])
def test_a_peak_is_remembered_for_one_to_two_windows(later: float, admits: int) -> None:
    machine = breaker(ramp=True, successes=1, window=30)
    machine.settle(1000)
    machine.saw(100)
    for now in range(1001, 1001 + int(later)):
        machine.settle(now)
        machine.saw(20)
    now = 1000 + later
    trip(machine, now)
    succeed(machine, now + 60)
    assert room(machine, now + 60) == admits


@pytest.mark.parametrize(("after", "admits"), [(29, 5), (59, 5), (61, 1)])
def test_the_peak_a_ramp_led_back_to_is_remembered_from_its_end(after: int, admits: int) -> None:
    machine = breaker(ramp=True, successes=1, window=30)
    machine.settle(900)
    machine.saw(50)
    machine.settle(930)
    machine.saw(5)
    trip(machine, 940)
    succeed(machine, 1000)
    for now in range(1060, 1060 + after):
        machine.settle(now)
        machine.saw(10)
    trip(machine, 1060 + after)
    succeed(machine, 1120 + after)
    assert room(machine, 1120 + after) == admits

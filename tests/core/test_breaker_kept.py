"""A breaker written down as JSON goes on elsewhere as it would have here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.breaker import BreakerState
from tests.core.breakers import (
    LEASE,
    WINDOW,
    Rule,
    admitted,
    breaker,
    fail,
    half_opened,
    succeed,
    told,
    trip,
    whole,
)

THERE = 5_000.0  # the monotonic time of the other process


def moved(machine: BreakerState, now: float, there: float = THERE, **fields: Any) -> BreakerState:
    data = json.loads(json.dumps(machine.to_dict(now)))
    return BreakerState.from_dict(Rule(**fields), data, there, window=WINDOW, lease=LEASE)


def test_an_open_breaker_stays_open_for_what_is_left() -> None:
    """B149: a new worker takes over the state, and begins no open time of its own."""
    machine = breaker()
    trip(machine, 100)
    other = moved(machine, 130)
    assert other.state(THERE) == "open"
    assert other.retry_after(THERE) == 30
    assert other.acquire(THERE + 29, whole) is None
    assert not other.is_plain


@pytest.mark.parametrize("read_at", [160, 1e6])
def test_an_open_time_that_is_over_leads_to_probes_and_not_to_closed(read_at: float) -> None:
    """B150."""
    machine = breaker()
    trip(machine, 100)
    other = moved(machine, read_at)
    assert other.state(THERE) == "half_open"
    assert admitted(other, THERE).probe
    assert other.acquire(THERE, whole) is None
    assert told(other) == ["breaker.half_open"]


def test_open_times_go_on_growing() -> None:
    machine = breaker()
    trip(machine, 0)
    fail(machine, 60)
    other = moved(machine, 60)
    assert other.retry_after(THERE) == 120
    fail(other, THERE + 120)
    assert other.retry_after(THERE + 120) == 240


@pytest.mark.parametrize(("after", "delay"), [(19, 120), (20, 60)])
def test_it_is_closed_for_good_when_it_would_have_been(after: float, delay: float) -> None:
    machine, probe = half_opened(100, successes=1)
    machine.success(probe, 100)
    other = moved(machine, 140)
    assert trip(other, THERE + after) == delay


def test_probes_that_succeeded_count_and_those_out_do_not() -> None:
    machine, probe = half_opened(100)
    machine.success(probe, 100)
    admitted(machine, 100)
    other = moved(machine, 101)
    assert other.state(THERE) == "half_open"
    succeed(other, THERE)
    assert other.state(THERE) == "closed"


def test_a_rule_that_asks_for_fewer_probes_by_now_still_lets_one_decide() -> None:
    machine, probe = half_opened(100, successes=5)
    for _ in range(3):
        machine.success(probe, 100)
        probe = admitted(machine, 100)
    other = moved(machine, 100, successes=2)
    succeed(other, THERE)
    assert other.state(THERE) == "closed"


def test_no_lease_of_the_old_machine_counts_in_the_new_one() -> None:
    machine = breaker()
    old = admitted(machine, 0)
    other = moved(machine, 0)
    for _ in range(5):
        other.failure(old, THERE, whole)
    assert other.state(THERE) == "closed"
    assert told(other) == ["breaker.late_result"] * 5
    assert old.generation != other.shared.generation


def test_failures_in_a_row_and_the_rate_go_on() -> None:
    machine = breaker()
    fail(machine, 0)
    fail(machine, 20)
    assert trip_after_one(moved(machine, 21), 5)
    assert not trip_after_one(moved(machine, 21), 15), "the first is older than the window"

    machine = breaker(failures=None, failure_rate=0.5, min_calls=4)
    fail(machine, 1)
    fail(machine, 1)
    machine.shared.ok += 1
    other = moved(machine, 1, failures=None, failure_rate=0.5, min_calls=4)
    fail(other, THERE)
    assert other.state(THERE) == "open"


def trip_after_one(machine: BreakerState, after: float) -> bool:
    fail(machine, THERE + after)
    return machine.state(THERE + after) == "open"


def ramped(**fields: Any) -> BreakerState:
    machine = breaker(ramp=True, successes=1, **fields)
    machine.saw(50)
    trip(machine, 0)
    succeed(machine, 60)
    return machine


def test_a_ramp_goes_on_where_it_was() -> None:
    other = moved(ramped(), 80, ramp=True)
    assert other.state(THERE) == "ramping"
    assert sum(other.acquire(THERE, whole) is not None for _ in range(100)) == 20
    assert other.state(THERE + 39) == "ramping"
    assert other.state(THERE + 40) == "closed"


def test_a_rule_without_ramp_by_now_is_closed() -> None:
    other = moved(ramped(), 80, ramp=False)
    assert other.is_plain
    assert other.state(THERE) == "closed"


def test_a_ramp_that_is_over_is_closed() -> None:
    other = moved(ramped(), 200, ramp=True)
    assert other.state(THERE) == "closed"
    assert other.is_plain


steps = st.lists(
    st.tuples(st.sampled_from(("fail", "succeed", "wait", "skip")), st.integers(1, 100)), max_size=40
)


@given(steps=steps, ramp=st.booleans())
def test_what_is_written_down_is_read_back_whole(steps: list[tuple[str, int]], ramp: bool) -> None:
    fields = {"ramp": ramp, "failure_rate": 0.5, "cooldown": 5, "max_cooldown": 80}
    machine, now = breaker(**fields), 1000.0
    for step, seconds in steps:
        now += {"wait": seconds / 4, "skip": 60}.get(step, 0)
        lease = machine.acquire(now, whole)
        if lease is not None and step == "fail":
            machine.failure(lease, now, whole)
        elif lease is not None:
            machine.success(lease, now)
    data = machine.to_dict(now)
    other = moved(machine, now, there=now, **fields)
    assert other.state(now) == machine.state(now)
    assert other.to_dict(now) == {**data, "generation": data["generation"] + 1}  # type: ignore[operator]
    assert other.is_plain == machine.is_plain
    assert told(other) == []


GOOD = {
    "state": "open",
    "generation": 3,
    "trips": 1,
    "delay": 60.0,
    "succeeded": 0,
    "open_left": 30.0,
    "trips_left": None,
    "ramp_age": None,
    "ramp_length": 10.0,
    "peak": 5,
    "run": [],
    "results": [],
}


def read(data: object) -> BreakerState:
    return BreakerState.from_dict(Rule(ramp=True), data, THERE, window=WINDOW, lease=LEASE)


def test_unknown_fields_are_left_alone() -> None:
    assert read({**GOOD, "mood": "fine"}).retry_after(THERE) == 30


def test_no_number_of_trips_that_was_written_down_is_too_much() -> None:
    machine = read({**GOOD, "trips": 10**12})
    fail(machine, THERE + 30)
    assert machine.retry_after(THERE + 30) == 300


@pytest.mark.parametrize("field", GOOD)
def test_a_missing_field_is_named(field: str) -> None:
    needed = {"open_left": "open", "ramp_age": "ramping"}
    data = {**GOOD, "state": needed.get(field, "open")}
    del data[field]
    with pytest.raises(ValueError, match=f"^{field} is missing"):
        read(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("state", value) for value in ("ajar", None, 1, ["open"])),
        *(
            (name, value)
            for name in ("generation", "trips", "succeeded", "peak")
            for value in (-1, 1.5, True, "1", None)
        ),
        *((name, 10**16) for name in ("generation", "trips", "succeeded", "peak")),
        *((name, value) for name in ("delay", "open_left", "ramp_length") for value in (-1, "1", True, None)),
        *(
            (name, float(value))
            for name in ("delay", "open_left", "trips_left")
            for value in ("nan", "inf", "1e301")
        ),
        *(("trips_left", value) for value in (-1, "1", True)),
        *(("run", value) for value in (None, "12", {}, [-1], ["1"], [None])),
        *(
            ("results", value)
            for value in (None, {}, [1], [[1, 2, 3]], [[1, 2, 3, 4, 5]], [[-1, 1, 1, 1]], [[1, 1, 1, 1.5]])
        ),
    ],
)
def test_a_field_that_makes_no_sense_is_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field} must .*, got "):
        read({**GOOD, field: value})


def test_the_age_of_a_ramp_is_read_only_in_one() -> None:
    assert read({**GOOD, "ramp_age": "?"}).state(THERE) == "open"
    with pytest.raises(ValueError, match=r"^ramp_age must"):
        read({**GOOD, "state": "ramping", "ramp_age": "?"})


@pytest.mark.parametrize("data", [None, 5, "open", [], [["state", "open"]]])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"^the breaker must be an object"):
        read(data)

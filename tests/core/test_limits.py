"""The rate limit and the places of a bulkhead: never more than allowed, nothing lost, nothing given twice."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perdure.core.limits import Gcra, Places

FOREVER = math.inf
limits = st.sampled_from((1, 2, 3, 7, 0.5, 100, 1e6))
pers = st.sampled_from((1.0, 0.1, 7.0, 60.0, 86_400.0))
bursts = st.sampled_from((1, 2, 3, 5, 20))
starts = st.sampled_from((0.0, 1e3, 1e6, 1e9))


# ---------------------------------------------------------------- rate limit: the promise


def busiest(sent: list[float], limit: float, per: float) -> float:
    """The most calls that any stretch of time saw beyond what the rate allows for its length."""
    worst, lowest = 0.0, math.inf
    for index, at in enumerate(sorted(sent)):
        # calls from i to index: index - i + 1; allowed without the burst: (at - sent[i]) * limit / per
        share = at * limit / per - index
        lowest = min(lowest, -share)
        worst = max(worst, 1 - share - lowest)
    return worst


def test_the_measure_of_the_busiest_stretch_counts_right() -> None:
    assert busiest([0, 1, 2, 3], 1, 1) == 1
    assert busiest([0, 0, 1, 2], 1, 1) == 2
    assert busiest([0, 5, 5, 5, 6, 20], 1, 1) == 3
    assert busiest([0, 0.5, 1], 1, 1) == 2


steps = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.sampled_from((0.0, 0.3, 1.7, 20.0, FOREVER))),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("pause"), st.floats(-2, 8)),
        st.tuples(st.just("later"), st.one_of(st.floats(0, 12), st.sampled_from((0.5, 1.0, 1.5)))),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=80,
)


@given(limits, pers, bursts, starts, steps)
def test_no_stretch_of_time_sees_more_than_the_burst_and_the_rate(
    limit: float, per: float, burst: int, start: float, script: list[tuple[str, Any]]
) -> None:
    """Whatever is reserved, given back and paused, in any order. Times in the script are in intervals."""
    interval = per / limit
    assume(interval > start * 1e-10)  # else floats cannot tell two places apart
    gcra, now, ahead, sent = Gcra(limit, per, burst), start, [], []
    for what, value in script:
        if what == "later":
            now += value * interval
        elif what == "reserve":
            wait = gcra.reserve(now, value * interval)
            if wait is not None:
                assert 0 <= wait <= value * interval
                assert now + wait >= gcra.paused_until - 1e-6
                ahead.append(now + wait)
        elif what == "cancel" and ahead:
            gcra.cancel(now, ahead.pop(value % len(ahead)))
        elif what == "pause":
            gcra.pause(now + value * interval)
        else:
            gcra.level(now)
            gcra.retry_after(now)
        sent += [at for at in ahead if at < now]
        ahead = [at for at in ahead if at >= now]
    assert busiest(sent + ahead, limit, per) <= burst + 1e-3


@given(limits, pers, bursts, st.integers(2, 40))
def test_a_burst_and_then_the_rate_go_out_whoever_asks(
    limit: float, per: float, burst: int, calls: int
) -> None:
    """The other side of the promise: what is allowed is not withheld."""
    gcra = Gcra(limit, per, burst)
    waits = [gcra.reserve(0, FOREVER) for _ in range(calls)]
    assert waits == pytest.approx([max(0, n - burst + 1) * per / limit for n in range(calls)])


class Exact:
    """A token bucket in rational numbers; its level may be below 0, by as many as wait."""

    def __init__(self, limit: Any, per: Any, burst: int) -> None:
        self.rate = Fraction(limit) / Fraction(per)
        self.burst = burst
        self.level = Fraction(burst)
        self.at = Fraction(0)

    def reserve(self, now: float, max_wait: float) -> Fraction | None:
        self.level = min(Fraction(self.burst), self.level + (Fraction(now) - self.at) * self.rate)
        self.at = Fraction(now)
        wait = max(Fraction(0), (1 - self.level) / self.rate)
        if wait > max_wait:
            return None
        self.level -= 1
        return wait


@given(
    st.sampled_from((1, 2, 3, 7, 0.75)),
    st.sampled_from((1, 7, 60)),
    bursts,
    st.lists(
        st.tuples(st.integers(0, 400).map(lambda n: n / 32), st.sampled_from((0.0, 1.234567, 40.7654321))),
        max_size=60,
    ),
)
def test_waits_and_refusals_are_those_of_an_exact_token_bucket(
    limit: float, per: float, burst: int, arrivals: list[tuple[float, float]]
) -> None:
    gcra, exact, now = Gcra(limit, per, burst), Exact(limit, per, burst), 0.0
    for gap, max_wait in arrivals:
        now += gap
        wait, expected = gcra.reserve(now, max_wait), exact.reserve(now, max_wait)
        assert (wait is None) is (expected is None)
        if wait is not None and expected is not None:
            assert abs(wait - expected) < 1e-9
        assert gcra.level(now) == pytest.approx(float(exact.level), abs=1e-9)


@pytest.mark.parametrize("start", [0.0, 1e7, 1e9])
def test_a_million_reservations_do_not_drift(start: float) -> None:
    """A third of a second has no exact float: a million of them added up would be wrong by 1e-5 s."""
    gcra, wait = Gcra(3, 1, 5), None
    for _ in range(1_000_000):
        wait = gcra.reserve(start, FOREVER)
    assert wait == pytest.approx((1_000_000 - 5) / 3, abs=1e-10 if not start else 4 * math.ulp(start))


def test_a_million_calls_that_wait_as_told_take_as_long_as_the_rate_says() -> None:
    gcra, now = Gcra(7, 1, 2), 1e6
    for _ in range(1_000_000):
        wait = gcra.reserve(now, 1)
        assert wait is not None
        now += wait
    assert now - 1e6 == pytest.approx((1_000_000 - 2) / 7, abs=1e-6)


@given(limits, pers, bursts, starts, st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_who_waits_as_told_is_let_in(
    limit: float, per: float, burst: int, start: float, gaps: list[float]
) -> None:
    assume(per / limit > start * 1e-10)
    gcra, now = Gcra(limit, per, burst), start
    for gap in gaps:
        now += gap * per / limit
        now += gcra.retry_after(now)
        assert gcra.reserve(now, 0) == 0


@pytest.mark.parametrize("start", [0.0, 1e9])
def test_who_wakes_a_rounding_error_early_is_let_in_and_who_wakes_early_is_not(start: float) -> None:
    gcra = Gcra(1, 1, 1)
    gcra.reserve(start, 0)
    assert gcra.reserve(start + 0.9999, 0) is None
    assert gcra.reserve(math.nextafter(start + 1, 0), 0) == 0


# ---------------------------------------------------------------- rate limit: refusals, odd times


@given(limits, bursts, st.integers(0, 30), st.floats(0, 100))
def test_a_refusal_takes_nothing(limit: float, burst: int, refusals: int, later: float) -> None:
    asked, spared = Gcra(limit, 1, burst), Gcra(limit, 1, burst)
    for gcra in (asked, spared):
        for _ in range(burst):
            gcra.reserve(0, 0)
    for _ in range(refusals):
        assert asked.reserve(0, 0) is None
    assert asked.level(later) == spared.level(later)
    assert asked.reserve(later, FOREVER) == spared.reserve(later, FOREVER)


@pytest.mark.parametrize("max_wait", [-1, -1e-9, math.nan])
def test_less_than_no_wait_is_refused(max_wait: float) -> None:
    assert Gcra(1, 1, 1).reserve(0, max_wait) is None


@pytest.mark.parametrize("odd", [5.0, -1e9, -math.inf, math.inf, math.nan])
def test_a_clock_that_jumps_back_or_is_broken_counts_as_no_time_passed(odd: float) -> None:
    """B063: a clock is not trusted to go on evenly."""
    gcra = Gcra(1, 1, 2)
    assert gcra.reserve(10, 0) == 0
    assert gcra.reserve(odd, 0) == 0
    assert gcra.reserve(odd, 0) is None
    assert gcra.retry_after(odd) == 1
    assert gcra.level(odd) == 0
    assert gcra.reserve(11, 0) == 0


def test_a_clock_that_is_broken_from_the_start_does_no_harm() -> None:
    gcra = Gcra(1, 1, 1)
    gcra.reserve(math.nan, 0)
    assert gcra.level(math.nan) == 1
    assert [gcra.reserve(0, 0), gcra.reserve(0, 0)] == [0, None]


def test_the_level_falls_with_each_place_and_rises_with_time_to_the_burst() -> None:
    gcra = Gcra(2, 1, 3)
    assert gcra.level(0) == 3
    for _ in range(5):
        gcra.reserve(0, FOREVER)
    assert gcra.level(0) == -2
    assert gcra.level(0.25) == -1.5
    assert gcra.level(2) == 2
    assert gcra.level(1000) == 3


def test_asking_changes_nothing() -> None:
    gcra = Gcra(1, 1, 1)
    assert [gcra.retry_after(0) for _ in range(3)] == [0, 0, 0]
    gcra.reserve(0, 0)
    assert [gcra.retry_after(0.25) for _ in range(3)] == [0.75, 0.75, 0.75]
    assert gcra.reserve(0.25, FOREVER) == 0.75


# ---------------------------------------------------------------- rate limit: giving back


def test_the_latest_place_comes_back_as_if_it_had_not_been_taken() -> None:
    gcra = Gcra(1, 1, 2)
    gcra.reserve(0, 0)
    gcra.reserve(0, 0)
    gcra.cancel(0, 0)
    assert gcra.level(0) == 1
    assert gcra.reserve(0, 0) == 0
    assert gcra.reserve(0, 0) is None


def test_the_latest_place_comes_back_some_time_after_it_was_given() -> None:
    gcra = Gcra(1, 1, 3)
    gcra.reserve(0, 0)
    gcra.reserve(0.25, 0)
    assert gcra.level(0.5) == 1.5
    gcra.cancel(0.5, 0.25)
    assert gcra.level(0.5) == 2.5


def test_a_place_ahead_goes_to_the_next_who_asks() -> None:
    gcra = Gcra(1, 1, 1)
    assert [gcra.reserve(0, FOREVER) for _ in range(5)] == [0, 1, 2, 3, 4]
    gcra.cancel(0.5, 2)
    assert gcra.level(0.5) == -2.5  # 1, 3 and 4 wait, and half a place has grown
    assert gcra.retry_after(0.5) == 1.5
    assert gcra.reserve(0.5, FOREVER) == 1.5
    assert gcra.reserve(0.5, FOREVER) == 4.5


def test_a_place_that_is_over_is_lost() -> None:
    gcra = Gcra(1, 1, 1)
    assert [gcra.reserve(0, FOREVER) for _ in range(4)] == [0, 1, 2, 3]
    gcra.cancel(0.5, 1)
    assert gcra.level(0.5) == -1.5
    assert gcra.level(1.5) == -1.5
    assert gcra.reserve(1.5, FOREVER) == 2.5  # at 4: nobody uses the place of 1 any more
    gcra.cancel(2.5, 2)
    assert gcra.reserve(2.5, FOREVER) == 2.5


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_when_all_who_wait_give_up_the_bucket_is_as_if_they_never_came(order: tuple[int, ...]) -> None:
    gcra = Gcra(1, 1, 1)
    for _ in range(5):
        gcra.reserve(0, FOREVER)
    for at in order:
        gcra.cancel(0.5, at)
    assert gcra.level(0.5) == 0.5
    assert [gcra.reserve(1.75, 0), gcra.reserve(1.75, 0)] == [0, None]
    assert gcra.retry_after(1.75) == 1


def test_places_given_back_are_forgotten_when_the_bucket_is_full() -> None:
    gcra = Gcra(1, 1, 1)
    for _ in range(5):
        gcra.reserve(0, FOREVER)
    gcra.cancel(0, 3)
    assert [gcra.reserve(100, FOREVER) for _ in range(2)] == [0, 1]


@given(
    st.sampled_from((0.0, 2.0, 10.5, 12.0, 99.0, -1.0, 1e308, math.nan, math.inf, -math.inf)), st.floats(0, 9)
)
def test_giving_back_what_was_never_given_changes_nothing(at: float, now: float) -> None:
    gcra = Gcra(1, 1, 1)
    gcra.cancel(now, at)
    assert gcra.level(now) == 1
    for _ in range(2):
        gcra.reserve(10, FOREVER)
    gcra.cancel(10, at)
    assert gcra.level(10) == -1


def test_a_place_is_given_back_only_once() -> None:
    gcra = Gcra(1, 1, 1)
    for _ in range(4):
        gcra.reserve(0, FOREVER)
    gcra.cancel(0, 2)
    gcra.cancel(0, 2)
    assert [gcra.reserve(0, FOREVER) for _ in range(2)] == [2, 4]


def test_waiters_that_come_and_go_leave_no_memory_behind() -> None:
    gcra, ahead = Gcra(1, 1, 1), []
    for turn in range(2000):
        wait = gcra.reserve(turn / 100, FOREVER)
        assert wait is not None
        ahead.append(turn / 100 + wait)
        if len(ahead) > 10:
            gcra.cancel(turn / 100, ahead.pop(turn % 10))
    assert len(gcra._free) <= 11


# ---------------------------------------------------------------- rate limit: a server's hint


def test_nobody_goes_out_in_a_pause_and_after_it_calls_go_one_by_one() -> None:
    gcra = Gcra(10, 1, 5)
    assert gcra.reserve(0, 0) == 0
    gcra.pause(30)
    assert gcra.paused_until == 30
    assert gcra.retry_after(0) == 30
    assert gcra.level(0) < 1
    assert [gcra.reserve(20, FOREVER) for _ in range(3)] == pytest.approx([10, 10.1, 10.2])
    assert gcra.reserve(29.9, 0) is None


def test_the_bucket_fills_again_after_a_pause() -> None:
    gcra = Gcra(10, 1, 5)
    gcra.pause(30)
    assert gcra.level(30) == pytest.approx(1)
    assert gcra.level(30.2) == pytest.approx(3)
    assert gcra.level(40) == 5


@pytest.mark.parametrize("until", [5.0, 10.0, -math.inf, math.inf, math.nan])
def test_a_pause_that_is_over_or_is_no_time_changes_nothing(until: float) -> None:
    gcra = Gcra(1, 1, 3)
    gcra.reserve(10, 0)
    gcra.pause(until)
    assert gcra.level(10) == 2
    assert gcra.retry_after(10) == 0


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    gcra = Gcra(1, 1, 1)
    gcra.reserve(0, 0)
    gcra.pause(30)
    gcra.pause(5)
    assert gcra.paused_until == 30
    assert gcra.retry_after(1) == 29
    gcra.pause(40)
    assert gcra.retry_after(1) == 39


def test_a_pause_shorter_than_the_line_keeps_the_line() -> None:
    gcra = Gcra(1, 1, 1)
    assert [gcra.reserve(0, FOREVER) for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    gcra.cancel(0, 2)
    gcra.cancel(0, 4)
    gcra.pause(3)
    assert [gcra.reserve(0, FOREVER) for _ in range(2)] == [4, 6]  # the place of 2 lies in the pause


def test_a_place_from_before_the_pause_cannot_be_given_back_into_it() -> None:
    gcra = Gcra(1, 1, 1)
    for _ in range(3):
        gcra.reserve(0, FOREVER)
    gcra.pause(10)
    gcra.cancel(0, 2)
    assert gcra.retry_after(0) == 10


def test_a_place_in_a_pause_that_ends_where_the_line_ends_is_not_given_again() -> None:
    gcra = Gcra(1, 1, 1)
    gcra.reserve(0, 0)
    gcra.pause(1)
    gcra.cancel(0, 0)
    assert gcra.retry_after(0) == 1


# ---------------------------------------------------------------- places of a bulkhead


class Twin:
    """A waiter that equals every other and cannot be hashed: only identity tells them apart."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Bulkhead(RuleBasedStateMachine):
    """Callers that enter, wait, are woken, give up and leave, against plain lists of who is where."""

    limit = 2
    queue = 3

    def __init__(self) -> None:
        super().__init__()
        self.places = Places(self.limit, self.queue)
        self.inside = 0
        self.line: list[Twin] = []
        self.handed: list[Twin] = []  # have a place, and have not woken yet

    @rule()
    def arrive(self) -> None:
        entered = self.places.try_enter()
        assert entered is (self.inside + len(self.handed) < self.limit)
        if entered:
            self.inside += 1
            return
        waiter = Twin()
        joined = self.places.join(waiter)
        assert joined is (len(self.line) < self.queue)
        if joined:
            self.line.append(waiter)

    @precondition(lambda self: self.inside)
    @rule()
    def go(self) -> None:
        self.inside -= 1
        self.passed_on()

    @precondition(lambda self: self.handed)
    @rule(which=st.integers(0, 9))
    def wake(self, which: int) -> None:
        self.handed.pop(which % len(self.handed))
        self.inside += 1

    @precondition(lambda self: self.line)
    @rule(which=st.integers(0, 9))
    def give_up(self, which: int) -> None:
        assert not self.places.quit(self.line.pop(which % len(self.line)))

    @precondition(lambda self: self.handed)
    @rule(which=st.integers(0, 9))
    def give_up_too_late(self, which: int) -> None:
        assert self.places.quit(self.handed.pop(which % len(self.handed)))
        self.passed_on()

    def passed_on(self) -> None:
        """Whoever waits longest has it now."""
        woken = self.places.leave()
        if not self.line:
            assert woken is None
            return
        assert woken is self.line[0]
        self.handed.append(self.line.pop(0))

    @invariant()
    def no_place_is_lost_or_given_twice(self) -> None:
        assert self.places.taken == self.inside + len(self.handed) <= self.limit
        assert self.places.waiting == len(self.line) <= self.queue
        assert not self.line or self.places.taken == self.limit  # nobody waits beside a free place


@pytest.mark.parametrize(("limit", "queue"), [(1, 0), (1, 1), (1, 4), (2, 3), (3, 2), (5, 20)])
def test_places_are_never_lost_nor_given_twice(limit: int, queue: int) -> None:
    class Sized(Bulkhead):
        pass

    Sized.limit, Sized.queue = limit, queue
    run_state_machine_as_test(Sized)


def test_without_a_queue_nobody_waits() -> None:
    places = Places(1)
    assert places.try_enter()
    assert not places.try_enter()
    assert not places.join(object())
    assert places.waiting == 0


def test_who_joins_twice_stands_in_line_once() -> None:
    places, waiter, other = Places(1, 2), object(), object()
    places.try_enter()
    assert places.join(waiter)
    assert places.join(waiter)
    assert places.join(other)
    assert places.join(waiter)
    assert places.waiting == 2
    assert [places.leave(), places.leave(), places.leave()] == [waiter, other, None]


def test_leaving_more_often_than_entering_makes_no_place() -> None:
    places = Places(1, 1)
    assert places.leave() is None
    assert places.taken == 0
    assert places.try_enter()
    assert not places.try_enter()


def test_a_woken_waiter_is_forgotten() -> None:
    places, waiter = Places(1, 1), object()
    places.try_enter()
    places.join(waiter)
    assert places.leave() is waiter
    assert places.waiting == 0
    assert not places._line

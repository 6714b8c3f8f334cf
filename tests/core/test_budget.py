"""Budgets: how much of the traffic may be retries and hedges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.core.budget import Bucket, Share

LITTLE = 1e-6
ratios = st.sampled_from((0.1, 0.2, 0.3, 0.5, 1.0)) | st.floats(0.001, 5)
caps = st.floats(1, 50)


def spent(bucket: Bucket, ok: int) -> int:
    """How many tokens it gives until it is empty."""
    return next(n for n in range(1000) if not bucket.withdraw(ok))


def test_a_bucket_gives_its_start_before_any_success() -> None:
    assert spent(Bucket(0.5, 5, 3), ok=0) == 3


def test_each_success_pays_in_its_part_of_a_retry() -> None:
    bucket = Bucket(0.5, 5, 0)
    assert not bucket.withdraw(1)
    assert bucket.withdraw(2)
    assert not bucket.withdraw(3)
    assert bucket.withdraw(4)


@pytest.mark.parametrize("per_success", [0.1, 0.3, 0.7, 1 / 3])
def test_deposits_that_add_up_to_one_buy_a_retry_for_all_the_dust_of_floats(per_success: float) -> None:
    bucket = Bucket(per_success, 5, 0)
    needed = math.ceil(round(1 / per_success, 9))
    for ok in range(needed):
        assert not bucket.withdraw(ok)
    assert bucket.withdraw(needed)
    assert bucket.tokens(needed) >= 0


def test_no_more_than_the_cap_is_saved_up() -> None:
    bucket = Bucket(0.5, 5, 3)
    assert bucket.tokens(1_000_000) == 5
    assert spent(bucket, ok=1_000_000) == 5


def test_income_stops_when_successes_stop() -> None:
    bucket = Bucket(0.5, 5, 3)
    assert spent(bucket, ok=100) == 5
    assert not any(bucket.withdraw(100) for _ in range(100))


def test_retries_that_still_wait_count() -> None:
    """B155: a thousand failures at once withdraw when they decide, so a cap of five lets five go."""
    bucket = Bucket(0.2, 5, 5)
    assert sum(bucket.withdraw(0) for _ in range(1000)) == 5


def test_a_start_above_the_cap_is_cut_to_it_and_one_below_zero_is_none() -> None:
    assert Bucket(0.5, 5, 9).tokens(0) == 5
    assert Bucket(0.5, 5, -1).tokens(0) == 0


def test_a_refund_brings_back_one_token_up_to_the_cap() -> None:
    bucket = Bucket(0.5, 2, 2)
    assert bucket.withdraw(0)
    bucket.refund()
    bucket.refund()
    assert bucket.tokens(0) == 2


def test_a_total_that_goes_backwards_pays_in_nothing() -> None:
    bucket = Bucket(0.5, 5, 0)
    assert bucket.tokens(4) == 2
    assert bucket.tokens(1) == 2
    assert bucket.tokens(4) == 2
    assert bucket.tokens(5) == 2.5


@pytest.mark.parametrize(("amount", "given_"), [(3, 3), (9, 4), (0.5, 0.5), (0, 0), (-1, 0)])
def test_a_new_key_draws_its_start_from_what_is_there(amount: float, given_: float) -> None:
    bucket = Bucket(0.5, 5, 4)
    assert bucket.draw_start(amount) == given_
    assert bucket.tokens(0) == 4 - given_


@given(ratios, caps, st.floats(0, 50), st.lists(st.integers(0, 20), max_size=30))
def test_a_lazy_deposit_equals_one_at_each_success(
    per_success: float, cap: float, start: float, steps: list[int]
) -> None:
    lazy, eager, ok = Bucket(per_success, cap, start), Bucket(per_success, cap, start), 0
    for step in steps:
        for _ in range(step):
            ok += 1
            eager.tokens(ok)
        assert lazy.tokens(ok) == pytest.approx(eager.tokens(ok))
        assert lazy.withdraw(ok) is eager.withdraw(ok)


class AnyInterleaving(RuleBasedStateMachine):
    """Whatever the order of questions, a bucket gives no more than came in."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket, self.ok, self.out, self.drawn = Bucket(0.3, 5, 3), 0, 0, 0.0

    @rule(n=st.integers(0, 40))
    def succeed(self, n: int) -> None:
        self.ok += n

    @rule()
    def withdraw(self) -> None:
        had = self.bucket.tokens(self.ok)
        given_ = self.bucket.withdraw(self.ok)
        assert given_ is (had >= 1 - 1e-9)
        self.out += given_

    @precondition(lambda self: self.out > 0)
    @rule()
    def refund(self) -> None:
        self.bucket.refund()
        self.out -= 1

    @rule(amount=st.floats(-1, 10))
    def draw(self, amount: float) -> None:
        self.drawn += self.bucket.draw_start(amount)

    @rule(back=st.integers(1, 5))
    def ask_with_an_old_total(self, back: int) -> None:
        self.bucket.tokens(max(0, self.ok - back))

    @invariant()
    def it_is_never_overspent(self) -> None:
        assert self.out + self.drawn <= 3 + 0.3 * self.ok + LITTLE

    @invariant()
    def tokens_are_between_none_and_the_cap(self) -> None:
        assert 0 <= self.bucket.tokens(0) <= 5


test_a_bucket_is_never_overspent_under_any_interleaving = AnyInterleaving.TestCase


def share(max_ratio: float = 0.1, window: float = 60, floor: float = 0) -> Share:
    return Share(max_ratio, window, floor)


def test_retries_are_at_most_their_share_of_the_requests() -> None:
    budget = share()
    budget.requests(0.0, 100)
    budget.requests(0.5, 100)
    budget.requests(0.5, 90)
    assert sum(budget.withdraw(0.5) for _ in range(50)) == 10


def test_the_floor_is_allowed_whatever_the_traffic() -> None:
    budget = share(floor=3)
    assert sum(budget.withdraw(0.0) for _ in range(50)) == 3


def test_a_hundred_dusty_products_do_not_lose_a_retry() -> None:
    """0.07 x 100 is 7.000000000000001 and 0.29 x 100 is 28.999999999999996 in floats."""
    for percent in range(1, 100):
        budget = share(percent / 100)
        budget.requests(0.0, 100)
        assert sum(budget.withdraw(0.0) for _ in range(200)) == percent


def test_requests_and_retries_leave_with_the_window() -> None:
    budget = share()
    budget.requests(0.0, 100)
    assert all(budget.withdraw(30.0) for _ in range(10))
    budget.requests(59.0, 150)
    assert sum(budget.withdraw(59.9) for _ in range(50)) == 5
    budget.requests(60.0, 200)  # the first hundred are gone: 10 of 100, and 15 were made
    assert not budget.withdraw(60.0)
    budget.requests(90.0, 300)  # ten retries are gone: 5 of 200
    assert sum(budget.withdraw(90.0) for _ in range(50)) == 15


def test_a_refund_frees_the_place_of_one_retry() -> None:
    budget = share(floor=1)
    assert budget.withdraw(0.0)
    assert not budget.withdraw(0.0)
    budget.refund(1.0)
    assert budget.withdraw(1.0)


def test_a_refund_of_a_retry_from_before_the_window_gives_nothing_back() -> None:
    budget = share(floor=1)
    assert budget.withdraw(0.0)
    assert budget.withdraw(61.0)
    budget.refund(62.0, decided=0.0)
    assert not budget.withdraw(62.0)
    budget.refund(62.0, decided=61.0)
    assert budget.withdraw(62.0)


@pytest.mark.parametrize(("decided", "gives"), [(0.9, False), (1.0, True)])
def test_a_window_ends_a_sixtieth_at_a_time(decided: float, gives: bool) -> None:
    budget = share(floor=1)
    assert budget.withdraw(decided)
    budget.refund(60.0, decided)
    assert budget.withdraw(60.0)
    budget.refund(60.9, decided)
    assert budget.withdraw(60.9) is gives


def test_a_refund_takes_off_the_oldest_so_that_no_other_counts_too_short() -> None:
    budget = share(floor=2)
    assert budget.withdraw(0.0)
    assert budget.withdraw(50.0)
    budget.refund(55.0, decided=0.0)
    assert budget.withdraw(70.0)
    assert not budget.withdraw(70.0)


def test_a_refund_with_nothing_out_changes_nothing() -> None:
    budget = share(floor=1)
    budget.refund(0.0)
    assert budget.withdraw(0.0)
    assert not budget.withdraw(0.0)


@pytest.mark.parametrize("odd", [5.0, -1e9, math.nan, -math.inf, math.inf])
def test_a_time_that_goes_backwards_or_is_none_is_no_time_passed(odd: float) -> None:
    budget = share(floor=1)
    assert budget.withdraw(100.0)
    budget.requests(odd, 9)
    assert not budget.withdraw(odd)
    assert budget.withdraw(160.0)


steps = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(("requests", "withdraw", "refund")), st.integers(1, 20)),
    max_size=80,
)


@given(steps, st.sampled_from((0.1, 0.25, 1.0)), st.integers(0, 3))
def test_a_share_is_never_overspent_under_any_interleaving(
    script: list[tuple[int, str, int]], ratio: float, floor: int
) -> None:
    """Against a list of everything that happened, in whole seconds."""
    budget, now, total = share(ratio, 60, floor), 0, 0
    requests: list[int] = []
    retries: list[int] = []
    for passed, what, n in script:
        now += passed
        requests = [at for at in requests if at > now - 60]
        allowed = max(floor, ratio * len(requests))
        if what == "requests":
            total += n
            requests += [now] * n
            budget.requests(float(now), total)
        elif what == "withdraw":
            recent = [at for at in retries if at > now - 60]
            given_ = budget.withdraw(float(now))
            assert not given_ or len(recent) + 1 <= allowed + LITTLE
            retries += [now] * given_
        elif retries:
            budget.refund(float(now), decided=float(retries.pop(n % len(retries))))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_a_share_without_refunds_gives_exactly_what_it_owes(gaps: list[int]) -> None:
    budget, now = share(0.5, 60, 1), 0
    requests: list[int] = []
    retries: list[int] = []
    for total, gap in enumerate(gaps, 1):
        now += gap
        requests = [at for at in (*requests, now) if at > now - 60]
        retries = [at for at in retries if at > now - 60]
        budget.requests(float(now), total)
        given_ = budget.withdraw(float(now))
        assert given_ is (len(retries) + 1 <= max(1, 0.5 * len(requests)))
        retries += [now] * given_

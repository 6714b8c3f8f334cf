"""``Retry.delays()``: how many, within which bounds, repeatable, one draw per call for coherent jitter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.testing import Script, VirtualClock
from tests.core import draws
from tests.harness import COLOURS, play


@given(st.integers(1, 200), draws.every)
def test_a_call_has_one_delay_less_than_attempts(attempts: int, backoff: perdure.Backoff) -> None:
    assert len(perdure.Retry(attempts=attempts, backoff=backoff).delays()) == attempts - 1


@given(st.integers(0, 50), st.integers(1, 5))
def test_as_many_delays_as_asked_for(n: int, attempts: int) -> None:
    assert len(perdure.Retry(attempts=attempts).delays(n)) == n


def test_an_unbounded_policy_shows_ten() -> None:
    assert len(perdure.Retry(attempts=None).delays()) == 10


@given(draws.every, st.integers(0, 1000))
def test_a_seed_repeats_the_draw(backoff: perdure.Backoff, seed: int) -> None:
    policy = perdure.Retry(backoff=backoff, attempts=6)
    assert policy.delays(seed=seed) == policy.delays(seed=seed)


def test_without_a_seed_every_draw_is_another_one() -> None:
    assert len({perdure.Retry().delays() for _ in range(20)}) == 20


@given(draws.every, st.integers(0, 1000))
def test_the_delays_lie_between_zero_and_the_cap(backoff: perdure.Backoff, seed: int) -> None:
    assert all(
        0 <= delay <= backoff.cap for delay in perdure.Retry(backoff=backoff, attempts=20).delays(seed=seed)
    )


@given(st.integers(0, 1000))
def test_each_decorrelated_delay_is_drawn_from_the_one_before(seed: int) -> None:
    delays = perdure.Retry(backoff=perdure.Decorrelated(1, cap=1000), attempts=10).delays(seed=seed)
    for before, after in zip((1.0, *delays), delays, strict=False):
        assert 1 <= after <= min(1000, 3 * before)


@given(st.integers(0, 1000))
def test_coherent_delays_share_one_draw_in_a_call(seed: int) -> None:
    backoff = perdure.Exponential(1, 2, 1000, "coherent")
    shares = [
        delay / 2**n for n, delay in enumerate(perdure.Retry(backoff=backoff, attempts=8).delays(seed=seed))
    ]
    assert max(shares) / min(shares) <= 1.1 / 0.9


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("seed", range(5))
def test_a_real_call_makes_one_coherent_draw_too(colour: str, seed: int) -> None:
    policy = perdure.Retry(backoff=perdure.Exponential(1, 2, 1000, "coherent"), attempts=6, deadline=None)
    played = play(colour, policy, *[ConnectionError()] * 5, "ok", seed=seed)
    shares = [wait / 2**n for n, wait in enumerate(played.waits)]
    assert len(shares) == 5
    assert min(shares) >= 0.45
    assert max(shares) / min(shares) <= 1.1 / 0.9


def test_calls_differ_in_their_coherent_draw() -> None:
    policy = perdure.Retry(backoff=perdure.Exponential(1, 2, 1000, "coherent"), attempts=2)
    with VirtualClock(seed=1) as clock:
        for _ in range(200):
            policy.call(Script(ConnectionError(), "ok"))
    assert min(clock.waits) < 0.6
    assert max(clock.waits) > 0.9


@pytest.mark.parametrize("n", [-1, 1.5, "3", True])
def test_a_number_of_delays_that_cannot_be_is_refused(n: object) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^n must be a whole number >= 0, got "):
        perdure.Retry().delays(n)  # type: ignore[arg-type]

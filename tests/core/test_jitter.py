"""The random part of delays: ranges, shape, and that the range is cut at the cap, not the draw."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given

import perdure
from tests.core import draws

if TYPE_CHECKING:
    from perdure import Backoff

STEPS = 1000
GRID = [step / STEPS for step in range(STEPS)]  # every random share once: a draw of a thousand without chance


def drawn(backoff: Backoff, n: int, *, previous: float | None = None, u: float | None = None) -> list[float]:
    """The delays for an even grid of random shares, lowest share first."""
    return [backoff.delay(n, previous, lambda share=share: share, u=u) for share in GRID]


def assert_uniform(delays: list[float], low: float, high: float) -> None:
    """Even shares come out evenly spread over [low, high)."""
    assert delays[0] == pytest.approx(low)
    step = (high - low) / STEPS
    assert all(after - before == pytest.approx(step, abs=1e-9) for before, after in pairwise(delays))


def jittered(jitter: Any, *, base: float = 1, cap: float = 100) -> Backoff:
    return perdure.Exponential(base, 2, cap, jitter)


@pytest.mark.parametrize(("n", "raw"), [(1, 1), (4, 8), (7, 64), (8, 100), (10**9, 100)])
@pytest.mark.parametrize(
    ("jitter", "low", "high"),
    [("full", 0, 1), ("equal", 0.5, 1), (0.25, 0.75, 1.25), (1.0, 0, 2), (1e-3, 0.999, 1.001)],
)
def test_draws_are_uniform_in_the_range_of_the_jitter(
    jitter: Any, low: float, high: float, n: int, raw: float
) -> None:
    assert_uniform(drawn(jittered(jitter), n), raw * low, min(100, raw * high))


@pytest.mark.parametrize("n", [1, 4, 8])
def test_without_jitter_nothing_is_drawn(n: int) -> None:
    assert jittered("none").delay(n, None, draws.never_drawn) == min(100, 2 ** (n - 1))


@pytest.mark.parametrize("jitter", ["full", "equal", "coherent", 0.5, 1.0])
@pytest.mark.parametrize("n", [7, 8, 30, 10**9])
def test_delays_do_not_pile_up_at_the_cap(jitter: Any, n: int) -> None:
    delays = drawn(jittered(jitter), n, u=0.97)
    assert max(Counter(delays).values()) == 1, (
        "cutting the draw instead of the range gives one value many times"
    )
    assert max(delays) <= 100


def test_decorrelated_delays_do_not_pile_up_at_the_cap_either() -> None:
    delays = drawn(perdure.Decorrelated(1, cap=10), 9, previous=9.0)
    assert_uniform(delays, 1, 10)
    assert max(Counter(delays).values()) == 1


@pytest.mark.parametrize(
    ("previous", "high"), [(None, 0.3), (0.0, 0.3), (0.1, 0.3), (0.2, 0.6), (1.0, 3.0), (4.0, 5.0)]
)
def test_decorrelated_draws_between_base_and_three_times_the_previous_delay(
    previous: float | None, high: float
) -> None:
    assert_uniform(drawn(perdure.Decorrelated(base=0.1, cap=5), 3, previous=previous), 0.1, high)


def test_decorrelated_below_its_own_base_gives_the_base() -> None:
    backoff = perdure.Decorrelated(base=1, cap=5)
    assert drawn(backoff, 2, previous=0.01) == [1.0] * STEPS


@pytest.mark.parametrize("u", [0, 0.5, 0.999])
@pytest.mark.parametrize("n", [1, 4, 8])
def test_coherent_delays_of_a_call_stay_within_a_tenth_of_its_share(n: int, u: float) -> None:
    middle = min(100, 2 ** (n - 1)) * (0.5 + 0.5 * u)
    assert_uniform(drawn(jittered("coherent"), n, u=u), middle * 0.9, min(100, middle * 1.1))


def test_coherent_spreads_calls_over_half_of_the_raw_delay() -> None:
    backoff = jittered("coherent")
    middles = [backoff.delay(4, None, lambda: 0.5, u=u) for u in GRID]
    assert_uniform(middles, 4, 8)


def test_coherent_without_the_draw_of_a_call_draws_its_own() -> None:
    shares = iter((0.5, 0.5))
    assert jittered("coherent").delay(4, None, lambda: next(shares)) == pytest.approx(6)


@given(draws.shares, draws.shares)
def test_two_calls_keep_their_order_over_all_retries(one: float, other: float) -> None:
    """Phases differ and stay different: that is what coherent jitter is for."""
    assume(abs(one - other) > 0.5)
    early, late = sorted((one, other))
    for n, share in product((1, 3, 6), (0.0, 0.5, 0.999)):
        first, second = (jittered("coherent").delay(n, None, lambda s=share: s, u=u) for u in (early, late))
        assert first < second


@pytest.mark.parametrize("jitter", ["full", "equal", 0.5])
def test_a_real_generator_fills_every_tenth_of_the_range(jitter: Any) -> None:
    rng = Random(20)
    low, high = jittered(jitter).typical(4)
    delays = [jittered(jitter).delay(4, None, rng) for _ in range(2000)]
    tenths = Counter(int((delay - low) / (high - low) * 10) for delay in delays)
    assert sorted(tenths) == list(range(10))
    assert all(140 < count < 260 for count in tenths.values())  # 200 each; 260 is 4.5 standard deviations off


def test_a_callable_gets_the_raw_delay_and_a_random_function() -> None:
    asked: list[float] = []

    def jitter(raw: float, rng: Any) -> float:
        asked.append(raw)
        return raw * rng() / 10

    assert jittered(jitter).delay(4, None, lambda: 0.5) == pytest.approx(0.4)
    assert asked == [8]


@pytest.mark.parametrize(
    ("returned", "delay"), [(-1, 0), (-1e200, 0), (0, 0), (50, 50), (100.5, 100), (1e200, 100)]
)
def test_what_a_callable_returns_is_cut_to_zero_and_the_cap(returned: float, delay: float) -> None:
    assert jittered(lambda _raw, _rng: returned).delay(4, None, lambda: 0.5) == delay


def failing(_raw: float, _rng: Any) -> float:
    raise LookupError("no jitter today")


@pytest.mark.parametrize(
    "jitter",
    [
        failing,
        *((lambda *_, value=value: value) for value in (math.nan, math.inf, -math.inf, None, "1", 10**400)),
    ],
    ids=["raises", "nan", "inf", "-inf", "None", "text", "huge"],
)
@pytest.mark.parametrize(
    "make", [jittered, lambda jitter: perdure.Constant(8, jitter=jitter)], ids=["capped", "uncapped"]
)
def test_a_callable_that_gives_no_number_leaves_the_raw_delay(
    jitter: Any, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What a user's function does wrong never reaches the call that is retried."""
    assert [make(jitter).delay(4, None, lambda: 0.5) for _ in range(3)] == [8, 8, 8]
    assert len([one for one in caplog.records if "jitter" in one.getMessage()]) == 1


def test_nothing_is_promised_of_a_callable_but_zero_and_the_cap() -> None:
    """It may do anything, so it is not asked in advance."""
    asked: list[float] = []

    def jitter(raw: float, _rng: Any) -> float:
        asked.append(raw)
        return raw

    assert jittered(jitter).typical(4) == (0, 100)
    assert perdure.Constant(8, jitter=jitter).typical(4) == (0, 8)
    assert not asked

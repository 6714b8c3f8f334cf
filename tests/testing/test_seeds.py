"""The virtual clock's seed: runs repeat, in every colour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Retry
from perdure.testing import Script, VirtualClock, record_events, took
from tests.harness import COLOURS, play

POLICY = Retry(attempts=5, backoff=perdure.Exponential(1, 2, 60), deadline=None)


def history(colour: str, seed: int) -> list[tuple[object, ...]]:
    played = play(colour, POLICY, *[took(0.5, ConnectionError()) for _ in range(4)], "ok", seed=seed)
    return [(event.name, event.attempt, event.delay, event.at) for event in played.events]


@pytest.mark.parametrize("colour", COLOURS)
@given(seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_run(colour: str, seed: int) -> None:
    assert history(colour, seed) == history(colour, seed)


@pytest.mark.parametrize("colour", COLOURS)
def test_another_seed_gives_another_run(colour: str) -> None:
    assert len({tuple(history(colour, seed)) for seed in range(20)}) == 20


def test_the_colours_draw_the_same_delays() -> None:
    delays = [
        [delay for name, _, delay, _ in history(colour, 3) if name == "retry.scheduled"] for colour in COLOURS
    ]
    assert delays == [delays[0]] * len(COLOURS)


def test_without_a_seed_it_is_zero() -> None:
    with VirtualClock(), record_events() as unseeded:
        POLICY.call(Script(ConnectionError(), "ok"))
    with VirtualClock(seed=0), record_events() as seeded:
        POLICY.call(Script(ConnectionError(), "ok"))
    assert [event.delay for event in unseeded] == [event.delay for event in seeded]


@pytest.mark.parametrize("colour", COLOURS)
def test_an_error_object_of_an_earlier_clock_is_a_new_failure(colour: str) -> None:
    """Mocks raise one object again and again; a mark that a call left on it in another test means nothing."""
    error = ConnectionError("of the module")
    assert [play(colour, POLICY.replace(attempts=3), *[error] * 3).calls for _ in range(3)] == [3, 3, 3]

"""What the properties of backoffs are drawn from: backoffs of every kind, retry numbers, random shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

import perdure

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure import Backoff

FAR = 10**9

retries = st.one_of(st.integers(1, 60), st.integers(1, FAR), st.sampled_from((1023, 1024, 1025, 10**6, FAR)))
shares = st.floats(0, 1, exclude_max=True)
jitters = st.one_of(
    st.sampled_from(("full", "equal", "coherent", "none")),
    st.floats(0, 1, exclude_min=True, allow_subnormal=False),
)
amounts = st.one_of(st.just(0.0), st.floats(1e-9, 1e9), st.integers(0, 10**6))


@st.composite
def exponentials(
    draw: Callable[..., float], jitter: st.SearchStrategy[object] = jitters
) -> perdure.Exponential:
    base, cap = sorted((draw(amounts), draw(amounts)))
    factor = draw(st.one_of(st.floats(1, 100), st.integers(1, 10), st.just(1e300)))
    return perdure.Exponential(base, factor, cap, draw(jitter))


@st.composite
def linears(draw: Callable[..., float], jitter: st.SearchStrategy[object] = jitters) -> perdure.Linear:
    step, cap = sorted((draw(amounts), draw(amounts)))
    return perdure.Linear(step, cap, draw(jitter))


@st.composite
def incrementals(
    draw: Callable[..., float], jitter: st.SearchStrategy[object] = jitters
) -> perdure.Incremental:
    first, cap = sorted((draw(amounts), draw(amounts)))
    return perdure.Incremental(first, draw(amounts), cap, draw(jitter))


@st.composite
def fibonaccis(draw: Callable[..., float], jitter: st.SearchStrategy[object] = jitters) -> perdure.Fibonacci:
    unit, cap = sorted((draw(amounts), draw(amounts)))
    return perdure.Fibonacci(unit, cap, draw(jitter))


@st.composite
def decorrelateds(draw: Callable[..., float]) -> perdure.Decorrelated:
    base, cap = sorted((draw(amounts), draw(amounts)))
    return perdure.Decorrelated(base, cap)


constants = st.builds(perdure.Constant, amounts, jitters)
schedules = st.builds(perdure.Schedule, st.lists(amounts, min_size=1, max_size=8), jitters)


def growing(jitter: st.SearchStrategy[object] = jitters) -> st.SearchStrategy[Backoff]:
    """Backoffs whose raw delays never fall."""
    return st.one_of(exponentials(jitter), linears(jitter), incrementals(jitter), fibonaccis(jitter))


plain = st.one_of(growing(), constants, schedules, decorrelateds())
every = st.one_of(plain, plain.map(lambda backoff: backoff.after_immediate()))
"""Backoffs of every kind and jitter, also behind an immediate first retry."""


def never_drawn() -> float:
    raise AssertionError("nothing random was to be drawn")

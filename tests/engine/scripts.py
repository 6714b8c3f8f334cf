"""Random scripts and random policies, for whatever holds for all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import perdure
from perdure import FaultKind, Retry, Safety
from tests.engine.model import Failure, Leave, Step

# Eighths of a second are exact as floats and as milliseconds; timeouts lie between the durations of attempts.
eighths = st.integers(0, 32).map(lambda n: n / 8)
shares = st.sampled_from((0.0, 0.25, 0.5, 0.75))
hints = st.sampled_from((None, None, 0.0, 0.25, 2.0, 20.0, 400.0))
bugs = st.sampled_from((TypeError, ValueError, AssertionError)).map(lambda kind: kind("a bug"))
failures = st.builds(Failure, st.sampled_from(FaultKind), hints)
often_retried = st.builds(
    Failure, st.sampled_from((FaultKind.TRANSIENT, FaultKind.AMBIGUOUS, FaultKind.THROTTLED)), hints
)
outcomes = st.one_of(
    often_retried, often_retried, failures, st.just("bad"), bugs, st.builds(Leave), st.just("ok")
)
scripts = st.lists(st.builds(Step, outcomes, eighths), max_size=9).map(lambda steps: [*steps, Step("ok")])
selections = st.one_of(
    st.none(),
    st.lists(
        st.sampled_from((*FaultKind, Failure, ValueError, perdure.AttemptTimeout)), min_size=1, max_size=3
    ).map(tuple),
)
backoffs = st.one_of(
    st.just(perdure.Retry().backoff),
    st.builds(perdure.Constant, eighths),
    st.builds(
        perdure.Exponential,
        st.just(0.25),
        st.just(2),
        st.just(4.0),
        st.sampled_from(("none", "full", "equal", "coherent")),
    ),
    st.builds(perdure.Schedule, st.lists(eighths, min_size=1, max_size=3)),
    st.builds(perdure.Decorrelated, st.just(0.25), st.just(4.0)),
    st.builds(perdure.Linear, st.just(0.5)).map(lambda backoff: backoff.after_immediate()),
)


def refresh() -> None:
    """What a policy refreshes; the events tell when."""


@st.composite
def policies(draw: Any, *, timed: bool = True) -> Retry:
    deadline = draw(st.one_of(st.none(), eighths, eighths.map(lambda n: n * 8))) if timed else None
    bounded = draw(st.booleans()) or deadline is None
    return Retry(
        attempts=draw(st.integers(1, 6)) if bounded else None,
        backoff=draw(backoffs),
        on=draw(selections),
        never=draw(selections),
        reject=draw(st.sampled_from((None, lambda value: value == "bad"))),
        deadline=deadline,
        attempt_timeout=draw(st.sampled_from((None, None, 0.0625, 1.0625))) if timed else None,
        shrink=draw(st.sampled_from((1.0, 0.5))),
        safety=draw(st.sampled_from((None, *Safety))),
        refresh=draw(st.sampled_from((None, refresh))),
        hint_cap=draw(st.sampled_from((300, 1, 0))),
    )

"""Random scripts under random policies: every driver does what thirty lines of model say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import FaultKind, Retry, Safety, attempts_of, clock, faults
from perdure.testing import Script, no_waits, took
from tests.engine.model import Failure, Leave, Predicted, Step, fault_of, predict
from tests.harness import ASYNC_COLOURS, COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Even:
    """Stands for Random: the share is always the seed."""

    def __init__(self, seed: float) -> None:
        self.seed = seed

    def random(self) -> float:
        return self.seed


@pytest.fixture(autouse=True)
def own_kinds() -> Iterator[None]:
    remove = faults.register(Failure, fault_of)
    yield
    remove()


def model(colour: str, policy: Retry, steps: list[Step], share: float) -> Predicted:
    return predict(
        policy, steps, share, interrupts=colour in ASYNC_COLOURS, ticks=colour.startswith("asyncio")
    )


@pytest.mark.parametrize("colour", COLOURS)
@given(policy=policies(), steps=scripts, share=shares)
def test_every_driver_does_what_the_model_says(
    colour: str, policy: Retry, steps: list[Step], share: float
) -> None:
    expected = model(colour, policy, steps, share)
    with patch("perdure.testing.virtual.Random", Even):
        played = play(colour, policy, *[took(step.took, step.outcome) for step in steps], seed=share)  # type: ignore[arg-type]
    began = [event.at - played.events[0].at for event in played.events if event.name == "attempt.start"]
    assert began == pytest.approx(expected.times, abs=1e-5)
    assert played.waits == pytest.approx(expected.waits)
    assert played.elapsed == pytest.approx(expected.elapsed)
    assert played.calls == len(expected.times)
    assert played.names[-1] == "call.end"
    assert played.events[-1].reason == expected.stop
    assert_result(played.value, played.error, expected)


def assert_result(value: object, error: BaseException | None, expected: Predicted) -> None:
    if isinstance(expected.result, BaseException):
        assert error is expected.result, "the function's own last error comes out, the same object"
    elif expected.result is perdure.AttemptTimeout:
        assert type(error) is perdure.AttemptTimeout
    elif expected.stop == "success":
        assert (value, error) == (expected.result, None)
    else:
        assert isinstance(error, perdure.ResultRejected)
        assert error.result == expected.result


@pytest.mark.parametrize("colour", ["fused", "fused async", "call", "async call"])
@given(policy=policies(timed=False), steps=scripts, share=shares)
def test_the_fused_path_does_what_the_model_says(
    colour: str, policy: Retry, steps: list[Step], share: float
) -> None:
    expected = predict(policy, [Step(step.outcome) for step in steps], share, interrupts=False, ticks=False)
    script = Script(*[step.outcome for step in steps])
    value: object = None
    error: BaseException | None = None
    with patch.object(clock, "random", lambda: share), no_waits() as waits:
        try:
            value = run_unobserved(colour, policy, script)
        except BaseException as caught:  # noqa: BLE001 - looked at below
            error = caught
    assert len(script.calls) == len(expected.times)
    assert waits == pytest.approx(expected.waits)
    assert_result(value, error, expected)
    if error is not None and not isinstance(error, Leave):
        delays = [record.delay for record in attempts_of(error)]
        assert delays == [*(pytest.approx(wait) for wait in expected.waits), None]


def run_unobserved(colour: str, policy: Retry, script: Script) -> object:
    """Without a listener or a virtual clock, so that decorated functions take the fused path."""
    if colour == "fused":
        return policy(script)()
    if colour == "fused async":
        return asyncio.run(policy(script.asynchronous)())
    if colour == "call":
        return policy.call(script)
    return asyncio.run(policy.call(script.asynchronous))

"""Random scripts under random policies: every driver does what thirty lines of model say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given

import perdure
from perdure import Retry, attempts_of, clock, faults
from perdure.testing import Script, no_waits, took
from tests.engine.model import Failure, Leave, Predicted, Step, fault_of, predict
from tests.engine.scripts import policies, scripts, shares
from tests.harness import ASYNC_COLOURS, COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    tick = 0.002  # asyncio rounds up to the millisecond, on which side of one a float may fall differently
    assert began == pytest.approx(expected.times, abs=tick)
    assert played.waits == pytest.approx(expected.waits)
    assert played.elapsed == pytest.approx(expected.elapsed, abs=tick)
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

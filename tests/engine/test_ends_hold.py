"""Random calls under random ends: nothing begins too late, nothing runs too long, nothing else changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Retry, faults
from perdure.testing import Script, VirtualClock, took
from tests.engine.model import Failure, fault_of, predict
from tests.engine.scripts import policies, scripts, shares
from tests.engine.tasks import LOOPS
from tests.engine.test_model import Even, assert_result
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.model import Step

# Between the eighths of the scripts, so that no attempt ends, and no wait, at the very moment of the end.
ends = st.integers(0, 100).map(lambda n: n / 8 + 0.03125)
TICK = 0.001


@pytest.fixture(autouse=True)
def own_kinds() -> Iterator[None]:
    remove = faults.register(Failure, fault_of)
    yield
    remove()


def run(place: str, policy: Retry, script: Script, end: float) -> Any:
    """Call under an end that this task or thread sets, or one that is set around the loop."""
    if place == "sync":
        with perdure.deadline(end):
            return policy.call(script)
    if place.startswith("around "):
        with perdure.deadline(end):
            return run_async(place.removeprefix("around "), lambda: policy.call(script.asynchronous))

    async def main() -> object:
        with perdure.deadline(end):
            return await policy.call(script.asynchronous)

    return run_async(place, main)


@pytest.mark.parametrize("place", ["sync", *LOOPS, *(f"around {loop}" for loop in LOOPS)])
@given(policy=policies(), steps=scripts, share=shares, end=ends)
def test_an_end_holds_and_changes_nothing_else(
    place: str, policy: Retry, steps: list[Step], share: float, end: float
) -> None:
    interrupts, ticks = place != "sync", place.endswith("asyncio")
    free = predict(policy, steps, share, interrupts=interrupts, ticks=ticks)
    script = Script(*[took(step.took, step.outcome) for step in steps])
    value: object = None
    error: BaseException | None = None
    with patch("perdure.testing.virtual.Random", Even), VirtualClock(seed=share) as clock:  # type: ignore[arg-type]
        began = perdure.clock.monotonic()
        try:
            value = run(place, policy, script, end)
        except BaseException as caught:  # noqa: BLE001 - looked at below
            error = caught
        elapsed = clock.now
    times = [moment - began for moment in script.times]
    assert times == pytest.approx(free.times[: len(times)], abs=1e-5), "as without an end, as far as it goes"
    assert all(moment < end for moment in times), "no attempt begins after the end"
    assert not interrupts or elapsed <= end + TICK, "async work is cut"
    if free.elapsed < end - TICK:
        assert elapsed == pytest.approx(free.elapsed)
        assert_result(value, error, free)
    elif isinstance(error, perdure.DeadlineExceeded):
        assert interrupts
        assert elapsed == pytest.approx(end)
    elif interrupts:
        assert error is not None, "a result that came after the end is not returned"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("own", "until"), [(None, 10.0), (8.0, 8.0)])
def test_an_attempt_that_outlives_the_block_around_its_task_has_its_own_bound_back(
    loop: str, own: float | None, until: float
) -> None:
    """It began inside the block, so the block's end bounded it; that end is gone when the block is left."""
    ended: list[object] = []

    async def child() -> None:
        try:
            ended.append(await Retry(attempts=1, attempt_timeout=own)(clock.asleep)(10))
        except perdure.AttemptTimeout as error:
            ended.append(type(error))
        ended.append(clock.now)

    async def in_asyncio() -> None:
        with perdure.deadline(5):
            task = asyncio.ensure_future(child())
            await clock.asleep(1)
        await task

    async def in_trio() -> None:
        async with trio.open_nursery() as nursery:
            with perdure.deadline(5):
                nursery.start_soon(child)
                await clock.asleep(1)

    with VirtualClock() as clock:
        run_async(loop, in_asyncio if loop == "asyncio" else in_trio)
    assert ended == [None if own is None else perdure.AttemptTimeout, until]

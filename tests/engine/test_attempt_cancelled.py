"""Attempt timeouts and cancellation from outside: each takes back only its own."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure import AttemptTimeout, Retry
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS, cancelled_after
from tests.harness import run_async

POLICY = Retry(attempts=3, backoff=perdure.Constant(1), attempt_timeout=2)
HANGS = took(1000, "late")


@pytest.mark.parametrize("loop", LOOPS)
def test_cancellation_from_outside_is_no_timeout(loop: str, clock: VirtualClock) -> None:
    script = Script(HANGS)
    run_async(loop, lambda: cancelled_after(loop, clock, 1, POLICY(script.asynchronous)))
    assert (clock.now, len(script.calls)) == (1, 1)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_clean_up_raises_comes_out(loop: str, clock: VirtualClock) -> None:
    async def work() -> None:
        try:
            await clock.asleep(100)
        finally:
            raise KeyError("from the clean-up")

    with pytest.raises(KeyError, match="from the clean-up"):
        run_async(loop, POLICY(work))
    assert clock.now == 2


def test_a_value_returned_in_spite_of_the_interruption_counts(clock: VirtualClock) -> None:
    async def work() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "partial"
        return "whole"

    async def main() -> tuple[str, int]:
        value = await POLICY.call(work)
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return value, task.cancelling()

    assert asyncio.run(main()) == ("partial", 0)
    assert clock.now == 2


def test_the_cancel_count_is_whole_after_many_timeouts(clock: VirtualClock) -> None:
    async def main() -> int:
        for _ in range(3):
            with pytest.raises(AttemptTimeout):
                await POLICY.call(Script(*[HANGS] * 3).asynchronous)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(main()) == 0
    assert clock.now == 24


def test_a_cancellation_at_the_very_moment_of_the_timeout_wins(clock: VirtualClock) -> None:
    script = Script(HANGS)

    async def main() -> None:
        task = asyncio.ensure_future(POLICY.call(script.asynchronous))
        asyncio.get_running_loop().call_at(2.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (clock.now, len(script.calls)) == (2, 1)


def test_the_librarys_own_timeout_works_inside_and_outside(clock: VirtualClock) -> None:
    async def inside() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(100)

    async def main() -> None:
        with pytest.raises(TimeoutError) as caught:
            await POLICY.replace(attempts=1).call(inside)
        assert type(caught.value) is TimeoutError
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(1):
                await POLICY.call(Script(HANGS).asynchronous)
        assert type(caught.value) is TimeoutError

    asyncio.run(main())
    assert clock.now == 2

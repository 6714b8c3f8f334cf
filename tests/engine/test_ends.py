"""``perdure.deadline`` around async code: exact, nesting, shared by tasks, and whole with cancellation."""

from __future__ import annotations

import asyncio

import pytest
import trio

import perdure
from perdure import Retry, time_left
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS, cancelled_after, forever, together
from tests.harness import run_async

pytestmark = pytest.mark.usefixtures("nothing_left_behind")
POLICY = Retry(backoff=perdure.Constant(1))


@pytest.mark.parametrize("loop", LOOPS)
class TestAsync:
    @pytest.mark.parametrize("length", [0, 0.25, 1.0001, 3600, 1e6])
    def test_work_is_interrupted_exactly(self, loop: str, clock: VirtualClock, length: float) -> None:
        async def main() -> None:
            with perdure.deadline(length):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded, match=r"^the deadline of .* was exceeded$"):
            run_async(loop, main)
        assert clock.now == pytest.approx(length, abs=1e-9)

    def test_it_works_in_real_time(self, loop: str) -> None:
        async def main() -> None:
            async with perdure.deadline(0):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)

    def test_work_that_ends_in_time_is_left_alone(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> str:
            async with perdure.deadline(2):
                await clock.asleep(1)
            await clock.asleep(5)
            return "done"

        assert run_async(loop, main) == "done"
        assert clock.now == 6

    @pytest.mark.parametrize(("outer", "inner", "now"), [(1, 2, 1), (1, 1, 1), (2, 1, 1)])
    def test_the_nearest_of_two_ends_interrupts(
        self, loop: str, clock: VirtualClock, outer: float, inner: float, now: float
    ) -> None:
        ended: list[str] = []

        async def main() -> None:
            try:
                with perdure.deadline(outer):
                    try:
                        with perdure.deadline(inner):
                            await forever(loop)
                    except perdure.DeadlineExceeded:
                        ended.append("inner")
                        raise
            except perdure.DeadlineExceeded:
                ended.append("outer")

        run_async(loop, main)
        assert ended == (["inner", "outer"] if inner < outer else ["outer"]), (
            "of two equal ends the outer one"
        )
        assert clock.now == now

    def test_the_cause_is_the_last_failure_of_the_call_that_was_cut(
        self, loop: str, clock: VirtualClock
    ) -> None:
        last = ConnectionError("last")
        script = Script(ConnectionError("first"), last, took(100, "late"))

        async def main() -> None:
            with perdure.deadline(5):
                await POLICY.call(script.asynchronous)

        with pytest.raises(perdure.DeadlineExceeded) as caught:
            run_async(loop, main)
        assert caught.value.__cause__ is last
        assert clock.now == 5

    def test_a_wait_that_would_cross_the_end_is_not_begun(self, loop: str, clock: VirtualClock) -> None:
        error = ConnectionError()

        async def main() -> None:
            with perdure.deadline(5):
                await Retry(backoff=perdure.Constant(7)).call(Script(error).asynchronous)

        with pytest.raises(ConnectionError) as caught:
            run_async(loop, main)
        assert caught.value is error
        assert clock.now == 0

    def test_cancellation_from_outside_passes_through_every_block(
        self, loop: str, clock: VirtualClock
    ) -> None:
        left: list[BaseException] = []

        async def work() -> None:
            try:
                with perdure.deadline(5), perdure.no_deadline():
                    await forever(loop)
            except BaseException as error:
                left.append(error)
                raise

        run_async(loop, lambda: cancelled_after(loop, clock, 1, work))
        assert clock.now == 1
        assert isinstance(left[0], (asyncio.CancelledError, trio.Cancelled))

    def test_the_blocks_own_error_comes_out_even_when_the_end_came(
        self, loop: str, clock: VirtualClock
    ) -> None:
        async def main() -> None:
            with perdure.deadline(1):
                try:
                    await forever(loop)
                finally:
                    raise KeyError("from the clean-up")

        with pytest.raises(KeyError, match="from the clean-up"):
            run_async(loop, main)
        assert clock.now == 1

    def test_a_timeout_error_of_the_body_is_the_bodys(self, loop: str, clock: VirtualClock) -> None:
        own = TimeoutError("mine")

        async def main() -> None:
            with perdure.deadline(60):
                raise own

        with pytest.raises(TimeoutError) as caught:
            run_async(loop, main)
        assert caught.value is own
        assert clock.now == 0

    def test_tasks_in_the_block_share_its_end(self, loop: str, clock: VirtualClock) -> None:
        last = ConnectionError("last")
        ended: list[BaseException] = []

        async def child() -> None:
            script = Script(last, took(100, "late"))
            try:
                assert time_left() == 5
                await POLICY.call(script.asynchronous)
            except BaseException as error:
                ended.append(error)
                raise

        async def main() -> None:
            with perdure.deadline(5):
                await together(loop, child, child)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert clock.now == pytest.approx(5)
        assert len(ended) == 2

    def test_a_task_that_outlives_the_block_has_no_end(self, loop: str, clock: VirtualClock) -> None:
        seen: list[float | None] = []

        async def child() -> None:
            seen.append(time_left())
            await clock.asleep(10)
            seen.append(time_left())
            assert await POLICY.call(Script(ConnectionError(), took(10, "ok")).asynchronous) == "ok"

        async def main() -> None:
            if loop == "trio":
                async with trio.open_nursery() as nursery:
                    with perdure.deadline(5):
                        nursery.start_soon(child)
                        await clock.asleep(1)
                return
            with perdure.deadline(5):
                task = asyncio.ensure_future(child())
                await clock.asleep(1)
            await task

        run_async(loop, main)
        assert seen == [5, None]
        assert clock.now == 21

    def test_an_end_set_before_the_loop_interrupts_guarded_calls_in_it(
        self, loop: str, clock: VirtualClock
    ) -> None:
        last = ConnectionError("last")
        script = Script(last, took(100, "late"))
        with perdure.deadline(5), pytest.raises(perdure.DeadlineExceeded) as caught:
            run_async(loop, lambda: POLICY.call(script.asynchronous))
        assert caught.value.__cause__ is last
        assert clock.now == 5
        assert len(script.calls) == 2, "neutral: no attempt follows"

    def test_many_calls_under_one_far_end_leave_no_timers(self, loop: str, clock: VirtualClock) -> None:
        from perdure.engine import timers

        async def main() -> int:
            for _ in range(50):
                await POLICY.call(Script(took(0.001, "ok")).asynchronous)
            return sum(not loop.is_closed() for loop, _, _ in timers._queues)  # other tests leave closed ones

        with perdure.deadline(3600):
            assert run_async(loop, main) <= 1
        assert clock.now < 1


class TestAsyncio:
    def test_the_cancel_count_of_the_task_is_whole_afterwards(self, clock: VirtualClock) -> None:
        async def main() -> int:
            for _ in range(3):
                with pytest.raises(perdure.DeadlineExceeded), perdure.deadline(1):
                    await asyncio.sleep(10)
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

        assert asyncio.run(main()) == 0
        assert clock.now == 3

    def test_a_cancellation_at_the_very_moment_of_the_end_wins(self, clock: VirtualClock) -> None:
        async def work() -> None:
            with perdure.deadline(1):
                await asyncio.sleep(10)

        async def main() -> None:
            task = asyncio.ensure_future(work())
            asyncio.get_running_loop().call_at(1.0, task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert clock.now == 1

    @pytest.mark.parametrize(
        ("timeout", "deadline", "error"), [(1, 2, TimeoutError), (2, 1, perdure.DeadlineExceeded)]
    )
    def test_it_nests_with_the_librarys_own_timeout(
        self, clock: VirtualClock, timeout: float, deadline: float, error: type[Exception]
    ) -> None:
        async def main() -> None:
            async with asyncio.timeout(timeout):
                with perdure.deadline(deadline):
                    await asyncio.sleep(10)

        with pytest.raises(error) as caught:
            asyncio.run(main())
        assert type(caught.value) is error
        assert clock.now == 1

    def test_a_task_group_in_the_block_gives_the_deadline_not_a_group(self, clock: VirtualClock) -> None:
        async def main() -> None:
            with perdure.deadline(5):
                async with asyncio.TaskGroup() as group:
                    for _ in range(3):
                        group.create_task(
                            POLICY.call(Script(ConnectionError(), took(100, "late")).asynchronous)
                        )

        with pytest.raises(perdure.DeadlineExceeded):
            asyncio.run(main())
        assert clock.now == pytest.approx(5)

    def test_a_gather_in_the_block_gives_the_deadline(self, clock: VirtualClock) -> None:
        async def main() -> None:
            with perdure.deadline(5):
                await asyncio.gather(*(POLICY.call(Script(took(100, "late")).asynchronous) for _ in range(3)))

        with pytest.raises(perdure.DeadlineExceeded):
            asyncio.run(main())
        assert clock.now == pytest.approx(5)

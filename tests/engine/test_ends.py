"""``perdure.deadline``, ``no_deadline`` and ``time_left``: exact on async code, honest on sync code."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Retry, bypass, time_left
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS, cancelled_after, together
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

POLICY = Retry(backoff=perdure.Constant(1))


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock() as virtual:
        yield virtual


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert time_left() is None
    assert bypass.NAMESPACE["_slow"] is False, "calls take the fused path again"


async def forever(loop: str) -> None:
    if loop == "trio":
        await trio.sleep_forever()
    await asyncio.Event().wait()


# -- time_left -----------------------------------------------------------------------------------------


def test_without_an_end_there_is_the_default() -> None:
    assert time_left() is None
    assert time_left(5.0) == 5.0
    assert time_left("none") == "none"


def test_time_left_runs_down_to_zero_and_not_below(clock: VirtualClock) -> None:
    with perdure.deadline(5):
        assert time_left() == time_left(99) == 5
        clock.advance(3)
        assert time_left() == 2
        clock.advance(3)
        assert time_left() == 0


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ((5,), 5),
        ((5, 9), 5),
        ((9, 5), 5),
        ((9, 5, 7), 5),
        ((9, None), None),
        ((9, None, 4), 4),
        ((2, None, 7), 7),
    ],
)
def test_the_nearest_of_nested_ends_holds_and_none_lifts_those_around(
    clock: VirtualClock, lengths: tuple[float | None, ...], left: float | None
) -> None:
    def nest(rest: tuple[float | None, ...]) -> float | None:
        if not rest:
            return time_left()
        with perdure.no_deadline() if rest[0] is None else perdure.deadline(rest[0]):
            return nest(rest[1:])

    assert nest(lengths) == left
    assert clock.now == 0


def test_an_end_is_over_when_its_block_is_left_in_whatever_way() -> None:
    with pytest.raises(KeyError), perdure.deadline(5):
        raise KeyError
    assert time_left() is None


def test_retrys_own_deadline_is_no_end() -> None:
    assert Retry(deadline=5).call(time_left) is None


# -- sync code -----------------------------------------------------------------------------------------


class TestSync:
    def test_nothing_interrupts_it(self, clock: VirtualClock) -> None:
        with perdure.deadline(1):
            clock.sleep(5)
        assert clock.now == 5

    def test_no_wait_crosses_the_end(self, clock: VirtualClock) -> None:
        script = Script(took(0.5, ConnectionError()), "ok")
        with perdure.deadline(1.25), pytest.raises(ConnectionError):
            POLICY.call(script)
        assert clock.now == 0.5
        assert len(script.calls) == 1

    def test_no_attempt_begins_at_the_end(self, clock: VirtualClock) -> None:
        with perdure.deadline(1), pytest.raises(ConnectionError):
            POLICY.call(Script(ConnectionError(), "ok"))
        assert clock.now == 0

    def test_an_attempt_that_began_in_time_is_not_cut(self, clock: VirtualClock) -> None:
        with perdure.deadline(1.5):
            assert POLICY.call(Script(ConnectionError(), took(9, "ok"))) == "ok"
        assert clock.now == 10

    @pytest.mark.parametrize("length", [0, 1])
    @pytest.mark.parametrize("form", ["decorated", "call", "block"])
    def test_a_call_after_the_end_is_refused(self, clock: VirtualClock, length: float, form: str) -> None:
        script = Script("ok")
        with (
            perdure.deadline(length),
            pytest.raises(perdure.DeadlineExceeded, match="had passed before the call"),
        ):
            clock.advance(1)
            if form == "decorated":
                POLICY(script)()
            elif form == "call":
                POLICY.call(script)
            else:
                for attempt in POLICY:
                    with attempt:
                        script()
        assert not script.calls

    def test_no_deadline_admits_calls_again(self, clock: VirtualClock) -> None:
        with perdure.deadline(1):
            clock.advance(2)
            with perdure.no_deadline():
                assert POLICY.call(Script(ConnectionError(), "ok")) == "ok"

    def test_a_hint_past_the_end_ends_the_call_now(self, clock: VirtualClock) -> None:
        with perdure.deadline(10), pytest.raises(ValueError, match="busy"):
            POLICY.call(Script(perdure.transient(ValueError("busy"), after=60)))
        assert clock.now == 0

    def test_an_attempt_timeout_of_an_outer_call_bounds_the_calls_inside(self, clock: VirtualClock) -> None:
        calls: list[float] = []

        def inner() -> None:
            calls.append(clock.now)
            raise ConnectionError

        def outer() -> None:
            clock.sleep(1)
            POLICY.call(inner)

        with pytest.raises(ConnectionError):
            Retry(attempts=1, attempt_timeout=2.5).call(outer)
        assert calls == [1, 2]


# -- async code ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestAsync:
    def run(self, loop: str, main: Callable[[], Awaitable[Any]]) -> Any:
        return run_async(loop, main)  # type: ignore[arg-type]

    @pytest.mark.parametrize("length", [0, 0.25, 1.0001, 3600, 1e6])
    def test_work_is_interrupted_exactly(self, loop: str, clock: VirtualClock, length: float) -> None:
        async def main() -> None:
            with perdure.deadline(length):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded, match=r"^the deadline of .* was exceeded$"):
            self.run(loop, main)
        assert clock.now == pytest.approx(length, abs=1e-9)

    def test_it_works_in_real_time(self, loop: str) -> None:
        async def main() -> None:
            async with perdure.deadline(0):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded):
            self.run(loop, main)

    def test_work_that_ends_in_time_is_left_alone(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> str:
            async with perdure.deadline(2):
                await clock.asleep(1)
            await clock.asleep(5)
            return "done"

        assert self.run(loop, main) == "done"
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

        self.run(loop, main)
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
            self.run(loop, main)
        assert caught.value.__cause__ is last
        assert clock.now == 5

    def test_a_wait_that_would_cross_the_end_is_not_begun(self, loop: str, clock: VirtualClock) -> None:
        error = ConnectionError()

        async def main() -> None:
            with perdure.deadline(5):
                await Retry(backoff=perdure.Constant(7)).call(Script(error).asynchronous)

        with pytest.raises(ConnectionError) as caught:
            self.run(loop, main)
        assert caught.value is error
        assert clock.now == 0

    def test_no_deadline_keeps_every_end_around_from_interrupting(
        self, loop: str, clock: VirtualClock
    ) -> None:
        cleaned: list[float] = []

        async def main() -> None:
            with perdure.deadline(1), perdure.deadline(2):
                async with perdure.no_deadline():
                    assert time_left() is None
                    await clock.asleep(5)
                    cleaned.append(clock.now)
                await clock.asleep(5)

        with pytest.raises(perdure.DeadlineExceeded):
            self.run(loop, main)
        assert cleaned == [5]
        assert clock.now == 5, "an end that passed meanwhile interrupts at once"

    def test_an_end_that_has_not_come_yet_holds_again_after_no_deadline(
        self, loop: str, clock: VirtualClock
    ) -> None:
        async def main() -> None:
            with perdure.deadline(3):
                with perdure.no_deadline():
                    await clock.asleep(1)
                assert time_left() == 2
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded):
            self.run(loop, main)
        assert clock.now == 3

    def test_clean_up_after_the_end_came_is_done_in_no_deadline(self, loop: str, clock: VirtualClock) -> None:
        """What no_deadline is for: the end has interrupted the work, and what it held must be given back."""
        cleaned: list[float] = []

        async def main() -> None:
            with perdure.deadline(1):
                try:
                    await forever(loop)
                finally:
                    async with perdure.no_deadline():
                        await clock.asleep(5)
                        cleaned.append(clock.now)

        with pytest.raises(perdure.DeadlineExceeded):
            self.run(loop, main)
        assert cleaned == [6]

    def test_clean_up_after_an_attempt_timeout_is_done_in_no_deadline(
        self, loop: str, clock: VirtualClock
    ) -> None:
        cleaned: list[float] = []

        async def work() -> None:
            try:
                await forever(loop)
            finally:
                with perdure.no_deadline():
                    await clock.asleep(5)
                    cleaned.append(clock.now)

        with pytest.raises(perdure.AttemptTimeout):
            self.run(loop, Retry(attempts=1, attempt_timeout=1)(work))
        assert cleaned == [6]

    def test_no_deadline_within_no_deadline_changes_nothing(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> str:
            with perdure.deadline(1):
                with perdure.no_deadline():
                    with perdure.no_deadline():
                        pass
                    await clock.asleep(0.5)
                return "in time"

        assert self.run(loop, main) == "in time"

    def test_no_deadline_also_lifts_an_attempt_timeout(self, loop: str, clock: VirtualClock) -> None:
        async def work() -> str:
            with perdure.no_deadline():
                await clock.asleep(5)
            return "cleaned"

        assert self.run(loop, Retry(attempt_timeout=1)(work)) == "cleaned"

    def test_an_end_inside_no_deadline_holds(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> None:
            with perdure.deadline(9), perdure.no_deadline(), perdure.deadline(1):
                await forever(loop)

        with pytest.raises(perdure.DeadlineExceeded, match="deadline of 1 s"):
            self.run(loop, main)
        assert clock.now == 1

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

        self.run(loop, lambda: cancelled_after(loop, clock, 1, work))
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
            self.run(loop, main)
        assert clock.now == 1

    def test_a_timeout_error_of_the_body_is_the_bodys(self, loop: str, clock: VirtualClock) -> None:
        own = TimeoutError("mine")

        async def main() -> None:
            with perdure.deadline(60):
                raise own

        with pytest.raises(TimeoutError) as caught:
            self.run(loop, main)
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
            self.run(loop, main)
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

        self.run(loop, main)
        assert seen == [5, None]
        assert clock.now == 21

    def test_an_end_set_before_the_loop_interrupts_guarded_calls_in_it(
        self, loop: str, clock: VirtualClock
    ) -> None:
        last = ConnectionError("last")
        script = Script(last, took(100, "late"))
        with perdure.deadline(5), pytest.raises(perdure.DeadlineExceeded) as caught:
            self.run(loop, lambda: POLICY.call(script.asynchronous))
        assert caught.value.__cause__ is last
        assert clock.now == 5
        assert len(script.calls) == 2, "neutral: no attempt follows"

    def test_many_calls_under_one_far_end_leave_no_timers(self, loop: str, clock: VirtualClock) -> None:
        from perdure.engine import timers

        async def main() -> int:
            for _ in range(50):
                await POLICY.call(Script(took(0.001, "ok")).asynchronous)
            return len(timers._queues)

        with perdure.deadline(3600):
            assert self.run(loop, main) <= 1
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


# -- threads and contexts ------------------------------------------------------------------------------


def test_to_thread_hands_the_end_on() -> None:
    async def main() -> float | None:
        with perdure.deadline(3600):
            return await asyncio.to_thread(time_left)

    left = asyncio.run(main())
    assert left is not None
    assert 3500 < left <= 3600


def test_trio_threads_get_the_end_as_well() -> None:
    async def main() -> float | None:
        with perdure.deadline(3600):
            return await trio.to_thread.run_sync(time_left)

    left = trio.run(main)
    assert left is not None
    assert 3500 < left <= 3600


def test_a_bare_thread_has_no_end_of_its_maker() -> None:
    seen: list[float | None] = []
    with perdure.deadline(3600):
        thread = threading.Thread(target=lambda: seen.append(time_left()))
        thread.start()
        thread.join(10)
    assert seen == [None]


def test_a_copied_context_keeps_the_end_until_the_block_is_left(clock: VirtualClock) -> None:
    with perdure.deadline(5):
        context = contextvars.copy_context()
        assert context.run(time_left) == 5
    assert context.run(time_left) is None
    assert clock.now == 0


def test_a_block_may_be_left_in_another_context_than_it_was_entered_in(clock: VirtualClock) -> None:
    """As a generator fixture does that is closed from elsewhere."""

    def steps() -> Iterator[float | None]:
        with perdure.deadline(5):
            yield time_left()

    held = steps()
    context = contextvars.copy_context()
    assert context.run(next, held) == 5
    assert next(held, "left") == "left"
    assert context.run(time_left) is None
    assert clock.now == 0


# -- misuse --------------------------------------------------------------------------------------------


def test_one_object_serves_one_block() -> None:
    block = perdure.deadline(5)
    with block, pytest.raises(RuntimeError, match="entered once"):
        block.__enter__()
    with pytest.raises(RuntimeError, match="entered once"):
        block.__enter__()


@pytest.mark.parametrize("length", [-1, float("nan"), float("inf"), None, "soon", True, 10**400])
def test_a_length_that_is_no_duration_is_refused(length: Any) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^seconds must be a duration of 0 or more"):
        perdure.deadline(length)


def test_a_length_may_be_written_as_text(clock: VirtualClock) -> None:
    with perdure.deadline("1m30s"):  # type: ignore[arg-type]
        assert time_left() == 90
    assert clock.now == 0

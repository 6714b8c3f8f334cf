"""The bound on one attempt: exact on async code, told to sync code, shrinking, and apart from the caller's end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import AttemptTimeout, FaultKind, Retry, Safety, attempts_of, time_left
from perdure import clock as clocks
from perdure.engine import timers
from perdure.testing import Script, VirtualClock, record_events, took
from tests.engine.tasks import LOOPS, cancelled_after, together
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = Retry(attempts=3, backoff=perdure.Constant(1), attempt_timeout=2)
SYNC_COLOURS = [colour for colour in COLOURS if colour not in ASYNC_COLOURS]
HANGS = took(1000, "late")


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock() as virtual:
        yield virtual


@pytest.mark.parametrize("colour", ASYNC_COLOURS)
class TestAsync:
    @pytest.mark.parametrize("timeout", [0.001, 0.25, 1.0001, 2, 3600])
    def test_an_attempt_is_interrupted_exactly(self, colour: str, timeout: float) -> None:
        policy = Retry(attempts=1, deadline=None, attempt_timeout=timeout)
        played = play(colour, policy, took(10_000, "late"))
        assert type(played.error) is AttemptTimeout
        assert played.error.timeout == timeout
        assert played.elapsed == pytest.approx(timeout, abs=1e-9)

    def test_it_counts_as_a_failed_attempt(self, colour: str) -> None:
        played = play(colour, POLICY, HANGS, HANGS, "ok")
        assert (played.value, played.calls) == ("ok", 3)
        assert played.elapsed == pytest.approx(2 + 1 + 2 + 1)

    def test_it_is_ambiguous(self, colour: str) -> None:
        played = play(colour, POLICY, HANGS, HANGS, HANGS)
        assert isinstance(played.error, AttemptTimeout)
        assert {one.fault.kind for one in attempts_of(played.error)} == {FaultKind.AMBIGUOUS}
        assert play(colour, POLICY.replace(safety=Safety.UNSAFE), HANGS).calls == 1

    def test_each_attempt_has_its_own(self, colour: str) -> None:
        played = play(
            colour, POLICY, took(1.5, ConnectionError()), took(1.5, ConnectionError()), took(1.5, "ok")
        )
        assert played.value == "ok"

    def test_it_shrinks_on_each_retry(self, colour: str) -> None:
        policy = POLICY.replace(attempts=4, attempt_timeout=8, shrink=0.5)
        played = play(colour, policy, *[HANGS] * 4)
        lengths = [event.elapsed for event in played.events if event.name == "attempt.end"]
        assert lengths == pytest.approx([8, 4, 2, 1])
        assert isinstance(played.error, AttemptTimeout)
        assert played.error.timeout == 1

    def test_an_attempt_that_ends_just_in_time_counts(self, colour: str) -> None:
        assert play(colour, POLICY, took(1.999, "ok")).value == "ok"

    def test_the_error_says_how_long(self, colour: str) -> None:
        played = play(colour, POLICY.replace(attempts=1), HANGS)
        assert str(played.error) == "the attempt took longer than 2 s"
        assert isinstance(played.error, TimeoutError)
        assert not isinstance(played.error, perdure.DeadlineExceeded)

    def test_the_waits_between_attempts_are_not_counted(self, colour: str) -> None:
        policy = POLICY.replace(backoff=perdure.Constant(10))
        assert play(colour, policy, took(1, ConnectionError()), took(1, "ok")).value == "ok"


@pytest.mark.parametrize("colour", SYNC_COLOURS)
class TestSync:
    def test_nothing_interrupts_a_plain_function(self, colour: str) -> None:
        played = play(colour, POLICY, took(10, "late"))
        assert (played.value, played.elapsed) == ("late", 10)

    def test_a_failure_after_the_timeout_is_the_functions_own(self, colour: str) -> None:
        error = ValueError()
        assert play(colour, POLICY, took(10, error)).error is error


@pytest.mark.parametrize("colour", COLOURS)
def test_a_rejected_result_is_judged_without_the_attempts_own_end(colour: str) -> None:
    policy = POLICY.replace(reject=lambda value: value == "bad", backoff=perdure.Constant(5))
    played = play(colour, policy, took(1, "bad"), took(1, "bad"), "good")
    assert (played.value, played.calls) == ("good", 3)


# -- what the attempt sees -----------------------------------------------------------------------------

WATCHED = [(None, 2), (9, 2), (1, 1)]


@pytest.mark.parametrize(("end", "left"), WATCHED)
@pytest.mark.parametrize("form", ["sync", "block", *LOOPS, *(f"{loop}-block" for loop in LOOPS)])
def test_time_left_in_an_attempt_is_the_nearest_of_its_timeout_and_the_end(
    clock: VirtualClock, form: str, end: float | None, left: float
) -> None:
    async def look() -> float | None:
        return time_left()

    async def look_in_a_block() -> float | None:
        async for attempt in POLICY:
            async with attempt:
                assert attempt.timeout == time_left()
                return time_left()
        return None

    def call() -> float | None:
        if form == "sync":
            return POLICY.call(time_left)
        if form == "block":
            for attempt in POLICY:
                with attempt:
                    assert attempt.timeout == time_left()
                    return time_left()
        return run_async(form, look_in_a_block if form.endswith("-block") else POLICY(look))  # type: ignore[no-any-return]

    with perdure.no_deadline() if end is None else perdure.deadline(end):
        assert call() == left
    assert clock.now == 0
    assert time_left() is None


def test_an_attempt_of_a_block_tells_what_is_left_of_the_policys_deadline(clock: VirtualClock) -> None:
    seen: list[tuple[float | None, float | None]] = []
    for attempt in POLICY.replace(deadline=10):
        with attempt:
            seen.append((attempt.timeout, attempt.time_left))
            clock.sleep(0.5)
            seen.append((attempt.timeout, attempt.time_left))
            if attempt.number < 2:
                raise ConnectionError
    assert seen == [(2, 2), (1.5, 1.5), (2, 2), (1.5, 1.5)]


def test_without_any_bound_there_is_nothing_left_to_tell() -> None:
    for attempt in Retry(deadline=None):
        with attempt:
            assert (attempt.timeout, attempt.time_left) == (None, None)


def test_the_policys_deadline_is_time_that_is_left_but_bounds_no_attempt(clock: VirtualClock) -> None:
    for attempt in Retry(deadline=10):
        with attempt:
            clock.sleep(4)
            assert (attempt.timeout, attempt.time_left, time_left()) == (None, 6, None)


def test_a_generator_sees_what_is_left_of_the_attempt_until_its_first_item(clock: VirtualClock) -> None:
    @POLICY
    def items() -> Iterator[float | None]:
        yield time_left()
        yield time_left()

    assert list(items()) == [2, None]
    assert clock.now == 0


# -- attempt timeout and the caller's end --------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestEnd:
    def test_the_shorter_end_of_this_task_ends_the_block(self, loop: str, clock: VirtualClock) -> None:
        script = Script(HANGS)

        async def main() -> None:
            with perdure.deadline(1):
                await POLICY.call(script.asynchronous)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert (clock.now, len(script.calls)) == (1, 1)

    def test_the_shorter_end_of_a_caller_elsewhere_is_neutral_and_has_the_last_failure_as_cause(
        self, loop: str, clock: VirtualClock
    ) -> None:
        last = ConnectionError("last")
        script = Script(last, HANGS)
        with (
            perdure.deadline(2.5),
            record_events() as seen,
            pytest.raises(perdure.DeadlineExceeded) as caught,
        ):
            run_async(loop, lambda: POLICY.call(script.asynchronous))
        assert caught.value.__cause__ is last
        assert (clock.now, len(script.calls), seen[-1].reason) == (2.5, 2, "neutral")

    def test_the_shorter_attempt_timeout_is_retried_until_the_end(
        self, loop: str, clock: VirtualClock
    ) -> None:
        script = Script(HANGS, HANGS, HANGS)

        async def main() -> None:
            with perdure.deadline(5):
                await POLICY.call(script.asynchronous)

        with pytest.raises(perdure.DeadlineExceeded) as caught:
            run_async(loop, main)
        assert isinstance(caught.value.__cause__, AttemptTimeout)
        assert (clock.now, len(script.calls)) == (5, 2)

    def test_equal_bounds_give_the_callers_error_every_time(self, loop: str) -> None:
        for _ in range(20):
            with VirtualClock() as clock:
                script = Script(HANGS)

                async def main(script: Script = script) -> None:
                    with perdure.deadline(2):
                        await POLICY.call(script.asynchronous)

                with pytest.raises(perdure.DeadlineExceeded):
                    run_async(loop, main)
                assert (clock.now, len(script.calls)) == (2, 1)

    def test_an_inner_timeout_inside_an_outer_one(self, loop: str, clock: VirtualClock) -> None:
        inner = Script(HANGS, took(0.5, "ok"))
        guarded = Retry(backoff=perdure.Constant(0), attempt_timeout=1)(inner.asynchronous)
        assert run_async(loop, lambda: POLICY.call(guarded)) == "ok"
        assert clock.now == 1.5

    def test_an_outer_timeout_cuts_the_inner_call_whole(self, loop: str, clock: VirtualClock) -> None:
        inner = Script(HANGS, HANGS)
        guarded = Retry(attempt_timeout=9)(inner.asynchronous)
        with pytest.raises(AttemptTimeout) as caught:
            run_async(loop, lambda: POLICY.replace(attempts=2).call(guarded))
        assert caught.value.timeout == 2
        assert (clock.now, len(inner.calls)) == (5, 2)


# -- the same without anybody who looks: decorated functions on the fused path -------------------------


@pytest.mark.parametrize("observed", [False, True], ids=["fused", "observed"])
def test_a_decorated_call_after_the_end_of_the_attempt_around_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, *, observed: bool
) -> None:
    moments = iter((0.0, 0.0))
    monkeypatch.setattr(
        clocks, "monotonic", lambda: next(moments, 5.0)
    )  # the work before the inner call took 5 s
    if observed:
        perdure.listen(lambda _event: None)
    inner = Script("too late")
    outcome = POLICY.replace(attempts=1).outcome(Retry()(inner))
    assert isinstance(outcome.error, perdure.DeadlineExceeded)
    assert not inner.calls


@pytest.mark.parametrize("observed", [False, True], ids=["fused", "observed"])
def test_a_decorated_call_in_a_task_of_the_attempt_is_cut_with_it(*, observed: bool) -> None:
    children: list[asyncio.Task[None]] = []

    @Retry(attempts=1)
    async def hang() -> None:
        await asyncio.Event().wait()

    async def start_and_wait() -> None:
        children.append(asyncio.create_task(hang()))
        await asyncio.wait(children)

    async def main() -> bool:
        with pytest.raises(AttemptTimeout):
            await POLICY.replace(attempts=1, attempt_timeout=0.01).call(start_and_wait)
        done, _ = await asyncio.wait(children, timeout=5)
        return bool(done)

    if observed:
        perdure.listen(lambda _event: None)
    assert asyncio.run(main()) is True
    assert isinstance(children[0].exception(), perdure.DeadlineExceeded)


# -- cancellation --------------------------------------------------------------------------------------


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


# -- what it costs -------------------------------------------------------------------------------------


def test_a_thousand_attempts_share_one_timer(clock: VirtualClock) -> None:
    scheduled: list[int] = []

    async def look() -> str:
        await asyncio.sleep(0)
        loop: Any = asyncio.get_running_loop()
        scheduled.append(len(loop._scheduled))
        return "ok"

    async def main() -> None:
        await asyncio.gather(*(POLICY.call(look) for _ in range(1000)))

    asyncio.run(main())
    assert max(scheduled) == 1
    assert clock.now == 0


def test_each_of_many_attempts_is_cut_at_its_own_moment(clock: VirtualClock) -> None:
    ended: list[float] = []

    async def late(start: float) -> None:
        await clock.asleep(start)
        with pytest.raises(AttemptTimeout):
            await POLICY.replace(attempts=1).call(Script(HANGS).asynchronous)
        ended.append(clock.now)

    async def main() -> None:
        await together("asyncio", *(lambda start=start: late(start) for start in (0, 0.5, 0.5, 1.25, 7)))

    asyncio.run(main())
    assert ended == pytest.approx([2, 2.5, 2.5, 3.25, 9])


def test_shrinking_attempts_leave_no_queues_behind(clock: VirtualClock) -> None:
    policy = POLICY.replace(
        attempts=20, attempt_timeout=1000, shrink=0.9, backoff=perdure.Constant(0), deadline=None
    )

    async def main() -> int:
        await policy.call(Script(*[ConnectionError()] * 19, "ok").asynchronous)
        return len(timers._queues)

    assert asyncio.run(main()) <= 1
    assert clock.now == 0


def test_a_target_that_never_suspends_needs_no_luck(clock: VirtualClock) -> None:
    async def at_once() -> str:
        return "ok"

    async def main() -> list[str]:
        return [await POLICY.replace(attempt_timeout=1e-9).call(at_once) for _ in range(100)]

    assert asyncio.run(main()) == ["ok"] * 100
    assert clock.now < 1


@pytest.mark.parametrize("loop", LOOPS)
def test_a_plain_function_that_returns_a_coroutine_is_interrupted_as_well(
    loop: str, clock: VirtualClock
) -> None:
    script = Script(HANGS, HANGS, HANGS)
    guarded = POLICY(lambda: script.asynchronous())

    async def main() -> None:
        await guarded()

    with pytest.raises(AttemptTimeout):
        run_async(loop, main)
    assert clock.now == 8


@pytest.mark.parametrize("loop", LOOPS)
def test_it_works_in_real_time(loop: str) -> None:
    async def hang() -> None:
        if loop == "trio":
            import trio

            await trio.sleep_forever()
        await asyncio.Event().wait()

    with pytest.raises(AttemptTimeout):
        run_async(loop, Retry(attempts=2, backoff=perdure.Constant(0), attempt_timeout=0.001)(hang))

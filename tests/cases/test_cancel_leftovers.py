"""Closed coroutines, task groups, timers of calls that are over, and work that nothing interrupts; B034, B035."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import AttemptTimeout, Constant, FaultKind, Retry
from perdure.engine import timers, waiting
from perdure.testing import Script, VirtualClock, took
from tests.harness import play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

FULL = Retry(attempts=3, attempt_timeout=5, backoff=Constant(20), nested="outer", deadline=None)


def down() -> ConnectionRefusedError:
    return ConnectionRefusedError("down")


async def ask(body: Callable[[], Awaitable[Any]], way: str) -> Any:
    if way == "block":
        async for attempt in FULL:
            with attempt:
                return await body()
    if way == "stream":

        async def stream() -> AsyncIterator[Any]:
            yield await body()

        return [item async for item in FULL(stream)()][0]  # noqa: RUF015 - read to its end
    if way == "outcome":
        return await FULL.outcome(body)
    return await FULL.call(body if way == "function" else lambda: body())


WAYS = ["function", "lambda", "outcome", "block", "stream"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["attempt", "wait"])
def test_a_suspended_coroutine_can_be_closed_and_is_over(where: str, way: str) -> None:
    """B034: GeneratorExit, as when a loop is torn down; no further attempt, no word, no timer that fires later."""
    calls: list[int] = []
    ended: list[int] = []

    async def body() -> None:
        calls.append(1)
        try:
            if where == "wait":
                raise down()
            await asyncio.sleep(100)
        finally:
            ended.append(1)

    async def main() -> None:
        async with VirtualClock():
            coroutine: Coroutine[Any, Any, Any] = ask(body, way)
            coroutine.send(None)
            assert len(calls) == 1
            coroutine.close()
            assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
            if way != "stream" or sys.version_info >= (
                3,
                13,
            ):  # earlier, closing leaves async generators to the loop
                assert ended == [1]
            await asyncio.sleep(200)
            assert perdure.time_left() is None
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    asyncio.run(main())
    assert (calls, ended) == ([1], [1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_no_timer_of_a_call_that_is_over_fires_later(loop: str, way: str) -> None:
    """B034: after a value, an error and a timeout alike, the same task goes on undisturbed."""

    async def main() -> float:
        async with VirtualClock() as clock:
            script = Script(
                took(4, "ok"), took(4, KeyError("bug")), took(9, "never"), took(9, "x"), took(9, "x")
            )
            for _ in range(3):
                try:
                    await ask(script.asynchronous, way)
                except (KeyError, AttemptTimeout):
                    pass
            before = clock.now
            await clock.asleep(1000)
            return clock.now - before

    assert run_async(loop, main) == pytest.approx(1000)
    assert not [key for key in timers._queues if not key[0].is_closed()]


def test_a_failing_sibling_cancels_a_waiting_call_in_a_task_group() -> None:
    """B034: the group holds the sibling's error alone, and the call made one attempt."""
    script = Script(down(), "never")

    async def main() -> float:
        async with VirtualClock() as clock:
            with pytest.raises(ExceptionGroup) as caught:
                async with asyncio.TaskGroup() as group:
                    group.create_task(FULL.call(script.asynchronous))  # type: ignore[arg-type] # a coroutine
                    group.create_task(fail_after(3))
            assert [type(error) for error in caught.value.exceptions] == [LookupError]
            return clock.now

    async def fail_after(seconds: float) -> None:
        await asyncio.sleep(seconds)
        raise LookupError("sibling")

    assert asyncio.run(main()) == 3
    assert len(script.calls) == 1


def test_a_failing_sibling_cancels_a_waiting_call_in_a_nursery() -> None:
    """B034."""
    script = Script(down(), "never")

    async def main() -> float:
        async with VirtualClock() as clock:

            async def fail_after(seconds: float) -> None:
                await clock.asleep(seconds)
                raise LookupError("sibling")

            with pytest.raises(ExceptionGroup) as caught:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(FULL.call, script.asynchronous)
                    nursery.start_soon(fail_after, 3)
            assert [type(error) for error in caught.value.exceptions] == [LookupError]
            return clock.now

    assert trio.run(main) == 3
    assert len(script.calls) == 1


@pytest.mark.parametrize("way", WAYS)
def test_wait_for_and_timeout_cut_a_waiting_call_and_leave_the_task_clean(way: str) -> None:
    """B029: the caller's own tools of asyncio, while perdure waits and while an attempt runs."""

    async def main() -> None:
        async with VirtualClock() as clock:
            for outcome, seconds in ((down(), 7), (took(100, "never"), 3)):
                start = clock.now
                script = Script(outcome, "never")
                with pytest.raises(TimeoutError) as caught:
                    await asyncio.wait_for(ask(script.asynchronous, way), seconds)
                assert type(caught.value) is TimeoutError
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await ask(Script(outcome, "never").asynchronous, way)
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                assert (clock.now - start, len(script.calls)) == (2 * seconds, 1)

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_a_timeout_of_the_bodys_own_is_a_failure_like_others(way: str) -> None:
    """B029: asyncio.timeout inside the attempt; ambiguous, so it is retried."""
    begun: list[float] = []

    async def main() -> Any:
        async with VirtualClock() as clock:

            async def body() -> str:
                begun.append(clock.now)
                async with asyncio.timeout(2):
                    await asyncio.sleep(10 if len(begun) < 3 else 1)
                return "ok"

            return await ask(body, way)

    result = asyncio.run(main())
    assert (result.value if way == "outcome" else result) == "ok"
    assert begun == [0, 22, 44]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_cancellation_during_refresh_passes(loop: str) -> None:
    """B034: the hook is awaited like the function."""

    class Expired(Exception):
        pass

    perdure.faults.register(Expired, FaultKind.STALE)
    script = Script(Expired(), "never")

    async def main() -> float:
        async with VirtualClock() as clock:

            async def refresh() -> None:
                await clock.asleep(10)

            call = Retry(refresh=refresh)(script.asynchronous)
            if loop == "trio":
                with trio.CancelScope() as scope:
                    clock.call_later(3, scope.cancel)
                    await call()
                assert scope.cancelled_caught
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(3):
                        await call()
            return clock.now

    assert run_async(loop, main) == 3
    assert len(script.calls) == 1


def test_a_task_cancelled_before_it_starts_calls_nothing() -> None:
    """B034."""
    script = Script("never")

    async def main() -> None:
        task = asyncio.ensure_future(FULL.call(script.asynchronous))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert script.calls == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
@pytest.mark.parametrize("way", WAYS)
def test_eager_tasks_are_cut_and_cancelled_like_others(way: str) -> None:
    """B034: their first step runs inside create_task."""

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        async with VirtualClock() as clock:
            script = Script(took(9, "cut"), took(1, "ok"))
            result = await asyncio.create_task(ask(script.asynchronous, way))
            assert ((result.value if way == "outcome" else result), clock.now) == ("ok", 26)
            task = asyncio.create_task(ask(Script(took(9, "cut")).asynchronous, way))
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_call_that_was_cancelled_while_it_waited_keeps_its_error_alive_no_longer(loop: str) -> None:
    """B034: the wait may have hours to go; what it waited for is released at once."""

    class Body:
        """Something large that the failure holds on to."""

    held: list[weakref.ref[Any]] = []

    async def work() -> None:
        body = Body()
        held.append(weakref.ref(body))
        raise down()

    policy = Retry(backoff=Constant(3000), deadline=None)

    async def cancelled() -> None:
        async with VirtualClock() as clock:
            if loop == "trio":
                with trio.CancelScope() as scope:
                    clock.call_later(1, scope.cancel)
                    await policy.call(work)
            else:
                task = asyncio.ensure_future(policy.call(work))
                await asyncio.sleep(1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del task
            await clock.asleep(0.001)
            gc.collect()
            assert held[0]() is None

    run_async(loop, cancelled)


def test_a_thousand_cancelled_waits_leave_next_to_nothing_behind() -> None:
    """B034: a loop that lives for years and cancels most of what it starts."""
    policy = Retry(backoff=Constant(3000), deadline=None)

    async def fail() -> None:
        raise down()

    async def main() -> int:
        tasks = [asyncio.ensure_future(policy.call(fail)) for _ in range(1000)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0)
        waits = waiting._loops[asyncio.get_running_loop()]
        return sum(not future.done() for futures in waits.due.values() for future in futures)

    assert asyncio.run(main()) == 0


@pytest.mark.parametrize("colour", ["sync", "block"])
def test_sync_work_is_not_interrupted_and_never_runs_twice_at_once(colour: str) -> None:
    """B035: no false claim; a value that comes late is a value, an error that comes late is that error."""
    policy = Retry(attempts=3, attempt_timeout=1, backoff=Constant(2))
    late = play(colour, policy, took(5, "late"))
    assert (late.value, late.error, late.calls, late.elapsed) == ("late", None, 1, 5)
    error = down()
    failed = play(colour, policy, took(5, error), took(5, "late"))
    assert (failed.value, failed.calls, failed.elapsed) == ("late", 2, 12)
    assert not [
        event for event in failed.events if event.fault is not None and "timed out" in event.fault.why
    ]


def test_sync_work_is_told_what_is_left_down_to_nothing() -> None:
    """B035: all that a plain function can be given is the number."""
    seen: list[float | None] = []

    def work() -> None:
        seen.append(perdure.time_left())
        clock.sleep(0.75)
        seen.append(perdure.time_left())
        clock.sleep(0.75)
        seen.append(perdure.time_left())
        raise down()

    with VirtualClock() as clock, pytest.raises(ConnectionRefusedError):
        Retry(attempts=2, attempt_timeout=1, backoff=Constant(0))(work)()
    assert seen == [1, 0.25, 0] * 2


def test_the_docs_say_that_sync_work_cannot_be_interrupted() -> None:
    """B035."""
    for documented in (perdure.deadline, perdure.time_left):
        assert "cannot be interrupted" in (documented.__doc__ or "")
    assert "interrupts async functions" in (Retry.__doc__ or "")

"""Attempt timeouts, deadlines and outer cancellation keep out of each other's way; B029, B032-B035."""

from __future__ import annotations

import asyncio
import socket
from concurrent import futures
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import AttemptTimeout, Constant, DeadlineExceeded, FaultKind, Retry
from perdure.testing import Script, VirtualClock, took
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    Main = Callable[[], Coroutine[Any, Any, Any]]

DOWN = ConnectionRefusedError


class Case(NamedTuple):
    """One call and what happens to it; the fractions of a second differ, so that no two things fall together."""

    limit: float
    body: float
    cleanup: float
    cancel_at: float | None
    outer: float | None
    inner: float | None
    wait: float
    attempts: int
    swallows: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    limit, body, cancel_at, outer, inner, wait = draw(
        st.lists(st.integers(1, 60), min_size=6, max_size=6, unique=True)
    )
    off = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    return Case(
        limit=limit,
        body=body + 0.25,
        cleanup=draw(st.sampled_from([0.0, 7.0])),
        cancel_at=None if off[0] else cancel_at + 0.5,
        outer=None if off[1] else outer + 0.75,
        inner=None if off[2] else inner + 0.125,
        wait=wait,
        attempts=draw(st.integers(1, 3)),
        swallows=draw(st.booleans()),
    )


class InnerTimeout(Exception):
    """What the body makes of a timeout of its own; not worth a retry."""


async def body_of(case: Case, begun: list[float]) -> str:
    begun.append(asyncio.get_running_loop().time())
    try:
        if case.inner is None:
            await asyncio.sleep(case.body)
        else:
            await within(case.inner, case.body)
    except asyncio.CancelledError:
        if case.swallows:
            return "swallowed"
        raise
    finally:
        if case.cleanup:
            await asyncio.sleep(case.cleanup)
    return "value"


async def within(limit: float, body: float) -> None:
    try:
        async with asyncio.timeout(limit) as scope:
            await asyncio.sleep(body)
    except TimeoutError:
        assert scope.expired()
        raise InnerTimeout from None


async def by_hand(case: Case, begun: list[float]) -> str:
    """The loop that a careful person writes with asyncio.timeout."""
    for number in range(1, case.attempts + 1):
        try:
            async with asyncio.timeout(case.limit):
                return await body_of(case, begun)
        except TimeoutError:
            if number == case.attempts:
                return "timed out"
        await asyncio.sleep(case.wait)
    return "unreachable"


async def guarded(case: Case, begun: list[float], *, block: bool) -> str:
    policy = Retry(
        attempts=case.attempts, attempt_timeout=case.limit, backoff=Constant(case.wait), deadline=None
    )
    try:
        if not block:
            return await policy.call(body_of, case, begun)
        async for attempt in policy:
            with attempt:
                return await body_of(case, begun)
    except AttemptTimeout:
        return "timed out"
    return "unreachable"


async def ending(call: Callable[[], Awaitable[str]], case: Case) -> tuple[str, float, int]:
    """How the call ends for a caller with a timeout of his own, who may be cancelled: what, when, and requests."""
    result = ""

    async def caller() -> int:
        nonlocal result
        try:
            async with asyncio.timeout(case.outer):
                result = await call()
        except (asyncio.CancelledError, TimeoutError, InnerTimeout) as error:
            result = type(error).__name__
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(caller())
    handle = None if case.cancel_at is None else loop.call_at(loop.time() + case.cancel_at, task.cancel)
    try:
        requests = await task
    finally:
        if handle is not None:
            handle.cancel()
    return result, loop.time(), requests


@pytest.mark.parametrize("block", [False, True], ids=["function", "block"])
@given(case=cases())
def test_outer_cancellation_stays_as_whole_as_with_timeouts_by_hand(block: bool, case: Case) -> None:
    """B029, B032: result, moment, attempts and Task.cancelling() are those of asyncio.timeout in a hand loop."""

    def look(call: Callable[[list[float]], Awaitable[str]]) -> tuple[object, list[float]]:
        begun: list[float] = []
        with VirtualClock():
            return asyncio.run(ending(lambda: call(begun), case)), begun

    def ours(begun: list[float]) -> Awaitable[str]:
        return guarded(case, begun, block=block)

    assert look(ours) == look(lambda begun: by_hand(case, begun))


def error_within(seconds: float | None, colour: str, policy: Retry, script: Script) -> tuple[Any, float]:
    """What comes out of a call inside a `perdure.deadline` block, and when."""
    with VirtualClock() as clock:
        try:
            with perdure.no_deadline() if seconds is None else perdure.deadline(seconds):
                if colour == "sync":
                    policy.call(script)
                else:
                    run_async(colour, lambda: policy.call(script.asynchronous))
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            return error, clock.now
        return None, clock.now


@pytest.mark.parametrize("colour", ["sync", "asyncio", "trio"])
def test_a_deadline_that_has_passed_leaves_no_attempt(colour: str) -> None:
    """B029: one that fired already was reused: every retry failed at once, and paid its backoff."""
    script = Script("never")
    error, at = error_within(0, colour, Retry(attempts=4), script)
    assert (type(error), at, len(script.calls)) == (DeadlineExceeded, 0, 0)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_deadline_that_passes_during_an_attempt_leaves_no_other(colour: str) -> None:
    """B029."""
    error = DOWN("slow and down")
    played = play(colour, Retry(attempts=4, deadline=1, backoff=Constant(0.5)), took(2, error), "never")
    assert (played.error, played.calls, played.waits, played.elapsed) == (error, 1, [], pytest.approx(2))


@pytest.mark.parametrize("colour", ASYNC_COLOURS)
def test_each_attempt_has_the_whole_attempt_timeout(colour: str) -> None:
    """B029: per-attempt timeouts are built anew for each."""
    policy = Retry(attempts=4, attempt_timeout=1, backoff=Constant(2))
    slow = took(10, "never")
    played = play(colour, policy, slow, slow, slow, took(0.9, "ok"))
    assert (played.value, played.calls, played.elapsed) == ("ok", 4, pytest.approx(3 * 3 + 0.9, abs=0.01))


SURROUNDINGS: dict[str, tuple[Retry, float | None]] = {
    "attempt timeout": (Retry(attempts=1, attempt_timeout=60), None),
    "deadline": (Retry(attempts=1), 60),
    "both": (Retry(attempts=1, attempt_timeout=60), 50),
}


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("raised", [TimeoutError, DeadlineExceeded, AttemptTimeout])
@pytest.mark.parametrize("colour", ["sync", "asyncio", "trio"])
def test_a_timeout_error_of_the_body_is_the_bodys(colour: str, raised: type[Exception], around: str) -> None:
    """B032: told apart by whose time is over, not by the class."""
    policy, seconds = SURROUNDINGS[around]
    mine = raised("of the body")
    error, at = error_within(seconds, colour, policy, Script(took(3, mine)))
    assert (error, at) == (mine, 3)
    assert mine.__cause__ is None


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("scope", ["attempt timeout", "deadline"])
def test_a_body_that_turns_the_cancellation_into_its_own_error_keeps_it(scope: str, loop: str) -> None:
    """B032: even after the time was over, as with asyncio.timeout."""
    mine = TimeoutError("mine")

    async def main() -> BaseException | None:
        async with VirtualClock() as clock:

            async def body() -> None:
                try:
                    await clock.asleep(10)
                except BaseException:  # noqa: BLE001 - the cancellation of either loop
                    raise mine from None

            try:
                if scope == "deadline":
                    async with perdure.deadline(1):
                        await body()
                else:
                    await Retry(attempts=1, attempt_timeout=1).call(body)
            except TimeoutError as error:
                return error
        return None

    assert run_async(loop, main) is mine


def test_the_attempt_and_the_caller_running_out_together_is_the_callers_timeout() -> None:
    """B032: two timers of one moment; the outer cancellation wins and nothing is retried."""
    script = Script(took(10, "never"), took(10, "never"))

    async def main() -> int:
        async with VirtualClock():
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(1):
                    await Retry(attempt_timeout=1).call(script.asynchronous)
            assert type(caught.value) is TimeoutError
            task = asyncio.current_task()
            return -1 if task is None else task.cancelling()

    assert asyncio.run(main()) == 0
    assert len(script.calls) == 1


TIMEOUTS = [TimeoutError, asyncio.TimeoutError, socket.timeout, futures.TimeoutError]


@pytest.mark.parametrize("raised", TIMEOUTS)
def test_the_timeouts_of_the_standard_library_are_one(raised: type[Exception]) -> None:
    """B033."""
    assert raised is TimeoutError
    for policy in (Retry(on=TimeoutError), Retry(on=raised), Retry()):
        assert play("sync", policy, raised("slow"), "ok").calls == 2


@pytest.mark.parametrize("module", ["redis.exceptions", "sqlalchemy.exc", "urllib3.exceptions", "pymemcache"])
def test_a_class_of_the_same_name_is_another_class_until_it_is_named(module: str) -> None:
    """B033: `on=` takes classes, not names; a rule by name needs no import."""
    foreign = type("TimeoutError", (Exception,), {"__module__": module})
    assert play("sync", Retry(on=TimeoutError), foreign("slow"), "ok").calls == 1
    assert play("sync", Retry(on=foreign), foreign("slow"), "ok").calls == 2
    perdure.faults.register(f"{module}.TimeoutError", FaultKind.TRANSIENT)
    assert play("sync", Retry(), foreign("slow"), "ok").calls == 2


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("way", ["function", "lambda", "block", "stream"])
def test_an_attempt_that_was_cut_has_cleaned_up_before_the_next_one_begins(way: str, loop: str) -> None:
    """B034: a connection that is off by one answer is thrown away first, however long that takes."""
    happened: list[tuple[float, str]] = []

    async def main() -> Any:
        async with VirtualClock() as clock:

            async def body() -> str:
                number = sum(what == "sent" for _, what in happened) + 1
                happened.append((clock.now, "sent"))
                try:
                    await clock.asleep(10 if number < 3 else 0.5)
                except BaseException:
                    await discard()
                    raise
                return f"answer {number}"

            async def discard() -> None:
                with trio.CancelScope(shield=True):
                    await clock.asleep(4)
                happened.append((clock.now, "discarded"))

            async def discard_on_asyncio() -> None:
                await clock.asleep(4)
                happened.append((clock.now, "discarded"))

            if loop == "asyncio":
                discard = discard_on_asyncio
            return await ask(Retry(attempt_timeout=1, backoff=Constant(2)), body, way)

    assert run_async(loop, main) == "answer 3"
    assert happened == [(0, "sent"), (5, "discarded"), (7, "sent"), (12, "discarded"), (14, "sent")]


async def ask(policy: Retry, body: Callable[[], Awaitable[str]], way: str) -> Any:
    if way == "block":
        async for attempt in policy:
            with attempt:
                return await body()
    if way == "stream":

        async def stream() -> AsyncIterator[str]:
            yield await body()

        return [item async for item in policy(stream)()][0]  # noqa: RUF015 - read to its end
    return await policy.call(body if way == "function" else lambda: body())


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("way", ["function", "lambda", "block", "stream"])
@pytest.mark.parametrize("when", ["attempt", "wait", "clean-up"])
def test_a_call_that_was_cancelled_makes_no_other_attempt(when: str, way: str, loop: str) -> None:
    """B034: wherever the cancellation finds it; the loop is left within the same moment."""
    sent: list[float] = []

    async def main() -> float:
        async with VirtualClock() as clock:

            async def body() -> str:
                sent.append(clock.now)
                if when == "wait":
                    raise DOWN("down")
                try:
                    await clock.asleep(10)
                finally:
                    if when == "clean-up":
                        await clock.asleep(5)
                return "never"

            policy = Retry(attempt_timeout=1 if when == "clean-up" else 60, backoff=Constant(20))
            return await cancelled_after(3, loop, clock, lambda: ask(policy, body, way))

    assert run_async(loop, main) == 3
    assert sent == [0]


async def cancelled_after(seconds: float, loop: str, clock: VirtualClock, call: Main) -> float:
    """Cancel the call after some time; when it had ended."""
    if loop == "trio":
        with trio.CancelScope() as scope:
            clock.call_later(seconds, scope.cancel)
            await call()
        assert scope.cancelled_caught
    else:
        task = asyncio.create_task(call())
        asyncio.get_running_loop().call_later(seconds, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
    return clock.now

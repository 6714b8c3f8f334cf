"""The bound on one attempt: exact on async code, nothing on sync code but told, shrinking, and cheap."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import AttemptTimeout, FaultKind, Retry, Safety, attempts_of
from perdure.engine import timers
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS, together
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

POLICY = Retry(attempts=3, backoff=perdure.Constant(1), attempt_timeout=2)
SYNC_COLOURS = [colour for colour in COLOURS if colour not in ASYNC_COLOURS]
HANGS = took(1000, "late")


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

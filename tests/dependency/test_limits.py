"""The rate limit: who waits, who is refused, and that a server's pause holds for all callers."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Constant, RateLimit, RateLimited, Retry, Timeouts
from perdure import clock as clocks
from perdure.testing import Script, VirtualClock, record_events
from tests.dependency.made import assert_at_rest, called, made, state_of
from tests.engine.held import PATIENCE
from tests.engine.tasks import LOOPS, cancelled_after, together, turn
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

AT_ONCE = Retry(attempts=4, backoff=Constant(0))
ONE_IN_TEN = RateLimit(1, per=10, burst=1, max_wait=25)


def busy(exception: Exception, after: float) -> Exception:
    """What a server answers that asks for a pause."""
    return perdure.transient(exception, after=after)


# -- one call ------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestOneCallAndTheRate:
    def test_each_attempt_waits_for_its_turn(self, colour: str) -> None:
        dependency = made(rate_limit=ONE_IN_TEN, retry=AT_ONCE)
        played = play(colour, dependency, ConnectionError(), ConnectionError(), "ok")
        assert played.value == "ok"
        assert played.elapsed == pytest.approx(20)
        assert_at_rest(dependency)

    def test_a_longer_wait_than_max_wait_refuses_the_first_attempt(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = made(rate_limit=RateLimit(1, per=10, burst=1, max_wait=9.9))
        assert called(colour, dependency, "ok").value == "ok"
        played = called(colour, dependency, "never")
        assert isinstance(played.error, RateLimited)
        assert played.error.retry_after == pytest.approx(10)
        assert played.error.dependency == "payments"
        assert (played.calls, clock.now) == (0, 0)
        assert "limit.rejected" in played.names

    def test_by_default_nobody_waits(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(1, per=0.001, burst=1))
        called(colour, dependency, "ok")
        assert isinstance(called(colour, dependency, "never").error, RateLimited)
        clock.advance(0.001)
        assert called(colour, dependency, "ok").value == "ok"

    def test_a_refused_retry_ends_with_the_error_of_the_attempt_before(self, colour: str) -> None:
        error = ConnectionError("the first")
        dependency = made(rate_limit=RateLimit(1, per=10, burst=1), retry=AT_ONCE)
        played = play(colour, dependency, error, "never")
        assert played.error is error
        assert (played.calls, played.elapsed) == (1, 0)
        assert state_of(dependency).bucket is not None
        assert dependency.snapshot()["counters"]["retries"] == 0, "what was not sent is not paid for"
        assert dependency.snapshot()["budget"]["tokens"] == 3

    @pytest.mark.parametrize("bound", ["deadline", "total", "ambient"])
    def test_a_wait_past_the_end_is_refused_now_and_takes_nothing(
        self, colour: str, bound: str, clock: VirtualClock
    ) -> None:
        parts: dict[str, Any] = {"retry": AT_ONCE}
        if bound == "deadline":
            parts["retry"] = AT_ONCE.replace(deadline=5)
        if bound == "total":
            parts = {"retry": AT_ONCE, "timeouts": Timeouts(connect=None, read=None, total=5)}
        limit = RateLimit(1, per=10, burst=1, max_wait=5 if bound == "total" else 25)
        dependency = made(rate_limit=limit, **parts)
        assert called(colour, dependency, "ok").value == "ok"
        clock.advance(4)
        if bound == "ambient":
            with perdure.deadline(5):
                played = called(colour, dependency, "never")
        else:
            played = called(colour, dependency, "never")
        assert isinstance(played.error, RateLimited)
        assert clock.now == 4
        clock.advance(6)
        assert called(colour, dependency, "ok").value == "ok", "the refusal had taken no place"
        assert clock.now == 10

    def test_a_burst_goes_at_once(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(2, per=1, burst=3))
        assert [called(colour, dependency, "ok").value for _ in range(3)] == ["ok"] * 3
        refused = called(colour, dependency, "never").error
        assert isinstance(refused, RateLimited)
        assert refused.retry_after == pytest.approx(0.5)
        clock.advance(0.5)
        assert called(colour, dependency, "ok").value == "ok"
        assert isinstance(called(colour, dependency, "never").error, RateLimited)

    def test_without_a_burst_given_the_limit_is_the_burst(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(5, per=60))
        errors = [called(colour, dependency, "ok").error for _ in range(6)]
        assert [type(error) for error in errors] == [type(None)] * 5 + [RateLimited]

    def test_a_hint_pauses_the_next_caller_too(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(100, burst=100, max_wait=60), retry=None)
        called(colour, dependency, busy(ConnectionError(), after=12))
        played = called(colour, dependency, "ok")
        assert played.value == "ok"
        assert played.elapsed == pytest.approx(12)


# -- many callers --------------------------------------------------------------------------


class TestManyCallersAndTheRate:
    def test_threads_that_wait_go_out_in_turn(self, threads: ThreadPoolExecutor) -> None:
        dependency = made(rate_limit=RateLimit(100, per=1, burst=1, max_wait=10))
        began: list[float] = []
        futures = [
            threads.submit(dependency.call, lambda: began.append(clocks.monotonic())) for _ in range(5)
        ]
        for future in futures:
            future.result(PATIENCE)
        began.sort()
        assert began[-1] - began[0] >= 0.04 - 0.001

    def test_a_thread_that_is_interrupted_gives_its_turn_back(
        self, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dependency = made(rate_limit=ONE_IN_TEN)
        dependency.call(str)

        def interrupt(_seconds: float) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(clocks, "sleep", interrupt)
            with pytest.raises(KeyboardInterrupt):
                dependency.call(str)
        dependency.call(str)
        assert clock.now == pytest.approx(10)
        assert_at_rest(dependency)

    @given(
        limit=st.integers(1, 5),
        burst=st.integers(1, 4),
        arrivals=st.lists(st.integers(0, 30).map(lambda n: n / 4), min_size=1, max_size=15),
        patience=st.sampled_from((0.0, 0.5, 3.0, 20.0)),
    )
    def test_no_stretch_of_time_sees_more_than_the_burst_and_the_rate(
        self, limit: int, burst: int, arrivals: list[float], patience: float
    ) -> None:
        began: list[float] = []
        refused: list[BaseException] = []
        with VirtualClock() as clock:
            dependency = made(rate_limit=RateLimit(limit, burst=burst, max_wait=patience), retry=None)

            async def work() -> None:
                began.append(clock.now)

            async def one(arrival: float) -> None:
                await clock.asleep(arrival)
                try:
                    await dependency.call(work)
                except RateLimited as error:
                    refused.append(error)

            run_async("asyncio", lambda: together("asyncio", *(partial(one, at) for at in arrivals)))
        assert len(began) + len(refused) == len(arrivals)
        assert all(
            later - earlier >= (n - burst) / limit - 1e-6
            for first, earlier in enumerate(began)
            for n, later in enumerate(began[first:])
        )
        assert_at_rest(dependency)


@pytest.mark.parametrize("loop", LOOPS)
class TestTasksAndTheRate:
    def test_waiters_are_spaced_evenly_in_the_order_they_came(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(1, per=2, burst=1, max_wait=100))
        began: list[tuple[int, float]] = []

        async def work(number: int) -> None:
            began.append((number, clock.now))

        async def one(number: int) -> None:
            await clock.asleep(number / 100)
            await dependency.call(work, number)

        run_async(loop, lambda: together(loop, *(partial(one, number) for number in range(4))))
        assert began == [(number, pytest.approx(2 * number, abs=1e-6)) for number in range(4)]

    def test_fifty_parallel_calls_share_the_pause_that_the_server_asked_of_one(
        self, loop: str, clock: VirtualClock
    ) -> None:
        """B152."""
        policy = Retry(attempts=2, deadline=300)
        dependency = made(rate_limit=RateLimit(50, burst=1, max_wait=200), retry=policy)
        began: list[float] = []

        async def work() -> str:
            began.append(clock.now)
            if len(began) == 1:
                raise busy(ConnectionError("429"), after=30)
            return "ok"

        works = [partial(dependency.call, work)] * 50
        assert run_async(loop, lambda: together(loop, *works)) == ["ok"] * 50
        assert [one for one in began if one < 30] == [0]
        gaps = [later - earlier for earlier, later in pairwise(began[1:])]
        assert min(gaps) >= 0.02 - 1e-6, "after the pause they go out one by one"

    def test_whoever_waits_already_waits_for_the_pause_as_well(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(1, burst=1, max_wait=60), retry=None)
        began: list[float] = []

        async def work(number: int) -> None:
            began.append(clock.now)
            await clock.asleep(0.5)
            if number == 0:
                raise busy(ConnectionError(), after=20)

        async def one(number: int) -> None:
            await clock.asleep(number / 10)
            await dependency.outcome(work, number)

        run_async(loop, lambda: together(loop, *(partial(one, number) for number in range(4))))
        assert began == pytest.approx([0, 20.5, 21.5, 22.5], abs=1e-3)

    def test_the_time_that_was_waited_counts_when_the_pause_comes(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(rate_limit=RateLimit(1, burst=1, max_wait=8), retry=None)

        async def work(number: int) -> None:
            await clock.asleep(0.5)
            if number == 0:
                raise busy(ConnectionError(), after=8)

        async def second() -> Any:
            await clock.asleep(0.1)
            outcome = await dependency.outcome(work, 1)
            return outcome.error, clock.now

        _, (error, now) = run_async(
            loop, lambda: together(loop, partial(dependency.outcome, work, 0), second)
        )
        assert isinstance(error, RateLimited), "0.9 s of its 8 were gone when it heard of 7.5 more"
        assert now == pytest.approx(1)

    def test_a_cancelled_waiter_gives_its_turn_to_the_next_who_asks(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(rate_limit=ONE_IN_TEN)
        began: list[float] = []

        async def work() -> None:
            began.append(clock.now)

        async def main() -> None:
            await dependency.call(work)
            await cancelled_after(loop, clock, 3, lambda: dependency.call(work))
            await dependency.call(work)

        run_async(loop, main)
        assert began == pytest.approx([0, 10])
        assert_at_rest(dependency)

    def test_each_key_has_its_own(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(1, per=10, burst=1), key=lambda host: host)

        async def work(host: str) -> str:
            return host

        async def main() -> list[Any]:
            return [await dependency.outcome(work, host) for host in ("a", "b", "a", "b")]

        outcomes = run_async(loop, main)
        assert [one.value for one in outcomes] == ["a", "b", None, None]
        assert isinstance(outcomes[2].error, RateLimited)

    def test_a_hint_pauses_its_own_key_only(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(100, burst=100), retry=None)

        async def main() -> list[Any]:
            await dependency.at("a").outcome(Script(busy(ConnectionError(), after=5)).asynchronous)
            return [await dependency.at(key).outcome(Script("ok").asynchronous) for key in ("a", "b")]

        a, b = run_async(loop, main)
        assert isinstance(a.error, RateLimited)
        assert b.ok

    def test_closing_ends_the_wait(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=ONE_IN_TEN)

        async def close() -> bool:
            await clock.asleep(1)
            return await perdure.aclose(grace=5)

        async def main() -> list[Any]:
            await dependency.call(Script("ok").asynchronous)
            return await together(loop, partial(dependency.outcome, Script().asynchronous), close)

        outcome, closed = run_async(loop, main)
        assert closed is True
        assert isinstance(outcome.error, perdure.ShuttingDown)
        assert clock.now < 2


# -- refusals, and what is told ----------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
def test_a_refusal_by_a_limit_is_no_failure_of_the_dependency(colour: str, clock: VirtualClock) -> None:
    breaker = perdure.Breaker(failures=1)
    dependency = made(rate_limit=RateLimit(1, per=10, burst=1), breaker=breaker)
    called(colour, dependency, "ok")
    for _ in range(5):
        assert isinstance(called(colour, dependency, "never").error, RateLimited)
    snapshot = dependency.snapshot()
    assert snapshot["breaker"]["state"] == "closed"
    assert snapshot["counters"]["failed"] == 0
    assert snapshot["counters"]["refused"] == {"rate_limit": 5}


@pytest.mark.parametrize("colour", COLOURS)
def test_an_open_breaker_refuses_before_anybody_waits_for_a_limit(colour: str, clock: VirtualClock) -> None:
    breaker = perdure.Breaker(failures=1, cooldown=20)
    dependency = made(rate_limit=ONE_IN_TEN, breaker=breaker, retry=None)
    called(colour, dependency, ConnectionError())
    played = called(colour, dependency, "never")
    assert isinstance(played.error, perdure.BreakerOpen)
    assert clock.now == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_refusals_are_told_with_the_time_to_come_back(loop: str, clock: VirtualClock) -> None:
    dependency = made(rate_limit=RateLimit(1, per=10, burst=1))

    async def main() -> None:
        await dependency.outcome(Script("ok").asynchronous)
        await turn(loop)
        await dependency.outcome(Script().asynchronous)

    with record_events() as seen:
        run_async(loop, main)
    (told,) = [event for event in seen if event.name == "limit.rejected"]
    assert (told.dependency, told.severity, told.reason) == ("payments", "warning", "RateLimited")
    assert told.delay == pytest.approx(10)
    assert seen[-1].name == "call.end"
    assert seen[-1].attempt == 0

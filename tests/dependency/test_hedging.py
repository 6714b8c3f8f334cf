"""Hedged attempts in async code: when a copy is sent, who wins, and what becomes of the others."""

from __future__ import annotations

import asyncio
import gc
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import (
    AttemptTimeout,
    Budget,
    Bulkhead,
    ConfigError,
    Constant,
    DeadlineExceeded,
    Hedge,
    RateLimit,
    Retry,
    Safety,
    Timeouts,
)
from perdure.testing import Script, VirtualClock, disabled, record_events, took
from tests.dependency.made import assert_at_rest, called, made, state_of
from tests.engine.model import Leave
from tests.engine.tasks import LOOPS, cancelled_after, together
from tests.harness import play, run_async

if TYPE_CHECKING:
    from perdure import Dependency

NEVER = took(1000, "too late")


def hedged(**parts: Any) -> Dependency:
    """A dependency that sends a copy after a second."""
    return made(**({"hedge": Hedge(delay=1)} | parts))


def hedges(names: list[str]) -> list[str]:
    """What was told of hedges."""
    return [name.removeprefix("hedge.") for name in names if name.startswith("hedge.")]


class Copies:
    """Calls that run until they are cancelled and say so; each takes ``cleanup`` seconds to leave."""

    def __init__(self, clock: VirtualClock, *answers: object, cleanup: float = 0) -> None:
        self.clock = clock
        self.script = Script(*answers)
        self.cleanup = cleanup
        self.running = 0
        self.ended: list[tuple[str, float]] = []

    async def __call__(self) -> Any:
        self.running += 1
        try:
            value = await self.script.asynchronous()
        except Exception:
            self.ended.append(("failed", self.clock.now))
            raise
        except BaseException:
            if self.cleanup and len(self.script.calls) == 2:
                await self._leave()
            self.ended.append(("cancelled", self.clock.now))
            raise
        else:
            self.ended.append(("won", self.clock.now))
            return value
        finally:
            self.running -= 1

    async def _leave(self) -> None:
        import trio

        from perdure.engine.waiting import in_trio

        if not in_trio():
            await self.clock.asleep(self.cleanup)
            return
        with trio.CancelScope(shield=True):
            await self.clock.asleep(self.cleanup)


# -- when a copy is sent -------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestWhen:
    def test_a_copy_is_sent_after_the_delay_and_its_value_is_the_calls(self, loop: str) -> None:
        dependency = hedged()
        played = play(loop, dependency, NEVER, took(0.25, "copy"))
        assert (played.value, played.calls) == ("copy", 2)
        assert played.elapsed == pytest.approx(1.25)
        assert hedges(played.names) == ["launched", "won"]
        assert_at_rest(dependency)

    def test_an_attempt_that_ends_sooner_has_none(self, loop: str) -> None:
        played = play(loop, hedged(), took(0.999, "fast"))
        assert (played.value, played.calls) == ("fast", 1)
        assert hedges(played.names) == []

    def test_one_that_fails_sooner_is_retried_instead(self, loop: str) -> None:
        dependency = hedged(retry=Retry(backoff=Constant(3)))
        played = play(loop, dependency, took(0.5, ConnectionError()), "ok")
        assert (played.value, played.calls) == ("ok", 2)
        assert hedges(played.names) == []
        assert played.elapsed == pytest.approx(3.5)

    def test_the_delay_is_the_usual_p95_once_twenty_are_known(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged(hedge=Hedge())
        for _ in range(19):
            called(loop, dependency, took(0.1, "ok"))
        for number in range(6):
            played = called(loop, dependency, took(9.0 if number == 0 else 0.1, "ok"))
            assert hedges(played.names) == [], "too few were known, or it was as fast as usual"
        played = called(loop, dependency, NEVER, "copy")
        assert (played.value, played.calls) == ("copy", 2)
        assert 0.1 <= played.elapsed <= 0.111, "the quantile is at most a bucket too high"

    def test_the_delay_follows_the_latencies(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged(hedge=Hedge(quantile=0.5))
        for _ in range(30):
            called(loop, dependency, took(0.1, "ok"))
        for _ in range(40):
            state_of(dependency).latencies.add(clock.now, 2.0)
        played = called(loop, dependency, NEVER, "copy")
        assert 2 <= played.elapsed <= 2.22

    def test_a_delay_of_nothing_sends_both_at_once(self, loop: str) -> None:
        played = play(loop, hedged(hedge=Hedge(delay=0)), took(5, "slow"), took(2, "fast"))
        assert (played.value, played.calls) == ("fast", 2)
        assert played.elapsed == pytest.approx(2, abs=0.01)

    def test_no_more_than_max_hedges_are_sent(self, loop: str) -> None:
        dependency = hedged(hedge=Hedge(delay=1, max_hedges=2), budget=Budget(start=5))
        played = play(loop, dependency, NEVER, NEVER, took(4, "third"))
        assert (played.value, played.calls) == ("third", 3)
        assert played.elapsed == pytest.approx(6)
        assert hedges(played.names) == ["launched", "launched", "won"]
        assert_at_rest(dependency)

    def test_each_attempt_may_have_its_copies(self, loop: str) -> None:
        dependency = hedged(retry=Retry(attempts=2, backoff=Constant(1)), budget=Budget(start=5))
        fails = took(1.5, ConnectionError())
        played = play(loop, dependency, fails, fails, NEVER, took(1, "at last"))
        assert (played.value, played.calls) == ("at last", 4)
        starts = [event.attempt for event in played.events if event.name == "attempt.start"]
        assert starts == [1, 2], "copies are no attempts"
        assert_at_rest(dependency)


# -- who wins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestWho:
    def test_the_first_success_wins_although_another_failed_before(self, loop: str) -> None:
        dependency = hedged()
        played = play(loop, dependency, took(2, ConnectionError()), took(5, "copy"))
        assert (played.value, played.calls) == ("copy", 2)
        assert played.elapsed == pytest.approx(6)
        assert "retry.scheduled" not in played.names
        assert dependency.snapshot()["counters"]["failed"] == 1, "the dependency is told of the failure"
        assert_at_rest(dependency)

    def test_a_copy_that_fails_leaves_it_to_the_first(self, loop: str) -> None:
        dependency = hedged()
        played = play(loop, dependency, took(5, "first"), took(1, ConnectionError()))
        assert (played.value, played.elapsed) == ("first", pytest.approx(5))
        assert hedges(played.names) == ["launched"]
        assert_at_rest(dependency)

    @pytest.mark.parametrize(("first", "second"), [(2, 5), (5, 2)])
    def test_when_all_fail_the_error_is_that_of_the_first_copy(
        self, loop: str, first: float, second: float
    ) -> None:
        error = ConnectionError("first")
        dependency = hedged(retry=Retry(attempts=1), budget=None)
        played = play(loop, dependency, took(first, error), took(second, ConnectionError("second")))
        assert played.error is error
        assert played.elapsed == pytest.approx(max(first, second + 1))
        assert dependency.snapshot()["counters"]["failed"] == 2
        assert_at_rest(dependency)

    def test_the_breaker_hears_of_every_copy(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged(retry=Retry(attempts=1), budget=None, breaker=perdure.Breaker(failures=2))
        called(loop, dependency, took(2, ConnectionError()), took(2, ConnectionError()))
        assert dependency.snapshot()["breaker"]["state"] == "open"

    def test_an_outcome_counts_attempts_and_not_copies(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged()
        outcome = run_async(loop, lambda: dependency.outcome(Script(NEVER, "copy").asynchronous))
        assert (outcome.ok, outcome.value, outcome.attempts) == (True, "copy", 1)

    def test_a_result_that_is_rejected_is_retried(self, loop: str) -> None:
        policy = Retry(attempts=4, reject=lambda value: value == "bad", backoff=Constant(0))
        dependency = hedged(retry=policy)
        played = play(loop, dependency, NEVER, "bad", "good")
        assert (played.value, played.calls) == ("good", 3)
        assert_at_rest(dependency)


# -- what becomes of the others ------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestLosers:
    def test_the_loser_is_cancelled_and_awaited(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged()
        copies = Copies(clock, NEVER, took(2, "copy"), cleanup=0.5)
        assert run_async(loop, lambda: dependency.call(copies)) == "copy"
        assert copies.running == 0
        assert copies.ended == [("won", 3), ("cancelled", 3.5)]
        assert clock.now == 3.5, "the call is not over while a copy of it runs"
        assert_at_rest(dependency)

    def test_its_latency_counts(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged()
        called(loop, dependency, NEVER, took(2, "copy"))
        latencies = state_of(dependency).latencies
        assert latencies.count == 2
        longest = latencies.quantile(1.0)
        assert longest is not None
        assert 3 <= longest <= 3.3, "it would have taken at least so long"

    def test_it_says_nothing_else_about_the_dependency(self, loop: str) -> None:
        dependency = hedged(breaker=perdure.Breaker(failures=1))
        play(loop, dependency, NEVER, "copy")
        counters = dependency.snapshot()["counters"]
        assert (counters["failed"], counters["neutral"], counters["succeeded"]) == (0, 1, 1)
        assert dependency.snapshot()["breaker"]["state"] == "closed"

    @pytest.mark.parametrize("seconds", [0.5, 1.5, 3.0])
    def test_outer_cancellation_cancels_all_copies(
        self, loop: str, clock: VirtualClock, seconds: float
    ) -> None:
        dependency = hedged()
        copies = Copies(clock, NEVER, NEVER)
        run_async(loop, lambda: cancelled_after(loop, clock, seconds, lambda: dependency.call(copies)))
        assert copies.running == 0
        assert {end for end, _ in copies.ended} == {"cancelled"}
        assert clock.now == pytest.approx(seconds)
        assert_at_rest(dependency)

    def test_outer_cancellation_after_the_first_copy_failed_leaves_nothing_behind(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = hedged()
        copies = Copies(clock, took(2, ConnectionError()), NEVER)
        run_async(loop, lambda: cancelled_after(loop, clock, 3, lambda: dependency.call(copies)))
        assert copies.ended == [("failed", 2), ("cancelled", 3)]
        assert dependency.snapshot()["counters"]["failed"] == 1
        assert_at_rest(dependency)

    def test_outer_cancellation_as_the_copy_wins_leaves_nothing_behind(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = hedged()
        copies = Copies(clock, NEVER, took(2, "copy"), cleanup=1)
        run_async(loop, lambda: cancelled_after(loop, clock, 3, lambda: dependency.call(copies)))
        assert copies.running == 0
        assert_at_rest(dependency)

    @pytest.mark.parametrize("seconds", [(2, 3), (4, 1)], ids=["the first", "the copy"])
    def test_leftovers_need_no_collector_whoever_fails_before_the_other(
        self, loop: str, clock: VirtualClock, seconds: tuple[float, float]
    ) -> None:
        class Failed(ConnectionError):
            pass

        left: list[weakref.ref[Failed]] = []

        async def work() -> None:
            number = len(left)
            error = Failed(number)
            left.append(weakref.ref(error))
            try:
                await clock.asleep(seconds[number])
                raise error
            finally:
                del error

        dependency = hedged(retry=Retry(attempts=1), budget=None)

        async def main() -> list[bool]:
            try:
                await dependency.call(work)
            except Failed:
                pass
            return [ref() is None for ref in left]

        gc.collect()
        gc.disable()
        try:
            run_async(loop, main)
            assert [ref() is None for ref in left] == [True, True]
        finally:
            gc.enable()

    @pytest.mark.parametrize("who", ["first", "copy"])
    @pytest.mark.parametrize("kind", [Leave, KeyboardInterrupt])
    def test_what_is_no_failure_passes_at_once(
        self, loop: str, clock: VirtualClock, who: str, kind: type[BaseException]
    ) -> None:
        dependency = hedged()
        leave = kind()
        script = (took(2, leave), NEVER) if who == "first" else (NEVER, took(1, leave))
        copies = Copies(clock, *script)
        with pytest.raises(kind) as caught:
            run_async(loop, lambda: dependency.call(copies))
        assert caught.value is leave
        assert copies.running == 0
        assert clock.now == 2
        assert dependency.snapshot()["counters"]["neutral"] == 2
        assert_at_rest(dependency)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("who", [0, 1])
def test_what_passes_through_needs_no_collector_either(loop: str, who: int, clock: VirtualClock) -> None:
    left: list[weakref.ref[Leave]] = []
    started: list[None] = []

    async def work() -> None:
        started.append(None)
        if len(started) != who + 1:
            await clock.asleep(100)
        await clock.asleep(2)
        error = Leave()
        left.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    async def main() -> None:
        try:
            await hedged().call(work)
        except Leave:
            pass

    gc.collect()
    gc.disable()
    try:
        run_async(loop, main)
        assert [ref() for ref in left] == [None]
    finally:
        gc.enable()


def test_a_copy_that_outlives_a_second_cancellation_reports_when_it_ends(clock: VirtualClock) -> None:
    dependency = hedged()
    copies = Copies(clock, NEVER, NEVER, cleanup=5)

    async def main() -> None:
        task = asyncio.ensure_future(dependency.call(copies))
        for _ in range(2):
            await clock.asleep(2)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert copies.running == 2
        assert len(state_of(dependency).flight) == 2
        await clock.asleep(10)

    asyncio.run(main())
    assert copies.running == 0
    assert_at_rest(dependency)


def test_a_copy_that_cancels_itself_is_no_failure(clock: VirtualClock) -> None:
    dependency = hedged()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(dependency.call(Script(took(2, asyncio.CancelledError()), NEVER).asynchronous))
    assert clock.now == 2
    assert_at_rest(dependency)


# -- ends and timeouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestEnds:
    def test_each_copy_has_the_whole_attempt_timeout(self, loop: str) -> None:
        dependency = hedged(retry=Retry(attempts=1, attempt_timeout=3), budget=None)
        played = play(loop, dependency, NEVER, NEVER)
        assert isinstance(played.error, AttemptTimeout)
        assert played.elapsed == pytest.approx(4)
        assert dependency.snapshot()["counters"]["failed"] == 2
        assert_at_rest(dependency)

    def test_a_copy_may_succeed_after_the_first_timed_out(self, loop: str) -> None:
        dependency = hedged(retry=Retry(attempts=1, attempt_timeout=3), budget=None)
        played = play(loop, dependency, NEVER, took(2.5, "copy"))
        assert (played.value, played.elapsed) == ("copy", pytest.approx(3.5))

    def test_the_end_of_the_call_cuts_all_copies(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged(timeouts=Timeouts(connect=None, read=None, total=2.5))
        copies = Copies(clock, NEVER, NEVER)
        outcome = run_async(loop, lambda: dependency.outcome(copies))
        assert isinstance(outcome.error, DeadlineExceeded)
        assert outcome.stop == "deadline"
        assert (copies.running, clock.now) == (0, 2.5)
        assert dependency.snapshot()["counters"]["failed"] == 2, "each had half of the call or more"
        assert_at_rest(dependency)

    def test_so_does_a_block_around_it(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged()
        copies = Copies(clock, NEVER, NEVER)

        async def main() -> None:
            with perdure.deadline(2.5):
                await dependency.call(copies)

        with pytest.raises(DeadlineExceeded):
            run_async(loop, main)
        assert (copies.running, clock.now) == (0, 2.5)
        assert dependency.snapshot()["counters"]["failed"] == 0
        assert_at_rest(dependency)

    def test_copies_see_what_is_left(self, loop: str, clock: VirtualClock) -> None:
        left: list[float | None] = []
        dependency = hedged(retry=Retry(attempt_timeout=5), timeouts=Timeouts(total=5.5))

        async def work() -> None:
            left.append(perdure.time_left())
            await clock.asleep(1.5 if len(left) == 2 else 100)

        run_async(loop, lambda: dependency.call(work))
        assert left == pytest.approx([5, 4.5])


# -- what a copy costs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestPrice:
    def test_a_copy_is_paid_for_like_a_retry(self, loop: str) -> None:
        dependency = hedged(budget=Budget(start=4, per_success=0.25))
        play(loop, dependency, NEVER, "copy")
        snapshot = dependency.snapshot()
        assert snapshot["budget"]["tokens"] == pytest.approx(3.25)
        assert (snapshot["counters"]["hedges"], snapshot["counters"]["retries"]) == (1, 0)

    def test_a_share_of_traffic_pays_for_it_too(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged(budget=Budget(max_ratio=0.1, start=1))
        assert hedges(called(loop, dependency, NEVER, "copy").names) == ["launched", "won"]
        played = called(loop, dependency, took(5, "alone"))
        assert hedges(played.names) == ["suppressed"]
        assert (played.value, played.elapsed) == ("alone", 5)

    def test_none_is_sent_while_the_budget_is_half_empty(self, loop: str) -> None:
        for start, sent in ((2.4, 0), (2.5, 1)):
            dependency = hedged(budget=Budget(start=start, cap=5))
            played = play(loop, dependency, took(5, "first"), NEVER)
            assert played.value == "first"
            assert dependency.snapshot()["counters"]["hedges"] == sent
            assert hedges(played.names) == (["launched"] if sent else ["suppressed"])

    def test_none_is_sent_while_the_gate_is_cut(self, loop: str) -> None:
        dependency = hedged()
        gate = state_of(dependency).gate
        assert gate is not None
        gate.limit = 500.0
        gate._signal_at = 0.0
        played = play(loop, dependency, took(5, "first"))
        assert (played.value, played.calls) == ("first", 1)
        assert hedges(played.names) == ["suppressed"]
        (told,) = [event for event in played.events if event.name == "hedge.suppressed"]
        assert told.reason == "the gate is cut or the budget half empty"

    @pytest.mark.parametrize(
        "part",
        [{"bulkhead": Bulkhead(1, queue=5)}, {"rate_limit": RateLimit(1, per=60, burst=1, max_wait=5)}],
        ids=["bulkhead", "rate limit"],
    )
    def test_a_copy_waits_for_no_limit_and_costs_nothing_where_it_would_have_to(
        self, loop: str, part: dict[str, Any]
    ) -> None:
        dependency = hedged(**part)
        played = play(loop, dependency, took(5, "first"))
        assert (played.value, played.elapsed) == ("first", 5)
        assert hedges(played.names) == ["suppressed"]
        assert dependency.snapshot()["budget"]["tokens"] == pytest.approx(3.5)
        assert dependency.snapshot()["counters"]["hedges"] == 0
        assert_at_rest(dependency)

    def test_a_copy_that_finds_the_bulkhead_full_gives_its_turn_back(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = hedged(bulkhead=Bulkhead(1), rate_limit=RateLimit(1, per=60, burst=2))
        called(loop, dependency, took(5, "first"))
        assert called(loop, dependency, took(0.5, "second")).value == "second"

    def test_a_copy_takes_a_place_of_its_own(self, loop: str, clock: VirtualClock) -> None:
        dependency = hedged(bulkhead=Bulkhead(2))
        seen: list[int] = []

        async def look() -> None:
            await clock.asleep(1.5)
            places = state_of(dependency).places
            assert places is not None
            seen.append(places.taken)

        call = partial(dependency.call, Script(took(3, "first"), NEVER).asynchronous)
        run_async(loop, lambda: together(loop, call, look))
        assert seen == [2]
        assert_at_rest(dependency)

    def test_none_is_sent_while_perdure_is_disabled(self, loop: str) -> None:
        with disabled():
            played = play(loop, hedged(), took(5, "first"))
        assert (played.value, played.calls) == ("first", 1)


@pytest.mark.parametrize(
    "parts",
    [{"safety": Safety.UNSAFE}, {"retry": Retry(safety=Safety.UNSAFE)}],
    ids=["of the dependency", "of the policy"],
)
def test_an_operation_that_may_not_be_sent_twice_is_not_hedged(parts: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^hedge sends an operation twice, which safety=UNSAFE forbids"):
        hedged(**parts)
    with pytest.raises(ConfigError, match=r"^hedge sends an operation twice"):
        hedged().using(**parts)
    assert hedged().using(hedge=None, **parts).call(str) == ""


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_told_of_a_hedge_names_the_call(loop: str, clock: VirtualClock) -> None:
    dependency = hedged()
    with record_events() as seen:
        run_async(loop, lambda: dependency.at("eu").call(Script(NEVER, "copy").asynchronous))
    launched, won = (event for event in seen if event.name.startswith("hedge."))
    assert (launched.name, won.name) == ("hedge.launched", "hedge.won")
    for event in (launched, won):
        assert (event.dependency, event.key, event.attempt) == ("payments", "eu", 1)
        assert event.call_id == seen[0].call_id
        assert event.operation.endswith("script")


@pytest.mark.parametrize("colour", ["block", "asyncio-block", "trio-block"])
def test_a_block_has_no_copies(colour: str) -> None:
    played = play(colour, hedged(), took(5, "slow"))
    assert (played.value, played.calls, hedges(played.names)) == ("slow", 1, [])

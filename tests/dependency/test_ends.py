"""The end of a whole call, the bound on its attempts, and whose failure it is when time runs out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import (
    AttemptTimeout,
    Breaker,
    ConfigError,
    Constant,
    DeadlineExceeded,
    Retry,
    Timeouts,
    attempts_of,
)
from perdure.testing import Script, VirtualClock, took
from tests.dependency.made import assert_at_rest, called, made, state_of
from tests.engine.tasks import LOOPS, together
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

if TYPE_CHECKING:
    from perdure import Outcome

HANGS = took(1000, "too late")
SYNC_COLOURS = [colour for colour in COLOURS if colour not in ASYNC_COLOURS]
EVERY_SECOND = Retry(attempts=9, backoff=Constant(1))


def until(total: float, **options: Any) -> Timeouts:
    """An end of the call, and no bound on attempts."""
    return Timeouts(**({"connect": None, "read": None} | options), total=total)


def outcome_of(loop: str, dependency: Any, *outcomes: object) -> Outcome[Any]:
    """The outcome of an async call."""
    return run_async(loop, lambda: dependency.outcome(Script(*outcomes).asynchronous))  # type: ignore[no-any-return]


# -- the end of the call, async ------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestTotalInTasks:
    @pytest.mark.parametrize("total", [0.001, 0.25, 2, 3600])
    def test_it_interrupts_an_attempt_exactly(self, loop: str, total: float) -> None:
        dependency = made(timeouts=until(total))
        played = play(loop, dependency, took(10_000, "late"))
        assert type(played.error) is DeadlineExceeded
        assert isinstance(played.error, TimeoutError)
        assert played.elapsed == pytest.approx(total, abs=1e-9)
        assert_at_rest(dependency)

    def test_it_interrupts_a_later_attempt_as_well(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(timeouts=until(4), retry=EVERY_SECOND)
        error = ConnectionError("the first")
        outcome = outcome_of(loop, dependency, took(1.5, error), HANGS)
        assert isinstance(outcome.error, DeadlineExceeded)
        assert outcome.error.__cause__ is error
        assert str(outcome.error) == "the deadline of 4 s was exceeded"
        assert (outcome.stop, outcome.attempts) == ("deadline", 2)
        assert outcome.elapsed == pytest.approx(4)
        assert_at_rest(dependency)

    def test_its_cause_is_the_last_failure(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(timeouts=until(5), retry=EVERY_SECOND)
        last = ConnectionError("the second")
        outcome = outcome_of(loop, dependency, took(1, ConnectionError()), took(1, last), HANGS)
        assert outcome.error is not None
        assert outcome.error.__cause__ is last

    def test_a_wait_that_would_pass_it_is_not_begun(self, loop: str) -> None:
        dependency = made(timeouts=until(4), retry=Retry(attempts=9, backoff=Constant(3)))
        error = ConnectionError()
        played = play(loop, dependency, took(1.5, error))
        assert played.error is error, "the original error, at once"
        assert played.elapsed == pytest.approx(1.5)
        assert played.events[-1].reason == "deadline"

    @pytest.mark.parametrize("hedge", [None, perdure.Hedge(delay=1)], ids=["alone", "hedged"])
    def test_it_is_told_once_and_ends_attempt_and_call(self, loop: str, hedge: Any) -> None:
        told: list[Any] = []
        dependency = made(timeouts=until(3), hedge=hedge, on_exhausted=told.append)
        played = play(loop, dependency, HANGS, HANGS)
        names = [name for name in played.names if not name.startswith(("hedge", "gate"))]
        assert names == [
            "call.start",
            "attempt.start",
            "attempt.end",
            "deadline.exceeded",
            "retry.suppressed",
            "call.end",
        ]
        assert played.events[-1].reason == "deadline"
        (outcome,) = told
        assert (outcome.stop, outcome.error) == ("deadline", played.error)

    def test_a_success_just_before_it_counts(self, loop: str) -> None:
        assert play(loop, made(timeouts=until(3)), took(2.999, "ok")).value == "ok"

    def test_the_wait_for_a_place_ends_there_too(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(timeouts=until(3), bulkhead=perdure.Bulkhead(1, queue=1))
        scripts = [Script(HANGS), Script(HANGS)]
        works = [partial(dependency.outcome, script.asynchronous) for script in scripts]
        outcomes = run_async(loop, lambda: together(loop, *works))
        assert clock.now == pytest.approx(3)
        assert all(isinstance(one.error, (DeadlineExceeded, perdure.BulkheadFull)) for one in outcomes)
        assert sum(len(script.calls) for script in scripts) == 1
        assert_at_rest(dependency)

    def test_a_decorated_function_has_it(self, loop: str, clock: VirtualClock) -> None:
        guarded = made(timeouts=until(2))(Script(HANGS).asynchronous)
        with pytest.raises(DeadlineExceeded):
            run_async(loop, guarded)
        assert clock.now == pytest.approx(2)

    def test_a_plain_function_that_returns_a_coroutine_has_it(self, loop: str, clock: VirtualClock) -> None:
        script = Script(HANGS)
        guarded = made(timeouts=until(2))(lambda: script.asynchronous())

        async def main() -> None:
            await guarded()

        with pytest.raises(DeadlineExceeded):
            run_async(loop, main)
        assert clock.now == pytest.approx(2)

    def test_the_call_sees_what_is_left(self, loop: str, clock: VirtualClock) -> None:
        left: list[float | None] = []

        async def work() -> None:
            left.append(perdure.time_left())
            await clock.asleep(0.9)
            raise ConnectionError

        dependency = made(timeouts=until(5), retry=Retry(attempts=3, backoff=Constant(1)))
        with pytest.raises(ConnectionError):
            run_async(loop, lambda: dependency.call(work))
        assert left == pytest.approx([5, 3.1, 1.2])

    def test_nothing_is_left_of_it_afterwards(self, loop: str, clock: VirtualClock) -> None:
        async def main() -> float | None:
            await made(timeouts=until(5)).call(Script("ok").asynchronous)
            return perdure.time_left()

        assert run_async(loop, main) is None

    def test_a_view_may_have_another(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(timeouts=until(9))
        assert outcome_of(loop, dependency.using(timeouts=until(2)), HANGS).elapsed == pytest.approx(2)
        assert outcome_of(loop, dependency.using(timeouts=None), took(20, "ok")).value == "ok"
        assert outcome_of(loop, dependency, HANGS).elapsed == pytest.approx(9)


@pytest.mark.parametrize("colour", ["asyncio-block", "trio-block"])
class TestTotalInBlocks:
    def test_it_interrupts_a_later_attempt_exactly(self, colour: str) -> None:
        told: list[Any] = []
        dependency = made(timeouts=until(4), retry=EVERY_SECOND, on_exhausted=told.append)
        played = play(colour, dependency, took(1.5, ConnectionError()), HANGS)
        assert isinstance(played.error, DeadlineExceeded)
        assert (played.calls, played.elapsed) == (2, pytest.approx(4))
        assert [one.stop for one in told] == ["deadline"]
        assert_at_rest(dependency)

    def test_an_attempt_that_had_the_whole_call_to_itself_has_timed_out(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = made(timeouts=until(4), breaker=Breaker(failures=1), retry=None)
        called(colour, dependency, HANGS)
        assert dependency.snapshot()["breaker"]["state"] == "open"
        assert clock.now == pytest.approx(4)

    def test_an_attempt_that_began_late_in_it_says_nothing(self, colour: str, clock: VirtualClock) -> None:
        patient = Retry(attempts=2, backoff=Constant(3))
        dependency = made(timeouts=until(4), breaker=Breaker(failures=2), retry=patient)
        called(colour, dependency, ConnectionResetError(), HANGS)
        assert clock.now == pytest.approx(4)
        assert dependency.snapshot()["breaker"]["state"] == "closed"


# -- the end of the call, sync -------------------------------------------------------------------------


class TestTotalInThreads:
    def test_it_interrupts_no_plain_function(self) -> None:
        played = play("sync", made(timeouts=until(3)), took(10, "late"))
        assert (played.value, played.elapsed) == ("late", 10)

    def test_no_attempt_begins_after_it(self) -> None:
        error = ConnectionError()
        dependency = made(timeouts=until(3), retry=EVERY_SECOND)
        played = play("sync", dependency, ConnectionError(), took(5, error))
        assert played.error is error
        assert (played.calls, played.elapsed) == (2, 6)
        assert played.events[-1].reason == "deadline"
        assert_at_rest(dependency)

    def test_the_function_sees_what_is_left(self, clock: VirtualClock) -> None:
        left: list[float | None] = []

        def work() -> None:
            left.append(perdure.time_left())
            clock.sleep(1)
            raise ConnectionError

        dependency = made(timeouts=until(5), retry=Retry(attempts=3, backoff=Constant(1)))
        with pytest.raises(ConnectionError):
            dependency.call(work)
        assert left == [5, 3, 1]
        assert perdure.time_left() is None

    def test_it_sees_the_nearer_of_both_bounds(self, clock: VirtualClock) -> None:
        dependency = made(timeouts=Timeouts(connect=1, read=2, total=5))
        policy = dependency.using(retry=Retry(attempts=2, backoff=Constant(3.5)))
        left: list[float | None] = []

        def work() -> None:
            left.append(perdure.time_left())
            raise ConnectionError

        with pytest.raises(ConnectionError):
            policy.call(work)
        assert left == [3, 1.5]


# -- deadlines and attempt timeouts of a dependency ----------------------------------------------------


class TestDefaults:
    @pytest.mark.parametrize(
        ("parts", "deadline"),
        [
            ({}, 30),
            ({"timeouts": Timeouts()}, 30),
            ({"timeouts": Timeouts(total=60)}, 60),
            ({"timeouts": Timeouts(total=20)}, 20),
            ({"timeouts": Timeouts(total=20), "retry": Retry(deadline=10)}, 10),
            ({"timeouts": Timeouts(total=20), "retry": Retry(deadline=None)}, None),
        ],
    )
    def test_the_deadline_is_what_was_given_or_the_total_or_thirty(
        self, parts: dict[str, Any], deadline: float | None
    ) -> None:
        assert made(**parts)._guard.retry.deadline == deadline

    @pytest.mark.parametrize("colour", ASYNC_COLOURS)
    @pytest.mark.parametrize(
        ("parts", "bound"),
        [
            ({"timeouts": Timeouts()}, 15),
            ({"timeouts": Timeouts(connect=1, read=2)}, 3),
            ({"timeouts": Timeouts(), "retry": Retry(attempts=1, attempt_timeout=4)}, 4),
            ({"timeouts": Timeouts(connect=None)}, None),
            ({}, None),
        ],
    )
    def test_an_attempt_may_take_connect_and_read_together(
        self, colour: str, parts: dict[str, Any], bound: float | None
    ) -> None:
        dependency = made(**({"retry": Retry(attempts=1)} | parts))
        played = play(colour, dependency, HANGS)
        if bound is None:
            assert (played.value, played.elapsed) == ("too late", 1000)
        else:
            assert isinstance(played.error, AttemptTimeout)
            assert played.elapsed == pytest.approx(bound)

    @pytest.mark.parametrize("colour", ASYNC_COLOURS)
    def test_each_attempt_has_its_own(self, colour: str) -> None:
        dependency = made(timeouts=Timeouts(connect=1, read=1), retry=Retry(attempts=2, backoff=Constant(1)))
        played = play(colour, dependency, HANGS, took(1.5, "ok"))
        assert played.value == "ok"
        assert played.elapsed == pytest.approx(2 + 1 + 1.5)


# -- whose failure it is -------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestWhoseFailure:
    def test_an_attempt_timeout_is_the_dependencys(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=1, attempt_timeout=2), breaker=Breaker(failures=1))
        outcome = outcome_of(loop, dependency, HANGS)
        assert isinstance(outcome.error, AttemptTimeout)
        snapshot = dependency.snapshot()
        assert snapshot["breaker"]["state"] == "open"
        assert snapshot["state"] == "open"
        assert snapshot["gate"]["limit"] == 1
        assert_at_rest(dependency)

    def test_a_callers_shorter_end_is_nobodys(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=2, attempt_timeout=5), breaker=Breaker(failures=1))

        async def main() -> None:
            for _ in range(10):
                with pytest.raises(DeadlineExceeded), perdure.deadline(2):
                    await dependency.call(Script(HANGS).asynchronous)

        run_async(loop, main)
        snapshot = dependency.snapshot()
        assert snapshot["breaker"]["state"] == "closed"
        assert (snapshot["counters"]["failed"], snapshot["counters"]["neutral"]) == (0, 10)
        assert snapshot["gate"]["limit"] == 1000
        assert snapshot["last_errors"] == []
        assert_at_rest(dependency)

    def test_nor_where_the_call_is_made_in_a_task_of_its_own(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=2, attempt_timeout=5), breaker=Breaker(failures=1))
        seen: list[Outcome[Any]] = []

        async def child() -> None:
            seen.append(await dependency.outcome(Script(HANGS).asynchronous))

        async def main() -> None:
            with pytest.raises(DeadlineExceeded), perdure.deadline(2):
                await together(loop, child, partial(clock.asleep, 10))

        run_async(loop, main)
        assert dependency.snapshot()["breaker"]["state"] == "closed"
        assert dependency.snapshot()["counters"]["failed"] == 0
        assert_at_rest(dependency)

    def test_nor_that_of_a_probe(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(
            retry=Retry(attempts=1, attempt_timeout=5), breaker=Breaker(failures=1, cooldown=1, successes=1)
        )
        assert not outcome_of(loop, dependency, ConnectionError()).ok
        clock.advance(1)

        async def main() -> None:
            with pytest.raises(DeadlineExceeded), perdure.deadline(2):
                await dependency.call(Script(HANGS).asynchronous)

        run_async(loop, main)
        assert dependency.snapshot()["breaker"]["state"] == "half_open"
        assert outcome_of(loop, dependency, "ok").ok, "its place was given back"
        assert dependency.snapshot()["breaker"]["state"] in {"ramping", "closed"}

    def test_what_failed_before_the_end_counts(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=EVERY_SECOND, breaker=Breaker(failures=2))

        async def main() -> None:
            with pytest.raises(DeadlineExceeded) as caught, perdure.deadline(3):
                await dependency.call(Script(error, HANGS).asynchronous)
            assert caught.value.__cause__ is error

        error = ConnectionError()
        run_async(loop, main)
        assert dependency.snapshot()["counters"]["failed"] == 1
        assert dependency.snapshot()["breaker"]["state"] == "closed"

    def test_the_nearer_of_two_ends_holds(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(timeouts=until(5))

        async def main() -> None:
            with perdure.deadline(2):
                await dependency.call(Script(HANGS).asynchronous)

        with pytest.raises(DeadlineExceeded, match="2 s"):
            run_async(loop, main)
        assert clock.now == pytest.approx(2)

        async def other() -> None:
            with perdure.deadline(9):
                await dependency.call(Script(HANGS).asynchronous)

        with pytest.raises(DeadlineExceeded, match="5 s"):
            run_async(loop, other)
        assert clock.now == pytest.approx(7)


@pytest.mark.parametrize("colour", COLOURS)
def test_after_the_end_no_call_is_made(colour: str, clock: VirtualClock) -> None:
    dependency = made(breaker=Breaker(failures=1))
    with perdure.deadline(1):
        clock.advance(1)
        played = called(colour, dependency, "never")
    assert isinstance(played.error, DeadlineExceeded)
    assert played.calls == 0
    assert dependency.snapshot()["counters"]["attempts"] == 0
    assert_at_rest(dependency)


# -- adaptive timeouts ---------------------------------------------------------------------------------


def adaptive(**parts: Any) -> Any:
    """A dependency whose timeout follows the latencies, 15 s at most."""
    return made(**({"timeouts": Timeouts(adaptive=True), "retry": Retry(attempts=1)} | parts))


@pytest.mark.parametrize("colour", ASYNC_COLOURS)
class TestAdaptive:
    def warm(self, colour: str, dependency: Any, calls: int = 100, seconds: float = 0.1) -> None:
        for _ in range(calls):
            assert called(colour, dependency, took(seconds, "ok")).value == "ok"

    def test_before_a_hundred_calls_an_attempt_has_all_that_is_allowed(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = adaptive()
        self.warm(colour, dependency, 99)
        played = called(colour, dependency, HANGS)
        assert isinstance(played.error, AttemptTimeout)
        assert played.elapsed == pytest.approx(15)

    def test_then_it_has_a_fifth_more_than_the_slowest_usual_call(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = adaptive()
        self.warm(colour, dependency)
        played = called(colour, dependency, HANGS)
        assert isinstance(played.error, AttemptTimeout)
        assert 0.12 <= played.elapsed <= 0.132
        assert played.error.timeout == pytest.approx(played.elapsed)

    def test_timeouts_in_a_row_double_it(self, colour: str, clock: VirtualClock) -> None:
        dependency = adaptive(gate=None)
        self.warm(colour, dependency)
        for _ in range(2900):
            state_of(dependency).latencies.add(clock.now, 0.1)
        lengths = [called(colour, dependency, HANGS).elapsed for _ in range(3)]
        assert lengths[1] >= 2 * lengths[0] - 1e-6
        assert lengths[2] >= 2 * lengths[1] - 1e-6
        assert called(colour, dependency, took(0.1, "ok")).value == "ok"
        assert called(colour, dependency, HANGS).elapsed < lengths[2]

    def test_it_is_never_more_than_what_is_allowed(self, colour: str, clock: VirtualClock) -> None:
        dependency = adaptive(timeouts=Timeouts(connect=0.1, read=0.1, adaptive=True))
        self.warm(colour, dependency, 100, 0.19)
        assert called(colour, dependency, HANGS).elapsed == pytest.approx(0.2)

    def test_it_is_never_less_than_ten_milliseconds(self, colour: str, clock: VirtualClock) -> None:
        dependency = adaptive()
        self.warm(colour, dependency, 100, 0)
        assert called(colour, dependency, HANGS).elapsed == pytest.approx(0.01)

    def test_keys_learn_for_themselves(self, colour: str, clock: VirtualClock) -> None:
        dependency = adaptive()
        self.warm(colour, dependency.at("fast"))
        assert called(colour, dependency.at("fast"), HANGS).elapsed < 0.2
        assert called(colour, dependency.at("new"), HANGS).elapsed == pytest.approx(15)


def test_a_plain_function_is_told_the_adaptive_timeout(clock: VirtualClock) -> None:
    dependency = adaptive()
    for _ in range(100):
        called("sync", dependency, took(0.1, "ok"))
    left = dependency.call(perdure.time_left)
    assert left is not None
    assert 0.12 <= left <= 0.132


def test_an_adaptive_timeout_needs_a_bound() -> None:
    with pytest.raises(ConfigError, match=r"^adaptive needs connect and read, or Retry.attempt_timeout"):
        made(timeouts=Timeouts(connect=None, adaptive=True))
    made(timeouts=Timeouts(connect=None, adaptive=True), retry=Retry(attempt_timeout=5))


def test_records_of_a_call_that_was_cut_tell_what_failed_before(clock: VirtualClock) -> None:
    dependency = made(timeouts=until(3), retry=EVERY_SECOND)
    outcome = outcome_of("asyncio", dependency, ConnectionError("one"), HANGS)
    assert [(record.number, record.error) for record in attempts_of(outcome)] == [(1, "ConnectionError: one")]
    assert state_of(dependency).flight == []

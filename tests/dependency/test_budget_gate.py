"""The budget for retries and the gate for all attempts, as calls to a dependency meet them."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Budget, Constant, Gate, Overloaded, RateLimit, Retry, attempts_of
from perdure.engine import shutdown
from perdure.testing import Script, VirtualClock, record_events, took
from tests.dependency.made import assert_at_rest, called, made, state_of, until
from tests.engine.held import PATIENCE, Held
from tests.engine.tasks import LOOPS, cancelled_after, together
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from perdure import Dependency

SOON = Retry(attempts=4, backoff=Constant(1))
HANGS = took(1000, "too late")


def tokens(dependency: Any) -> float:
    """What is in the budget."""
    left: float = dependency.snapshot()["budget"]["tokens"]
    return left


def paced(dependency: Dependency, limit: float, now: float) -> None:
    """Cut the gate down to ``limit`` attempts, the last of which has just been sent."""
    state = state_of(dependency)
    gate = state.gate
    assert gate is not None
    with state.lock:
        gate.limit = limit
        gate._signal_at = gate._sent_at = now
        state.choose_path()


# -- what is in the budget -----------------------------------------------------------------------------


class TestTokens:
    @pytest.mark.parametrize(
        ("attempts", "start", "cap"), [(1, 0, 5), (2, 1, 5), (4, 3, 5), (6, 5, 5), (10, 9, 9)]
    )
    def test_it_starts_with_enough_for_all_attempts_of_one_call(
        self, attempts: int, start: int, cap: int
    ) -> None:
        snapshot = made(retry=Retry(attempts=attempts)).snapshot()
        assert snapshot["budget"] == {"tokens": start, "cap": cap}

    def test_without_a_bound_on_attempts_it_starts_as_by_default(self) -> None:
        assert tokens(made(retry=Retry(attempts=None, deadline=9))) == 3

    def test_the_start_may_be_given(self) -> None:
        assert tokens(made(budget=Budget(start=1.5))) == 1.5
        assert tokens(made(budget=Budget(start=0))) == 0

    @pytest.mark.parametrize("colour", COLOURS)
    @pytest.mark.parametrize(
        ("parts", "deposit"),
        [({}, 0.5), ({"gate": None}, 0.1), ({"budget": Budget(start=0, per_success=0.25)}, 0.25)],
        ids=["with the gate", "without", "as given"],
    )
    def test_each_success_pays_in(self, colour: str, parts: dict[str, Any], deposit: float) -> None:
        dependency = made(**({"budget": Budget(start=0)} | parts))
        for number in range(1, 4):
            play(colour, dependency, "ok")
            assert tokens(dependency) == pytest.approx(number * deposit)

    def test_so_do_those_of_the_fused_path_up_to_the_cap(self) -> None:
        dependency = made(budget=Budget(start=0))
        guarded = dependency(lambda: "ok")
        for number in range(1, 21):
            guarded()
            assert tokens(dependency) == pytest.approx(min(5, number * 0.5))

    @pytest.mark.parametrize("colour", COLOURS)
    def test_a_retry_costs_one(self, colour: str) -> None:
        dependency = made(retry=SOON)
        play(colour, dependency, ConnectionError(), ConnectionError(), "ok")
        assert tokens(dependency) == pytest.approx(3 - 2 + 0.5)

    @pytest.mark.parametrize("colour", COLOURS)
    def test_an_attempt_that_is_not_retried_costs_nothing(self, colour: str) -> None:
        dependency = made(retry=SOON)
        play(colour, dependency, KeyError())
        assert tokens(dependency) == 3

    def test_a_new_key_draws_its_start_from_the_dependency(self) -> None:
        dependency = made()
        assert [tokens(dependency.at("a")), tokens(dependency)] == [3, 0]

    def test_one_that_finds_nothing_there_has_one_all_the_same(self) -> None:
        dependency = made()
        assert [tokens(dependency.at(key)) for key in "abc"] == [3, 1, 1]

    def test_successes_of_the_dependency_fill_what_the_next_key_draws(self) -> None:
        dependency = made()
        assert tokens(dependency.at("a")) == 3
        guarded = dependency(lambda: "ok")
        for _ in range(4):
            guarded()
        assert tokens(dependency.at("b")) == 2

    def test_keys_pay_from_their_own(self, clock: VirtualClock) -> None:
        dependency = made(retry=SOON)
        for key in ("a", "b"):
            called("sync", dependency.at(key), ConnectionError(), "ok")
        assert tokens(dependency.at("a")) == pytest.approx(2.5)
        assert tokens(dependency.at("b")) == pytest.approx(0.5)

    def test_without_a_budget_nothing_is_counted(self, clock: VirtualClock) -> None:
        dependency = made(budget=None, retry=SOON)
        for _ in range(10):
            assert called("sync", dependency, *[ConnectionError()] * 4).calls == 4
        assert dependency.snapshot()["budget"] is None


# -- an empty one --------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestExhaustion:
    def test_the_call_ends_with_its_original_error(self, colour: str) -> None:
        dependency = made(retry=SOON, budget=Budget(start=1))
        error = ConnectionError("second")
        played = play(colour, dependency, ConnectionError("first"), error)
        assert played.error is error
        assert (played.calls, played.waits) == (2, [1])
        assert error.__notes__ == [
            "perdure: gave up after 2 attempts in 1 s: the budget for retries is empty"
        ]
        assert [record.number for record in attempts_of(error)] == [1, 2]

    def test_it_is_told(self, colour: str) -> None:
        dependency = made(retry=SOON, budget=Budget(start=0))
        played = play(colour, dependency, ConnectionError())
        told = {event.name: event for event in played.events}
        assert told["retry.suppressed"].reason == told["call.end"].reason == "budget"
        assert told["budget.empty"].dependency == "payments"
        assert (told["budget.empty"].reason, told["budget.empty"].severity) == ("retries", "warning")
        assert dependency.snapshot()["counters"]["refused"] == {"budget": 1}

    def test_before_that_it_is_told_that_little_is_left(self, colour: str) -> None:
        dependency = made(retry=SOON, budget=Budget(start=2.5))
        played = play(colour, dependency, *[ConnectionError()] * 3)
        assert [name for name in played.names if name.startswith("budget")] == [
            "budget.low",
            "budget.empty",
        ]

    def test_one_line_a_minute_says_so(
        self, colour: str, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        dependency = made(retry=SOON, budget=Budget(start=0))
        with caplog.at_level(logging.WARNING, "perdure"):
            for _ in range(12):  # 0, 10, ... 110 s
                called(colour, dependency, ConnectionError())
                clock.advance(10)
        lines = [one.message for one in caplog.records if "budget empty" in one.message]
        assert len(lines) == 2
        assert lines[0].startswith("payments: budget empty")

    def test_what_was_said_is_not_kept_from_other_keys(
        self, colour: str, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        dependency = made(retry=SOON, budget=Budget(start=0))
        with caplog.at_level(logging.WARNING, "perdure"):
            for key in ("a", "b", "a", "b"):
                called(colour, dependency.at(key), ConnectionError(), ConnectionError())
        lines = [one.message for one in caplog.records if "budget empty" in one.message]
        assert sorted(line.partition(":")[0] for line in lines) == ["payments [a]", "payments [b]"]

    def test_an_outcome_says_budget(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(retry=SOON, budget=Budget(start=0))
        told: list[Any] = []
        called(colour, dependency.using(on_exhausted=told.append), ConnectionError())
        assert [one.stop for one in told] == ["budget"]


@pytest.mark.parametrize("loop", LOOPS)
class TestManyCalls:
    def test_retries_that_wait_are_paid_for_already(self, loop: str, clock: VirtualClock) -> None:
        """B155."""
        dependency = made(
            retry=Retry(attempts=2, backoff=Constant(60), deadline=None), budget=Budget(start=3)
        )
        scripts = [Script(took(1, ConnectionError()), ConnectionError()) for _ in range(50)]
        works = [partial(dependency.outcome, script.asynchronous) for script in scripts]
        outcomes = run_async(loop, lambda: together(loop, *works))
        assert sorted(str(one.stop) for one in outcomes) == ["attempts"] * 3 + ["budget"] * 47
        assert sum(len(script.calls) for script in scripts) == 53
        assert max(one.elapsed for one in outcomes if one.stop == "budget") == pytest.approx(1)

    def test_traffic_that_fails_stops_being_retried(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(backoff=Constant(0.01)))
        sent = 0

        async def down() -> None:
            nonlocal sent
            sent += 1
            raise ConnectionRefusedError

        async def main() -> None:
            for _ in range(100):
                await dependency.outcome(down)

        run_async(loop, main)
        assert sent == 103, "a hundred first attempts, and what the budget started with"

    def test_a_share_of_the_traffic_is_retried(self, loop: str, clock: VirtualClock) -> None:
        policy = Retry(attempts=2, backoff=Constant(0))
        dependency = made(budget=Budget(max_ratio=0.1, window=60, start=2), retry=policy)
        retries = lambda: dependency.snapshot()["counters"]["retries"]  # noqa: E731 - asked three times

        async def main() -> list[int]:
            seen: list[int] = []
            for number in range(200):
                ends = ("ok",) if number < 100 else (ConnectionRefusedError(), ConnectionRefusedError())
                await dependency.outcome(Script(*ends).asynchronous)
                if number in {99, 199}:
                    seen.append(retries())
            await clock.asleep(61)
            for _ in range(5):
                await dependency.outcome(
                    Script(ConnectionRefusedError(), ConnectionRefusedError()).asynchronous
                )
            return [*seen, retries()]

        before, after, later = run_async(loop, main)
        assert before == 0
        assert 19 <= after <= 20, "a tenth of two hundred first attempts"
        assert later - after == 2, "a minute later what is left is the start"


def test_a_share_counts_first_attempts_of_the_fused_path_too() -> None:
    policy = Retry(attempts=2, backoff=Constant(0))
    dependency = made(budget=Budget(max_ratio=0.1, start=0), retry=policy)
    guarded = dependency(lambda fails: 1 / fails)
    for _ in range(50):
        guarded(1)
    failing = Script(*[ConnectionRefusedError()] * 99)
    outcomes = [dependency.outcome(failing) for _ in range(8)]
    assert [one.attempts for one in outcomes] == [2] * 5 + [1] * 3


# -- what comes back -----------------------------------------------------------------------------------


class TestRefunds:
    @pytest.mark.parametrize("loop", LOOPS)
    @pytest.mark.parametrize(
        "budget", [Budget(start=3), Budget(max_ratio=0.1, start=3)], ids=["tokens", "share"]
    )
    def test_a_retry_that_is_cancelled_while_it_waits_is_refunded(
        self, loop: str, budget: Budget, clock: VirtualClock
    ) -> None:
        dependency = made(retry=Retry(backoff=Constant(10)), budget=budget)
        work = Script(ConnectionError()).asynchronous
        run_async(loop, lambda: cancelled_after(loop, clock, 5, lambda: dependency.call(work)))
        left = dependency.snapshot()["budget"]
        assert left.get("tokens", left.get("left")) == 3
        assert dependency.snapshot()["counters"]["retries"] == 0
        assert_at_rest(dependency)

    @pytest.mark.parametrize("colour", COLOURS)
    def test_one_whose_deadline_passes_meanwhile_is_refunded(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(backoff=Constant(10)))
        stop = perdure.listen(lambda event: event.name == "retry.scheduled" and clock.advance(100))
        played = called(colour, dependency, ConnectionError())
        stop()
        assert isinstance(played.error, ConnectionError)
        assert played.events[-1].reason == "deadline"
        assert tokens(dependency) == 3
        assert_at_rest(dependency)

    @pytest.mark.parametrize("colour", COLOURS)
    def test_one_that_the_process_does_not_wait_for_any_more_is_refunded(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = made(retry=Retry(backoff=Constant(10)))
        stop = perdure.listen(lambda event: event.name == "retry.scheduled" and shutdown.begin())
        played = called(colour, dependency, ConnectionError())
        stop()
        assert played.events[-1].reason == "shutdown"
        assert tokens(dependency) == 3

    @pytest.mark.parametrize("colour", COLOURS)
    def test_one_that_is_refused_is_refunded(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(retry=SOON, rate_limit=RateLimit(1, per=60, burst=1))
        assert called(colour, dependency, ConnectionError()).calls == 1
        assert tokens(dependency) == 3

    @pytest.mark.parametrize("colour", COLOURS)
    def test_one_that_was_sent_is_not(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(retry=SOON.replace(attempts=2))
        called(colour, dependency, ConnectionError(), ConnectionError())
        assert tokens(dependency) == 0

    @given(st.lists(st.sampled_from(["ok", "fails", "cancelled", "late"]), max_size=12))
    def test_what_is_there_follows_from_what_happened(self, script: list[str]) -> None:
        with VirtualClock() as clock:
            dependency = made(retry=Retry(attempts=2, backoff=Constant(10)), budget=Budget(start=4))
            expected = 4.0

            async def main() -> None:
                for what in script:
                    outcomes = ("ok",) if what == "ok" else (ConnectionError(), ConnectionError())
                    call = partial(dependency.outcome, Script(*outcomes).asynchronous)
                    if what == "cancelled":
                        await cancelled_after("asyncio", clock, 5, call)
                    elif what == "late":
                        stop = perdure.listen(
                            lambda event: event.name == "retry.scheduled" and clock.advance(99)
                        )
                        await call()
                        stop()
                    else:
                        await call()

            run_async("asyncio", main)
        for what in script:
            if what == "ok":
                expected = min(5, expected + 0.5)
            elif what == "fails" and expected >= 1:
                expected -= 1
        assert tokens(dependency) == pytest.approx(expected)


# -- the gate ------------------------------------------------------------------------------------------


class TestLoneCalls:
    @pytest.mark.parametrize("colour", ASYNC_COLOURS)
    @pytest.mark.parametrize("attempts", [2, 4, 6, 10])
    def test_a_single_call_gets_all_its_attempts_although_each_times_out(
        self, colour: str, attempts: int
    ) -> None:
        policy = Retry(attempts=attempts, attempt_timeout=1, deadline=None)
        dependency = made(retry=policy)
        played = play(colour, dependency, *[HANGS] * attempts)
        assert isinstance(played.error, perdure.AttemptTimeout)
        assert played.calls == attempts
        assert played.events[-1].reason == "attempts"
        assert_at_rest(dependency)

    @pytest.mark.parametrize("colour", COLOURS)
    @pytest.mark.parametrize("kind", [TimeoutError, ConnectionRefusedError, ConnectionResetError])
    def test_so_does_one_that_fails_in_other_ways(self, colour: str, kind: type[Exception]) -> None:
        played = play(colour, made(), *[took(1, kind()) for _ in range(4)])
        assert played.calls == 4
        assert played.events[-1].reason == "attempts"

    @pytest.mark.parametrize("colour", COLOURS)
    def test_so_does_one_that_is_asked_to_wait(self, colour: str) -> None:
        errors = [perdure.transient(ConnectionError("429"), after=2) for _ in range(4)]
        assert play(colour, made(), *errors).calls == 4

    @pytest.mark.parametrize("colour", ASYNC_COLOURS)
    def test_a_paced_gate_makes_a_retry_wait_and_does_not_refuse_it(self, colour: str) -> None:
        policy = Retry(attempts=4, attempt_timeout=1, deadline=None, backoff=Constant(0))
        played = play(colour, made(retry=policy), *[HANGS] * 4)
        assert played.calls == 4
        assert played.waits[0] == 0
        assert max(played.waits) > 0.5, "the gate was cut below one attempt at a time"


@pytest.mark.parametrize("loop", LOOPS)
class TestConcurrentCalls:
    def test_two_hundred_first_calls_of_a_fresh_process_are_all_admitted(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made()
        scripts = [Script(took(1, "ok")) for _ in range(200)]
        works = [partial(dependency.outcome, script.asynchronous) for script in scripts]
        outcomes = run_async(loop, lambda: together(loop, *works))
        assert [one.ok for one in outcomes] == [True] * 200
        assert clock.now == pytest.approx(1)
        assert_at_rest(dependency)

    def test_timeouts_cut_it_and_first_attempts_are_refused(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=1, attempt_timeout=1))
        answers = Script(*[HANGS] * 500)

        async def wave(calls: int) -> list[Any]:
            return await together(loop, *[partial(dependency.outcome, answers.asynchronous)] * calls)

        async def main() -> tuple[list[Any], list[Any]]:
            return await wave(50), await wave(50)

        with record_events() as seen:
            first, second = run_async(loop, main)
        assert {type(one.error) for one in first} == {perdure.AttemptTimeout}
        refused = [one for one in second if isinstance(one.error, Overloaded)]
        assert 10 <= len(refused) < 50
        assert {(one.stop, one.attempts) for one in refused} == {("gate", 0)}
        assert all(one.error.retry_after > 0 and one.error.dependency == "payments" for one in refused)
        names = [event.name for event in seen]
        assert names.count("gate.rejected") == len(refused)
        assert "gate.cut" in names
        assert dependency.snapshot()["counters"]["refused"] == {"gate": len(refused)}
        assert dependency.snapshot()["gate"]["limit"] < 50
        assert_at_rest(dependency)

    def test_thirty_seconds_without_a_sign_of_load_open_it(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=1, attempt_timeout=1))

        async def main() -> list[Any]:
            hang = Script(*[HANGS] * 50).asynchronous
            await together(loop, *[partial(dependency.outcome, hang)] * 50)
            assert dependency.snapshot()["state"] == "shedding"
            await clock.asleep(30)
            scripts = [Script(took(0.5, "ok")) for _ in range(100)]
            return await together(
                loop, *(partial(dependency.outcome, script.asynchronous) for script in scripts)
            )

        assert all(one.ok for one in run_async(loop, main))
        assert dependency.snapshot()["gate"]["limit"] == 1000

    def test_failures_that_say_nothing_of_load_do_not_cut_it(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=None)
        errors = [took(1, kind()) for kind in (ConnectionRefusedError, ConnectionResetError, KeyError)]
        works = [partial(dependency.outcome, Script(*errors * 40).asynchronous)] * 120
        run_async(loop, lambda: together(loop, *works))
        assert dependency.snapshot()["gate"]["limit"] == 1000

    def test_without_a_gate_nobody_is_refused(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=1, attempt_timeout=1), gate=None)

        async def main() -> list[Any]:
            hang = Script(*[HANGS] * 100).asynchronous
            await together(loop, *[partial(dependency.outcome, hang)] * 50)
            return await together(loop, *[partial(dependency.outcome, hang)] * 50)

        assert {type(one.error) for one in run_async(loop, main)} == {perdure.AttemptTimeout}

    def test_a_gate_with_a_low_ceiling_bounds_the_attempts_on_the_wire(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(gate=Gate(ceiling=5), retry=None)
        scripts = [Script(took(1, "ok")) for _ in range(8)]
        works = [partial(dependency.outcome, script.asynchronous) for script in scripts]
        outcomes = run_async(loop, lambda: together(loop, *works))
        assert [type(one.error) for one in sorted(outcomes, key=lambda one: one.ok)] == [
            *[Overloaded] * 3,
            *[type(None)] * 5,
        ]


def test_two_hundred_threads_of_a_fresh_process_are_all_admitted() -> None:
    dependency = made()
    guarded = dependency(lambda: may_go.wait(PATIENCE))
    may_go, results = threading.Event(), []
    callers = [threading.Thread(target=lambda: results.append(guarded())) for _ in range(200)]
    for caller in callers:
        caller.start()
    until(lambda: len(state_of(dependency).flight) == 200)
    may_go.set()
    for caller in callers:
        caller.join(PATIENCE)
    assert results == [True] * 200
    assert_at_rest(dependency)


def test_a_low_ceiling_holds_for_the_fused_path_too(threads: ThreadPoolExecutor) -> None:
    dependency = made(gate=Gate(ceiling=3), retry=None)
    held = Held()
    guarded = dependency(held)
    futures = []
    for number in range(1, 4):
        futures.append(threads.submit(guarded))
        until(lambda number=number: held.calls == number)
    with pytest.raises(Overloaded):
        guarded()
    held.let_go()
    assert [future.result(PATIENCE) for future in futures] == ["done"] * 3
    assert guarded() == "done"
    assert_at_rest(dependency)


@pytest.mark.parametrize("colour", COLOURS)
class TestRefusedRetries:
    def test_a_retry_that_the_gate_refuses_ends_with_the_original_error(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = made(retry=SOON)
        error = ConnectionError()
        stop = perdure.listen(
            lambda event: event.name == "retry.scheduled" and paced(dependency, 0.1, clock.now)
        )
        played = called(colour, dependency, error)
        stop()
        assert played.error is error
        assert played.calls == 1
        assert played.events[-1].reason == "gate"
        assert "the gate admits fewer calls for now" in error.__notes__[0]
        assert "gate.rejected" in played.names
        assert tokens(dependency) == 3, "it was not sent"

    def test_a_pace_that_goes_beyond_the_deadline_ends_the_call_now(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = made(retry=Retry(deadline=5, backoff=Constant(1)))
        error = ConnectionError()
        stop = perdure.listen(
            lambda event: event.name == "attempt.start" and paced(dependency, 0.1, clock.now)
        )
        played = called(colour, dependency, error)
        stop()
        assert played.error is error
        assert (played.events[-1].reason, clock.now) == ("gate", 0)
        assert tokens(dependency) == 3


# -- the throttle form ---------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestThrottle:
    def test_what_is_accepted_is_never_refused(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(gate=Gate.throttle(), retry=None)
        for _ in range(100):
            assert called(colour, dependency, took(0.01, "ok")).value == "ok"

    def test_when_most_is_not_accepted_most_is_refused(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(gate=Gate.throttle(k=2, window=5), retry=None)
        for _ in range(10):
            assert isinstance(called(colour, dependency, TimeoutError()).error, TimeoutError)
        errors = [called(colour, dependency, TimeoutError()).error for _ in range(100)]
        refused = [error for error in errors if isinstance(error, Overloaded)]
        assert 80 <= len(refused) < 100, "a few go out to see whether it is back"
        assert all(error.retry_after is not None and 0 < error.retry_after <= 5 for error in refused)
        assert refused[0].reason == "most requests are not accepted"

    def test_a_window_later_all_go_out_again(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(gate=Gate.throttle(k=2, window=5), retry=None)
        for _ in range(50):
            called(colour, dependency, TimeoutError())
        clock.advance(5.5)
        assert [called(colour, dependency, "ok").value for _ in range(9)] == ["ok"] * 9

    def test_an_error_that_says_nothing_of_load_is_an_answer(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(gate=Gate.throttle(), retry=None)
        errors = [called(colour, dependency, ConnectionResetError()).error for _ in range(50)]
        assert {type(error) for error in errors} == {ConnectionResetError}

    def test_a_refused_retry_ends_with_the_original_error(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(gate=Gate.throttle(), budget=None, retry=Retry(attempts=9, backoff=Constant(0)))
        errors = [called(colour, dependency, *[TimeoutError() for _ in range(9)]).error for _ in range(20)]
        assert {type(error) for error in errors} == {TimeoutError, Overloaded}
        assert_at_rest(dependency)


def test_a_429_is_congestion_and_no_failure(clock: VirtualClock) -> None:
    class TooMany(Exception):
        status_code = 429

    dependency = made(retry=None, breaker=perdure.Breaker(failures=1))
    called("sync", dependency, TooMany())
    assert dependency.snapshot()["gate"]["limit"] == 1
    assert dependency.snapshot()["breaker"]["state"] == "closed"


def test_threads_share_one_budget(threads: ThreadPoolExecutor) -> None:
    dependency = made(retry=Retry(attempts=2, backoff=Constant(0)), budget=Budget(start=5))
    together_now = threading.Barrier(8)

    def fail() -> None:
        raise ConnectionRefusedError

    def call() -> int:
        together_now.wait(PATIENCE)
        return dependency.outcome(fail).attempts

    attempts = [future.result(PATIENCE) for future in [threads.submit(call) for _ in range(8)]]
    assert sorted(attempts) == [1] * 3 + [2] * 5

"""What a call gives instead when it failed or was refused, in every colour."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import (
    Breaker,
    ConfigError,
    Constant,
    DeadlineExceeded,
    Fallback,
    Outcome,
    RateLimit,
    Retry,
    Timeouts,
)
from perdure.testing import Script, VirtualClock, took
from tests.dependency.made import assert_at_rest, called, made
from tests.engine.model import Leave
from tests.engine.tasks import LOOPS
from tests.harness import play, run_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure import Dependency

COLOURS = ("sync", "asyncio", "trio")  # a block has no value of its own, and so no fallback
TWICE = Retry(attempts=2, backoff=Constant(0))


def failing(**parts: Any) -> Dependency:
    """A dependency of two attempts."""
    return made(**({"retry": TWICE} | parts))


def calls(colour: str, dependency: Any, fn: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """Call a plain function in one colour."""
    if colour == "sync":
        return dependency.call(fn, *args, **kwargs)
    return run_async(colour, lambda: dependency.call(later(fn), *args, **kwargs))


def outcome_of(colour: str, dependency: Any, fn: Callable[..., Any], *args: object) -> Outcome[Any]:
    """The outcome of it."""
    if colour == "sync":
        return dependency.outcome(fn, *args)  # type: ignore[no-any-return]
    return run_async(colour, lambda: dependency.outcome(later(fn), *args))  # type: ignore[no-any-return]


_later: dict[Any, Callable[..., Any]] = {}


def later(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as a coroutine function, one and the same each time."""
    if fn not in _later:

        async def work(*args: object, **kwargs: object) -> Any:
            return fn(*args, **kwargs)

        _later[fn] = work
    return _later[fn]


@pytest.fixture(autouse=True)
def forget() -> None:
    _later.clear()


@pytest.mark.parametrize("colour", COLOURS)
class TestValue:
    @pytest.mark.parametrize("value", [0, "", [], "cached", None, ConnectionError("a value")])
    def test_any_value_may_be_one(self, colour: str, value: object) -> None:
        played = play(colour, failing(fallback=Fallback(value=value)), ConnectionError(), ConnectionError())
        assert played.error is None
        assert played.value is value
        assert played.calls == 2
        assert played.names[-1] == "fallback.used"

    def test_a_value_that_can_be_awaited_is_given_as_it_is(self, colour: str) -> None:
        async def main() -> Any:
            future = asyncio.get_running_loop().create_future()
            dependency = failing(fallback=Fallback(value=future))
            if colour == "sync":
                return dependency.call(Script(KeyError())) is future
            return await dependency.call(Script(KeyError()).asynchronous) is future

        assert asyncio.run(main())

    def test_success_needs_none(self, colour: str) -> None:
        dependency = failing(fallback=Fallback(value="cached"))
        played = play(colour, dependency, ConnectionError(), "ok")
        assert played.value == "ok"
        assert "fallback.used" not in played.names
        assert dependency.snapshot()["counters"]["fallbacks"] == 0

    def test_it_is_told_and_counted(self, colour: str) -> None:
        dependency = failing(fallback=Fallback(value="cached"))
        played = play(colour, dependency, ConnectionError(), ConnectionError())
        told = played.events[-1]
        assert (told.name, told.severity, told.reason) == ("fallback.used", "warning", "ConnectionError")
        assert told.call_id == played.events[0].call_id
        assert dependency.snapshot()["counters"]["fallbacks"] == 1


@pytest.mark.parametrize("colour", COLOURS)
class TestFunction:
    def test_it_gets_the_arguments_of_the_call(self, colour: str) -> None:
        dependency = failing(fallback=Fallback(lambda *args, **kwargs: (args, kwargs)))
        assert calls(colour, dependency, Script(KeyError()), 1, two=2) == ((1,), {"two": 2})

    def test_it_gets_the_error_where_its_first_parameter_is_named_so(self, colour: str) -> None:
        cause = KeyError("gone")
        dependency = failing(fallback=Fallback(lambda error, *args, **kwargs: (error, args, kwargs)))
        error, args, kwargs = calls(colour, dependency, Script(cause), 1, two=2)
        assert error is cause
        assert (args, kwargs) == ((1,), {"two": 2})

    def test_a_method_may_take_the_error_too(self, colour: str) -> None:
        class Cache:
            def get(self, error: Exception, key: str) -> str:
                return f"{type(error).__name__} {key}"

        dependency = failing(fallback=Fallback(Cache().get))
        assert calls(colour, dependency, Script(KeyError()), "a") == "KeyError a"

    def test_another_name_in_the_first_place_gets_the_first_argument(self, colour: str) -> None:
        dependency = failing(fallback=Fallback(lambda key, error=None: (key, error)))
        assert calls(colour, dependency, Script(KeyError()), "a") == ("a", None)

    def test_a_builtin_gets_the_arguments(self, colour: str) -> None:
        assert calls(colour, failing(fallback=Fallback(str)), Script(KeyError()), 5) == "5"

    def test_what_it_raises_comes_out_with_the_first_error_as_its_context(self, colour: str) -> None:
        first, second = KeyError("first"), ValueError("second")

        def broken() -> None:
            raise second

        dependency = failing(fallback=Fallback(broken))
        played = play(colour, dependency, first)
        assert played.error is second
        assert second.__context__ is first
        assert "fallback.used" not in played.names
        assert dependency.snapshot()["counters"]["fallbacks"] == 0
        assert_at_rest(dependency)

    def test_what_is_no_failure_passes_from_it(self, colour: str) -> None:
        def broken() -> None:
            raise Leave

        assert isinstance(play(colour, failing(fallback=Fallback(broken)), KeyError()).error, Leave)


@pytest.mark.parametrize("loop", LOOPS)
class TestAsyncFunction:
    def test_an_async_call_awaits_it(self, loop: str, clock: VirtualClock) -> None:
        async def cached(error: Exception, key: str) -> str:
            await clock.asleep(2)
            return f"{type(error).__name__} {key}"

        dependency = failing(fallback=Fallback(cached))
        assert calls(loop, dependency, Script(KeyError()), "a") == "KeyError a"
        assert clock.now == pytest.approx(2)

    def test_it_may_raise(self, loop: str) -> None:
        first, second = KeyError(), ValueError()

        async def broken() -> None:
            raise second

        assert play(loop, failing(fallback=Fallback(broken)), first).error is second
        assert second.__context__ is first

    def test_it_may_be_cancelled(self, loop: str, clock: VirtualClock) -> None:
        from tests.engine.tasks import cancelled_after

        dependency = failing(fallback=Fallback(Script(took(100, "never")).asynchronous))
        run_async(
            loop,
            lambda: cancelled_after(loop, clock, 1, lambda: dependency.call(Script(KeyError()).asynchronous)),
        )
        assert clock.now == pytest.approx(1)
        assert_at_rest(dependency)


def test_a_sync_call_cannot_use_an_async_fallback_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def cached() -> str:
        return "cached"

    error = KeyError()
    dependency = failing(fallback=Fallback(cached))
    assert [play("sync", dependency, error).error is error for _ in range(2)] == [True, True]
    lines = [one.message for one in caplog.records if "fallback=" in one.message]
    assert len(lines) == 1
    assert "give it a plain function" in lines[0]


def test_a_plain_function_that_returns_a_coroutine_has_a_fallback_too(clock: VirtualClock) -> None:
    for fallback in (Fallback(value="cached"), Fallback(Script("cached").asynchronous)):
        dependency = failing(fallback=fallback)
        script = Script(ConnectionError(), ConnectionError())

        async def main(dependency: Any = dependency, script: Script = script) -> Any:
            return await dependency(lambda: script.asynchronous())()

        assert asyncio.run(main()) == "cached"
        assert len(script.calls) == 2


@pytest.mark.parametrize("colour", COLOURS)
class TestOther:
    def test_the_same_call_goes_through_another_dependency(self, colour: str) -> None:
        other = perdure.Dependency("other", replace=True, retry=Retry(attempts=3, backoff=Constant(0)))
        dependency = failing(fallback=Fallback(to=other))
        played = play(colour, dependency, *[ConnectionError()] * 4, "ok")
        assert (played.value, played.calls) == ("ok", 5)
        assert {event.dependency for event in played.events} == {"payments", "other"}
        assert_at_rest(other)

    def test_it_gets_the_arguments(self, colour: str) -> None:
        other = perdure.Dependency("other", replace=True)
        script = Script(KeyError(), "ok")
        assert calls(colour, failing(fallback=Fallback(to=other)), script, 1, two=2) == "ok"
        assert script.calls == [((1,), {"two": 2})] * 2

    def test_when_that_fails_as_well_its_error_comes_out(self, colour: str) -> None:
        first, second = KeyError("first"), ValueError("second")
        other = perdure.Dependency("other", replace=True)
        dependency = failing(fallback=Fallback(to=other))
        assert play(colour, dependency, first, second).error is second
        assert second.__context__ is first

    def test_a_chain_of_them_ends_at_the_first_that_works(self, colour: str) -> None:
        third = perdure.Dependency("third", replace=True, retry=None)
        second = perdure.Dependency("second", replace=True, retry=None, fallback=Fallback(to=third))
        dependency = made(retry=None, fallback=Fallback(to=second))
        played = play(colour, dependency, KeyError(), ValueError(), "ok")
        assert (played.value, played.calls) == ("ok", 3)


@pytest.mark.parametrize("colour", COLOURS)
class TestLastGood:
    def test_it_is_the_last_value_of_the_same_arguments(self, colour: str, clock: VirtualClock) -> None:
        script = Script("a1", "b1", "a2", KeyError(), KeyError(), KeyError("c"))
        dependency = failing(fallback=Fallback(last_good=60))
        assert [calls(colour, dependency, script, one) for one in "aba"] == ["a1", "b1", "a2"]
        assert [calls(colour, dependency, script, one) for one in "ab"] == ["a2", "b1"]
        with pytest.raises(KeyError, match="c"):
            calls(colour, dependency, script, "c")

    def test_keywords_tell_calls_apart_in_any_order(self, colour: str) -> None:
        script = Script("one", "two", KeyError(), KeyError())
        dependency = failing(fallback=Fallback(last_good=60))
        calls(colour, dependency, script, a=1, b=2)
        calls(colour, dependency, script, a=2, b=1)
        assert calls(colour, dependency, script, b=2, a=1) == "one"
        assert calls(colour, dependency, script, b=1, a=2) == "two"

    def test_so_do_the_types_of_values_that_are_equal(self, colour: str) -> None:
        script = Script("an int", "a flag", "a float", *[KeyError()] * 3)
        dependency = failing(fallback=Fallback(last_good=60))
        for value in (1, True, 1.0):
            calls(colour, dependency, script, value, of=value)
        answers = [calls(colour, dependency, script, value, of=value) for value in (1, True, 1.0)]
        assert answers == ["an int", "a flag", "a float"]

    def test_functions_are_told_apart(self, colour: str) -> None:
        dependency = failing(fallback=Fallback(last_good=60))
        calls(colour, dependency, Script("ok"))
        with pytest.raises(KeyError):
            calls(colour, dependency, Script(KeyError()))

    def test_it_may_be_none(self, colour: str) -> None:
        script = Script(None, KeyError())
        dependency = failing(fallback=Fallback(last_good=60))
        assert [calls(colour, dependency, script), calls(colour, dependency, script)] == [None, None]

    @pytest.mark.parametrize(("age", "known"), [(59.9, True), (60, True), (60.1, False)])
    def test_it_may_be_so_old(self, colour: str, age: float, known: bool, clock: VirtualClock) -> None:
        script = Script("old", KeyError())
        dependency = failing(fallback=Fallback(last_good=60))
        calls(colour, dependency, script)
        clock.advance(age)
        if known:
            assert calls(colour, dependency, script) == "old"
        else:
            with pytest.raises(KeyError):
                calls(colour, dependency, script)

    def test_using_it_makes_it_no_younger(self, colour: str, clock: VirtualClock) -> None:
        script = Script("old", *[KeyError()] * 3)
        dependency = failing(fallback=Fallback(last_good=60))
        calls(colour, dependency, script)
        for _ in range(2):
            clock.advance(30)
            assert calls(colour, dependency, script) == "old"
        clock.advance(30)
        with pytest.raises(KeyError):
            calls(colour, dependency, script)

    def test_arguments_that_cannot_be_hashed_have_none(self, colour: str) -> None:
        error = KeyError()
        script = Script("ok", error)
        dependency = failing(fallback=Fallback(last_good=60))
        assert calls(colour, dependency, script, ["a"]) == "ok"
        with pytest.raises(KeyError) as caught:
            calls(colour, dependency, script, ["a"])
        assert caught.value is error

    def test_each_key_has_its_own(self, colour: str) -> None:
        script = Script("eu", KeyError(), KeyError())
        dependency = failing(fallback=Fallback(last_good=60))
        calls(colour, dependency.at("eu"), script)
        assert calls(colour, dependency.at("eu"), script) == "eu"
        with pytest.raises(KeyError):
            calls(colour, dependency.at("us"), script)

    def test_a_decorated_function_has_one_too(self, colour: str) -> None:
        script = Script("old", KeyError())
        guarded = failing(fallback=Fallback(last_good=60))(script if colour == "sync" else later(script))
        if colour == "sync":
            assert [guarded(), guarded()] == ["old", "old"]
        else:
            assert [run_async(colour, guarded), run_async(colour, guarded)] == ["old", "old"]


# -- on what it is used --------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestWhen:
    @pytest.mark.parametrize(
        ("outcomes", "stop"),
        [
            ([ConnectionError(), ConnectionError()], "attempts"),
            ([KeyError()], "permanent"),
            ([perdure.transient(ConnectionError(), after=1000)], "hint"),
        ],
    )
    def test_a_call_that_failed(self, colour: str, outcomes: list[object], stop: str) -> None:
        script = Script(*outcomes)
        dependency = failing(fallback=Fallback(value="instead"))
        outcome = outcome_of(colour, dependency, script)
        assert (outcome.ok, outcome.value, outcome.error) == (True, "instead", None)
        assert outcome.stop == stop
        assert outcome.attempts == len(outcomes)
        assert outcome.unwrap() == "instead"

    @pytest.mark.parametrize("refusal", ["breaker", "isolated", "rate limit", "gate", "shutdown"])
    def test_a_call_that_was_refused(self, colour: str, refusal: str, clock: VirtualClock) -> None:
        dependency = made(
            retry=None,
            breaker=Breaker(failures=1),
            rate_limit=RateLimit(1, per=60, burst=1) if refusal == "rate limit" else None,
            fallback=Fallback(lambda error: error),
        )
        expected: dict[str, tuple[type[Exception], str]] = {
            "breaker": (perdure.BreakerOpen, "breaker"),
            "isolated": (perdure.Isolated, "breaker"),
            "rate limit": (perdure.RateLimited, "neutral"),
            "gate": (perdure.Overloaded, "gate"),
            "shutdown": (perdure.ShuttingDown, "shutdown"),
        }
        if refusal == "breaker":
            called(colour, dependency, ConnectionError())
        elif refusal == "isolated":
            dependency.isolate("a test")
        elif refusal == "rate limit":
            called(colour, dependency, "ok")
        elif refusal == "gate":
            gate = dependency._guard.core.root.gate
            assert gate is not None
            gate.limit, gate._signal_at, gate._sent_at = 0.1, 0.0, 0.0
            dependency._guard.core.root.choose_path()
        else:
            from perdure.engine import shutdown

            shutdown.begin()
        script = Script()
        outcome = outcome_of(colour, dependency, script)
        kind, stop = expected[refusal]
        assert (outcome.ok, type(outcome.value), outcome.stop) == (True, kind, stop)
        assert (outcome.attempts, script.calls) == (0, [])

    def test_a_call_that_had_no_time_left(self, colour: str, clock: VirtualClock) -> None:
        dependency = failing(fallback=Fallback(value="instead"))
        with perdure.deadline(1):
            clock.advance(2)
            outcome = outcome_of(colour, dependency, Script())
        assert (outcome.value, outcome.stop, outcome.attempts) == ("instead", "deadline", 0)

    def test_no_failure_no_fallback(self, colour: str) -> None:
        for leave in (Leave(), KeyboardInterrupt()):
            played = play(colour, failing(fallback=Fallback(value="instead")), leave)
            assert played.error is leave
            assert "fallback.used" not in played.names

    def test_a_result_that_stays_rejected(self, colour: str) -> None:
        policy = Retry(attempts=2, backoff=Constant(0), reject=lambda value: value == "bad")
        dependency = made(retry=policy, fallback=Fallback(value="instead"))
        played = play(colour, dependency, "bad", "bad")
        assert (played.value, played.calls) == ("instead", 2)

    def test_a_view_may_have_another_or_none(self, colour: str) -> None:
        dependency = failing(fallback=Fallback(value="instead"))
        error = KeyError()
        assert play(colour, dependency.using(fallback=None), error).error is error
        assert play(colour, dependency.using(fallback=Fallback(value=5)), error).value == 5
        assert play(colour, dependency, error).value == "instead"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_call_that_its_own_end_cut_has_a_fallback(loop: str, clock: VirtualClock) -> None:
    dependency = made(
        timeouts=Timeouts(connect=None, read=None, total=3), fallback=Fallback(lambda error: error)
    )
    outcome = outcome_of_async(loop, dependency, Script(took(10, "late")))
    assert (outcome.ok, outcome.stop) == (True, "deadline")
    assert isinstance(outcome.value, DeadlineExceeded)
    assert clock.now == pytest.approx(3)
    assert_at_rest(dependency)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_call_that_an_end_around_it_cuts_has_none(loop: str, clock: VirtualClock) -> None:
    dependency = made(fallback=Fallback(value="instead"))

    async def main() -> None:
        with perdure.deadline(3):
            await dependency.call(Script(took(10, "late")).asynchronous)

    with pytest.raises(DeadlineExceeded):
        run_async(loop, main)
    assert clock.now == pytest.approx(3)
    assert_at_rest(dependency)


def outcome_of_async(loop: str, dependency: Any, script: Script) -> Outcome[Any]:
    return run_async(loop, lambda: dependency.outcome(script.asynchronous))  # type: ignore[no-any-return]


# -- on_exhausted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestExhausted:
    @pytest.mark.parametrize("has_fallback", [False, True])
    def test_it_is_called_once_with_the_outcome(self, colour: str, has_fallback: bool) -> None:
        told: list[Outcome[Any]] = []
        error = ConnectionError("last")
        dependency = failing(
            on_exhausted=told.append, fallback=Fallback(value="instead") if has_fallback else None
        )
        played = play(colour, dependency, ConnectionError(), error)
        assert played.value == ("instead" if has_fallback else None)
        (outcome,) = told
        assert (outcome.ok, outcome.error, outcome.stop, outcome.attempts) == (False, error, "attempts", 2)
        assert len(outcome.records) == 2

    def test_success_calls_nobody(self, colour: str) -> None:
        told: list[Outcome[Any]] = []
        play(colour, failing(on_exhausted=told.append), ConnectionError(), "ok")
        assert told == []

    def test_what_it_raises_changes_nothing(self, colour: str) -> None:
        def broken(_outcome: Outcome[Any]) -> None:
            raise ValueError

        error = KeyError()
        assert play(colour, failing(on_exhausted=broken), error).error is error

    def test_a_view_may_have_its_own(self, colour: str) -> None:
        mine: list[Outcome[Any]] = []
        theirs: list[Outcome[Any]] = []
        dependency = failing(on_exhausted=theirs.append)
        play(colour, dependency.using(on_exhausted=mine.append), KeyError())
        assert (len(mine), len(theirs)) == (1, 0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "Fallback takes one of function, value=, to= and last_good=, got 'nothing'"),
        ({"function": str, "value": 1}, "got 'function and value'"),
        ({"last_good": 5, "value": None}, "got 'last_good and value'"),
        ({"function": 5}, "function must be a callable, got 5"),
        ({"last_good": 0}, "last_good must be a finite number of seconds > 0, or None, got 0"),
        ({"to": "other"}, "to must be a Dependency, got 'other'"),
    ],
)
def test_a_fallback_that_cannot_work_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Fallback(**given)
    assert says in str(caught.value)

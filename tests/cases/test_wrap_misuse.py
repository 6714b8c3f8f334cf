"""Options in the wrong place, disabled mode, and zeros that are not None; B016, B017, B018."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import (
    ConfigError,
    Constant,
    Decorrelated,
    Exponential,
    FaultKind,
    Fibonacci,
    Incremental,
    Linear,
    Retry,
    Safety,
    Schedule,
    StopReason,
)
from perdure.engine import run
from perdure.testing import Script, VirtualClock, disabled, no_waits, reset
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(perdure.__file__).parent.parent


def is_timeout(error: Exception) -> bool:
    raise AssertionError("a predicate is never called while something is decorated")


MISPLACED: dict[str, Any] = {
    "backoff": Exponential(),
    "backoff behind an immediate retry": Exponential().after_immediate(),
    "policy": Retry(attempts=2),
    "exception type": OSError,
    "exception": OSError("instance"),
    "base exception type": KeyboardInterrupt,
    "tuple of types": (OSError, ValueError),
    "list of types": [OSError, ValueError],
    "kind": FaultKind.TRANSIENT,
    "safety": Safety.SAFE,
    "attempts": 3,
    "zero": 0,
    "seconds": 0.5,
    "text": "5",
    "flag": True,
    "options": {"attempts": 3},
    "property": property(lambda self: 1),
}


@pytest.mark.parametrize("what", MISPLACED)
@pytest.mark.parametrize(
    "decorate", [perdure.retry, perdure.retry(attempts=2), Retry()], ids=["bare", "options", "policy"]
)
def test_an_option_given_by_position_is_refused_at_once_with_the_way_out(
    decorate: Callable[[Any], object], what: str
) -> None:
    """B016: the strategy itself became the retried function, and the mistake showed far away."""
    with pytest.raises(ConfigError) as caught:
        decorate(MISPLACED[what])
    message = str(caught.value)
    assert "by keyword" in message
    assert "\n" not in message
    assert repr(MISPLACED[what])[:20] in message


def test_options_next_to_a_misplaced_one_do_not_save_it() -> None:
    """B016: `retry(fn, stop=...)` of the report."""
    with pytest.raises(ConfigError, match="by keyword"):
        perdure.retry(Exponential(), attempts=3)  # type: ignore[call-overload] # the mistake under test
    with pytest.raises(TypeError):
        Retry(3)  # type: ignore[misc] # the mistake under test


@pytest.mark.parametrize("options", [{"tries": 3}, {"max_attempts": 3}, {"wait": 1}, {"stop": 3}])
def test_an_option_of_another_library_is_refused_by_name(options: dict[str, int]) -> None:
    """B016."""
    name = next(iter(options))
    for build in (Retry, perdure.retry, Retry().replace):
        with pytest.raises((TypeError, ConfigError), match=name):
            build(**options)


def test_decorating_calls_nothing() -> None:
    """B016: never an attempt, and never a look at a property that might do work, while a program is imported."""

    class Busy:
        def __call__(self) -> None:
            raise AssertionError("called while it was decorated")

    def generator() -> Any:
        raise AssertionError("called while it was decorated")
        yield

    async def coroutine_function() -> None:
        raise AssertionError("called while it was decorated")

    for guarded in (
        Busy(),
        generator,
        coroutine_function,
        classmethod(generator),
        staticmethod(coroutine_function),
    ):
        perdure.retry(guarded)
        perdure.retry(on=is_timeout, never=is_timeout, reject=is_timeout, on_exhausted=is_timeout)(guarded)


def test_bare_and_called_decorators_do_the_same() -> None:
    """B016: `@retry`, `@retry()`, `@Retry()`."""
    for decorate in (perdure.retry, perdure.retry(), Retry(), perdure.retry(None)):  # type: ignore[call-overload]
        script = Script(ConnectionRefusedError(), "ok")
        with no_waits():
            assert decorate(script)() == "ok"
        assert len(script.calls) == 2


OUTCOMES: dict[str, object] = {
    "a value": "ok",
    "an error": ConnectionRefusedError("down"),
    "a bug": KeyError("bug"),
}


@pytest.mark.parametrize("nested", ["inner", "outer", "both"])
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("colour", COLOURS)
def test_disabled_means_one_run_whatever_comes_of_it(colour: str, outcome: str, nested: Any) -> None:
    """B017: the body ran twice although it had succeeded."""
    with disabled():
        played = play(
            colour, Retry(attempts=5, attempt_timeout=9, nested=nested), OUTCOMES[outcome], "second run"
        )
    assert (played.calls, played.waits, played.elapsed) == (1, [], 0)
    if isinstance(OUTCOMES[outcome], Exception):
        assert played.error is OUTCOMES[outcome]
    else:
        assert (played.value, played.error) == ("ok", None)


@pytest.mark.parametrize("colour", COLOURS)
def test_disabled_by_the_environment_means_one_run(colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B017."""
    monkeypatch.setenv("PERDURE_DISABLED", "1")
    reset()
    error = ConnectionRefusedError("down")
    assert play(colour, Retry(attempts=5), "ok", "second run").calls == 1
    failed = play(colour, Retry(attempts=5), error, "second run")
    assert (failed.error, failed.calls) == (error, 1)
    assert "retries are disabled" in error.__notes__[-1]
    for off in ("0", ""):
        monkeypatch.setenv("PERDURE_DISABLED", off)
        reset()
        assert play(colour, Retry(attempts=5), error, "second run").calls == 2


def test_a_process_started_with_perdure_disabled_makes_single_attempts() -> None:
    """B017: from the first call on, and on the fast path."""
    program = """
import perdure
calls = []
@perdure.retry
def fails():
    calls.append(1)
    raise ConnectionRefusedError("down")
for _ in range(3):
    try:
        fails()
    except ConnectionRefusedError:
        pass
print(len(calls))
"""
    environment = {**os.environ, "PERDURE_DISABLED": "1", "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert done.stdout.strip() == "3"


def test_disabled_calls_still_reject_and_tell() -> None:
    """B017: one run, and its result is judged as the last one would be."""
    told: list[perdure.Outcome[Any]] = []
    policy = Retry(attempts=5, reject=lambda value: value == "bad", on_exhausted=told.append)
    with disabled(), pytest.raises(perdure.ResultRejected):
        policy.call(lambda: "bad")
    assert [(one.attempts, one.stop) for one in told] == [(1, StopReason.REJECTED)]


def test_disabled_is_over_with_its_block_and_nests() -> None:
    """B017."""
    with no_waits():
        with disabled():
            with disabled():
                assert Retry(attempts=3).outcome(refuse).attempts == 1
            assert Retry(attempts=3).outcome(refuse).attempts == 1
        assert Retry(attempts=3).outcome(refuse).attempts == 3
    assert run.disabled_by_environment is run.read_environment()


def refuse() -> None:
    raise ConnectionRefusedError("down")


ZERO_DELAYS = {
    "constant": Constant(0),
    "exponential base": Exponential(base=0),
    "exponential cap": Exponential(base=0, cap=0),
    "linear": Linear(step=0),
    "incremental": Incremental(first=0, step=0),
    "fibonacci": Fibonacci(unit=0),
    "schedule": Schedule([0, 0, 0]),
    "decorrelated": Decorrelated(base=0, cap=0),
}


@pytest.mark.parametrize("backoff", ZERO_DELAYS.values(), ids=list(ZERO_DELAYS))
def test_a_delay_of_zero_is_no_delay_and_not_the_default(backoff: perdure.Backoff) -> None:
    """B018: `min_backoff=0` gave the default backoff."""
    assert Retry(backoff=backoff).delays(5) == (0.0,) * 5
    for colour in COLOURS:
        played = play(colour, Retry(backoff=backoff), *[ConnectionRefusedError("down")] * 4)
        assert (played.calls, played.waits, played.elapsed) == (4, [0.0] * 3, 0.0)


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_a_deadline_of_zero_leaves_the_first_attempt_and_what_costs_no_time(zero: float) -> None:
    """B018: it is not "no deadline"."""
    for colour in COLOURS:
        played = play(
            colour, Retry(deadline=zero, backoff=Constant(1)), *[ConnectionRefusedError("down")] * 4
        )
        assert (played.calls, played.waits) == (1, [])
        at_once = play(
            colour, Retry(deadline=zero, backoff=Constant(0)), *[ConnectionRefusedError("down")] * 4
        )
        assert at_once.calls == 4


def test_a_block_deadline_of_zero_is_over_at_once() -> None:
    """B018."""
    with VirtualClock(), perdure.deadline(0):
        assert perdure.time_left() == 0
        assert perdure.time_left(5) == 0
    assert perdure.time_left(0) == 0


def test_a_hint_cap_of_zero_refuses_every_hint() -> None:
    """B018: it is not "no cap"."""
    for colour in COLOURS:
        hinted = [perdure.transient(ConnectionRefusedError("busy"), after=0.1) for _ in range(4)]
        played = play(colour, Retry(hint_cap=0), *hinted)
        assert played.calls == 1
        assert [event.reason for event in played.events if event.name == "call.end"] == ["hint"]


def test_a_hint_of_zero_asks_for_nothing() -> None:
    """B018."""
    for colour in COLOURS:
        errors = [perdure.transient(ConnectionRefusedError("busy"), after=0) for _ in range(4)]
        played = play(colour, Retry(hint_cap=0, backoff=Constant(2)), *errors)
        assert (played.calls, played.waits) == (4, [2.0] * 3)


REFUSED_ZEROS: dict[str, Callable[[], object]] = {
    "attempts": lambda: Retry(attempts=0),
    "attempt_timeout": lambda: Retry(attempt_timeout=0),
    "shrink": lambda: Retry(shrink=0),
    "name": lambda: Retry(name=""),
    "on": lambda: Retry(on=0),  # type: ignore[arg-type] # the mistake under test
    "never": lambda: Retry(never=0),  # type: ignore[arg-type] # the mistake under test
    "reject": lambda: Retry(reject=0),  # type: ignore[arg-type] # the mistake under test
    "refresh": lambda: Retry(refresh=0),  # type: ignore[arg-type] # the mistake under test
    "on_exhausted": lambda: Retry(on_exhausted=0),  # type: ignore[arg-type] # the mistake under test
    "safety": lambda: Retry(safety=0),  # type: ignore[arg-type] # the mistake under test
    "nested": lambda: Retry(nested=0),  # type: ignore[arg-type] # the mistake under test
    "backoff": lambda: Retry(backoff=0),  # type: ignore[arg-type] # the mistake under test
    "jitter": lambda: Exponential(jitter=0),
    "factor": lambda: Exponential(factor=0),
    "cap": lambda: Exponential(base=1, cap=0),
}


@pytest.mark.parametrize("field", REFUSED_ZEROS)
def test_a_zero_that_means_nothing_is_refused_by_name_and_value(field: str) -> None:
    """B018: zero is never taken as "not given"."""
    with pytest.raises(ConfigError, match=field) as caught:
        REFUSED_ZEROS[field]()
    assert repr("" if field == "name" else 0) in str(caught.value) or field == "cap"


@pytest.mark.parametrize("empty", [(), [], "", {}])
def test_an_empty_choice_is_not_the_default_choice(empty: Any) -> None:
    """B018: `on=()` retries nothing, or is refused; it is not "what the classifier says"."""
    try:
        policy = Retry(on=empty)
    except ConfigError:
        return
    assert play("sync", policy, ConnectionRefusedError("down"), "ok").calls == 1


def test_the_number_of_delays_may_be_zero_and_so_may_the_seed() -> None:
    """B018."""
    assert Retry().delays(0) == ()
    assert Retry(attempts=1).delays() == ()
    assert Retry().delays(seed=0) == Retry().delays(seed=0)
    with VirtualClock(seed=0) as first:
        drawn = first.random.random()
    with VirtualClock(seed=0) as second:
        assert second.random.random() == drawn


def test_a_loop_without_its_with_block_is_told_at_the_second_turn() -> None:
    """B016: a body outside of `with attempt:` would be repeated for ever, or never."""
    ran: list[int] = []

    def run() -> None:
        for attempt in Retry():
            ran.append(attempt.number)  # noqa: PERF401 - the loop is the case

    with pytest.raises(RuntimeError, match="with attempt"):
        run()
    assert ran == [1]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_an_async_loop_without_its_with_block_is_told_at_the_second_turn(loop: str) -> None:
    """B016."""
    ran: list[int] = []

    async def main() -> None:
        async for attempt in Retry():
            ran.append(attempt.number)  # noqa: PERF401 - the loop is the case

    with pytest.raises(RuntimeError, match="with attempt"):
        run_async(loop, main)
    assert ran == [1]


def test_an_attempt_serves_one_with_block() -> None:
    """B016."""
    for attempt in Retry():
        with attempt, pytest.raises(RuntimeError, match="once"):
            attempt.__enter__()
        with pytest.raises(RuntimeError, match="once"):
            attempt.__enter__()


def test_a_sync_loop_over_an_async_policy_and_the_reverse_are_told_by_python() -> None:
    """B016: `for` in async code waits with the thread; `async for` outside of async code is a SyntaxError."""
    with pytest.raises(SyntaxError):
        compile("async for attempt in policy: pass", "case", "exec")


@pytest.mark.parametrize("end", ["break", "return", "raise"])
def test_a_block_may_be_left_in_any_way_and_leaves_nothing(end: str) -> None:
    """B016: what the attempt had set is taken back; the next loop is a fresh one."""

    def run() -> str:
        for attempt in Retry(attempt_timeout=9, nested="outer"):
            with attempt:
                if end == "break":
                    break
                if end == "return":
                    return "returned"
                raise KeyError("left")
        return "broke"

    try:
        assert run() == {"break": "broke", "return": "returned"}[end]
    except KeyError:
        assert end == "raise"
    assert perdure.time_left() is None
    assert perdure.current() is None
    with no_waits():
        assert Retry(attempts=3).outcome(refuse).attempts == 3


def test_a_loop_that_ended_gives_no_more_attempts() -> None:
    """B016: whoever keeps the iterator gets nothing twice."""
    loop = iter(Retry())
    with next(loop):
        pass
    assert list(loop) == []
    assert next(loop, None) is None


def test_a_result_that_was_rejected_cannot_be_taken_for_good() -> None:
    """B016: attempt.result() raises out of the block's body, so the code behind it does not run."""
    ran: list[str] = []
    with no_waits(), pytest.raises(perdure.ResultRejected):
        for attempt in Retry(attempts=2, reject=lambda value: value == "bad"):
            with attempt:
                ran.append(attempt.result("bad"))
                raise AssertionError("not reached")
    assert ran == []

"""Policies, hooks and coroutine objects of the other colour; B013, B014, B015."""

from __future__ import annotations

import asyncio
import inspect
import logging
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest

import perdure
from perdure import Backoff, ConfigError, Constant, Exponential, FaultKind, Retry, StopReason
from perdure.testing import Script, VirtualClock
from tests.harness import COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]

POLICY = Retry(attempts=3)


@pytest.mark.parametrize("colour", COLOURS)
def test_one_policy_object_serves_every_colour_in_the_same_way(colour: str) -> None:
    """B014."""
    policy = Retry(attempts=4, backoff=Exponential(base=1, cap=60))
    outcomes = [ConnectionRefusedError("1"), TimeoutError("2"), ConnectionResetError("3"), "ok"]
    played, reference = play(colour, policy, *outcomes, seed=7), play("sync", policy, *outcomes, seed=7)
    assert (played.value, played.calls, played.waits) == (reference.value, reference.calls, reference.waits)
    assert played.elapsed == pytest.approx(sum(played.waits), abs=0.005)
    assert played.names == reference.names


@pytest.mark.parametrize("colour", COLOURS)
def test_one_policy_object_tells_every_colour_of_the_failure(colour: str) -> None:
    """B014: the symptom was a callback that was never called."""
    told: list[perdure.Outcome[Any]] = []
    policy = Retry(attempts=3, on_exhausted=told.append, backoff=Constant(0))
    error = ConnectionRefusedError("down")
    played = play(colour, policy, error, error, error)
    assert played.error is error
    assert [(outcome.error, outcome.attempts, outcome.stop) for outcome in told] == [
        (error, 3, StopReason.ATTEMPTS)
    ]


async def async_hook(*_args: object) -> bool:
    raise AssertionError("never to be called")


class AsyncHook:
    async def __call__(self, *_args: object) -> bool:
        return await async_hook()


def hooks_that_are_coroutine_functions() -> list[Function]:
    return [
        async_hook,
        partial(async_hook),
        AsyncHook(),
        partial(AsyncHook()),
        AsyncHook().__call__,
        AsyncMock(),
    ]


@pytest.mark.parametrize("hook", hooks_that_are_coroutine_functions(), ids=lambda hook: type(hook).__name__)
@pytest.mark.parametrize("field", ["on", "never", "reject", "on_exhausted"])
def test_a_coroutine_function_is_refused_where_a_plain_hook_is_needed(field: str, hook: Function) -> None:
    """B013."""
    with pytest.raises(ConfigError, match=field):
        Retry(**{field: hook})


@pytest.mark.parametrize("hook", hooks_that_are_coroutine_functions(), ids=lambda hook: type(hook).__name__)
def test_a_coroutine_function_is_refused_as_listener(hook: Function) -> None:
    """B013: it would be called for every event and never awaited."""
    with pytest.raises(ConfigError, match="listener"):
        perdure.listen(hook)


@pytest.mark.parametrize("hook", hooks_that_are_coroutine_functions(), ids=lambda hook: type(hook).__name__)
def test_a_coroutine_function_is_refused_as_jitter_and_as_fault_rule(hook: Function) -> None:
    """B013."""
    with pytest.raises(ConfigError, match="jitter"):
        Exponential(jitter=hook)
    with pytest.raises(ConfigError, match="rule"):
        perdure.faults.register("somewhere.Error", hook)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("field", ["on", "never", "reject", "on_exhausted"])
def test_a_hook_that_returns_a_coroutine_is_reported_and_decides_nothing(
    field: str, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B013: a coroutine is true, so an answer that nobody awaits would always be yes."""

    async def answer() -> bool:
        return True

    policy = Retry(attempts=2, backoff=Constant(0), **{field: lambda _value: answer()})
    caplog.set_level(logging.WARNING, "perdure")
    played = play(colour, policy, "value" if field == "reject" else ConnectionRefusedError("1"), "ok")
    # What the field says when it says nothing: not wanted, not denied, not refused, not exhausted.
    assert (played.value, played.calls) == {
        "on": (None, 1),
        "never": ("ok", 2),
        "reject": ("value", 1),
        "on_exhausted": ("ok", 2),
    }[field]
    if field == "on_exhausted":
        policy = policy.replace(attempts=1)
        assert play(colour, policy, ConnectionRefusedError("1")).calls == 1
    assert any(field in record.getMessage() and "ignored" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("colour", COLOURS)
def test_refresh_may_be_async_on_async_calls_and_is_reported_on_sync_ones(
    colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B013."""
    refreshed: list[str] = []

    async def refresh() -> None:
        await asyncio.sleep(0) if not colour.startswith("trio") else None
        refreshed.append(colour)

    class Expired(Exception):
        pass

    perdure.faults.register(Expired, FaultKind.STALE)
    caplog.set_level(logging.WARNING, "perdure")
    played = play(colour, Retry(refresh=refresh), Expired(), "ok")
    assert (played.value, played.calls) == ("ok", 2)
    in_async_code = colour not in {"sync", "block"}
    assert refreshed == ([colour] if in_async_code else [])
    assert any("refresh" in record.getMessage() for record in caplog.records) is not in_async_code


REFUSALS: dict[str, Callable[[Any], object]] = {
    "call": POLICY.call,
    "outcome": POLICY.outcome,
    "policy": POLICY,
    "retry": perdure.retry,
    "retry with options": perdure.retry(attempts=3),
}


@pytest.mark.parametrize("way", REFUSALS)
def test_a_coroutine_object_is_refused_and_closed(way: str) -> None:
    """B015: perdure takes functions; a coroutine that it was given by mistake is not left to be warned about."""

    async def work() -> None:
        raise AssertionError("never to be started")

    coroutine = work()
    with pytest.raises(ConfigError, match="callable"):
        REFUSALS[way](coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


@pytest.mark.parametrize("way", REFUSALS)
def test_a_task_is_refused_and_left_alone(way: str) -> None:
    """B015: the sibling that somebody else may be waiting for."""

    async def main() -> str:
        task = asyncio.ensure_future(asyncio.sleep(0, "done"))
        with pytest.raises(ConfigError, match="callable"):
            REFUSALS[way](task)
        return await task

    assert asyncio.run(main()) == "done"


@pytest.mark.parametrize("way", ["call", "outcome"])
def test_a_call_that_is_refused_before_it_begins_makes_no_coroutine(way: str) -> None:
    """B015: a function that is not called cannot leave a coroutine behind."""
    script = Script("never")

    async def main() -> None:
        with perdure.deadline(0):
            if way == "outcome":
                outcome = await POLICY.outcome(script.asynchronous)
                assert isinstance(outcome.error, perdure.DeadlineExceeded)
            else:
                with pytest.raises(perdure.DeadlineExceeded):
                    await POLICY.call(script.asynchronous)

    with VirtualClock():
        asyncio.run(main())
    assert script.calls == []


def broken(*_args: object) -> Any:
    raise LookupError("broken hook")


@pytest.mark.parametrize("field", ["on", "never", "reject", "on_exhausted"])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_hook_that_raises_is_reported_once_and_decides_nothing(
    colour: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B013: the sibling; the user's error is never replaced by one of a predicate."""
    policy = Retry(attempts=2, backoff=Constant(0), **{field: broken})
    caplog.set_level(logging.WARNING, "perdure")
    errors = [ConnectionRefusedError("1"), ConnectionRefusedError("2")]
    for _ in range(2):
        played = play(colour, policy, *errors)
        assert played.error is errors[0 if field == "on" else 1]
        assert played.calls == (1 if field == "on" else 2)
    value = play(colour, policy, "value")
    assert (value.value, value.calls) == ("value", 1)
    ignored = [record for record in caplog.records if "ignored" in record.getMessage()]
    assert [field in record.getMessage() for record in ignored] == [True]


NONSENSE: list[object] = [
    None,
    "soon",
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    1e400,
    [],
    object(),
    10**400,
]


class OddBackoff(Backoff):
    """A user's own backoff, with whatever it returns."""

    jitter = "none"
    cap = 5.0

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def _raw(self, n: int) -> float:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value] # the mistake under test


def odd_jitter(answer: object) -> Backoff:
    def jitter(_delay: float, _draw: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Exponential(jitter=jitter)


@pytest.mark.parametrize("answer", [*NONSENSE, LookupError("broken")], ids=lambda answer: repr(answer)[:9])
@pytest.mark.parametrize("make", [odd_jitter, OddBackoff], ids=["jitter", "backoff"])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_delay_that_is_nonsense_never_replaces_the_users_error(
    colour: str, make: Callable[[object], Backoff], answer: object
) -> None:
    """B013: bad input at run time is ignored or reported, never a crash; the delay stays within [0, cap]."""
    errors = [ConnectionRefusedError("1"), ConnectionRefusedError("2")]
    played = play(colour, Retry(attempts=2, backoff=make(answer), deadline=None), *errors)
    assert (played.error, played.calls) == (errors[1], 2)
    assert 0 <= played.elapsed <= 5


@pytest.mark.parametrize("colour", COLOURS)
def test_a_listener_that_raises_is_reported_once_and_changes_nothing(
    colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B013."""
    caplog.set_level(logging.WARNING, "perdure")
    seen: list[str] = []
    perdure.listen(broken)
    perdure.listen(lambda event: seen.append(event.name))
    played = play(colour, Retry(attempts=2, backoff=Constant(0)), ConnectionRefusedError("1"), "ok")
    assert (played.value, played.calls) == ("ok", 2)
    assert seen == played.names
    assert sum("ignored" in record.getMessage() for record in caplog.records) == 1

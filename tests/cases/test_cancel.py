"""BaseExceptions pass at once from everywhere, and leave nothing behind; B026, B027, B028."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import perdure
from perdure import Backoff, Constant, Event, FaultKind, Retry, clock
from perdure.testing import Script, VirtualClock, no_waits, record_events
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    Way = Callable[[Retry, Script], Any]


class Shutdown(BaseException):
    """What a worker raises in its threads when it must end."""


INTERRUPTS = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, Shutdown)
POLICY = Retry(attempts=4, backoff=Constant(1))
# Every option that keeps something in the context while an attempt runs.
FULL = POLICY.replace(attempt_timeout=50, nested="outer")


class Raised(NamedTuple):
    """What came out of a call instead of a value."""

    error: BaseException


def in_block(policy: Retry, script: Script) -> Any:
    for attempt in policy:
        with attempt:
            return attempt.result(script())
    return None


def first_item(policy: Retry, script: Script) -> Any:
    def items() -> Iterator[Any]:
        yield script()

    return next(policy(items)())


async def in_async_block(policy: Retry, script: Script) -> Any:
    async for attempt in policy:
        with attempt:
            return attempt.result(await script.asynchronous())
    return None


async def first_async_item(policy: Retry, script: Script) -> Any:
    async def items() -> AsyncIterator[Any]:
        yield await script.asynchronous()

    stream = policy(items)()
    try:
        return await anext(stream)
    finally:
        await stream.aclose()  # type: ignore[attr-defined] # an async generator


async def async_outcome(policy: Retry, script: Script) -> Any:
    return (await policy.outcome(script.asynchronous)).unwrap()


SYNC: dict[str, Way] = {
    "function": lambda policy, script: policy(script)(),
    "call": lambda policy, script: policy.call(script),
    "outcome": lambda policy, script: policy.outcome(script).unwrap(),
    "block": in_block,
    "generator": first_item,
}
ASYNC: dict[str, Way] = {
    "function": lambda policy, script: policy(script.asynchronous)(),
    "call": lambda policy, script: policy.call(script.asynchronous),
    "outcome": async_outcome,
    "lambda": lambda policy, script: policy(lambda: script.asynchronous())(),
    "block": in_async_block,
    "generator": first_async_item,
}
WAYS = [*SYNC, *(f"{loop} {name}" for loop in ("asyncio", "trio") for name in ASYNC)]


def run(way: str, policy: Retry, script: Script) -> Any:
    """Run the script under the policy in one of the WAYS; then see that the context is as it was."""
    loop, _, name = way.rpartition(" ")
    if not loop:
        try:
            value = SYNC[name](policy, script)
        except BaseException as error:  # noqa: BLE001 - the caller looks at it
            value = Raised(error)
        see_that_nothing_is_left()
        return value

    async def main() -> Any:
        try:
            value = await ASYNC[name](policy, script)
        except BaseException as error:  # noqa: BLE001 - the caller looks at it
            value = Raised(error)
        see_that_nothing_is_left()
        return value

    return run_async(loop, main)


def see_that_nothing_is_left() -> None:
    assert perdure.time_left() is None
    assert perdure.current() is None
    after = Script(*[ConnectionRefusedError("after")] * 3, "ok")
    assert POLICY.replace(backoff=Constant(0)).call(after) == "ok"


@pytest.fixture(params=["fused", "general"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways through the engine: the straight-line wrapper, and the one that a virtual clock takes."""
    with no_waits() if request.param == "fused" else VirtualClock(seed=0):
        yield request.param


@pytest.mark.parametrize("policy", [POLICY, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("interrupt", INTERRUPTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("path")
def test_it_passes_at_once_from_the_function(
    way: str, interrupt: type[BaseException], before: int, policy: Retry
) -> None:
    """B026, B027, B028: on the first attempt and on a later one; the same object; no other call."""
    thrown = interrupt("stop")
    script = Script(*[ConnectionRefusedError("down")] * before, thrown, "too late")
    assert run(way, policy, script) == Raised(thrown)
    assert len(script.calls) == before + 1


@pytest.mark.parametrize("way", SYNC)
def test_it_passes_at_once_from_a_sync_wait(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B026: Ctrl-C is most likely to come here."""
    thrown = KeyboardInterrupt()

    def sleep(_seconds: float) -> None:
        raise thrown

    with monkeypatch.context() as patch:
        patch.setattr(clock, "sleep", sleep)
        script = Script(ConnectionRefusedError("down"), "too late")
        with record_events() as events:
            assert run(way, POLICY, script) == Raised(thrown)
    assert len(script.calls) == 1
    assert [event.reason for event in events if event.name == "call.end"][0] == "neutral"  # noqa: RUF015 - the list says more


class StopsInBackoff(Backoff):
    """A backoff of the user's own in which Ctrl-C arrives."""

    jitter = "none"
    cap = 10.0

    def _raw(self, n: int) -> float:
        raise KeyboardInterrupt


class Stale(Exception):
    """Stale until something is refreshed."""


class Unspeakable(ConnectionRefusedError):
    """Printing it is interrupted."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def stop(*_args: object) -> Any:
    raise KeyboardInterrupt


REFUSED = ConnectionRefusedError
HOOKS: dict[str, tuple[Retry, list[object]]] = {
    "on": (Retry(on=stop), [REFUSED]),
    "never": (Retry(never=stop), [REFUSED]),
    "reject": (Retry(reject=stop), ["value"]),
    "refresh": (Retry(refresh=stop), [Stale]),
    "on_exhausted": (Retry(attempts=1, on_exhausted=stop), [REFUSED]),
    "on_exhausted after attempts": (POLICY.replace(on_exhausted=stop), [REFUSED] * 4),
    "jitter": (Retry(backoff=perdure.Exponential(jitter=stop)), [REFUSED]),
    "backoff": (Retry(backoff=StopsInBackoff()), [REFUSED]),
    "text of the error": (Retry(), [Unspeakable]),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("path")
def test_it_passes_at_once_from_every_hook(way: str, hook: str) -> None:
    """B026: what is raised in the user's own predicate or callback is the user's."""
    if hook == "reject" and way.endswith("generator"):
        pytest.skip("a generator has no result to reject")
    policy, outcomes = HOOKS[hook]
    perdure.faults.register(Stale, FaultKind.STALE)
    script = Script(*outcomes)
    result = run(way, policy, script)
    assert isinstance(result, Raised)
    assert type(result.error) is KeyboardInterrupt
    assert len(script.calls) == len(outcomes)


@pytest.mark.parametrize("way", WAYS)
def test_it_passes_at_once_from_a_fault_rule(way: str) -> None:
    """B026."""
    perdure.faults.register(Stale, stop)
    script = Script(Stale())
    result = run(way, POLICY, script)
    assert isinstance(result, Raised)
    assert type(result.error) is KeyboardInterrupt


EVENTS = ["call.start", "attempt.start", "attempt.end", "retry.scheduled", "retry.suppressed", "call.end"]


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("way", WAYS)
def test_it_passes_at_once_from_a_listener_whatever_it_is_told(way: str, name: str) -> None:
    """B026."""
    thrown = KeyboardInterrupt()
    told: list[str] = []

    def listener(event: Event) -> None:
        if name not in told and event.operation != "after":
            told.append(event.name)
            if event.name == name:
                raise thrown

    script = Script(REFUSED(), REFUSED(), REFUSED(), REFUSED())
    unlisten = perdure.listen(listener)
    with VirtualClock():
        result = run(way, POLICY, script)
    unlisten()
    assert result == Raised(thrown)
    assert len(script.calls) == {
        "call.start": 0,
        "attempt.start": 0,
        "retry.suppressed": 4,
        "call.end": 4,
    }.get(name, 1)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_stands_for_an_error_stands_for_an_interrupt(way: str) -> None:
    """B027: "return instead of raise" swallowed SystemExit."""
    told: list[object] = []
    for on_exhausted in ("return", told.append):
        policy = Retry(attempts=1, reject=lambda value: value == "bad", on_exhausted=on_exhausted)  # type: ignore[arg-type]
        thrown = SystemExit(3)
        assert run(way, policy, Script(thrown)) == Raised(thrown)
    assert told == []


@pytest.mark.parametrize("field", ["on", "never"])
@pytest.mark.parametrize(
    "wanted", [BaseException, KeyboardInterrupt, (OSError, SystemExit), asyncio.CancelledError]
)
def test_a_policy_that_would_retry_an_interrupt_is_refused(field: str, wanted: Any) -> None:
    """B026, B028."""
    with pytest.raises(perdure.ConfigError, match="always pass"):
        Retry(**{field: wanted})


@pytest.mark.parametrize("way", WAYS)
def test_a_group_with_an_interrupt_in_it_passes(way: str) -> None:
    """B026: what a TaskGroup makes of Ctrl-C."""
    thrown = BaseExceptionGroup("tasks", [ConnectionRefusedError("down"), KeyboardInterrupt()])
    script = Script(thrown)
    assert run(way, POLICY, script) == Raised(thrown)
    assert len(script.calls) == 1


REFUSALS: list[Exception] = [
    perdure.ShuttingDown(None, "closing"),
    perdure.Overloaded("payments", retry_after=1.0),
    perdure.DeadlineExceeded(),
    concurrent.futures.CancelledError(),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("path")
def test_a_shutdown_and_other_words_of_the_caller_are_not_failures_to_retry(
    way: str, error: Exception
) -> None:
    """B028: Exceptions that say "stop", not "it failed"."""
    script = Script(error, "too late")
    assert run(way, POLICY, script) == Raised(error)
    assert len(script.calls) == 1


@pytest.mark.parametrize("colour", COLOURS)
def test_a_shutdown_between_a_failure_and_its_wait_leaves_no_wait(colour: str) -> None:
    """B028: waits end at once; so does one that was decided just before."""
    error = ConnectionRefusedError("down")

    def close(event: Event) -> None:
        if event.name == "retry.scheduled":
            perdure.close(grace=0, final=True)

    perdure.listen(close)
    played = play(colour, Retry(backoff=Constant(60), deadline=None), error, "too late")
    assert (played.error, played.calls, played.elapsed) == (error, 1, 0)
    assert "shutting down" in error.__notes__[-1]


def test_a_shutdown_ends_the_waits_of_other_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """B028: with the original error; the wait here would be an hour of real time."""
    waiting, real_sleep = threading.Event(), clock.sleep

    def sleep(seconds: float) -> None:
        waiting.set()
        real_sleep(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    error = ConnectionRefusedError("down")
    results: list[perdure.Outcome[Any]] = []
    policy = Retry(backoff=Constant(3600), deadline=None)
    thread = threading.Thread(target=lambda: results.append(policy.outcome(Script(error, "too late"))))
    thread.start()
    assert waiting.wait(30)
    assert perdure.close(grace=30)
    thread.join(30)
    assert [(one.error, one.stop) for one in results] == [(error, perdure.StopReason.SHUTDOWN)]

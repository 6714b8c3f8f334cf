"""The breaker through a Dependency: the cases breaker/* in every colour, and what callers and operators see."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from perdure import (
    AttemptTimeout,
    Breaker,
    BreakerOpen,
    Bulkhead,
    ConfigError,
    Constant,
    DeadlineExceeded,
    Dependency,
    Fallback,
    Isolated,
    Outcome,
    RateLimit,
    RateLimited,
    Retry,
    Timeouts,
)
from perdure.testing import Script, VirtualClock, record_events, took
from tests.dependency.breaking import (
    OPEN,
    PATIENCE,
    Answered,
    call,
    down,
    during,
    half_open,
    in_flight,
    named,
    refused,
    single,
    state_of,
    trip,
)
from tests.engine.tasks import LOOPS, together
from tests.harness import COLOURS, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

in_every_colour = pytest.mark.parametrize("colour", COLOURS)
NEUTRAL = [ValueError("ours"), Answered(429), KeyboardInterrupt(), DeadlineExceeded()]


# -- half-open -----------------------------------------------------------------------------------------


@in_every_colour
def test_a_failed_probe_reopens_at_once_and_successes_before_it_are_void(
    clock: VirtualClock, colour: str
) -> None:
    """B138."""
    payments = single(successes=3)
    half_open(payments, clock)
    assert not refused(colour, payments)
    assert not refused(colour, payments)
    call(colour, payments, down())
    assert state_of(payments) == "open"
    assert refused(colour, payments)
    clock.advance(2 * OPEN)
    assert [refused(colour, payments) for _ in range(2)] == [False, False]
    assert state_of(payments) == "half_open"
    assert not refused(colour, payments)
    assert state_of(payments) == "closed"


@in_every_colour
def test_successes_at_the_very_moment_the_open_time_ends_close_it_for_good(
    clock: VirtualClock, colour: str
) -> None:
    """B139."""
    payments = single(successes=1)
    trip(payments, colour)
    clock.advance(payments.snapshot()["retry_after"] - 0.001)
    assert refused(colour, payments)
    clock.advance(payments.snapshot()["retry_after"])
    assert state_of(payments) == "half_open"
    assert not refused(colour, payments)
    assert state_of(payments) == "closed"
    clock.advance(1e5)
    assert state_of(payments) == "closed"
    assert not refused(colour, payments)


@in_every_colour
def test_results_that_say_nothing_take_no_probe_away(clock: VirtualClock, colour: str) -> None:
    """B140."""
    payments = single(successes=5)
    half_open(payments, clock)
    for _ in range(4):
        for nothing in NEUTRAL:
            assert call(colour, payments, nothing).error is nothing
        assert not refused(colour, payments)
    assert state_of(payments) == "half_open"
    assert isinstance(call(colour, payments, Answered(404)).error, Answered)
    assert state_of(payments) == "closed"


@in_every_colour
def test_one_lucky_probe_does_not_decide(clock: VirtualClock, colour: str) -> None:
    """B141."""
    payments = single()
    half_open(payments, clock)
    assert not refused(colour, payments)
    assert state_of(payments) == "half_open"
    call(colour, payments, down())
    assert state_of(payments) == "open"


def test_twelve_threads_at_the_moment_of_half_open_are_two_probes(clock: VirtualClock) -> None:
    """B142."""
    payments = single(probes=2, successes=4)
    half_open(payments, clock)
    start, all_refused, turned_away = threading.Barrier(12), threading.Event(), []

    def one() -> bool:
        start.wait(PATIENCE)
        try:
            return payments.call(all_refused.wait, PATIENCE)
        except BreakerOpen:
            turned_away.append(1)
            if len(turned_away) == 10:
                all_refused.set()
            return False

    with ThreadPoolExecutor(12) as pool:
        futures = [pool.submit(one) for _ in range(12)]
        assert sum(future.result(PATIENCE) for future in futures) == 2


@in_every_colour
def test_probes_are_single_attempts_of_calls_that_may_be_retried(clock: VirtualClock, colour: str) -> None:
    """A retry whose attempt the open breaker refuses ends with the error of the attempt before, and no wait."""
    breaker = Breaker(failures=2, failure_rate=None, ramp=False)
    payments = Dependency("payments", retry=Retry(attempts=5, backoff=Constant(1)), breaker=breaker)
    error = down()
    played = call(colour, payments, down(), error, "never")
    assert played.error is error
    assert (played.calls, clock.now) == (2, 1)
    assert refused(colour, payments)
    clock.advance(OPEN)
    assert call(colour, payments, down(), "never").calls == 1
    assert state_of(payments) == "open"


# -- counting ------------------------------------------------------------------------------------------


@in_every_colour
def test_what_happened_is_told_once_per_transition(clock: VirtualClock, colour: str) -> None:
    """B144: hooks once per transition, however many calls fail at that time."""
    payments = single(failures=1)

    def overlapping() -> None:
        def inner() -> None:
            payments.outcome(Script(down()))
            raise down()

        payments.outcome(inner)
        raise down()

    with record_events() as seen:
        with pytest.raises(ConnectionError):
            during(colour, payments, overlapping)
        clock.advance(OPEN)
        assert [refused(colour, payments) for _ in range(2)] == [False, False]
    names = [event.name for event in seen if event.name.startswith("breaker.")]
    assert names == [
        "breaker.opened",
        "breaker.late_result",
        "breaker.late_result",
        "breaker.half_open",
        "breaker.closed",
    ]


@in_every_colour
def test_one_failure_is_no_rate(clock: VirtualClock, colour: str) -> None:
    """B145."""
    payments = single(failures=None, failure_rate=0.5, min_calls=4)
    for error in (down(), down(), down()):
        call(colour, payments, error)
        assert state_of(payments) == "closed"
    call(colour, payments, "fine")
    assert state_of(payments) == "closed", "a success is no reason to open"
    call(colour, payments, down())
    assert state_of(payments) == "open"


@in_every_colour
def test_a_failure_a_day_opens_nothing(clock: VirtualClock, colour: str) -> None:
    """B146."""
    payments = single(failures=5)
    for _ in range(9):
        call(colour, payments, down())
        clock.advance(86_400)
    assert state_of(payments) == "closed"


@in_every_colour
def test_a_success_parts_failures(clock: VirtualClock, colour: str) -> None:
    """B146."""
    payments = single(failures=3)
    for outcome in [down(), down(), "fine"] * 4:
        call(colour, payments, outcome)
    assert state_of(payments) == "closed"


@in_every_colour
def test_what_says_nothing_between_failures_neither_counts_nor_parts_them(
    clock: VirtualClock, colour: str
) -> None:
    payments = single(failures=5)
    for outcome in [down(), down(), *NEUTRAL, down(), *NEUTRAL, down(), *NEUTRAL]:
        call(colour, payments, outcome)
    assert state_of(payments) == "closed"
    call(colour, payments, down())
    assert state_of(payments) == "open"


VERDICTS = [
    (Answered(404), "success"),
    (Answered(400), "success"),
    (Answered(403), "success"),
    (Answered(409), "success"),
    (Answered(422), "success"),
    (Answered(429), "neutral"),
    (Answered(429, after=7), "neutral"),
    (ValueError("ours"), "neutral"),
    (BreakerOpen("another", "open"), "neutral"),
    (DeadlineExceeded(), "neutral"),
    (Answered(500), "failure"),
    (Answered(502), "failure"),
    (Answered(503), "failure"),
    (Answered(503, after=7), "failure"),
    (Answered(529), "failure"),
    (TimeoutError("slow"), "failure"),
    (AttemptTimeout("slow"), "failure"),
    (ConnectionRefusedError("down"), "failure"),
]


@in_every_colour
@pytest.mark.parametrize(("error", "meaning"), VERDICTS, ids=lambda value: repr(value)[:40])
def test_what_an_error_means_to_the_breaker(
    clock: VirtualClock, colour: str, error: Exception, meaning: str
) -> None:
    payments = single(failures=2)
    call(colour, payments, down())
    assert call(colour, payments, error).error is error
    if meaning == "failure":
        assert state_of(payments) == "open"
        return
    assert state_of(payments) == "closed"
    call(colour, payments, down())
    assert state_of(payments) == ("open" if meaning == "neutral" else "closed")


@pytest.mark.parametrize("colour", ["asyncio", "trio", "asyncio-block", "trio-block"])
def test_an_attempt_that_its_timeout_cuts_is_a_failure(clock: VirtualClock, colour: str) -> None:
    payments = Dependency(
        "payments", retry=None, timeouts=Timeouts(read=2), gate=None, breaker=Breaker(failures=2)
    )
    for _ in range(2):
        assert isinstance(call(colour, payments, took(1000, "late")).error, AttemptTimeout)
    assert state_of(payments) == "open"
    assert not in_flight(payments)


@in_every_colour
def test_slow_calls_open_it(clock: VirtualClock, colour: str) -> None:
    payments = single(failures=None, slow=2, slow_rate=0.5, min_calls=4)
    for seconds in (1, 1, 2, 1.9):
        call(colour, payments, took(seconds, "fine"))
        assert state_of(payments) == "closed"
    with record_events() as seen:
        call(colour, payments, took(2, "fine"))
        call(colour, payments, took(3, "fine"))
    assert state_of(payments) == "open"
    assert [event.reason for event in named(seen, "breaker.opened")] == ["slow_rate"]
    assert refused(colour, payments)


@in_every_colour
@pytest.mark.parametrize(("hint", "least", "most"), [(120, 120, 130), (10, 48, 60)])
def test_a_delay_that_the_server_asks_for_is_the_least_open_time(
    clock: VirtualClock, colour: str, hint: float, least: float, most: float
) -> None:
    payments = single(failures=2)
    call(colour, payments, down())
    call(colour, payments, Answered(503, after=hint))
    assert least <= payments.snapshot()["retry_after"] <= most


@in_every_colour
def test_a_delay_that_one_call_was_asked_for_holds_for_all(clock: VirtualClock, colour: str) -> None:
    """B152."""
    payments = Dependency("payments", retry=None, rate_limit=RateLimit(1000), breaker=Breaker())
    call(colour, payments, Answered(429, after=30))
    for _ in range(50):
        error = call(colour, payments, "never").error
        assert isinstance(error, RateLimited)
        assert error.retry_after == pytest.approx(30)
    clock.advance(30)
    assert call(colour, payments, "fine").value == "fine"
    assert state_of(payments) == "closed", "neither the 429 nor the refusals count"


# -- what callers see ----------------------------------------------------------------------------------


@in_every_colour
def test_a_refusal_says_who_why_and_for_how_long(clock: VirtualClock, colour: str) -> None:
    payments = single()
    trip(payments, colour)
    played = call(colour, payments, "never")
    error = played.error
    assert isinstance(error, BreakerOpen)
    assert played.calls == 0
    assert (error.dependency, error.reason) == ("payments", "too many failures in a row")
    assert error.retry_after == pytest.approx(payments.snapshot()["retry_after"])
    clock.advance(error.retry_after)
    assert not refused(colour, payments)


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize("where", ["dependency", "view"])
def test_a_fallback_stands_in_for_every_refusal_in_real_time_too(form: str, where: str) -> None:
    own = {"fallback": Fallback(value="instead")} if where == "dependency" else {}
    payments = Dependency("payments", retry=None, breaker=Breaker(failures=1), **own)
    view: Any = payments if own else payments.using(fallback=Fallback(value="instead"))

    @view
    def fails() -> str:
        raise down()

    @view
    async def fails_later() -> str:
        raise down()

    for _ in range(5):
        assert (fails() if form == "sync" else asyncio.run(fails_later())) == "instead"


def test_on_exhausted_hears_of_every_refusal_in_real_time_too() -> None:
    heard: list[Outcome[Any]] = []
    payments = Dependency("payments", retry=None, breaker=Breaker(failures=1), on_exhausted=heard.append)

    @payments
    def fails() -> str:
        raise down()

    for _ in range(5):
        with pytest.raises((ConnectionError, BreakerOpen)):
            fails()
    assert [outcome.stop.value for outcome in heard] == ["attempts", *["breaker"] * 4]


def test_the_state_is_readable_without_traffic(clock: VirtualClock) -> None:
    payments = single(ramp=True)
    half_open(payments, clock)
    assert payments.snapshot()["retry_after"] == 0
    clock.advance(1e6)
    assert state_of(payments) == "half_open", "time alone never closes it"
    payments.call(str)
    payments.call(str)
    assert (state_of(payments), payments.snapshot()["state"]) == ("ramping", "ramping")
    clock.advance(59)
    assert state_of(payments) == "ramping"
    clock.advance(1)
    assert state_of(payments) == "closed"
    assert json.loads(json.dumps(payments.snapshot()))["breaker"] == {"state": "closed"}


def test_reading_the_state_changes_and_tells_nothing(clock: VirtualClock) -> None:
    payments = single()
    trip(payments)
    clock.advance(OPEN)
    before = payments.to_dict()
    with record_events() as seen:
        for _ in range(3):
            payments.snapshot()
    assert seen == []
    assert payments.to_dict() == before


@in_every_colour
def test_open_times_grow_until_it_was_closed_for_good(clock: VirtualClock, colour: str) -> None:
    payments, seen = single(cooldown=10, max_cooldown=30, successes=1), []
    trip(payments, colour)
    for _ in range(4):
        seen.append(payments.snapshot()["retry_after"])
        clock.advance(seen[-1])
        call(colour, payments, down())
    for after, full in zip(seen, (10, 20, 30, 30), strict=True):
        assert 0.8 * full <= after <= full
    clock.advance(30)
    assert not refused(colour, payments)
    clock.advance(31)
    trip(payments, colour)
    assert payments.snapshot()["retry_after"] <= 10


@in_every_colour
def test_in_the_shadow_it_decides_and_reports_and_never_refuses(clock: VirtualClock, colour: str) -> None:
    payments = single(mode="shadow")
    with record_events() as seen:
        trip(payments, colour)
        assert [call(colour, payments, "fine").value for _ in range(5)] == ["fine"] * 5
        assert isinstance(call(colour, payments, down()).error, ConnectionError)
        assert state_of(payments) == "open"
        clock.advance(OPEN)
        assert [call(colour, payments, "fine").value for _ in range(2)] == ["fine"] * 2
    assert state_of(payments) == "closed"
    assert len(named(seen, "breaker.opened")) == 1
    assert [event.reason for event in named(seen, "breaker.rejected")] == ["shadow"] * 6
    assert not in_flight(payments)


def test_in_the_shadow_retries_go_on(clock: VirtualClock) -> None:
    breaker = Breaker(failures=1, mode="shadow")
    payments = Dependency("payments", retry=Retry(attempts=4), breaker=breaker)
    assert call("sync", payments, down(), down(), down(), "fine").value == "fine"


# -- who shares it -------------------------------------------------------------------------------------


def test_a_dependency_declared_again_has_the_state_of_the_first(clock: VirtualClock) -> None:
    """B149."""
    trip(single())
    left = single().snapshot()["retry_after"]
    clock.advance(10)
    again = single()
    assert state_of(again) == "open"
    assert again.snapshot()["retry_after"] == pytest.approx(left - 10)
    call("sync", again, "never")
    assert single().snapshot()["retry_after"] == pytest.approx(left - 10)


def test_views_share_the_breaker_and_keys_have_one_each(clock: VirtualClock) -> None:
    payments = single()
    trip(payments.using(retry=Retry(attempts=1)))
    assert refused("sync", payments)
    assert not refused("sync", payments.at("eu"))
    trip(payments.at("eu"))
    assert refused("sync", payments.at("eu").using(retry=None))
    assert not refused("sync", payments.at("us"))


def test_two_loops_one_after_the_other_share_the_breaker() -> None:
    payments = single()

    @payments
    async def work(outcome: object) -> object:
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    for outcome in (down(), down(), "fine", down(), down(), down()):
        assert state_of(payments) == "closed"
        if isinstance(outcome, Exception):
            with pytest.raises(ConnectionError):
                asyncio.run(work(outcome))
        else:
            assert asyncio.run(work(outcome)) == "fine"
    with pytest.raises(BreakerOpen):
        asyncio.run(work("never"))


def test_two_loops_in_two_threads_share_the_breaker(threads: ThreadPoolExecutor) -> None:
    """Each waits for the other between its steps, inside its loop and in the middle of a call."""
    payments, met = single(failures=4), threading.Barrier(2)
    in_both: list[int] = []

    @payments
    async def work(error: Exception) -> None:
        await asyncio.sleep(0)
        met.wait(PATIENCE)
        in_both.append(in_flight(payments))
        met.wait(PATIENCE)
        raise error

    async def fail_twice() -> None:
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await work(down())

    for future in [threads.submit(asyncio.run, fail_twice()) for _ in range(2)]:
        future.result(PATIENCE)
    assert state_of(payments) == "open"
    assert not in_flight(payments)
    assert len(in_both) == 4


def test_asyncio_trio_and_plain_calls_share_the_breaker(clock: VirtualClock) -> None:
    payments = single()
    for colour in ("asyncio", "trio", "sync"):
        assert state_of(payments) == "closed"
        call(colour, payments, down())
    assert all(refused(colour, payments) for colour in COLOURS)


# -- functions that hide what they are -----------------------------------------------------------------


async def work(outcome: object) -> object:
    await asyncio.sleep(0)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


class Client:
    """An object whose call is a coroutine function."""

    async def __call__(self, outcome: object) -> object:
        return await work(outcome)

    async def method(self, outcome: object) -> object:
        return await work(outcome)


HIDDEN: dict[str, Callable[..., Any]] = {
    "def that returns a coroutine": lambda outcome: work(outcome),
    "partial": partial(work),
    "partial of a partial": partial(partial(work)),
    "callable object": Client(),
    "bound method": Client().method,
    "def that returns a future": lambda outcome: asyncio.ensure_future(work(outcome)),
}
WAYS: dict[str, Callable[[Dependency, Any], Callable[..., Any]]] = {
    "decorated": lambda payments, fn: payments(fn),
    "call": lambda payments, fn: partial(payments.call, fn),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("path", ["fused", "general"])
def test_an_async_function_that_looks_sync_is_judged_by_what_its_awaitable_gives(
    request: pytest.FixtureRequest, hidden: str, way: str, path: str
) -> None:
    if path == "general":
        request.getfixturevalue("clock")
    payments = single(ramp=True)
    guarded = WAYS[way](payments, HIDDEN[hidden])

    async def main() -> None:
        assert await guarded("fine") == "fine"
        for _ in range(3):
            with pytest.raises(ConnectionError):
                await guarded(down())
        assert state_of(payments) == "open"
        with pytest.raises(BreakerOpen):
            await guarded("never")

    asyncio.run(main())
    assert not in_flight(payments)
    counters = payments.snapshot()["counters"]
    assert (counters["failed"], counters["refused"]) == (3, {"breaker": 1})


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_place_of_an_awaitable_is_held_until_it_ends(hidden: str) -> None:
    payments = Dependency("payments", breaker=Breaker(failures=1))
    guarded, inside = payments(HIDDEN[hidden]), []

    async def main() -> None:
        task = asyncio.ensure_future(guarded("fine"))
        await asyncio.sleep(0)
        inside.append(in_flight(payments))
        assert await task == "fine"

    asyncio.run(main())
    assert (inside, in_flight(payments)) == ([1], 0)


@pytest.mark.parametrize("hidden", ["def that returns a coroutine", "partial", "callable object"])
@pytest.mark.parametrize("path", ["fused", "general"])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_coroutine_that_nobody_awaits_holds_no_place(
    request: pytest.FixtureRequest, hidden: str, path: str
) -> None:
    if path == "general":
        request.getfixturevalue("clock")
    payments = Dependency("payments", breaker=Breaker(failures=1))
    payments(HIDDEN[hidden])("fine").close()
    gc.collect()
    assert payments.snapshot()["in_flight"] == 0


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_task_that_is_cancelled_before_it_begins_holds_no_place() -> None:
    payments = Dependency("payments", bulkhead=Bulkhead(1))
    guarded = payments(HIDDEN["def that returns a coroutine"])

    async def main() -> object:
        task = asyncio.ensure_future(guarded("never"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        await asyncio.sleep(0)  # until then the loop itself holds what it cancelled
        gc.collect()
        return await guarded("fine")

    assert asyncio.run(main()) == "fine"


# -- generators and blocks -----------------------------------------------------------------------------


def items(script: Script) -> Iterator[Any]:
    yield script()
    yield script()


async def aitems(script: Script) -> AsyncIterator[Any]:
    yield script()
    yield script()


def first_of(kind: str, payments: Dependency, script: Script) -> Any:
    """The first item of a guarded generator, which is then left."""
    if kind == "generator":
        made: Any = payments(items)(script)
        try:
            return next(made)
        finally:
            made.close()

    async def main() -> Any:
        later: Any = payments(aitems)(script)
        try:
            return await anext(later)
        finally:
            await later.aclose()

    return run_async("trio" if kind == "trio generator" else "asyncio", main)


generators = pytest.mark.parametrize("kind", ["generator", "async generator", "trio generator"])


@generators
def test_generators_are_judged_by_their_first_item(clock: VirtualClock, kind: str) -> None:
    payments = single()
    for _ in range(2):
        with pytest.raises(ConnectionError):
            first_of(kind, payments, Script(down()))
    assert first_of(kind, payments, Script("fine")) == "fine"
    for _ in range(3):
        assert state_of(payments) == "closed"
        with pytest.raises(ConnectionError):
            first_of(kind, payments, Script(down()))
    assert state_of(payments) == "open"
    with pytest.raises(BreakerOpen):
        first_of(kind, payments, Script())
    assert not in_flight(payments)


@generators
def test_a_generator_that_is_left_after_its_first_item_was_a_success(clock: VirtualClock, kind: str) -> None:
    payments = single(successes=1)
    half_open(payments, clock)
    assert first_of(kind, payments, Script("fine")) == "fine"
    assert state_of(payments) == "closed"
    assert not in_flight(payments)


def test_a_generator_that_is_never_started_asks_for_nothing(clock: VirtualClock) -> None:
    payments = single()
    half_open(payments, clock)
    made = payments(items)(Script())
    assert not in_flight(payments)
    del made
    assert not refused("sync", payments)


def test_a_first_item_that_is_cancelled_is_neutral(clock: VirtualClock) -> None:
    payments = single()
    half_open(payments, clock)

    @payments
    async def never() -> AsyncIterator[int]:
        await trio.sleep_forever()
        yield 1

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(anext, never())
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
                assert in_flight(payments) == 1
                scope.cancel()

    trio.run(main)
    assert not in_flight(payments)
    assert not refused("sync", payments)


LEAVES = ["break before it is entered", "break inside", "return inside", "raise inside"]


def leave(payments: Dependency, how: str) -> object:
    """Leave a loop early."""
    for attempt in payments:
        if how == "break before it is entered":
            break
        with attempt:
            if how == "break inside":
                break
            if how == "return inside":
                return None
            raise KeyboardInterrupt
    return None


async def aleave(payments: Dependency, how: str) -> object:
    async for attempt in payments:
        if how == "break before it is entered":
            break
        async with attempt:
            if how == "break inside":
                break
            if how == "return inside":
                return None
            raise KeyboardInterrupt
    return None


@pytest.mark.parametrize("how", LEAVES)
@pytest.mark.parametrize("colour", ["block", "asyncio-block", "trio-block"])
def test_a_loop_that_is_left_early_gives_its_place_back(clock: VirtualClock, colour: str, how: str) -> None:
    """B136: the probe does not stay out."""
    payments = single()
    half_open(payments, clock)
    try:
        leave(payments, how) if colour == "block" else run_async(colour, lambda: aleave(payments, how))
    except KeyboardInterrupt:
        assert how == "raise inside"
    gc.collect()
    assert not in_flight(payments)
    assert payments.snapshot()["retry_after"] == 0
    assert not refused("sync", payments)


def test_a_probe_whose_thread_never_reports_blocks_the_breaker_no_longer_than_its_lease(
    clock: VirtualClock,
) -> None:
    """B136."""
    payments = single(lease=15)
    half_open(payments, clock)
    lost = iter(payments)
    attempt = next(lost)
    attempt.__enter__()
    assert refused("sync", payments)
    assert payments.snapshot()["retry_after"] == pytest.approx(15)
    clock.advance(15)
    assert [refused("sync", payments) for _ in range(2)] == [False, False]
    assert state_of(payments) == "closed"
    attempt.__exit__(ConnectionError, down(), None)
    assert state_of(payments) == "closed"
    assert not in_flight(payments)


# -- operators -----------------------------------------------------------------------------------------


@in_every_colour
def test_an_isolated_dependency_is_not_called(clock: VirtualClock, colour: str) -> None:
    payments = Dependency("payments", breaker=Breaker())
    payments.isolate("maintenance")
    played = call(colour, payments, "never")
    assert isinstance(played.error, Isolated)
    assert (played.error.reason, played.error.retry_after, played.calls) == ("maintenance", None, 0)
    assert payments.snapshot()["state"] == "isolated"
    payments.restore()
    assert call(colour, payments, "fine").value == "fine"
    assert payments.snapshot()["state"] == "closed"


def test_it_is_back_when_every_owner_has_restored_it(clock: VirtualClock) -> None:
    payments = Dependency("payments")
    payments.isolate("load test", owner="ann")
    payments.isolate("migration", owner="bob", expires=60)
    payments.restore("ann")
    payments.restore("somebody else")
    with pytest.raises(Isolated) as error:
        payments.call(str)
    assert "migration" in error.value.reason
    assert "bob" in error.value.reason
    assert error.value.retry_after == 60
    clock.advance(60)
    assert payments.call(str) == ""
    assert payments.snapshot()["isolated"] == []


def test_an_owner_who_isolates_again_has_the_last_word(clock: VirtualClock) -> None:
    payments = Dependency("payments")
    payments.isolate("for ever")
    payments.isolate("for a moment", expires=1)
    clock.advance(1)
    assert payments.call(str) == ""
    with pytest.raises(ConfigError, match="reason"):
        payments.isolate("")
    with pytest.raises(ConfigError, match="expires"):
        payments.isolate("why", expires=0)


def test_a_key_is_isolated_alone_and_the_dependency_with_all_keys(clock: VirtualClock) -> None:
    payments = Dependency("payments")
    eu, us = payments.at("eu"), payments.at("us")
    eu.isolate("eu is down")
    with pytest.raises(Isolated):
        eu.call(str)
    assert (us.call(str), payments.call(str)) == ("", "")
    payments.isolate("all of it")
    for view in (payments, eu, us, payments.at("new")):
        with pytest.raises(Isolated):
            view.call(str)
    us.restore()
    with pytest.raises(Isolated):
        us.call(str)
    payments.restore()
    assert [view.call(str) for view in (payments, eu, us)] == [""] * 3


@pytest.mark.parametrize("key", [None, "eu"])
def test_isolation_reaches_functions_that_were_decorated_before(key: str | None) -> None:
    """On the fused path, in real time."""
    payments = Dependency("payments", breaker=Breaker())
    guarded = (payments if key is None else payments.at(key))(str)
    for _ in range(200):
        assert guarded() == ""
    payments.isolate("now")
    with pytest.raises(Isolated):
        guarded()
    payments.restore()
    assert guarded() == ""


def test_isolation_is_the_reason_given_while_the_breaker_is_open() -> None:
    """On the fused path, in real time, a moment after another refusal."""
    payments = single()
    guarded = payments(lambda error: (_ for _ in ()).throw(error))
    for _ in range(3):
        with pytest.raises(ConnectionError):
            guarded(down())
    for _ in range(3):
        with pytest.raises(BreakerOpen):
            guarded(down())
    payments.isolate("now")
    with pytest.raises(Isolated):
        guarded(down())


def test_isolation_counts_for_nothing_and_ends_no_call_in_flight(clock: VirtualClock) -> None:
    payments = single()
    half_open(payments, clock)

    def isolates() -> str:
        payments.isolate("now")
        return "fine"

    with record_events() as seen:
        assert during("sync", payments, isolates) == "fine"
        for _ in range(5):
            with pytest.raises(Isolated):
                payments.call(str)
        payments.restore()
        assert not refused("sync", payments)
    assert state_of(payments) == "closed"
    names = [event.name for event in seen if event.name in {"breaker.isolated", "breaker.restored"}]
    assert names == ["breaker.isolated", "breaker.restored"]


# -- warm starts ---------------------------------------------------------------------------------------


def warm(kept: dict[str, Any], **breaker: Any) -> Dependency:
    """A dependency as in another process, which begins with what was kept."""
    fields = {"failures": 3, "failure_rate": None, "ramp": False, **breaker}
    other = Dependency(
        "payments", retry=None, budget=None, gate=None, breaker=Breaker(**fields), replace=True
    )
    other.from_dict(json.loads(json.dumps(kept)))
    return other


def test_an_open_breaker_stays_open_for_the_rest_of_its_time(clock: VirtualClock) -> None:
    """B149: nobody opens it anew."""
    payments = single()
    trip(payments)
    trip(payments.at("eu"))
    clock.advance(20)
    left = payments.snapshot()["retry_after"]
    other = warm(payments.to_dict())
    assert other.snapshot()["retry_after"] == pytest.approx(left)
    assert refused("sync", other)
    assert refused("sync", other.at("eu"))
    assert not refused("sync", other.at("us"))
    clock.advance(left)
    assert state_of(other) == "half_open"
    assert [refused("sync", other) for _ in range(2)] == [False, False]
    assert state_of(other) == "closed"


def test_an_open_time_that_ran_out_meanwhile_leads_to_probes_and_not_to_closed(clock: VirtualClock) -> None:
    """B150."""
    payments = single()
    trip(payments)
    clock.advance(1000)
    other = warm(payments.to_dict())
    assert state_of(other) == "half_open"
    call("sync", other, down())
    assert state_of(other) == "open"
    assert 96 <= other.snapshot()["retry_after"] <= 120, "the second open time in a row"


def test_failures_in_a_row_go_on_across_a_warm_start(clock: VirtualClock) -> None:
    payments = single()
    for _ in range(2):
        call("sync", payments, down())
    other = warm(payments.to_dict())
    assert state_of(other) == "closed"
    trip(other, failures=1)


def test_a_success_is_kept_too() -> None:
    """In real time: of the fused path, whose successes are counted when somebody asks."""
    payments = single()
    guarded = payments(lambda error: (_ for _ in ()).throw(error) if error else "fine")
    for _ in range(200):
        guarded(None)
    for error in (down(), down()):
        with pytest.raises(ConnectionError):
            guarded(error)
    guarded(None)
    assert payments.to_dict()["breaker"]["run"] == []
    other = warm(payments.to_dict())
    call("sync", other, down())
    assert state_of(other) == "closed"


def test_a_call_in_flight_during_a_warm_start_comes_late(clock: VirtualClock) -> None:
    payments = single(failures=1)
    kept = payments.to_dict()

    def loads() -> None:
        payments.from_dict(kept)
        raise down()

    with pytest.raises(ConnectionError):
        during("sync", payments, loads)
    assert not in_flight(payments)
    trip(payments, failures=1)


NONSENSE: list[Any] = [
    None,
    [],
    {},
    {"version": 2},
    {"version": 1},
    {"version": 1, "breaker": 5, "keys": 7},
    {"version": 1, "breaker": {"state": "ajar"}, "keys": {"eu": {"state": "open"}}},
]


@pytest.mark.parametrize("kept", NONSENSE)
def test_what_cannot_be_understood_is_left_out(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, kept: Any
) -> None:
    payments = single()
    trip(payments)
    payments.from_dict(kept)
    assert state_of(payments) == "open"
    assert caplog.text.count("not understood") <= 2
    clock.advance(OPEN)
    assert not refused("sync", payments)


def test_keys_that_are_kept_are_bounded_too(clock: VirtualClock) -> None:
    payments = single()
    trip(payments.at("bad"))
    kept = payments.to_dict()
    fine = payments.at("fine")
    fine.call(str)
    one = payments.to_dict()["keys"]["fine"]
    kept["keys"].update({f"{number}": one for number in range(1000)})
    other = warm(kept)
    assert len(other.snapshot()["keys"]) == 500
    assert refused("sync", other.at("bad"))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_warm_start_in_the_middle_of_traffic_loses_no_place(clock: VirtualClock, loop: str) -> None:
    payments = single()
    script = Script(*[took(number, "fine") for number in range(10)])

    async def load() -> None:
        await clock.asleep(4.5)
        payments.from_dict(payments.to_dict())

    async def main() -> None:
        await together(loop, *[payments(script.asynchronous)] * 10, load)

    run_async(loop, main)
    assert not in_flight(payments)

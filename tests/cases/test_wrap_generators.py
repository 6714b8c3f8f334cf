"""Generators and async generators are retried until their first item was delivered; B003, B004, B005."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Constant, Exponential, Retry, StopReason
from perdure.testing import VirtualClock, no_waits, record_events
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    Body = Callable[..., Iterator[Any]]

GENERATORS = ("generator", "asyncio", "trio")
POLICY = Retry(attempts=3, backoff=Constant(0))


def consume(colour: str, policy: Retry, body: Body, *args: Any) -> tuple[list[Any], BaseException | None]:
    """The items and the error that a consumer of the guarded generator gets; ``body`` is made async if need be."""
    got: list[Any] = []

    async def asynchronous(*args: Any) -> AsyncIterator[Any]:
        for item in body(*args):
            yield item

    async def main() -> None:
        async for item in policy(asynchronous)(*args):
            got.append(item)  # noqa: PERF401 - what came before an error counts

    try:
        if colour == "generator":
            got.extend(append_to(got, policy(body)(*args)))
        else:
            run_async(colour, main)
    except BaseException as error:  # noqa: BLE001 - the consumer reports it
        return got, error
    return got, None


def append_to(got: list[Any], items: Iterator[Any]) -> list[Any]:
    for item in items:
        got.append(item)  # noqa: PERF402 - what came before an error counts
    return []


@pytest.fixture(params=GENERATORS)
def colour(request: pytest.FixtureRequest) -> Iterator[str]:
    with VirtualClock(seed=0):
        yield request.param


Plan = list[tuple[int, bool]]


def expected(plan: Plan, attempts: int) -> tuple[list[int], bool, int]:
    """The rule in six lines: items, whether an error comes out, and how many generators were started."""
    for number, (items, fails) in enumerate(plan[:attempts], start=1):
        if items or not fails:
            return [number] * items, fails, number
    return [], True, attempts


@pytest.mark.parametrize("colour", GENERATORS)
@given(
    plan=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=5, max_size=5),
    attempts=st.integers(1, 5),
    listening=st.booleans(),
)
def test_a_generator_starts_again_only_while_nothing_was_delivered(
    colour: str,
    plan: Plan,
    attempts: int,
    listening: bool,
) -> None:
    """B003: attempt n yields some items and then fails or ends; no item comes twice, no error is lost."""
    started: list[int] = []

    def body() -> Iterator[int]:
        number = len(started) + 1
        started.append(number)
        items, fails = plan[number - 1]
        for _ in range(items):
            yield number
        if fails:
            raise ConnectionRefusedError(str(number))

    policy = POLICY.replace(attempts=attempts)
    if listening:
        with record_events():
            items, error = consume(colour, policy, body)
    else:
        items, error = consume(colour, policy, body)
    wanted, fails, starts = expected(plan, attempts)
    assert (items, len(started)) == (wanted, starts)
    assert (str(error) == str(starts)) if fails else error is None


def test_items_are_never_delivered_twice(colour: str) -> None:
    """B003: the input of the report."""
    started: list[int] = []

    def body() -> Iterator[int]:
        started.append(1)
        yield 1
        raise ConnectionRefusedError("after the first item")

    items, error = consume(colour, POLICY, body)
    assert (items, len(started)) == ([1], 1)
    assert isinstance(error, ConnectionRefusedError)
    assert perdure.attempts_of(error) == ()


def test_a_failure_before_the_first_item_is_retried_with_backoff(colour: str) -> None:
    """B004."""
    failures = iter([ConnectionRefusedError("1"), TimeoutError("2")])

    def body() -> Iterator[str]:
        for failure in failures:
            raise failure
        yield from ["a", "b"]

    policy = Retry(backoff=Exponential(base=1, cap=60, jitter="none"))
    with record_events() as events:
        assert consume(colour, policy, body) == (["a", "b"], None)
    assert [event.delay for event in events if event.name == "retry.scheduled"] == [1.0, 2.0]
    assert [event.reason for event in events if event.name == "call.end"] == ["success"]


def test_a_generator_that_never_delivers_raises_its_own_last_error(colour: str) -> None:
    """B004."""
    errors = [ConnectionRefusedError(str(number)) for number in range(3)]
    left = iter(errors)

    def body() -> Iterator[str]:
        raise next(left)
        yield

    items, error = consume(colour, POLICY, body)
    assert (items, error) == ([], errors[-1])
    assert [record.number for record in perdure.attempts_of(error or errors[0])] == [1, 2, 3]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_only_the_wait_for_the_first_item_is_under_the_attempt_timeout(loop: str) -> None:
    """B004: a slow start is cut and retried, a slow stream or a slow consumer is not."""
    starts: list[float] = []
    cleaned: list[float] = []

    async def main() -> list[int]:
        async with VirtualClock() as clock:

            async def stream() -> AsyncIterator[int]:
                starts.append(clock.now)
                try:
                    await clock.asleep(10 if len(starts) == 1 else 0.5)
                    yield 1
                    await clock.asleep(10)
                    yield 2
                finally:
                    cleaned.append(clock.now)

            got = []
            async for item in Retry(attempt_timeout=1, backoff=Constant(2))(stream)():
                got.append(item)
                await clock.asleep(10)
            return got

    assert run_async(loop, main) == [1, 2]
    assert starts == [0, 3]
    assert cleaned == [1, 33.5]


ONE_SHOT: dict[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "argument": lambda items: ((items,), {}),
    "second argument": lambda items: ((None, items), {}),
    "keyword": lambda items: ((), {"items": items}),
}


def some_items() -> Iterator[int]:
    yield from (1, 2, 3)


async def some_items_later() -> AsyncIterator[int]:
    for item in (1, 2, 3):
        yield item


def taken(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs.get("items", args[-1] if args else None)


@pytest.mark.parametrize("place", ONE_SHOT)
@pytest.mark.parametrize("how", ["function", "call", "outcome", "generator"])
def test_a_generator_argument_that_was_begun_is_not_replayed(how: str, place: str) -> None:
    """B005: the second attempt would see an exhausted iterator and call it a success."""
    calls: list[list[int]] = []
    error = ConnectionRefusedError("half way")

    def send(*args: Any, **kwargs: Any) -> list[int]:
        items = taken(args, kwargs)
        calls.append([next(items)])
        if len(calls) == 1:
            raise error
        return [*calls[-1], *items]

    def stream(*args: Any, **kwargs: Any) -> Iterator[int]:
        yield from send(*args, **kwargs)

    args, kwargs = ONE_SHOT[place](some_items())
    ways: dict[str, Callable[[], Any]] = {
        "function": lambda: POLICY(send)(*args, **kwargs),
        "call": lambda: POLICY.call(send, *args, **kwargs),
        "outcome": lambda: POLICY.outcome(send, *args, **kwargs).unwrap(),
        "generator": lambda: list(POLICY(stream)(*args, **kwargs)),
    }
    with no_waits() as waits, pytest.raises(ConnectionRefusedError) as caught:
        ways[how]()
    assert caught.value is error
    assert (calls, waits) == ([[1]], [])
    assert "can be used only once" in "".join(error.__notes__)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("place", ONE_SHOT)
@pytest.mark.parametrize("how", ["function", "call", "outcome", "generator"])
def test_an_async_generator_argument_that_was_begun_is_not_replayed(how: str, place: str, loop: str) -> None:
    """B005."""
    calls: list[int] = []
    error = ConnectionRefusedError("half way")

    async def send(*args: Any, **kwargs: Any) -> list[int]:
        calls.append(await anext(taken(args, kwargs)))
        raise error

    async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[int]:
        for item in await send(*args, **kwargs):
            yield item

    async def main() -> None:
        items = some_items_later()
        args, kwargs = ONE_SHOT[place](items)
        if how == "function":
            await POLICY(send)(*args, **kwargs)
        elif how == "call":
            await POLICY.call(send, *args, **kwargs)
        elif how == "outcome":
            outcome = await POLICY.outcome(send, *args, **kwargs)
            assert outcome.stop is StopReason.UNREPLAYABLE
            outcome.unwrap()
        else:
            async for _ in POLICY(stream)(*args, **kwargs):
                pass
        await items.aclose()

    with no_waits() as waits, pytest.raises(ConnectionRefusedError) as caught:
        run_async(loop, main)
    assert caught.value is error
    assert (calls, waits) == ([1], [])


def test_a_generator_argument_that_no_attempt_has_touched_is_replayed() -> None:
    """B005: the other half; the connection failed before the first item was taken."""
    calls: list[int] = []

    def send(items: Iterator[int]) -> list[int]:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionRefusedError("no connection")
        return list(items)

    async def send_later(items: AsyncIterator[int]) -> list[int]:
        calls.append(1)
        if len(calls) < 6:
            raise ConnectionRefusedError("no connection")
        return [item async for item in items]

    async def main() -> list[int]:
        return await POLICY(send_later)(some_items_later())

    with no_waits():
        assert POLICY(send)(some_items()) == [1, 2, 3]
        assert asyncio.run(main()) == [1, 2, 3]
    assert len(calls) == 6


def test_a_coroutine_argument_that_was_awaited_is_not_replayed() -> None:
    """B005: a coroutine is as one-shot as a generator."""
    calls: list[int] = []

    async def fetch() -> int:
        return 1

    async def work(fetched: Any) -> None:
        calls.append(await fetched)
        raise ConnectionRefusedError("later")

    async def main() -> None:
        await POLICY(work)(fetch())

    with no_waits(), pytest.raises(ConnectionRefusedError):
        asyncio.run(main())
    assert calls == [1]


@pytest.mark.parametrize("begins", ["before the call", "in the attempt"])
def test_a_generator_begun_by_the_caller_counts_as_begun(begins: str) -> None:
    """B005: what the caller took is gone as well, and the attempts cannot know how far it went."""
    calls: list[int] = []

    def send(items: Iterator[int]) -> None:
        calls.append(1)
        if begins == "in the attempt":
            next(items)
        raise ConnectionRefusedError("no")

    items = some_items()
    if begins == "before the call":
        next(items)
    with no_waits(), pytest.raises(ConnectionRefusedError):
        POLICY(send)(items)
    assert calls == [1]


def test_a_context_manager_made_of_a_generator_retries_to_enter_and_nothing_else() -> None:
    """B003, B004: the sibling that nobody calls a stream."""
    entered: list[int] = []

    @contextmanager
    @POLICY
    def connection() -> Iterator[int]:
        entered.append(1)
        if len(entered) < 3:
            raise ConnectionRefusedError("enter")
        yield len(entered)

    with no_waits(), pytest.raises(ConnectionRefusedError, match="body"), connection() as number:
        assert number == 3
        raise ConnectionRefusedError("body")
    assert len(entered) == 3


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_an_async_context_manager_made_of_a_generator_retries_to_enter_and_nothing_else(loop: str) -> None:
    """B003, B004."""
    entered: list[int] = []

    @asynccontextmanager
    @POLICY
    async def connection() -> AsyncIterator[int]:
        entered.append(1)
        if len(entered) < 3:
            raise ConnectionRefusedError("enter")
        yield len(entered)

    async def main() -> None:
        async with connection() as number:
            assert number == 3
            raise ConnectionRefusedError("body")

    with no_waits(), pytest.raises(ConnectionRefusedError, match="body"):
        run_async(loop, main)
    assert len(entered) == 3


def test_each_failed_generator_has_cleaned_up_before_the_next_one_starts(colour: str) -> None:
    """B003: two streams of one call are never open together."""
    happened: list[str] = []

    def body() -> Iterator[str]:
        happened.append("open")
        try:
            if happened.count("open") < 3:
                raise ConnectionRefusedError("no")
            yield "item"
        finally:
            happened.append("closed")

    assert consume(colour, POLICY, body) == (["item"], None)
    assert happened == ["open", "closed"] * 3


@pytest.mark.parametrize("wanted", [[], ["item"]])
def test_reject_is_never_asked_about_what_a_generator_did_not_give(colour: str, wanted: list[str]) -> None:
    """B003: a predicate on results must not refuse the None that a stream never delivered."""
    seen: list[object] = []
    started: list[int] = []

    def reject(result: object) -> bool:
        seen.append(result)
        return result is None

    def body() -> Iterator[str]:
        started.append(1)
        yield from wanted

    items, error = consume(colour, Retry(attempts=1, reject=reject), body)
    assert (items, error, len(started)) == (wanted, None, 1)
    assert None not in seen


def test_trio_cancels_a_stream_while_it_waits_for_its_next_start() -> None:
    """B004: the wait before another start is a wait like any other."""
    started: list[int] = []

    async def stream() -> AsyncIterator[int]:
        started.append(1)
        raise ConnectionRefusedError("no")
        yield

    async def main() -> bool:
        with trio.CancelScope() as scope:
            clock.call_later(5, scope.cancel)
            async for _ in Retry(backoff=Constant(10))(stream)():
                pass
        return scope.cancelled_caught

    with VirtualClock() as clock:
        assert trio.run(main) is True
        assert clock.now == 5
    assert started == [1]

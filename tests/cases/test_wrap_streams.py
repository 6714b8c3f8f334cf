"""A guarded generator is a generator: send, throw, close, return values, and the end in another context; B006."""

from __future__ import annotations

import asyncio
import gc
import inspect
from contextvars import ContextVar, copy_context
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Constant, Retry
from perdure.testing import disabled, no_waits
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator

POLICY = Retry(attempts=3, backoff=Constant(0))
# Every option that keeps something in the context while an attempt runs.
FULL = Retry(attempts=3, backoff=Constant(0), attempt_timeout=50, nested="outer")

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["next", "send", "throw", "catch", "close"]), st.integers(0, 9)), max_size=8
)


class Known(Exception):
    pass


def echo(log: list[str]) -> Generator[Any, Any, str]:
    """Answers what it is sent, survives Known, and says how it ended."""
    sent: Any = "first"
    try:
        for _ in range(5):
            try:
                sent = yield sent
            except Known as error:
                sent = f"caught {error}"
    finally:
        log.append("cleaned up")
    return "returned"


async def echo_later(log: list[str]) -> AsyncGenerator[Any, Any]:
    sent: Any = "first"
    try:
        for _ in range(5):
            try:
                sent = yield sent
            except Known as error:
                sent = f"caught {error}"
    finally:
        log.append("cleaned up")


def step(items: Generator[Any, Any, Any], action: str, number: int) -> Any:
    if action == "send":
        return items.send(number)
    if action in {"throw", "catch"}:
        return items.throw(Known(number) if action == "catch" else LookupError(number))
    return items.close() if action == "close" else next(items)


async def step_later(items: AsyncGenerator[Any, Any], action: str, number: int) -> Any:
    if action == "send":
        return await items.asend(number)
    if action in {"throw", "catch"}:
        return await items.athrow(Known(number) if action == "catch" else LookupError(number))
    return await (items.aclose() if action == "close" else anext(items))


def walk(make: Callable[[list[str]], Generator[Any, Any, Any]], steps: list[Step]) -> list[str]:
    log: list[str] = []
    items = make(log)
    for action, number in steps:
        try:
            log.append(f"{action} -> {step(items, action, number)!r}")
        except Exception as error:  # noqa: BLE001 - the walk reports it
            log.append(f"{action} -> {error!r}")
    items.close()
    return log


async def walk_later(make: Callable[[list[str]], AsyncGenerator[Any, Any]], steps: list[Step]) -> list[str]:
    log: list[str] = []
    items = make(log)
    for action, number in steps:
        try:
            log.append(f"{action} -> {await step_later(items, action, number)!r}")
        except Exception as error:  # noqa: BLE001 - the walk reports it
            log.append(f"{action} -> {error!r}")
    await items.aclose()
    return log


@given(STEPS)
def test_a_guarded_generator_answers_every_step_as_the_bare_one_does(steps: list[Step]) -> None:
    assert walk(POLICY(echo), steps) == walk(echo, steps)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(steps=STEPS)
def test_a_guarded_async_generator_answers_every_step_as_the_bare_one_does(
    loop: str, steps: list[Step]
) -> None:
    async def main() -> tuple[list[str], list[str]]:
        return await walk_later(POLICY(echo_later), steps), await walk_later(echo_later, steps)

    guarded, bare = run_async(loop, main)
    assert guarded == bare


def test_the_return_value_of_a_generator_comes_through_also_when_it_is_empty() -> None:
    @POLICY
    def empty() -> Generator[int, None, str]:
        return "nothing"
        yield 1

    returned: list[tuple[str, str]] = []

    def outer() -> Generator[Any, Any, None]:
        returned.append(((yield from empty()), (yield from POLICY(echo)([]))))

    assert list(outer()) == ["first", None, None, None, None]
    assert returned == [("nothing", "returned")]


def test_a_guarded_generator_looks_like_a_generator_function() -> None:
    guarded, guarded_later = POLICY(echo), POLICY(echo_later)
    assert inspect.isgeneratorfunction(guarded)
    assert inspect.isasyncgenfunction(guarded_later)
    assert (guarded([]).__name__, guarded([]).__qualname__) == ("echo", "echo")
    assert isinstance(guarded_later([]), type(echo_later([])))


@pytest.mark.parametrize("colour", ["generator", "async generator"])
def test_wrong_arguments_of_a_guarded_generator_are_told_at_the_call(colour: str) -> None:
    """As the bare function does it: not later, where the first item is asked for."""
    guarded: Callable[..., Any] = POLICY(echo) if colour == "generator" else POLICY(echo_later)
    with pytest.raises(TypeError, match=r"echo(_later)?\(\)"):
        guarded()
    with pytest.raises(TypeError, match="unexpected"):
        guarded(lag=[])


async def stream() -> AsyncIterator[int]:
    yield 1
    yield 2


async def stream_of_blocks() -> AsyncIterator[int]:
    async for attempt in FULL:
        with attempt:
            yield attempt.number
            yield attempt.number


STREAMS: dict[str, Callable[[], AsyncGenerator[int, None]]] = {
    "plain": POLICY(stream),
    "with everything": FULL(stream),
    "of blocks": stream_of_blocks,
}


@pytest.mark.parametrize("kind", STREAMS)
def test_another_asyncio_task_may_close_a_stream(kind: str) -> None:
    """B006: the symptom was a ValueError, as a token was reset in another context."""

    async def main() -> None:
        items = STREAMS[kind]()
        assert await anext(items) == 1
        await asyncio.create_task(items.aclose())
        with pytest.raises(StopAsyncIteration):
            await anext(items)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["plain", "with everything"])
def test_another_trio_task_may_close_a_stream(kind: str) -> None:
    """B006: but for a block with an attempt timeout, as trio forbids a scope around a yield."""

    async def main() -> None:
        items = STREAMS[kind]()
        assert await anext(items) == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(items.aclose)

    trio.run(main)


@pytest.mark.parametrize(
    ("loop", "kind"),
    [*[("asyncio", kind) for kind in STREAMS], ("trio", "plain"), ("trio", "with everything")],
)
@pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")
def test_a_stream_that_was_left_behind_is_finalised_without_a_word(loop: str, kind: str) -> None:
    """B006: the loop's own finaliser runs it in a context of its own; trio warns of any such stream."""

    async def take_one() -> None:
        async for item in STREAMS[kind]():
            assert item == 1
            break

    async def main() -> None:
        await take_one()
        gc.collect()
        for _ in range(3):
            if loop == "trio":
                await trio.lowlevel.checkpoint()
            else:
                await asyncio.sleep(0)

    run_async(loop, main)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_may_be_read_item_by_item_in_different_tasks(kind: str) -> None:
    """B006: each step sets and resets the context by itself."""

    async def main() -> list[int]:
        items = STREAMS[kind]()
        read = [await asyncio.create_task(anext(items)) for _ in range(2)]
        await asyncio.create_task(items.aclose())
        return read

    assert asyncio.run(main()) in ([1, 2], [1, 1])


def block_generator() -> Generator[int, None, None]:
    for attempt in FULL:
        with attempt:
            yield attempt.number


def in_thread(function: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join(10)
    assert errors == []


GENERATORS = {"guarded": FULL(block_generator), "of blocks": block_generator}
ELSEWHERE: dict[str, Callable[[Callable[[], object]], object]] = {
    "context": lambda close: copy_context().run(close),
    "thread": in_thread,
}


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize("kind", GENERATORS)
def test_another_context_or_thread_may_close_a_generator(kind: str, where: str) -> None:
    """B006: and what the generator had set where it was begun is over there, too."""

    def scenario() -> None:
        items = GENERATORS[kind]()
        assert next(items) == 1
        ELSEWHERE[where](items.close)
        with pytest.raises(StopIteration):
            next(items)
        assert perdure.time_left() is None
        assert perdure.current() is None
        assert Retry(attempts=3, backoff=Constant(0)).outcome(refuse).attempts == 3

    copy_context().run(scenario)


def refuse() -> None:
    raise ConnectionRefusedError("no")


async def refuse_later() -> None:
    refuse()


def test_the_context_that_closes_a_stream_keeps_its_own_modes() -> None:
    """B006: tolerance must not be paid by whoever does the closing."""

    async def main() -> None:
        items = stream_of_blocks()
        assert await asyncio.create_task(anext(items)) == 1

        async def closer() -> None:
            with disabled(), no_waits() as waits:
                await items.aclose()
                failed = await Retry(attempts=3).outcome(refuse_later)
                assert (failed.attempts, waits) == (1, [])

        await asyncio.create_task(closer())

    asyncio.run(main())


def test_the_context_that_closes_a_stream_keeps_its_own_attempt() -> None:
    """B006: `current()` is of the block that runs here, before and after."""

    async def main() -> None:
        items = stream_of_blocks()
        assert await asyncio.create_task(anext(items)) == 1

        async def closer() -> None:
            mine = Retry(attempts=7, attempt_timeout=9, name="mine")
            async for attempt in mine:
                with attempt:
                    left = perdure.time_left()
                    await asyncio.create_task(sees_mine(left))
                    await items.aclose()
                    await asyncio.create_task(sees_mine(left))

        async def sees_mine(left: float | None) -> None:
            current = perdure.current()
            assert current is not None
            assert (current.operation, current.attempts) == ("mine", 7)
            assert left is not None
            assert (perdure.time_left() or 0) > left / 2

        await asyncio.create_task(closer())

    asyncio.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_guarded_stream_leaves_nothing_in_the_consumers_context_between_items(loop: str) -> None:
    """B006: set and reset around each step, not across yields."""
    user = ContextVar("user", default="none")

    async def main() -> None:
        async for _ in FULL(stream)():
            assert perdure.time_left() is None
            assert perdure.current() is None
            assert user.get() == "none"
            outcome = await Retry(attempts=2, backoff=Constant(0)).outcome(refuse_later)
            assert outcome.attempts == 2

    run_async(loop, main)


def test_a_guarded_generator_leaves_nothing_in_the_consumers_context_between_items() -> None:
    """B006."""

    @FULL
    def items() -> Iterator[int]:
        yield from (1, 2)

    for _ in items():
        assert perdure.time_left() is None
        assert perdure.current() is None
        assert Retry(attempts=2, backoff=Constant(0)).outcome(refuse).attempts == 2

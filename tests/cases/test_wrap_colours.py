"""Async functions in disguise: whatever hides a coroutine, each attempt awaits it; B007, B008, B009."""

from __future__ import annotations

import asyncio
import inspect
import operator
import sys
import types
from contextvars import copy_context
from functools import partial, singledispatch, singledispatchmethod, wraps
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest

import perdure
from perdure import Retry
from perdure.engine import fused
from perdure.testing import Script, VirtualClock, no_waits
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Generator, Iterator

    Function = Callable[..., Any]

POLICY = Retry(attempts=3)


def failing_twice() -> Script:
    return Script(ConnectionRefusedError("1"), ConnectionRefusedError("2"), "ok")


@pytest.fixture(params=["fused", "general"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways through the engine: the straight-line wrapper, and the one that a virtual clock takes."""
    with no_waits() if request.param == "fused" else VirtualClock(seed=0):
        yield request.param


class Callable_:  # noqa: N801 - Callable is taken
    """An object that is called, and has methods of every kind."""

    def __init__(self, function: Function) -> None:
        self.function = function

    async def __call__(self, *args: Any) -> Any:
        return await self.function(*args)

    async def method(self, *args: Any) -> Any:
        return await self.function(*args)

    def plain_method(self, *args: Any) -> Any:
        return self.function(*args)

    @singledispatchmethod
    async def dispatched(self, value: object) -> Any:
        return await self.function(value)


class Awaitable_:  # noqa: N801 - Awaitable is taken
    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.coroutine.__await__()


def called_through_another_object(function: Function) -> Function:
    return type("Outer", (), {"__call__": Callable_(function)})()


def hidden(function: Function) -> Function:
    return lambda *args: function(*args)


def plain_front(function: Function) -> Function:
    @wraps(function)
    def front(*args: Any) -> Any:
        return function(*args)

    return front


def generator_based(function: Function) -> Function:
    @types.coroutine
    def front(*args: Any) -> Generator[Any, Any, Any]:
        return (yield from function(*args).__await__())

    return front


def sometimes_plain(function: Function, plain: Container[int]) -> Function:
    """Answers from a cache in the calls that ``plain`` counts, and calls ``function`` in the others."""
    number = count()

    def front(*args: Any) -> Any:
        return "cached" if next(number) in plain else function(*args)

    return front


# Each hides a coroutine function of one argument in another way.
DISGUISES: dict[str, Callable[[Function], Function]] = {
    "nothing": lambda function: function,
    "lambda": hidden,
    "wraps": plain_front,
    "partial": partial,
    "partial of partial": lambda function: partial(partial(function)),
    "object": Callable_,
    "partial of object": lambda function: partial(Callable_(function)),
    "partial of partial of object": lambda function: partial(partial(Callable_(function))),
    "object called through another": called_through_another_object,
    "bound method": lambda function: Callable_(function).method,
    "bound plain method": lambda function: Callable_(function).plain_method,
    "bound __call__": lambda function: Callable_(function).__call__,
    "partial of bound method": lambda function: partial(Callable_(function).method),
    "singledispatch": lambda function: singledispatch(plain_front(function)),
    "singledispatch of async": singledispatch,
    "partial of singledispatch": lambda function: partial(singledispatch(function)),
    "singledispatchmethod": lambda function: Callable_(function).dispatched,
    "C function": lambda function: partial(operator.call, function),
    "context": lambda function: partial(copy_context().run, function),
    "AsyncMock": lambda function: AsyncMock(side_effect=function),
    "awaitable object": lambda function: lambda *args: Awaitable_(function(*args)),
    "types.coroutine": generator_based,
    "guarded already": Retry(attempts=1),
    "guarded lambda": lambda function: Retry(attempts=1)(hidden(function)),
}
ASYNCIO_ONLY: dict[str, Callable[[Function], Function]] = {
    "task": lambda function: lambda *args: asyncio.ensure_future(function(*args)),
    "gather": lambda function: lambda *args: only(asyncio.gather(function(*args))),
}
if sys.version_info >= (3, 12):
    DISGUISES["marked"] = lambda function: inspect.markcoroutinefunction(hidden(function))


def only(gathered: asyncio.Future[list[Any]]) -> asyncio.Future[Any]:
    """A bare future with the only result of a gather."""
    future = asyncio.get_running_loop().create_future()

    def copy(done: asyncio.Future[list[Any]]) -> None:
        error = done.exception()
        future.set_result(done.result()[0]) if error is None else future.set_exception(error)

    gathered.add_done_callback(copy)
    return future


async def decorated(policy: Retry, function: Function) -> Any:
    return await policy(function)(1)


async def called(policy: Retry, function: Function) -> Any:
    return await policy.call(function, 1)


async def told(policy: Retry, function: Function) -> Any:
    return (await policy.outcome(function, 1)).unwrap()


ENTRIES = [decorated, called, told]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.usefixtures("path")
def test_a_coroutine_function_in_any_disguise_gets_all_its_attempts(
    disguise: str, loop: str, entry: Function
) -> None:
    """B007, B008, B009."""
    script = failing_twice()
    function = DISGUISES[disguise](script.asynchronous)
    assert run_async(loop, lambda: entry(POLICY, function)) == "ok"
    assert script.calls == [((1,), {})] * 3


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("disguise", ASYNCIO_ONLY)
@pytest.mark.usefixtures("path")
def test_a_function_that_returns_a_future_gets_all_its_attempts(disguise: str, entry: Function) -> None:
    """B008."""
    script = failing_twice()
    function = ASYNCIO_ONLY[disguise](script.asynchronous)
    assert asyncio.run(entry(POLICY, function)) == "ok"
    assert len(script.calls) == 3


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("awaited", ["lambda", "awaitable object"])
@pytest.mark.parametrize("before", [0, 1, fused.PROBATION - 1])
@pytest.mark.usefixtures("path")
def test_a_function_that_returns_plain_values_and_awaitables_in_turn_stays_guarded(
    before: int, awaited: str, loop: str
) -> None:
    """B008: a cache in front of an async call begins with a miss, and may then hit for long."""
    script = Script("first", ConnectionRefusedError("1"), ConnectionRefusedError("2"), "ok")
    plain = {*range(before), *range(before + 1, before + 301)}
    guarded = POLICY(sometimes_plain(DISGUISES[awaited](script.asynchronous), plain))
    assert [guarded(1) for _ in range(before)] == ["cached"] * before

    async def main() -> tuple[Any, Any]:
        first = await guarded(1)
        assert [guarded(1) for _ in range(300)] == ["cached"] * 300
        return first, await guarded(1)

    assert run_async(loop, main) == ("first", "ok")
    assert len(script.calls) == 4


def test_a_function_that_returned_nothing_but_plain_values_for_long_is_taken_to_be_sync() -> None:
    """B008: the limit of looking at results, on the fast path; its awaitables then go to the caller as they are."""
    script = failing_twice()
    guarded = POLICY(sometimes_plain(script.asynchronous, range(fused.PROBATION)))
    assert [guarded(1) for _ in range(fused.PROBATION)] == ["cached"] * fused.PROBATION

    async def main() -> Any:
        return await guarded(1)

    with no_waits(), pytest.raises(ConnectionRefusedError, match="1"):
        asyncio.run(main())
    assert len(script.calls) == 1


@pytest.mark.usefixtures("path")
def test_a_function_whose_first_attempt_fails_before_it_returns_a_coroutine_gets_all_its_attempts() -> None:
    """B008: one attempt raises at once, the next returns a coroutine that raises, the third one succeeds."""
    script = failing_twice()
    refused = Script(ConnectionRefusedError("0"), None, None, None)

    def front() -> Any:
        refused()
        return script.asynchronous()

    guarded = Retry(attempts=4)(front)

    async def main() -> Any:
        return await guarded()

    assert asyncio.run(main()) == "ok"
    assert len(refused.calls) == 4
    assert len(script.calls) == 3


@pytest.mark.parametrize("disguise", [*DISGUISES, *ASYNCIO_ONLY])
@pytest.mark.usefixtures("path")
def test_a_disguised_function_that_keeps_failing_raises_its_own_error_with_every_attempt(
    disguise: str,
) -> None:
    """B007, B008, B009: what comes out of the last attempt, as for any other function."""
    errors = [ConnectionRefusedError(str(number)) for number in range(3)]
    function = (DISGUISES | ASYNCIO_ONLY)[disguise](Script(*errors).asynchronous)

    async def main() -> Any:
        return await POLICY(function)(1)

    with pytest.raises(ConnectionRefusedError) as caught:
        asyncio.run(main())
    assert caught.value is errors[-1]
    assert [record.number for record in perdure.attempts_of(caught.value)] == [1, 2, 3]


def test_reject_sees_the_awaited_value_of_a_disguised_function() -> None:
    """B008: the predicate on results gets the result, not the coroutine."""
    seen: list[object] = []

    def reject(value: object) -> bool:
        seen.append(value)
        return value == "queued"

    script = Script("queued", "queued", "done")

    async def main() -> Any:
        return await Retry(attempts=3, reject=reject).call(hidden(script.asynchronous))

    with no_waits():
        assert asyncio.run(main()) == "done"
    assert seen == ["queued", "queued", "done"]


def test_what_inspect_calls_a_coroutine_function_stays_one() -> None:
    async def coroutine_function() -> None: ...

    async def async_generator() -> Any:
        yield

    def generator() -> Any:
        yield

    def plain() -> None: ...

    tests = [inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction]
    functions: list[Function] = [
        coroutine_function,
        async_generator,
        generator,
        plain,
        partial(coroutine_function),
    ]
    for function in functions:
        assert [test(POLICY(function)) for test in tests] == [test(function) for test in tests]
    assert inspect.iscoroutinefunction(POLICY(Callable_(coroutine_function)))

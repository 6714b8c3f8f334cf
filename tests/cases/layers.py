"""Ways to put guarded calls inside each other, sync and async, for the cases of nesting."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import trio

from perdure import Constant, Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Layer = Callable[[Retry, Callable[[], Any]], Callable[[], Any]]
    AsyncLayer = Callable[[Retry, Callable[[], Awaitable[Any]]], Callable[[], Awaitable[Any]]]

THREE = Retry(attempts=3, backoff=Constant(0))


class Down(ConnectionRefusedError):
    """The failure at the bottom."""


class Translated(ConnectionRefusedError):
    """What a layer makes of it."""


class Bottom:
    """The innermost function: fails always, with a new error each time, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        raise Down(str(self.calls))

    async def later(self) -> Any:
        self()


def decorated(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        return inner()

    return layer


def called(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: policy.call(lambda: inner())


def told(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: policy.outcome(inner).unwrap()


def block(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    def layer() -> Any:
        for attempt in policy:
            with attempt:
                return inner()
        return None

    return layer


def streamed(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def items() -> Iterator[Any]:
        yield inner()

    return lambda: list(items())


def translated(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        try:
            return inner()
        except ConnectionRefusedError as error:
            raise Translated("wrapped") from error

    return layer


def grouped(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        try:
            return inner()
        except ConnectionRefusedError as error:
            raise ExceptionGroup("several", [error]) from None
        except ExceptionGroup as group:
            raise ExceptionGroup("more", [group, *group.exceptions]) from None

    return layer


def threaded(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(inner).result(30)

    return layer


def unguarded(_policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    """No layer at all: code in between that makes another error of it."""

    def between() -> Any:
        try:
            return inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:
            raise Translated("in between") from error

    return between


def raised_again(_policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    """No layer either: code in between that looks at the error and lets it go on."""

    def between() -> Any:
        try:
            return inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:  # noqa: TRY203 - as many write it
            raise error  # noqa: TRY201

    return between


LAYERS: dict[str, Layer] = {
    "decorated": decorated,
    "call": called,
    "outcome": told,
    "block": block,
    "generator": streamed,
    "translated": translated,
    "group": grouped,
    "thread": threaded,
}


def async_decorated(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        return await inner()

    return layer


def async_called(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        return await inner()

    return lambda: policy.call(work)


def async_told(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def layer() -> Any:
        return (await policy.outcome(inner)).unwrap()

    return layer


def async_block(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def layer() -> Any:
        async for attempt in policy:
            with attempt:
                return await inner()
        return None

    return layer


def async_streamed(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def items() -> AsyncIterator[Any]:
        yield await inner()

    async def layer() -> Any:
        return [item async for item in items()]

    return layer


def async_translated(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        try:
            return await inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:
            raise Translated("wrapped") from error

    return layer


def async_unguarded(_policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def between() -> Any:
        try:
            return await inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:
            raise Translated("in between") from error

    return between


def async_raised_again(_policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def between() -> Any:
        try:
            return await inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:  # noqa: TRY203 - as many write it
            raise error  # noqa: TRY201

    return between


def adopted(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    return policy(lambda: inner())


def timed(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    return async_decorated(policy.replace(attempt_timeout=50), inner)


def on_loop(asyncio_way: AsyncLayer, trio_way: AsyncLayer) -> AsyncLayer:
    def choose(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        asynchronous, trionic = asyncio_way(policy, inner), trio_way(policy, inner)

        async def layer() -> Any:
            return await (trionic() if in_trio() else asynchronous())

        return layer

    return choose


def in_trio() -> bool:
    return trio.lowlevel.in_trio_task()


def task_group(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(awaited(inner))

    return layer


def nursery(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        async with trio.open_nursery() as group:
            group.start_soon(awaited, inner)

    return layer


async def awaited(inner: Callable[[], Awaitable[Any]]) -> Any:
    return await inner()


def gathered(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        return await asyncio.gather(inner(), asyncio.sleep(0))

    return layer


def tasked(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        return await asyncio.create_task(awaited(inner))

    return layer


ASYNC_LAYERS: dict[str, AsyncLayer] = {
    "decorated": async_decorated,
    "call": async_called,
    "outcome": async_told,
    "block": async_block,
    "generator": async_streamed,
    "translated": async_translated,
    "lambda": adopted,
    "timed": timed,
    "group": on_loop(task_group, nursery),
    "gather": on_loop(gathered, nursery),
    "task": on_loop(tasked, async_decorated),
}


def bridged(inner: Callable[[], Any], how: str) -> Callable[[], Awaitable[Any]]:
    """A sync layer, called from an async one: at once, or in a thread."""

    async def layer() -> Any:
        if how == "direct":
            return inner()
        return await (trio.to_thread.run_sync(inner) if in_trio() else asyncio.to_thread(inner))

    return layer

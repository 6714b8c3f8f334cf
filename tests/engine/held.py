"""Attempts that run until they are let go, in threads and in loops of every kind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import trio

import perdure
from perdure import Retry

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor


LONG = Retry(attempts=3, backoff=perdure.Constant(3600), deadline=None)
PATIENCE = 10.0  # seconds until a test of real threads counts as stuck; none of them takes so long


class Held:
    """An attempt that runs until it is let go, in a thread or in a loop of any kind."""

    all: ClassVar[list[Held]] = []

    def __init__(self, result: object = "done") -> None:
        self.all.append(self)
        self.result = result
        self.began = threading.Event()
        self.may_go = threading.Event()
        self.let_go: Callable[[], object] = self.may_go.set
        self.calls = 0

    def __call__(self) -> object:
        self.calls += 1
        self.began.set()
        assert self.may_go.wait(PATIENCE)
        return self.end()

    async def in_asyncio(self) -> object:
        self.calls += 1
        go, loop = asyncio.Event(), asyncio.get_running_loop()
        self.let_go = lambda: loop.call_soon_threadsafe(go.set)
        self.began.set()
        await go.wait()
        return self.end()

    async def in_trio(self) -> object:
        self.calls += 1
        go, token = trio.Event(), trio.lowlevel.current_trio_token()
        self.let_go = lambda: token.run_sync_soon(go.set)
        self.began.set()
        await go.wait()
        return self.end()

    def end(self) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def in_a_block(held: Held) -> object:
    for attempt in LONG:
        with attempt:
            return held()
    return None


async def in_an_async_block(work: Callable[[], Any]) -> object:
    async for attempt in LONG:
        with attempt:
            return await work()
    return None


PLACES: dict[str, Callable[[Held], object]] = {
    "decorated": lambda held: LONG(held)(),
    "decorated def": lambda held: LONG(lambda: held())(),
    "call": lambda held: LONG.call(held),
    "block": in_a_block,
    "asyncio": lambda held: asyncio.run(LONG(held.in_asyncio)()),
    "asyncio call": lambda held: asyncio.run(LONG.call(held.in_asyncio)),  # type: ignore[arg-type]
    "asyncio block": lambda held: asyncio.run(in_an_async_block(held.in_asyncio)),
    "trio": lambda held: trio.run(LONG(held.in_trio)),
    "trio call": lambda held: trio.run(lambda: LONG.call(held.in_trio)),
    "trio block": lambda held: trio.run(in_an_async_block, held.in_trio),
}


def begun(threads: ThreadPoolExecutor, place: str, held: Held) -> Future[object]:
    future = threads.submit(PLACES[place], held)
    assert held.began.wait(PATIENCE)
    return future

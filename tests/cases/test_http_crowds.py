"""One session for many: threads, tasks, and forked children share an integration without sharing a call.

Each request has its own attempts and record (B113, B115), and all connections are back in the end.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import trio

from perdure.testing import no_waits
from tests.cases.http_sessions import ASYNC, SYNC, Ask, Got, aopened, clients, dependency, opened, run
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


THREADS, TASKS, POOL = 50, 100, 8


class Flaky:
    """Refuses each request as often as its number says, and then answers with its body."""

    def __init__(self) -> None:
        self.seen: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: wire.Request) -> wire.Step:
        with self._lock:
            self.seen[request.body] += 1
            count = self.seen[request.body]
        if count <= int(request.body) % 3:
            return wire.answer(503 if count == 1 else 429, body=b"busy")
        return wire.answer(body=request.body)


def seen_of(got: Got) -> tuple[int, bytes, list[str]]:
    return got.status, got.body, [record.fault.why for record in got.attempts]


def right(number: int) -> tuple[int, bytes, list[str]]:
    """What a request with this number comes to."""
    return 200, b"%d" % number, ["HTTP 503 Service Unavailable", "HTTP 429 Too Many Requests"][: number % 3]


def counted(seen: tuple[int, bytes, list[str]]) -> tuple[int, bytes, int]:
    status, body, reasons = seen
    return status, body, len(reasons)


@clients(*SYNC)
def test_fifty_threads_through_one_session(client: str) -> None:
    flaky = Flaky()
    with wire.serve(wire.call(flaky)) as server, ExitStack() as stack:
        session = opened(stack, client, dependency(), pool=POOL, timeout=30)
        start = threading.Barrier(THREADS)

        def one(number: int) -> Got:
            start.wait(10)
            with no_waits():  # a thread has its own context
                got: Got = session.send(Ask(server.url, "PUT", b"%d" % number))
                return got

        with ThreadPoolExecutor(THREADS) as pool:
            ends = list(pool.map(one, range(THREADS), timeout=30))
        assert session.taken() == 0
    # How an attempt failed does not matter here: under load the server may lose a connection instead.
    assert list(map(counted, map(seen_of, ends))) == list(map(counted, map(right, range(THREADS))))


@clients(*ASYNC)
def test_a_hundred_tasks_through_one_session(client: str) -> None:
    flaky, ends = Flaky(), dict[int, Got]()

    async def main(url: str) -> None:
        async with AsyncExitStack() as stack:
            session = await aopened(stack, client, dependency(), pool=POOL, timeout=30)

            async def one(number: int) -> None:
                ends[number] = await session.send(Ask(url, "PUT", b"%d" % number))

            if client.endswith("trio"):
                async with trio.open_nursery() as nursery:
                    for number in range(TASKS):
                        nursery.start_soon(one, number)
            else:
                await asyncio.gather(*map(one, range(TASKS)))
            assert session.taken() == 0

    with wire.serve(wire.call(flaky)) as server:
        run(client, lambda: main(server.url))
    assert [seen_of(ends[number]) for number in range(TASKS)] == list(map(right, range(TASKS)))


def in_child(client: str, policy: Any, url: str, number: int, ends: Any) -> None:
    """Use what the parent made, with connections of its own."""
    with no_waits(), ExitStack() as stack:
        got = opened(stack, client, policy).send(Ask(url, "PUT", b"%d" % number))
        ends.put((number, got.status, got.body, len(got.attempts)))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@clients(*SYNC)
def test_a_forked_child_goes_on_with_the_policy_of_its_parent(client: str) -> None:
    """What the parent's requests left in the dependency is neither shared nor locked in the child."""
    payments, context = dependency(), multiprocessing.get_context("fork")
    ends = context.SimpleQueue()
    with wire.serve(wire.call(Flaky())) as server, ExitStack() as stack:
        session = opened(stack, client, payments)
        assert seen_of(session.send(Ask(server.url, "PUT", b"1"))) == right(1)
        child = context.Process(target=in_child, args=(client, payments, server.url, 2, ends))
        child.start()
        try:
            child.join(10)
            assert child.exitcode == 0
        finally:
            if child.is_alive():
                child.kill()
                child.join()
        assert ends.get() == (2, 200, b"2", 2)
        assert seen_of(session.send(Ask(server.url, "PUT", b"4"))) == right(4)

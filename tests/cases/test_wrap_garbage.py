"""Calls leave nothing behind: no cyclic garbage, no memory that grows, whatever colour and end; rule 17."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from contextlib import contextmanager
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel

import perdure
from perdure import Constant, Retry
from perdure.engine import logs, timers, waiting
from perdure.testing import VirtualClock, disabled, no_waits, record_events
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

# A million takes minutes: PERDURE_LEAK_CALLS=1000000 for the long look.
CALLS = int(os.environ.get("PERDURE_LEAK_CALLS", "100000"))

POLICY = Retry(attempts=2, backoff=Constant(0))
SINGLE = Retry(attempts=1)
FULL = POLICY.replace(attempt_timeout=5, nested="outer")
OUTER = POLICY.replace(name="outer")
NOTHING = (ConnectionRefusedError, perdure.PerdureError, KeyError)


class Node:
    """Stands for what a failing function holds."""


def fail() -> None:
    local = Node()  # in the frame, in the traceback
    raise ConnectionRefusedError(f"no {id(local)}")


def bug() -> None:
    raise KeyError("bug")


async def fail_later() -> None:
    fail()


async def bug_later() -> None:
    bug()


def flaky() -> Callable[[], str]:
    left = iter(range(1))

    def work() -> str:
        if next(left, None) is not None:
            raise ConnectionRefusedError("no")
        return "ok"

    return work


def in_block(policy: Retry, work: Callable[[], Any]) -> Any:
    for attempt in policy:
        with attempt:
            return attempt.result(work())
    return None


def in_stream(policy: Retry, work: Callable[[], Any]) -> Any:
    def items() -> Iterator[Any]:
        yield work()

    return list(policy(items)())


def in_deadline(work: Callable[[], Any]) -> Any:
    with perdure.deadline(5):
        return work()


guarded_fail, guarded_bug, guarded_single = POLICY(fail), POLICY(bug), SINGLE(fail)
outer_of_guarded = OUTER(lambda: guarded_fail())
guarded_full = FULL(fail)
rejecting = POLICY.replace(reject=lambda value: value == "bad")
telling = POLICY.replace(on_exhausted=lambda outcome: None)

SYNC: dict[str, Callable[[], Any]] = {
    "fails": guarded_fail,
    "bug": guarded_bug,
    "single": guarded_single,
    "recovers": lambda: POLICY(flaky())(),
    "call": lambda: POLICY.call(fail),
    "outcome": lambda: POLICY.outcome(fail),
    "outcome unwrapped": lambda: POLICY.outcome(fail).unwrap(),
    "special": guarded_full,
    "rejected": lambda: rejecting.call(lambda: "bad"),
    "hook": lambda: telling.call(fail),
    "nested": outer_of_guarded,
    "block": lambda: in_block(POLICY, fail),
    "block recovers": lambda: in_block(POLICY, flaky()),
    "block special": lambda: in_block(FULL, fail),
    "block rejected": lambda: in_block(rejecting, lambda: "bad"),
    "generator": lambda: in_stream(POLICY, fail),
    "generator recovers": lambda: in_stream(POLICY, flaky()),
    "deadline": lambda: in_deadline(guarded_fail),
    "refused": lambda: refused(guarded_fail),
    "hint": lambda: POLICY.call(hinted),
    "interrupted": lambda: POLICY.call(interrupted),
}


def refused(work: Callable[[], Any]) -> Any:
    with perdure.deadline(0):
        return work()


def hinted() -> None:
    raise perdure.transient(ConnectionRefusedError("no"), after=1000.0)


def interrupted() -> None:
    raise GeneratorExit


def tried(call: Callable[[], Any]) -> None:
    try:
        call()
    except NOTHING:
        pass
    except GeneratorExit:
        pass


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection by itself meanwhile, and none of what was there before: that makes each one quick."""
    gc.collect(0)
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def garbage_of(calls: Callable[[], None]) -> int:
    """How many objects only the collector could free after this."""
    with uncollected():
        calls()
        return gc.collect()


PATHS: dict[str, Callable[[], Any]] = {
    "fused": no_waits,
    "listened": record_events,
    "virtual": VirtualClock,
    "disabled": disabled,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("way", SYNC)
def test_a_sync_call_leaves_no_cyclic_garbage(way: str, path: str) -> None:
    """Rule 17: thousands of calls a second must not feed the collector."""

    def calls() -> None:
        for _ in range(5):
            tried(SYNC[way])

    with PATHS[path]():
        calls()
        assert garbage_of(calls) == 0


async def in_async_block(policy: Retry, work: Callable[[], Awaitable[Any]]) -> Any:
    async for attempt in policy:
        with attempt:
            return attempt.result(await work())
    return None


async def in_async_stream(policy: Retry, work: Callable[[], Awaitable[Any]]) -> Any:
    async def items() -> AsyncIterator[Any]:
        yield await work()

    return [item async for item in policy(items)()]


async def too_long() -> None:
    local = Node()
    await waiting.wait(100)
    del local


async def in_async_deadline(work: Callable[[], Awaitable[Any]]) -> Any:
    async with perdure.deadline(5):
        return await work()


async def bad() -> str:
    return "bad"


def flaky_later() -> Callable[[], Awaitable[str]]:
    work = flaky()

    async def later() -> str:
        return work()

    return later


guarded_fail_later, guarded_bug_later = POLICY(fail_later), POLICY(bug_later)
ASYNC: dict[str, Callable[[], Awaitable[Any]]] = {
    "fails": guarded_fail_later,
    "bug": guarded_bug_later,
    "single": SINGLE(fail_later),
    "recovers": lambda: POLICY(flaky_later())(),
    "call": lambda: POLICY.call(fail_later),
    "outcome": lambda: POLICY.outcome(fail_later),
    "lambda": POLICY(lambda: fail_later()),
    "special": FULL(fail_later),
    "rejected": lambda: rejecting.call(bad),
    "nested": OUTER(lambda: guarded_fail_later()),
    "block": lambda: in_async_block(POLICY, fail_later),
    "block recovers": lambda: in_async_block(POLICY, flaky_later()),
    "block special": lambda: in_async_block(FULL, fail_later),
    "generator": lambda: in_async_stream(POLICY, fail_later),
    "generator recovers": lambda: in_async_stream(POLICY, flaky_later()),
    "deadline": lambda: in_async_deadline(guarded_fail_later),
    "sync inside": lambda: sync_inside(),
}
# These end by a timer, so they need the virtual clock.
TIMED: dict[str, Callable[[], Awaitable[Any]]] = {
    "attempt timeout": FULL(too_long),
    "attempt timeout, block": lambda: in_async_block(FULL, too_long),
    "attempt timeout, stream": lambda: in_async_stream(FULL, too_long),
    "attempt timeout, outcome": lambda: FULL.outcome(too_long),
    "deadline cuts": lambda: in_async_deadline(too_long),
    "deadline cuts an attempt": lambda: in_async_deadline(POLICY(too_long)),
    "deadline cuts a wait": lambda: in_async_deadline(POLICY.replace(backoff=Constant(3))(fail_later)),
    "waits": POLICY.replace(backoff=Constant(3))(fail_later),
    "waits, block": lambda: in_async_block(POLICY.replace(backoff=Constant(3)), fail_later),
}


async def sync_inside() -> None:
    guarded_fail()


async def atried(call: Callable[[], Awaitable[Any]]) -> None:
    try:
        await call()
    except NOTHING:
        pass


def async_garbage(loop: str, path: str, call: Callable[[], Awaitable[None]]) -> int:
    """The same inside a running loop, whose own garbage is not ours."""

    async def main() -> int:
        with PATHS[path]():
            for _ in range(3):
                await call()
            with uncollected():
                for _ in range(5):
                    await call()
                return gc.collect()

    found: int = run_async(loop, main)
    return found


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("way", ASYNC)
def test_an_async_call_leaves_no_cyclic_garbage(way: str, path: str, loop: str) -> None:
    """Rule 17."""
    assert async_garbage(loop, path, lambda: atried(ASYNC[way])) == 0


@pytest.mark.parametrize("way", TIMED)
def test_an_asyncio_call_that_is_cut_or_waits_leaves_no_cyclic_garbage(way: str) -> None:
    """Rule 17: timers, cancellations and the errors made of them."""
    assert async_garbage("asyncio", "virtual", lambda: atried(TIMED[way])) == 0


async def cut_by_hand() -> None:
    """What trio itself leaves behind when a scope catches its cancellation."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("way", TIMED)
def test_a_trio_call_that_is_cut_or_waits_leaves_no_more_garbage_than_trio_does(way: str) -> None:
    """Rule 17: three attempts are three scopes at most, each no worse than one by hand."""
    by_hand = async_garbage("trio", "virtual", cut_by_hand)
    assert async_garbage("trio", "virtual", lambda: atried(TIMED[way])) <= 3 * by_hand


@pytest.mark.parametrize("way", ["function", "block", "outcome", "stream"])
@pytest.mark.parametrize("where", ["wait", "attempt"])
def test_a_cancelled_call_leaves_no_cyclic_garbage(where: str, way: str) -> None:
    """Rule 17: not more than the bare task that is cancelled in the same way."""
    policy = Retry(backoff=Constant(100), attempt_timeout=500, deadline=None)
    work = fail_later if where == "wait" else too_long
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "function": policy(work),
        "outcome": lambda: policy.outcome(work),
        "block": lambda: in_async_block(policy, work),
        "stream": lambda: in_async_stream(policy, work),
    }

    async def bare() -> None:
        await asyncio.sleep(100)

    async def cancelled(call: Callable[[], Awaitable[Any]]) -> None:
        task = asyncio.ensure_future(call())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        del task
        await asyncio.sleep(0.5)

    ours = async_garbage("asyncio", "virtual", lambda: cancelled(calls[way]))
    assert ours <= async_garbage("asyncio", "virtual", lambda: cancelled(bare))


async def turn(loop: str) -> None:
    """Let the loop clear up: trio forgets scopes that are over only then."""
    if loop == "trio":
        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)


def blocks_after(calls: Callable[[int], None], count: int) -> int:
    """How many blocks of memory are in use for good after so many calls."""
    calls(count // 10)
    with uncollected():
        before = sys.getallocatedblocks()
        calls(count)
        gc.collect()
        return sys.getallocatedblocks() - before


@pytest.fixture
def _no_log_lines() -> Iterator[None]:
    """Log records that pytest keeps for the report are not ours."""
    logger = logging.getLogger("perdure")
    before = logger.disabled
    logger.disabled = True
    yield
    logger.disabled = before


@pytest.mark.usefixtures("_no_log_lines")
def test_a_hundred_thousand_failing_calls_do_not_grow_the_memory() -> None:
    """Rule 17: through one function."""
    grown: list[int] = []

    def calls(count: int) -> None:
        for _ in range(count):
            tried(guarded_fail)

    thread = Thread(
        target=lambda: grown.append(blocks_after(calls, CALLS))
    )  # not on top of pytest's own stack
    thread.start()
    thread.join()
    assert len(grown) == 1
    assert grown[0] < 200


MANY_SYNC = [
    "fails",
    "single",
    "call",
    "outcome",
    "block",
    "generator",
    "special",
    "nested",
    "rejected",
    "deadline",
]


@pytest.mark.parametrize("way", MANY_SYNC)
@pytest.mark.usefixtures("_no_log_lines")
def test_many_failing_sync_calls_do_not_grow_the_memory(way: str) -> None:
    """Rule 17: some of the calls each."""

    def calls(count: int) -> None:
        for _ in range(count):
            tried(SYNC[way])

    assert blocks_after(calls, CALLS // 100) < 200


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("way", ["fails", "call", "outcome", "block", "generator", "special"])
@pytest.mark.usefixtures("_no_log_lines")
def test_many_failing_async_calls_do_not_grow_the_memory(way: str, loop: str) -> None:
    """Rule 17."""

    async def many() -> int:
        for _ in range(CALLS // 400):
            await atried(ASYNC[way])
        await turn(loop)
        gc.collect()
        return sys.getallocatedblocks()

    async def main() -> int:
        await many()
        with uncollected():
            in_use = [await many() for _ in range(4)]
        # A leak shows at every step; trio forgets the scopes that are over by the thousand, at one of them.
        return min(after - before for before, after in pairwise(in_use))

    assert run_async(loop, main) < 200


@pytest.mark.usefixtures("_no_log_lines")
def test_a_shared_error_and_many_functions_and_policies_do_not_grow_the_memory() -> None:
    """Rule 17: what is made at run time goes with its last user."""
    shared = ConnectionRefusedError("one for all")

    def raise_shared() -> None:
        raise shared

    def calls(count: int) -> None:
        for number in range(count):
            policy = Retry(
                attempts=2, backoff=Constant(0), on=ConnectionRefusedError, name=f"op-{number % 50}"
            )
            tried(policy(lambda: raise_shared()))
            tried(lambda policy=policy: policy.call(raise_shared))

    assert blocks_after(calls, CALLS // 100) < 300


def test_the_memory_of_log_lines_listeners_and_loops_is_bounded() -> None:
    """Rule 17: dicts that remember something have an end."""
    policy = Retry(attempts=1)
    for number in range(3000):
        tried(lambda number=number: policy.replace(name=f"operation {number}").call(fail))
    assert len(logs._last) <= 1000
    with VirtualClock():
        for _ in range(20):
            asyncio.run(atried(TIMED["attempt timeout"]))
    assert len(waiting._loops) <= 1 + sum(not loop.is_closed() for loop in waiting._loops)
    assert len(timers._queues) <= 1 + sum(not loop.is_closed() for loop, _ in timers._queues)


def test_a_process_that_never_fails_makes_no_garbage_and_no_memory() -> None:
    """Rule 17: the success path allocates nothing that stays."""
    guarded = POLICY(lambda value: value)

    def calls(count: int) -> None:
        for number in range(count):
            guarded(number)

    calls(500)
    assert garbage_of(lambda: calls(1000)) == 0
    assert blocks_after(calls, 20_000) < 50

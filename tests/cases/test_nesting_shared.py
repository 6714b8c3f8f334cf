"""One exception object raised by unrelated calls is not a sign of nesting; B157."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, Mock

import pytest
import trio

from perdure import Constant, Retry
from perdure.testing import VirtualClock, no_waits
from tests.cases.layers import (
    THREE,
    Bottom,
    Down,
    async_block,
    async_streamed,
    async_told,
    block,
    streamed,
)
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

ERR = Down("one object for all")


@pytest.fixture
def _fresh_err() -> Iterator[None]:
    """The shared error as if it had never been raised."""
    ERR.__traceback__ = None
    vars(ERR).clear()
    yield
    vars(ERR).clear()


@pytest.mark.parametrize("clock", ["real", "virtual", "still"])
@pytest.mark.usefixtures("_fresh_err")
def test_a_mock_that_raises_one_object_gives_every_call_its_attempts(clock: str) -> None:
    """B157: side_effect=ERR, as tests do; five calls in a row, by one function and by several."""
    mock = Mock(side_effect=ERR)
    functions = [THREE(lambda: mock()) for _ in range(2)]
    calls: list[Callable[[], Any]] = [
        *[functions[0]] * 5,
        functions[1],
        THREE(mock),
        lambda: THREE.call(mock),
        lambda: THREE.outcome(mock).unwrap(),
        block(THREE, mock),
        block(THREE, mock),
        streamed(THREE, mock),
        streamed(THREE, mock),
    ]
    policy_waits = VirtualClock() if clock != "real" else no_waits()
    with policy_waits as virtual:
        for call in calls:
            mock.reset_mock()
            with pytest.raises(Down):
                call()
            assert mock.call_count == 3
            if clock == "virtual" and isinstance(virtual, VirtualClock):
                virtual.advance(1)


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.usefixtures("_fresh_err")
def test_an_async_mock_that_raises_one_object_gives_every_call_its_attempts(loop: str, clock: str) -> None:
    """B157."""
    mock = AsyncMock(side_effect=ERR)

    async def main() -> None:
        function = THREE(lambda: mock())
        calls: list[Callable[[], Awaitable[Any]]] = [
            *[function] * 3,
            THREE(mock),
            lambda: THREE.call(mock),
            async_told(THREE, mock),
            async_block(THREE, mock),
            async_block(THREE, mock),
            async_streamed(THREE, mock),
            async_streamed(THREE, mock),
        ]
        for call in calls:
            mock.reset_mock()
            with pytest.raises(Down):
                await call()
            assert mock.call_count == 3

    with no_waits() if clock == "real" else VirtualClock():
        run_async(loop, main)


@pytest.mark.usefixtures("_fresh_err")
def test_a_shared_error_object_is_not_taken_as_nested_in_the_next_test() -> None:
    """B157: each test has a virtual clock that begins at nought; the module's error object stays."""
    for colour in (*COLOURS, *COLOURS):
        played = play(colour, Retry(attempts=3, backoff=Constant(10)), ERR, ERR, ERR, ERR)
        assert (colour, played.calls) == (colour, 3)


@pytest.mark.parametrize("same", [True, False], ids=["one function", "two functions"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.usefixtures("_fresh_err")
def test_a_shared_error_object_is_not_taken_as_nested_between_tasks(loop: str, same: bool) -> None:
    """B157: two unrelated calls at once; the short one gives up while the long one waits."""
    calls = {"short": 0, "long": 0}

    async def fail(name: str) -> None:
        calls[name] += 1
        raise ERR

    async def fail_too(name: str) -> None:
        calls[name] += 1
        raise ERR

    async def one(policy: Retry, function: Callable[[str], Awaitable[None]], name: str) -> None:
        with pytest.raises(Down):
            await policy(function)(name)

    async def main() -> None:
        short, long = THREE.replace(backoff=Constant(1)), THREE.replace(backoff=Constant(10))
        async with VirtualClock():
            if loop == "asyncio":
                await asyncio.gather(one(short, fail, "short"), one(long, fail if same else fail_too, "long"))
            else:
                async with trio.open_nursery() as nursery_:
                    nursery_.start_soon(one, short, fail, "short")
                    nursery_.start_soon(one, long, fail if same else fail_too, "long")

    run_async(loop, main)
    assert calls == {"short": 3, "long": 3}


@pytest.mark.parametrize("same", [True, False], ids=["one function", "two functions"])
@pytest.mark.usefixtures("_fresh_err")
def test_a_shared_error_object_is_not_taken_as_nested_between_threads(same: bool) -> None:
    """B157: the same with threads, step by step: B gives up on the object in the middle of A's call."""
    a_waits, b_gave_up = threading.Event(), threading.Event()
    calls = {"a": 0, "b": 0}

    def fail(name: str) -> None:
        calls[name] += 1
        if name == "a" and calls["a"] == 2:
            a_waits.set()
            assert b_gave_up.wait(30)
        raise ERR

    def fail_too(name: str) -> None:
        fail(name)

    guarded_a, guarded_b = THREE(fail), THREE(fail) if same else THREE(fail_too)

    def b() -> None:
        assert a_waits.wait(30)
        with pytest.raises(Down):
            guarded_b("b")
        b_gave_up.set()

    thread = threading.Thread(target=b)
    thread.start()
    with pytest.raises(Down):
        guarded_a("a")
    thread.join(30)
    assert calls == {"a": 3, "b": 3}


def test_an_error_that_a_call_gave_up_on_earlier_is_new_to_a_later_call() -> None:
    """B157: kept, and raised again by something else; nothing was tried yet in this call."""
    inner, calls = Bottom(), 0
    with no_waits():
        kept = THREE.outcome(inner).error

        def work() -> None:
            nonlocal calls
            calls += 1
            assert kept is not None
            raise kept

        with pytest.raises(Down):
            THREE.call(work)
    assert (calls, inner.calls) == (3, 3)

"""``perdure.current()``: which guarded call is running here."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Current, Retry, current
from perdure.testing import VirtualClock, disabled, no_waits, record_events
from tests.engine.tasks import LOOPS, together
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = Retry(attempts=3, backoff=perdure.Constant(0), name="stock.fetch")


class Watch:
    """Asks which call is running at each attempt; fails twice."""

    def __init__(self) -> None:
        self.seen: list[Current | None] = []

    def __call__(self) -> str:
        self.seen.append(current())
        if len(self.seen) < 3:
            raise ConnectionError
        return "ok"

    async def asynchronous(self) -> str:
        return self()


FORMS: dict[str, Callable[[Watch], Any]] = {
    "decorated": lambda watch: POLICY(watch)(),
    "decorated def": lambda watch: POLICY(lambda: watch())(),
    "call": lambda watch: POLICY.call(watch),
    "outcome": lambda watch: POLICY.outcome(watch),
    "block": lambda watch: in_a_block(watch),
    **{
        f"{loop} decorated": lambda watch, loop=loop: run_async(loop, POLICY(watch.asynchronous))
        for loop in LOOPS
    },
    **{
        f"{loop} call": lambda watch, loop=loop: run_async(loop, lambda: POLICY.call(watch.asynchronous))
        for loop in LOOPS
    },
    **{
        f"{loop} block": lambda watch, loop=loop: run_async(loop, lambda: in_an_async_block(watch))
        for loop in LOOPS
    },
}


def in_a_block(watch: Watch) -> None:
    for attempt in POLICY:
        with attempt:
            watch()


async def in_an_async_block(watch: Watch) -> None:
    async for attempt in POLICY:
        async with attempt:
            await watch.asynchronous()


@pytest.mark.parametrize("observed", [False, True], ids=["fused", "observed"])
@pytest.mark.parametrize("form", FORMS)
def test_it_names_the_call_and_the_attempt(form: str, *, observed: bool) -> None:
    watch = Watch()
    if observed:
        with VirtualClock(), record_events():
            FORMS[form](watch)
    else:
        with no_waits():
            FORMS[form](watch)
    assert [(one.attempt, one.attempts, one.operation) for one in watch.seen if one] == [
        (1, 3, "stock.fetch"),
        (2, 3, "stock.fetch"),
        (3, 3, "stock.fetch"),
    ]
    assert [(one.dependency, one.key) for one in watch.seen if one] == [(None, None)] * 3


@pytest.mark.parametrize("form", FORMS)
def test_there_is_none_outside(form: str) -> None:
    with no_waits():
        FORMS[form](Watch())
    assert current() is None


def test_the_id_is_that_of_the_events() -> None:
    watch = Watch()
    with VirtualClock(), record_events() as seen:
        POLICY.call(watch)
    assert [one and one.call_id for one in watch.seen] == [seen[0].call_id] * 3


def test_the_innermost_call_is_the_one() -> None:
    inner = Retry(name="inner")(lambda: current())

    def work() -> tuple[Current | None, ...]:
        return current(), inner(), current()

    names = [one and one.operation for one in Retry(name="outer").call(work)]
    assert names == ["outer", "inner", "outer"]


def test_an_unbounded_call_says_so() -> None:
    found = Retry(attempts=None).call(current)
    assert found is not None
    assert found.attempts is None


def test_a_disabled_call_has_one_attempt() -> None:
    with disabled():
        for guarded in (POLICY(lambda: current()), lambda: POLICY.call(lambda: current())):
            found = guarded()
            assert found is not None
            assert (found.attempt, found.attempts) == (1, 1)


@pytest.mark.parametrize("loop", LOOPS)
def test_tasks_see_their_own_calls(loop: str) -> None:
    async def look() -> str:
        found = current()
        return found.operation if found else ""

    works = [Retry(name=f"call {number}")(look) for number in range(3)]
    assert run_async(loop, lambda: together(loop, *works)) == ["call 0", "call 1", "call 2"]


def test_a_thread_started_inside_sees_the_block_around_its_start_only() -> None:
    seen: list[Current | None] = []

    def look_from_a_thread() -> None:
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join(10)

    POLICY.call(look_from_a_thread)
    assert seen == [None]


def test_a_task_started_in_a_block_sees_the_block() -> None:
    async def look() -> Current | None:
        return current()

    async def main() -> Current | None:
        async for attempt in POLICY:
            with attempt:
                return await asyncio.create_task(look())
        return None

    found = asyncio.run(main())
    assert found is not None
    assert found.operation == "stock.fetch"

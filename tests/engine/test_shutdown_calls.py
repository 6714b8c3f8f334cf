"""New calls while the process closes, and ``aclose()``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Retry
from perdure.engine import shutdown
from perdure.testing import Script, VirtualClock, took
from tests.engine.held import LONG, PATIENCE, Held, begun
from tests.engine.tasks import LOOPS, together
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor


# -- new calls -----------------------------------------------------------------------------------------


def generator() -> Iterator[int]:
    yield 1


def refused_forms() -> dict[str, Callable[[], object]]:
    async def work() -> str:
        return "ok"

    def block() -> None:
        for attempt in Retry():
            with attempt:
                pass

    async def async_block() -> None:
        async for attempt in Retry():
            with attempt:
                pass

    guarded, guarded_async, guarded_generator = Retry()(lambda: "ok"), Retry()(work), Retry()(generator)
    return {
        "decorated": guarded,
        "call": lambda: Retry().call(str),
        "block": block,
        "generator": lambda: list(guarded_generator()),
        "asyncio": lambda: asyncio.run(guarded_async()),
        "asyncio block": lambda: asyncio.run(async_block()),
        "trio": lambda: trio.run(guarded_async),
        "trio block": lambda: trio.run(async_block),
    }


@pytest.mark.parametrize("form", refused_forms())
def test_new_calls_are_refused_until_the_process_has_closed(form: str) -> None:
    call = refused_forms()[form]
    call()
    shutdown.begin()
    with pytest.raises(perdure.ShuttingDown, match="was called while the process is closing"):
        call()
    shutdown.reopen()
    call()


@pytest.mark.parametrize("form", refused_forms())
def test_a_final_close_refuses_for_good(form: str) -> None:
    assert perdure.close(final=True) is True
    assert perdure.close() is True, "a later close that is not final opens nothing"
    with pytest.raises(perdure.ShuttingDown):
        refused_forms()[form]()
    perdure.testing.reset()
    refused_forms()[form]()


def test_closing_an_idle_process_takes_no_time_and_changes_nothing() -> None:
    with VirtualClock() as clock:
        assert perdure.close() is True
        assert clock.now == 0
    assert Retry().call(str) == ""


def test_a_call_that_closes_does_not_wait_for_itself() -> None:
    with VirtualClock() as clock:
        assert Retry().call(lambda: perdure.close(grace=5)) is True
        assert clock.now == 0


def test_a_block_that_closes_does_not_wait_for_itself() -> None:
    with VirtualClock() as clock:
        for attempt in Retry():
            with attempt:
                assert perdure.close(grace=5) is True
        assert clock.now == 0


@pytest.mark.parametrize("grace", [-1, float("nan"), None, "soon"])
def test_a_grace_that_is_no_duration_is_refused(grace: Any) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^grace must be a duration of 0 or more"):
        perdure.close(grace=grace)
    with pytest.raises(perdure.ConfigError, match=r"^grace must be a duration of 0 or more"):
        asyncio.run(perdure.aclose(grace=grace))
    assert Retry().call(str) == "", "nothing was closed"


# -- aclose() ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestAclose:
    def test_waits_of_other_tasks_end_at_once(self, loop: str) -> None:
        scripts = [Script(ConnectionError(), "late") for _ in range(3)]

        async def close() -> bool:
            await clock.asleep(1)
            return await perdure.aclose(grace=10)

        works = [lambda script=script: LONG.outcome(script.asynchronous) for script in scripts]
        with VirtualClock() as clock:
            *outcomes, closed = run_async(loop, lambda: together(loop, *works, close))
        assert closed is True
        assert [(one.stop, one.attempts) for one in outcomes] == [("shutdown", 1)] * 3
        assert clock.now < 2

    def test_attempts_of_other_tasks_may_finish(self, loop: str) -> None:
        async def close() -> bool:
            await clock.asleep(1)
            return await perdure.aclose(grace=10)

        with VirtualClock() as clock:
            results = run_async(
                loop, lambda: together(loop, LONG(Script(took(5, "done")).asynchronous), close)
            )
        assert results == ["done", True]
        assert clock.now < 6

    def test_the_grace_time_bounds_it(self, loop: str) -> None:
        async def close() -> tuple[bool, float]:
            await clock.asleep(1)
            return await perdure.aclose(grace=2), clock.now

        with VirtualClock() as clock:
            value, (closed, now) = run_async(
                loop, lambda: together(loop, LONG(Script(took(50, "done")).asynchronous), close)
            )
        assert value == "done"
        assert closed is False
        assert now == pytest.approx(3, abs=0.1)

    def test_a_block_of_another_task_counts(self, loop: str) -> None:
        async def block() -> None:
            async for attempt in LONG:
                async with attempt:
                    await clock.asleep(5)

        async def close() -> bool:
            await clock.asleep(1)
            return await perdure.aclose(grace=2)

        with VirtualClock() as clock:
            assert run_async(loop, lambda: together(loop, block, close)) == [None, False]

    def test_a_task_that_closes_does_not_wait_for_itself(self, loop: str) -> None:
        with VirtualClock() as clock:
            assert run_async(loop, lambda: Retry().call(lambda: perdure.aclose(grace=5))) is True
            assert clock.now == 0

    def test_final_refuses_for_good(self, loop: str) -> None:
        assert run_async(loop, lambda: perdure.aclose(final=True)) is True
        assert isinstance(Retry().outcome(str).error, perdure.ShuttingDown)

    def test_an_attempt_in_a_thread_counts(self, loop: str, threads: ThreadPoolExecutor) -> None:
        held = Held()
        future = begun(threads, "call", held)
        assert run_async(loop, lambda: perdure.aclose(grace=0.05)) is False
        held.let_go()
        assert future.result(PATIENCE) == "done"

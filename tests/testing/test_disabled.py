"""``disabled``: single attempts, for whom it is meant and for nobody else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Retry
from perdure.testing import Script, disabled, no_waits
from tests.engine.tasks import LOOPS, together, turn
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


POLICY = Retry(attempts=3, backoff=perdure.Schedule([1, 2]), deadline=None)


def failing() -> Script:
    return Script(*[ConnectionError()] * 3)


@pytest.mark.parametrize("colour", COLOURS)
class TestDisabled:
    def test_every_call_is_a_single_attempt(self, colour: str) -> None:
        error = ConnectionError()
        with disabled():
            played = play(colour, POLICY, error)
        assert (played.error, played.calls, played.elapsed) == (error, 1, 0)
        assert played.events[-1].reason == "attempts"
        assert "retries are disabled" in error.__notes__[0]

    def test_a_success_stays_a_success(self, colour: str) -> None:
        with disabled():
            assert play(colour, POLICY, "ok").value == "ok"

    def test_both_does_not_lift_it(self, colour: str) -> None:
        with disabled():
            assert play(colour, POLICY.replace(nested="both"), ConnectionError()).calls == 1

    def test_it_is_over_after_the_block(self, colour: str) -> None:
        with disabled():
            pass
        assert play(colour, POLICY, ConnectionError(), "ok").calls == 2


def test_the_fused_path_sees_it() -> None:
    script = failing()
    guarded = POLICY(script)
    with disabled(), pytest.raises(ConnectionError):
        guarded()
    assert len(script.calls) == 1


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("form", ["decorated", "call"])
def test_a_task_that_disables_retries_leaves_the_others_alone(loop: str, form: str) -> None:
    """B121: a test mode that leaks between tasks, or that a fast path forgets."""
    scripts = [Script(ConnectionError(), "ok") for _ in range(3)]

    async def run(script: Script) -> object:
        guarded = (
            POLICY(script.asynchronous) if form == "decorated" else lambda: POLICY.call(script.asynchronous)
        )
        with no_waits():
            return await guarded()

    async def alone() -> object:
        with disabled():
            await turn(loop)
            with pytest.raises(ConnectionError):
                await run(scripts[0])
            return "disabled"

    works: list[Callable[[], Any]] = [alone, *(lambda script=script: run(script) for script in scripts[1:])]
    assert run_async(loop, lambda: together(loop, *works)) == ["disabled", "ok", "ok"]
    assert [len(script.calls) for script in scripts] == [1, 2, 2]


def test_tasks_started_in_the_block_are_disabled_too() -> None:
    script = failing()

    async def main() -> None:
        with disabled():
            task = asyncio.create_task(POLICY.call(script.asynchronous))
            with pytest.raises(ConnectionError):
                await task

    asyncio.run(main())
    assert len(script.calls) == 1


def test_other_threads_are_not_affected() -> None:
    scripts = [Script(ConnectionError(), "ok"), failing()]
    inside, looked = threading.Event(), threading.Event()

    def other() -> None:
        assert inside.wait(10)
        with no_waits():
            POLICY.call(scripts[0])
        looked.set()

    thread = threading.Thread(target=other)
    thread.start()
    with disabled():
        inside.set()
        assert looked.wait(10)
        with pytest.raises(ConnectionError):
            POLICY.call(scripts[1])
    thread.join(10)
    assert [len(script.calls) for script in scripts] == [2, 1]


class TestDecorator:
    def test_of_a_function(self) -> None:
        script = failing()

        @disabled()
        def test() -> None:
            POLICY.call(script)

        with pytest.raises(ConnectionError):
            test()
        assert len(script.calls) == 1

    @pytest.mark.parametrize("loop", LOOPS)
    def test_of_a_coroutine_function(self, loop: str) -> None:
        script = failing()

        @disabled()
        async def test() -> None:
            await POLICY.call(script.asynchronous)

        with pytest.raises(ConnectionError):
            run_async(loop, test)
        assert len(script.calls) == 1

    def test_each_call_of_the_function_is_a_block_of_its_own(self) -> None:
        @disabled()
        def outer(depth: int) -> int:
            return outer(depth - 1) if depth else POLICY.replace(attempts=1).call(lambda: 0)

        assert outer(3) == 0
        with no_waits():
            assert POLICY.call(Script(ConnectionError(), "ok")) == "ok"

    def test_of_a_coroutine_function_without_waits(self) -> None:
        @no_waits()
        async def test() -> object:
            return await POLICY.replace(backoff=perdure.Constant(3600)).call(
                Script(ConnectionError(), "ok").asynchronous
            )

        assert asyncio.run(test()) == "ok"


def run_with(value: str) -> str:
    program = """
import perdure
calls = []
def broken():
    calls.append(1)
    raise ConnectionError
with perdure.testing.no_waits():
    for guarded in (perdure.Retry()(broken), lambda: perdure.Retry().call(broken)):
        try:
            guarded()
        except ConnectionError:
            pass
print(len(calls))
"""
    environment = {**os.environ, "PERDURE_DISABLED": value}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.parametrize(("value", "calls"), [("1", 2), ("true", 2), ("0", 8), ("", 8)])
def test_a_variable_disables_the_whole_process(value: str, calls: int) -> None:
    assert run_with(value).strip() == str(calls)


def test_tasks_may_share_one_switch_and_leave_it_in_any_order() -> None:
    switch = disabled()
    scripts = [failing(), failing()]

    async def use(script: Script, turns: int) -> None:
        with switch:
            for _ in range(turns):
                await asyncio.sleep(0)
            with pytest.raises(ConnectionError):
                await POLICY.call(script.asynchronous)
        assert POLICY.outcome(str).ok

    asyncio.run(together("asyncio", lambda: use(scripts[0], 1), lambda: use(scripts[1], 5)))
    assert [len(script.calls) for script in scripts] == [1, 1]


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_guarded_generators_are_single_attempts_too(kind: str) -> None:
    begun: list[int] = []

    @POLICY
    def numbers() -> Iterator[int]:
        begun.append(1)
        raise ConnectionError
        yield 1

    @POLICY
    async def async_numbers() -> AsyncIterator[int]:
        begun.append(1)
        raise ConnectionError
        yield 1

    async def consume() -> list[int]:
        return [number async for number in async_numbers()]

    with disabled(), pytest.raises(ConnectionError):
        list(numbers()) if kind == "generator" else asyncio.run(consume())
    assert begun == [1]

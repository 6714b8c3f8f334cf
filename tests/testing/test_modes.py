"""``disabled``, ``no_waits``, ``record_events`` and ``reset``: what they change, and for whom."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import FaultKind, Retry, bypass, classify, events, faults
from perdure.testing import Script, VirtualClock, disabled, no_waits, record_events, reset
from tests.engine.tasks import LOOPS, together, turn
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

POLICY = Retry(attempts=3, backoff=perdure.Schedule([1, 2]), deadline=None)


def failing() -> Script:
    return Script(*[ConnectionError()] * 3)


# -- disabled ------------------------------------------------------------------------------------------


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


# -- no_waits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["fused", "call", "block", *LOOPS])
def test_no_waits_skips_waits_and_lists_them(form: str) -> None:
    script = Script(ConnectionError(), ConnectionError(), "ok")
    with no_waits() as waits:
        if form == "fused":
            assert POLICY(script)() == "ok"
        elif form == "call":
            assert POLICY.call(script) == "ok"
        elif form == "block":
            for attempt in POLICY:
                with attempt:
                    script()
        else:
            assert run_async(form, POLICY(script.asynchronous)) == "ok"
    assert waits == [1, 2]


def test_no_time_passes_for_the_deadline() -> None:
    with no_waits() as waits:
        assert POLICY.replace(deadline=2.5).call(Script(ConnectionError(), ConnectionError(), "ok")) == "ok"
    assert waits == [1, 2]


def test_a_wait_past_the_deadline_still_ends_the_call() -> None:
    with no_waits() as waits, pytest.raises(ConnectionError):
        POLICY.replace(deadline=1.5).call(failing())
    assert waits == [1]


def test_blocks_in_blocks_list_their_own_waits() -> None:
    with no_waits() as outer:
        POLICY.call(Script(ConnectionError(), "ok"))
        with no_waits() as inner:
            POLICY.call(Script(ConnectionError(), ConnectionError(), "ok"))
    assert (outer, inner) == ([1], [1, 2])


def test_disabled_and_no_waits_go_together() -> None:
    script = failing()
    with no_waits() as waits, disabled(), pytest.raises(ConnectionError):
        POLICY.call(script)
    assert (waits, len(script.calls)) == ([], 1)


def test_other_tasks_wait_all_the_same() -> None:
    async def skipping() -> float:
        with no_waits():
            await POLICY.call(Script(ConnectionError(), "ok").asynchronous)
        return clock.now

    async def waiting() -> float:
        await POLICY.call(Script(ConnectionError(), "ok").asynchronous)
        return clock.now

    with VirtualClock() as clock:
        assert asyncio.run(together("asyncio", skipping, waiting)) == [0, 1]


# -- record_events -------------------------------------------------------------------------------------


def test_events_are_recorded_while_the_block_runs_only() -> None:
    with no_waits(), record_events() as seen:
        POLICY.call(Script("ok"))
        count = len(seen)
    POLICY.call(Script("ok"))
    assert len(seen) == count == 4


def test_events_of_other_threads_are_recorded_too() -> None:
    with record_events() as seen:
        thread = threading.Thread(target=lambda: POLICY.call(Script("ok")))
        thread.start()
        thread.join(10)
    assert len(seen) == 4


def test_the_listener_is_gone_in_whatever_way_the_block_is_left() -> None:
    with pytest.raises(KeyError), record_events():
        raise KeyError
    assert not events.listeners
    assert bypass.NAMESPACE["_slow"] is False


# -- reset ---------------------------------------------------------------------------------------------


def test_reset_forgets_listeners_rules_and_a_shutdown() -> None:
    seen: list[object] = []
    perdure.listen(seen.append)
    faults.register(LookupError, FaultKind.TRANSIENT)
    perdure.close(final=True)
    seen.clear()
    reset()
    assert POLICY.call(Script("ok")) == "ok"
    assert not seen
    assert classify(LookupError()).kind is FaultKind.PERMANENT
    assert bypass.NAMESPACE["_slow"] is False


def test_reset_forgets_what_was_logged_within_the_second(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="perdure")
    with VirtualClock():
        for _ in range(2):
            with pytest.raises(ConnectionError):
                POLICY.replace(attempts=1, name="again").call(failing())
            reset()
    assert len(caplog.records) == 2


def test_reset_inside_a_virtual_clock_keeps_calls_on_it() -> None:
    with VirtualClock() as clock:
        reset()
        POLICY(Script(ConnectionError(), "ok"))()
        assert clock.now == 1
        assert bypass.NAMESPACE["_slow"] is True
    assert bypass.NAMESPACE["_slow"] is False


def test_reset_reads_the_variable_again(monkeypatch: pytest.MonkeyPatch) -> None:
    script = failing()
    monkeypatch.setenv("PERDURE_DISABLED", "1")
    reset()
    with pytest.raises(ConnectionError):
        POLICY.call(script)
    assert len(script.calls) == 1
    monkeypatch.delenv("PERDURE_DISABLED")
    reset()
    with no_waits():
        assert POLICY.call(Script(ConnectionError(), "ok")) == "ok"


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

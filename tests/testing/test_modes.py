"""``no_waits``, ``record_events`` and ``reset``: what they change, and for whom."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

import perdure
from perdure import FaultKind, Retry, bypass, classify, events, faults
from perdure.testing import Script, VirtualClock, disabled, no_waits, record_events, reset
from tests.engine.tasks import LOOPS, together
from tests.harness import run_async

POLICY = Retry(attempts=3, backoff=perdure.Schedule([1, 2]), deadline=None)


def failing() -> Script:
    return Script(*[ConnectionError()] * 3)


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

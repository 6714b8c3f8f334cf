"""Overflow faults of backoffs in other libraries; the ids are those of the catalogue of cases."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import TYPE_CHECKING

import pytest
import trio

import perdure
from perdure import Retry, clock
from perdure.testing import Script, VirtualClock
from tests.core.draws import never_drawn
from tests.harness import COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Callable

FAR = [1023, 1024, 1025, 10**6, 10**9]


@pytest.mark.parametrize("n", FAR)
@pytest.mark.parametrize("base", [1, 1.0, 0.1, 60])
def test_b046_a_power_that_no_float_holds_is_the_cap(n: int, base: float) -> None:
    """hynek/stamina#104, #137: base ** n overflowed at 1024 before the cap applied."""
    assert perdure.Exponential(base, 2, 60, "none").delay(n, None, never_drawn) == 60


@pytest.mark.parametrize("colour", COLOURS)
def test_b046_a_poller_lives_through_more_than_a_thousand_failures(colour: str) -> None:
    policy = Retry(attempts=None, deadline=perdure.FOREVER, backoff=perdure.Exponential(0.1, 2, 5))
    assert (
        play(colour, policy, *(ConnectionError() for _ in range(1100)), "back", listen=False).value == "back"
    )


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_b047_integers_do_not_grow_without_bound(n: int) -> None:
    """jd/tenacity#526, #654: 2 ** 100000 as an integer, at every retry; the next test would take minutes."""
    backoff = perdure.Exponential(1, 3, 10**6, "none")
    delay = backoff.delay(n, None, never_drawn)
    assert (delay, type(delay)) == (10**6, int)  # the cap as it was written
    assert all(backoff.delay(n + more, None, never_drawn) == delay for more in range(1000))


def test_b049_an_overflow_respects_the_cap() -> None:
    """App-vNext/Polly#1866, #1522: base 2 s, cap 5 min, attempt 60: infinite."""
    backoff = perdure.Exponential(2, 2, 300)
    assert all(backoff.delay(n, None, lambda: 1 - 2**-53) <= 300 for n in (60, 1100, 10**9))


@pytest.mark.parametrize("colour", COLOURS)
def test_b050_a_delay_longer_than_any_date_loses_nothing(colour: str) -> None:
    """procrastinate-org/procrastinate#1462: 5 ** 17 s added to a date: OverflowError, and the job was gone."""
    policy = Retry(deadline=None, backoff=perdure.Constant(1e13))
    played = play(colour, policy, ConnectionError(), "late")
    assert (played.value, played.error) == ("late", None)
    assert played.elapsed == pytest.approx(1e13)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("delay", [86_400.5, 200_000, 9_999_999_999])
def test_b052_a_delay_above_what_timers_take_is_waited_whole(colour: str, delay: float) -> None:
    """pathosDev/actor-ts#771, urllib3#3743: too long for a timer: 1 ms, an error, or a day instead of two."""
    played = play(colour, Retry(deadline=None, backoff=perdure.Constant(delay)), ConnectionError(), "late")
    assert played.value == "late"
    assert played.elapsed == pytest.approx(delay)
    assert played.elapsed >= delay


REAL: dict[str, Callable[[Retry, Script], object]] = {
    "sync": lambda policy, script: policy.call(script),
    "asyncio": lambda policy, script: asyncio.run(policy.call(script.asynchronous)),
    "trio": lambda policy, script: trio.run(lambda: policy.call(script.asynchronous)),
}


@pytest.mark.parametrize("colour", REAL)
@pytest.mark.parametrize("delay", [threading.TIMEOUT_MAX * 4, 1e15, 1e300])
def test_b052_real_timers_take_any_delay_too(colour: str, delay: float) -> None:
    """Ended by a shutdown: nobody waits for it. What counts is that no timer refuses."""
    decided = threading.Event()
    perdure.listen(lambda event: decided.set() if event.name == "retry.scheduled" else None)
    script = Script(ConnectionError("refused"))
    ended: list[BaseException] = []

    def run() -> None:
        try:
            REAL[colour](Retry(deadline=None, backoff=perdure.Constant(delay)), script)
        except BaseException as error:  # noqa: BLE001 - looked at below
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert decided.wait(10)
    perdure.close(final=True, grace=10)
    thread.join(10)
    assert [str(error) for error in ended] == ["refused"]


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf, -1])
def test_b052_what_is_no_time_at_all_is_refused_by_the_policy(delay: float) -> None:
    with pytest.raises(perdure.ConfigError, match="must be a finite number of seconds >= 0"):
        perdure.Constant(delay)


def test_a_virtual_wait_of_any_length_costs_nothing() -> None:
    with VirtualClock() as virtual:
        clock.sleep(1e15)
        assert virtual.now == 1e15

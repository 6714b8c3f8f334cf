"""Faults of clocks, timers and loops in other libraries; the ids are those of the catalogue of cases."""

from __future__ import annotations

import subprocess
import sys
import traceback
from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import Retry, clock
from perdure.testing import VirtualClock, no_waits, took
from tests.harness import COLOURS, play

if TYPE_CHECKING:
    from collections.abc import Callable


class Jumping:
    """A wall clock that somebody sets while the call runs."""

    def __init__(self, by: float) -> None:
        self.by = by
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        self.now += self.by
        return self.now


@pytest.mark.parametrize("by", [-3600, 3600])
@pytest.mark.parametrize("colour", ["sync", "asyncio", "trio"])
def test_b063_a_step_of_the_wall_clock_changes_nothing(
    colour: str, by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fabfuel/circuitbreaker#31 and others: time.time() jumps an hour in the middle of a call."""
    policy = Retry(attempts=None, deadline=10, backoff=perdure.Constant(2), attempt_timeout=5)
    outcomes = [took(1, ConnectionError()) for _ in range(9)]
    calm = play(colour, policy, *outcomes)
    enter = VirtualClock.__enter__

    def enter_and_jump(self: VirtualClock) -> VirtualClock:
        enter(self)
        clock.wall = Jumping(by)
        return self

    monkeypatch.setattr(VirtualClock, "__enter__", enter_and_jump)
    jumped = play(colour, policy, *outcomes)
    assert (jumped.calls, jumped.waits, jumped.elapsed) == (calm.calls, calm.waits, calm.elapsed)
    assert jumped.events[-1].elapsed == calm.events[-1].elapsed == pytest.approx(10)


def test_b063_durations_come_from_the_monotonic_clock_and_tests_can_replace_it() -> None:
    import time

    assert clock.monotonic is time.monotonic
    with VirtualClock():
        assert clock.monotonic is not time.monotonic
    assert clock.monotonic is time.monotonic


PROGRAM = """
import asyncio, threading
import perdure

async def work():
    raise ConnectionError

async def main():
    policy = perdure.Retry(attempts=2, backoff=perdure.Constant(0), attempt_timeout=3600)
    with perdure.deadline(3600):
        await policy.outcome(work)

def broken():
    raise ConnectionError

perdure.Retry(attempts=2, backoff=perdure.Constant(0)).outcome(broken)
asyncio.run(main())
with perdure.deadline(3600):
    pass
print(threading.active_count(), flush=True)
"""


def test_b065_nothing_in_the_background_keeps_the_process_alive() -> None:
    """KanishJebaMathewM/Truxify#16555: a timer thread; here no thread is ever started."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "1\n"


def depth() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


@pytest.mark.parametrize("colour", COLOURS)
def test_b066_five_thousand_attempts_need_no_deeper_stack(colour: str) -> None:
    """pycassa/pycassa#25, martianboy/peanar#48: retries by recursion."""
    policy = Retry(attempts=5000, deadline=None, backoff=perdure.Constant(0))
    played = play(colour, policy, *(ConnectionError() for _ in range(4999)), "ok", listen=False)
    assert (played.value, played.calls) == ("ok", 5000)


@pytest.mark.parametrize("form", ["fused", "call", "block"])
def test_b066_the_stack_is_as_deep_at_the_last_attempt_as_at_the_second(form: str) -> None:
    depths: list[int] = []

    def work() -> None:
        depths.append(depth())
        if len(depths) < 3000:
            raise ConnectionError

    policy = Retry(attempts=3000, deadline=None, backoff=perdure.Constant(0))
    forms: dict[str, Callable[[], object]] = {
        "fused": lambda: policy(work)(),
        "call": lambda: policy.call(work),
        "block": lambda: in_a_block(policy, work),
    }
    with no_waits():
        forms[form]()
    assert len(depths) == 3000
    assert len(set(depths[1:])) == 1


def in_a_block(policy: Retry, work: Callable[[], None]) -> None:
    for attempt in policy:
        with attempt:
            work()


@pytest.mark.parametrize("colour", COLOURS)
def test_b066_the_traceback_is_as_short_after_many_attempts_as_after_two(colour: str) -> None:
    """Also of one object that is raised again and again, as a mock or a cached failure is."""

    def length(attempts: int) -> int:
        error = ConnectionError()
        policy = Retry(attempts=attempts, deadline=None, backoff=perdure.Constant(0))
        assert play(colour, policy, *[error] * attempts, listen=False).error is error
        return len(list(traceback.walk_tb(error.__traceback__)))

    assert length(300) == length(2)

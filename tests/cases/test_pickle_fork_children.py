"""A forked child is a process of its own: its own jitter, ids, locks and loops."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Constant, FaultKind, Retry, StopReason, bypass, clock
from perdure.faults import rules
from perdure.testing import Script, VirtualClock, no_waits

if TYPE_CHECKING:
    from collections.abc import Callable


class Throttled(Exception):
    """A class to register."""


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
# A test runner may have threads of its own; what the child does here is safe all the same.
quiet_forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], object]) -> Any:
    """What the work gives in a forked child; a child that hangs is ended by its own alarm."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        try:
            answer: object = work()
        except BaseException as error:  # noqa: BLE001 - the parent looks at it
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, pickle.dumps(answer))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}: it hung, or crashed"
    return pickle.loads(data)


def drawn() -> list[float]:
    with no_waits() as waits:
        Retry(attempts=6, deadline=None).outcome(Script(*[ConnectionRefusedError("no")] * 6))
    return waits


@forks
@quiet_forks
@pytest.mark.parametrize("warm", [False, True])
def test_forked_children_draw_their_own_jitter(warm: bool) -> None:
    """A pool of workers that failed together must not come back together."""
    if warm:
        drawn()
        clock.random()
    draws = [tuple(in_child(drawn)) for _ in range(3)] + [tuple(drawn())]
    assert len(set(draws)) == 4
    assert all(len(waits) == 5 for waits in draws)


@forks
@quiet_forks
def test_forked_children_name_their_calls_apart() -> None:
    """Call ids say which process."""

    def ids() -> list[str]:
        return [Retry(attempts=1).outcome(lambda: None).call_id for _ in range(3)]

    ids()
    every = [one for _ in range(3) for one in in_child(ids)] + ids()
    assert len(set(every)) == len(every)


@forks
@quiet_forks
def test_a_child_forked_in_the_middle_of_anything_works() -> None:
    """Inside an attempt, a deadline block, a listener, a virtual clock: the child has what the parent had."""

    def child() -> tuple[object, ...]:
        left = perdure.time_left()
        outcome = Retry(attempts=3, backoff=Constant(0)).outcome(Script(ConnectionRefusedError("no"), "ok"))
        with perdure.deadline(5):
            inner = Retry().call(lambda: "inner")
        return left is not None and 0 < left <= 50, outcome.value, outcome.attempts, inner

    def work() -> Any:
        return in_child(child)

    with perdure.deadline(50):
        assert Retry(attempt_timeout=40)(work)() == (True, "ok", 2, "inner")
    stop = perdure.listen(lambda event: None)
    with VirtualClock(), perdure.deadline(50):
        assert work() == (True, "ok", 2, "inner")
    stop()
    for attempt in Retry(attempt_timeout=40):
        with attempt:
            assert work() == (True, "ok", 2, "inner")


@forks
@quiet_forks
@pytest.mark.parametrize("lock", ["switch", "classifier"])
def test_a_child_forked_while_another_thread_holds_a_lock_is_not_stuck(lock: str) -> None:
    """A lock of the parent's thread is held for ever in the child, unless it is made anew there."""

    def child() -> str:
        stop = perdure.listen(lambda event: None)
        with perdure.deadline(5):
            pass
        stop()
        perdure.faults.register(Throttled, FaultKind.THROTTLED)
        return "fine"

    with bypass._lock if lock == "switch" else rules._lock:
        assert in_child(child) == "fine"


@forks
@quiet_forks
def test_a_child_can_close_although_the_parent_was_busy() -> None:
    """The parent's threads and tasks are not in the child, so nothing there is in flight."""

    async def main() -> bool:
        policy = Retry(backoff=Constant(3000), deadline=None)
        task = asyncio.ensure_future(policy.call(Script(ConnectionRefusedError("no")).asynchronous))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        closed: bool = in_child(lambda: perdure.close(grace=0))
        task.cancel()
        return closed

    assert asyncio.run(main()) is True


@forks
@quiet_forks
def test_a_child_of_a_waiting_process_is_not_waiting() -> None:
    """A fork while other threads wait in backoff: the child neither waits nor is disturbed by them."""
    waiting, real_sleep = Flag(), clock.sleep

    def sleep(seconds: float) -> None:
        waiting.set()
        real_sleep(seconds)

    clock.sleep = sleep
    policy = Retry(backoff=Constant(3000), deadline=None)
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(policy.outcome, Script(ConnectionRefusedError("no")))
        try:
            assert waiting.wait(30)
            assert in_child(lambda: (perdure.close(grace=0), Retry().call(lambda: "ok"))) == (True, "ok")
        finally:
            clock.sleep = real_sleep
            perdure.close(grace=30)
        assert outcome.result(30).stop is StopReason.SHUTDOWN

"""``close()``: waits end, attempts in flight may finish, none follows; bounded."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Outcome, Retry
from perdure.engine import shutdown
from perdure.testing import Script, VirtualClock
from tests.engine.held import LONG, PATIENCE, PLACES, Held, begun
from tests.engine.tasks import LOOPS
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


@pytest.mark.parametrize("place", PLACES)
class TestInFlight:
    def test_an_attempt_that_goes_on_past_the_grace_time_is_reported(
        self, threads: ThreadPoolExecutor, place: str
    ) -> None:
        held = Held()
        future = begun(threads, place, held)
        assert perdure.close(grace=0.05) is False
        held.let_go()
        assert future.result(PATIENCE) == "done"

    def test_it_may_finish(self, threads: ThreadPoolExecutor, place: str) -> None:
        held = Held()
        future = begun(threads, place, held)
        closed = threads.submit(perdure.close, grace=PATIENCE)
        wait_until_closing(closed)
        held.let_go()
        assert closed.result(PATIENCE) is True
        assert future.result(PATIENCE) == "done"

    def test_when_it_fails_none_follows(self, threads: ThreadPoolExecutor, place: str) -> None:
        error = ConnectionError()
        held = Held(error)
        future = begun(threads, place, held)
        closed = threads.submit(perdure.close, grace=PATIENCE)
        wait_until_closing(closed)
        held.let_go()
        assert closed.result(PATIENCE) is True
        assert future.exception(PATIENCE) is error
        assert held.calls == 1
        assert "shutting down" in error.__notes__[0]


def wait_until_closing(closed: Future[bool]) -> None:
    """Until a guarded call is refused (or the close is over already, which it should not be)."""
    while not closed.done() and Retry().outcome(str).ok:
        wait([closed], 0.001)


class Waiting:
    """Fails at once, then waits for an hour; tells when the wait was decided."""

    def __init__(self) -> None:
        self.error = ConnectionError()
        self.waits = threading.Event()
        perdure.listen(self.look)

    def look(self, event: perdure.Event) -> None:
        if event.name == "retry.scheduled":
            self.waits.set()

    def fail(self) -> None:
        raise self.error

    async def afail(self) -> None:
        raise self.error


WAITERS: dict[str, Callable[[Waiting], Outcome[None]]] = {
    "sync": lambda waiting: LONG.outcome(waiting.fail),
    "asyncio": lambda waiting: asyncio.run(LONG.outcome(waiting.afail)),  # type: ignore[arg-type]
    "trio": lambda waiting: trio.run(lambda: LONG.outcome(waiting.afail)),
}


@pytest.mark.parametrize("colour", WAITERS)
def test_a_wait_ends_at_once_with_the_original_error(threads: ThreadPoolExecutor, colour: str) -> None:
    waiting = Waiting()
    future = threads.submit(WAITERS[colour], waiting)
    assert waiting.waits.wait(PATIENCE)
    assert perdure.close(grace=PATIENCE) is True
    outcome = future.result(PATIENCE)
    assert outcome.error is waiting.error
    assert (outcome.stop, outcome.attempts) == ("shutdown", 1)


def test_many_waits_in_many_threads_end_together(threads: ThreadPoolExecutor) -> None:
    waitings = [Waiting() for _ in range(8)]
    futures = [threads.submit(LONG.outcome, waiting.fail) for waiting in waitings]
    assert all(waiting.waits.wait(PATIENCE) for waiting in waitings)
    assert perdure.close(grace=PATIENCE) is True
    assert [future.result(PATIENCE).stop for future in futures] == ["shutdown"] * 8


@pytest.mark.parametrize("loop", LOOPS)
def test_a_shutdown_just_before_the_wait_is_entered_cuts_it_all_the_same(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may close between the last look at it and the moment when the wait can be woken."""
    if loop == "trio":
        module, name = trio.lowlevel, "current_trio_token"
    else:
        module, name = asyncio, "get_running_loop"
    real = getattr(module, name)
    script = Script(ConnectionError(), "late")

    def close_meanwhile() -> object:
        if script.calls:
            monkeypatch.setattr(module, name, real)
            closing = threading.Thread(target=shutdown.begin)
            closing.start()
            closing.join(PATIENCE)
        return real()

    async def main() -> Outcome[Any]:
        monkeypatch.setattr(module, name, close_meanwhile)
        return await LONG.outcome(script.asynchronous)

    with VirtualClock():
        outcome = run_async(loop, main)
    assert (outcome.stop, len(script.calls)) == ("shutdown", 1)

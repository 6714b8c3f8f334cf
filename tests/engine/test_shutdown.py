"""``close()`` and ``aclose()``: waits end, attempts in flight may finish, new calls are refused; bounded."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import trio

import perdure
from perdure import Outcome, Retry
from perdure.engine import shutdown
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS, together
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

LONG = Retry(attempts=3, backoff=perdure.Constant(3600), deadline=None)
PATIENCE = 10.0  # seconds until a test of real threads counts as stuck; none of them takes so long


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool
        shutdown.begin()  # whatever a failed test left: nothing waits, nothing is held
        for held in Held.all:
            with suppress(RuntimeError):  # a loop that has ended
                held.let_go()
        Held.all.clear()


class Held:
    """An attempt that runs until it is let go, in a thread or in a loop of any kind."""

    all: ClassVar[list[Held]] = []

    def __init__(self, result: object = "done") -> None:
        self.all.append(self)
        self.result = result
        self.began = threading.Event()
        self.may_go = threading.Event()
        self.let_go: Callable[[], object] = self.may_go.set
        self.calls = 0

    def __call__(self) -> object:
        self.calls += 1
        self.began.set()
        assert self.may_go.wait(PATIENCE)
        return self.end()

    async def in_asyncio(self) -> object:
        self.calls += 1
        go, loop = asyncio.Event(), asyncio.get_running_loop()
        self.let_go = lambda: loop.call_soon_threadsafe(go.set)
        self.began.set()
        await go.wait()
        return self.end()

    async def in_trio(self) -> object:
        self.calls += 1
        go, token = trio.Event(), trio.lowlevel.current_trio_token()
        self.let_go = lambda: token.run_sync_soon(go.set)
        self.began.set()
        await go.wait()
        return self.end()

    def end(self) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def in_a_block(held: Held) -> object:
    for attempt in LONG:
        with attempt:
            return held()
    return None


async def in_an_async_block(work: Callable[[], Any]) -> object:
    async for attempt in LONG:
        with attempt:
            return await work()
    return None


PLACES: dict[str, Callable[[Held], object]] = {
    "decorated": lambda held: LONG(held)(),
    "decorated def": lambda held: LONG(lambda: held())(),
    "call": lambda held: LONG.call(held),
    "block": in_a_block,
    "asyncio": lambda held: asyncio.run(LONG(held.in_asyncio)()),
    "asyncio call": lambda held: asyncio.run(LONG.call(held.in_asyncio)),  # type: ignore[arg-type]
    "asyncio block": lambda held: asyncio.run(in_an_async_block(held.in_asyncio)),
    "trio": lambda held: trio.run(LONG(held.in_trio)),
    "trio call": lambda held: trio.run(lambda: LONG.call(held.in_trio)),
    "trio block": lambda held: trio.run(in_an_async_block, held.in_trio),
}


def begun(threads: ThreadPoolExecutor, place: str, held: Held) -> Future[object]:
    future = threads.submit(PLACES[place], held)
    assert held.began.wait(PATIENCE)
    return future


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

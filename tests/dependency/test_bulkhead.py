"""The bulkhead: who is in it, who waits and in which order, and that no place is ever lost."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Bulkhead, BulkheadFull, Constant, Hedge, Retry
from perdure import clock as clocks
from perdure.engine import shutdown, waiting
from perdure.engine.queueing import Pause
from perdure.testing import Script, VirtualClock, took
from tests.dependency.made import assert_at_rest, made, state_of, until
from tests.engine.held import PATIENCE, Held
from tests.engine.tasks import LOOPS, cancelled_after, together
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

    from perdure import Dependency


def in_line(dependency: Dependency) -> int:
    """How many wait for a place."""
    places = state_of(dependency).places
    assert places is not None
    return places.waiting


# -- tasks -----------------------------------------------------------------------------------


def refusing(dependency: Dependency, *seconds: float) -> list[Callable[[], Any]]:
    """Calls that take so long each, as outcomes."""
    return [partial(dependency.outcome, Script(took(each, "ok")).asynchronous) for each in seconds]


@pytest.mark.parametrize("loop", LOOPS)
class TestTasksAndTheBulkhead:
    def test_no_more_than_the_limit_are_in_it(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(2))
        outcomes = run_async(loop, lambda: together(loop, *refusing(dependency, 5, 5, 5)))
        assert sorted(str(one.value) for one in outcomes) == ["None", "ok", "ok"]
        (error,) = [one.error for one in outcomes if not one.ok]
        assert isinstance(error, BulkheadFull)
        assert (error.dependency, error.reason) == ("payments", "2 of 2 places are taken")
        assert_at_rest(dependency)

    def test_so_many_as_the_queue_holds_may_wait(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=2))
        outcomes = run_async(loop, lambda: together(loop, *refusing(dependency, 5, 5, 5, 5)))
        assert sorted(round(one.elapsed, 6) for one in outcomes) == [0, 5, 10, 15]
        assert sum(isinstance(one.error, BulkheadFull) for one in outcomes) == 1
        assert_at_rest(dependency)

    def test_whoever_waits_longest_goes_first(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=9))
        order: list[int] = []

        async def work(number: int) -> None:
            order.append(number)
            await clock.asleep(3)

        async def one(number: int) -> None:
            await clock.asleep(number / 10)
            await dependency.call(work, number)

        run_async(loop, lambda: together(loop, *(partial(one, number) for number in range(6))))
        assert order == list(range(6))

    def test_max_wait_bounds_the_wait(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=1, max_wait=2))
        outcomes = run_async(loop, lambda: together(loop, *refusing(dependency, 5, 5)))
        (waited,) = [one for one in outcomes if not one.ok]
        assert isinstance(waited.error, BulkheadFull)
        assert waited.elapsed == pytest.approx(2)
        assert_at_rest(dependency)

    def test_without_one_the_deadline_does(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=1), retry=Retry(deadline=4))
        outcomes = run_async(loop, lambda: together(loop, *refusing(dependency, 50, 50)))
        (waited,) = [one for one in outcomes if not one.ok]
        assert isinstance(waited.error, BulkheadFull)
        assert waited.elapsed == pytest.approx(4)
        assert_at_rest(dependency)

    def test_a_place_is_free_while_its_call_waits_between_attempts(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(bulkhead=Bulkhead(1), retry=Retry(attempts=2, backoff=Constant(10)))
        slow = Script(took(1, ConnectionError()), took(1, "slow"))

        async def other() -> Any:
            await clock.asleep(1.5)
            return await dependency.outcome(Script(took(8, "other")).asynchronous)

        first, second = run_async(
            loop, lambda: together(loop, partial(dependency.outcome, slow.asynchronous), other)
        )
        assert (first.value, second.value) == ("slow", "other")
        assert first.elapsed == pytest.approx(12)
        assert_at_rest(dependency)

    def test_a_retry_that_finds_it_full_ends_with_the_error_of_the_attempt_before(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(bulkhead=Bulkhead(1), retry=Retry(attempts=2, backoff=Constant(10)))
        error = ConnectionError()
        failing = Script(took(1, error))

        async def other() -> Any:
            await clock.asleep(1.5)
            return await dependency.outcome(Script(took(20, "other")).asynchronous)

        first, second = run_async(
            loop, lambda: together(loop, partial(dependency.outcome, failing.asynchronous), other)
        )
        assert first.error is error
        assert (first.attempts, second.value) == (1, "other")
        assert dependency.snapshot()["budget"]["tokens"] == pytest.approx(1.5), "one refunded, and a success"
        assert_at_rest(dependency)

    def test_cancelled_waiters_leave_the_line_to_the_others(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=3))
        last = Script(took(1, "last"))

        async def leaving() -> None:
            await clock.asleep(0.1)
            await cancelled_after(loop, clock, 2, lambda: dependency.call(Script("never").asynchronous))

        async def staying() -> Any:
            await clock.asleep(0.2)
            return await dependency.call(last.asynchronous)

        first = partial(dependency.call, Script(took(5, "first")).asynchronous)
        results = run_async(loop, lambda: together(loop, first, leaving, leaving, staying))
        assert results == ["first", None, None, "last"]
        assert last.times == [pytest.approx(5)]
        assert_at_rest(dependency)

    def test_a_waiter_that_is_cancelled_as_it_gets_a_place_passes_it_on(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=2))
        never, last = Script("never"), Script("last")
        scope = trio.CancelScope()
        tasks: list[asyncio.Task[Any]] = []

        async def first() -> None:
            await dependency.call(Script(took(5, "first")).asynchronous)
            scope.cancel()  # the waiter holds the place by now, and has not run yet
            for task in tasks:
                task.cancel()

        async def leaving() -> None:
            await clock.asleep(0.1)
            if loop == "asyncio":
                tasks.append(asyncio.ensure_future(dependency.call(never.asynchronous)))
                await asyncio.gather(*tasks, return_exceptions=True)
            else:
                with scope:
                    await dependency.call(never.asynchronous)

        async def staying() -> Any:
            await clock.asleep(0.2)
            return await dependency.call(last.asynchronous)

        *_, value = run_async(loop, lambda: together(loop, first, leaving, staying))
        assert (value, len(never.calls)) == ("last", 0)
        assert_at_rest(dependency)

    def test_the_last_waiter_may_be_cancelled_as_it_gets_a_place(
        self, loop: str, clock: VirtualClock
    ) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=1))

        async def both() -> None:
            await together(loop, *refusing(dependency, 5, 5))

        run_async(loop, lambda: cancelled_after(loop, clock, 5, both))
        assert_at_rest(dependency)

    def test_each_key_has_its_own(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1), key=lambda host: host)

        async def work(host: str) -> str:
            await clock.asleep(5)
            return host

        hosts = ("a", "b", "a", "b")
        outcomes = run_async(
            loop, lambda: together(loop, *(partial(dependency.outcome, work, host) for host in hosts))
        )
        assert sorted(str(one.value) for one in outcomes) == ["None", "None", "a", "b"]
        assert_at_rest(dependency)

    def test_closing_ends_the_wait(self, loop: str, clock: VirtualClock) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=5))

        async def close() -> bool:
            await clock.asleep(1)
            return await perdure.aclose(grace=10)

        *outcomes, closed = run_async(loop, lambda: together(loop, *refusing(dependency, 5, 5, 5), close))
        assert closed is True
        assert [type(one.error) for one in sorted(outcomes, key=lambda one: not one.ok)] == [
            type(None),
            perdure.ShuttingDown,
            perdure.ShuttingDown,
        ]
        assert clock.now < 6
        assert_at_rest(dependency)

    def test_whoever_stands_in_line_holds_no_probe_of_the_breaker(
        self, loop: str, clock: VirtualClock
    ) -> None:
        breaker = perdure.Breaker(failures=1, cooldown=1, probes=2, lease=60)
        dependency = made(bulkhead=Bulkhead(2, queue=1), breaker=breaker, retry=None, gate=None)
        state = state_of(dependency)

        async def at(moment: float, *outcomes: object) -> Any:
            await clock.asleep(moment)
            return await dependency.outcome(Script(*outcomes).asynchronous)

        async def look() -> tuple[int, int]:
            await clock.asleep(4)
            assert state.breaker is not None
            return len(state.breaker._places), in_line(dependency)

        works = [
            partial(at, 0, took(20, "old")),
            partial(at, 0, took(0.5, ConnectionError())),
            partial(at, 2, took(5, "a probe")),
            partial(at, 3, "after it"),
            look,
        ]
        *outcomes, seen = run_async(loop, lambda: together(loop, *works))
        assert seen == (1, 1), "one probe is out, and one call in line"
        assert [one.value for one in outcomes] == ["old", None, "a probe", "after it"]
        assert_at_rest(dependency)


# -- threads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["sync", *LOOPS])
def test_a_place_that_is_given_before_the_wait_begins_ends_it_at_once(loop: str, clock: VirtualClock) -> None:
    pause = Pause(3600)
    pause.wake()
    if loop == "sync":
        pause.wait()
    else:
        run_async(loop, pause.wait_async)
    assert clock.now == 0
    assert not waiting.QUEUED


CALLERS: dict[str, Callable[[Dependency, Callable[[], object]], object]] = {
    "thread": lambda dependency, work: dependency.call(work),
    "asyncio": lambda dependency, work: asyncio.run(dependency.call(_later(work))),  # type: ignore[arg-type]
    "trio": lambda dependency, work: trio.run(partial(dependency.call, _later(work))),
}


def _later(work: Callable[[], object]) -> Callable[[], Any]:
    async def later() -> object:
        return work()

    return later


class TestThreadsAndTheBulkhead:
    def test_a_place_is_free_only_when_the_work_has_really_ended(self, threads: ThreadPoolExecutor) -> None:
        """B035."""
        dependency = made(bulkhead=Bulkhead(2, queue=8), retry=Retry(attempts=1, attempt_timeout=0.001))
        running: list[int] = []
        lock, may_go = threading.Lock(), threading.Event()
        count = 0

        def work() -> None:
            nonlocal count
            with lock:
                count += 1
                running.append(count)
            may_go.wait(PATIENCE)
            with lock:
                count -= 1

        futures = [threads.submit(dependency.call, work) for _ in range(7)]
        until(lambda: in_line(dependency) == 5)
        threading.Event().wait(0.01)  # ten times the attempt timeout, which interrupts no plain function
        assert len(running) == 2
        may_go.set()
        for future in futures:
            future.result(PATIENCE)
        assert (len(running), max(running)) == (7, 2)
        assert_at_rest(dependency)

    def test_a_copy_that_runs_on_in_its_thread_keeps_its_place(self, clock: VirtualClock) -> None:
        """B035."""
        dependency = made(bulkhead=Bulkhead(2), hedge=Hedge(delay=0.5), budget=None)
        held, copies = Held("late"), iter(range(2))

        def work() -> object:
            return held() if next(copies) == 0 else "copy"

        assert dependency.call(work) == "copy"
        places = state_of(dependency).places
        assert places is not None
        assert places.taken == 1
        held.let_go()
        until(lambda: places.taken == 0)
        assert_at_rest(dependency)

    def test_threads_and_tasks_of_all_loops_stand_in_one_line(self, threads: ThreadPoolExecutor) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=9))
        held, order = Held(), []
        futures: list[Future[object]] = [threads.submit(dependency.call, held)]
        assert held.began.wait(PATIENCE)
        names = ["thread", "asyncio", "trio", "asyncio", "thread", "trio"]
        for number, name in enumerate(names):
            futures.append(
                threads.submit(CALLERS[name], dependency, partial(order.append, f"{name} {number}"))
            )
            until(lambda number=number: in_line(dependency) == number + 1)
        held.let_go()
        for future in futures:
            future.result(PATIENCE)
        assert order == [f"{name} {number}" for number, name in enumerate(names)]
        assert_at_rest(dependency)

    @pytest.mark.parametrize("name", CALLERS)
    def test_closing_ends_the_wait(self, threads: ThreadPoolExecutor, name: str) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=9))
        held = Held()
        first = threads.submit(dependency.call, held)
        assert held.began.wait(PATIENCE)
        second = threads.submit(CALLERS[name], dependency, str)
        until(lambda: in_line(dependency) == 1)
        shutdown.begin()
        assert isinstance(second.exception(PATIENCE), perdure.ShuttingDown)
        held.let_go()
        assert first.result(PATIENCE) == "done"
        assert_at_rest(dependency)

    @pytest.mark.parametrize("name", CALLERS)
    def test_max_wait_ends_it_in_real_time(self, threads: ThreadPoolExecutor, name: str) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=9, max_wait=0.01))
        held = Held()
        first = threads.submit(dependency.call, held)
        assert held.began.wait(PATIENCE)
        with pytest.raises(BulkheadFull):
            CALLERS[name](dependency, str)
        held.let_go()
        assert first.result(PATIENCE) == "done"
        assert_at_rest(dependency)

    def test_a_thread_that_is_interrupted_in_line_leaves_it(
        self, clock: VirtualClock, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dependency = made(bulkhead=Bulkhead(1, queue=1, max_wait=5))
        held = Held()
        first = threads.submit(dependency.call, held)
        assert held.began.wait(PATIENCE)

        def interrupt(_seconds: float) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(clocks, "sleep", interrupt)
            with pytest.raises(KeyboardInterrupt):
                dependency.call(str)
        assert in_line(dependency) == 0
        held.let_go()
        assert first.result(PATIENCE) == "done"
        assert_at_rest(dependency)

    def test_many_threads_never_pass_the_limit_and_lose_no_place(self, threads: ThreadPoolExecutor) -> None:
        dependency = made(bulkhead=Bulkhead(3, queue=8), retry=None)
        lock, now, most = threading.Lock(), 0, 0

        def work() -> None:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            with lock:
                now -= 1

        def many() -> None:
            for _ in range(200):
                dependency.call(work)

        for future in [threads.submit(many) for _ in range(8)]:
            future.result(PATIENCE)
        assert most <= 3
        assert_at_rest(dependency)

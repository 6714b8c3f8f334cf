"""The virtual clock: what it replaces, and how time moves in every colour."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Retry, bypass, clock
from perdure.testing import Script, VirtualClock, took
from perdure.testing.virtual import WALL
from tests.engine.tasks import LOOPS, together, turn
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Iterator


POLICY = Retry(attempts=5, backoff=perdure.Exponential(1, 2, 60), deadline=None)


@pytest.fixture
def virtual() -> Iterator[VirtualClock]:
    with VirtualClock() as one:
        yield one


# -- what it replaces, and that it puts it back --------------------------------------------------------


def replaced() -> tuple[object, ...]:
    loop: Any = asyncio.BaseEventLoop
    return clock.monotonic, clock.wall, clock.random, clock.sleep, clock.virtual, loop.time, loop._run_once


def test_everything_is_put_back_in_whatever_way_the_block_is_left() -> None:
    before = replaced()
    with pytest.raises(KeyError), VirtualClock():
        assert not set(replaced()) & set(before)
        raise KeyError
    assert replaced() == before
    assert bypass.NAMESPACE["_slow"] is False


def test_time_starts_at_zero_and_the_wall_clock_at_a_fixed_day(virtual: VirtualClock) -> None:
    assert virtual.now == 0
    assert clock.monotonic() - clock.monotonic() == 0
    assert clock.wall() == WALL
    assert time.gmtime(WALL)[:6] == (2030, 3, 17, 17, 46, 40)


def test_monotonic_and_wall_time_pass_together(virtual: VirtualClock) -> None:
    before = clock.monotonic(), clock.wall()
    virtual.advance(2.5)
    assert (clock.monotonic() - before[0], clock.wall() - before[1]) == (2.5, 2.5)


def test_one_holds_for_the_process(virtual: VirtualClock) -> None:
    with pytest.raises(RuntimeError, match="in force already"), VirtualClock():
        pass
    assert clock.virtual is virtual


def test_the_clock_of_an_earlier_block_does_not_touch_the_next() -> None:
    with VirtualClock() as first:
        first.advance(5)
    with VirtualClock() as second:
        assert (first.now, second.now) == (5, 0)


# -- moving time ---------------------------------------------------------------------------------------


def test_sync_waits_move_the_time_and_are_listed(virtual: VirtualClock) -> None:
    Retry(backoff=perdure.Schedule([1, 20])).call(Script(ConnectionError(), ConnectionError(), "ok"))
    assert virtual.waits == [1, 20]
    assert virtual.now == 21


def test_a_sync_wait_of_nothing_is_no_wait(virtual: VirtualClock) -> None:
    virtual.sleep(0)
    Retry(backoff=perdure.Constant(0)).call(Script(ConnectionError(), "ok"))
    assert (virtual.waits, virtual.now) == ([], 0)


def test_the_test_sleeps_on_the_clock_as_well(virtual: VirtualClock) -> None:
    virtual.sleep(3)
    assert virtual.now == 3


@given(st.lists(st.floats(0, 1e6), max_size=10))
def test_time_never_runs_back(steps: list[float]) -> None:
    with VirtualClock() as one:
        seen = [one.now]
        for step in steps:
            one.advance(step)
            seen.append(one.now)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(sum(steps))


@pytest.mark.parametrize("step", [-1, float("nan"), float("inf")])
def test_time_moves_on_by_a_finite_number_of_seconds(virtual: VirtualClock, step: float) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^seconds must be a finite number >= 0, got "):
        virtual.advance(step)


def test_what_falls_due_on_the_way_happens_at_its_moment(virtual: VirtualClock) -> None:
    happened: list[tuple[str, float]] = []
    virtual.call_later(3, lambda: happened.append(("three", virtual.now)))
    virtual.call_later(1, lambda: happened.append(("one", virtual.now)))
    virtual.call_later(1, lambda: happened.append(("one again", virtual.now)))
    virtual.call_later(2, lambda: happened.append(("cancelled", virtual.now))).cancel()
    virtual.call_later(9, lambda: happened.append(("nine", virtual.now)))
    virtual.advance(5)
    assert happened == [("one", 1), ("one again", 1), ("three", 3)]
    assert virtual.now == 5


def test_what_happens_may_plan_more(virtual: VirtualClock) -> None:
    happened: list[float] = []

    def tick() -> None:
        happened.append(virtual.now)
        virtual.call_later(1, tick)

    virtual.call_later(1, tick)
    virtual.advance(4.5)
    assert happened == [1, 2, 3, 4]


@pytest.mark.parametrize("loop", LOOPS)
class TestLoops:
    def test_waits_cost_no_real_time(self, loop: str, virtual: VirtualClock) -> None:
        run_async(loop, lambda: virtual.asleep(86_400 * 365))
        assert virtual.now == pytest.approx(86_400 * 365)

    def test_waits_that_overlap_end_in_order(self, loop: str, virtual: VirtualClock) -> None:
        ended: list[tuple[float, float]] = []

        async def wait(seconds: float) -> None:
            await virtual.asleep(seconds)
            ended.append((seconds, virtual.now))

        works = [lambda seconds=seconds: wait(seconds) for seconds in (3.0, 1.0, 2.0, 1.0)]
        run_async(loop, lambda: together(loop, *works))
        assert ended == [(1, 1), (1, 1), (2, 2), (3, 3)]

    def test_time_stands_while_any_task_can_run(self, loop: str, virtual: VirtualClock) -> None:
        async def busy() -> float:
            for _ in range(100):
                await turn(loop)
            return virtual.now

        results = run_async(loop, lambda: together(loop, lambda: virtual.asleep(5), busy))
        assert results == [None, 0]

    def test_advance_from_a_task_lets_the_others_run_on(self, loop: str, virtual: VirtualClock) -> None:
        async def advance() -> None:
            await virtual.asleep(1)
            virtual.advance(2)
            assert virtual.now == 3

        run_async(loop, lambda: together(loop, lambda: virtual.asleep(5), advance))
        assert virtual.now == 5

    def test_a_sync_wait_in_a_task_moves_the_time_for_all(self, loop: str, virtual: VirtualClock) -> None:
        async def block() -> None:
            await virtual.asleep(0.5)
            virtual.sleep(4)

        async def look() -> float:
            await virtual.asleep(1)
            return virtual.now

        assert run_async(loop, lambda: together(loop, look, block)) == [4.5, None]

    def test_a_timer_of_ones_own_falls_due(self, loop: str, virtual: VirtualClock) -> None:
        async def main() -> float:
            event: Any = trio.Event() if loop == "trio" else asyncio.Event()
            virtual.call_later(5, event.set)
            await event.wait()
            return virtual.now

        assert run_async(loop, main) == 5

    def test_timers_that_were_called_off_do_not_move_the_time(self, loop: str, virtual: VirtualClock) -> None:
        async def main() -> None:
            await Retry(attempt_timeout=3600)(Script(took(1, "ok")).asynchronous)()
            go = threading.Event()
            threading.Timer(0.05, go.set).start()  # something outside of the clock that all tasks wait for
            await (trio.to_thread.run_sync(go.wait) if loop == "trio" else asyncio.to_thread(go.wait))

        run_async(loop, main)
        assert virtual.now == 1

    def test_it_may_be_entered_inside_the_loop(self, loop: str) -> None:
        async def main() -> float:
            async with VirtualClock() as inside:
                await POLICY.replace(backoff=perdure.Constant(3600)).call(
                    Script(ConnectionError(), "ok").asynchronous
                )
                return inside.now

        assert run_async(loop, main) == 3600


class TestAsyncio:
    def test_the_loops_own_sleep_and_timeouts_are_on_the_clock(self, virtual: VirtualClock) -> None:
        async def main() -> None:
            await asyncio.sleep(1000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(500):
                    await asyncio.Event().wait()

        asyncio.run(main())
        assert virtual.now == 1500

    def test_a_loop_that_was_made_before_is_on_the_clock_too(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            with VirtualClock() as virtual:
                loop.run_until_complete(asyncio.sleep(1000))
                assert virtual.now == 1000
        finally:
            loop.close()

    def test_a_loop_that_waits_for_a_thread_does_not_jump(self, virtual: VirtualClock) -> None:
        async def main() -> str:
            return await asyncio.to_thread(lambda: "from a thread")

        assert asyncio.run(main()) == "from a thread"
        assert virtual.now == 0

    def test_a_thread_that_waits_for_a_task_does_not_stop_the_time(self, virtual: VirtualClock) -> None:
        go = threading.Event()

        async def let_go() -> None:
            await asyncio.sleep(3)
            go.set()

        async def main() -> bool:
            released, _ = await asyncio.gather(asyncio.to_thread(go.wait, 10), let_go())
            return released

        assert asyncio.run(main()) is True
        assert virtual.now == pytest.approx(3)

    def test_input_that_is_ready_comes_before_a_later_timer(self, virtual: VirtualClock) -> None:
        import socket

        async def main() -> tuple[bytes, float]:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(False)
                theirs.send(b"here")
                async with asyncio.timeout(100):
                    return await asyncio.get_running_loop().sock_recv(ours, 10), virtual.now

        assert asyncio.run(main()) == (b"here", 0)


def test_threads_share_the_time(virtual: VirtualClock) -> None:
    def work(_number: int) -> object:
        return POLICY.replace(backoff=perdure.Constant(10)).call(Script(ConnectionError(), "ok"))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == ["ok"] * 4
    assert virtual.waits == [10] * 4
    assert 10 <= virtual.now <= 40

"""What other libraries of the field get wrong when it matters, one test each."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from perdure import (
    Breaker,
    BreakerOpen,
    Budget,
    Bulkhead,
    Constant,
    Dependency,
    Hedge,
    Refused,
    Retry,
    StopReason,
    bypass,
)
from perdure.testing import Script, VirtualClock, record_events, took
from tests.cases.test_pickle_fork_children import forks, in_child, quiet_forks
from tests.dependency.breaking import (
    OPEN,
    PATIENCE,
    Answered,
    call,
    down,
    during,
    half_open,
    in_flight,
    named,
    refused,
    single,
    state_of,
    trip,
)
from tests.engine.tasks import LOOPS, cancelled_after, forever, together
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MANY = 1000


# -- half-open -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
def test_a_hung_probe_loses_its_place_and_the_breaker_recovers(clock: VirtualClock, colour: str) -> None:
    payments = single(lease=10)
    half_open(payments, clock)

    def hangs() -> str:
        with pytest.raises(BreakerOpen) as error:
            payments.call(str)
        assert error.value.retry_after == pytest.approx(10)
        clock.advance(10)
        assert call("sync", payments, "fine", "fine").value == "fine"
        payments.call(str)
        assert state_of(payments) == "closed"
        clock.advance(1e6)
        return "at last"

    with record_events() as seen:
        assert during(colour, payments, hangs) == "at last"
    assert len(named(seen, "breaker.lease_expired")) == 1
    assert state_of(payments) == "closed"
    assert not in_flight(payments)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_cancelled_probe_is_neutral_and_gives_its_place_back_at_once(
    clock: VirtualClock, loop: str
) -> None:
    payments = single()
    half_open(payments, clock)

    @payments
    async def probe() -> None:
        await forever(loop)

    async def main() -> None:
        await cancelled_after(loop, clock, 1, probe)

    run_async(loop, main)
    assert state_of(payments) == "half_open"
    assert payments.snapshot()["retry_after"] == 0
    assert not in_flight(payments)
    assert [refused("sync", payments) for _ in range(2)] == [False, False]
    assert state_of(payments) == "closed"


@pytest.mark.parametrize("colour", COLOURS)
def test_the_late_result_of_a_call_from_before_the_trip_is_ignored(clock: VirtualClock, colour: str) -> None:
    payments = single()

    def succeeds_late() -> str:
        trip(payments)
        return "late"

    with record_events() as seen:
        assert during(colour, payments, succeeds_late) == "late"
    assert state_of(payments) == "open"
    assert [event.reason for event in named(seen, "breaker.late_result")] == ["success"]


@pytest.mark.parametrize("colour", COLOURS)
def test_a_late_success_is_no_probe_and_a_late_failure_does_not_reopen(
    clock: VirtualClock, colour: str
) -> None:
    payments = single(successes=1)

    def succeeds_late() -> None:
        half_open(payments, clock)

    during(colour, payments, succeeds_late)
    assert state_of(payments) == "half_open"

    def fails_late() -> None:
        payments.call(str)
        assert state_of(payments) == "closed"
        trip(payments)
        clock.advance(2 * OPEN)
        payments.call(str)
        raise down()

    payments.call(str)
    with pytest.raises(ConnectionError):
        during(colour, payments, fails_late)
    assert state_of(payments) == "closed"
    trip(payments)  # of its own three failures: the late one is not among them


def crowd_of_threads(work: Callable[[], object]) -> None:
    """Have a thousand threads do it, all from one moment on."""
    barrier = threading.Barrier(MANY)

    def one() -> None:
        barrier.wait(PATIENCE)
        work()

    before = threading.stack_size(256 * 1024)
    try:
        threads = [threading.Thread(target=one, daemon=True) for _ in range(MANY)]
        for thread in threads:
            thread.start()
    finally:
        threading.stack_size(before)
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("probes", [1, 3])
def test_of_a_thousand_threads_at_half_open_no_more_than_the_probes_pass(
    clock: VirtualClock, probes: int
) -> None:
    payments = single(probes=probes, successes=5)
    half_open(payments, clock)
    lock, all_refused = threading.Lock(), threading.Event()
    inside = most = turned_away = 0

    def probe() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        all_refused.wait(PATIENCE)
        with lock:
            inside -= 1

    def work() -> None:
        nonlocal turned_away
        try:
            payments.call(probe)
        except BreakerOpen:
            with lock:
                turned_away += 1
                if turned_away == MANY - probes:
                    all_refused.set()

    crowd_of_threads(work)
    assert (most, turned_away) == (probes, MANY - probes)
    assert not in_flight(payments)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("probes", [1, 3])
def test_of_a_thousand_tasks_at_half_open_no_more_than_the_probes_pass(
    clock: VirtualClock, loop: str, probes: int
) -> None:
    payments = single(probes=probes, successes=5)
    half_open(payments, clock)
    inside: list[int] = []

    @payments
    async def probe() -> None:
        inside.append(len(inside))
        await clock.asleep(1)

    async def one() -> bool:
        try:
            await probe()
        except BreakerOpen:
            return False
        return True

    async def main() -> list[bool]:
        return await together(loop, *[one] * MANY)

    assert sum(run_async(loop, main)) == probes == len(inside)
    assert not in_flight(payments)


# -- delays that servers ask for -----------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_more_than_the_cap_ends_the_call_instead_of_being_asked_early(
    colour: str, status: int
) -> None:
    error = Answered(status, after=600)
    played = play(colour, Dependency("payments"), error, "fine")
    assert played.error is error
    assert (played.calls, played.waits, played.elapsed) == (1, [], 0)
    ends = named(played.events, "retry.suppressed")
    assert [(end.reason, end.delay) for end in ends] == [(StopReason.HINT.value, 600)]


@pytest.mark.parametrize("loop", LOOPS)
def test_of_a_thousand_callers_with_one_retry_after_none_comes_early_and_they_are_spread(
    clock: VirtualClock, loop: str
) -> None:
    payments = Dependency("payments", retry=Retry(deadline=60), budget=None, gate=None)
    again: list[float] = []

    async def one() -> None:
        called = 0

        @payments
        async def work() -> None:
            nonlocal called
            called += 1
            if called == 1:
                raise Answered(429, after=30)
            again.append(clock.now)

        await work()

    async def main() -> None:
        await together(loop, *[one] * MANY)

    run_async(loop, main)
    assert len(again) == MANY
    assert min(again) >= 30
    assert max(again) <= 40
    assert len(set(again)) > 0.9 * MANY
    for second in range(30, 40):
        share = sum(second <= moment < second + 1 for moment in again) / MANY
        assert 0.05 < share < 0.15, f"{share:.0%} of them in second {second}"


# -- amplification -------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
def test_three_attempts_inside_three_are_three(clock: VirtualClock, colour: str) -> None:
    script = Script(*[down() for _ in range(9)])
    outer, inner = (Dependency(name, retry=Retry(attempts=3)) for name in ("gateway", "payments"))

    def guarded() -> Any:
        return inner.call(script)

    async def guarded_later() -> Any:
        return await inner.call(script.asynchronous)

    with pytest.raises(ConnectionError) as error:
        if colour in {"sync", "block"}:
            during(colour, outer, guarded)
        elif colour in LOOPS:
            run_async(colour, outer(guarded_later))
        else:
            run_async(colour, lambda: in_a_block(outer, guarded_later))
    assert len(script.calls) == 3
    assert "had already given up on it" in error.value.__notes__[-1]


async def in_a_block(dependency: Dependency, work: Callable[[], Awaitable[Any]]) -> Any:
    async for attempt in dependency:
        async with attempt:
            return await work()
    return None


OUTAGE = {
    "defaults": {},
    "shares": {"budget": Budget(max_ratio=0.2)},
    "a breaker": {"breaker": Breaker()},
    "without a gate": {"gate": None},
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parts", OUTAGE)
def test_an_outage_at_a_thousand_calls_per_second_is_amplified_by_a_quarter_at_most(
    clock: VirtualClock, loop: str, parts: str
) -> None:
    payments, sent, seconds = Dependency("payments", **OUTAGE[parts]), 0, 3

    @payments
    async def work() -> None:
        nonlocal sent
        sent += 1
        await clock.asleep(0.01)
        raise down()

    def caller(number: int) -> Callable[[], Awaitable[None]]:
        async def one() -> None:
            await clock.asleep(number / MANY)
            with pytest.raises((ConnectionError, Refused)):
                await work()

        return one

    async def main() -> None:
        await together(loop, *map(caller, range(MANY * seconds)))

    run_async(loop, main)
    assert sent <= 1.25 * MANY * seconds
    if "breaker" not in OUTAGE[parts]:
        assert sent > MANY * seconds, "the first calls are retried"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("budget", "most"), [(Budget(), 3), (Budget(max_ratio=0.2), 0.2 * MANY)])
def test_retries_that_wait_count_in_the_budget(
    clock: VirtualClock, loop: str, budget: Budget, most: float
) -> None:
    """A thousand that fail at once decide before any of their retries goes out (B155)."""
    retry = Retry(attempts=4, backoff=Constant(5))
    payments, times = Dependency("payments", retry=retry, budget=budget, gate=None), []

    @payments
    async def work() -> None:
        times.append(clock.now)
        await clock.asleep(1)
        raise down()

    async def one() -> None:
        with pytest.raises(ConnectionError):
            await work()

    async def main() -> None:
        await together(loop, *[one] * MANY)

    run_async(loop, main)
    assert times.count(0) == MANY
    assert 0 < len(times) - MANY <= most


@pytest.mark.parametrize("loop", LOOPS)
def test_a_retry_that_is_cancelled_while_it_waits_gives_its_token_back(
    clock: VirtualClock, loop: str
) -> None:
    payments = Dependency("payments", retry=Retry(attempts=4, backoff=Constant(5)))
    tokens = payments.snapshot()["budget"]["tokens"]
    script = Script(down())

    async def main() -> None:
        await cancelled_after(loop, clock, 2, payments(script.asynchronous))

    run_async(loop, main)
    assert len(script.calls) == 1
    assert payments.snapshot()["budget"]["tokens"] == tokens
    assert payments.snapshot()["counters"]["retries"] == 0


# -- hedges, keys, bugs --------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_a_primary_that_fails_first_does_not_win_over_a_hedge_that_succeeds(
    clock: VirtualClock, loop: str
) -> None:
    payments = Dependency("payments", hedge=Hedge(delay=1))
    played = call(loop, payments, took(1.5, down()), took(0.53, "good"))
    assert (played.value, played.error, played.calls) == ("good", None, 2)
    assert clock.now == pytest.approx(1.53)


@pytest.mark.parametrize("way", ["at", "key function"])
def test_the_key_of_an_open_breaker_is_never_evicted(clock: VirtualClock, way: str) -> None:
    payments = Dependency(
        "payments", retry=None, gate=None, breaker=Breaker(failures=3), key=lambda host, *_: host
    )

    def work(host: str, error: Exception | None = None) -> str:
        if error is not None:
            raise error
        return host

    def send(*args: Any) -> str:
        return payments.call(work, *args) if way == "key function" else payments.at(args[0]).call(work, *args)

    for _ in range(3):
        with pytest.raises(ConnectionError):
            send("bad.example", down())
    for number in range(1200):
        assert send(f"{number}.example") == f"{number}.example"
    keys = payments.snapshot()["keys"]
    assert len(keys) == 500
    assert keys["bad.example"]["state"] == "open"
    with pytest.raises(BreakerOpen):
        send("bad.example")


def test_when_every_key_is_open_a_new_one_takes_the_state_of_the_dependency(clock: VirtualClock) -> None:
    payments = Dependency("payments", retry=None, gate=None, breaker=Breaker(failures=1))
    for number in range(500):
        payments.at(number).outcome(Script(down()))
    assert payments.at("one more").call(str) == ""
    keys = payments.snapshot()["keys"]
    assert {key["state"] for key in keys.values()} == {"open"}
    assert (len(keys), "one more" in keys) == (500, False)
    assert payments.snapshot()["counters"]["succeeded"] == 1


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("bug", [TypeError, AttributeError, KeyError, NameError, AssertionError])
def test_a_bug_is_not_retried_and_says_nothing_about_the_dependency(colour: str, bug: type) -> None:
    payments = Dependency("payments", breaker=Breaker(failures=1), retry=Retry(attempts=3))
    played = play(colour, payments, bug("ours"), "fine")
    assert type(played.error) is bug
    assert (played.calls, played.waits) == (1, [])
    counters = payments.snapshot()["counters"]
    assert (counters["failed"], counters["neutral"], counters["succeeded"]) == (0, 1, 0)
    assert state_of(payments) == "closed"


# -- the ramp ------------------------------------------------------------------------------------------


class Crowd:
    """A thousand callers at one moment, each of which is admitted for a second or refused."""

    def __init__(self, loop: str, payments: Dependency, clock: VirtualClock) -> None:
        self.loop, self.inside, self.most, self.refused = loop, 0, 0, 0

        @payments
        async def work() -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await clock.asleep(1)
            self.inside -= 1

        self.work = work

    async def one(self) -> None:
        try:
            await self.work()
        except BreakerOpen:
            self.refused += 1

    async def come(self, callers: int) -> tuple[int, int]:
        self.most = self.refused = 0
        await together(self.loop, *[self.one] * callers)
        return self.most, self.refused


@pytest.mark.parametrize("loop", LOOPS)
def test_a_breaker_that_closes_lets_no_herd_through(clock: VirtualClock, loop: str) -> None:
    """From a tenth of the peak to all of it, over the last open time."""
    payments = single(ramp=True, cooldown=20)
    crowd = Crowd(loop, payments, clock)

    async def main() -> None:
        assert await crowd.come(200) == (200, 0)
        for _ in range(3):
            with pytest.raises(ConnectionError):
                payments.call(Script(down()))
        clock.advance(20)
        payments.call(str)
        payments.call(str)
        assert state_of(payments) == "ramping"
        closed = clock.now
        assert await crowd.come(MANY) == (20, MANY - 20)
        clock.advance(closed + 10 - clock.now)
        assert await crowd.come(MANY) == (110, MANY - 110)
        clock.advance(closed + 20 - clock.now)
        assert await crowd.come(MANY) == (MANY, 0)
        assert state_of(payments) == "closed"

    run_async(loop, main)


def test_a_failure_in_the_ramp_opens_the_breaker_for_longer(clock: VirtualClock) -> None:
    payments = single(failures=1, ramp=True, cooldown=20)
    call("sync", payments, down())
    first = payments.snapshot()["retry_after"]
    clock.advance(20)
    payments.call(str)
    payments.call(str)
    assert state_of(payments) == "ramping"
    call("sync", payments, down())
    assert state_of(payments) == "open"
    assert 16 <= first <= 20
    assert 32 <= payments.snapshot()["retry_after"] <= 40


# -- threads and processes -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["fused", "general"])
@pytest.mark.parametrize("parts", ["breaker", "all"])
def test_parallel_calls_are_not_serialised(path: str, parts: str) -> None:
    """Eight threads meet inside the function 25 times; one at a time, none would ever meet another."""
    fields: dict[str, Any] = {"breaker": Breaker(failures=3)}
    if parts == "breaker":
        fields |= {"gate": None, "budget": None}
    payments, meeting = Dependency("payments", **fields), threading.Barrier(8)

    @payments
    def work() -> int:
        return meeting.wait(PATIENCE)

    def caller() -> list[int]:
        return [work() for _ in range(25)]

    if path == "general":
        bypass.hold("test")
    try:
        with ThreadPoolExecutor(8) as pool:
            came = [future.result(PATIENCE) for future in [pool.submit(caller) for _ in range(8)]]
    finally:
        if path == "general":
            bypass.release("test")
    assert sorted(place for each in came for place in each) == sorted(list(range(8)) * 25)
    assert not in_flight(payments)
    if parts == "all":
        assert payments.snapshot()["counters"]["succeeded"] == 200


@forks
@quiet_forks
def test_a_forked_child_begins_with_the_state_of_its_parent_and_leaves_that_alone() -> None:
    payments = single()
    for _ in range(2):
        payments.outcome(Script(down()))

    def work() -> tuple[str, str]:
        before = state_of(payments)
        payments.outcome(Script(down()))
        return before, state_of(payments)

    assert in_child(work) == ("closed", "open")
    assert state_of(payments) == "closed"
    trip(payments, failures=1)
    assert in_child(lambda: state_of(payments)) == "open"


@forks
@quiet_forks
def test_a_child_forked_while_another_thread_holds_every_lock_can_call(threads: ThreadPoolExecutor) -> None:
    payments = Dependency("payments", breaker=Breaker(failures=1), key=lambda key: key)
    payments.call(str, "eu")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        core = payments._guard.core
        with core.lock, core.root.lock, core.part("eu").lock:
            held.set()
            done.wait(PATIENCE)

    future = threads.submit(hold)
    assert held.wait(PATIENCE)
    try:
        assert in_child(lambda: [payments.call(str, "eu"), payments.call(str, "us")]) == ["eu", "us"]
    finally:
        done.set()
    future.result(PATIENCE)


@forks
@quiet_forks
def test_places_that_other_threads_held_are_free_in_a_forked_child(threads: ThreadPoolExecutor) -> None:
    payments = Dependency("payments", bulkhead=Bulkhead(2), breaker=Breaker(failures=1))
    inside, done = threading.Barrier(3), threading.Event()

    def works() -> None:
        inside.wait(PATIENCE)
        done.wait(PATIENCE)

    futures = [threads.submit(payments.call, works) for _ in range(2)]
    inside.wait(PATIENCE)
    try:
        seen = in_child(lambda: (in_flight(payments), payments.call(str), payments.snapshot()["bulkhead"]))
    finally:
        done.set()
    assert [future.result(PATIENCE) for future in futures] == [None, None]
    assert seen == (0, "", {"taken": 0, "waiting": 0, "limit": 2})


@forks
@quiet_forks
@pytest.mark.parametrize("colour", ["sync", "block"])
def test_a_call_in_which_the_process_forks_ends_well_in_both(colour: str) -> None:
    payments = Dependency("payments", bulkhead=Bulkhead(1), breaker=Breaker(failures=1))
    parent, code, children = os.getpid(), 3, []

    def fork() -> None:
        children.append(os.fork())
        if os.getpid() != parent:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)

    try:
        during(colour, payments, fork)
        if not in_flight(payments) and payments.call(str) == "":
            code = 0
    finally:
        if os.getpid() != parent:
            os._exit(code)
    _, status = os.waitpid(children[0], 0)
    assert (status, code) == (0, 0)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_dependency_holds_nothing_of_a_loop_that_has_ended(clock: VirtualClock, loop: str) -> None:
    payments = Dependency("payments", bulkhead=Bulkhead(1, queue=5), breaker=Breaker())
    for _ in range(3):
        assert call(loop, payments, took(1, "fine")).value == "fine"
        assert asyncio.run(payments.call(Script("fine").asynchronous)) == "fine"
    assert not in_flight(payments)

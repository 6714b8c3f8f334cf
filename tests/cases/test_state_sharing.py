"""Policies are values and calls are their own: nothing is shared between calls, tasks and threads; B118-B122."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Constant, Exponential, Retry
from perdure.testing import Script, VirtualClock, disabled, no_waits, record_events
from tests.harness import COLOURS, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLICY = Retry(attempts=3, backoff=Constant(0))
WAITING = Retry(attempts=4, backoff=Exponential(base=1, cap=8), deadline=None)


@pytest.fixture
def _switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run the work in threads that begin together."""
    together = Barrier(count)

    def begin(number: int) -> Any:
        together.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


class Counted:
    """A function of failures to come: fails so often, then answers; it counts nothing but by argument."""

    @staticmethod
    @POLICY
    def work(failures: list[int]) -> int:
        if failures:
            raise ConnectionRefusedError(str(failures.pop()))
        return 7


@pytest.mark.usefixtures("_switching")
def test_eight_threads_make_ten_thousand_calls_each_through_one_function() -> None:
    """B118: every call gets its own attempts, its own record, and leaves nothing on the wrapper."""

    def work(number: int) -> tuple[int, int]:
        draw = random.Random(number)
        good = bad = 0
        for call in range(10_000):
            failing = draw.choice((0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3))
            failures = list(range(call + failing, call, -1))
            try:
                assert Counted.work(failures) == 7
                assert failures == []
                good += 1
            except ConnectionRefusedError as error:
                assert failing == 3
                records = perdure.attempts_of(error)
                assert [record.number for record in records] == [1, 2, 3]
                assert [record.error for record in records] == [
                    f"ConnectionRefusedError: {call + at}" for at in (1, 2, 3)
                ]
                bad += 1
        return good, bad

    before = dict(vars(Counted.work))
    for good, bad in in_threads(8, work):
        assert good + bad == 10_000
        assert bad > 0
    assert vars(Counted.work) == before


@pytest.mark.usefixtures("_switching")
def test_threads_that_meet_a_new_function_all_get_their_attempts() -> None:
    """B118: while its wrapper settles into its final form."""
    for _ in range(50):

        @POLICY
        def work(failures: list[int]) -> int:
            if failures:
                raise ConnectionRefusedError(str(failures.pop()))
            return 7

        def calls(_number: int, work: Callable[[list[int]], int] = work) -> list[int]:
            return [work([1] * (call % 3)) for call in range(40)]

        assert in_threads(4, calls) == [[7] * 40] * 4


def test_a_call_within_a_call_of_the_same_function_is_a_call_of_its_own() -> None:
    """B118: reentrant; the statistics of tenacity were cleared by the inner one."""
    seen: list[tuple[int, int]] = []
    failures = {3: 1, 2: 2, 1: 0}

    @POLICY
    def countdown(number: int) -> str:
        current = perdure.current()
        assert current is not None
        seen.append((number, current.attempt))
        if failures.get(number):
            failures[number] -= 1
            raise ConnectionRefusedError("no")
        return "go" if number == 1 else countdown(number - 1)

    with no_waits():
        assert countdown(3) == "go"
    assert seen == [(3, 1), (3, 2), (2, 1), (2, 2), (2, 3), (1, 1)]


@pytest.mark.parametrize("colour", COLOURS)
def test_the_record_of_a_call_is_there_while_it_runs_and_belongs_to_it(colour: str) -> None:
    """B118: it was empty while running, and lost through outer wraps."""
    seen: list[int] = []

    def note() -> None:
        current = perdure.current()
        assert current is not None
        seen.append(current.attempt)
        if len(seen) < 3:
            raise ConnectionRefusedError("no")

    async def note_later() -> None:
        note()

    async def main() -> None:
        if colour.endswith("block"):
            async for attempt in POLICY:
                with attempt:
                    assert attempt.number == len(seen) + 1
                    note()
        else:
            await POLICY(note_later)()

    if colour == "sync":
        POLICY(note)()
    elif colour == "block":
        for attempt in POLICY:
            with attempt:
                note()
    else:
        run_async(colour, main)
    assert seen == [1, 2, 3]


async def three_attempts(policy: Retry, name: str, log: list[tuple[str, int]]) -> str:
    async for attempt in policy:
        with attempt:
            log.append((name, attempt.number))
            if attempt.number < 3:
                raise ConnectionRefusedError(name)
            return name
    raise AssertionError("made no attempts")


def test_tasks_that_iterate_one_policy_count_their_own_attempts() -> None:
    """B119: attempt numbers were shared, loops ended early or made no attempt."""
    log: list[tuple[str, int]] = []

    async def main() -> list[str]:
        async with VirtualClock():
            return await asyncio.gather(*(three_attempts(WAITING, str(task), log) for task in range(10)))

    assert asyncio.run(main()) == [str(task) for task in range(10)]
    assert sorted(log) == sorted((str(task), number) for task in range(10) for number in (1, 2, 3))


def test_trio_tasks_that_iterate_one_policy_count_their_own_attempts() -> None:
    """B119."""
    log: list[tuple[str, int]] = []

    async def main() -> None:
        async with VirtualClock(), trio.open_nursery() as nursery:
            for task in range(10):
                nursery.start_soon(three_attempts, WAITING, str(task), log)

    trio.run(main)
    assert sorted(log) == sorted((str(task), number) for task in range(10) for number in (1, 2, 3))


def test_threads_that_iterate_one_policy_count_their_own_attempts() -> None:
    """B119."""

    def work(number: int) -> list[int]:
        numbers = []
        for attempt in POLICY:
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 1 + number % 3:
                    raise ConnectionRefusedError("no")
        return numbers

    assert in_threads(8, work) == [list(range(1, 2 + number % 3)) for number in range(8)]


def test_loops_over_one_policy_nest_and_follow_each_other() -> None:
    """B119: each iter() is a fresh run, also in the body of another one."""
    numbers = []
    for outer in POLICY:
        with outer:
            for inner in POLICY:
                with inner:
                    numbers.append((outer.number, inner.number))
                    if inner.number < 2:
                        raise ConnectionRefusedError("inner")
            if outer.number < 2:
                raise ConnectionRefusedError("outer")
    assert numbers == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [
        attempt.number for attempt in POLICY if attempt.__enter__() and not attempt.__exit__(None, None, None)
    ] == [1]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_thousand_tasks_call_through_one_policy(loop: str) -> None:
    """B119: with waits of all lengths between; every task its own number of attempts."""
    calls = [0] * 1000

    async def work(task: int) -> int:
        calls[task] += 1
        if calls[task] <= task % 5:
            raise ConnectionRefusedError(str(task))
        return task

    results: dict[int, perdure.Outcome[Any]] = {}

    async def one(task: int) -> None:
        results[task] = await WAITING.outcome(work, task)

    async def main() -> None:
        async with VirtualClock():
            if loop == "asyncio":
                await asyncio.gather(*(one(task) for task in range(1000)))
            else:
                async with trio.open_nursery() as nursery:
                    for task in range(1000):
                        nursery.start_soon(one, task)

    run_async(loop, main)
    assert calls == [min(4, task % 5 + 1) for task in range(1000)]
    assert all(results[task].ok is (task % 5 < 4) for task in range(1000))
    assert all(results[task].attempts == calls[task] for task in range(1000))
    assert len({result.call_id for result in results.values()}) == 1000


Scripts = st.lists(st.lists(st.booleans(), max_size=6), min_size=1, max_size=5)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(plans=Scripts, seed=st.integers(0, 99))
def test_calls_that_run_together_end_as_they_would_alone(
    loop: str, plans: list[list[bool]], seed: int
) -> None:
    """B118, B119, B122: any number of calls, failing in any pattern, interleaved by their random waits."""

    async def one(plan: list[bool]) -> tuple[int, bool]:
        left = iter(plan)
        made = 0

        async def work() -> None:
            nonlocal made
            made += 1
            if next(left, False):
                raise ConnectionRefusedError("no")

        outcome = await WAITING.outcome(work)
        assert outcome.attempts == made
        return made, outcome.ok

    together: dict[int, tuple[int, bool]] = {}

    async def put(at: int, plan: list[bool]) -> None:
        together[at] = await one(plan)

    async def main() -> None:
        async with VirtualClock(seed=seed):
            if loop == "asyncio":
                await asyncio.gather(*(put(at, plan) for at, plan in enumerate(plans)))
            else:
                async with trio.open_nursery() as nursery:
                    for at, plan in enumerate(plans):
                        nursery.start_soon(put, at, plan)

    run_async(loop, main)
    for at, plan in enumerate(plans):
        good = next((number for number, fails in enumerate([*plan, False], start=1) if not fails), 0)
        assert together[at] == ((good, True) if good <= 4 else (4, False))


def refuse() -> None:
    raise ConnectionRefusedError("no")


async def refuse_later() -> None:
    refuse()


def test_a_test_mode_of_one_task_does_not_reach_another() -> None:
    """B121."""

    async def single(turn: asyncio.Event, other: asyncio.Event) -> int:
        with disabled():
            other.set()
            await turn.wait()
            return (await POLICY.outcome(refuse_later)).attempts

    async def full(turn: asyncio.Event, other: asyncio.Event) -> int:
        await turn.wait()
        made = (await POLICY.outcome(refuse_later)).attempts
        other.set()
        return made

    async def main() -> list[int]:
        first, second = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(single(first, second), full(second, first))

    assert asyncio.run(main()) == [1, 3]


def test_a_test_mode_of_one_thread_does_not_reach_another() -> None:
    """B121."""

    def work(number: int) -> int:
        if number % 2:
            with disabled():
                return POLICY.outcome(refuse).attempts
        return POLICY.outcome(refuse).attempts

    with disabled():
        assert in_threads(6, work) == [3, 1] * 3
        assert POLICY.outcome(refuse).attempts == 1


def test_a_test_mode_goes_with_the_context_into_what_is_started_there() -> None:
    """B121: the other half; to_thread and tasks take the context along."""

    async def main() -> list[int]:
        with disabled():
            task = asyncio.create_task(POLICY.outcome(refuse_later))  # type: ignore[arg-type] # a coroutine
            threaded = await asyncio.to_thread(POLICY.outcome, refuse)
        return [(await task).attempts, threaded.attempts, (await POLICY.outcome(refuse_later)).attempts]

    assert asyncio.run(main()) == [1, 1, 3]


def general(policy: Retry, script: Script) -> None:
    with record_events():
        policy(script)()


def in_block(policy: Retry, script: Script) -> None:
    for attempt in policy:
        with attempt:
            script()


PATHS: dict[str, Callable[[Retry, Script], Any]] = {
    "fused": lambda policy, script: policy(script)(),
    "general": general,
    "call": lambda policy, script: policy.call(script),
    "outcome": lambda policy, script: policy.outcome(script).unwrap(),
    "block": in_block,
    "generator": lambda policy, script: list(policy(lambda: (yield script()))()),
    "async": lambda policy, script: asyncio.run(policy(script.asynchronous)()),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_way_to_call_sees_the_test_mode(path: str) -> None:
    """B121: the fast path forgot the context variable."""

    def scenario() -> list[float]:
        script = Script(*[ConnectionRefusedError("no")] * 3)
        with no_waits() as waits, pytest.raises(ConnectionRefusedError):
            PATHS[path](POLICY.replace(backoff=Constant(50), deadline=None), script)
        return waits

    assert copy_context().run(scenario) == [50, 50]


@pytest.mark.parametrize("path", ["fused", "general"])
def test_each_of_many_failing_calls_in_turn_gets_all_its_attempts(path: str) -> None:
    """B122: a counter on the shared client gave later requests fewer retries."""

    class Client:
        def __init__(self) -> None:
            self.calls = 0

        @POLICY
        def get(self) -> None:
            self.calls += 1
            raise ConnectionRefusedError(str(self.calls))

        @POLICY
        async def aget(self) -> None:
            self.get.__wrapped__(self)  # type: ignore[attr-defined] # the function itself

    client = Client()
    with no_waits() if path == "fused" else VirtualClock():
        for number in range(1, 6):
            with pytest.raises(ConnectionRefusedError):
                client.get()
            assert client.calls == 3 * number

        async def main() -> None:
            for number in range(6, 11):
                with pytest.raises(ConnectionRefusedError):
                    await client.aget()
                assert client.calls == 3 * number

        asyncio.run(main())


@given(st.lists(st.integers(0, 5), max_size=12))
def test_a_call_never_depends_on_the_calls_before_it(plan: list[int]) -> None:
    """B122: any sequence of failures through one function, and through one policy."""
    decorated = POLICY(lambda script: script())
    for failures in plan:
        for call in (decorated, POLICY.call):
            script = Script(*[ConnectionRefusedError("no")] * failures, "ok")
            try:
                assert call(script) == "ok"
                assert failures < 3
            except ConnectionRefusedError:
                assert failures >= 3
            assert len(script.calls) == min(3, failures + 1)


def test_policies_are_frozen_through_and_through() -> None:
    """B119."""
    for field in dataclasses.fields(POLICY):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(POLICY, field.name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(POLICY, field.name)
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        POLICY.statistics = {}  # type: ignore[attr-defined] # no such thing
    with pytest.raises(dataclasses.FrozenInstanceError):
        POLICY.backoff.seconds = 1  # type: ignore[attr-defined] # frozen as well
    assert POLICY.replace() == POLICY
    assert hash(POLICY) == hash(POLICY.replace())
    assert POLICY.replace(attempts=9).attempts == 9
    assert POLICY.attempts == 3


def test_using_a_policy_in_every_way_leaves_it_equal_to_its_copy() -> None:
    """B119."""
    policy = Retry(attempts=2, backoff=Constant(0), attempt_timeout=1, nested="outer", reject=bool)
    copy, shown = policy.replace(), repr(policy)
    with no_waits():
        policy.outcome(refuse)
        policy(lambda: None)()
        asyncio.run(policy.outcome(refuse_later))  # type: ignore[arg-type] # a coroutine
        for attempt in policy:
            with attempt:
                pass
        policy.explain()
        policy.delays()
    assert (policy, repr(policy), hash(policy)) == (copy, shown, hash(copy))

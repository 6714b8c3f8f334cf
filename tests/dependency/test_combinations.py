"""Any parts together: no call hangs or leaks a place, and what is told agrees with what came out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from perdure import Outcome
from perdure.testing import VirtualClock, record_events
from tests.dependency.combinations import Caller, Step, Work, callers, parts, scripts
from tests.dependency.made import assert_at_rest, made, until
from tests.engine.model import Leave
from tests.engine.tasks import together
from tests.harness import COLOURS, run_async

if TYPE_CHECKING:
    from perdure import Dependency, Event

LONGEST = 400.0  # seconds in which all such traffic must be over


@dataclass
class Traffic:
    """What became of the calls of one run."""

    outcomes: list[Outcome[Any]] = field(default_factory=list)
    passed: list[BaseException] = field(default_factory=list)
    ended: int = 0

    def note(self, dependency: Dependency, call: Any) -> Any:
        """Make one call of a block or function in sync code."""
        try:
            got = call()
        except Leave as error:
            self.passed.append(error)
        except Exception as error:  # noqa: BLE001 - of a block
            self.passed.append(error)
        else:
            if isinstance(got, Outcome):
                self.outcomes.append(got)
        finally:
            self.ended += 1


def sync_call(colour: str, dependency: Dependency, work: Work, caller: int) -> Any:
    if colour == "sync":
        return dependency.outcome(work, caller)
    value = None
    for attempt in dependency:
        with attempt:
            value = attempt.result(work(caller))
    return value


async def async_call(colour: str, dependency: Dependency, work: Work, caller: int) -> Any:
    if not colour.endswith("block"):
        return await dependency.outcome(work.later, caller)
    value = None
    async for attempt in dependency:
        with attempt:
            value = attempt.result(await work.later(caller))
    return value


async def caller_in_task(loop: str, clock: VirtualClock, traffic: Traffic, call: Any, when: Caller) -> None:
    """Call at a moment, and be cancelled at another."""
    await clock.asleep(when.at)

    async def work() -> None:
        try:
            got = await call()
        except (Leave, Exception) as error:  # noqa: BLE001 - of a block
            traffic.passed.append(error)
        else:
            if isinstance(got, Outcome):
                traffic.outcomes.append(got)
        finally:
            traffic.ended += 1

    if when.leaves is None:
        await work()
    elif loop.startswith("trio"):
        import trio

        async with trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            timer = clock.call_later(when.leaves, scope.cancel)
            await work()
            timer.cancel()
            scope.cancel()
    else:
        task = asyncio.ensure_future(work())
        handle = asyncio.get_running_loop().call_later(when.leaves, task.cancel)
        await asyncio.wait([task])
        handle.cancel()


def play_traffic(
    colour: str, dependency: Dependency, work: Work, who: list[Caller], clock: VirtualClock
) -> Traffic:
    """Make all calls, in threads one after the other and in tasks side by side."""
    traffic = Traffic()
    if colour in {"sync", "block"}:
        for number, when in enumerate(who):
            clock.advance(when.at)
            traffic.note(dependency, partial(sync_call, colour, dependency, work, number))
        return traffic
    works = [
        partial(
            caller_in_task,
            colour,
            clock,
            traffic,
            partial(async_call, colour, dependency, work, number),
            when,
        )
        for number, when in enumerate(who)
    ]
    run_async(colour, lambda: together(colour, *works))
    return traffic


@pytest.mark.parametrize("colour", COLOURS)
@given(given_parts=parts(), steps=scripts, who=callers)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_no_combination_hangs_or_leaks_and_what_is_told_is_what_happened(
    colour: str, given_parts: dict[str, Any], steps: list[Step], who: list[Caller]
) -> None:
    exhausted: list[Outcome[Any]] = []
    with VirtualClock() as clock:
        dependency = made(**given_parts, on_exhausted=exhausted.append)
        work = Work(steps)
        with record_events() as seen:
            traffic = play_traffic(colour, dependency, work, who, clock)
            until(lambda: work.inside == 0)
            until(lambda: not dependency._guard.core.root.flight)  # copies in threads that lost
        assert traffic.ended == len(who)
        assert clock.now < LONGEST
        assert_at_rest(dependency)
        assert_bounds(colour, dependency, given_parts, work, traffic)
        assert_told(dependency, seen, traffic, exhausted)


def assert_bounds(
    colour: str, dependency: Dependency, given_parts: dict[str, Any], work: Work, traffic: Traffic
) -> None:
    """No more attempts than the policy allows, no more at once than the bulkhead and the gate do."""
    attempts = 1 if given_parts["retry"] is None else given_parts["retry"].attempts
    hedge = given_parts["hedge"]
    copies = 1 if hedge is None or colour.endswith("block") else 1 + hedge.max_hedges
    for caller in set(work.calls):
        assert work.calls.count(caller) <= attempts * copies
    for outcome in traffic.outcomes:
        assert outcome.attempts <= attempts
    if given_parts["bulkhead"] is not None:
        assert work.most <= given_parts["bulkhead"].limit
    if given_parts["gate"] is not None and given_parts["gate"].throttle_k is None:
        assert work.most <= given_parts["gate"].ceiling
    budget = dependency.snapshot()["budget"]
    if budget is not None and "tokens" in budget:
        assert 0 <= budget["tokens"] <= budget["cap"]


def assert_told(
    dependency: Dependency, seen: list[Event], traffic: Traffic, exhausted: list[Outcome[Any]]
) -> None:
    """Value, error and stop reason of each call agree with its events, and the counters with all of them."""
    calls: dict[str | None, list[Event]] = {}
    for event in seen:
        calls.setdefault(event.call_id, []).append(event)
    for outcome in traffic.outcomes:
        events = calls[outcome.call_id]
        names = [event.name for event in events]
        assert names[0] == "call.start"
        assert names.count("call.end") == 1
        assert names.count("attempt.start") == outcome.attempts
        assert names.count("attempt.end") == outcome.attempts
        unsent = names.count("retry.scheduled") - max(0, outcome.attempts - 1)
        assert unsent in {0, 1}
        assert outcome.ok is (outcome.error is None)
        assert outcome.ok is (outcome.stop == "success" or "fallback.used" in names)
        (end,) = [event for event in events if event.name == "call.end"]
        if "deadline.exceeded" in names:
            assert outcome.stop == "deadline"
        else:
            assert end.reason == outcome.stop
    starts = [event for event in seen if event.name == "attempt.start"]
    counters = dependency.snapshot()["counters"]
    assert counters["retries"] == sum((event.attempt or 0) > 1 for event in starts)
    assert counters["hedges"] == sum(event.name == "hedge.launched" for event in seen)
    assert counters["fallbacks"] == sum(event.name == "fallback.used" for event in seen)
    assert len({one.call_id for one in exhausted}) == len(exhausted), "once for each call at most"
    assert all(not one.ok for one in exhausted)

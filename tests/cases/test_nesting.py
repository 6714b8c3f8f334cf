"""Nested guarded calls do not multiply: three attempts inside three are three; B157."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import perdure
from perdure import Constant, Exponential, Retry, StopReason
from perdure.testing import Script, VirtualClock, no_waits, record_events
from tests.cases.layers import (
    ASYNC_LAYERS,
    LAYERS,
    THREE,
    Bottom,
    Down,
    async_raised_again,
    async_unguarded,
    awaited,
    block,
    bridged,
    decorated,
    raised_again,
    unguarded,
)
from tests.harness import COLOURS, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(params=["fused", "general"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways through the engine; the one with events takes the general path."""
    with no_waits() if request.param == "fused" else record_events():
        yield request.param


@pytest.mark.parametrize("inner", LAYERS)
@pytest.mark.parametrize("outer", LAYERS)
@pytest.mark.usefixtures("path")
def test_three_attempts_in_three_are_three_in_sync_code(outer: str, inner: str) -> None:
    """B157: every way to make a call, inside every other."""
    bottom = Bottom()
    with pytest.raises((ConnectionRefusedError, ExceptionGroup)):
        LAYERS[outer](THREE, LAYERS[inner](THREE, bottom))()
    assert bottom.calls == 3


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("inner", ASYNC_LAYERS)
@pytest.mark.parametrize("outer", ASYNC_LAYERS)
def test_three_attempts_in_three_are_three_in_async_code(outer: str, inner: str, loop: str) -> None:
    """B157: gather, task groups and their ExceptionGroups, streams and blocks."""
    bottom = Bottom()
    with no_waits(), pytest.raises((ConnectionRefusedError, ExceptionGroup)):
        run_async(loop, lambda: awaited(ASYNC_LAYERS[outer](THREE, ASYNC_LAYERS[inner](THREE, bottom.later))))
    assert bottom.calls == 3


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("bridge", ["direct", "thread"])
@pytest.mark.parametrize("inner", LAYERS)
@pytest.mark.parametrize("outer", ["decorated", "block", "generator", "group", "timed"])
def test_three_attempts_in_three_are_three_from_async_to_sync(
    outer: str, inner: str, bridge: str, loop: str
) -> None:
    """B157: a sync client in an async function, there or in a thread."""
    bottom = Bottom()
    with no_waits(), pytest.raises((ConnectionRefusedError, ExceptionGroup)):
        run_async(
            loop, lambda: awaited(ASYNC_LAYERS[outer](THREE, bridged(LAYERS[inner](THREE, bottom), bridge)))
        )
    assert bottom.calls == 3


@pytest.mark.parametrize("inner", ["decorated", "block", "generator", "lambda"])
@pytest.mark.parametrize("outer", LAYERS)
def test_three_attempts_in_three_are_three_from_sync_to_async(outer: str, inner: str) -> None:
    """B157: asyncio.run inside a guarded function."""
    bottom = Bottom()
    run = ASYNC_LAYERS[inner](THREE, bottom.later)
    with no_waits(), pytest.raises((ConnectionRefusedError, ExceptionGroup)):
        LAYERS[outer](THREE, lambda: asyncio.run(awaited(run)))()
    assert bottom.calls == 3


def test_three_layers_make_three_calls_and_name_the_innermost() -> None:
    """B157: a layer that stops for this reason keeps the innermost mark, and says so in note and event."""
    bottom = Bottom()
    layer: Callable[[], Any] = bottom
    for name in ("inner", "middle", "outer"):
        layer = decorated(THREE.replace(name=name), layer)
    with record_events() as events, pytest.raises(Down) as caught:
        layer()
    assert bottom.calls == 3
    assert str(caught.value) == "3"
    suppressed = [(event.operation, event.reason) for event in events if event.name == "retry.suppressed"]
    assert suppressed == [("inner", "attempts"), ("middle", "nested"), ("outer", "nested")]
    inner_id = next(event.call_id for event in events if event.operation == "inner")
    notes = caught.value.__notes__
    assert len(notes) == 3
    for note, name in zip(notes[1:], ("middle", "outer"), strict=True):
        assert f"not retried by {name}" in note
        assert "inner" in note
        assert str(inner_id) in note
    assert [record.number for record in perdure.attempts_of(caught.value)] == [1, 2, 3]


Plan = list[tuple[str, str, int, str]]


def calls_of(plan: Plan) -> tuple[int, bool]:
    """The rule: calls at the bottom, and whether what comes out was retried enough."""
    calls, marked = 1, False
    for _, kind, attempts, nested in reversed(plan):
        if kind not in {"unguarded", "raised again"} and (not marked or nested == "both"):
            calls, marked = calls * attempts, marked or attempts > 1
    return calls, marked


EVERY_LAYER: dict[str, dict[str, Any]] = {
    "sync": LAYERS | {"unguarded": unguarded, "raised again": raised_again},
    "async": ASYNC_LAYERS | {"unguarded": async_unguarded, "raised again": async_raised_again},
}


def plans(colour: str, most: int) -> st.SearchStrategy[Plan]:
    layer = st.tuples(
        st.just(colour),
        st.sampled_from(sorted(EVERY_LAYER[colour])),
        st.integers(1, 3),
        st.sampled_from(["inner", "both"]),
    )
    return st.lists(layer, max_size=most)


def built(plan: Plan, call: Callable[[], Any]) -> Callable[[], Any]:
    for colour, kind, attempts, nested in reversed(plan):
        call = EVERY_LAYER[colour][kind](THREE.replace(attempts=attempts, nested=nested), call)
    return call


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@given(
    above=plans("async", 3),
    below=plans("sync", 4),
    bridge=st.sampled_from(["direct", "thread"]),
    listening=st.booleans(),
)
@example(
    above=[],
    below=[("sync", "block", 2, "inner"), ("sync", "block", 1, "both"), ("sync", "block", 2, "inner")],
    bridge="direct",
    listening=False,
)
@example(
    above=[],
    below=[("sync", "block", 2, "inner"), ("sync", "thread", 1, "inner"), ("sync", "block", 2, "inner")],
    bridge="direct",
    listening=False,
)
def test_any_stack_of_layers_makes_as_many_calls_as_the_rule_says(
    loop: str,
    above: Plan,
    below: Plan,
    bridge: str,
    listening: bool,
) -> None:
    """B157: up to seven layers of any kind, attempts and nesting, async above sync, translations between."""
    bottom = Bottom()
    work = built(above, bridged(built(below, bottom), bridge))
    expected = (ConnectionRefusedError, ExceptionGroup)
    with record_events() if listening else no_waits(), pytest.raises(expected):
        run_async(loop, lambda: awaited(work))
    assert bottom.calls == calls_of([*above, *below])[0]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("first", [StopReason.DEADLINE, StopReason.HINT])
def test_an_inner_call_that_stopped_for_time_is_not_repeated_either(first: StopReason, colour: str) -> None:
    """B157: marked by attempts, deadline, budget or hint."""
    bottom = Bottom()
    inner = Retry(deadline=1, backoff=Constant(5)) if first is StopReason.DEADLINE else Retry(hint_cap=1)

    def hinted() -> None:
        try:
            bottom()
        except Down as error:
            raise perdure.transient(error, after=5.0)  # noqa: B904 - the same error

    work = decorated(inner, hinted if first is StopReason.HINT else bottom)
    if colour == "sync":
        call: Callable[[], Any] = decorated(THREE, work)
    elif colour == "block":
        call = block(THREE, work)
    else:
        layers = ASYNC_LAYERS["block" if colour.endswith("block") else "decorated"]
        call = lambda: run_async(colour, lambda: awaited(layers(THREE, bridged(work, "direct"))))  # noqa: E731
    with pytest.raises(Down):
        call()
    assert bottom.calls == 1


@pytest.mark.parametrize("kind", ["permanent", "single", "unsafe"])
def test_an_inner_call_that_was_not_retried_leaves_the_outer_its_attempts(kind: str) -> None:
    """B157: the mark says "retried enough", not "was guarded"."""
    bottom = Bottom()
    inner = {
        "permanent": Retry(never=Down),
        "single": Retry(attempts=1),
        "unsafe": Retry(on=KeyError),
    }[kind]
    with no_waits(), pytest.raises(Down):
        decorated(THREE.replace(on=Down), decorated(inner, bottom))()
    assert bottom.calls == 3


@pytest.mark.parametrize("inner_kind", ["decorated", "block", "call"])
@pytest.mark.parametrize("outer_kind", ["decorated", "block", "call"])
def test_results_that_stay_rejected_do_not_multiply_either(outer_kind: str, inner_kind: str) -> None:
    """B157: an inner call that polls in vain has polled enough for those around it."""
    calls: list[int] = []

    def poll() -> str:
        calls.append(1)
        return "queued"

    inner = THREE.replace(reject=lambda value: value == "queued")
    work: Callable[[], Any] = (
        polled(inner, poll) if inner_kind == "block" else LAYERS[inner_kind](inner, poll)
    )
    with no_waits(), pytest.raises(perdure.ResultRejected):
        LAYERS[outer_kind](THREE, work)()
    assert len(calls) == 3


def polled(policy: Retry, poll: Callable[[], str]) -> Callable[[], str | None]:
    def layer() -> str | None:
        for attempt in policy:
            with attempt:
                return attempt.result(poll())
        return None

    return layer


@pytest.mark.parametrize("kind", LAYERS)
def test_both_multiplies_where_it_was_asked_for(kind: str) -> None:
    """B157."""
    bottom = Bottom()
    with no_waits(), pytest.raises((ConnectionRefusedError, ExceptionGroup)):
        LAYERS[kind](THREE.replace(nested="both"), LAYERS[kind](THREE, bottom))()
    assert bottom.calls == 9


@pytest.mark.parametrize("inner", LAYERS)
@pytest.mark.parametrize("outer", [name for name in LAYERS if name != "thread"])
@pytest.mark.usefixtures("path")
def test_outer_makes_single_attempts_of_what_is_inside(outer: str, inner: str) -> None:
    """B157: three calls, each by a new attempt of the outer layer."""
    if inner == "thread":
        inner = "decorated"
    bottom = Bottom()
    with pytest.raises((ConnectionRefusedError, ExceptionGroup)) as caught:
        LAYERS[outer](THREE.replace(nested="outer", name="outer"), LAYERS[inner](THREE, bottom))()
    assert bottom.calls == 3
    assert "gave up after 3 attempts" in "".join(caught.value.__notes__)
    with pytest.raises(Down):
        decorated(THREE, Bottom())()
    assert THREE.outcome(Bottom()).attempts == 3


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("inner", ASYNC_LAYERS)
@pytest.mark.parametrize("outer", ASYNC_LAYERS)
def test_outer_makes_single_attempts_of_what_is_inside_in_async_code(
    outer: str, inner: str, loop: str
) -> None:
    """B157: tasks that an attempt starts take its context along."""
    bottom = Bottom()

    async def main() -> None:
        with pytest.raises((ConnectionRefusedError, ExceptionGroup)):
            await ASYNC_LAYERS[outer](
                THREE.replace(nested="outer"), ASYNC_LAYERS[inner](THREE, bottom.later)
            )()
        assert bottom.calls == 3
        assert (await THREE.outcome(bottom.later)).attempts == 3

    with no_waits():
        run_async(loop, main)


def test_an_inner_both_keeps_its_attempts_inside_an_outer() -> None:
    """B157: the inner layer's word is the last one."""
    bottom = Bottom()
    with no_waits(), pytest.raises(Down):
        decorated(THREE.replace(nested="outer"), decorated(THREE.replace(nested="both"), bottom))()
    assert bottom.calls == 3


def test_an_inner_failure_that_the_function_handled_leaves_its_own_failures_alone() -> None:
    """B157: a fallback inside: what it raises afterwards is another failure, and is retried."""
    primary = Bottom()
    calls: list[int] = []

    def work() -> str:
        outcome = THREE.outcome(primary)
        assert not outcome.ok
        calls.append(1)
        if len(calls) < 3:
            raise Down("of the fallback")
        return "fallback"

    with no_waits():
        assert THREE.call(work) == "fallback"
    assert (len(calls), primary.calls) == (3, 9)


def test_siblings_inside_one_call_are_not_nested_in_each_other() -> None:
    """B157: two guarded calls one after the other in a guarded function; the first recovers, the second too."""
    first, second = Script(Down("1"), "a"), Script(Down("2"), Down("3"), "b")
    with no_waits():
        assert THREE(lambda: THREE.call(first) + THREE.call(second))() == "ab"
    assert (len(first.calls), len(second.calls)) == (2, 3)


def test_an_attempt_timeout_of_the_outer_cuts_the_inner_and_is_retried() -> None:
    """B157: the inner did not give up, it was cut; so the outer's own attempts count."""
    begun: list[float] = []

    async def main() -> None:
        async with VirtualClock() as clock:

            async def slow() -> None:
                begun.append(clock.now)
                await clock.asleep(100)

            inner = Retry(attempts=3, backoff=Constant(1))(slow)
            with pytest.raises(perdure.AttemptTimeout):
                await Retry(attempts=3, attempt_timeout=5, backoff=Constant(2), deadline=None)(inner)()

    asyncio.run(main())
    assert begun == [0, 7, 14]


def test_the_waits_of_nested_layers_are_those_of_the_innermost() -> None:
    """B157: in time as well: the outer backoff of a minute is never waited."""
    bottom = Bottom()
    with VirtualClock() as clock, pytest.raises(Down):
        decorated(
            THREE.replace(backoff=Constant(60), deadline=None),
            decorated(THREE.replace(backoff=Exponential(base=1, cap=9, jitter="none")), bottom),
        )()
    assert (clock.now, bottom.calls) == (3, 3)

"""Nested guarded calls do not multiply: three attempts inside three are three; B157."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, Mock

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Constant, Exponential, Retry, StopReason
from perdure.testing import Script, VirtualClock, no_waits, record_events
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Layer = Callable[[Retry, Callable[[], Any]], Callable[[], Any]]
    AsyncLayer = Callable[[Retry, Callable[[], Awaitable[Any]]], Callable[[], Awaitable[Any]]]

THREE = Retry(attempts=3, backoff=Constant(0))


class Down(ConnectionRefusedError):
    """The failure at the bottom."""


class Translated(ConnectionRefusedError):
    """What a layer makes of it."""


class Bottom:
    """The innermost function: fails always, with a new error each time, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        raise Down(str(self.calls))

    async def later(self) -> Any:
        self()


def decorated(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        return inner()

    return layer


def called(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: policy.call(lambda: inner())


def told(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: policy.outcome(inner).unwrap()


def block(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    def layer() -> Any:
        for attempt in policy:
            with attempt:
                return inner()
        return None

    return layer


def streamed(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def items() -> Iterator[Any]:
        yield inner()

    return lambda: list(items())


def translated(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        try:
            return inner()
        except ConnectionRefusedError as error:
            raise Translated("wrapped") from error

    return layer


def grouped(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        try:
            return inner()
        except ConnectionRefusedError as error:
            raise ExceptionGroup("several", [error]) from None
        except ExceptionGroup as group:
            raise ExceptionGroup("more", [group, *group.exceptions]) from None

    return layer


def threaded(policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    @policy
    def layer() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(inner).result(30)

    return layer


def unguarded(_policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    """No layer at all: code in between that makes another error of it."""

    def between() -> Any:
        try:
            return inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:
            raise Translated("in between") from error

    return between


def raised_again(_policy: Retry, inner: Callable[[], Any]) -> Callable[[], Any]:
    """No layer either: code in between that looks at the error and lets it go on."""

    def between() -> Any:
        try:
            return inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:  # noqa: TRY203 - as many write it
            raise error  # noqa: TRY201

    return between


LAYERS: dict[str, Layer] = {
    "decorated": decorated,
    "call": called,
    "outcome": told,
    "block": block,
    "generator": streamed,
    "translated": translated,
    "group": grouped,
    "thread": threaded,
}


def async_decorated(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        return await inner()

    return layer


def async_called(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        return await inner()

    return lambda: policy.call(work)


def async_told(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def layer() -> Any:
        return (await policy.outcome(inner)).unwrap()

    return layer


def async_block(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def layer() -> Any:
        async for attempt in policy:
            with attempt:
                return await inner()
        return None

    return layer


def async_streamed(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def items() -> AsyncIterator[Any]:
        yield await inner()

    async def layer() -> Any:
        return [item async for item in items()]

    return layer


def async_translated(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        try:
            return await inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:
            raise Translated("wrapped") from error

    return layer


def async_unguarded(_policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def between() -> Any:
        try:
            return await inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:
            raise Translated("in between") from error

    return between


def async_raised_again(_policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def between() -> Any:
        try:
            return await inner()
        except (ConnectionRefusedError, ExceptionGroup) as error:  # noqa: TRY203 - as many write it
            raise error  # noqa: TRY201

    return between


def adopted(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    return policy(lambda: inner())


def timed(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    return async_decorated(policy.replace(attempt_timeout=50), inner)


def on_loop(asyncio_way: AsyncLayer, trio_way: AsyncLayer) -> AsyncLayer:
    def choose(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        asynchronous, trionic = asyncio_way(policy, inner), trio_way(policy, inner)

        async def layer() -> Any:
            return await (trionic() if in_trio() else asynchronous())

        return layer

    return choose


def in_trio() -> bool:
    return trio.lowlevel.in_trio_task()


def task_group(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(awaited(inner))

    return layer


def nursery(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        async with trio.open_nursery() as group:
            group.start_soon(awaited, inner)

    return layer


async def awaited(inner: Callable[[], Awaitable[Any]]) -> Any:
    return await inner()


def gathered(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        return await asyncio.gather(inner(), asyncio.sleep(0))

    return layer


def tasked(policy: Retry, inner: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    @policy
    async def layer() -> Any:
        return await asyncio.create_task(awaited(inner))

    return layer


ASYNC_LAYERS: dict[str, AsyncLayer] = {
    "decorated": async_decorated,
    "call": async_called,
    "outcome": async_told,
    "block": async_block,
    "generator": async_streamed,
    "translated": async_translated,
    "lambda": adopted,
    "timed": timed,
    "group": on_loop(task_group, nursery),
    "gather": on_loop(gathered, nursery),
    "task": on_loop(tasked, async_decorated),
}


def bridged(inner: Callable[[], Any], how: str) -> Callable[[], Awaitable[Any]]:
    """A sync layer, called from an async one: at once, or in a thread."""

    async def layer() -> Any:
        if how == "direct":
            return inner()
        return await (trio.to_thread.run_sync(inner) if in_trio() else asyncio.to_thread(inner))

    return layer


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


ERR = Down("one object for all")


@pytest.fixture
def _fresh_err() -> Iterator[None]:
    """The shared error as if it had never been raised."""
    ERR.__traceback__ = None
    vars(ERR).clear()
    yield
    vars(ERR).clear()


@pytest.mark.parametrize("clock", ["real", "virtual", "still"])
@pytest.mark.usefixtures("_fresh_err")
def test_a_mock_that_raises_one_object_gives_every_call_its_attempts(clock: str) -> None:
    """B157: side_effect=ERR, as tests do; five calls in a row, by one function and by several."""
    mock = Mock(side_effect=ERR)
    functions = [THREE(lambda: mock()) for _ in range(2)]
    calls: list[Callable[[], Any]] = [
        *[functions[0]] * 5,
        functions[1],
        THREE(mock),
        lambda: THREE.call(mock),
        lambda: THREE.outcome(mock).unwrap(),
        block(THREE, mock),
        block(THREE, mock),
        streamed(THREE, mock),
        streamed(THREE, mock),
    ]
    policy_waits = VirtualClock() if clock != "real" else no_waits()
    with policy_waits as virtual:
        for call in calls:
            mock.reset_mock()
            with pytest.raises(Down):
                call()
            assert mock.call_count == 3
            if clock == "virtual" and isinstance(virtual, VirtualClock):
                virtual.advance(1)


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.usefixtures("_fresh_err")
def test_an_async_mock_that_raises_one_object_gives_every_call_its_attempts(loop: str, clock: str) -> None:
    """B157."""
    mock = AsyncMock(side_effect=ERR)

    async def main() -> None:
        function = THREE(lambda: mock())
        calls: list[Callable[[], Awaitable[Any]]] = [
            *[function] * 3,
            THREE(mock),
            lambda: THREE.call(mock),
            async_told(THREE, mock),
            async_block(THREE, mock),
            async_block(THREE, mock),
            async_streamed(THREE, mock),
            async_streamed(THREE, mock),
        ]
        for call in calls:
            mock.reset_mock()
            with pytest.raises(Down):
                await call()
            assert mock.call_count == 3

    with no_waits() if clock == "real" else VirtualClock():
        run_async(loop, main)


@pytest.mark.usefixtures("_fresh_err")
def test_a_shared_error_object_is_not_taken_as_nested_in_the_next_test() -> None:
    """B157: each test has a virtual clock that begins at nought; the module's error object stays."""
    for colour in (*COLOURS, *COLOURS):
        played = play(colour, Retry(attempts=3, backoff=Constant(10)), ERR, ERR, ERR, ERR)
        assert (colour, played.calls) == (colour, 3)


@pytest.mark.parametrize("same", [True, False], ids=["one function", "two functions"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.usefixtures("_fresh_err")
def test_a_shared_error_object_is_not_taken_as_nested_between_tasks(loop: str, same: bool) -> None:
    """B157: two unrelated calls at once; the short one gives up while the long one waits."""
    calls = {"short": 0, "long": 0}

    async def fail(name: str) -> None:
        calls[name] += 1
        raise ERR

    async def fail_too(name: str) -> None:
        calls[name] += 1
        raise ERR

    async def one(policy: Retry, function: Callable[[str], Awaitable[None]], name: str) -> None:
        with pytest.raises(Down):
            await policy(function)(name)

    async def main() -> None:
        short, long = THREE.replace(backoff=Constant(1)), THREE.replace(backoff=Constant(10))
        async with VirtualClock():
            if loop == "asyncio":
                await asyncio.gather(one(short, fail, "short"), one(long, fail if same else fail_too, "long"))
            else:
                async with trio.open_nursery() as nursery_:
                    nursery_.start_soon(one, short, fail, "short")
                    nursery_.start_soon(one, long, fail if same else fail_too, "long")

    run_async(loop, main)
    assert calls == {"short": 3, "long": 3}


@pytest.mark.parametrize("same", [True, False], ids=["one function", "two functions"])
@pytest.mark.usefixtures("_fresh_err")
def test_a_shared_error_object_is_not_taken_as_nested_between_threads(same: bool) -> None:
    """B157: the same with threads, step by step: B gives up on the object in the middle of A's call."""
    a_waits, b_gave_up = threading.Event(), threading.Event()
    calls = {"a": 0, "b": 0}

    def fail(name: str) -> None:
        calls[name] += 1
        if name == "a" and calls["a"] == 2:
            a_waits.set()
            assert b_gave_up.wait(30)
        raise ERR

    def fail_too(name: str) -> None:
        fail(name)

    guarded_a, guarded_b = THREE(fail), THREE(fail) if same else THREE(fail_too)

    def b() -> None:
        assert a_waits.wait(30)
        with pytest.raises(Down):
            guarded_b("b")
        b_gave_up.set()

    thread = threading.Thread(target=b)
    thread.start()
    with pytest.raises(Down):
        guarded_a("a")
    thread.join(30)
    assert calls == {"a": 3, "b": 3}


def test_an_error_that_a_call_gave_up_on_earlier_is_new_to_a_later_call() -> None:
    """B157: kept, and raised again by something else; nothing was tried yet in this call."""
    inner, calls = Bottom(), 0
    with no_waits():
        kept = THREE.outcome(inner).error

        def work() -> None:
            nonlocal calls
            calls += 1
            assert kept is not None
            raise kept

        with pytest.raises(Down):
            THREE.call(work)
    assert (calls, inner.calls) == (3, 3)


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

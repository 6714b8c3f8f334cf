"""``time_left`` and ends around sync code, in threads and contexts, and what is no end at all."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Retry, time_left
from perdure.testing import Script, VirtualClock, took

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.usefixtures("nothing_left_behind")
POLICY = Retry(backoff=perdure.Constant(1))


# -- time_left -----------------------------------------------------------------------------------------


def test_without_an_end_there_is_the_default() -> None:
    assert time_left() is None
    assert time_left(5.0) == 5.0
    assert time_left("none") == "none"


def test_time_left_runs_down_to_zero_and_not_below(clock: VirtualClock) -> None:
    with perdure.deadline(5):
        assert time_left() == time_left(99) == 5
        clock.advance(3)
        assert time_left() == 2
        clock.advance(3)
        assert time_left() == 0


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ((5,), 5),
        ((5, 9), 5),
        ((9, 5), 5),
        ((9, 5, 7), 5),
        ((9, None), None),
        ((9, None, 4), 4),
        ((2, None, 7), 7),
    ],
)
def test_the_nearest_of_nested_ends_holds_and_none_lifts_those_around(
    clock: VirtualClock, lengths: tuple[float | None, ...], left: float | None
) -> None:
    def nest(rest: tuple[float | None, ...]) -> float | None:
        if not rest:
            return time_left()
        with perdure.no_deadline() if rest[0] is None else perdure.deadline(rest[0]):
            return nest(rest[1:])

    assert nest(lengths) == left
    assert clock.now == 0


def test_an_end_is_over_when_its_block_is_left_in_whatever_way() -> None:
    with pytest.raises(KeyError), perdure.deadline(5):
        raise KeyError
    assert time_left() is None


def test_retrys_own_deadline_is_no_end() -> None:
    assert Retry(deadline=5).call(time_left) is None


# -- sync code -----------------------------------------------------------------------------------------


class TestSync:
    def test_nothing_interrupts_it(self, clock: VirtualClock) -> None:
        with perdure.deadline(1):
            clock.sleep(5)
        assert clock.now == 5

    def test_no_wait_crosses_the_end(self, clock: VirtualClock) -> None:
        script = Script(took(0.5, ConnectionError()), "ok")
        with perdure.deadline(1.25), pytest.raises(ConnectionError):
            POLICY.call(script)
        assert clock.now == 0.5
        assert len(script.calls) == 1

    def test_no_attempt_begins_at_the_end(self, clock: VirtualClock) -> None:
        with perdure.deadline(1), pytest.raises(ConnectionError):
            POLICY.call(Script(ConnectionError(), "ok"))
        assert clock.now == 0

    def test_an_attempt_that_began_in_time_is_not_cut(self, clock: VirtualClock) -> None:
        with perdure.deadline(1.5):
            assert POLICY.call(Script(ConnectionError(), took(9, "ok"))) == "ok"
        assert clock.now == 10

    @pytest.mark.parametrize("length", [0, 1])
    @pytest.mark.parametrize("form", ["decorated", "call", "block"])
    def test_a_call_after_the_end_is_refused(self, clock: VirtualClock, length: float, form: str) -> None:
        script = Script("ok")
        with (
            perdure.deadline(length),
            pytest.raises(perdure.DeadlineExceeded, match="had passed before the call"),
        ):
            clock.advance(1)
            if form == "decorated":
                POLICY(script)()
            elif form == "call":
                POLICY.call(script)
            else:
                for attempt in POLICY:
                    with attempt:
                        script()
        assert not script.calls

    def test_no_deadline_admits_calls_again(self, clock: VirtualClock) -> None:
        with perdure.deadline(1):
            clock.advance(2)
            with perdure.no_deadline():
                assert POLICY.call(Script(ConnectionError(), "ok")) == "ok"

    def test_a_hint_past_the_end_ends_the_call_now(self, clock: VirtualClock) -> None:
        with perdure.deadline(10), pytest.raises(ValueError, match="busy"):
            POLICY.call(Script(perdure.transient(ValueError("busy"), after=60)))
        assert clock.now == 0

    def test_an_attempt_timeout_of_an_outer_call_bounds_the_calls_inside(self, clock: VirtualClock) -> None:
        calls: list[float] = []

        def inner() -> None:
            calls.append(clock.now)
            raise ConnectionError

        def outer() -> None:
            clock.sleep(1)
            POLICY.call(inner)

        with pytest.raises(ConnectionError):
            Retry(attempts=1, attempt_timeout=2.5).call(outer)
        assert calls == [1, 2]


# -- threads and contexts ------------------------------------------------------------------------------


def test_to_thread_hands_the_end_on() -> None:
    async def main() -> float | None:
        with perdure.deadline(3600):
            return await asyncio.to_thread(time_left)

    left = asyncio.run(main())
    assert left is not None
    assert 3500 < left <= 3600


def test_trio_threads_get_the_end_as_well() -> None:
    async def main() -> float | None:
        with perdure.deadline(3600):
            return await trio.to_thread.run_sync(time_left)

    left = trio.run(main)
    assert left is not None
    assert 3500 < left <= 3600


def test_a_bare_thread_has_no_end_of_its_maker() -> None:
    seen: list[float | None] = []
    with perdure.deadline(3600):
        thread = threading.Thread(target=lambda: seen.append(time_left()))
        thread.start()
        thread.join(10)
    assert seen == [None]


def test_a_copied_context_keeps_the_end_until_the_block_is_left(clock: VirtualClock) -> None:
    with perdure.deadline(5):
        context = contextvars.copy_context()
        assert context.run(time_left) == 5
    assert context.run(time_left) is None
    assert clock.now == 0


def test_a_block_may_be_left_in_another_context_than_it_was_entered_in(clock: VirtualClock) -> None:
    """As a generator fixture does that is closed from elsewhere."""

    def steps() -> Iterator[float | None]:
        with perdure.deadline(5):
            yield time_left()

    held = steps()
    context = contextvars.copy_context()
    assert context.run(next, held) == 5
    assert next(held, "left") == "left"
    assert context.run(time_left) is None
    assert clock.now == 0


# -- misuse --------------------------------------------------------------------------------------------


def test_one_object_serves_one_block() -> None:
    block = perdure.deadline(5)
    with block, pytest.raises(RuntimeError, match="entered once"):
        block.__enter__()
    with pytest.raises(RuntimeError, match="entered once"):
        block.__enter__()


@pytest.mark.parametrize("length", [-1, float("nan"), float("inf"), None, "soon", True, 10**400])
def test_a_length_that_is_no_duration_is_refused(length: Any) -> None:
    with pytest.raises(perdure.ConfigError, match=r"^seconds must be a duration of 0 or more"):
        perdure.deadline(length)


def test_a_length_may_be_written_as_text(clock: VirtualClock) -> None:
    with perdure.deadline("1m30s"):  # type: ignore[arg-type]
        assert time_left() == 90
    assert clock.now == 0

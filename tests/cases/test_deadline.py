"""Deadline faults that other libraries have had; the ids are those of the catalogue of cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import Retry, time_left
from perdure.testing import Script, VirtualClock, took
from tests.engine.tasks import LOOPS
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock() as virtual:
        yield virtual


@pytest.mark.parametrize("colour", COLOURS)
class TestRetryDeadline:
    def test_b036_a_call_longer_than_the_deadline_is_not_made_again(self, colour: str) -> None:
        """litl/backoff#186, #130: the time was read before the call."""
        played = play(
            colour, Retry(deadline=0.3, backoff=perdure.Constant(0)), took(0.5, ConnectionError()), "late"
        )
        assert (played.calls, played.events[-1].reason) == (1, "deadline")
        assert played.elapsed == 0.5

    def test_b037_no_wait_crosses_the_deadline(self, colour: str) -> None:
        """jd/tenacity#423: limit 5 s, waits 1, 2, 4: the last attempt began at 7 s."""
        policy = Retry(attempts=None, deadline=5, backoff=perdure.Exponential(1, 2, 60, "none"))
        played = play(colour, policy, *[ConnectionError()] * 9)
        assert (played.waits, played.calls) == ([1, 2], 3)
        assert played.elapsed == 3, "it gives up when the wait would not fit, not at the deadline"
        assert isinstance(played.error, ConnectionError)

    def test_b037_a_wait_that_ends_exactly_at_the_deadline_fits(self, colour: str) -> None:
        """The documented choice: give up early; an attempt may begin at the deadline, none after."""
        policy = Retry(attempts=None, deadline=3, backoff=perdure.Exponential(1, 2, 60, "none"))
        played = play(colour, policy, ConnectionError(), ConnectionError(), took(9, "at the deadline"))
        assert (played.value, played.waits) == ("at the deadline", [1, 2])

    def test_b038_a_next_delay_far_beyond_the_deadline_ends_the_call_now(self, colour: str) -> None:
        """googleapis/google-cloud-python#9872: deadline 10 s, next delay 60 s."""
        played = play(colour, Retry(deadline=10, backoff=perdure.Constant(60)), ConnectionError(), "late")
        assert (played.calls, played.elapsed, played.events[-1].reason) == (1, 0, "deadline")

    def test_b042_a_hint_beyond_the_deadline_ends_the_call_now_and_the_note_says_so(
        self, colour: str
    ) -> None:
        """hashicorp/go-retryablehttp#272, #292: 2 s left, Retry-After 60."""
        error = perdure.transient(ValueError("busy"), after=60)
        played = play(colour, Retry(deadline=2), error, "late")
        assert played.error is error
        assert played.elapsed == 0
        assert "deadline of 2 s leaves no room for the next" in error.__notes__[0]

    def test_b044_the_two_bounds_are_two_fields(self, colour: str) -> None:
        """softonic/axios-retry#24, #84 and others: per attempt or in all? 3 s and two retries, the first hangs."""
        policy = Retry(attempts=3, attempt_timeout=3, deadline=30, backoff=perdure.Constant(0))
        played = play(colour, policy, took(3.5, ConnectionError()), took(2.5, "fresh"))
        assert played.value == "fresh", "a fresh timeout for each attempt"
        assert played.elapsed == ((3 if colour in ASYNC_COLOURS else 3.5) + 2.5)

    def test_b045_the_deadline_ends_a_throttled_call_not_a_guessed_count(self, colour: str) -> None:
        """hashicorp/go-azure-sdk#1370: deadline 300 s, Retry-After 10 each: it stopped after 9 of 30."""
        policy = Retry(attempts=None, deadline=300)
        played = play(colour, policy, *[perdure.transient(ValueError(), after=10)] * 40)
        assert played.events[-1].reason == "deadline"
        assert 285 < played.elapsed <= 300
        assert 20 <= len(played.waits) <= 30
        assert all(10 <= wait <= 15 for wait in played.waits)
        assert len(set(played.waits)) == len(played.waits), "a spread on top of the server's delay"


def test_b029_an_end_that_has_passed_stops_the_call_at_once(clock: VirtualClock) -> None:
    """smithy-lang/smithy-typescript#2268: a deadline of 1 ms shared by 4 attempts: 4 attempts failed at once."""
    script = Script(took(0.002, ConnectionError()), "late")
    with perdure.deadline(0.001), pytest.raises(ConnectionError):
        Retry(attempts=4, backoff=perdure.Constant(0)).call(script)
    assert len(script.calls) == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_b032_a_timeout_of_the_body_is_not_reported_as_the_deadline(loop: str, clock: VirtualClock) -> None:
    """tao12345666333/ankaloop#47: told apart by whether the end came, not by the class."""
    own = TimeoutError("mine")

    async def main() -> None:
        async with perdure.deadline(60):
            raise own

    with pytest.raises(TimeoutError) as caught:
        run_async(loop, main)
    assert caught.value is own
    assert clock.now == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_b039_equal_bounds_give_one_error_and_the_attempt_sees_what_is_left(loop: str) -> None:
    """googleapis/python-api-core#528: the outer 10 s raced with an inner 10 s; either error, at random."""
    seen: list[float | None] = []
    for _ in range(20):
        with VirtualClock() as virtual:

            async def hangs(virtual: VirtualClock = virtual) -> None:
                seen.append(time_left())
                await virtual.asleep(100)

            async def main(hangs: object = hangs) -> None:
                with perdure.deadline(10):
                    await Retry(attempt_timeout=10).call(hangs)  # type: ignore[arg-type]

            with pytest.raises(perdure.DeadlineExceeded):
                run_async(loop, main)
            assert virtual.now == 10
    assert set(seen) == {10}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("timeout", "end", "bound"), [(3, 2, 2), (2, 3, 2), (None, 2, 2), (2, None, 2)])
def test_b044_an_attempt_gets_the_smaller_of_its_timeout_and_what_is_left(
    loop: str, clock: VirtualClock, timeout: float | None, end: float | None, bound: float
) -> None:
    async def look() -> float | None:
        return time_left()

    async def main() -> float | None:
        with perdure.no_deadline() if end is None else perdure.deadline(end):
            return await Retry(attempt_timeout=timeout).call(look)

    assert run_async(loop, main) == bound
    assert clock.now == 0


def test_b035_a_plain_function_is_not_interrupted_and_the_docs_say_so(clock: VirtualClock) -> None:
    """spring-cloud-circuitbreaker#163, failsafe#121: sync work cannot be cut; it is told how long it has."""
    told: list[float | None] = []

    def work() -> str:
        told.append(time_left())
        clock.sleep(10)
        return "whole"

    with perdure.deadline(5):
        assert Retry(attempt_timeout=2).call(work) == "whole"
    assert told == [2]
    assert "interrupts async functions" in (Retry.__doc__ or "")
    assert "cannot be interrupted" in (perdure.deadline.__doc__ or "")

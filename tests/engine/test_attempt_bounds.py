"""What an attempt sees of its time, and its timeout beside the caller's end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import AttemptTimeout, Retry, time_left
from perdure import clock as clocks
from perdure.testing import Script, VirtualClock, record_events, took
from tests.engine.tasks import LOOPS
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Iterator


POLICY = Retry(attempts=3, backoff=perdure.Constant(1), attempt_timeout=2)
HANGS = took(1000, "late")


# -- what the attempt sees -----------------------------------------------------------------------------

WATCHED = [(None, 2), (9, 2), (1, 1)]


@pytest.mark.parametrize(("end", "left"), WATCHED)
@pytest.mark.parametrize("form", ["sync", "block", *LOOPS, *(f"{loop}-block" for loop in LOOPS)])
def test_time_left_in_an_attempt_is_the_nearest_of_its_timeout_and_the_end(
    clock: VirtualClock, form: str, end: float | None, left: float
) -> None:
    async def look() -> float | None:
        return time_left()

    async def look_in_a_block() -> float | None:
        async for attempt in POLICY:
            async with attempt:
                assert attempt.timeout == time_left()
                return time_left()
        return None

    def call() -> float | None:
        if form == "sync":
            return POLICY.call(time_left)
        if form == "block":
            for attempt in POLICY:
                with attempt:
                    assert attempt.timeout == time_left()
                    return time_left()
        return run_async(form, look_in_a_block if form.endswith("-block") else POLICY(look))  # type: ignore[no-any-return]

    with perdure.no_deadline() if end is None else perdure.deadline(end):
        assert call() == left
    assert clock.now == 0
    assert time_left() is None


def test_an_attempt_of_a_block_tells_what_is_left_of_the_policys_deadline(clock: VirtualClock) -> None:
    seen: list[tuple[float | None, float | None]] = []
    for attempt in POLICY.replace(deadline=10):
        with attempt:
            seen.append((attempt.timeout, attempt.time_left))
            clock.sleep(0.5)
            seen.append((attempt.timeout, attempt.time_left))
            if attempt.number < 2:
                raise ConnectionError
    assert seen == [(2, 2), (1.5, 1.5), (2, 2), (1.5, 1.5)]


def test_without_any_bound_there_is_nothing_left_to_tell() -> None:
    for attempt in Retry(deadline=None):
        with attempt:
            assert (attempt.timeout, attempt.time_left) == (None, None)


def test_the_policys_deadline_is_time_that_is_left_but_bounds_no_attempt(clock: VirtualClock) -> None:
    for attempt in Retry(deadline=10):
        with attempt:
            clock.sleep(4)
            assert (attempt.timeout, attempt.time_left, time_left()) == (None, 6, None)


def test_a_generator_sees_what_is_left_of_the_attempt_until_its_first_item(clock: VirtualClock) -> None:
    @POLICY
    def items() -> Iterator[float | None]:
        yield time_left()
        yield time_left()

    assert list(items()) == [2, None]
    assert clock.now == 0


# -- attempt timeout and the caller's end --------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
class TestEnd:
    def test_the_shorter_end_of_this_task_ends_the_block(self, loop: str, clock: VirtualClock) -> None:
        script = Script(HANGS)

        async def main() -> None:
            with perdure.deadline(1):
                await POLICY.call(script.asynchronous)

        with pytest.raises(perdure.DeadlineExceeded):
            run_async(loop, main)
        assert (clock.now, len(script.calls)) == (1, 1)

    def test_the_shorter_end_of_a_caller_elsewhere_is_neutral_and_has_the_last_failure_as_cause(
        self, loop: str, clock: VirtualClock
    ) -> None:
        last = ConnectionError("last")
        script = Script(last, HANGS)
        with (
            perdure.deadline(2.5),
            record_events() as seen,
            pytest.raises(perdure.DeadlineExceeded) as caught,
        ):
            run_async(loop, lambda: POLICY.call(script.asynchronous))
        assert caught.value.__cause__ is last
        assert (clock.now, len(script.calls), seen[-1].reason) == (2.5, 2, "neutral")

    def test_the_shorter_attempt_timeout_is_retried_until_the_end(
        self, loop: str, clock: VirtualClock
    ) -> None:
        script = Script(HANGS, HANGS, HANGS)

        async def main() -> None:
            with perdure.deadline(5):
                await POLICY.call(script.asynchronous)

        with pytest.raises(perdure.DeadlineExceeded) as caught:
            run_async(loop, main)
        assert isinstance(caught.value.__cause__, AttemptTimeout)
        assert (clock.now, len(script.calls)) == (5, 2)

    def test_equal_bounds_give_the_callers_error_every_time(self, loop: str) -> None:
        for _ in range(20):
            with VirtualClock() as clock:
                script = Script(HANGS)

                async def main(script: Script = script) -> None:
                    with perdure.deadline(2):
                        await POLICY.call(script.asynchronous)

                with pytest.raises(perdure.DeadlineExceeded):
                    run_async(loop, main)
                assert (clock.now, len(script.calls)) == (2, 1)

    def test_an_inner_timeout_inside_an_outer_one(self, loop: str, clock: VirtualClock) -> None:
        inner = Script(HANGS, took(0.5, "ok"))
        guarded = Retry(backoff=perdure.Constant(0), attempt_timeout=1)(inner.asynchronous)
        assert run_async(loop, lambda: POLICY.call(guarded)) == "ok"
        assert clock.now == 1.5

    def test_an_outer_timeout_cuts_the_inner_call_whole(self, loop: str, clock: VirtualClock) -> None:
        inner = Script(HANGS, HANGS)
        guarded = Retry(attempt_timeout=9)(inner.asynchronous)
        with pytest.raises(AttemptTimeout) as caught:
            run_async(loop, lambda: POLICY.replace(attempts=2).call(guarded))
        assert caught.value.timeout == 2
        assert (clock.now, len(inner.calls)) == (5, 2)


# -- the same without anybody who looks: decorated functions on the fused path -------------------------


@pytest.mark.parametrize("observed", [False, True], ids=["fused", "observed"])
def test_a_decorated_call_after_the_end_of_the_attempt_around_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, *, observed: bool
) -> None:
    moments = iter((0.0, 0.0))
    monkeypatch.setattr(
        clocks, "monotonic", lambda: next(moments, 5.0)
    )  # the work before the inner call took 5 s
    if observed:
        perdure.listen(lambda _event: None)
    inner = Script("too late")
    outcome = POLICY.replace(attempts=1).outcome(Retry()(inner))
    assert isinstance(outcome.error, perdure.DeadlineExceeded)
    assert not inner.calls


@pytest.mark.parametrize("observed", [False, True], ids=["fused", "observed"])
def test_a_decorated_call_in_a_task_of_the_attempt_is_cut_with_it(*, observed: bool) -> None:
    children: list[asyncio.Task[None]] = []

    @Retry(attempts=1)
    async def hang() -> None:
        await asyncio.Event().wait()

    async def start_and_wait() -> None:
        children.append(asyncio.create_task(hang()))
        await asyncio.wait(children)

    async def main() -> bool:
        with pytest.raises(AttemptTimeout):
            await POLICY.replace(attempts=1, attempt_timeout=0.01).call(start_and_wait)
        done, _ = await asyncio.wait(children, timeout=5)
        return bool(done)

    if observed:
        perdure.listen(lambda _event: None)
    assert asyncio.run(main()) is True
    assert isinstance(children[0].exception(), perdure.DeadlineExceeded)

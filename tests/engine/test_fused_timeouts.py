"""Attempt timeouts on the fused path: on the real clock, with timeouts of milliseconds and work that never ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import AttemptTimeout, Constant, DeadlineExceeded, Dependency, Retry, Timeouts, bypass
from perdure.testing import Script, no_waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

SHORT, LONG = 0.02, 60.0
AT_ONCE = Constant(0)


def bare(limit: float, attempts: int = 1) -> Any:
    return Retry(attempts=attempts, attempt_timeout=limit, backoff=AT_ONCE)


def dependency(limit: float, attempts: int = 1) -> Any:
    retry = Retry(attempts=attempts, backoff=AT_ONCE)
    return Dependency(
        f"d{limit}-{attempts}", timeouts=Timeouts(connect=limit / 2, read=limit / 2), retry=retry, gate=None
    )


@pytest.fixture(params=[bare, dependency])
def policy(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(*given: Any) -> Any:
        made.append(request.param(*given))
        return made[-1]

    yield make
    assert not bypass.OPEN_ENDS
    assert perdure.time_left() is None
    for one in made:
        assert isinstance(one, Retry) or not one._guard.core.root.flight


def warm(guarded: Any, *args: Any) -> Any:
    """A call as it is once the first ones, which take the general path, are over."""

    async def main() -> Any:
        return await guarded(*args)

    return asyncio.run(main())


async def forever() -> None:
    await asyncio.Event().wait()


def test_the_wrapper_takes_the_fused_path(policy: Any) -> None:
    """Else the tests below test something else."""

    async def value(given: int) -> int:
        return given

    guarded = policy(LONG)(value)
    assert "_end" in guarded.__code__.co_varnames
    assert warm(guarded, 3) == 3


def test_what_never_ends_is_cut_and_comes_out_as_a_timeout(policy: Any) -> None:
    with pytest.raises(AttemptTimeout) as caught:
        warm(policy(SHORT)(forever))
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert caught.value.__notes__[0].startswith("perdure: gave up after 1 attempt")


def test_a_retry_follows_a_timeout(policy: Any) -> None:
    calls: list[int] = []

    async def second_time() -> str:
        calls.append(1)
        if len(calls) == 1:
            await forever()
        return "ok"

    assert warm(policy(SHORT, 2)(second_time)) == "ok"
    assert len(calls) == 2


def test_the_task_is_not_left_cancelled(policy: Any) -> None:
    guarded = policy(SHORT)(forever)

    async def main() -> int:
        with pytest.raises(AttemptTimeout):
            await guarded()
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return task.cancelling()

    assert asyncio.run(main()) == 0


def test_an_outer_cancellation_stays_one(policy: Any) -> None:
    guarded, begun = policy(LONG)(forever), []

    async def main() -> bool:
        task = asyncio.ensure_future(guarded())
        begun.append(task)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_both_at_once_is_a_cancellation(policy: Any) -> None:
    """The timeout comes while the task is being cancelled from outside: the outer one wins."""

    async def stubborn() -> None:
        try:
            await forever()
        finally:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # as somebody outside would at this moment

    guarded = policy(SHORT)(stubborn)

    async def main() -> bool:
        task = asyncio.ensure_future(guarded())
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_a_function_that_answers_its_cancellation_with_a_value_is_believed(policy: Any) -> None:
    async def polite() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "partial"
        return "never"

    guarded = policy(SHORT)(polite)

    async def main() -> tuple[str, int]:
        value = await guarded()
        task = asyncio.current_task()
        assert task is not None
        return value, task.cancelling()

    assert asyncio.run(main()) == ("partial", 0)


def test_what_runs_inside_sees_what_is_left_and_so_does_a_guarded_call_in_it(policy: Any) -> None:
    seen: list[float | None] = []

    @Retry(attempts=5, backoff=Constant(90), deadline=None)
    async def inner() -> None:
        seen.append(perdure.time_left())
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError) as caught:
        warm(policy(LONG)(inner))
    assert seen[0] is not None
    assert LONG - 5 < seen[0] <= LONG
    assert "the caller's deadline leaves no room" in "".join(caught.value.__notes__)


def test_a_child_task_is_cut_at_the_end_of_the_attempt_it_runs_in(policy: Any) -> None:
    ended: list[type] = []

    async def outer() -> None:
        async def child() -> None:
            try:
                await Retry(attempts=1)(forever)()
            except BaseException as error:  # noqa: BLE001 - whatever it is
                ended.append(type(error))

        await asyncio.shield(asyncio.ensure_future(child()))

    with pytest.raises((AttemptTimeout, DeadlineExceeded)):
        warm(policy(SHORT)(outer))
    assert ended in ([DeadlineExceeded], [asyncio.CancelledError])


def test_an_end_around_the_call_holds(policy: Any) -> None:
    guarded = policy(LONG)(forever)

    async def main() -> None:
        with perdure.deadline(SHORT):
            await guarded()

    with pytest.raises(DeadlineExceeded):
        asyncio.run(main())


def test_a_hundred_at_once_are_cut_by_one_timer(policy: Any) -> None:
    guarded = policy(SHORT)(forever)

    async def main() -> list[Any]:
        return await asyncio.gather(*(guarded() for _ in range(100)), return_exceptions=True)

    assert {type(one) for one in asyncio.run(main())} == {AttemptTimeout}


def test_other_calls_stay_off_the_general_path_while_an_attempt_runs(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end that is open somewhere is no business of calls that have none around them."""
    from perdure.engine import sync

    guarded = policy(LONG)(forever)
    plain: Callable[[], int] = Retry()(lambda: 1)
    with no_waits():  # what a first failure loads is there before it is replaced below
        assert Retry()(Script(OSError(111, "refused"), 1))() == 1

    def general(_run: Any) -> Any:
        raise AssertionError("the general path")

    async def main() -> None:
        task: Awaitable[None] = asyncio.ensure_future(guarded())
        await asyncio.sleep(0)
        assert bypass.OPEN_ENDS
        monkeypatch.setattr(sync, "drive", general)
        assert [plain() for _ in range(200)] == [1] * 200
        task.cancel()  # type: ignore[attr-defined]
        await asyncio.wait([task])  # type: ignore[type-var]

    asyncio.run(main())

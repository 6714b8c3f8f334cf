"""Stale faults: refresh once, one attempt at once, in every colour; failing refreshes change nothing."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import FaultKind, Retry, attempts_of, faults
from perdure.engine import waiting
from perdure.testing import took
from tests.harness import ASYNC_COLOURS, COLOURS, play

SYNC_COLOURS = [colour for colour in COLOURS if colour not in ASYNC_COLOURS]
EACH_SECOND = perdure.Constant(1)


class Stale(Exception):
    pass


@pytest.fixture(autouse=True)
def stale() -> None:
    faults.register(Stale, FaultKind.STALE)


class Refresh:
    """Counts how often it was called."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("colour", COLOURS)
class TestRefresh:
    def test_one_attempt_follows_at_once(self, colour: str) -> None:
        refresh = Refresh()
        played = play(colour, Retry(backoff=EACH_SECOND, refresh=refresh), Stale(), "ok")
        assert (played.value, played.calls, refresh.calls) == ("ok", 2, 1)
        assert played.elapsed == 0
        assert [event.reason for event in played.events if event.name == "retry.scheduled"] == ["refresh"]

    def test_a_fault_that_is_still_stale_ends_the_call(self, colour: str) -> None:
        refresh, second = Refresh(), Stale("still")
        played = play(colour, Retry(refresh=refresh), Stale(), second)
        assert played.error is second
        assert (played.calls, refresh.calls) == (2, 1)
        assert played.events[-1].reason == "permanent"

    def test_it_happens_once_in_a_call_even_with_other_faults_in_between(self, colour: str) -> None:
        refresh = Refresh()
        played = play(
            colour, Retry(backoff=EACH_SECOND, refresh=refresh), Stale(), ConnectionError(), Stale(), "ok"
        )
        assert isinstance(played.error, Stale)
        assert (played.calls, refresh.calls) == (3, 1)

    def test_each_call_may_refresh_anew(self, colour: str) -> None:
        refresh = Refresh()
        policy = Retry(refresh=refresh)
        for _ in range(3):
            assert play(colour, policy, Stale(), "ok").value == "ok"
        assert refresh.calls == 3

    def test_the_backoff_goes_on_where_it_was(self, colour: str) -> None:
        policy = Retry(backoff=perdure.Schedule([1, 2, 3]), refresh=Refresh())
        played = play(colour, policy, ConnectionError(), Stale(), ConnectionError(), "ok")
        assert played.waits == [1, 0, 3]

    def test_without_a_refresh_stale_is_permanent(self, colour: str) -> None:
        played = play(colour, Retry(), Stale(), "ok")
        assert isinstance(played.error, Stale)
        assert played.events[-1].reason == "permanent"

    def test_other_faults_refresh_nothing(self, colour: str) -> None:
        refresh = Refresh()
        play(colour, Retry(refresh=refresh), ConnectionError(), ValueError())
        assert refresh.calls == 0

    def test_it_is_not_called_when_no_attempt_is_left(self, colour: str) -> None:
        refresh = Refresh()
        played = play(colour, Retry(attempts=1, refresh=refresh), Stale())
        assert (refresh.calls, played.events[-1].reason) == (0, "attempts")

    def test_it_is_not_called_when_the_deadline_has_passed(self, colour: str) -> None:
        refresh = Refresh()
        played = play(colour, Retry(deadline=1, refresh=refresh), took(2, Stale()))
        assert (refresh.calls, played.events[-1].reason) == (0, "deadline")

    @pytest.mark.parametrize("never", [Stale, FaultKind.STALE, lambda error: isinstance(error, Stale)])
    def test_never_wins_over_it(self, colour: str, never: Any) -> None:
        refresh = Refresh()
        played = play(colour, Retry(refresh=refresh, never=never), Stale(), "ok")
        assert isinstance(played.error, Stale)
        assert refresh.calls == 0

    def test_on_need_not_name_what_is_refreshed(self, colour: str) -> None:
        assert play(colour, Retry(on=ConnectionError, refresh=Refresh()), Stale(), "ok").value == "ok"

    def test_a_refresh_that_fails_is_reported_and_the_attempt_made(
        self, colour: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        refresh, second = Refresh(RuntimeError("no token")), Stale("second")
        played = play(colour, Retry(refresh=refresh), Stale(), second)
        assert played.error is second
        assert (played.calls, refresh.calls) == (2, 1)
        assert [one.getMessage() for one in caplog.records if "refresh=" in one.getMessage()] == [
            "refresh= raised and was ignored: RuntimeError('no token')"
        ]

    def test_a_base_exception_in_a_refresh_passes_at_once(self, colour: str) -> None:
        class Leave(BaseException):
            pass

        leave = Leave()
        played = play(colour, Retry(refresh=Refresh(leave)), Stale(), "ok")
        assert played.error is leave
        assert played.calls == 1

    def test_the_record_names_it(self, colour: str) -> None:
        played = play(colour, Retry(refresh=Refresh()), Stale(), ValueError())
        assert played.error is not None
        assert [(one.delay, one.source) for one in attempts_of(played.error)] == [
            (0.0, "refresh"),
            (None, None),
        ]


class AsyncRefresh:
    """A coroutine function that takes a while."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1
        await waiting.wait(2)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("colour", ASYNC_COLOURS)
def test_an_async_refresh_is_awaited_before_the_attempt(colour: str) -> None:
    refresh = AsyncRefresh()
    played = play(colour, Retry(refresh=refresh), Stale(), "ok")
    assert (played.value, refresh.calls) == ("ok", 1)
    assert played.elapsed == 2


@pytest.mark.parametrize("colour", ASYNC_COLOURS)
def test_an_async_refresh_that_fails_is_reported_and_the_attempt_made(
    colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert play(colour, Retry(refresh=AsyncRefresh(RuntimeError("no"))), Stale(), "ok").value == "ok"
    assert [one for one in caplog.records if "refresh=" in one.getMessage()]


@pytest.mark.parametrize("colour", SYNC_COLOURS)
def test_an_async_refresh_of_a_sync_call_is_reported_and_never_left_unawaited(
    colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert play(colour, Retry(refresh=AsyncRefresh()), Stale(), "ok").value == "ok"
    complaints = [one.getMessage() for one in caplog.records if "refresh=" in one.getMessage()]
    assert len(complaints) == 1
    assert "plain function" in complaints[0]

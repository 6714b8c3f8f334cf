"""Backoffs that users write: they are used as they are, and a broken one never replaces the user's error."""

from __future__ import annotations

import math
from typing import Any

import pytest

import perdure
from perdure import Backoff, Retry
from tests.harness import COLOURS, play


class Own(Backoff):
    """Gives what it was told to give."""

    jitter = "none"
    cap = 50.0

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def _raw(self, n: int) -> float:
        return self.raw(n)  # type: ignore[no-any-return] # whatever the test wants


def raises(n: int) -> float:
    raise LookupError(n)


BROKEN: dict[str, Any] = {
    "raises": raises,
    "nan": lambda _n: math.nan,
    "inf": lambda _n: math.inf,
    "negative": lambda _n: -1.0,
    "None": lambda _n: None,
    "text": lambda _n: "1",
    "huge": lambda _n: 10**400,
}


@pytest.mark.parametrize("colour", COLOURS)
def test_its_delays_are_waited(colour: str) -> None:
    policy = Retry(attempts=5, backoff=Own(lambda n: float(min(50, n**3))), deadline=None)
    played = play(colour, policy, *[ConnectionError()] * 4, "ok")
    assert played.waits == [1, 8, 27, 50]
    assert played.elapsed == 86


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_one_is_reported_once_and_the_default_used(
    colour: str, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Retry(attempts=3, backoff=Own(BROKEN[broken]))
    played = play(colour, policy, ConnectionError(), ConnectionError(), "ok")
    assert played.value == "ok"
    assert 0 <= played.waits[0] <= 0.1
    assert 0 <= played.waits[1] <= 0.2
    complaints = [one for one in caplog.records if "backoff=" in one.getMessage()]
    assert len(complaints) == 1


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_one_does_not_hide_the_last_error(colour: str, broken: str) -> None:
    error = ConnectionError("last")
    policy = Retry(attempts=2, backoff=Own(BROKEN[broken]))
    assert play(colour, policy, ConnectionError(), error).error is error


def test_a_base_exception_in_it_passes_at_once() -> None:
    class Leave(BaseException):
        pass

    def leave(n: int) -> float:
        raise Leave(n)

    played = play("sync", Retry(backoff=Own(leave)), ConnectionError(), "ok")
    assert isinstance(played.error, Leave)
    assert played.calls == 1


def test_the_largest_delay_there_is_is_no_broken_one() -> None:
    played = play("sync", Retry(backoff=Own(lambda _n: 1e300), deadline=None), ConnectionError(), "ok")
    assert played.waits == [1e300]
    assert perdure.Constant(1e300).delay(1, None, lambda: 0.0) == 1e300

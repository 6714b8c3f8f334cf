"""Delays that are too long to wait for, and where delays come from; the ids are those of the catalogue of cases."""

from __future__ import annotations

from email.message import Message
from urllib.error import HTTPError

import pytest

import perdure
from perdure import Retry, StopReason
from perdure.testing import Script, VirtualClock
from tests.harness import COLOURS, play, run_async


def asking(**fields: str) -> HTTPError:
    headers = Message()
    for name, value in fields.items():
        headers[name.replace("_", "-")] = value
    return HTTPError("https://api.example.com", 429, "slow down", headers, None)


HUGE = {
    "two weeks": {"Retry_After": "1209600"},
    "two days": {"Retry_After": "172800"},
    "more than a date holds": {"Retry_After": "9" * 20},
    "in milliseconds": {"retry_after_ms": "1209600000"},
    "a bucket": {"RateLimit": '"month";r=0;t=1209600'},
}


@pytest.mark.parametrize("fields", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("colour", COLOURS)
def test_b081_a_delay_above_the_cap_ends_the_call_now_with_the_hint(
    colour: str, fields: dict[str, str]
) -> None:
    """opencode#13591, hikari, bbot#2425: the loop slept for two weeks, even after the account had funds again."""
    error = asking(**fields)
    played = play(colour, Retry(), error, "never")
    assert played.error is error
    assert (played.calls, played.waits, played.elapsed) == (1, [], 0)
    (record,) = perdure.attempts_of(error)
    assert record.fault.hint is not None
    assert record.fault.hint >= 172_800
    assert (record.delay, record.source) == (None, None)
    assert played.events[-1].reason == StopReason.HINT
    assert any("above hint_cap of" in note for note in error.__notes__)


@pytest.mark.parametrize("colour", COLOURS)
def test_b081_a_cap_that_is_high_enough_waits(colour: str) -> None:
    played = play(colour, Retry(deadline=None, hint_cap=2e6), asking(Retry_After="1209600"), "ok")
    assert played.value == "ok"
    assert 1_209_600 <= played.elapsed <= 1_209_610


@pytest.mark.parametrize("colour", COLOURS)
def test_b082_the_cap_is_where_the_call_ends_and_never_a_shorter_wait(colour: str) -> None:
    """ky#603: nobody could tell whether max_retry_after cut a delay or gave up."""
    for delay, calls in ((60, 2), (60.5, 1), (120, 1)):
        played = play(colour, Retry(deadline=None, hint_cap=60), asking(Retry_After=str(delay)), "ok")
        assert played.calls == calls
        assert all(delay <= wait <= delay * 1.5 for wait in played.waits)


@pytest.mark.parametrize("colour", COLOURS)
def test_b082_a_delay_that_passes_the_deadline_ends_the_call_now(colour: str) -> None:
    played = play(colour, Retry(deadline=30), asking(Retry_After="31"), "never")
    assert isinstance(played.error, HTTPError)
    assert (played.calls, played.elapsed) == (1, 0)
    assert played.events[-1].reason == StopReason.DEADLINE


@pytest.mark.parametrize("colour", ["sync", "asyncio", "trio"])
def test_b083_the_record_of_an_attempt_says_where_its_delay_came_from(colour: str) -> None:
    """App-vNext/Polly#2160: "random" waits of 5 s that the server had asked for."""
    policy = Retry(attempts=5, backoff=perdure.Constant(0.1))
    script = Script(asking(), asking(Retry_After="5"), asking(), ConnectionResetError(), "ok")
    with VirtualClock():
        if colour == "sync":
            outcome = policy.outcome(script)
        else:
            outcome = run_async(colour, lambda: policy.outcome(script.asynchronous))
    assert outcome.unwrap() == "ok"
    assert [record.source for record in outcome.records] == ["computed", "hint", "computed", "computed"]
    assert [record.fault.hint for record in outcome.records] == [None, 5, None, None]
    assert [record.delay for record in outcome.records] == [0.1, pytest.approx(6.25, abs=1.25), 0.1, 0.1]

"""The events of a call: their order, their fields, and that nobody pays who does not listen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import perdure
from perdure import Fault, FaultKind, Retry, events, faults
from perdure.testing import Script, VirtualClock, record_events, took
from perdure.testing.virtual import WALL
from tests.engine.model import Leave
from tests.engine.tasks import LOOPS, cancelled_after, together
from tests.harness import ASYNC_COLOURS, COLOURS, play, run_async

if TYPE_CHECKING:
    from perdure import Event

EACH_SECOND = Retry(backoff=perdure.Constant(1))
START, END = "attempt.start", "attempt.end"


@pytest.mark.parametrize("colour", COLOURS)
class TestOrder:
    def test_a_call_that_works(self, colour: str) -> None:
        assert play(colour, EACH_SECOND, "ok").names == ["call.start", START, END, "call.end"]

    def test_a_call_that_recovers(self, colour: str) -> None:
        played = play(colour, EACH_SECOND, ConnectionError(), ConnectionError(), "ok")
        again = [START, END, "retry.scheduled"]
        assert played.names == ["call.start", *again, *again, START, END, "call.end"]

    def test_a_call_that_runs_out_of_attempts(self, colour: str) -> None:
        played = play(colour, EACH_SECOND.replace(attempts=2), *[ConnectionError()] * 2)
        once = [START, END, "retry.scheduled"]
        assert played.names == ["call.start", *once, START, END, "retry.suppressed", "call.end"]
        assert played.events[-2].reason == played.events[-1].reason == "attempts"

    def test_a_call_that_has_no_time_left(self, colour: str) -> None:
        played = play(colour, EACH_SECOND.replace(deadline=0.5), ConnectionError())
        assert played.names == ["call.start", START, END, "deadline.exceeded", "retry.suppressed", "call.end"]
        exceeded, suppressed, end = played.events[-3:]
        assert exceeded.delay == suppressed.delay == 1
        assert suppressed.reason == end.reason == "deadline"

    def test_a_call_whose_result_stays_rejected(self, colour: str) -> None:
        played = play(
            colour, EACH_SECOND.replace(attempts=2, reject=lambda value: value == "bad"), "bad", "bad"
        )
        assert played.names[-3:] == [END, "retry.suppressed", "call.end"]
        assert played.events[-1].reason == "rejected"
        assert Counter(played.names)[END] == 2

    def test_a_bug(self, colour: str) -> None:
        played = play(colour, EACH_SECOND, TypeError("oh"))
        assert played.names == ["call.start", START, END, "retry.suppressed", "call.end"]
        assert [event.severity for event in played.events[-2:]] == ["debug", "error"]

    def test_a_base_exception(self, colour: str) -> None:
        played = play(colour, EACH_SECOND, Leave("now"))
        assert played.names == ["call.start", START, END, "call.end"]
        assert [event.reason for event in played.events[-2:]] == ["neutral", "neutral"]
        assert played.events[-1].error == "Leave: now"

    def test_a_call_that_comes_while_the_process_closes(self, colour: str) -> None:
        perdure.close(final=True)
        played = play(colour, EACH_SECOND, "ok")
        assert played.names == ["call.start", "call.end"]
        assert played.events[-1].reason == "shutdown"
        assert played.events[-1].attempt == 0
        assert isinstance(played.error, perdure.ShuttingDown)

    def test_a_wait_that_the_shutdown_cuts_ends_no_attempt_a_second_time(self, colour: str) -> None:
        def close_in_the_wait(event: Event) -> None:
            if event.name == "retry.scheduled":
                perdure.close(final=True, grace=0)

        stop = perdure.listen(close_in_the_wait)
        played = play(colour, EACH_SECOND, ConnectionError(), "ok")
        stop()
        assert isinstance(played.error, ConnectionError)
        assert played.names == ["call.start", START, END, "retry.scheduled", "retry.suppressed", "call.end"]
        assert played.events[-1].reason == "shutdown"


@pytest.mark.parametrize("colour", ASYNC_COLOURS)
def test_a_cancelled_wait_ends_no_attempt_a_second_time(colour: str) -> None:
    script = Script(ConnectionError(), "ok")

    async def in_a_block() -> None:
        async for attempt in EACH_SECOND:
            with attempt:
                await script.asynchronous()

    work = in_a_block if colour.endswith("-block") else EACH_SECOND(script.asynchronous)
    with VirtualClock() as clock, record_events() as seen:
        run_async(colour, lambda: cancelled_after(colour, clock, 0.5, work))
    assert [event.name for event in seen] == ["call.start", START, END, "retry.scheduled", "call.end"]
    assert seen[-1].reason == "neutral"
    assert len(script.calls) == 1


@pytest.mark.parametrize("colour", COLOURS)
def test_what_the_events_of_a_call_say(colour: str) -> None:
    first, second = ConnectionError("one"), TimeoutError("two")
    policy = EACH_SECOND.replace(attempts=2, name="stock.fetch")
    played = play(colour, policy, took(2, first), took(0.5, second))
    start, began, ended, scheduled, _, ended_again, suppressed, end = played.events
    assert {event.operation for event in played.events} == {"stock.fetch"}
    assert len({event.call_id for event in played.events}) == 1
    assert [event.attempt for event in played.events] == [None, 1, 1, 1, 2, 2, 2, 2]
    assert [event.at - WALL for event in played.events] == pytest.approx([0, 0, 2, 2, 3, 3.5, 3.5, 3.5])
    assert (start.severity, began.severity, ended.severity) == ("debug", "debug", "info")
    assert (ended.fault, ended.error, ended.elapsed) == (perdure.classify(first), "ConnectionError: one", 2)
    assert (scheduled.severity, scheduled.delay, scheduled.reason) == ("info", 1, "computed")
    assert scheduled.fault == ended.fault
    assert ended_again.elapsed == pytest.approx(0.5)
    assert (suppressed.severity, suppressed.fault, suppressed.delay) == (
        "warning",
        perdure.classify(second),
        None,
    )
    assert (end.severity, end.reason, end.error) == ("error", "attempts", "TimeoutError: two")
    assert end.elapsed == pytest.approx(3.5)
    assert {(event.dependency, event.key) for event in played.events} == {(None, None)}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(FaultKind.THROTTLED, 2.0), "hint"),
        (Fault(FaultKind.TRANSIENT), "computed"),
        (Fault(FaultKind.STALE), "refresh"),
    ],
)
def test_a_scheduled_retry_says_where_its_delay_comes_from(fault: Fault, reason: str) -> None:
    faults.register(LookupError, fault)
    played = play("sync", EACH_SECOND.replace(refresh=lambda: None), LookupError(), "ok")
    assert [event.reason for event in played.events if event.name == "retry.scheduled"] == [reason]


@pytest.mark.parametrize(
    ("fault", "policy", "reason"),
    [
        (Fault(FaultKind.THROTTLED, 400.0), EACH_SECOND, "hint"),
        (Fault(FaultKind.AMBIGUOUS), EACH_SECOND.replace(safety=perdure.Safety.UNSAFE), "unsafe"),
        (Fault(FaultKind.PERMANENT), EACH_SECOND, "permanent"),
        (Fault(FaultKind.NEUTRAL), EACH_SECOND, "neutral"),
        (Fault(FaultKind.STALE), EACH_SECOND, "permanent"),
    ],
)
def test_a_suppressed_retry_says_what_kept_it(fault: Fault, policy: Retry, reason: str) -> None:
    faults.register(LookupError, fault)
    played = play("sync", policy, LookupError("no"))
    suppressed, end = played.events[-2:]
    assert suppressed.name == "retry.suppressed"
    assert (suppressed.reason, suppressed.fault, suppressed.attempt) == (reason, fault, 1)
    assert end.reason == reason
    assert end.severity == ("warning" if reason == "neutral" else "error")


def test_every_call_has_an_id_of_its_own() -> None:
    with VirtualClock(), record_events() as seen:
        for _ in range(3):
            EACH_SECOND.call(Script(ConnectionError(), "ok"))
    per_call = Counter(event.call_id for event in seen)
    assert list(per_call.values()) == [7, 7, 7]


@pytest.mark.parametrize("loop", LOOPS)
def test_events_of_calls_that_run_together_keep_their_ids(loop: str) -> None:
    works = [EACH_SECOND(Script(*[ConnectionError()] * count, "ok").asynchronous) for count in range(4)]
    with VirtualClock(), record_events() as seen:
        run_async(loop, lambda: together(loop, *works))
    by_call: dict[str | None, list[str]] = {}
    for event in seen:
        by_call.setdefault(event.call_id, []).append(event.name)
    again = [START, END, "retry.scheduled"]
    expected = [["call.start", *again * count, START, END, "call.end"] for count in range(4)]
    assert sorted(by_call.values(), key=len) == expected


def test_an_error_that_cannot_be_printed_is_told_by_its_type() -> None:
    class Mute(ConnectionError):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    played = play("sync", EACH_SECOND.replace(attempts=1), Mute())
    assert isinstance(played.error, Mute)
    assert played.events[-1].error == "Mute"


def test_a_long_error_text_is_cut() -> None:
    played = play("sync", EACH_SECOND.replace(attempts=1), ConnectionError("x" * 10_000))
    assert [len(event.error or "") for event in played.events if event.error] == [500, 500]


def test_without_a_listener_no_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(events, "Event", lambda **fields: made.append(fields))
    assert play("sync", EACH_SECOND, ConnectionError(), "ok", listen=False).value == "ok"
    assert not made


def test_an_event_as_a_dict_has_only_what_applies() -> None:
    event = perdure.Event(
        name="retry.scheduled", attempt=1, fault=Fault(FaultKind.THROTTLED, 2.0, "HTTP 429"), at=5.0
    )
    assert event.as_dict() == {
        "name": "retry.scheduled",
        "severity": "info",
        "operation": "",
        "attempt": 1,
        "fault": {"kind": "throttled", "hint": 2.0, "why": "HTTP 429"},
        "at": 5.0,
    }

"""How a call ends: the original error with one note, ``on_exhausted=``, ``outcome()``, ``attempts_of()``."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Fault, FaultKind, Outcome, Retry, StopReason, attempts_of, faults
from perdure.testing import Script, VirtualClock, took
from tests.engine.model import Leave
from tests.engine.tasks import LOOPS
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = Retry(attempts=3, backoff=perdure.Constant(1))
MAKERS = ("sync", *LOOPS)


def outcome(colour: str, policy: Retry, *outcomes: object) -> Outcome[Any]:
    """``policy.outcome`` of a scripted function on virtual time."""
    script = Script(*outcomes)
    with VirtualClock():
        if colour == "sync":
            return policy.outcome(script)
        return run_async(colour, lambda: policy.outcome(script.asynchronous))


# -- the error and its note ----------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestNote:
    def note(self, colour: str, policy: Retry, *outcomes: object) -> str:
        played = play(colour, policy, *outcomes)
        assert played.error is not None
        assert len(played.error.__notes__) == 1
        return str(played.error.__notes__[0]).removeprefix("perdure: gave up after ")

    def test_no_attempts_left(self, colour: str) -> None:
        errors = [took(0.5, ConnectionError()) for _ in range(3)]
        assert self.note(colour, POLICY, *errors) == "3 attempts in 3.5 s: no attempts left (attempts=3)"

    def test_a_single_attempt(self, colour: str) -> None:
        note = self.note(colour, POLICY.replace(attempts=1), ConnectionError())
        assert note == "1 attempt in 0 s: no attempts left (attempts=1)"

    def test_no_time_left(self, colour: str) -> None:
        note = self.note(colour, POLICY.replace(deadline=2.5), took(2, ConnectionError()))
        assert note == "1 attempt in 2 s: deadline of 2.5 s leaves no room for the next 1 s wait"

    def test_a_hint_that_is_too_long(self, colour: str) -> None:
        error = perdure.transient(ValueError(), after=400)
        assert self.note(colour, POLICY, error).endswith(
            "the server asks for a wait of 6 min 40 s, above hint_cap of 5 min"
        )

    def test_a_bug(self, colour: str) -> None:
        assert (
            self.note(colour, POLICY, TypeError()) == "1 attempt in 0 s: not worth a retry (bug: TypeError)"
        )

    def test_a_rejected_result(self, colour: str) -> None:
        note = self.note(colour, POLICY.replace(reject=lambda value: not value), *[None] * 3)
        assert note == "3 attempts in 2 s: the result is still one that reject= refuses"


def test_the_callers_end_is_not_called_the_policys_deadline() -> None:
    error = ConnectionError()
    with VirtualClock(), perdure.deadline(2), pytest.raises(ConnectionError):
        POLICY.replace(backoff=perdure.Constant(3)).call(Script(error))
    assert "30 s" not in error.__notes__[0]
    assert "3 s wait" in error.__notes__[0]


# -- on_exhausted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestOnExhausted:
    def test_return_gives_back_the_last_rejected_result(self, colour: str) -> None:
        policy = POLICY.replace(reject=lambda value: value < 10, on_exhausted="return")
        played = play(colour, policy, 1, 2, 3)
        assert (played.value, played.error, played.calls) == (3, None, 3)
        assert played.events[-1].reason == "rejected"

    def test_return_still_raises_an_error(self, colour: str) -> None:
        error = ConnectionError()
        policy = POLICY.replace(reject=lambda value: value is None, on_exhausted="return")
        assert play(colour, policy, None, ConnectionError(), error).error is error

    def test_a_callable_gets_the_outcome_and_the_error_is_raised(self, colour: str) -> None:
        told: list[Outcome[Any]] = []
        error = ConnectionError("last")
        played = play(
            colour, POLICY.replace(on_exhausted=told.append), ConnectionError(), ConnectionError(), error
        )
        assert played.error is error
        (one,) = told
        assert (one.ok, one.value, one.error, one.stop, one.attempts) == (
            False,
            None,
            error,
            StopReason.ATTEMPTS,
            3,
        )
        assert one.elapsed == pytest.approx(2)
        assert one.call_id == played.events[-1].call_id
        assert [record.number for record in one.records] == [1, 2, 3]

    @pytest.mark.parametrize(
        ("outcomes", "stop"),
        [
            ([TypeError()], StopReason.PERMANENT),
            ([took(40, ConnectionError())], StopReason.DEADLINE),
            ([perdure.transient(ValueError(), after=400)], StopReason.HINT),
            (["bad"] * 3, StopReason.REJECTED),
        ],
        ids=["permanent", "deadline", "hint", "rejected"],
    )
    def test_it_is_told_whatever_ends_the_call(
        self, colour: str, outcomes: list[object], stop: StopReason
    ) -> None:
        told: list[StopReason] = []
        policy = POLICY.replace(
            reject=lambda value: value == "bad", on_exhausted=lambda outcome: told.append(outcome.stop)
        )
        play(colour, policy, *copy.deepcopy(outcomes))
        assert told == [stop]

    @pytest.mark.parametrize(
        "outcomes", [["ok"], [ConnectionError(), "ok"], [Leave()]], ids=["ok", "recovered", "leave"]
    )
    def test_it_is_not_told_of_a_success_or_a_base_exception(
        self, colour: str, outcomes: list[object]
    ) -> None:
        told: list[object] = []
        play(colour, POLICY.replace(on_exhausted=told.append), *copy.deepcopy(outcomes))
        assert not told

    def test_one_that_raises_is_reported_and_changes_nothing(
        self, colour: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(outcome: Outcome[Any]) -> None:
            raise LookupError(outcome.call_id)

        error = ValueError()
        assert play(colour, POLICY.replace(on_exhausted=broken), error).error is error
        assert [one for one in caplog.records if "on_exhausted" in one.getMessage()]


# -- outcome() -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", MAKERS)
class TestOutcome:
    def test_of_a_success(self, colour: str) -> None:
        ended = outcome(colour, POLICY, took(2, "value"))
        assert (ended.ok, ended.value, ended.error, ended.stop, ended.attempts) == (
            True,
            "value",
            None,
            "success",
            1,
        )
        assert ended.elapsed == 2
        assert ended.call_id
        assert ended.records == ()
        assert ended.unwrap() == "value"

    def test_of_a_recovery(self, colour: str) -> None:
        ended = outcome(colour, POLICY, ConnectionError("x"), "value")
        assert (ended.ok, ended.attempts, ended.elapsed) == (True, 2, 1)
        assert [(one.number, one.delay, one.error) for one in ended.records] == [(1, 1, "ConnectionError: x")]

    def test_of_a_failure(self, colour: str) -> None:
        error = ConnectionError("last")
        ended = outcome(colour, POLICY, ConnectionError(), ConnectionError(), error)
        assert (ended.ok, ended.value, ended.error, ended.stop, ended.attempts) == (
            False,
            None,
            error,
            "attempts",
            3,
        )
        with pytest.raises(ConnectionError) as caught:
            ended.unwrap()
        assert caught.value is error

    def test_of_a_rejected_result(self, colour: str) -> None:
        ended = outcome(colour, POLICY.replace(attempts=1, reject=lambda value: value == "bad"), "bad")
        assert isinstance(ended.error, perdure.ResultRejected)
        assert (ended.ok, ended.stop) == (False, "rejected")

    def test_of_a_rejected_result_that_is_returned_all_the_same(self, colour: str) -> None:
        policy = POLICY.replace(attempts=1, reject=lambda value: value == "bad", on_exhausted="return")
        ended = outcome(colour, policy, "bad")
        assert (ended.ok, ended.value, ended.stop) == (True, "bad", "rejected")

    def test_of_a_call_that_was_refused(self, colour: str) -> None:
        perdure.close(final=True)
        ended = outcome(colour, POLICY, "value")
        assert isinstance(ended.error, perdure.ShuttingDown)
        assert (ended.ok, ended.stop, ended.attempts) == (False, "shutdown", 0)

    def test_of_a_call_after_its_end(self, colour: str) -> None:
        script = Script("value")
        with VirtualClock() as clock, perdure.deadline(1):
            clock.advance(1)
            if colour == "sync":
                ended = POLICY.outcome(script)
            else:
                ended = run_async(colour, lambda: POLICY.outcome(script.asynchronous))
        assert isinstance(ended.error, perdure.DeadlineExceeded)
        assert (ended.stop, ended.attempts, len(script.calls)) == ("deadline", 0, 0)

    def test_a_base_exception_passes(self, colour: str) -> None:
        with pytest.raises(Leave):
            outcome(colour, POLICY, Leave())

    def test_no_exception_passes(self, colour: str) -> None:
        class Odd(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        assert type(outcome(colour, POLICY, Odd()).error) is Odd


def test_an_outcome_of_plain_values_pickles() -> None:
    ended = outcome("sync", POLICY, ConnectionError("x"), "value")
    assert pickle.loads(pickle.dumps(ended)) == ended


def test_arguments_are_passed_on() -> None:
    script = Script("value")
    assert POLICY.outcome(script, 1, two=2).ok
    assert script.calls == [((1,), {"two": 2})]


# -- attempts_of() -------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
def test_the_record_says_what_every_attempt_did(colour: str) -> None:
    faults.register(LookupError, Fault(FaultKind.THROTTLED, 4.0, "busy"))
    played = play(
        colour, POLICY, took(0.5, ConnectionError("a")), LookupError("b"), took(0.25, ValueError("c"))
    )
    assert played.error is not None
    records = attempts_of(played.error)
    assert [one.number for one in records] == [1, 2, 3]
    assert [one.error for one in records] == ["ConnectionError: a", "LookupError: b", "ValueError: c"]
    assert [one.source for one in records] == ["computed", "hint", None]
    assert [one.fault.kind for one in records] == [
        FaultKind.AMBIGUOUS,
        FaultKind.THROTTLED,
        FaultKind.PERMANENT,
    ]
    assert [one.delay for one in records] == [1, pytest.approx(played.waits[1]), None]
    assert [one.started for one in records] == pytest.approx([0, 1.5, 1.5 + played.waits[1]], abs=2e-3)
    assert [one.elapsed for one in records] == pytest.approx([0.5, 0, 0.25], abs=2e-3)


def test_an_unknown_error_has_no_attempts() -> None:
    assert attempts_of(ValueError()) == ()


def test_the_record_of_an_outcome_is_the_same() -> None:
    ended = outcome("sync", POLICY, ValueError("x"))
    assert attempts_of(ended) == ended.records == attempts_of(ended.error or ValueError())


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]
)
def test_the_record_travels_with_the_error(copied: Callable[[Exception], Exception]) -> None:
    ended = outcome("sync", POLICY, *[ConnectionError("x")] * 3)
    assert ended.error is not None
    assert attempts_of(copied(ended.error)) == ended.records
    assert copied(ended.error).__notes__ == ended.error.__notes__


def test_the_record_holds_no_exception_object() -> None:
    ended = outcome("sync", POLICY, ConnectionError("x"), ValueError("y"))
    fields = [getattr(one, name) for one in ended.records for name in one.__slots__]
    assert not [field for field in fields if isinstance(field, BaseException)]

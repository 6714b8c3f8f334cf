"""What is retried: the classifier by default, ``on=``, ``never=``, ``reject=`` and the user's own verdict."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import perdure
from perdure import Fault, FaultKind, Retry, faults
from tests.harness import COLOURS, play


class Wanted(Exception):
    pass


class Narrower(Wanted):
    pass


class Other(Exception):
    pass


def calls(colour: str, error: Exception, **options: Any) -> int:
    """How often a function that always raises this error is called under attempts=3."""
    policy = Retry(attempts=3, backoff=perdure.Constant(0.1), **options)
    played = play(colour, policy, *[error] * 3)
    assert played.error is error
    return played.calls


@pytest.mark.parametrize("colour", COLOURS)
class TestByDefault:
    @pytest.mark.parametrize("kind", [ConnectionError, TimeoutError, ConnectionResetError, BrokenPipeError])
    def test_what_passes_is_retried(self, colour: str, kind: type[Exception]) -> None:
        assert calls(colour, kind()) == 3

    @pytest.mark.parametrize(
        "kind",
        [TypeError, AttributeError, KeyError, ValueError, AssertionError, RuntimeError, Other, OSError],
    )
    def test_bugs_and_unknown_errors_are_not(self, colour: str, kind: type[Exception]) -> None:
        assert calls(colour, kind()) == 1


FORMS = [
    Wanted,
    (Wanted,),
    (Wanted, ConnectionError),
    FaultKind.STALE,
    (FaultKind.STALE, FaultKind.NEUTRAL),
    (ConnectionError, FaultKind.STALE),
    lambda error: isinstance(error, Wanted),
    partial(lambda kind, error: isinstance(error, kind), Wanted),
    lambda error: "truthy" if isinstance(error, Wanted) else "",
]


@pytest.fixture(autouse=True)
def stale_wanted() -> None:
    faults.register(Wanted, FaultKind.STALE)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
class TestForms:
    def test_on_takes_types_kinds_tuples_and_one_predicate(self, colour: str, form: Any) -> None:
        assert calls(colour, Wanted(), on=form) == 3
        assert calls(colour, Narrower(), on=form) == 3
        assert calls(colour, Other(), on=form) == 1

    def test_never_takes_the_same_and_wins(self, colour: str, form: Any) -> None:
        assert calls(colour, Wanted(), on=(Wanted, Other), never=form) == 1
        assert calls(colour, Narrower(), on=(Wanted, Other), never=form) == 1
        assert calls(colour, Other(), on=(Wanted, Other), never=form) == 3


@pytest.mark.parametrize("colour", COLOURS)
class TestOn:
    def test_it_replaces_the_classifiers_yes(self, colour: str) -> None:
        assert calls(colour, ConnectionError(), on=Wanted) == 1

    def test_it_replaces_the_classifiers_no(self, colour: str) -> None:
        assert calls(colour, TypeError(), on=TypeError) == 3

    def test_an_empty_tuple_retries_nothing(self, colour: str) -> None:
        assert calls(colour, ConnectionError(), on=()) == 1

    def test_never_alone_takes_away_from_the_default(self, colour: str) -> None:
        assert calls(colour, ConnectionResetError(), never=ConnectionResetError) == 1
        assert calls(colour, ConnectionError(), never=ConnectionResetError) == 3

    def test_the_hint_still_comes_from_the_tables(self, colour: str) -> None:
        faults.register(Other, Fault(FaultKind.PERMANENT, 20.0))
        played = play(colour, Retry(on=Other), Other(), "ok")
        assert 20 <= played.waits[0] <= 30

    def test_the_kind_still_comes_from_the_tables(self, colour: str) -> None:
        faults.register(Other, FaultKind.AMBIGUOUS)
        assert calls(colour, Other(), on=Other, safety=perdure.Safety.UNSAFE) == 1
        assert calls(colour, Other(), on=Other, safety=perdure.Safety.KEYED) == 3


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("field", ["on", "never"])
def test_a_predicate_that_raises_says_no_and_is_reported_once(
    colour: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(error: Exception) -> bool:
        raise LookupError(error)

    assert calls(colour, ConnectionError(), **{field: broken}) == (1 if field == "on" else 3)
    complaints = [one.getMessage() for one in caplog.records if "was ignored" in one.getMessage()]
    assert len(complaints) == 1
    assert field in complaints[0]


@pytest.mark.parametrize("colour", COLOURS)
class TestVerdict:
    def test_a_permanent_mark_ends_the_call(self, colour: str) -> None:
        assert calls(colour, perdure.permanent(ConnectionError())) == 1

    def test_a_permanent_mark_beats_on(self, colour: str) -> None:
        assert calls(colour, perdure.permanent(Wanted()), on=Wanted) == 1

    def test_a_transient_mark_is_retried(self, colour: str) -> None:
        assert calls(colour, perdure.transient(ValueError())) == 3

    def test_a_transient_mark_beats_on(self, colour: str) -> None:
        assert calls(colour, perdure.transient(Other()), on=Wanted) == 3

    def test_never_beats_a_transient_mark(self, colour: str) -> None:
        assert calls(colour, perdure.transient(Other()), never=Other) == 1

    def test_the_time_of_a_transient_mark_is_the_least_delay(self, colour: str) -> None:
        played = play(colour, Retry(), perdure.transient(ValueError(), after=8.0), "ok")
        assert 8 <= played.waits[0] <= 12

    def test_a_mark_on_the_cause_counts(self, colour: str) -> None:
        error = RuntimeError("outer")
        error.__cause__ = perdure.transient(ValueError("inner"))
        assert calls(colour, error) == 3


@pytest.mark.parametrize("colour", COLOURS)
class TestReject:
    policy = Retry(attempts=3, backoff=perdure.Constant(0.1), reject=lambda value: value is None)

    def test_a_rejected_result_counts_as_a_failed_attempt(self, colour: str) -> None:
        played = play(colour, self.policy, None, None, "good")
        assert (played.value, played.calls) == ("good", 3)
        assert played.waits == [0.1, 0.1]

    def test_the_last_rejected_result_lies_in_the_error(self, colour: str) -> None:
        policy = self.policy.replace(reject=lambda value: value < 10)
        played = play(colour, policy, 1, 2, 3)
        assert isinstance(played.error, perdure.ResultRejected)
        assert played.error.result == 3

    def test_errors_and_rejected_results_share_the_attempts(self, colour: str) -> None:
        assert play(colour, self.policy, None, ConnectionError(), None).calls == 3

    def test_on_says_nothing_about_results(self, colour: str) -> None:
        assert play(colour, self.policy.replace(on=Wanted), None, "good").value == "good"

    def test_never_says_nothing_about_results(self, colour: str) -> None:
        assert play(colour, self.policy.replace(never=FaultKind.TRANSIENT), None, "good").value == "good"

    def test_what_it_answers_is_taken_as_true_or_false(self, colour: str) -> None:
        assert play(colour, self.policy.replace(reject=lambda value: value), "x", [1], "").value == ""

    def test_a_predicate_that_raises_accepts_and_is_reported(
        self, colour: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert play(colour, self.policy.replace(reject=lambda value: value.missing), "x").value == "x"
        assert [one for one in caplog.records if "reject=" in one.getMessage()]

    def test_a_base_exception_in_the_predicate_passes(self, colour: str) -> None:
        class Leave(BaseException):
            pass

        def leave(_value: object) -> bool:
            raise Leave

        assert isinstance(play(colour, self.policy.replace(reject=leave), "x").error, Leave)


def test_a_generator_function_is_not_asked_about_results() -> None:
    @perdure.retry(attempts=1, reject=lambda value: value is None)
    def numbers() -> Any:
        yield from range(3)

    assert list(numbers()) == [0, 1, 2]

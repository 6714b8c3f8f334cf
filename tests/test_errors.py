"""The tree of errors: who is whose parent, what they say, and that they pickle and copy."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Fault, FaultKind, errors

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSALS = [
    perdure.BreakerOpen,
    perdure.Overloaded,
    perdure.RateLimited,
    perdure.BulkheadFull,
    perdure.Isolated,
    perdure.ShuttingDown,
]
EXAMPLES = [
    perdure.PerdureError("plain"),
    *(kind("payments", "because", 2.5) for kind in (perdure.Refused, *REFUSALS)),
    *(kind() for kind in (perdure.Refused, *REFUSALS)),
    perdure.DeadlineExceeded(),
    perdure.DeadlineExceeded("the deadline of 2 s was exceeded"),
    perdure.AttemptTimeout(),
    perdure.AttemptTimeout("took too long", timeout=2.0),
    perdure.ResultRejected({"status": 503}),
    perdure.FaultyResponse("HTTP 503", status=503, fault=Fault(FaultKind.AMBIGUOUS, None, "HTTP 503")),
    perdure.ConfigError("base must be <= cap"),
]


def test_the_examples_hold_every_error_there_is() -> None:
    public = {value for value in vars(errors).values() if inspect.isclass(value)}
    assert {type(one) for one in EXAMPLES} == public == {getattr(errors, name) for name in errors.__all__}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_is_a_refusal(kind: type[perdure.Refused]) -> None:
    assert issubclass(kind, perdure.Refused)
    assert issubclass(perdure.Refused, perdure.PerdureError)


@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (perdure.DeadlineExceeded, (perdure.PerdureError, TimeoutError, OSError)),
        (perdure.AttemptTimeout, (perdure.PerdureError, TimeoutError, OSError)),
        (perdure.ResultRejected, (perdure.PerdureError,)),
        (perdure.FaultyResponse, (perdure.PerdureError,)),
        (perdure.ConfigError, (perdure.PerdureError, ValueError)),
    ],
)
def test_what_others_catch_them_as(kind: type[Exception], parents: tuple[type[Exception], ...]) -> None:
    assert all(issubclass(kind, parent) for parent in parents)
    assert not issubclass(kind, perdure.Refused)


def state(error: BaseException) -> tuple[object, ...]:
    names = ("dependency", "reason", "retry_after", "timeout", "result", "__notes__", "errno")
    return (type(error), str(error), error.args, *(getattr(error, name, None) for name in names))


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        *(
            lambda error, p=p: pickle.loads(pickle.dumps(error, p))
            for p in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
    ids=["copy", "deepcopy", *map(str, range(pickle.HIGHEST_PROTOCOL + 1))],
)
def test_they_pickle_and_copy_whole(error: Exception, copied: Callable[[Any], Any]) -> None:
    error.__notes__ = ["a note"]
    assert state(copied(error)) == state(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (perdure.Refused(), "refused"),
        (perdure.Refused("payments"), "payments: refused"),
        (
            perdure.BreakerOpen("payments", "5 failures", 12.0),
            "payments: refused, the breaker is open: 5 failures; call again after 12 s",
        ),
        (
            perdure.Overloaded(retry_after=0.25),
            "refused, the dependency is overloaded; call again after 0.25 s",
        ),
        (perdure.RateLimited("a"), "a: refused, over the rate limit"),
        (perdure.BulkheadFull("a"), "a: refused, the bulkhead is full"),
        (perdure.Isolated("a", "maintenance"), "a: refused, isolated by an operator: maintenance"),
        (perdure.ShuttingDown(), "refused, shutting down"),
        (perdure.DeadlineExceeded(), "the deadline was exceeded"),
        (perdure.AttemptTimeout(), "the attempt timed out"),
        (perdure.ResultRejected([1]), "result rejected: [1]"),
    ],
    ids=repr,
)
def test_what_they_say(error: Exception, text: str) -> None:
    assert str(error) == text


def test_a_refusal_tells_programs_what_it_tells_people() -> None:
    error = perdure.BreakerOpen("payments", "5 failures", 12.0)
    assert (error.dependency, error.reason, error.retry_after) == ("payments", "5 failures", 12.0)


def test_a_long_result_is_cut_in_the_message_but_not_in_the_error() -> None:
    error = perdure.ResultRejected("x" * 1000)
    assert len(str(error)) < 230
    assert len(str(error.result)) == 1000


def test_a_result_that_cannot_be_printed_hides_no_error() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    assert str(perdure.ResultRejected(Mute())).startswith("result rejected: ")


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
def test_every_error_can_be_told_apart_by_the_classifier(error: Exception) -> None:
    own = {
        **dict.fromkeys((perdure.Refused, *REFUSALS), "neutral"),
        perdure.DeadlineExceeded: "neutral",
        perdure.AttemptTimeout: "ambiguous",
        perdure.ResultRejected: "transient",
        perdure.FaultyResponse: "ambiguous",  # as its own fault says
        perdure.ConfigError: "permanent",
        perdure.PerdureError: "permanent",
    }
    assert perdure.classify(error).kind == own[type(error)]


@pytest.mark.parametrize("kind", {type(one) for one in EXAMPLES})
def test_the_docstring_is_written_for_people(kind: type[Exception]) -> None:
    assert kind.__doc__
    assert not kind.__doc__.startswith(f"{kind.__name__}(")

"""Errors and values travel between processes, and a forked child is a process of its own; B125, B126."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import (
    AttemptRecord,
    AttemptTimeout,
    BreakerOpen,
    BulkheadFull,
    ConfigError,
    Constant,
    DeadlineExceeded,
    Decorrelated,
    Event,
    Exponential,
    Fault,
    FaultKind,
    FaultyResponse,
    Fibonacci,
    Incremental,
    Isolated,
    Linear,
    Outcome,
    Overloaded,
    PerdureError,
    RateLimited,
    Refused,
    ResultRejected,
    Retry,
    Safety,
    Schedule,
    ShuttingDown,
    StopReason,
)
from perdure.testing import Script, VirtualClock, no_waits, record_events

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(perdure.__file__).parent.parent


def sent(value: Any, protocol: int | None = None) -> Any:
    """The value as another process would get it."""
    return pickle.loads(pickle.dumps(value, protocol))


COPIES: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {number}": partial(sent, protocol=number) for number in range(pickle.HIGHEST_PROTOCOL + 1)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
# Classes with slots and no __reduce__ of their own need protocol 2, as everywhere in Python.
MODERN_COPIES = [name for name in COPIES if name not in {"pickle 0", "pickle 1"}]

REFUSALS = [Refused, BreakerOpen, Overloaded, RateLimited, BulkheadFull, Isolated, ShuttingDown]
ERRORS: list[PerdureError] = [
    PerdureError("text", 2),
    *[kind("payments", "too many", 1.5) for kind in REFUSALS],
    *[kind() for kind in REFUSALS],
    *[kind(dependency="a", reason="b", retry_after=0.0) for kind in REFUSALS],
    DeadlineExceeded(),
    DeadlineExceeded("over"),
    AttemptTimeout(),
    AttemptTimeout("slow", timeout=2.5),
    FaultyResponse("HTTP 503", status=503, fault=Fault(FaultKind.AMBIGUOUS, None, "HTTP 503")),
    FaultyResponse(),
    ResultRejected({"status": "queued"}),
    ResultRejected(),
    ConfigError("attempts must be >= 1, got 0"),
]


class MyRefusal(Refused):
    """A user's own, with a constructor of its own."""

    def __init__(self, shop: str, *, tries: int) -> None:
        super().__init__("payments", f"closed: {shop}", 5.0)
        self.shop = shop
        self.tries = tries

    def __reduce__(self) -> tuple[Any, ...]:
        return _my_refusal, (self.shop, self.tries), self.__dict__


def _my_refusal(shop: str, tries: int) -> MyRefusal:
    return MyRefusal(shop, tries=tries)


def same_error(one: BaseException, other: BaseException) -> bool:
    return (type(one), one.args, str(one), repr(one), state_of(one)) == (
        *(type(other), other.args, str(other), repr(other)),
        state_of(other),
    )


def state_of(error: BaseException) -> dict[str, object]:
    return {name: value for name, value in vars(error).items() if name != "_perdure_trail"}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("error", [*ERRORS, MyRefusal("shop", tries=2)], ids=repr)
def test_every_public_error_pickles_and_copies(error: PerdureError, how: str) -> None:
    """B125: they pickled, and failed to unpickle."""
    error.add_note("from the user")
    again = COPIES[how](error)
    assert again is not error
    assert same_error(again, error)
    assert again.__notes__ == error.__notes__


def test_the_list_of_errors_above_is_complete() -> None:
    """B125: a new error joins it or fails here."""
    public = {one for name in perdure.__all__ if inspect.isclass(one := getattr(perdure, name))}
    assert {one for one in public if issubclass(one, BaseException)} <= {type(error) for error in ERRORS}


def is_flaky(error: Exception) -> bool:
    return "flaky" in str(error)


def is_queued(value: object) -> bool:
    return value == "queued"


def renew() -> None:
    """Stands for a refresh."""


BACKOFFS: list[perdure.Backoff] = [
    Exponential(),
    Exponential(base=1, factor=3, cap=60, jitter="none"),
    Exponential(jitter=0.25),
    Linear(step=1, cap=9),
    Incremental(first=1, step=2),
    Constant(2),
    Constant(2, jitter=0.5),
    Fibonacci(unit=2),
    Schedule([1, 2, 3]),
    Decorrelated(base=1, cap=9),
    Exponential(jitter="coherent").after_immediate(),
]
FAULT = Fault(FaultKind.THROTTLED, 2.5, "HTTP 429")
RECORD = AttemptRecord(1, 0.0, 0.25, FAULT, 2.75, "hint", "ConnectionRefusedError: no")
VALUES: list[Any] = [
    *BACKOFFS,
    Retry(),
    Retry(attempts=None, deadline=perdure.FOREVER),
    Retry(on=(OSError, FaultKind.TRANSIENT), never=KeyError, deadline=None, attempt_timeout=5, shrink=0.5),
    Retry(
        on=is_flaky,
        reject=is_queued,
        refresh=renew,
        on_exhausted="return",
        safety=Safety.KEYED,
        nested="both",
    ),
    Retry(backoff=Schedule([1, 2]), name="fetch", hint_cap=5),
    perdure.FOREVER,
    FAULT,
    RECORD,
    *FaultKind,
    *Safety,
    *StopReason,
    Event(name="retry.scheduled", operation="fetch", attempt=1, fault=FAULT, delay=2.75, at=1.0),
    Outcome(True, "value", None, StopReason.SUCCESS, 1, 0.5, "call-1"),
]


@pytest.mark.parametrize("how", MODERN_COPIES)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_every_public_value_pickles_and_copies_to_an_equal_one(value: Any, how: str) -> None:
    """B125: policies go to workers, events and outcomes come back."""
    again = COPIES[how](value)
    assert (type(again), again, repr(again)) == (type(value), value, repr(value))
    assert hash(again) == hash(value)


def test_explanations_and_the_current_call_travel_as_well() -> None:
    """B125."""
    explained = Retry(attempts=5).explain()
    assert sent(explained).as_dict() == explained.as_dict()
    assert str(copy.deepcopy(explained)) == str(explained)
    here = Retry(name="here").call(perdure.current)
    assert here is None or sent(here) == here
    seen = Retry(name="here").call(lambda: perdure.current())
    assert seen is not None
    assert sent(seen) == seen


@pytest.mark.parametrize("how", MODERN_COPIES)
@pytest.mark.parametrize(
    "policy", [one for one in VALUES if isinstance(one, Retry)], ids=lambda one: repr(one)[:40]
)
def test_a_policy_that_travelled_decides_as_before(policy: Retry, how: str) -> None:
    """B125: also in what no comparison shows, as the start of 1 s where the server throttles."""
    again = COPIES[how](policy)
    throttled = Fault(FaultKind.THROTTLED)
    perdure.faults.register(Throttled, throttled)
    outcomes = ["queued", Throttled(), ConnectionRefusedError("flaky"), KeyError("x")]
    for outcome in outcomes:
        assert decisions(again, outcome) == decisions(policy, outcome)


class Throttled(Exception):
    """429."""


def decisions(policy: Retry, outcome: object) -> tuple[Any, ...]:
    with VirtualClock(seed=3), record_events() as events:
        end = policy.replace(attempts=2).outcome(Script(outcome, "done"))
    return end.ok, end.value, end.attempts, end.stop, [event.delay for event in events]


TRAVELLERS = [ConnectionRefusedError(111, "no"), KeyError("bug"), AttemptTimeout("x", timeout=1)]


def failed(*errors: Exception) -> Exception:
    with VirtualClock(seed=1), pytest.raises(type(errors[-1])) as caught:
        Retry(attempts=len(errors)).call(Script(*errors))
    return caught.value


class Unpicklable:
    def __reduce__(self) -> str:
        raise TypeError("cannot be pickled")


def throttled() -> Exception:
    return perdure.transient(ConnectionRefusedError("no"), after=2.0)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("last", TRAVELLERS, ids=repr)
def test_the_attempts_behind_an_error_travel_with_it(last: Exception, how: str) -> None:
    """B125: records, note and all; to a worker's parent, a log, a queue."""
    last = copy.copy(last)
    failed(throttled(), ConnectionRefusedError("first"), last)
    again = COPIES[how](last)
    assert perdure.attempts_of(again) == perdure.attempts_of(last)
    assert [record.number for record in perdure.attempts_of(again)] == [1, 2, 3]
    assert again.__notes__ == last.__notes__


def test_an_error_that_was_raised_with_local_classes_before_still_travels() -> None:
    """B125: the record keeps text, so what an earlier attempt raised need not be picklable."""

    class Local(ConnectionRefusedError):
        def __init__(self) -> None:
            super().__init__("local")
            self.held = Unpicklable()

    again = sent(failed(Local(), Local(), ConnectionRefusedError("last")))
    assert [record.error for record in perdure.attempts_of(again)] == [
        *[f"{Local.__name__}: local"] * 2,
        "ConnectionRefusedError: last",
    ]


def test_an_error_whose_class_leaves_the_state_at_home_still_travels() -> None:
    """B125: a class of the user's, with a __reduce__ that knows nothing of us."""
    error = failed(ConnectionRefusedError("no"), KnowsNothing("last"))
    again = sent(error)
    assert (type(again), again.args, perdure.attempts_of(again)) == (KnowsNothing, ("last",), ())


class KnowsNothing(ConnectionRefusedError):
    def __reduce__(self) -> tuple[Any, ...]:
        return KnowsNothing, self.args


def test_an_outcome_travels_with_its_error_and_records() -> None:
    """B125."""
    with VirtualClock():
        outcome = Retry(attempts=2).outcome(Script(throttled(), BreakerOpen("payments", "open", 3.0)))
    again = sent(outcome)
    assert again.error is not None
    assert (again.error.dependency, again.error.retry_after) == ("payments", 3.0)
    assert (again.records, again.stop, again.call_id) == (outcome.records, outcome.stop, outcome.call_id)
    assert perdure.attempts_of(again) == outcome.records


def test_an_error_that_came_back_is_a_new_failure_for_the_caller() -> None:
    """B125: the mark of a call in another process says nothing about a call made here."""
    came_back = sent(failed(ConnectionRefusedError("1"), ConnectionRefusedError("2")))
    script = Script(came_back, came_back, "ok")
    with no_waits():
        assert Retry(attempts=3).call(script) == "ok"


def test_a_program_without_perdure_can_read_an_error_that_was_marked() -> None:
    """B125: a verdict is plain data; the process that reads it need not have the library."""
    data = pickle.dumps(perdure.transient(OSError("no"), after=1.0))
    program = (
        f"import pickle, sys; error = pickle.loads({data!r}); print(repr(error), 'perdure' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "OSError('no') False"


def test_an_attempt_is_counted_before_it_begins() -> None:
    """B126: a process that is killed in its first attempt has made one; listeners wrote it down before."""
    written: list[str] = []

    def work() -> None:
        current = perdure.current()
        assert current is not None
        written.append(f"running {current.attempt}")
        raise ConnectionRefusedError("no")

    perdure.listen(lambda event: written.append(f"{event.name} {event.attempt}"))
    with no_waits():
        Retry(attempts=2).outcome(work)
    begun = [line for line in written if line.startswith(("running", "attempt.start"))]
    assert begun == ["attempt.start 1", "running 1", "attempt.start 2", "running 2"]


def test_the_wall_clock_is_read_for_people_only() -> None:
    """An event that travelled still says when it was."""
    with VirtualClock(), record_events() as events:
        Retry(attempts=1).outcome(lambda: None)
    again = sent(events)
    assert {datetime.fromtimestamp(event.at, UTC).year for event in again} == {2030}

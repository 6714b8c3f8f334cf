"""The error that comes out is the function's own last one, clean with its story; B127-B129, B131, B133."""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Constant, Exponential, FaultKind, Retry, Safety, StopReason
from perdure.testing import Script, VirtualClock, disabled, no_waits, record_events, took
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLICY = Retry(attempts=3, backoff=Constant(0))


class MyError(ConnectionRefusedError):
    """What the user expects to catch."""


def notes_of(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", []) if note.startswith("perdure: ")]


@pytest.mark.parametrize("listen", [False, True])
@pytest.mark.parametrize("colour", COLOURS)
def test_the_original_last_error_comes_out_with_one_note(colour: str, listen: bool) -> None:
    """B127: `except MyError` matches, and nobody sets reraise."""
    errors = [MyError(str(number)) for number in range(3)]
    cause = KeyError("cause")
    errors[2].__cause__ = cause
    errors[2].add_note("from the user")
    played = play(colour, Retry(attempts=3, backoff=Constant(2)), *errors, listen=listen)
    assert played.error is errors[2]
    assert (errors[2].__cause__, errors[2].args) == (cause, ("2",))
    assert errors[2].__notes__[0] == "from the user"
    (note,) = notes_of(errors[2])
    for part in ("3 attempts", "4 s", "no attempts left"):
        assert part in note
    assert notes_of(errors[0]) == notes_of(errors[1]) == []


@pytest.mark.parametrize("colour", COLOURS)
def test_failures_of_earlier_attempts_are_no_context_of_later_ones(colour: str) -> None:
    """B128: each attempt runs outside of any except block; a value comes out without a trace of them."""
    errors = [MyError(str(number)) for number in range(3)]
    played = play(colour, POLICY, *errors)
    assert played.error is errors[2]
    for error in errors:
        assert (error.__context__, error.__cause__, error.__suppress_context__) == (None, None, False)


@pytest.mark.parametrize("colour", ["sync", "asyncio", "trio"])
def test_an_attempt_sees_no_error_that_is_being_handled(colour: str) -> None:
    """B128: sys.exception() in the function is what the caller is handling, if anything."""
    seen: list[object] = []

    def work() -> None:
        seen.append(sys.exc_info()[1])
        raise MyError("no")

    async def work_later() -> None:
        work()

    async def main() -> None:
        with pytest.raises(MyError):
            await POLICY(work_later)()

    for path in (no_waits(), VirtualClock()):
        with path:
            if colour == "sync":
                with pytest.raises(MyError):
                    POLICY(work)()
            else:
                run_async(colour, main)
    assert seen == [None] * 6


def test_the_callers_own_context_stays() -> None:
    """B128: what the user is handling while he calls is true context, for every attempt's error."""
    handled, last = KeyError("handled"), MyError("last")
    script = Script(MyError("first"), last, last)

    def handle() -> None:
        try:
            raise handled
        except KeyError:
            POLICY.call(script)

    with no_waits(), pytest.raises(MyError) as caught:
        handle()
    assert caught.value is last
    assert last.__context__ is handled


@pytest.mark.parametrize("colour", COLOURS)
def test_a_try_again_signal_brings_its_cause_not_itself(colour: str) -> None:
    """B128: transient() marks the error that it is given; what comes out at the end is that error."""

    def attempt() -> Exception:
        cause = OSError("really")
        error = perdure.transient(ValueError("try again"))
        error.__cause__ = cause
        return error

    errors = [attempt() for _ in range(3)]
    played = play(colour, POLICY, *errors)
    assert played.error is errors[2]
    assert isinstance(errors[2].__cause__, OSError)
    assert errors[2].__context__ is None


def test_a_block_swallows_an_error_without_leaving_it_to_the_next_body() -> None:
    """B128: previous failures leaked into the next block via __context__."""
    seen: list[BaseException | None] = []
    for attempt in POLICY:
        with attempt:
            error = MyError(str(attempt.number))
            if attempt.number < 3:
                raise error
            try:
                raise error
            except MyError as again:
                seen.append(again.__context__)
    assert seen == [None]


def cause_of_itself() -> Exception:
    error = MyError("snake")
    error.__cause__ = error
    return error


def causes_of_each_other() -> Exception:
    one, other = MyError("one"), MyError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def contexts_in_a_ring() -> Exception:
    ring = [MyError(str(number)) for number in range(5)]
    for one, following in zip(ring, [*ring[1:], ring[0]], strict=True):
        one.__context__ = following
    return ring[0]


def long_chain() -> Exception:
    first = last = MyError("first")
    for number in range(10_000):
        last.__cause__ = last = MyError(str(number))
    return first


def long_context() -> Exception:
    first = last = MyError("first")
    for number in range(10_000):
        last.__context__ = last = MyError(str(number))
    return first


def deep_groups() -> Exception:
    error: Exception = MyError("innermost")
    for _ in range(150):
        error = ExceptionGroup("group", [error])
    return error


def wide_group() -> Exception:
    return ExceptionGroup("group", [MyError(str(number)) for number in range(1000)])


def group_below_its_member() -> Exception:
    member = MyError("member")
    member.__cause__ = ExceptionGroup("group", [member, MyError("other")])
    return member


KNOTS = [
    cause_of_itself,
    causes_of_each_other,
    contexts_in_a_ring,
    long_chain,
    long_context,
    deep_groups,
    wide_group,
    group_below_its_member,
]


@pytest.mark.parametrize("nested", ["inner", "both"])
@pytest.mark.parametrize("knot", KNOTS, ids=lambda knot: knot.__name__)
@pytest.mark.parametrize("colour", COLOURS)
def test_no_chain_of_causes_is_too_long_or_too_round(
    colour: str, knot: Callable[[], Exception], nested: Any
) -> None:
    """B129: the walk never ended, and no stop condition was asked."""
    error = knot()
    try:
        played = play(colour, POLICY.replace(nested=nested), error, error, error)
        assert played.error is error
        assert played.calls == 3
    finally:
        error.__cause__ = error.__context__ = None


Links = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.booleans()), max_size=20)


@given(links=Links, groups=st.sets(st.integers(0, 7)), colour=st.sampled_from(COLOURS))
def test_any_web_of_causes_and_contexts_ends_after_the_same_attempts(
    links: list[tuple[int, int, bool]], groups: set[int], colour: str
) -> None:
    """B129: a web of errors and groups, linked at random."""
    web: list[Exception] = [MyError(str(number)) for number in range(8)]
    for number in sorted(groups):
        web[number] = ExceptionGroup("group", [web[number], web[(number + 1) % 8]])
    for one, other, is_cause in links:
        if is_cause:
            web[one].__cause__ = web[other]
        else:
            web[one].__context__ = web[other]
    try:
        played = play(colour, POLICY, web[0], web[0], web[0], listen=False)
        assert (played.error, played.calls) == (web[0], 3)
    finally:
        for error in web:
            error.__cause__ = error.__context__ = None


@pytest.mark.parametrize("colour", COLOURS)
def test_every_attempt_is_on_record_and_not_the_last_one_only(colour: str) -> None:
    """B131."""
    errors = [
        MyError("refused"),
        TimeoutError("slow"),
        perdure.transient(OSError("busy"), after=2.0),
        MyError("last"),
    ]
    played = play(colour, Retry(attempts=4, backoff=Constant(1)), *[took(0.5, error) for error in errors])
    assert played.error is errors[3]
    records = perdure.attempts_of(errors[3])
    assert [record.error for record in records] == [
        "MyError: refused",
        "TimeoutError: slow",
        "OSError: busy",
        "MyError: last",
    ]
    assert [record.number for record in records] == [1, 2, 3, 4]
    assert [record.source for record in records] == ["computed", "computed", "hint", None]
    assert [record.elapsed for record in records] == pytest.approx([0.5] * 4, abs=0.01)
    starts = [record.started or 0.0 for record in records]
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert records[2].delay is not None
    assert records[2].delay >= 2.0


@pytest.mark.parametrize("colour", COLOURS)
def test_the_record_of_a_long_call_is_bounded(colour: str) -> None:
    """B131: a loop that retries for weeks must not keep every attempt it ever made."""
    attempts = 1500
    error = MyError("x" * 10_000)
    played = play(colour, Retry(attempts=attempts, backoff=Constant(0)), *[error] * attempts, listen=False)
    assert (played.error, played.calls) == (error, attempts)
    records = perdure.attempts_of(error)
    assert 10 <= len(records) <= 1000
    assert records[-1].number == attempts
    assert f"{attempts} attempts" in notes_of(error)[0]
    assert max(len(record.error) for record in records) <= 1000


class Stale(Exception):
    """Needs a refresh."""


class Conflict(Exception):
    """Says nothing about the dependency."""


class Unsure(Exception):
    """May have happened."""


ENDINGS: dict[StopReason, tuple[Retry, list[object]]] = {
    StopReason.ATTEMPTS: (POLICY, [MyError()] * 3),
    StopReason.DEADLINE: (Retry(deadline=5, backoff=Constant(9)), [MyError()]),
    StopReason.PERMANENT: (POLICY, [KeyError("bug")]),
    StopReason.NEUTRAL: (POLICY, [perdure.Overloaded("payments")]),
    StopReason.UNSAFE: (Retry(safety=Safety.UNSAFE), [Unsure()]),
    StopReason.HINT: (Retry(hint_cap=1), [perdure.transient(MyError(), after=2)]),
    StopReason.REJECTED: (Retry(attempts=1, reject=bool), ["value"]),
}


@pytest.mark.parametrize("reason", ENDINGS)
@pytest.mark.parametrize("colour", COLOURS)
def test_the_last_failure_is_on_record_however_the_call_ends(colour: str, reason: StopReason) -> None:
    """B133: no traceback was stored when the limit was reached, or when there were no retries."""
    perdure.faults.register(Unsure, FaultKind.AMBIGUOUS)
    policy, outcomes = ENDINGS[reason]
    told: list[perdure.Outcome[Any]] = []
    played = play(colour, policy.replace(on_exhausted=told.append), *[fresh(one) for one in outcomes])
    assert isinstance(played.error, Exception)
    records = perdure.attempts_of(played.error)
    assert [record.number for record in records] == list(range(1, len(outcomes) + 1))
    assert (records[-1].delay, records[-1].source) == (None, None)
    assert records[-1].error.startswith(type(played.error).__name__)
    assert played.error.__traceback__ is not None
    assert len(notes_of(played.error)) == 1
    assert [event.reason for event in played.events if event.name == "call.end"] == [reason.value]
    assert [one.stop for one in told] == ([] if reason is StopReason.NEUTRAL else [reason])


def fresh(outcome: object) -> object:
    """The same error as a new object, verdict included."""
    return copy.copy(outcome) if isinstance(outcome, Exception) else outcome


def test_the_last_failure_is_on_record_when_retries_are_off() -> None:
    """B133: attempts=1, disabled, an argument that cannot be replayed, a shutdown in the wait."""

    def refuse(*_args: object) -> None:
        raise MyError("no")

    items = iter_once()
    next(items)
    calls: list[Callable[[], perdure.Outcome[Any]]] = [
        lambda: Retry(attempts=1).outcome(refuse),
        lambda: POLICY.outcome(refuse, items),
    ]
    for call in calls:
        outcome = call()
        assert [record.number for record in outcome.records] == [1]
        assert outcome.error is not None
        assert perdure.attempts_of(outcome.error) == outcome.records
    with disabled():
        assert [record.number for record in POLICY.outcome(refuse).records] == [1]


def iter_once() -> Iterator[int]:
    yield from (1, 2)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_delay_that_grows_does_not_change_which_error_comes_out(colour: str) -> None:
    """B127: with every backoff, the last attempt's error, never a wrapper's."""
    errors = [MyError(str(number)) for number in range(6)]
    with record_events() as events:
        played = play(colour, Retry(attempts=6, backoff=Exponential(base=1, cap=3)), *errors, listen=False)
    assert played.error is errors[5]
    assert [event.error for event in events if event.name == "call.end"] == ["MyError: 5"]

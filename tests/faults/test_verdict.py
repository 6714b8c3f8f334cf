from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import pytest

from perdure.errors import ConfigError
from perdure.faults import Fault, FaultKind, classify, permanent, register, transient


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class NoSetattrError(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class SlottedError(Exception):
    __slots__ = ("code",)


class GuardedError(Exception):
    """Answers for attributes it does not have, wrongly or with an error."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


class GuardedRefusal(GuardedError, ConnectionRefusedError):
    pass


class HidingError(Exception):
    def __getattribute__(self, name: str) -> object:
        if name.startswith("_perdure"):
            raise AttributeError(name)
        return super().__getattribute__(name)


MARKABLE = [
    ValueError("x"),
    OSError(2, "x"),
    KeyboardInterrupt(),
    FrozenError(3),
    NoSetattrError("x"),
    SlottedError("x"),
    GuardedError("x"),
]


@pytest.mark.parametrize("exc", MARKABLE, ids=lambda exc: type(exc).__name__)
def test_marks_return_the_same_object_and_the_last_one_counts(exc: BaseException) -> None:
    assert permanent(exc) is exc
    assert classify(exc) == Fault(FaultKind.PERMANENT, None, "marked permanent")
    assert transient(exc) is exc
    assert classify(exc) == Fault(FaultKind.TRANSIENT, None, "marked transient")
    assert transient(exc, after=2) is exc
    assert classify(exc) == Fault(FaultKind.TRANSIENT, 2.0, "marked transient")
    permanent(exc)
    assert classify(exc).kind is FaultKind.PERMANENT


@pytest.mark.parametrize("exc", [ValueError("x"), SlottedError("x"), OSError(2, "x")])
def test_marks_are_pickled_and_copied_with_the_exception(exc: Exception) -> None:
    transient(exc, after=0.5)
    for twin in (pickle.loads(pickle.dumps(exc)), copy.copy(exc), copy.deepcopy(exc)):
        assert twin is not exc
        assert classify(twin) == Fault(FaultKind.TRANSIENT, 0.5, "marked transient")


def test_a_pickled_mark_needs_no_perdure_to_load() -> None:
    assert b"perdure.faults" not in pickle.dumps(transient(ValueError("x"), after=1))


def test_a_mark_is_read_through_explicit_causes_before_anything_else() -> None:
    marked = transient(ValueError("marked"), after=4)
    middle = KeyError("middle")
    middle.__cause__ = marked
    top = TypeError("a bug by type")
    top.__cause__ = middle
    register(TypeError, FaultKind.NEUTRAL)
    assert classify(top).hint == 4.0
    marked.__cause__ = top  # a cycle
    assert classify(top).hint == 4.0
    top.__cause__, top.__context__ = None, marked  # not said by the user about this failure
    assert classify(top).kind is FaultKind.NEUTRAL


def test_the_nearest_mark_counts() -> None:
    top = permanent(ValueError())
    top.__cause__ = transient(OSError())
    assert classify(top).kind is FaultKind.PERMANENT


def test_a_class_that_fails_for_missing_attributes_is_classified_by_what_it_is() -> None:
    assert classify(GuardedRefusal()) == classify(ConnectionRefusedError())


@pytest.mark.parametrize("thing", ["text", ValueError, None])
def test_only_exception_instances_are_marked(thing: object) -> None:
    with pytest.raises(TypeError, match="takes an exception instance, got"):
        permanent(thing)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="takes an exception instance, got"):
        transient(thing)  # type: ignore[type-var]


def test_a_class_that_hides_the_mark_is_refused_in_words() -> None:
    exc = HidingError()
    with pytest.raises(TypeError, match=r"permanent\(\) cannot mark HidingError: .*register\(\)"):
        permanent(exc)
    assert vars(exc) == {}


@pytest.mark.parametrize("after", [-1, -0.001, float("nan"), float("inf"), "2", True, 10**400])
def test_a_delay_that_cannot_be_waited_is_refused(after: object) -> None:
    exc = ValueError()
    with pytest.raises(ConfigError, match="after must be a finite number of seconds >= 0, got"):
        transient(exc, after=after)  # type: ignore[arg-type]
    assert vars(exc) == {}


@pytest.mark.parametrize("junk", ["permanent", ("transient", "soon"), ("transient", float("nan")), 7])
def test_a_foreign_value_under_the_name_is_no_crash(junk: object) -> None:
    exc = ConnectionRefusedError()
    exc.__dict__["_perdure_verdict"] = junk
    assert isinstance(classify(exc), Fault)

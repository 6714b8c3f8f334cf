from __future__ import annotations

import copy
import pickle

import pytest

from perdure.errors import ConfigError
from perdure.faults import Fault, FaultKind, Retryable, Safety


def test_kinds_and_safeties_are_the_words_of_the_vocabulary() -> None:
    assert [str(kind) for kind in FaultKind] == [
        "transient",
        "throttled",
        "ambiguous",
        "stale",
        "permanent",
        "neutral",
    ]
    assert [str(safety) for safety in Safety] == ["safe", "keyed", "unsafe"]
    assert FaultKind.TRANSIENT == "transient"


@pytest.mark.parametrize(
    ("fault", "retryable"),
    [
        (Fault(FaultKind.TRANSIENT), Retryable.YES),
        (Fault(FaultKind.AMBIGUOUS), Retryable.YES),
        (Fault(FaultKind.THROTTLED), Retryable.YES),
        (Fault(FaultKind.THROTTLED, 3.0), Retryable.AFTER),
        (Fault(FaultKind.TRANSIENT, 3.0), Retryable.AFTER),
        (Fault(FaultKind.STALE), Retryable.NO),
        (Fault(FaultKind.PERMANENT, 3.0), Retryable.NO),
        (Fault(FaultKind.NEUTRAL), Retryable.NO),
    ],
)
def test_six_kinds_group_in_three(fault: Fault, retryable: Retryable) -> None:
    assert fault.retryable is retryable


def test_only_no_is_false() -> None:
    assert [bool(answer) for answer in Retryable] == [False, True, True]
    assert [str(answer) for answer in Retryable] == ["no", "yes", "yes with the server's delay"]


def test_a_fault_is_a_small_frozen_value() -> None:
    fault = Fault(FaultKind.THROTTLED, 2, "HTTP 429")
    assert (fault.hint, fault) == (2.0, Fault(FaultKind.THROTTLED, 2.0, "HTTP 429"))
    assert not hasattr(fault, "__dict__")
    with pytest.raises(AttributeError, match="frozen: cannot set hint"):
        fault.hint = 3.0
    with pytest.raises(AttributeError, match="frozen: cannot delete why"):
        del fault.why
    assert fault != ("throttled", 2.0, "HTTP 429")
    assert repr(fault) == "Fault(FaultKind.THROTTLED, hint=2.0, why='HTTP 429')"
    match fault:
        case Fault(kind, hint, why):
            assert (kind, hint, why) == (FaultKind.THROTTLED, 2.0, "HTTP 429")
    assert pickle.loads(pickle.dumps(fault)) == copy.copy(fault) == fault
    assert len({fault, copy.copy(fault)}) == 1


@pytest.mark.parametrize("hint", [-1, float("nan"), float("inf"), "2", True, 10**400])
def test_a_hint_no_engine_could_wait_for_is_refused(hint: object) -> None:
    with pytest.raises(ConfigError, match="hint must be a finite number of seconds >= 0, got"):
        Fault(FaultKind.TRANSIENT, hint)  # type: ignore[arg-type]


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind must be a FaultKind, got 'transient'"):
        Fault("transient")  # type: ignore[arg-type]

"""Exception classes that resist: whatever they do, they are retried, and the same object comes out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import perdure
from perdure import FaultKind, Retry, attempts_of, faults
from perdure.testing import Script, no_waits
from tests.harness import COLOURS, play

POLICY = Retry(attempts=2, backoff=perdure.Constant(1))
POST = SimpleNamespace(method="POST", headers={})


class Mute(ConnectionError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Falsy(ConnectionError):
    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0


class Untruthful(ConnectionError):
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class Incomparable(ConnectionError):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("like nothing else")

    __hash__ = None  # type: ignore[assignment]


class Noteless(ConnectionError):
    def add_note(self, note: str) -> None:
        raise RuntimeError(f"no notes: {note}")


class OddNotes(ConnectionError):
    __notes__ = "a string"  # type: ignore[assignment]


class Frozen(ConnectionError):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"frozen: {name} = {value!r}")


class Hiding(ConnectionError):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no dict")


class Guarded(ConnectionError):
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name}")


class Jealous(ConnectionError):
    def __getattribute__(self, name: str) -> object:
        if name in {"__class__", "__cause__", "__traceback__", "with_traceback"}:  # the last for trio itself
            return super().__getattribute__(name)
        raise RuntimeError(f"no {name}")


class Slotted(ConnectionError):
    __slots__ = ("request",)


HOSTILE = [
    Mute,
    Falsy,
    Untruthful,
    Incomparable,
    Noteless,
    OddNotes,
    Frozen,
    Hiding,
    Guarded,
    Jealous,
    Slotted,
]


@pytest.fixture(autouse=True)
def transient() -> None:
    for kind in HOSTILE:
        faults.register(kind, FaultKind.TRANSIENT)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_it_is_retried(colour: str, kind: type[Exception]) -> None:
    played = play(colour, POLICY, kind(), "ok")
    assert played.value == "ok"
    assert played.calls == 2


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_same_object_comes_out(colour: str, kind: type[Exception]) -> None:
    error = kind()
    played = play(colour, POLICY, error, error)
    assert played.error is error
    assert played.calls == 2
    assert played.events[-1].reason == "attempts"
    assert len(attempts_of(error)) == 2


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_fused_path_is_as_patient(kind: type[Exception]) -> None:
    error, ended = kind(), []
    for last in ("ok", error):
        try:
            with no_waits():
                ended.append(POLICY(Script(error, last))())
        except Exception as raised:  # noqa: BLE001 - by hand: pytest cannot print all of them
            ended.append(raised)
    assert [one is expected for one, expected in zip(ended, ("ok", error), strict=True)] == [True, True]


class WithRequest(Exception):
    """The request lies where no instance dict has it."""

    __slots__ = ("request",)

    def __init__(self) -> None:
        self.request = POST


class OfTheClass(Exception):
    request = POST


class Computed(Exception):
    @property
    def request(self) -> object:
        return POST


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("kind", [WithRequest, OfTheClass, Computed])
def test_a_request_is_seen_wherever_the_class_keeps_it(colour: str, kind: type[Exception]) -> None:
    faults.register(kind, FaultKind.AMBIGUOUS)
    assert play(colour, POLICY, kind(), "twice").calls == 1

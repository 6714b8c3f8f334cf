"""Faults whose effect may have happened are repeated only where that does no harm."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import perdure
from perdure import FaultKind, Retry, Safety, attempts_of, faults
from tests.harness import COLOURS, play

POLICY = Retry(attempts=2, backoff=perdure.Constant(1))


class Failed(Exception):
    """As HTTP libraries raise it: with the request it was about."""

    def __init__(self, method: str | None = None, **headers: str) -> None:
        super().__init__(method)
        self.request = None if method is None else SimpleNamespace(method=method, headers=headers)


def calls(colour: str, policy: Retry, error: Exception) -> int:
    return play(colour, policy, error, error).calls


@pytest.mark.parametrize("colour", COLOURS)
class TestAmbiguous:
    @pytest.fixture(autouse=True)
    def ambiguous(self) -> None:
        faults.register(Failed, FaultKind.AMBIGUOUS)

    @pytest.mark.parametrize(
        ("safety", "expected"), [(None, 2), (Safety.SAFE, 2), (Safety.KEYED, 2), (Safety.UNSAFE, 1)]
    )
    def test_the_policy_says_what_may_be_repeated(
        self, colour: str, safety: Safety | None, expected: int
    ) -> None:
        assert calls(colour, POLICY.replace(safety=safety), Failed()) == expected

    @pytest.mark.parametrize(
        ("method", "expected"),
        [("GET", 2), ("PUT", 2), ("DELETE", 2), ("POST", 1), ("PATCH", 1), ("CONNECT", 1)],
    )
    def test_without_a_word_of_the_policy_the_request_in_the_error_says_it(
        self, colour: str, method: str, expected: int
    ) -> None:
        assert calls(colour, POLICY, Failed(method)) == expected

    def test_a_request_with_an_idempotency_key_is_repeated(self, colour: str) -> None:
        assert calls(colour, POLICY, Failed("POST", **{"Idempotency-Key": "k"})) == 2

    @pytest.mark.parametrize(
        ("safety", "method", "expected"),
        [(Safety.SAFE, "POST", 2), (Safety.KEYED, "POST", 2), (Safety.UNSAFE, "GET", 1)],
    )
    def test_the_policy_outranks_the_request(
        self, colour: str, safety: Safety, method: str, expected: int
    ) -> None:
        assert calls(colour, POLICY.replace(safety=safety), Failed(method)) == expected

    def test_the_stop_is_called_unsafe_and_the_note_says_why(self, colour: str) -> None:
        error = Failed("POST")
        played = play(colour, POLICY, error)
        assert played.error is error
        assert played.events[-1].reason == "unsafe"
        assert "may have happened" in error.__notes__[0]
        assert [one.delay for one in attempts_of(error)] == [None]

    def test_on_does_not_lift_the_gate(self, colour: str) -> None:
        assert calls(colour, POLICY.replace(on=Failed), Failed("POST")) == 1


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT, FaultKind.THROTTLED])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_surely_did_not_happen_is_repeated_for_any_operation(
    colour: str, kind: FaultKind, method: str
) -> None:
    faults.register(Failed, kind)
    assert calls(colour, POLICY.replace(safety=Safety.UNSAFE), Failed(method)) == 2


@pytest.mark.parametrize("colour", COLOURS)
def test_an_attempt_cut_by_its_timeout_is_ambiguous(colour: str) -> None:
    assert calls(colour, POLICY, perdure.AttemptTimeout()) == 2
    assert calls(colour, POLICY.replace(safety=Safety.UNSAFE), perdure.AttemptTimeout()) == 1

"""What a content rule says of a rejected result reaches the policy: its kind, its delay, its words."""

from __future__ import annotations

import pytest

import perdure
from perdure import FaultKind, Retry
from perdure.content import rejects, slack
from tests.harness import COLOURS, play

LIMITED = {"ok": False, "error": "ratelimited"}


@pytest.mark.parametrize("colour", COLOURS)
def test_a_throttle_in_a_body_waits_as_a_throttle_does(colour: str) -> None:
    played = play(colour, Retry(reject=rejects(slack)), LIMITED, LIMITED, {"ok": True})
    assert played.value == {"ok": True}
    told = [event for event in played.events if event.name == "retry.scheduled"]
    assert [event.fault.kind for event in told if event.fault] == [FaultKind.THROTTLED] * 2
    assert all("ratelimited" in event.fault.why for event in told if event.fault)


def test_the_rule_is_named_when_the_call_is_given_up() -> None:
    @Retry(reject=rejects(slack), attempts=2)
    def ask() -> dict[str, object]:
        return {"ok": False, "error": "service_unavailable"}

    with perdure.testing.no_waits(), pytest.raises(perdure.ResultRejected) as caught:
        ask()
    assert "service_unavailable" in perdure.attempts_of(caught.value)[0].fault.why

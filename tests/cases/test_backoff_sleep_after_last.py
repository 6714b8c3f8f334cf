"""One wait too many, seen in other libraries; the ids are those of the catalogue of cases."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import FaultKind, Retry, faults
from perdure.testing import Script, no_waits
from tests.harness import COLOURS, play

ENDINGS: dict[str, tuple[dict[str, Any], list[object], int]] = {
    "attempts": ({}, [ConnectionError, ConnectionError, ConnectionError], 2),
    "a single attempt": ({"attempts": 1}, [ConnectionError], 0),
    "a bug after faults": ({}, [ConnectionError, TypeError], 1),
    "a deny list": ({"never": BrokenPipeError}, [ConnectionError, BrokenPipeError], 1),
    "an allow list": ({"on": ConnectionResetError}, [ConnectionResetError, ConnectionError], 1),
    "a verdict": ({}, [ConnectionError, perdure.permanent(ConnectionError())], 1),
    "a stale fault": ({}, [ConnectionError, LookupError], 1),
    "a hint": ({}, [ConnectionError, perdure.transient(ValueError(), after=1000)], 1),
    "the deadline": ({"deadline": 3.5}, [ConnectionError, ConnectionError], 1),
    "rejected results": ({"reject": lambda value: value == "bad"}, ["bad", "bad", "bad"], 2),
    "rejected but returned": (
        {"reject": lambda value: value == "bad", "on_exhausted": "return"},
        ["bad", "bad", "bad"],
        2,
    ),
    "success": ({}, [ConnectionError, "ok"], 1),
}


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_b061_nothing_is_waited_for_after_the_last_attempt(colour: str, ending: str) -> None:
    """toss/es-toolkit#1901, upstash/redis-js#1342 and others: fail, 2, fail, 2, fail, 2, raise."""
    faults.register(LookupError, FaultKind.STALE)
    options, outcomes, waits = ENDINGS[ending]
    policy = Retry(**{"attempts": 3, "backoff": perdure.Constant(2), **options})
    played = play(colour, policy, *outcomes)
    assert played.calls == len(outcomes)
    assert played.waits == [2] * waits
    assert played.elapsed == 2 * waits
    assert played.names[-1] == "call.end"
    assert played.events[-1].at - played.events[0].at == 2 * waits


def test_b061_nor_on_the_fused_path() -> None:
    with no_waits() as waits, pytest.raises(ConnectionError):
        Retry(attempts=3, backoff=perdure.Constant(2))(Script(*[ConnectionError()] * 3))()
    assert waits == [2, 2]

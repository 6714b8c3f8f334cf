"""Jitter faults of other libraries; the ids are those of the catalogue of cases."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Fault, FaultKind, Retry, faults
from tests.core import draws
from tests.harness import COLOURS, play


@given(draws.every, draws.retries, draws.shares, draws.shares)
def test_b054_jitter_never_passes_the_cap(backoff: perdure.Backoff, n: int, share: float, u: float) -> None:
    """openai/openai-agents-python#2676 and others: cap 10, jitter of 12.5 %: 11.25."""
    assert backoff.delay(n, None, lambda: share, u=u) <= backoff.cap


def test_b054_the_example() -> None:
    highest = perdure.Exponential(1, 2, 10, 0.125).delay(9, None, lambda: 1 - 2**-53)
    assert 9.9 < highest <= 10


@given(st.floats(0, 10), st.floats(0, 1, exclude_min=True), draws.shares)
def test_b055_jitter_never_gives_a_negative_delay(delay: float, jitter: float, share: float) -> None:
    """failsafe-lib/failsafe#115: delay 0.1, jitter of 0.2."""
    assert perdure.Constant(delay, jitter=jitter).delay(1, None, lambda: share) >= 0


@pytest.mark.parametrize("jitter", [1.0001, 2, 200])
def test_b055_a_fraction_that_could_is_refused(jitter: float) -> None:
    with pytest.raises(perdure.ConfigError, match=r"a fraction in \(0, 1\]"):
        perdure.Constant(0.1, jitter=jitter)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("jitter", ["full", "equal", "coherent", "none", 0.5, lambda _raw, _rng: 0.0])
def test_b056_jitter_never_shortens_what_the_server_asked_for(colour: str, jitter: Any) -> None:
    """HoneyryderChuck/httpx#141: Retry-After 3 times a factor of 0.5 to 1."""
    faults.register(LookupError, Fault(FaultKind.THROTTLED, 3.0))
    policy = Retry(attempts=20, deadline=None, backoff=perdure.Constant(1, jitter=jitter))
    played = play(colour, policy, *[LookupError()] * 20)
    assert len(played.waits) == 19
    assert all(3 <= wait <= 4.5 for wait in played.waits)


@pytest.mark.parametrize("attempts", [1, 2, 4, 10])
def test_b058_there_is_one_delay_less_than_attempts(attempts: int) -> None:
    """App-vNext/Polly#245: 3 retries, 4 delays."""
    assert len(Retry(attempts=attempts).delays()) == attempts - 1


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("attempts", [1, 2, 4, 10])
def test_b058_nor_is_there_another_wait(colour: str, attempts: int) -> None:
    played = play(colour, Retry(attempts=attempts, deadline=None), *[ConnectionError()] * attempts)
    assert (played.calls, len(played.waits)) == (attempts, attempts - 1)


FORKING = """
import os, sys
import perdure
from perdure.testing import Script, no_waits

def delays():
    with no_waits() as waits:
        perdure.Retry(attempts=6).outcome(Script(*[ConnectionError()] * 6))
    return waits

delays()  # chance was used before the fork
for _ in range(3):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, repr(delays()).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as lines:
        print(lines.read())
    os.wait()
print(delays())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_b059_forked_workers_draw_different_delays() -> None:
    """BaseIntelligence/bounty-challenge#4436: forked workers with the same generator come back together."""
    done = subprocess.run(
        [sys.executable, "-c", FORKING], check=True, capture_output=True, text=True, timeout=60
    )
    drawn = done.stdout.splitlines()
    assert len(drawn) == 4
    assert len(set(drawn)) == 4
    assert "[]" not in drawn

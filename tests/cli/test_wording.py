"""The sentences: what happened, what comes next, why it ended."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.cli.child.supervised import NOBODY_READS, Ran
from perdure.cli.record import Attempt, Ending, Request
from perdure.cli.rules import Rules, judge
from perdure.cli.wording import counting_down, ended, running, scheduled
from perdure.policies import Retry


def attempt(number: int, ran: Ran, **rules: Any) -> Attempt:
    return Attempt(number, 0.0, ran, judge(Rules(**rules), ran))


def request(**policy: Any) -> Request:
    return Request(command=("cmd",), policy=Retry(**{"deadline": None} | policy), rules=Rules())


@pytest.mark.parametrize(
    ("ran", "allowed", "delay", "sentence"),
    [
        (Ran(1, duration=0.2), 4, 0.4, "perdure: attempt 1 of 4 exited 1 after 200 ms; next in 400 ms"),
        (Ran(1, duration=0.0042), None, 0.0, "perdure: attempt 1 exited 1 after 4 ms; next at once"),
        (
            Ran(124, timed_out=True, timeout=90, duration=91),
            2,
            3600.0,
            "perdure: attempt 1 of 2 timed out after 1 min 30 s; next in 1 h",
        ),
        (
            Ran(139, signal=11, duration=65.0),
            2,
            1.5,
            "perdure: attempt 1 of 2 was killed by SEGV after 1 min 5 s; next in 1.5 s",
        ),
    ],
)
def test_a_failed_attempt(ran: Ran, allowed: int | None, delay: float, sentence: str) -> None:
    assert scheduled(attempt(1, ran), allowed, delay) == sentence


FAILED = Ran(1, duration=1.0)


ONCE = "perdure: attempt 1 of 4 exited 1 after 1 s; "


@pytest.mark.parametrize(
    ("ending", "last", "sentence"),
    [
        (
            Ending("attempts", 1, 9.0, 4),
            attempt(4, FAILED),
            "perdure: attempt 4 of 4 exited 1 after 1 s; gave up after 4 attempts in 9 s",
        ),
        (
            Ending("deadline", 124, 9.0, 1, refused=2.5),
            attempt(1, FAILED),
            f"{ONCE}gave up after 1 attempt in 9 s: the next wait, 2.5 s, would pass the deadline of 10 s",
        ),
        (
            Ending("deadline", 124, 10.1, 1),
            attempt(1, FAILED),
            f"{ONCE}gave up after 1 attempt in 10.1 s: the deadline of 10 s is over",
        ),
        (
            Ending("permanent", 1, 1.0, 1, why="1 is in --stop-exit 1"),
            attempt(1, FAILED),
            f"{ONCE}not retried: 1 is in --stop-exit 1",
        ),
        (Ending("success", 0, 1.0, 1), attempt(1, Ran(0)), ""),
        (
            Ending("success", 0, 3.0, 2),
            attempt(2, Ran(0, duration=0.5)),
            "perdure: attempt 2 of 4 succeeded after 500 ms (3 s in all)",
        ),
        (
            Ending("interrupted", 143, 1.0, 0, signal=15),
            None,
            "perdure: stopped by TERM before attempt 1 of 4",
        ),
        (
            Ending("interrupted", 130, 1.0, 1, signal=2),
            attempt(1, FAILED),
            "perdure: stopped by INT before attempt 2 of 4",
        ),
        (
            Ending("interrupted", 130, 1.0, 1, signal=2),
            attempt(1, Ran(130, signal=2, asked_to_stop=True)),
            "perdure: stopped by INT during attempt 1 of 4",
        ),
        (Ending("permanent", 141, 1.0, 1), attempt(1, Ran(141, signal=13, unread=NOBODY_READS)), ""),
        (Ending("permanent", 127, 1.0, 1), attempt(1, Ran(127, started=False)), ""),
    ],
)
def test_the_last_sentence(ending: Ending, last: Attempt | None, sentence: str) -> None:
    assert ended(request(deadline=10), ending, last) == sentence


def test_the_status_lines() -> None:
    assert running(2, 4, 12.3, None) == "perdure: attempt 2 of 4 has run for 12 s"
    assert running(2, None, 12.3, 30) == "perdure: attempt 2 has run for 12 s, timeout in 18 s"
    assert counting_down(2, 4, 3.42, None) == "perdure: attempt 2 of 4 in 3.4 s (Ctrl-C stops)"
    assert (
        counting_down(2, 4, 90.0, 120.0)
        == "perdure: attempt 2 of 4 in 1 min 30 s, deadline in 2 min (Ctrl-C stops)"
    )

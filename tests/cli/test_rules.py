"""What one run of the command means."""

from __future__ import annotations

import re

import pytest

from perdure.cli.child.supervised import Ran
from perdure.cli.rules import Rules, judge, meaning
from perdure.cli.values import read_codes

REFUSED = re.compile(b"refused")
QUOTA = re.compile(b"quota")


def codes(text: str):  # noqa: ANN201 - a Codes
    return read_codes(text, "f")


@pytest.mark.parametrize(
    ("rules", "ran", "kind", "why"),
    [
        (Rules(), Ran(0), "ok", ""),
        (Rules(), Ran(1), "again", ""),
        (Rules(), Ran(139, signal=11), "again", ""),
        (Rules(), Ran(124, timed_out=True, timeout=2), "again", ""),
        (Rules(), Ran(126), "stop", "126 says that it cannot be run"),
        (Rules(), Ran(127), "stop", "127 says that it cannot be run"),
        (Rules(retry_exit=codes("127")), Ran(127), "again", ""),
        (Rules(retry_exit=codes("127")), Ran(127, started=False), "stop", "127 says that it cannot be run"),
        (Rules(stop_exit=codes("2,64")), Ran(64), "stop", "64 is in --stop-exit 2,64"),
        (Rules(stop_exit=codes("2,64")), Ran(3), "again", ""),
        (Rules(retry_exit=codes("75")), Ran(75), "again", ""),
        (Rules(retry_exit=codes("75")), Ran(1), "stop", "1 is not in --retry-exit 75"),
        (Rules(retry_exit=codes("75")), Ran(124, timed_out=True), "stop", "124 is not in --retry-exit 75"),
        (Rules(retry_exit=codes("5"), stop_exit=codes("5")), Ran(5), "stop", "5 is in --stop-exit 5"),
        (Rules(retry_match=(REFUSED,)), Ran(1, found=frozenset([REFUSED])), "again", ""),
        (Rules(retry_match=(REFUSED,)), Ran(1), "stop", "the output did not match --retry-match"),
        (Rules(retry_match=(REFUSED,)), Ran(0, found=frozenset([REFUSED])), "ok", ""),
        (
            Rules(stop_match=(QUOTA,)),
            Ran(1, found=frozenset([QUOTA])),
            "stop",
            "the output matched --stop-match 'quota'",
        ),
        (
            Rules(),
            Ran(141, signal=13, unread="nobody reads the output any more"),
            "stop",
            "nobody reads the output any more",
        ),
        (Rules(until_fails=True), Ran(0), "again", ""),
        (Rules(until_fails=True), Ran(1), "ok", ""),
        (Rules(until_fails=True), Ran(124, timed_out=True), "ok", ""),
        (Rules(until_fails=True), Ran(127), "stop", "127 says that it cannot be run"),
        (Rules(until_fails=True, stop_exit=codes("2")), Ran(2), "stop", "2 is in --stop-exit 2"),
    ],
)
def test_the_verdict_on_a_run(rules: Rules, ran: Ran, kind: str, why: str) -> None:
    verdict = judge(rules, ran)
    assert (verdict.kind, verdict.why) == (kind, why)


def test_either_list_is_enough_for_a_retry() -> None:
    rules = Rules(retry_exit=codes("75"), retry_match=(REFUSED,))
    assert judge(rules, Ran(75)).kind == "again"
    assert judge(rules, Ran(1, found=frozenset([REFUSED]))).kind == "again"
    stopped = judge(rules, Ran(1))
    assert stopped.why == "1 is not in --retry-exit 75 and the output did not match --retry-match"


def test_a_failed_verification_fails_the_attempt_with_its_own_code() -> None:
    verdict = judge(Rules(), Ran(0), verified=Ran(4))
    assert (verdict.kind, verdict.code) == ("again", 4)
    assert verdict.event == "exited 0 but its verification exited 4"


def test_a_verification_that_cannot_be_run_ends_it() -> None:
    assert judge(Rules(), Ran(0), verified=Ran(127)).kind == "stop"


def test_successes_in_a_row_are_counted_from_the_streak_before() -> None:
    rules = Rules(consecutive=3)
    assert [judge(rules, Ran(0), streak=before).kind for before in (0, 1, 2)] == ["again", "again", "ok"]
    short = judge(rules, Ran(0), streak=1)
    assert (short.event, short.code, short.success) == ("succeeded (2 of 3 in a row)", 1, True)


@pytest.mark.parametrize(
    ("ran", "event"),
    [
        (Ran(3), "exited 3"),
        (Ran(137, signal=9), "was killed by KILL"),
        (Ran(128 + 64, signal=99), "was killed by 99"),
        (Ran(124, timed_out=True, timeout=0.25, duration=5.0), "timed out after 250 ms"),
        (Ran(127, started=False), "could not be started"),
    ],
)
def test_what_happened_is_said_in_words(ran: Ran, event: str) -> None:
    assert judge(Rules(), ran).event == event


@pytest.mark.parametrize(
    ("rules", "ran", "means"),
    [
        (Rules(), Ran(0), "success"),
        (Rules(consecutive=3), Ran(0), "success"),
        (Rules(), Ran(1), "failure"),
        (Rules(), Ran(139, signal=11), "failure"),
        (Rules(), Ran(124, timed_out=True), "failure"),
        (Rules(stop_exit=codes("124")), Ran(124, timed_out=True), "failure"),
        (Rules(stop_exit=codes("22")), Ran(22), "success"),
        (Rules(retry_exit=codes("75")), Ran(1), "success"),
        (Rules(stop_exit=codes("137")), Ran(137, signal=9), "nothing"),
        (Rules(), Ran(126), "nothing"),
        (Rules(), Ran(127, started=False), "nothing"),
        (Rules(retry_exit=codes("127")), Ran(127), "failure"),
        (Rules(), Ran(1, asked_to_stop=True), "nothing"),
        (Rules(), Ran(1, unread="nobody reads"), "nothing"),
    ],
)
def test_a_failure_that_no_retry_mends_is_an_answer_and_a_local_one_says_nothing(
    rules: Rules, ran: Ran, means: str
) -> None:
    """What a breaker counts: an answer of what the command calls, even a refusal, shows that it is there."""
    assert meaning(ran, judge(rules, ran)) == means

"""What the command is told: variables, evidence, and the end that an outer run set."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.cli.processes import Perdure, shell

SHOW = (
    'echo "$PERDURE_ATTEMPT/$PERDURE_MAX_ATTEMPTS $PERDURE_IDEMPOTENCY_KEY ${PERDURE_LAST_EXIT-none}"; exit 5'
)


def test_every_attempt_knows_its_number_and_they_share_one_key(perdure: Perdure) -> None:
    ended = perdure.run("--attempts", "3", "--", *shell(SHOW))
    words = [line.split() for line in ended.stdout.decode().splitlines()]
    assert [word[0] for word in words] == ["1/3", "2/3", "3/3"]
    assert [word[2] for word in words] == ["none", "5", "5"]
    keys = {word[1] for word in words}
    assert len(keys) == 1
    assert re.fullmatch("[0-9a-f]{32}", keys.pop())


def test_two_runs_have_two_keys_and_a_given_key_is_kept(perdure: Perdure) -> None:
    key = "echo $PERDURE_IDEMPOTENCY_KEY"
    first, second = (perdure.run("--", *shell(key)).stdout for _ in range(2))
    assert first != second
    assert perdure.run("--idempotency-key", "order-7", "--", *shell(key)).stdout == b"order-7\n"


def test_the_evidence_tells_a_retry_what_happened_before(perdure: Perdure) -> None:
    program = "cat $PERDURE_EVIDENCE; printf 'bad: \\377' >&2; exit 3"
    ended = perdure.run("--attempts", "3", "--", *shell(program))
    seen: list[Any] = [json.loads(line) for line in ended.stdout.decode().splitlines()]
    assert [one["schema"] for one in seen] == ["perdure.evidence/1"] * 3
    assert [len(one["attempts"]) for one in seen] == [0, 1, 2]
    last = seen[2]["attempts"][1]
    assert (last["attempt"], last["exit"], last["reason"], last["tail"]) == (2, 3, "exited 3", "bad: \ufffd")
    assert not list(perdure.cwd.glob("perdure-*")), "the file is removed in the end"


def test_the_evidence_is_for_this_user_only(perdure: Perdure) -> None:
    modes = perdure.run("--", *shell('stat -c %a "$PERDURE_EVIDENCE" "${PERDURE_EVIDENCE%/*}"'))
    assert modes.stdout == b"600\n700\n"


def test_the_deadline_is_told_as_a_moment(perdure: Perdure) -> None:
    before = time.time()
    told = float(perdure.run("--deadline", "1h", "--", *shell("echo $PERDURE_DEADLINE")).stdout)
    assert before + 3600 <= told <= time.time() + 3600


def test_without_a_deadline_nothing_is_told(perdure: Perdure) -> None:
    assert perdure.run("--", *shell("echo [$PERDURE_DEADLINE]")).stdout == b"[]\n"


def test_a_run_inside_a_run_keeps_to_the_outer_end(perdure: Perdure) -> None:
    """The inner one would wait an hour; the outer end leaves no room for that."""
    inner = '"$0" -m perdure.cli run --wait const:30m --deadline 1h -- sh -c "echo $PERDURE_DEADLINE; exit 3"'
    ended = perdure.run(
        "--attempts", "1", "--deadline", "10m", "--", "sh", "-c", inner, __import__("sys").executable
    )
    assert ended.returncode == 124
    assert (
        b"would pass the deadline of 10 min" in ended.stderr
        or b"would pass the deadline of 9 min" in ended.stderr
    )


def test_after_the_outer_end_a_command_runs_once(perdure: Perdure) -> None:
    env = {"PERDURE_DEADLINE": f"{time.time() - 5:.3f}"}
    ended = perdure.run("--", *shell("echo ran; exit 3"), env=env)
    assert (ended.returncode, ended.stdout) == (3, b"ran\n")


@pytest.mark.parametrize(
    ("variable", "value", "field"),
    [
        ("PERDURE_ATTEMPTS", "2", "attempts"),
        ("PERDURE_TIMEOUT", "2", "attempt_timeout"),
        ("PERDURE_DEADLINE", "2s", "deadline"),
    ],
)
def test_a_variable_stands_for_an_option_that_is_not_given(
    perdure: Perdure, variable: str, value: str, field: str
) -> None:
    report = perdure.run("--quiet", "--report", "-", "--", "true", env={variable: value})
    assert json.loads(report.stdout)["policy"][field] == 2


def test_single_attempts_when_perdure_is_disabled(perdure: Perdure) -> None:
    ended = perdure.run("--", *shell("echo x; exit 1"), env={"PERDURE_DISABLED": "1"})
    assert (ended.returncode, ended.stdout) == (1, b"x\n")

"""What is told to programs: one object at the end, a line per event, with names that stay."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from tests.cli.processes import Perdure, shell

FIELDS = {
    *("schema", "command", "ok", "exit", "stop", "why", "signal", "started_at", "elapsed", "idempotency_key"),
    *("policy", "attempts_made", "attempts", "failed_hooks", "retry_after"),
}
ATTEMPT_FIELDS = {
    *(
        "attempt",
        "exit",
        "signal",
        "timed_out",
        "verify_exit",
        "started",
        "duration",
        "result",
        "reason",
        "why",
    ),
    *("delay", "left_running", "tail"),
}


def read_report(perdure: Perdure, *args: str) -> dict[str, Any]:
    perdure.run("--report", "report.json", *args)
    report: dict[str, Any] = json.loads((perdure.cwd / "report.json").read_text())
    return report


def test_the_report_has_every_field_and_one_entry_per_attempt(perdure: Perdure) -> None:
    report = read_report(
        perdure, "--attempts", "2", "--wait", "const:10ms", "--", *shell("echo oh >&2; exit 3")
    )
    assert set(report) == FIELDS
    assert (report["schema"], report["ok"], report["exit"], report["stop"]) == (
        "perdure.run/1",
        False,
        3,
        "attempts",
    )
    first, second = report["attempts"]
    assert set(first) == set(second) == ATTEMPT_FIELDS
    assert (first["attempt"], first["exit"], first["reason"], first["result"]) == (1, 3, "exited 3", "failed")
    assert (first["delay"], second["delay"]) == (0.01, None)
    assert first["tail"] == "oh\n"
    assert 0 < first["duration"] <= second["started"] <= report["elapsed"]
    assert report["policy"]["attempts"] == 2


def test_the_report_of_a_success(perdure: Perdure) -> None:
    report = read_report(perdure, "--", "true")
    assert (report["ok"], report["exit"], report["stop"], report["why"]) == (True, 0, "success", None)
    assert [one["result"] for one in report["attempts"]] == ["ok"]


def test_the_result_of_each_attempt_is_named(perdure: Perdure) -> None:
    program = '[ "$PERDURE_ATTEMPT" != 1 ]'
    report = read_report(perdure, "--consecutive", "2", "--", *shell(program))
    assert [one["result"] for one in report["attempts"]] == ["failed", "ok so far", "ok"]
    stopped = read_report(perdure, "--stop-exit", "3", "--", *shell("exit 3"))
    assert [one["result"] for one in stopped["attempts"]] == ["failed for good"]


def test_the_report_of_a_command_that_is_not_there(perdure: Perdure) -> None:
    report = read_report(perdure, "--", "no-such-command-anywhere")
    assert (report["exit"], report["stop"], report["attempts"][0]["reason"]) == (
        127,
        "permanent",
        "could not be started",
    )


def test_json_is_one_line_on_stderr_and_stdout_stays_the_commands(perdure: Perdure) -> None:
    ended = perdure.run("--json", "--attempts", "2", "--", *shell("echo out; exit 1"))
    assert ended.stdout == b"out\nout\n"
    (line,) = ended.stderr.splitlines()
    assert json.loads(line)["stop"] == "attempts"


def test_a_report_on_stdout_comes_after_the_commands_output(perdure: Perdure) -> None:
    out, report = perdure.run("--report", "-", "--", "echo", "out").stdout.splitlines()
    assert (out, json.loads(report)["ok"]) == (b"out", True)


def test_arguments_that_are_no_text_are_still_reported(perdure: Perdure) -> None:
    ended = perdure.run("--json", "--", "printf", "\udcff")
    assert ended.stdout == b"\xff"
    assert json.loads(ended.stderr)["command"] == ["printf", "\udcff"]


def test_events_come_as_lines_in_order(perdure: Perdure) -> None:
    perdure.run("--events", "events", "--attempts", "2", "--on-retry", "exit 4", "--", "false")
    events = [json.loads(line) for line in (perdure.cwd / "events").read_text().splitlines()]
    assert [event["name"] for event in events] == [
        *("call.start", "attempt.start", "attempt.end", "retry.scheduled"),
        *("hook.failed", "attempt.start", "attempt.end", "retry.suppressed", "call.end"),
    ]
    assert {event["schema"] for event in events} == {"perdure.events/1"}
    assert all(one["at"] <= other["at"] for one, other in pairwise(events))
    assert (events[-1]["stop"], events[-1]["exit"], events[-1]["attempts"]) == ("attempts", 1, 2)


def test_events_are_written_while_it_runs(perdure: Perdure) -> None:
    """The command itself sees the event of its own start."""
    ended = perdure.run("--events", "events", "--", *shell("cat events"))
    assert b'"attempt.start"' in ended.stdout


def test_a_report_that_cannot_be_opened_is_said_before_anything_runs(perdure: Perdure) -> None:
    ended = perdure.run("--report", "no/such/folder", "--", *shell("echo x > ran"))
    assert ended.returncode == 125
    assert ended.stderr.startswith(b"perdure: ")
    assert b"no/such/folder" in ended.stderr
    assert not (perdure.cwd / "ran").exists()


def test_a_failed_hook_is_in_the_report(perdure: Perdure) -> None:
    report = read_report(perdure, "--attempts", "2", "--on-giveup", "exit 4", "--", "false")
    assert report["failed_hooks"] == [{"hook": "--on-giveup", "exit": 4, "reason": "exited 4"}]


def test_the_report_of_very_many_attempts_keeps_the_last_hundred(perdure: Perdure) -> None:
    report = read_report(perdure, "--quiet", "--attempts", "120", "--", "false")
    assert report["attempts_made"] == 120
    assert [one["attempt"] for one in report["attempts"]] == list(range(21, 121))

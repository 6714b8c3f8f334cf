"""Options, variables and policy files settle to one request, or to one line that says what cannot be."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from perdure.cli.app import invoke
from perdure.cli.record import Sharing
from perdure.cli.run import run
from perdure.cli.settle import settle
from perdure.core.backoff import Exponential
from perdure.core.shapes import Constant
from perdure.policies import FOREVER

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.cli.record import Request


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("PERDURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def request_of(*args: str) -> Request:
    with run.make_context("perdure run", [*args, "--", "cmd", "arg"]) as ctx:
        return settle(ctx.params)


def test_the_defaults_are_the_librarys_but_for_the_deadline() -> None:
    """A deadline of 30 s would keep every command that takes longer from ever being retried."""
    request = request_of()
    policy = request.policy
    assert request.command == ("cmd", "arg")
    assert (policy.attempts, policy.backoff) == (4, Exponential(base=0.1, factor=2, cap=5, jitter="full"))
    assert (policy.deadline, policy.attempt_timeout) == (None, None)
    assert (request.grace, request.stdin_limit, request.hold, request.stdin) == (5, 256 << 20, False, True)


def test_options_fill_the_policy() -> None:
    request = request_of("--attempts", "7", "--wait", "const:2s", "--timeout", "3s", "--deadline", "1m")
    policy = request.policy
    assert (policy.attempts, policy.backoff) == (7, Constant(2))
    assert (policy.attempt_timeout, policy.deadline) == (3, 60)


def test_unlimited_attempts_need_a_deadline_or_the_word() -> None:
    assert request_of("--attempts", "unlimited", "--deadline", "1h").policy.attempts is None
    assert request_of("--attempts", "unlimited", "--deadline", "forever").policy.deadline is FOREVER


def write_policies(folder: Path, name: str = "perdure.toml") -> None:
    (folder / name).write_text(
        '[policies.sync]\nattempts = 9\nattempt_timeout = "2s"\ndeadline = 45\n'
        'backoff = { kind = "constant", delay = "3s" }\n'
    )


def test_a_named_policy_comes_from_the_file(tmp_path: Path) -> None:
    write_policies(tmp_path)
    policy = request_of("--policy", "sync").policy
    assert (policy.attempts, policy.attempt_timeout, policy.deadline) == (9, 2, 45)
    assert policy.backoff == Constant(3)


def test_the_option_goes_before_the_variable_and_that_before_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_policies(tmp_path)
    monkeypatch.setenv("PERDURE_POLICY", "sync")
    monkeypatch.setenv("PERDURE_ATTEMPTS", "6")
    monkeypatch.setenv("PERDURE_TIMEOUT", "5s")
    policy = request_of("--attempts", "2").policy
    assert (policy.attempts, policy.attempt_timeout, policy.deadline) == (2, 5, 45)


def test_a_file_of_another_name_is_read_with_config(tmp_path: Path) -> None:
    write_policies(tmp_path, "other.toml")
    assert request_of("--policy", "sync", "--config", "other.toml").policy.attempts == 9


def test_presets_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_POLICY", "patient")
    assert (request_of().policy.attempts, request_of().policy.attempt_timeout) == (5, 30)


def test_a_pattern_in_a_variable_keeps_its_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_RETRY_MATCH", "connection refused")
    assert [one.pattern for one in request_of().rules.retry_match] == [b"connection refused"]


def test_a_flag_can_be_set_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_QUIET", "1")
    assert request_of().quiet


def test_a_duration_in_the_deadline_variable_is_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DEADLINE", "90s")
    assert request_of().policy.deadline == 90
    assert request_of("--deadline", "5s").policy.deadline == 5


def test_a_moment_in_the_deadline_variable_is_an_outer_end(monkeypatch: pytest.MonkeyPatch) -> None:
    end = time.time() + 100
    monkeypatch.setenv("PERDURE_DEADLINE", str(end))
    for request in (request_of(), request_of("--deadline", "1h")):
        assert request.policy.deadline == pytest.approx(100, abs=5)
        assert request.ends_at == pytest.approx(end)
    assert request_of("--deadline", "10s").policy.deadline == 10


USAGE = [
    (["--attempts", "0"], "--attempts must be a whole number >= 1 or \"unlimited\", got '0'"),
    (
        ["--attempts", "unlimited"],
        '--attempts unlimited needs --deadline (a duration, or "forever"), got none',
    ),
    (["--wait", "exp:9s..1s"], "--wait 'exp:9s..1s': base must be <= cap (1 s), got 9.0"),
    (["--timeout", "0"], "--timeout must be a duration of more than 0, got '0'"),
    (["--timeout", "soon"], "--timeout must be a duration of 0 or more"),
    (["--deadline", "0s"], "--deadline must be a duration of more than 0, got '0s'"),
    (["--grace", "-1"], "--grace must be a duration of 0 or more"),
    (["--policy", "nope"], "--policy must be one of interactive, background, patient, got 'nope'"),
    (
        ["--config", "x.toml"],
        "--config names a file of policies; say which with --policy, got --config 'x.toml'",
    ),
    (["--policy", "a", "--config", "no.toml"], "no.toml"),
    (
        ["--retry-exit", "0"],
        "--retry-exit must be exit codes from 1 to 255 or ranges, such as 1,75,100-120, got '0'",
    ),
    (["--stop-exit", "1-999"], "--stop-exit must be exit codes from 1 to 255"),
    (["--retry-match", "("], "--retry-match must be a regular expression, got '('"),
    (["--stop-match", "["], "--stop-match must be a regular expression, got '['"),
    (["--consecutive", "0"], "--consecutive must be a whole number >= 1, got '0'"),
    (["--consecutive", "5"], "--consecutive must be from 1 to --attempts (4), got 5"),
    (["--stdin-limit", "much"], "--stdin-limit must be a size of 0 bytes or more"),
    (
        ["--map-exit", "never=1"],
        "--map-exit must be NAME=CODE with NAME one of exhausted, deadline, timeout, stopped",
    ),
    (["--until-fails", "--verify", "x"], "--until-fails looks for any failure and does not go with --verify"),
    (["--until-fails", "--retry-exit", "1"], "does not go with --retry-exit"),
    (["--until-fails", "--retry-match", "1"], "does not go with --retry-match"),
    (["--until-fails", "--consecutive", "2"], "--until-fails does not go with --consecutive, got 2"),
    (["--atempts", "2"], "no such option '--atempts'; did you mean one of: '--attempts', '--state'?"),
    (["--gracee", "2"], "no such option '--gracee'; did you mean '--grace'?"),
    (["--breaker", ""], "--breaker must be a name of at least one character, got ''"),
    (["--breaker-failures", "2"], "--breaker-failures goes with --breaker NAME, got none"),
    (["--breaker-cooldown", "2s"], "--breaker-cooldown goes with --breaker NAME, got none"),
    (
        ["--breaker", "b", "--breaker-failures", "0"],
        "--breaker-failures must be a whole number >= 1, got '0'",
    ),
    (["--breaker", "b", "--breaker-cooldown", "0"], "--breaker-cooldown must be a duration of more than 0"),
    (["--lock-wait", "2s"], "--lock-wait goes with --lock NAME, got none"),
    (["--lock", "l", "--lock-wait", "long"], "--lock-wait must be a duration of 0 or more"),
    (["--until-fails", "--breaker", "b"], "does not go with --breaker"),
    (["--until-fails", "--budget", "b"], "does not go with --budget"),
    (["--attempts"], "option '--attempts' requires an argument"),
]


@pytest.mark.parametrize(
    ("args", "message"), USAGE, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_option_is_one_line_and_exit_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [] if args == ["--attempts"] else ["--", "true"]
    assert invoke(["run", *args, *command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("perdure run: ")
    assert message in line


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PERDURE_ATTEMPTS", "none", "PERDURE_ATTEMPTS must be a whole number >= 1"),
        ("PERDURE_WAIT", "long", "PERDURE_WAIT must be one of const:2s"),
        ("PERDURE_DEADLINE", "-1", "PERDURE_DEADLINE must be a duration"),
        ("PERDURE_QUIET", "perhaps", "PERDURE_QUIET"),
    ],
)
def test_a_wrong_variable_is_named_as_such(
    variable: str,
    value: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert invoke(["run", "--", "true"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_what_is_shared_is_settled_with_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert request_of().sharing is None
    monkeypatch.setenv("PERDURE_STATE", "file")
    assert request_of().sharing is None
    assert request_of("--budget", "b").sharing == Sharing(budget="b", state="file")
    plain = request_of("--breaker", "a", "--lock", "c", "--state", "other").sharing
    assert plain == Sharing("a", None, "c", failures=5, cooldown=60, lock_wait=0, state="other")
    given = request_of(
        *("--breaker", "a", "--breaker-failures", "3", "--breaker-cooldown", "10m"),
        *("--lock", "c", "--lock-wait", "forever"),
    )
    assert given.sharing == Sharing("a", None, "c", 3, 600, float("inf"), "file")


def test_a_wrong_policy_file_is_named_with_file_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "perdure.toml").write_text("[policies.sync]\nattempts = 0\n")
    assert invoke(["run", "--policy", "sync", "--", "true"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "perdure.toml" in line
    assert "attempts must be" in line


def test_an_empty_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "--", ""]) == 2
    assert capsys.readouterr().err == "perdure run: COMMAND must be the name of a program, got ''\n"


def test_a_missing_command_shows_how_one_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run"]) == 2
    assert capsys.readouterr().err.startswith("perdure run: COMMAND is missing, as in: perdure run -- curl")

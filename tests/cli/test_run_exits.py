"""The exit codes of ``perdure run``, with real commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.processes import Perdure, shell

if TYPE_CHECKING:
    from pathlib import Path


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def count(perdure: Perdure, name: str = "ran") -> int:
    """How often a command wrote a line to this file."""
    path = perdure.cwd / name
    return len(path.read_text().splitlines()) if path.exists() else 0


RAN = "echo x >> ran; "


@pytest.mark.parametrize(
    ("program", "options", "code", "attempts"),
    [
        ("exit 0", (), 0, 1),
        ("exit 7", (), 7, 4),
        ("exit 7", ("--attempts", "2"), 7, 2),
        ("exit 2", ("--stop-exit", "2,64"), 2, 1),
        ("exit 3", ("--retry-exit", "75,100-120"), 3, 1),
        ("exit 110", ("--retry-exit", "75,100-120", "--attempts", "2"), 110, 2),
        ("kill -SEGV $$", ("--attempts", "2"), 128 + 11, 2),
        ("exit 126", (), 126, 1),
        ("exit 127", (), 127, 1),
        ("exit 1", ("--attempts", "2", "--map-exit", "exhausted=75"), 75, 2),
        ("exit 2", ("--stop-exit", "2", "--map-exit", "exhausted=75,stopped=69"), 69, 1),
        ("exit 9", ("--deadline", "1s", "--wait", "const:30"), 124, 1),
        ("exit 9", ("--deadline", "1s", "--wait", "const:30", "--map-exit", "deadline=child"), 9, 1),
        ("sleep 60", ("--timeout", "100ms", "--attempts", "2"), 124, 2),
        ("sleep 60", ("--timeout", "100ms", "--attempts", "1", "--map-exit", "timeout=99"), 99, 1),
        ("exit 1", ("--until-fails",), 0, 1),
        ("exit 0", ("--until-fails", "--attempts", "3"), 1, 3),
        ("exit 0", ("--consecutive", "3"), 0, 3),
    ],
)
def test_the_exit_code_and_the_number_of_attempts(
    perdure: Perdure, program: str, options: tuple[str, ...], code: int, attempts: int
) -> None:
    ended = perdure.run(*options, "--", *shell(RAN + program))
    assert (ended.returncode, count(perdure)) == (code, attempts), ended.stderr.decode()


def test_a_command_that_is_not_there_is_127_and_one_line(perdure: Perdure) -> None:
    ended = perdure.run("--", "no-such-command-anywhere")
    assert ended.returncode == 127
    assert lines(ended.stderr) == ["perdure: no-such-command-anywhere: command not found"]


@pytest.mark.skipif(os.geteuid() == 0 and os.uname().sysname != "Linux", reason="needs an execute check")
def test_a_command_that_may_not_be_executed_is_126(perdure: Perdure) -> None:
    (perdure.cwd / "plain").write_text("hello")
    ended = perdure.run("--", "./plain")
    assert ended.returncode == 126
    assert lines(ended.stderr) == ["perdure: ./plain: not executable (permission denied)"]


def test_a_script_whose_interpreter_is_missing_says_so(perdure: Perdure) -> None:
    script = perdure.cwd / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ended = perdure.run("--", "./script")
    assert ended.returncode == 126
    assert b"its interpreter (the line after #!) does not exist" in ended.stderr


def test_a_script_without_a_first_line_is_run_by_a_shell_as_shells_do(perdure: Perdure) -> None:
    script = perdure.cwd / "script"
    script.write_text("echo $1\n")
    script.chmod(0o755)
    assert perdure.run("--", "./script", "a").stdout == b"a\n"


def test_success_after_a_retry_is_0_and_is_said(perdure: Perdure) -> None:
    ended = perdure.run("--attempts", "3", "--", *shell('[ "$PERDURE_ATTEMPT" = 2 ]'))
    assert ended.returncode == 0
    first, last = lines(ended.stderr)
    assert first.startswith("perdure: attempt 1 of 3 exited 1 after ")
    assert first.endswith("; next at once")
    assert last.startswith("perdure: attempt 2 of 3 succeeded after ")


def test_success_at_once_says_nothing(perdure: Perdure) -> None:
    ended = perdure.run("--", "true")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_giving_up_is_said_in_one_line_with_the_reason(perdure: Perdure) -> None:
    ended = perdure.run("--deadline", "1s", "--wait", "const:30s", "--", "false")
    (line,) = lines(ended.stderr)
    assert "; gave up after 1 attempt in " in line
    assert line.endswith(": the next wait, 30 s, would pass the deadline of 1 s")


def test_an_unlimited_run_ends_by_its_deadline(perdure: Perdure) -> None:
    ended = perdure.run(
        "--attempts", "unlimited", "--deadline", "300ms", "--wait", "const:50ms", "--", *shell(RAN + "exit 1")
    )
    assert ended.returncode == 124
    assert count(perdure) >= 2


def test_quiet_says_nothing_and_keeps_the_commands_own_words(perdure: Perdure) -> None:
    ended = perdure.run("--quiet", "--attempts", "2", "--", *shell("echo mine >&2; exit 1"))
    assert ended.stderr == b"mine\nmine\n"


def test_options_after_the_command_belong_to_the_command(perdure: Perdure) -> None:
    assert perdure.run("echo", "--attempts", "x").stdout == b"--attempts x\n"


def test_verification_decides_whether_an_exit_of_0_counts(perdure: Perdure) -> None:
    ended = perdure.run("--verify", '[ "$PERDURE_ATTEMPT" = 3 ]', "--", *shell(RAN))
    assert (ended.returncode, count(perdure)) == (0, 3)
    failed = perdure.run("--attempts", "2", "--verify", "exit 5", "--", "true")
    assert failed.returncode == 5
    assert b"attempt 2 of 2 exited 0 but its verification exited 5" in failed.stderr


def test_verification_shares_the_time_of_its_attempt(perdure: Perdure) -> None:
    ended = perdure.run("--attempts", "1", "--timeout", "200ms", "--verify", "sleep 60", "--", "true")
    assert ended.returncode == 124


def test_a_failure_breaks_a_row_of_successes(perdure: Perdure) -> None:
    program = RAN + '[ "$PERDURE_ATTEMPT" != 2 ]'
    ended = perdure.run("--consecutive", "2", "--attempts", "9", "--", *shell(program))
    assert (ended.returncode, count(perdure)) == (0, 4)


@pytest.mark.parametrize(
    "cut", [b"conn|ection refu|sed\n", b"connection refused|", b"a\nconnection re|fused\nb\n"]
)
def test_a_match_across_pieces_of_output_is_seen(perdure: Perdure, cut: bytes) -> None:
    """Each piece is written by itself, after the one before it was read by perdure."""
    pieces = cut.decode().split("|")
    program = "; ".join(f"printf '{piece}'; sleep 0.05" for piece in pieces).replace("\n", "\\n")
    ended = perdure.run(
        "--attempts", "2", "--retry-match", "^connection refused$", "--", *shell(f"{RAN}{program}; exit 1")
    )
    assert count(perdure) == 2
    assert ended.stdout.decode() == cut.decode().replace("|", "") * 2


def test_a_match_on_stderr_stops_and_both_streams_pass_unchanged(perdure: Perdure) -> None:
    ended = perdure.run("--stop-match", "over quota", "--", *shell("echo out; echo over quota >&2; exit 1"))
    assert (ended.returncode, ended.stdout) == (1, b"out\n")
    assert ended.stderr.startswith(b"over quota\nperdure: attempt 1 of 4 exited 1 after ")
    assert ended.stderr.endswith(b"; not retried: the output matched --stop-match 'over quota'\n")


def test_hooks_get_the_facts_and_a_failing_one_changes_nothing_and_is_reported_once(perdure: Perdure) -> None:
    ended = perdure.run(
        *("--attempts", "3", "--on-retry", "echo retry $PERDURE_ATTEMPT: $PERDURE_REASON; exit 4"),
        *("--on-giveup", "echo end $PERDURE_ATTEMPT $PERDURE_STOP $PERDURE_EXIT $PERDURE_LAST_EXIT"),
        *("--", *shell("exit 6")),
    )
    said = lines(ended.stderr)
    assert ended.returncode == 6
    assert ended.stdout == b""
    assert [line for line in said if not line.startswith("perdure: attempt")] == [
        "retry 2: exited 6",
        "perdure: --on-retry exited 4; it changes nothing and is not reported again",
        "retry 3: exited 6",
        "end 3 attempts 6 6",
    ]


def test_no_hook_runs_for_a_success_at_once(perdure: Perdure) -> None:
    ended = perdure.run("--on-retry", "echo no", "--on-giveup", "echo no", "--", "true")
    assert ended.stderr == b""


def test_a_temporary_folder_that_is_not_there_costs_the_evidence_only(
    perdure: Perdure, tmp_path: Path
) -> None:
    env = {"TMPDIR": str(tmp_path / "gone")}
    ended = perdure.run("--attempts", "2", "--", *shell('echo "[$PERDURE_EVIDENCE]"; exit 1'), env=env)
    assert (ended.returncode, ended.stdout) == (1, b"[]\n[]\n")

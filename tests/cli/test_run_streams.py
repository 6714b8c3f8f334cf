"""stdin for every attempt; stdout and stderr byte for byte, held or passed, and no more memory than needed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import BOUND, Perdure, python, read_until, shell

TEN_MEGABYTES = os.urandom(1 << 20) * 10
DIGEST = hashlib.sha256(TEN_MEGABYTES).hexdigest()
COUNT_AND_FAIL = (
    "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest()); sys.exit(1)"
)


def test_ten_megabytes_of_stdin_are_given_to_every_attempt(perdure: Perdure) -> None:
    ended = perdure.run("--attempts", "3", "--", *python(COUNT_AND_FAIL), stdin=TEN_MEGABYTES)
    assert ended.stdout.decode().split() == [DIGEST] * 3


def test_an_attempt_that_read_only_a_part_leaves_the_rest_to_the_next(perdure: Perdure) -> None:
    program = (
        "import os, sys; os.environ['PERDURE_ATTEMPT'] == '1' and (sys.stdin.buffer.read(10), sys.exit(1));"
        + (COUNT_AND_FAIL.replace("sys.exit(1)", "sys.exit(0)"))
    )
    ended = perdure.run("--", *python(program), stdin=TEN_MEGABYTES)
    assert ended.stdout.decode().split() == [DIGEST]


def test_a_file_is_read_again_from_where_it_stood(perdure: Perdure, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"skipped\nwanted\n")
    with (tmp_path / "data").open("rb", buffering=0) as file:
        file.read(len(b"skipped\n"))
        process = perdure.start(
            "run", "--wait", "const:0", "--attempts", "2", "--", *shell("cat; exit 1"), stdin=file
        )
        out, _ = process.communicate(timeout=BOUND)
    assert out == b"wanted\nwanted\n"


def test_stdin_over_the_limit_reaches_the_attempt_and_is_not_replayed(perdure: Perdure) -> None:
    ended = perdure.run("--stdin-limit", "1k", "--", *shell("wc -c; exit 3"), stdin=b"x" * 5000)
    assert (ended.returncode, ended.stdout.split()) == (3, [b"5000"])
    assert (
        b"not retried: stdin is larger than --stdin-limit (1 KiB) and cannot be given again" in ended.stderr
    )
    assert perdure.run("--stdin-limit", "1k", "--", "wc", "-c", stdin=b"x" * 5000).returncode == 0


def test_the_exit_code_for_stdin_that_cannot_be_replayed_can_be_mapped(perdure: Perdure) -> None:
    options = ("--stdin-limit", "0", "--map-exit", "unreplayable=65")
    assert perdure.run(*options, "--", *shell("cat; exit 3"), stdin=b"x").returncode == 65


def test_no_stdin_leaves_perdures_own_unread(perdure: Perdure) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"for somebody else")
    process = perdure.start("run", "--no-stdin", "--", "cat", stdin=ours)
    out, _ = process.communicate(timeout=BOUND)
    assert (out, os.read(ours, 100)) == (b"", b"for somebody else")
    os.close(ours)
    os.close(theirs)


def test_stdin_is_streamed_and_not_waited_for(perdure: Perdure) -> None:
    """The command answers the first line while stdin is still open."""
    process = perdure.start(
        "run", "--", *shell("read a; echo got $a; read b; echo got $b"), stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    read_until(process.stdout, b"got one\n")
    out, _ = process.communicate(b"two\n", timeout=BOUND)
    assert out == b"got two\n"


def test_a_command_that_closes_stdin_early_is_not_disturbed(perdure: Perdure) -> None:
    ended = perdure.run("--", *shell("exec <&-; echo done"), stdin=TEN_MEGABYTES)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"done\n", b"")


def test_output_passes_byte_for_byte(perdure: Perdure) -> None:
    data = bytes(range(256)) * 3
    program = f"import os; os.write(1, {data!r}); os.write(2, {data[::-1]!r})"
    ended = perdure.run("--", *python(program))
    assert (ended.stdout, ended.stderr) == (data, data[::-1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="read from /proc")
@pytest.mark.parametrize("options", [(), ("--stop-match", "never", "--quiet")])
def test_huge_output_passes_without_growing_memory(perdure: Perdure, options: tuple[str, ...]) -> None:
    """200 MB go through; the resident size of perdure is read while they do."""
    program = "head -c 200000000 /dev/zero"
    process = perdure.start("run", *options, "--", *shell(f"{program} >&2"))
    assert process.stderr is not None
    size, sizes = 0, [0]
    while data := os.read(process.stderr.fileno(), 1 << 20):
        size += len(data)
        sizes.append(resident_kilobytes(process.pid))
    assert (size, process.wait(BOUND)) == (200_000_000, 0)
    assert max(sizes) < 100_000


def resident_kilobytes(pid: int) -> int:
    """What a process holds now; what the system tells of its largest begins with its parent's size."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def test_both_streams_into_one_pipe_keep_the_order_of_their_lines(perdure: Perdure) -> None:
    program = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done"
    process = perdure.start("run", "--", *shell(program), stderr=subprocess.STDOUT)
    out, _ = process.communicate(timeout=BOUND)
    assert out.decode().split() == [f"{stream}{n}" for n in range(1, 10) for stream in ("out", "err")]


def test_a_slow_reader_slows_the_command_and_gets_everything(perdure: Perdure) -> None:
    process = perdure.start("run", "--stop-match", "never", "--", *shell("head -c 3000000 /dev/zero"))
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 10)
    read_until(process.stdout, b"\0" * 4096)
    out, _ = process.communicate(timeout=BOUND)
    assert len(first) + len(out) <= 3_000_000
    assert process.returncode == 0


def test_held_output_is_that_of_the_successful_attempt_only(perdure: Perdure) -> None:
    program = 'echo part$PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 3 ] && echo whole'
    ended = perdure.run("--hold", "--", *shell(program))
    assert (ended.returncode, ended.stdout) == (0, b"part3\nwhole\n")


def test_held_output_of_a_run_that_fails_never_comes_out(perdure: Perdure) -> None:
    ended = perdure.run("--hold", "--", *shell("echo half; exit 1"))
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_held_output_larger_than_memory_comes_out_whole(perdure: Perdure) -> None:
    ended = perdure.run("--hold", "--", "cat", stdin=TEN_MEGABYTES)
    assert hashlib.sha256(ended.stdout).hexdigest() == DIGEST


def test_verification_reads_the_held_output(perdure: Perdure) -> None:
    ended = perdure.run("--hold", "--verify", "grep -q 2", "--", *shell("echo $PERDURE_ATTEMPT"))
    assert (ended.returncode, ended.stdout) == (0, b"2\n")


def test_a_reader_that_goes_away_ends_it_quietly_and_without_a_retry(perdure: Perdure) -> None:
    process = perdure.start("run", "--report", "report", "--", *shell("echo x >> ran; exec yes"))
    assert process.stdout is not None
    read_until(process.stdout, b"y\n")
    process.stdout.close()
    assert process.wait(BOUND) == 128 + 13
    assert process.stderr is not None
    assert process.stderr.read() == b""
    report = json.loads((perdure.cwd / "report").read_text())
    assert [one["why"] for one in report["attempts"]] == ["nobody reads the output any more"]


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_closed_for_the_command_too(perdure: Perdure, closing: str) -> None:
    """Started without 0, 1 or 2: no pipe of perdure's may land there, and the command still runs."""
    inner = '"$0" -m perdure.cli run --attempts 1 -- sh -c "echo hello; echo ran > ran" ' + closing
    done = subprocess.run(
        ["/bin/sh", "-c", inner, sys.executable],
        env=perdure.env,
        cwd=perdure.cwd,
        capture_output=True,
        timeout=BOUND,
        check=False,
    )
    assert (perdure.cwd / "ran").read_text() == "ran\n"
    assert done.stdout == (b"" if ">&-" in closing.replace("2>&-", "") else b"hello\n")


def test_descriptors_meant_for_the_command_reach_it(perdure: Perdure) -> None:
    ours, theirs = os.pipe()
    process = perdure.start(
        "run", "--", *python(f"import os; os.write({theirs}, b'through')"), pass_fds=(theirs,)
    )
    os.close(theirs)
    assert process.wait(BOUND) == 0
    assert os.read(ours, 100) == b"through"
    os.close(ours)


def test_what_a_command_leaves_running_does_not_hold_up_the_end(perdure: Perdure) -> None:
    """The background process keeps stderr open; perdure ends all the same, and leaves it alone."""
    ended = perdure.start("run", "--report", "report", "--", *shell("sleep 60 & echo $!"))
    assert ended.stdout is not None
    pid = int(ended.stdout.readline())
    try:
        assert ended.wait(BOUND) == 0
        os.kill(pid, 0)
        assert json.loads((perdure.cwd / "report").read_text())["attempts"][0]["left_running"] is True
    finally:
        os.kill(pid, 9)


def test_output_that_cannot_be_written_is_not_taken_for_a_broken_command(perdure: Perdure) -> None:
    """A full disk: the attempt ends, the reason is the disk's, and nothing is tried again."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = perdure.start("run", "--stop-match", "never", "--", *shell("echo x; exec yes"), stdout=full)
        _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 128 + 13
    assert err.endswith(b"; not retried: its output could not be written: No space left on device\n")


def test_a_command_that_fails_for_another_reason_is_retried_though_nobody_reads(perdure: Perdure) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = perdure.start("run", "--wait", "const:0", "--", *shell("echo x >> ran; exit 3"), stdout=theirs)
    os.close(theirs)
    assert process.wait(BOUND) == 3
    assert (perdure.cwd / "ran").read_text() == "x\n" * 4


def test_a_sentence_begins_a_line_where_the_command_left_off_in_the_middle_of_one(perdure: Perdure) -> None:
    ended = perdure.run("--attempts", "1", "--", *shell("printf half >&2; exit 1"))
    assert ended.stderr.startswith(b"half\nperdure: attempt 1 of 1 exited 1")

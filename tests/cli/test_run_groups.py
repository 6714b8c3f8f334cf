"""Nothing of an attempt outlives it: timeouts, signals, and processes left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.processes import BOUND, Perdure, is_running, python, read_until, shell, wait_for

STUBBORN = "trap '' TERM INT HUP; "


def pids(data: bytes) -> list[int]:
    return [int(line) for line in data.split() if line.isdigit()]


def test_a_timeout_ends_the_grandchildren_too(perdure: Perdure) -> None:
    program = "sh -c 'echo $$; sleep 60' & echo $$; wait"
    ended = perdure.run("--attempts", "1", "--timeout", "1s", "--", *shell(program))
    found = pids(ended.stdout)
    assert ended.returncode == 124
    assert len(found) == 2
    assert not any(map(is_running, found))


def test_what_ignores_term_is_killed_after_the_grace(perdure: Perdure) -> None:
    inner = STUBBORN.replace("'", '"') + "echo $$; sleep 60; sleep 60"
    program = f"{STUBBORN} sh -c '{inner}' & echo $$; wait; sleep 60"
    ended = perdure.run("--attempts", "1", "--timeout", "1s", "--grace", "200ms", "--", *shell(program))
    found = pids(ended.stdout)
    assert ended.returncode == 124
    assert len(found) == 2
    assert not any(map(is_running, found))


def test_a_grandchild_whose_leader_is_gone_dies_before_the_next_attempt(perdure: Perdure) -> None:
    """Each attempt looks whether what the one before left behind still runs."""
    program = (
        f"[ -f pid ] && kill -0 $(cat pid) 2>&- && grep -qv ') Z' /proc/$(cat pid)/stat 2>&- && echo OVERLAP;"
        f"( {STUBBORN} echo ready; exec sleep 60 >&- 2>&- ) & echo $! > pid; sleep 0.1; exit 1"
    )
    ended = perdure.run("--attempts", "3", "--grace", "100ms", "--", *shell(program))
    assert ended.returncode == 1
    assert ended.stdout.count(b"ready") == 3
    assert b"OVERLAP" not in ended.stdout
    assert not is_running(int((perdure.cwd / "pid").read_text()))


def test_a_stopped_process_can_still_be_ended(perdure: Perdure) -> None:
    ended = perdure.run("--attempts", "1", "--timeout", "700ms", "--", *shell("echo $$; kill -STOP $$"))
    assert ended.returncode == 124
    assert not is_running(pids(ended.stdout)[0])


CATCHES = """
import os, signal, sys
def caught(number, frame):
    print("got", signal.Signals(number).name[3:], flush=True)
    os._exit({0})
signal.signal(signal.SIG{1}, caught)
print("ready", flush=True)
while True: signal.pause()
"""


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_a_stopping_signal_is_passed_on_and_no_attempt_follows(perdure: Perdure, name: str) -> None:
    process = perdure.start("run", "--wait", "const:0", "--", *python(CATCHES.format(9, name)))
    read_until(process.stdout, b"ready\n")
    process.send_signal(getattr(signal, f"SIG{name}"))
    out, err = process.communicate(timeout=BOUND)
    assert (out, process.returncode) == (f"got {name}\n".encode(), 9), (
        "the command's own code, as it ended by itself"
    )
    assert err == f"perdure: stopped by {name} during attempt 1 of 4\n".encode()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_command_that_dies_of_the_signal_gives_128_plus_its_number(perdure: Perdure, name: str) -> None:
    process = perdure.start("run", "--", *python("import signal\nprint('ready', flush=True)\nsignal.pause()"))
    if name == "INT":
        process = perdure.start("run", "--", *shell("echo ready; exec sleep 60"))
    read_until(process.stdout, b"ready\n")
    number = getattr(signal, f"SIG{name}")
    process.send_signal(number)
    assert process.wait(BOUND) == 128 + number


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_a_user_signal_is_passed_on_and_nothing_ends(perdure: Perdure, name: str) -> None:
    process = perdure.start("run", "--", *python(CATCHES.format(0, name)))
    read_until(process.stdout, b"ready\n")
    process.send_signal(getattr(signal, f"SIG{name}"))
    out, _ = process.communicate(timeout=BOUND)
    assert (out, process.returncode) == (f"got {name}\n".encode(), 0)


def test_term_is_followed_by_kill_after_the_grace(perdure: Perdure) -> None:
    process = perdure.start(
        "run", "--grace", "200ms", "--", *shell(f"{STUBBORN} echo $$; while :; do sleep 1; done")
    )
    pid = pids(read_until(process.stdout, b"\n"))[0]
    process.terminate()
    assert process.wait(BOUND) == 128 + signal.SIGKILL
    assert not is_running(pid)


def test_a_second_interrupt_kills_at_once(perdure: Perdure) -> None:
    """The grace is an hour: only the second INT can end this in time."""
    program = CATCHES.format(0, "INT").replace("os._exit(0)", "pass")
    process = perdure.start("run", "--grace", "1h", "--", *python(program.replace('"ready"', "os.getpid()")))
    pid = pids(read_until(process.stdout, b"\n"))[0]
    process.send_signal(signal.SIGINT)
    read_until(process.stdout, b"got INT\n")
    never_earlier_than_the_bounce_of_one_key_press = 0.1
    signal.sigtimedwait([], never_earlier_than_the_bounce_of_one_key_press)
    process.send_signal(signal.SIGINT)
    assert process.wait(BOUND) == 128 + signal.SIGKILL
    assert not is_running(pid)


def test_a_signal_ends_the_wait_between_attempts_at_once(perdure: Perdure) -> None:
    process = perdure.start("run", "--wait", "const:1h", "--report", "report", "--", "false")
    read_until(process.stderr, b"next in 1 h\n")
    process.terminate()
    _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 128 + signal.SIGTERM
    assert err == b"perdure: stopped by TERM before attempt 2 of 4\n"
    report = json.loads((perdure.cwd / "report").read_text())
    assert (report["stop"], report["signal"], len(report["attempts"])) == ("interrupted", signal.SIGTERM, 1)


def test_an_ignored_signal_stays_ignored_for_perdure_and_its_command(perdure: Perdure) -> None:
    """As under nohup: HUP does nothing to either."""
    inner = '"$0" -m perdure.cli run -- sh -c "echo ready; read line; echo end \\$line"'
    program = f"trap '' HUP; exec {inner}"
    process = subprocess.Popen(
        ["/bin/sh", "-c", program, sys.executable],
        env=perdure.env,
        cwd=perdure.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    read_until(process.stdout, b"ready\n")
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(b"well\n", timeout=BOUND)
    assert (out, process.returncode) == (b"end well\n", 0)


def test_after_a_stopping_signal_nothing_is_left_running(perdure: Perdure) -> None:
    program = f"( {STUBBORN} exec sleep 60 ) & echo $!; wait"
    process = perdure.start("run", "--grace", "100ms", "--", *shell(program))
    pid = pids(read_until(process.stdout, b"\n"))[0]
    process.send_signal(signal.SIGINT)
    process.wait(BOUND)
    wait_for(lambda: not is_running(pid), "the grandchild outlived perdure")


def test_a_hanging_hook_is_interrupted_like_an_attempt(perdure: Perdure) -> None:
    process = perdure.start(
        *("run", "--wait", "const:0", "--on-retry", "echo hook; exec sleep 60", "--", "false"),
    )
    read_until(process.stderr, b"hook\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(BOUND) == 128 + signal.SIGTERM


def test_perdure_leads_no_group_that_it_did_not_make(perdure: Perdure) -> None:
    ended = perdure.run("--", *shell("ps -o pgid= -p $$; ps -o pgid= -p $PPID"))
    child, own = ended.stdout.split()
    assert child != own
    assert os.getpgid(0) != int(child)

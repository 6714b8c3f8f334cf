"""Many real processes at once share a breaker, a budget and a lock; whoever of them is killed wedges nothing."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.shared.lock import Lock
from perdure.cli.shared.store import Store
from tests.cli.processes import BOUND, Perdure, read_until, shell, wait_for

REFUSED = 75

CROWD = """
import os, sys
from perdure.cli import main, app
import perdure.cli.loop, perdure.cli.run, perdure.cli.settle, perdure.cli.shared, perdure.cli.launch
import perdure.engine.calls, perdure.engine.sync, perdure.engine.ending, perdure.cli.screen, perdure.cli.report
print("ready", flush=True)
sys.stdin.readline()
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
closed, gate = os.pipe()
for _ in range(int(sys.argv[1])):
    if not os.fork():
        os.close(gate)
        os.read(closed, 1)
        os._exit(main(sys.argv[2:]))
os.close(gate)
while True:
    try:
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    except ChildProcessError:
        break
"""
"""So many processes that all start at one moment; it prints their exit codes as they end."""

GATED = (
    "echo x >> ran; echo started; n=0; until [ -e go ] || [ $n = 1000 ]; do sleep 0.02; n=$((n + 1)); done"
)
"""Says that it runs, and goes on when there is a file of the name "go"."""


def crowd(perdure: Perdure, count: int, *args: str) -> subprocess.Popen[bytes]:
    """Start them all; what Python has to load for them, it has loaded before."""
    process = perdure.start_python("-c", CROWD, str(count), *args, stdin=subprocess.PIPE)
    read_until(process.stdout, b"ready\n")
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return process


def all_refused_but_one(process: subprocess.Popen[bytes], count: int) -> None:
    """Wait until all but one have ended, and see that they were refused."""
    seen: list[bytes] = []
    while len(seen) < count - 1:
        seen += [line for line in read_until(process.stdout, b"\n").split() if line.isdigit()]
    assert set(seen) == {b"%d" % REFUSED}


def codes(process: subprocess.Popen[bytes]) -> list[int]:
    out, _ = process.communicate(timeout=BOUND)
    return sorted(int(line) for line in out.split() if line.lstrip(b"-").isdigit())


def ran(perdure: Perdure) -> int:
    path = perdure.cwd / "ran"
    return len(path.read_text().splitlines()) if path.exists() else 0


def open_the_gate(perdure: Perdure) -> None:
    (perdure.cwd / "go").touch()


def file_of(perdure: Perdure) -> Path:
    return perdure.cwd / "state" / "perdure" / "shared.sqlite"


def state_of(perdure: Perdure) -> dict[str, Any]:
    ended = perdure("state", "--json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


BREAKER = ("--breaker", "b", "--breaker-failures", "1", "--breaker-cooldown")


def trip(perdure: Perdure, cooldown: str = "1ms") -> None:
    """Open the breaker; after the cooldown it lets one probe through."""
    ended = perdure.run(*BREAKER, cooldown, "--attempts", "1", "--", "false")
    assert ended.returncode == 1
    assert b"perdure: breaker 'b' opened for " in ended.stderr


def test_of_sixty_processes_at_once_one_probes_a_half_open_breaker(perdure: Perdure) -> None:
    """B142: the place of a probe is given in one step, however many ask."""
    trip(perdure)
    sixty = crowd(perdure, 60, "run", *BREAKER, "1ms", "--", *shell(GATED))
    all_refused_but_one(sixty, 60)
    assert ran(perdure) == 1
    open_the_gate(perdure)
    assert codes(sixty) == [0]
    assert ran(perdure) == 1


def test_forty_failing_processes_make_as_many_retries_as_their_budget_has(perdure: Perdure) -> None:
    """It starts with attempts - 1, whoever is first, and nothing is paid in while everything fails."""
    options = ("--budget", "b", "--attempts", "3", "--wait", "const:0", "--quiet")
    failing = crowd(perdure, 40, "run", *options, "--", *shell("echo x >> ran; exit 7"))
    assert codes(failing) == [7] * 40
    assert ran(perdure) == 40 + 2


def test_of_thirty_processes_at_once_one_has_the_lock(perdure: Perdure) -> None:
    thirty = crowd(perdure, 30, "run", "--lock", "l", "--", *shell(GATED))
    all_refused_but_one(thirty, 30)
    open_the_gate(perdure)
    assert codes(thirty) == [0]
    assert ran(perdure) == 1


def test_those_who_wait_for_a_lock_run_one_after_the_other(perdure: Perdure) -> None:
    program = "mkdir busy || echo clash; sleep 0.01; rmdir busy; echo x >> ran"
    six = crowd(
        perdure, 6, "run", "--attempts", "1", "--lock", "l", "--lock-wait", "forever", "--", *shell(program)
    )
    assert codes(six) == [0] * 6
    assert ran(perdure) == 6


def test_a_killed_holder_of_a_lock_does_not_wedge_it(perdure: Perdure) -> None:
    holder = perdure.start("run", "--lock", "l", "--", *shell(GATED))
    read_until(holder.stdout, b"started")
    refused = perdure.run("--lock", "l", "--", "true")
    assert refused.returncode == REFUSED
    (line,) = refused.stderr.decode().splitlines()
    assert line.startswith(f"perdure: not started: lock 'l' is held by process {holder.pid} ('sh') for ")
    holder.kill()  # and nobody waits for it: it stays a zombie
    wait_for(lambda: perdure.run("--lock", "l", "--", "true").returncode == 0, "the lock stayed held")
    open_the_gate(perdure)


def test_who_waits_for_a_lock_gets_it_when_its_holder_is_killed(perdure: Perdure) -> None:
    holder = perdure.start("run", "--lock", "l", "--", *shell(GATED))
    read_until(holder.stdout, b"started")
    waiting = perdure.start("run", "--lock", "l", "--lock-wait", "1m", "--", "echo", "mine")
    read_until(waiting.stderr, b"perdure: waiting for lock 'l', held by process ")
    holder.kill()
    assert waiting.communicate(timeout=BOUND)[0] == b"mine\n"
    assert waiting.returncode == 0
    open_the_gate(perdure)


def test_a_killed_prober_gives_its_place_back_at_once(perdure: Perdure) -> None:
    """B136: the lease of a command without --timeout lasts an hour, but its process is looked at."""
    trip(perdure)
    prober = perdure.start("run", *BREAKER, "1ms", "--", *shell(GATED))
    read_until(prober.stdout, b"started")
    refused = perdure.run(*BREAKER, "1ms", "--", "true")
    assert refused.returncode == REFUSED
    assert b"not started: breaker 'b' is half open, and another run is finding out" in refused.stderr
    (one,) = state_of(perdure)["breakers"]
    assert (one["state"], one["probes"]) == ("half_open", [prober.pid])
    prober.kill()
    wait_for(lambda: perdure.run(*BREAKER, "1ms", "--", "true").returncode == 0, "the place stayed taken")
    open_the_gate(perdure)


@pytest.mark.parametrize(
    ("options", "program", "signum", "code"),
    [
        ((), "exit 0", None, 0),
        (("--attempts", "1"), "exit 5", None, 5),
        ((), "exit 127", None, 127),
        ((), "echo started; exec sleep 60", signal.SIGTERM, 143),
        ((), "echo started; exec sleep 60", signal.SIGINT, 130),
        (("--wait", "const:1m"), "echo started; exit 1", signal.SIGTERM, 143),
        (("--wait", "const:1m"), "echo started; exit 1", signal.SIGINT, 130),
    ],
)
def test_a_lock_is_given_back_on_every_way_out(
    perdure: Perdure, options: tuple[str, ...], program: str, signum: int | None, code: int
) -> None:
    """Nothing of it is left in the file: it is not only that its holder is dead by then."""
    run = perdure.start("run", "--lock", "l", "--budget", "b", *options, "--", *shell(program))
    if signum is not None:
        read_until(run.stderr if options else run.stdout, b"next in" if options else b"started")
        run.send_signal(signum)
    run.communicate(timeout=BOUND)
    assert run.returncode == code
    with Store(file_of(perdure)) as store, store.looking() as tx:
        assert tx.names("lock") == []
        kept = tx.get("budget", "b")
    assert kept is None or kept.data["tokens"] >= 3 - (
        code == 5
    )  # the retry that was never made is paid back


def test_a_signal_ends_the_wait_for_a_lock(perdure: Perdure) -> None:
    holder = perdure.start("run", "--lock", "l", "--", *shell(GATED))
    read_until(holder.stdout, b"started")
    waiting = perdure.start("run", "--lock", "l", "--lock-wait", "forever", "--", "true")
    read_until(waiting.stderr, b"waiting for lock")
    waiting.send_signal(signal.SIGTERM)
    assert b"perdure: stopped by TERM before attempt 1 of 4" in waiting.communicate(timeout=BOUND)[1]
    assert waiting.returncode == 143
    open_the_gate(perdure)
    assert holder.wait(BOUND) == 0


def test_the_wait_for_a_lock_is_no_longer_than_the_deadline(perdure: Perdure) -> None:
    holder = perdure.start("run", "--lock", "l", "--", *shell(GATED))
    read_until(holder.stdout, b"started")
    options = ("--lock", "l", "--lock-wait", "forever", "--deadline", "200ms")
    assert perdure.run(*options, "--", "true").returncode == REFUSED
    open_the_gate(perdure)


def test_the_time_spent_waiting_for_a_lock_is_taken_from_the_deadline(perdure: Perdure) -> None:
    """The policy's clock starts with its first attempt, that of the user when the command is typed."""
    holder = perdure.start("run", "--lock", "l", "--", *shell(GATED))
    read_until(holder.stdout, b"started")
    options = ("--wait", "const:1h", "--lock", "l", "--lock-wait", "forever", "--deadline", "1h")
    waiting = perdure.start("run", *options, "--", "false")
    read_until(waiting.stderr, b"waiting for lock")
    open_the_gate(perdure)
    _, said = waiting.communicate(timeout=BOUND)
    assert waiting.returncode == 124
    assert b"the next wait, 1 h, would pass the deadline of 1 h" in said


def test_a_lock_that_was_taken_away_ends_the_run_before_its_next_attempt(perdure: Perdure) -> None:
    program = "import sys; from perdure.cli import main; from perdure.cli.shared.lock import Lock\n"
    program += "Lock.__init__.__kwdefaults__['lease'] = 0.03; sys.exit(main(sys.argv[1:]))"
    args = ("run", "--attempts", "2", "--wait", "const:0", "--lock", "l", "--", *shell(f"{GATED}; exit 7"))
    holder = perdure.start_python("-c", program, *args)
    read_until(holder.stdout, b"started")
    assert perdure("state", "reset", "--force", "l").returncode == 0
    with Store(file_of(perdure)) as store, store.changing() as tx:
        lock = Lock("l", "other")
        assert lock.take(tx) is None
    wait_for(lambda: beats_of(holder.pid) == 0, "the heart went on beating")
    open_the_gate(perdure)
    _, said = holder.communicate(timeout=BOUND)
    assert (holder.returncode, ran(perdure)) == (7, 1)
    assert said.endswith(b"perdure: attempt 2 of 2 not made: lock 'l' was taken away in the meantime\n")


def beats_of(pid: int) -> int:
    """How many threads a process has beside its main one."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())) - 1


def test_a_refused_start_is_told_with_the_time_to_come_back(perdure: Perdure) -> None:
    trip(perdure, "1h")
    ended = perdure.run(
        *BREAKER, "1h", "--report", "report", "--on-giveup", "echo $PERDURE_STOP", "--", "true"
    )
    assert ended.returncode == REFUSED
    assert b"perdure: not started: breaker 'b' is open; ask again in " in ended.stderr
    assert ended.stderr.endswith(b"breaker\n")
    report = json.loads((perdure.cwd / "report").read_text())
    assert (report["stop"], report["exit"], report["attempts_made"]) == ("breaker", REFUSED, 0)
    assert 0.8 * 3600 - BOUND < report["retry_after"] <= 3600
    assert report["why"].startswith("breaker 'b' is open; ask again in ")


@pytest.mark.parametrize(("code", "shown"), [("0", 0), ("9", 9), ("child", REFUSED)])
def test_a_refusal_can_have_another_exit_code(perdure: Perdure, code: str, shown: int) -> None:
    trip(perdure, "1h")
    assert perdure.run(*BREAKER, "1h", "--map-exit", f"refused={code}", "--", "true").returncode == shown


def test_a_retry_that_the_breaker_refuses_ends_with_the_commands_own_code(perdure: Perdure) -> None:
    ended = perdure.run(*BREAKER, "1h", "--events", "events", "--", *shell("echo x >> ran; exit 7"))
    assert (ended.returncode, ran(perdure)) == (7, 1)
    assert b"perdure: attempt 2 of 4 not made: breaker 'b' is open; ask again in " in ended.stderr
    events = [json.loads(line) for line in (perdure.cwd / "events").read_text().splitlines()]
    assert [event["name"] for event in events] == [
        *("call.start", "attempt.start", "breaker.opened", "attempt.end", "retry.scheduled"),
        *("breaker.rejected", "retry.suppressed", "call.end"),
    ]
    assert (events[2]["breaker"], events[2]["reason"]) == ("b", "failures")
    assert events[-2]["reason"] == events[-1]["stop"] == "breaker"


def test_a_budget_is_filled_by_success_and_says_when_it_is_empty(perdure: Perdure) -> None:
    options = ("--budget", "b", "--attempts", "2")
    assert perdure.run(*options, "--", "false").returncode == 1
    ended = perdure.run(*options, "--", *shell("echo x >> ran; exit 7"))
    assert (ended.returncode, ran(perdure)) == (7, 1)
    assert b"; not retried: budget 'b' has no retry left; successes fill it\n" in ended.stderr
    perdure.run("--consecutive", "4", *options[:2], "--", "true")
    (one,) = state_of(perdure)["budgets"]
    assert one == {"name": "b", "tokens": 0.4, "cap": 5.0}


def test_two_successful_probes_close_the_breaker(perdure: Perdure) -> None:
    trip(perdure)
    assert perdure.run(*BREAKER, "1ms", "--", "true").stderr == b""
    assert perdure.run(*BREAKER, "1ms", "--", "true").stderr == b"perdure: breaker 'b' closed\n"


NAMES = [
    "two words",
    "naïve ☃",
    "new\nline",
    "'; DROP TABLE shared; --",
    "\udcff\udcfe",
    "-x",
    "%s",
    "x" * 300,
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_will_do(perdure: Perdure, name: str) -> None:
    options = (f"--breaker={name}", f"--budget={name}", f"--lock={name}")
    ended = perdure.run(*options, "--", "true")
    assert (ended.returncode, ended.stderr) == (0, b"")
    found = state_of(perdure)
    assert [one["name"] for one in found["breakers"]] == [one["name"] for one in found["budgets"]] == [name]

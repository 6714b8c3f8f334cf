from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from perdure.faults import FaultKind, classify


@pytest.mark.parametrize(
    ("code", "kind", "why"),
    [
        (1, FaultKind.PERMANENT, "exit status 1"),
        (2, FaultKind.PERMANENT, "exit status 2"),
        (75, FaultKind.TRANSIENT, "exit status 75 (EX_TEMPFAIL)"),
        (-9, FaultKind.AMBIGUOUS, "killed by SIGKILL"),
        (-250, FaultKind.AMBIGUOUS, "killed by signal 250"),
        (None, FaultKind.PERMANENT, "exit status None"),
    ],
)
def test_an_exit_status_decides(code: int, kind: FaultKind, why: str) -> None:
    fault = classify(subprocess.CalledProcessError(code, ["x"]))
    assert (fault.kind, fault.why) == (kind, why)


def run(code: str, *, timeout: float = 60) -> subprocess.SubprocessError:
    with pytest.raises(subprocess.SubprocessError) as caught:
        subprocess.run([sys.executable, "-c", code], check=True, timeout=timeout)
    return caught.value


def test_a_real_process_that_asks_to_be_run_again() -> None:
    assert classify(run("raise SystemExit(75)")).kind is FaultKind.TRANSIENT


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_real_process_killed_by_a_signal() -> None:
    killed = run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert classify(killed).why == f"killed by {signal.SIGKILL.name}"


def test_a_real_process_that_outlives_its_timeout() -> None:
    assert classify(run("input()", timeout=0.0)).kind is FaultKind.AMBIGUOUS


def test_an_unknown_subprocess_error_is_unknown() -> None:
    assert classify(subprocess.SubprocessError()).why == "unknown exception type"

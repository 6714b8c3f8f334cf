"""Child processes by exit status: exceptions of `subprocess`."""

from __future__ import annotations

import signal

from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

_TEMPFAIL = 75  # sysexits.h EX_TEMPFAIL: "try again later", said by the program itself
_ASKED_LATER = Fault(FaultKind.TRANSIENT, None, "exit status 75 (EX_TEMPFAIL)")


def _called_process_error(exc: Any) -> Fault:
    code = exc.returncode
    if code == _TEMPFAIL:
        return _ASKED_LATER
    if isinstance(code, int) and code < 0:
        return Fault(FaultKind.AMBIGUOUS, None, f"killed by {_signal_name(-code)}")
    return Fault(FaultKind.PERMANENT, None, f"exit status {code}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


RULES: dict[str, Step] = {
    "subprocess.CalledProcessError": _called_process_error,
    "subprocess.TimeoutExpired": Fault(FaultKind.AMBIGUOUS, None, "child process timed out"),
}

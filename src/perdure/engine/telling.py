"""The events of a call, told to the listeners; every function here is called only when there are some."""

from __future__ import annotations

from perdure import events
from perdure.engine.naming import call_id, operation
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.core.decide import Again, Stop
    from perdure.engine.run import Run
    from perdure.faults import Fault


def call_started(run: Run) -> None:
    """A call came in on the general path."""
    _tell(run, "call.start", severity="debug")


def attempt_started(run: Run) -> None:
    """An attempt begins now."""
    _tell(run, "attempt.start", severity="debug", attempt=run.number)


def succeeded(run: Run, now: float) -> None:
    """An attempt gave the value of the call."""
    elapsed = None if run.began is None else now - run.began
    _tell(run, "attempt.end", severity="debug", attempt=run.number, elapsed=elapsed)
    _tell(run, "call.end", attempt=run.number, reason="success", elapsed=now - run.since())


def will_retry(run: Run, error: BaseException, fault: Fault, again: Again, now: float) -> None:
    """An attempt failed and another will follow."""
    _attempt_failed(run, error, fault, now)
    _tell(run, "retry.scheduled", attempt=run.number, fault=fault, delay=again.delay, reason=again.source)


def gave_up(run: Run, error: BaseException, fault: Fault, stop: Stop, now: float, *, waited: bool) -> None:
    """The call ends with this error; where the fault was one to retry, say what kept it from being retried."""
    if not waited:
        _attempt_failed(run, error, fault, now)
    reason = stop.reason.value
    if stop.reason is StopReason.DEADLINE:
        _tell(run, "deadline.exceeded", severity="warning", attempt=run.number, delay=stop.delay)
    _tell(
        run,
        "retry.suppressed",
        severity="debug" if stop.reason in {StopReason.PERMANENT, StopReason.NEUTRAL} else "warning",
        attempt=run.number,
        fault=fault,
        delay=stop.delay,
        reason=reason,
    )
    severity = "warning" if stop.reason is StopReason.NEUTRAL else "error"
    _tell(
        run,
        "call.end",
        severity=severity,
        attempt=run.number,
        fault=fault,
        reason=reason,
        error=_text(error),
        elapsed=now - run.since(),
    )


def refused(run: Run, error: BaseException, reason: StopReason) -> None:
    """The call ends before its first attempt."""
    _tell(
        run, "call.end", severity="warning", attempt=0, reason=reason.value, error=_text(error), elapsed=0.0
    )


def passed(run: Run, error: BaseException, now: float, *, waited: bool) -> None:
    """A BaseException such as a cancellation goes through."""
    if not waited:
        elapsed = None if run.began is None else now - run.began
        _tell(run, "attempt.end", severity="debug", attempt=run.number, reason="neutral", elapsed=elapsed)
    _tell(
        run, "call.end", attempt=run.number, reason="neutral", error=_text(error), elapsed=now - run.since()
    )


def _attempt_failed(run: Run, error: BaseException, fault: Fault, now: float) -> None:
    elapsed = None if run.began is None else now - run.began
    _tell(run, "attempt.end", attempt=run.number, fault=fault, error=_text(error), elapsed=elapsed)


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except Exception:  # noqa: BLE001 - an error that cannot be printed is still an error
        return type(error).__name__


def _tell(run: Run, name: str, *, severity: str = "info", **fields: object) -> None:
    events.emit(
        events.Event(
            name=name,
            severity=severity,
            operation=operation(run),
            call_id=call_id(run),
            **fields,  # type: ignore[arg-type] # the fields above, by their names
        )
    )

"""The events of a call, told to the listeners; every function here is called only when there are some."""

from __future__ import annotations

from perdure import events
from perdure.engine import logs
from perdure.engine.naming import call_id, named, operation
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.core.decide import Again, Stop
    from perdure.engine.run import Run
    from perdure.engine.state import State
    from perdure.errors import Refused
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


def refused_by(run: Run, refusal: Refused, reason: StopReason) -> None:
    """An attempt was not admitted."""
    if events.listeners and reason is not StopReason.SHUTDOWN:
        names = {StopReason.BREAKER: "breaker.rejected", StopReason.GATE: "gate.rejected"}
        name = names.get(reason, "limit.rejected")
        delay, why = refusal.retry_after, f"{type(refusal).__name__}: {refusal.reason}".rstrip(": ")
        _tell(run, name, severity="warning", delay=delay, reason=why)


def happened(run: Run, name: str, *, severity: str = "info", **fields: object) -> None:
    """Something else happened to a call."""
    if events.listeners:
        _tell(run, name, severity=severity, **fields)


def news(state: State, run: Run | None = None) -> None:
    """What happened to the state of a dependency, since it was last told; here no lock is held."""
    if state.whole is not None and state.whole.news:
        news(state.whole, run)
    if not state.news:
        return
    for name, fields in state.take_news():
        logs.news(state, name, fields)
        if events.listeners:
            given: dict[str, Any] = {"dependency": state.name, "severity": "info", **fields}
            given["key"] = state.text
            if run is not None:
                given.update(operation=operation(run), call_id=call_id(run))
            events.emit(events.Event(name=name, **given))


def _attempt_failed(run: Run, error: BaseException, fault: Fault, now: float) -> None:
    elapsed = None if run.began is None else now - run.began
    _tell(run, "attempt.end", attempt=run.number, fault=fault, error=_text(error), elapsed=elapsed)


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except Exception:  # noqa: BLE001 - an error that cannot be printed is still an error
        return type(error).__name__


def _tell(run: Run, name: str, *, severity: str = "info", **fields: object) -> None:
    dependency, key = named(run)
    events.emit(
        events.Event(
            name=name,
            severity=severity,
            operation=operation(run),
            dependency=dependency,
            key=key,
            call_id=call_id(run),
            **fields,  # type: ignore[arg-type] # the fields above, by their names
        )
    )

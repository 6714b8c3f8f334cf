"""How a call ends: what is left on the error, logged, told to listeners and hooks, and made an Outcome."""

from __future__ import annotations

from perdure import clock, events
from perdure.engine import logs, telling
from perdure.engine.hooks import ask
from perdure.engine.naming import call_id, operation
from perdure.engine.nesting import ENOUGH, enclosed
from perdure.engine.trail import Trail, add_note, attach, explain_stop, public
from perdure.outcome import Outcome, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from perdure.core.decide import Stop
    from perdure.engine.run import Run
    from perdure.faults import Fault


def succeeded(run: Run) -> None:
    """The call ends with a value."""
    run.stop = StopReason.SUCCESS
    if run.records:
        logs.recovered(run)
    if events.listeners:
        telling.succeeded(run, clock.monotonic())


def give_up(
    run: Run, error: Exception, fault: Fault, stop: Stop, now: float, *, waited: bool = False
) -> None:
    """The call ends with this error, which the driver raises; ``waited``: its attempt was told of before."""
    run.stop = stop.reason
    inner = enclosed(error, run)
    marked = stop.reason in ENOUGH and (run.allowed is None or run.allowed > 1)
    if inner is not None and not marked:  # the innermost mark stays, for layers further out
        who = f"{inner.operation} (call {inner.call_id})"
        add_note(error, f"not retried by {operation(run)}: {who} had already given up on it")
    else:
        note = explain_stop(run, stop, now - run.since(), fault.why)
        attach(error, Trail(run, stop.reason, now, marked=marked), note)
        logs.gave_up(run, error, fault, stop, note)
    if events.listeners:
        telling.gave_up(run, error, fault, stop, now, waited=waited)
    if run.policy.on_exhausted is not None and (stop.reason is not StopReason.NEUTRAL or stop.why):
        tell_exhausted(run, error)


def end_late(run: Run, stop: Stop, now: float) -> None:
    """A wait is over and no attempt may follow it: the call ends with the error that led to the wait."""
    error = run.error
    if error is not None:
        give_up(run, error, run.records[-1][3], stop, now, waited=True)


def refuse(run: Run, error: Exception, reason: StopReason) -> NoReturn:
    """The call ends before its first attempt, with an error of ours."""
    run.stop = reason
    if events.listeners:
        telling.refused(run, error, reason)
    try:
        raise error
    finally:
        del error


def passed(run: Run, error: BaseException, now: float) -> None:
    """A BaseException goes through at once; nothing is kept that would make a cycle."""
    run.stop = StopReason.NEUTRAL
    waited, run.error = run.error is not None, None
    if events.listeners:
        telling.passed(run, error, now, waited=waited)


def outcome(run: Run, value: Any, error: Exception | None) -> Outcome[Any]:
    """The call as a value, once it ended."""
    return Outcome(
        ok=error is None,
        value=value,
        error=error,
        stop=run.stop or StopReason.NEUTRAL,
        attempts=run.number,
        elapsed=clock.monotonic() - run.since(),
        call_id=call_id(run),
        records=tuple(public(raw, run.since()) for raw in run.records),
    )


def tell_exhausted(run: Run, error: Exception) -> None:
    """Hand the outcome of a call that was given up to ``on_exhausted``, where that is a function."""
    hook = run.policy.on_exhausted
    if callable(hook):
        ask(hook, "on_exhausted=", outcome(run, None, error))

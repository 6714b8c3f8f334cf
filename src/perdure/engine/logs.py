"""The built-in log lines, on the logger ``perdure``.

A retried attempt and a call that recovered are INFO, the final failure is ERROR (WARNING where the call was
refused or cancelled by design), at most one per second per operation and reason. Each record carries, as
attributes, timestamp (ISO 8601), operation, attempt ("2 of 5"), delay_ms, error (code and message), strategy,
outcome (success, retry, exhausted), total_duration_ms, and stop_reason and call_id.

``logging`` is not imported here before somebody else has, as without it there is no handler to write to; only a
hook that raised is worth that import.
"""

from __future__ import annotations

import sys

from perdure import clock
from perdure.core import backoff
from perdure.durations import human
from perdure.engine.naming import call_id, operation
from perdure.engine.naming import named as dependency_and_key
from perdure.faults.rules import UNDECIDED
from perdure.faults.safety import peek
from perdure.outcome import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger
    from typing import Any

    from perdure.core.decide import Stop
    from perdure.engine.run import Run
    from perdure.engine.state import State
    from perdure.errors import Refused
    from perdure.faults import Fault

INFO, WARNING, ERROR = 20, 30, 40
QUIET_FOR = 1.0
_REMEMBERED = 1000

_LINES: dict[str, tuple[int, str, float]] = {
    "breaker.opened": (WARNING, "breaker opened", 0.0),
    "breaker.half_open": (INFO, "breaker lets a probe through", QUIET_FOR),
    "breaker.closed": (INFO, "breaker closed", 0.0),
    "breaker.isolated": (WARNING, "isolated", 0.0),
    "breaker.restored": (INFO, "restored", 0.0),
    "gate.cut": (WARNING, "gate cut: signs of congestion", QUIET_FOR),
    "budget.empty": (
        WARNING,
        "budget empty: calls end with their first error instead of being repeated",
        60.0,
    ),
}
"""What is logged of a dependency's news: level, words, and for how many seconds not again."""

_logger: Logger | None = None
_last: dict[tuple[str, str], tuple[int, float]] = {}
_complained: set[int] = set()


def logger() -> Logger | None:
    """The logger ``perdure``, or None while the program has not imported logging."""
    global _logger, wants  # noqa: PLW0603 - found once
    if _logger is None and "logging" in sys.modules:
        import logging

        _logger = logging.getLogger("perdure")
        _logger.addHandler(logging.NullHandler())
        wants = _logger.isEnabledFor
    return _logger


def _find_out(level: int) -> bool:
    log = logger()
    return log is not None and log.isEnabledFor(level)


wants: Callable[[int], bool] = _find_out
"""Whether anyone wants lines of a level; the logger's own method once there is a logger."""


def retrying(run: Run, error: Exception, fault: Fault) -> None:
    """An attempt failed and another follows."""
    delay = run.delay or 0.0
    _write(
        INFO,
        f"{operation(run)}: attempt {_of(run)} failed ({_why(error, fault)}); "
        f"next in {human(delay)}{_asked(fault)}",
        _fields(run, error, outcome="retry", delay=delay),
    )


def recovered(run: Run) -> None:
    """A call that had failed got its value after all."""
    if wants(INFO):
        fields = _fields(run, None, outcome="success", delay=None)
        _write(INFO, f"{operation(run)}: recovered on attempt {_of(run)}", fields)


def gave_up(run: Run, error: Exception, fault: Fault, stop: Stop, note: str) -> None:
    """The call ends with an error."""
    level = WARNING if stop.reason is StopReason.NEUTRAL else ERROR
    if not wants(level) or not _is_due(operation(run), stop.reason.value):
        return
    fields = _fields(run, error, outcome="exhausted", delay=None)
    fields["stop_reason"] = stop.reason.value
    why = fault.why if fault.why not in UNDECIDED else ""
    last = "" if why and why in note else f"; last: {why or named(error)}"
    _write(level, f"{operation(run)}: {note}{last}", fields)


def complain(hook: object, what: str, error: BaseException) -> None:
    """Report a user's hook that raised, once per hook; it changes nothing."""
    if id(hook) in _complained:
        return
    if len(_complained) >= _REMEMBERED:
        _complained.clear()
    _complained.add(id(hook))
    import logging

    logging.getLogger("perdure").warning("%s raised and was ignored: %r", what, error, exc_info=error)


def refused(run: Run, refusal: Refused) -> None:
    """An attempt was refused before it was made."""
    name = type(refusal).__name__
    if wants(WARNING) and _is_due(str(refusal.dependency), name):
        fields: dict[str, object] = {
            "operation": operation(run),
            "dependency": refusal.dependency,
            "key": dependency_and_key(run)[1],
            "event": None,
            "reason": refusal.reason,
            "stop_reason": name,
            "outcome": "refused",
            "call_id": call_id(run),
        }
        _write(WARNING, f"{operation(run)}: {refusal}", fields)


def news(state: State, name: str, fields: dict[str, Any]) -> None:
    """What happened to a dependency: its breaker opened, its gate cut, its budget ran out."""
    if name not in _LINES:
        return
    level, line, period = _LINES[name]
    if not wants(level) or not _is_due(f"{state.name} {state.text}", name, period):
        return
    where = state.name if state.text is None else f"{state.name} [{state.text}]"
    reason, delay = fields.get("reason"), fields.get("delay")
    why = f" ({reason})" if reason else ""
    after = f" for {human(delay)}" if delay else ""
    given: dict[str, object] = {"dependency": state.name, "key": state.text, "event": name, "reason": reason}
    _write(level, f"{where}: {line}{after}{why}", given)


def warn(message: str, level: int = WARNING, **fields: object) -> None:
    """One line about a dependency, for those who listen to the logger."""
    if wants(level):
        _write(level, message, fields)


def forget() -> None:
    """Forget what was logged when (for tests)."""
    _last.clear()
    _complained.clear()


def _is_due(operation: str, reason: str, quiet_for: float = QUIET_FOR) -> bool:
    now, last = clock.monotonic(), _last.get((operation, reason))
    if last is not None and last[0] == clock.epoch and 0 <= now - last[1] < quiet_for:
        return False
    if len(_last) >= _REMEMBERED:
        _last.clear()
    _last[operation, reason] = clock.epoch, now
    return True


def _of(run: Run) -> str:
    return f"{run.number} of {'unlimited' if run.allowed is None else run.allowed}"


def _fields(run: Run, error: Exception | None, *, outcome: str, delay: float | None) -> dict[str, object]:
    from datetime import UTC, datetime

    kind, jitter = type(run.policy.backoff).__name__.lower(), run.policy.backoff.jitter
    named_by = dependency_and_key(run)
    return {
        "timestamp": datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="milliseconds"),
        "operation": operation(run),
        "dependency": named_by[0],
        "key": named_by[1],
        "event": None,
        "reason": None,
        "attempt": _of(run),
        "delay_ms": None if delay is None else round(delay * 1000, 3),
        "error": None if error is None else _error(error),
        "strategy": f"{kind}, {jitter if isinstance(jitter, str) else 'own'} jitter",
        "outcome": outcome,
        "total_duration_ms": round((clock.monotonic() - run.since()) * 1000, 3),
        "stop_reason": None,
        "call_id": call_id(run),
    }


def _why(error: Exception, fault: Fault) -> str:
    return named(error) if not fault.why or fault.why in UNDECIDED else fault.why


def _asked(fault: Fault) -> str:
    return f" (the server asks for {human(fault.hint)})" if fault.hint else ""


def named(error: BaseException) -> str:
    """Type and text of an error, for a line."""
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except Exception:  # noqa: BLE001 - an error that cannot be printed is still an error
        return type(error).__name__


def _error(error: Exception) -> dict[str, object]:
    """Code and message: the code is a status, SQLSTATE or errno name where there is one, else the type."""
    named = (peek(error, name) for name in ("status_code", "sqlstate", "sqlite_errorname", "code"))
    code: object = next((value for value in named if isinstance(value, (int, str))), None)
    number = peek(error, "errno") if isinstance(error, OSError) else None
    if code is None and isinstance(number, int):
        from errno import errorcode

        code = errorcode.get(number, number)
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot be printed is still an error
        message = "(cannot be printed)"
    return {"code": type(error).__name__ if code is None else code, "message": message}


def _write(level: int, message: str, fields: dict[str, object]) -> None:
    log = logger()
    if log is None:
        return
    try:
        log.log(level, message, extra=fields, stacklevel=2)
    except Exception:  # noqa: BLE001 - a filter or handler of the program that raises never changes the outcome
        return


backoff.report = complain

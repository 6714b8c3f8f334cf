"""Exceptions of the language and of the parts of the standard library that need no table of their own."""

from __future__ import annotations

from perdure.faults.chain import leaves
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.posix import (
    aborted_error,
    bare_connection_error,
    by_errno,
    permission_error,
    timeout_error,
)
from perdure.faults.rules import fault_of_leaf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["DENY", "EXACT", "RULES", "bad_json"]

_BUGS = (
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BufferError",
    "ImportError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "RecursionError",
    "ReferenceError",
    "StopAsyncIteration",
    "StopIteration",
    "SyntaxError",
    "SystemError",
    "TypeError",
    "ValueError",
    "Warning",
)


def _bug(name: str) -> Fault:
    return Fault(FaultKind.PERMANENT, None, f"bug: {name}")


def _is(kind: FaultKind, why: str) -> Fault:
    return Fault(kind, None, why)


def bad_json(exc: Any) -> Fault:
    """Classify a JSONDecodeError: what ends inside a document was cut; anything else is not JSON, now or later."""
    cut = bool(exc.doc) and (exc.pos >= len(exc.doc) or exc.msg.startswith("Unterminated"))
    return _CUT_JSON if cut else _NOT_JSON


_CUT_JSON = _is(FaultKind.AMBIGUOUS, "JSON ends too early")
_NOT_JSON = _is(FaultKind.PERMANENT, "not JSON")

_CAUTION = (
    FaultKind.PERMANENT,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.THROTTLED,
    FaultKind.TRANSIENT,
)


def _group(exc: BaseException) -> Fault:
    """The most cautious of the leaves, with the longest hint among them.

    Ambiguous comes before stale: a refresh does not make it safe to act twice. Neutral leaves say
    nothing, unless they are all there is.
    """
    faults = [fault_of_leaf(leaf) for leaf in leaves(exc)]
    telling = [fault for fault in faults if fault.kind is not FaultKind.NEUTRAL]
    if not telling:
        return faults[0]
    chosen = min(telling, key=lambda fault: _CAUTION.index(fault.kind))
    hints = [fault.hint for fault in telling if fault.hint is not None]
    if chosen.kind is FaultKind.PERMANENT or not hints:
        return chosen
    return Fault(chosen.kind, max(hints), chosen.why)


def _own(name: str, kind: FaultKind, why: str) -> dict[str, Step]:
    fault = _is(kind, why)
    return {f"perdure.errors.{name}": fault, f"perdure.{name}": fault}


def _faulty_response(exc: Any) -> Fault | None:
    """What the integration that made it took the response for."""
    return exc.fault if isinstance(exc.fault, Fault) else None


DENY = frozenset(f"builtins.{name}" for name in (*_BUGS, "RuntimeError"))

# RuntimeError is the usual base of a library's own errors, so only the bare class counts as a bug.
EXACT: dict[str, Step] = {"builtins.RuntimeError": _bug("RuntimeError")}

RULES: dict[str, Step] = {
    **{f"builtins.{name}": _bug(name) for name in _BUGS},
    "builtins.MemoryError": _is(FaultKind.PERMANENT, "out of memory in this process"),
    "builtins.EOFError": _is(FaultKind.AMBIGUOUS, "stream ended too early"),
    "builtins.ExceptionGroup": _group,
    "builtins.OSError": by_errno,
    "builtins.BlockingIOError": _is(FaultKind.TRANSIENT, "would block"),
    "builtins.InterruptedError": _is(FaultKind.TRANSIENT, "interrupted by a signal"),
    "builtins.ChildProcessError": _is(FaultKind.PERMANENT, "no such child process"),
    "builtins.ProcessLookupError": _is(FaultKind.PERMANENT, "no such process"),
    "builtins.FileExistsError": _is(FaultKind.PERMANENT, "file exists"),
    "builtins.FileNotFoundError": _is(FaultKind.PERMANENT, "no such file"),
    "builtins.IsADirectoryError": _is(FaultKind.PERMANENT, "is a directory"),
    "builtins.NotADirectoryError": _is(FaultKind.PERMANENT, "not a directory"),
    "builtins.PermissionError": permission_error,
    "builtins.ConnectionError": bare_connection_error,
    "builtins.ConnectionRefusedError": _is(FaultKind.TRANSIENT, "connection refused"),
    "builtins.ConnectionResetError": _is(FaultKind.AMBIGUOUS, "connection reset"),
    "builtins.ConnectionAbortedError": aborted_error,
    "builtins.BrokenPipeError": _is(FaultKind.AMBIGUOUS, "broken pipe"),
    "builtins.TimeoutError": timeout_error,
    "asyncio.exceptions.IncompleteReadError": _is(FaultKind.AMBIGUOUS, "stream ended too early"),
    "asyncio.exceptions.LimitOverrunError": _is(FaultKind.PERMANENT, "separator not found within the limit"),
    "asyncio.exceptions.InvalidStateError": _is(FaultKind.PERMANENT, "future in the wrong state"),
    "asyncio.exceptions.SendfileNotAvailableError": _is(FaultKind.PERMANENT, "sendfile not available"),
    "asyncio.exceptions.BrokenBarrierError": _is(FaultKind.PERMANENT, "barrier broken"),
    "asyncio.queues.QueueEmpty": _is(FaultKind.PERMANENT, "queue empty"),
    "asyncio.queues.QueueFull": _is(FaultKind.PERMANENT, "queue full"),
    "asyncio.queues.QueueShutDown": _is(FaultKind.PERMANENT, "queue shut down"),
    "_queue.Empty": _is(FaultKind.PERMANENT, "queue empty"),
    "queue.Empty": _is(FaultKind.PERMANENT, "queue empty"),
    "queue.Full": _is(FaultKind.PERMANENT, "queue full"),
    "queue.ShutDown": _is(FaultKind.PERMANENT, "queue shut down"),
    "concurrent.futures._base.CancelledError": _is(FaultKind.NEUTRAL, "cancelled"),
    "concurrent.futures._base.InvalidStateError": _is(FaultKind.PERMANENT, "future in the wrong state"),
    "concurrent.futures._base.BrokenExecutor": _is(FaultKind.AMBIGUOUS, "executor lost a worker"),
    "json.decoder.JSONDecodeError": bad_json,
    **_own("Refused", FaultKind.NEUTRAL, "refused locally"),
    **_own("DeadlineExceeded", FaultKind.NEUTRAL, "the caller's time was over"),
    **_own("AttemptTimeout", FaultKind.AMBIGUOUS, "attempt timed out"),
    **_own("ResultRejected", FaultKind.TRANSIENT, "result rejected"),
    "perdure.errors.FaultyResponse": _faulty_response,
    "perdure.idempotency.errors.KeyProblem": _is(FaultKind.NEUTRAL, "refused: idempotency key"),
    "perdure.idempotency.errors.StoreUnavailable": _is(FaultKind.NEUTRAL, "refused: no store of keys"),
    **_own("ConfigError", FaultKind.PERMANENT, "bad configuration"),
}

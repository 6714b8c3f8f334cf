"""MongoDB by error label and code: exceptions of `pymongo` (sync and async).

The driver looks for the new primary by itself, so a refusal of the old one is transient and not stale.
"""

from __future__ import annotations

import re

from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.rules import known_fault
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeGuard

    from perdure.faults.custom import Step

__all__ = ["RULES"]

T, R, A, S, N = (
    FaultKind.TRANSIENT,
    FaultKind.THROTTLED,
    FaultKind.AMBIGUOUS,
    FaultKind.STALE,
    FaultKind.NEUTRAL,
)

_CODES = {
    # Another server was not reached, or a lock not had.
    6: (T, "host unreachable"),
    7: (T, "host not found"),
    24: (T, "lock timeout"),
    46: (T, "lock busy"),
    89: (T, "network timeout between servers"),
    112: (T, "write conflict: run the whole transaction again"),
    134: (T, "majority read not available yet"),
    251: (T, "no such transaction: run the whole transaction again"),
    262: (T, "time limit exceeded"),
    9001: (T, "socket error between servers"),
    # Refused by a server that is not, or no longer, the primary.
    10058: (T, "not primary"),
    10107: (T, "not primary"),
    13435: (T, "not primary, and reads from secondaries not allowed"),
    13436: (T, "neither primary nor secondary"),
    # Interrupted in the middle by one that steps down or ends.
    91: (A, "server shuts down"),
    189: (A, "primary stepped down"),
    11600: (A, "interrupted at shutdown"),
    11602: (A, "interrupted by a change of the primary"),
    50: (A, "time limit of the operation exceeded: timed out"),
    64: (A, "write concern timeout"),
    # Overloaded.
    462: (R, "too many requests"),
    16500: (R, "request rate too large"),
    391: (S, "log in again"),
    11601: (N, "interrupted"),
}
_NAMED = {11000: "duplicate key", 11001: "duplicate key", 13: "not authorised", 18: "authentication failed"}
_ASKED = re.compile(r"RetryAfterMs ?[=:] ?(\d{1,7})\b", re.IGNORECASE)


def _by_code(code: object, text: str = "") -> Fault:
    if not isinstance(code, int):
        return _OTHER
    kind, what = _CODES.get(code, (FaultKind.PERMANENT, _NAMED.get(code, "")))
    asked = _ASKED.search(text) if kind is R else None
    hint = int(asked[1]) / 1000 or None if asked else None
    return Fault(kind, hint, f"MongoDB error {code}{what and f' ({what})'}")


_OTHER = Fault(FaultKind.PERMANENT, None, "MongoDB error")
_OVERLOADED = Fault(R, None, "MongoDB is overloaded")
_COMMIT_UNKNOWN = Fault(A, None, "result of the commit unknown")
_TRANSACTION = Fault(T, None, "transaction aborted: run the whole transaction again")
_RETRYABLE = Fault(T, None, "MongoDB says that the write may be retried")
_NOT_WRITTEN = Fault(T, None, "nothing was written")
_RESUME = Fault(S, None, "resume the change stream")


def _labelled(exc: Any) -> Fault | None:
    """What the labels say about the whole operation outranks the code; the order is from the most cautious on."""
    has = exc.has_error_label
    if has("UnknownTransactionCommitResult"):
        return _COMMIT_UNKNOWN
    if has("SystemOverloadedError") and has("RetryableError"):
        milliseconds = peek(exc, "_base_backoff_ms")
        if isinstance(milliseconds, (int, float)) and 0 < milliseconds < 1e9:
            return Fault(R, milliseconds / 1000, _OVERLOADED.why)
        return _OVERLOADED
    if has("TransientTransactionError"):
        return _TRANSACTION
    return _NOT_WRITTEN if has("NoWritesPerformed") else None


def _operation(exc: Any) -> Fault:
    """By label, then by code."""
    fault = _labelled(exc)
    if fault is not None:
        return fault
    fault = _by_code(exc.code, str(exc))
    if fault.kind is FaultKind.PERMANENT:
        if exc.has_error_label("RetryableWriteError"):
            return _RETRYABLE
        if exc.has_error_label("ResumableChangeStreamError"):
            return _RESUME
    return fault


_LOST = Fault(A, None, "connection to MongoDB lost")
_NOT_CONNECTED = Fault(T, None, "cannot connect to MongoDB")
_NETWORK_TIMEOUT = Fault(A, None, "waiting for MongoDB timed out")


def _connection(exc: Any) -> Fault:
    """Cut in use, unless the cause says that it was never there.

    `RetryableWriteError` is no answer here: it allows the driver, which numbers its writes, to send one again; a
    new call has a new number.
    """
    fault = _labelled(exc)
    if fault is not None:
        return fault
    refused = isinstance(exc.__cause__, ConnectionRefusedError) or "pool paused" in str(exc)
    return _NOT_CONNECTED if refused else _LOST


def _network_timeout(exc: Any) -> Fault:
    return _labelled(exc) or _NETWORK_TIMEOUT


def _not_primary(exc: Any) -> Fault:
    fault = _labelled(exc)
    code = _field(peek(exc, "details"), "code")
    return fault or _by_code(code if isinstance(code, int) else 10107)


_IN_PART = Fault(A, None, "MongoDB bulk write done in part")


def _bulk(exc: Any) -> Fault:
    """One write that can never work decides; else what was done is done, and the rest may be tried again."""
    labelled = _labelled(exc)
    faults = [_by_code(code) for code in _codes_in(peek(exc, "details"))]
    never = next((fault for fault in faults if fault.kind is FaultKind.PERMANENT), None)
    return labelled or never or _IN_PART


def _codes_in(details: object) -> Iterator[int]:
    """The codes of the writes that failed: documents, or in newer calls objects."""
    errors = _field(details, "writeErrors")
    for error in errors if _is_list(errors) else ():
        code = _field(error, "code") or peek(error, "code")
        if isinstance(code, int):
            yield code


def _field(document: object, name: str) -> object:
    return document.get(name) if _is_document(document) else None


def _is_document(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _client_bulk(exc: Any) -> Fault:
    """The error that ended it, else those of its single writes."""
    error = peek(exc, "error")
    below = known_fault(error) if isinstance(error, Exception) else None
    return below or _bulk(exc)


def _encryption(exc: Any) -> Fault:
    cause = peek(exc, "cause")
    return (known_fault(cause) if isinstance(cause, Exception) else None) or _OTHER


_RULES: dict[str, Step] = {
    "PyMongoError": Fault(FaultKind.PERMANENT, None, "local: pymongo used in a wrong way"),
    "ProtocolError": Fault(A, None, "garbage instead of an answer"),
    "ConnectionFailure": _connection,
    "AutoReconnect": _connection,
    "_OperationCancelled": _connection,
    "NetworkTimeout": _network_timeout,
    "NotPrimaryError": _not_primary,
    "NotMasterError": _not_primary,  # before version 4
    # The driver has looked for a server for half a minute: nothing was sent.
    "ServerSelectionTimeoutError": Fault(T, None, "no MongoDB server found: selection timed out"),
    "WaitQueueTimeoutError": Fault(T, None, "local: no connection left in the pool"),
    "OperationFailure": _operation,
    "CursorNotFound": _operation,
    "ExecutionTimeout": _operation,
    "WriteConcernError": _operation,
    "WriteError": _operation,
    "WTimeoutError": Fault(A, None, "write concern timeout"),
    "DuplicateKeyError": Fault(FaultKind.PERMANENT, None, "MongoDB error 11000 (duplicate key)"),
    "BulkWriteError": _bulk,
    "ClientBulkWriteException": _client_bulk,
    "EncryptionError": _encryption,
    "EncryptedCollectionError": _encryption,
}

RULES: dict[str, Step] = {f"pymongo.errors.{name}": step for name, step in _RULES.items()}

"""What the answer to a request with a key says: replayed or not, and whether to send it again."""

from __future__ import annotations

from perdure.faults.headers import read
from perdure.faults.hints import retry_after
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.said import should_retry

__all__ = ["fault_of_keyed", "replayed"]

_REPLAYED = (
    "idempotent-replayed",
    "idempotency-replayed",
    "idempotent-replay",
    "idempotency-replay",
    "x-idempotent-replayed",
    "x-idempotency-replayed",
)
_TRUE = frozenset({"true", "1", "?1", "yes"})
_NEVER = frozenset({400, 403, 404, 422})


def replayed(response: object) -> bool:
    """Whether an answer repeats that of an earlier request with the same key.

    Takes a response with ``headers``, or the headers: a mapping or pairs. Read from ``Idempotent-Replayed`` and
    its variants, and from ``Idempotency-Status: replayed``. Never raises. Safe from any thread or task.
    """
    try:
        headers = getattr(response, "headers", response)
    except Exception:  # noqa: BLE001 - a property of a foreign object
        return False
    found = read(headers, *_REPLAYED, "idempotency-status")
    status = found.pop("idempotency-status", [])
    if any(value.strip().lower() == "replayed" for value in status):
        return True
    return any(value.strip().lower() in _TRUE for values in found.values() for value in values)


def fault_of_keyed(
    status: object, headers: object = None, body: object = None, *, method: str = "POST"
) -> Fault:
    """Classify the answer to a request that carries an idempotency key.

    As ``perdure.faults.fault_of_status``, but: 409 means that the first request with the key is still being
    worked on, so it is transient, with the delay that the server asks for; 400, 403, 404 and 422 are permanent
    whatever else they carry; the server's own word (``perdure.hints.should_retry``) is the last one. 401 stays
    stale: with a renewed token the same key is right. ``body`` (bytes, text, parsed JSON) is read for error codes.
    Never raises. Safe from any thread or task.
    """
    fault = fault_of_status(status, headers, method, body)
    if not isinstance(status, int) or status < 400:
        return fault
    word = should_retry(headers)  # which counts in `fault` already
    if status == 409 and word is not False:
        hint = fault.hint or retry_after(headers)
        return Fault(FaultKind.TRANSIENT, hint, "HTTP 409 a request with this key is in progress")
    if status in _NEVER and word is None and fault.kind is not FaultKind.PERMANENT:
        return Fault(FaultKind.PERMANENT, None, fault.why)
    return fault

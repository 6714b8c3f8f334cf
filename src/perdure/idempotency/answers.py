"""What the answer to a request with a key says: replayed or not, and whether to send it again."""

from __future__ import annotations

from perdure.faults.headers import read
from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind

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
_FALSE = frozenset({"false", "0", "?0", "no"})
_NEVER = frozenset({400, 403, 404, 422})
_WORD_OF_SERVER = ("stripe-should-retry", "transient-error")


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
    whatever else they carry; ``Stripe-Should-Retry`` and Adyen's ``transient-error`` have the last word. 401 stays
    stale: with a renewed token the same key is right. ``body`` (bytes, text, parsed JSON) is read for error codes.
    Never raises. Safe from any thread or task.
    """
    fault = fault_of_status(status, headers, method, body)
    if not isinstance(status, int) or status < 400:
        return fault
    asked = _word_of(headers)
    if asked is False:
        return Fault(FaultKind.PERMANENT, None, fault.why)
    if status == 409:
        return Fault(
            FaultKind.TRANSIENT,
            fault.hint or _hint(headers),
            "HTTP 409 a request with this key is in progress",
        )
    if asked:
        return fault if fault.retryable else Fault(FaultKind.TRANSIENT, _hint(headers), fault.why)
    if status in _NEVER and fault.kind is not FaultKind.PERMANENT:
        return Fault(FaultKind.PERMANENT, None, fault.why)
    return fault


def _word_of(headers: object) -> bool | None:
    """What the server itself says about sending again; where it says both, no."""
    found = read(headers, *_WORD_OF_SERVER)
    words = {value.strip().lower() for values in found.values() for value in values}
    if words & _FALSE:
        return False
    return True if words & _TRUE else None


def _hint(headers: object) -> float | None:
    from perdure.faults.hints import retry_after

    return retry_after(headers)

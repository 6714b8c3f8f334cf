"""Whether the request behind a failure may be sent twice.

Every attribute is read with care: client libraries have properties that raise when a part is missing.
"""

from __future__ import annotations

from perdure.faults.chain import chain, leaves
from perdure.faults.headers import read
from perdure.faults.kinds import Safety

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["KEY_FIELDS", "REPLAYABLE", "holders", "method_of", "peek", "request_of", "safety_of"]

REPLAYABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "QUERY"})
"""The methods that HTTP declares idempotent."""

_RESPONSES = ("response", "resp", "http_response")
KEY_FIELDS = (
    "idempotency-key",
    "x-idempotency-key",
    "paypal-request-id",
    "repeatability-request-id",
    "cko-idempotency-key",
    "x-amz-pay-idempotency-key",
)
"""Header fields (lower case) that make an unsafe request one that may be sent again."""

_DANGER = (Safety.UNSAFE, Safety.KEYED, Safety.SAFE)


def safety_of(exc: BaseException) -> Safety | None:
    """Say whether the request behind `exc` may be sent twice; None when it carries no request.

    Read from `.request` or `.response.request` of the exception or of what lies under it, nearest first;
    in a group the most dangerous leaf counts. Idempotent methods are safe, others are keyed when the
    request has an `Idempotency-Key` or one of its vendor forms. Never raises. Reads only; safe from any
    thread or task.
    """
    found = {_nearest(leaf) for leaf in leaves(exc)}
    return next((safety for safety in _DANGER if safety in found), None)


def _nearest(exc: BaseException) -> Safety | None:
    for link in chain(exc):
        for leaf in leaves(link):
            safety = _safety_of_request(request_of(leaf))
            if safety is not None:
                return safety
    return None


def holders(carrier: object) -> list[object]:
    """Give `carrier` and the responses it holds."""
    responses = (peek(carrier, name) for name in _RESPONSES)
    return [carrier, *(response for response in responses if response is not None)]


def request_of(carrier: object) -> object:
    """Give the request that `carrier` or its response holds, if it has a method."""
    for holder in holders(carrier):
        for name in ("request", "request_info"):
            request = peek(holder, name)
            if method_of(request) is not None:
                return request
    return None


def method_of(request: object) -> str | None:
    """Give the method of a request in upper case, else None."""
    method = peek(request, "method")
    if isinstance(method, bytes):
        method = method.decode("latin-1")
    return method.upper() if isinstance(method, str) and method else None


def _safety_of_request(request: object) -> Safety | None:
    method = method_of(request)
    if method is None:
        return None
    if method in REPLAYABLE:
        return Safety.SAFE
    keys = read(peek(request, "headers"), *KEY_FIELDS).values()
    return Safety.KEYED if any(key.strip() for values in keys for key in values) else Safety.UNSAFE


def peek(carrier: Any, name: str) -> Any:
    """Read an attribute; None when it is missing or when reading it raises."""
    try:
        return None if carrier is None else getattr(carrier, name, None)
    except Exception:  # noqa: BLE001 - httpx raises RuntimeError for a request that was never set
        return None

"""Delays in the bodies of answers: what fields of JSON documents say.

What is malformed is None, never an error. Only a bounded part of a document is looked at.
"""

from __future__ import annotations

from perdure.faults.delays import LONGEST, bounded, duration, plain
from perdure.faults.documents import fields, listed, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["body_delay", "body_hint"]

_MOST_ENTRIES = 100

_RETRY_INFO = "google.rpc.RetryInfo"
_PER_SECOND = {"retry_after": 1, "retry_after_seconds": 1, "retryAfterSeconds": 1}
_FIELDS = {**_PER_SECOND, "retry_after_ms": 1000, "retryAfterMs": 1000, "retryAfterInMs": 1000}


def body_delay(document: object) -> float | None:
    """Give the delay in seconds that a parsed JSON document asks for, or None.

    Understood are google.rpc.RetryInfo, `retry_after` in seconds (Discord, Telegram, Cloudflare) with its forms
    that have a unit in the name, the cost of a throttled GraphQL query of Shopify, and `estimated_time` of
    Hugging Face. 0.0: no more delay. Finite, never negative, at most 1e10. Never raises. Reads only; safe
    from any thread or task.
    """
    hint = body_hint(document)
    return None if hint is None else hint[0]


def body_hint(document: object) -> tuple[float, str] | None:
    """As `body_delay`, with the name of the field."""
    if isinstance(document, list):  # Gemini's stream of answers
        hints = map(_hint_in, objects(listed(document)[:_MOST_ENTRIES]))
        return max((hint for hint in hints if hint is not None), default=None)
    return _hint_in(fields(document))


def _hint_in(document: dict[str, Any]) -> tuple[float, str] | None:
    holders = [document, fields(document.get("error")), fields(document.get("parameters"))]
    return _retry_info(holders) or _field(holders) or _cost(document) or _estimate(document)


def _retry_info(holders: list[dict[str, Any]]) -> tuple[float, str] | None:
    delays = [
        delay
        for holder in holders
        for detail in objects(listed(holder.get("details"))[:_MOST_ENTRIES])
        if isinstance(kind := detail.get("@type"), str) and kind.endswith(_RETRY_INFO)
        if (delay := _proto(detail.get("retryDelay", detail.get("retry_delay")))) is not None
    ]
    return (max(delays), "RetryInfo") if delays else None


def _proto(value: object) -> float | None:
    """Protobuf's duration in JSON is "36.4s"; some gateways write out its two fields."""
    if isinstance(value, dict):
        own = fields(value)
        seconds, nanos = _seconds(own.get("seconds", 0)), _seconds(own.get("nanos", 0))
        return None if seconds is None or nanos is None else bounded(seconds + nanos / 1e9)
    return duration(value) if isinstance(value, str) else None


def _field(holders: list[dict[str, Any]]) -> tuple[float, str] | None:
    for holder in holders:
        for name, per_second in _FIELDS.items():
            delay = _seconds(holder.get(name))
            if delay is not None:
                return delay / per_second, name
    return None


def _cost(document: dict[str, Any]) -> tuple[float, str] | None:
    """Shopify refills a bucket of points: the wait is what the query lacks over the rate."""
    if not any(map(_is_throttled, objects(listed(document.get("errors"))[:_MOST_ENTRIES]))):
        return None
    cost = fields(fields(document.get("extensions")).get("cost"))
    status = fields(cost.get("throttleStatus"))
    wanted, left = _seconds(cost.get("requestedQueryCost")), _seconds(status.get("currentlyAvailable"))
    rate, most = _seconds(status.get("restoreRate")), _seconds(status.get("maximumAvailable"))
    if wanted is None or left is None or not rate or (most is not None and wanted > most):
        return None
    return bounded((wanted - left) / rate), "throttleStatus"


def _is_throttled(error: dict[str, Any]) -> bool:
    return fields(error.get("extensions")).get("code") == "THROTTLED"


def _estimate(document: dict[str, Any]) -> tuple[float, str] | None:
    delay = _seconds(document.get("estimated_time")) if "error" in document else None
    return None if delay is None else (delay, "estimated_time")


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        delay = plain(value)
        return duration(value) if delay is None else delay
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
        return None
    return float(min(value, LONGEST))

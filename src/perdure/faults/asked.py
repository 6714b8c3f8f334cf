"""Delays in the bodies of answers: what fields of JSON documents say.

What is malformed is None, never an error. Only a bounded part of a document is looked at.
"""

from __future__ import annotations

from perdure.faults.delays import LONGEST, bounded, duration, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeGuard

__all__ = ["body_delay", "body_hint", "document_of", "fields_of"]

_LONGEST_BODY = 65_536  # bytes
_MOST_ENTRIES = 100
_STARTS = ("{", "[", b"{", b"[", b"\xef")  # also the mark that .NET puts before UTF-8

_RETRY_INFO = "google.rpc.RetryInfo"
_PER_SECOND = {"retry_after": 1, "retry_after_seconds": 1, "retryAfterSeconds": 1}
_FIELDS = {**_PER_SECOND, "retry_after_ms": 1000, "retryAfterMs": 1000, "retryAfterInMs": 1000}


def document_of(body: object) -> object:
    """Give what a body of JSON says: `body` is bytes or text, or already parsed and then given back.

    None for what is no JSON, and for a body of more than 64 KiB. Never raises. Reads only; safe from any thread.
    """
    if not isinstance(body, (bytes, bytearray, str)):
        return body
    if len(body) > _LONGEST_BODY:
        return None
    if body.lstrip()[:1] not in _STARTS:
        return None
    import json

    try:
        document: object = json.loads(body)
    except (
        ValueError,
        RecursionError,
    ):  # no JSON; a number of 5,000 digits; a document a thousand lists deep
        return None
    return document


def fields_of(body: object) -> dict[Any, Any]:
    """Give the fields of a body that is a JSON object, raw or parsed; none for any other."""
    document = document_of(body)
    return document if _is_dict(document) else {}


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
    if _is_list(document):  # Gemini's stream of answers
        hints = map(_hint_in, document[:_MOST_ENTRIES])
        return max((hint for hint in hints if hint is not None), default=None)
    return _hint_in(document)


def _hint_in(document: object) -> tuple[float, str] | None:
    if not _is_dict(document):
        return None
    error = document.get("error")
    holders = [one for one in (document, error, document.get("parameters")) if _is_dict(one)]
    return _retry_info(holders) or _field(holders) or _cost(document) or _estimate(document)


def _retry_info(holders: list[dict[Any, Any]]) -> tuple[float, str] | None:
    delays = [
        delay
        for holder in holders
        for detail in _dicts(holder.get("details"))
        if isinstance(kind := detail.get("@type"), str) and kind.endswith(_RETRY_INFO)
        if (delay := _proto(detail.get("retryDelay", detail.get("retry_delay")))) is not None
    ]
    return (max(delays), "RetryInfo") if delays else None


def _proto(value: object) -> float | None:
    """Protobuf's duration in JSON is "36.4s"; some gateways write out its two fields."""
    if _is_dict(value):
        seconds, nanos = _seconds(value.get("seconds", 0)), _seconds(value.get("nanos", 0))
        return None if seconds is None or nanos is None else bounded(seconds + nanos / 1e9)
    return duration(value) if isinstance(value, str) else None


def _field(holders: list[dict[Any, Any]]) -> tuple[float, str] | None:
    for holder in holders:
        for name, per_second in _FIELDS.items():
            delay = _seconds(holder.get(name))
            if delay is not None:
                return delay / per_second, name
    return None


def _cost(document: dict[Any, Any]) -> tuple[float, str] | None:
    """Shopify refills a bucket of points: the wait is what the query lacks over the rate."""
    if not any(_is_throttled(error) for error in _dicts(document.get("errors"))):
        return None
    cost = _in(_in(document, "extensions"), "cost")
    status = _in(cost, "throttleStatus")
    wanted, left = _seconds(cost.get("requestedQueryCost")), _seconds(status.get("currentlyAvailable"))
    rate, most = _seconds(status.get("restoreRate")), _seconds(status.get("maximumAvailable"))
    if wanted is None or left is None or not rate or (most is not None and wanted > most):
        return None
    return bounded((wanted - left) / rate), "throttleStatus"


def _is_throttled(error: dict[Any, Any]) -> bool:
    return _in(error, "extensions").get("code") == "THROTTLED"


def _estimate(document: dict[Any, Any]) -> tuple[float, str] | None:
    delay = _seconds(document.get("estimated_time")) if "error" in document else None
    return None if delay is None else (delay, "estimated_time")


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        delay = plain(value)
        return duration(value) if delay is None else delay
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
        return None
    return float(min(value, LONGEST))


def _in(holder: dict[Any, Any], name: str) -> dict[Any, Any]:
    value = holder.get(name)
    return value if _is_dict(value) else {}


def _dicts(value: object) -> Iterator[dict[Any, Any]]:
    if _is_list(value):
        yield from (one for one in value[:_MOST_ENTRIES] if _is_dict(one))


def _is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)

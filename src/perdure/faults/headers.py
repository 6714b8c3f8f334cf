"""Reads header fields out of whatever a client library calls headers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeGuard

__all__ = ["is_rate_field", "read", "read_where"]

_LONGEST_NAME = 128


def read(headers: object, *names: str) -> dict[str, list[str]]:
    """Give the values of the fields in `names` (lower case), in order, without those that are missing.

    `headers` may be a mapping (its case does not matter), a message with several lines per field, or a
    list of pairs; text, bytes, numbers and lists of these are values. Never raises: what cannot be read is
    missing. One-shot iterators are left alone. Reads only; as safe for threads as `headers` is.
    """
    return read_where(headers, names.__contains__)


def read_where(headers: object, is_wanted: Callable[[str], bool]) -> dict[str, list[str]]:
    """As `read`, for the fields whose name in lower case `is_wanted`."""
    found: dict[str, list[str]] = {}
    try:
        for name, value in _pairs(headers):
            # The usual kinds written out: this runs for every field of every failure.
            key = (name.decode("latin-1") if type(name) is bytes else _text(name)).lower()
            if is_wanted(key):
                found.setdefault(key, []).extend(_texts(value))
    except Exception:  # noqa: BLE001 - foreign objects: half of the headers is better than a crash
        return found
    return found


def is_rate_field(name: str) -> bool:
    """Whether a field (lower case) may say something about a rate limit."""
    if "rate" not in name or len(name) > _LONGEST_NAME:
        return False
    dashed = f"-{name}"  # a corporate-limit is another thing
    return "-ratelimit" in dashed or "-rate-limit" in dashed


def _pairs(headers: Any) -> Any:
    raw = getattr(headers, "raw", None)  # of httpx, whose items() decodes and joins all fields
    if type(raw) is list:
        return raw  # pyright: ignore[reportUnknownVariableType] # pairs of bytes
    if hasattr(headers, "items"):
        return headers.items()
    return headers if _is_list(headers) else ()


def _texts(value: object) -> list[str]:
    if _is_list(value):
        return [_text(item) for item in value]
    return [_text(value)]


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, str):
        return value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return format(value, "d" if isinstance(value, int) else "f") if number else ""

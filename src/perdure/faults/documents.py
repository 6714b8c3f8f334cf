"""Bodies of answers, read: as a JSON document where they are one, else as text; and steps through a document.

Bodies come from anywhere, so only `LIMIT` of one is read, and what has another shape than expected is empty.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["LIMIT", "fields", "listed", "load", "objects", "text_of"]

LIMIT = 65_536
"""Bytes or characters of a body that are looked at; error answers are far shorter."""

_DIGITS = 18


def load(body: object) -> Any:
    """Give the JSON document in `body`; None when there is none. A parsed document is given back.

    `body` is bytes, text, or what a JSON parser made of it. Never raises. Safe from any thread or task.
    """
    if isinstance(body, (dict, list)):
        return body  # pyright: ignore[reportUnknownVariableType] # a parsed document is whatever it is
    if not isinstance(body, (bytes, bytearray, str)) or not 2 <= len(body) <= LIMIT:
        return None
    if body[:1] in ("<", b"<"):  # a page, as most bodies that are no JSON
        return None
    import json

    try:
        return json.loads(body.lstrip("\ufeff") if isinstance(body, str) else body, parse_int=_whole)
    except (ValueError, RecursionError):  # no JSON; a document a thousand lists deep
        return None


def _whole(digits: str) -> int | float:
    """int() refuses thousands of digits; what such a number means here is "many"."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def text_of(body: object) -> str:
    """Give the beginning of a body as text; "" for everything else. Never raises."""
    if isinstance(body, (bytes, bytearray)):
        start = bytes(body[:LIMIT])
        wide = start[:2] in {b"\xff\xfe", b"\xfe\xff"}
        return start.decode("utf-16" if wide else "utf-8", "replace")
    return body[:LIMIT] if isinstance(body, str) else ""


def fields(value: Any) -> dict[str, Any]:
    """Give the fields of an object of a document; none when `value` is no object."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def listed(value: Any) -> list[Any]:
    """Give a list of a document; an empty one when `value` is no list."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Give the objects in a list of a document; none when `value` is no list."""
    return (fields(one) for one in listed(value) if isinstance(one, dict))

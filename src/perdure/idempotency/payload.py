"""What a request says, as one short print; and the key inside a JSON body."""

from __future__ import annotations

import re

from perdure.checks import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

__all__ = ["fingerprint", "key_in", "with_key"]

_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s";]{1,200}))', re.IGNORECASE)
_SHOWN = 80


def fingerprint(method: str, content_type: str, body: bytes | None) -> str:
    """The print of a request: SHA-256 over method, content type and body, with a version in front.

    Not the URL: redirects change it. The boundary of a multipart body, which clients draw anew each time, does
    not count. Reads only; safe from any thread or task.
    """
    from hashlib import sha256

    content = body or b""
    content_type = content_type.strip()
    drawn = _BOUNDARY.search(content_type) if content_type.lower().startswith("multipart/") else None
    if drawn is not None:
        boundary = drawn[1] or drawn[2]
        content = content.replace(b"--" + boundary.encode("latin-1", "replace"), b"--")
        content_type = content_type[: drawn.start()] + "boundary=" + content_type[drawn.end() :]
    total = sha256()
    for part in (method.upper().encode("utf-8", "replace"), content_type.encode("utf-8", "replace"), content):
        total.update(len(part).to_bytes(8, "big"))  # so that nothing can move from one part to the next
        total.update(part)
    return f"1:{total.hexdigest()}"


def key_in(body: bytes | None, field: str) -> str | None:
    """The key that a JSON body has under ``field``; None where it has none.

    Raises ConfigError for what is no JSON object in UTF-8, and for a key that is no string.
    """
    import json

    try:
        document: Any = json.loads((body or b"").decode())
    except (ValueError, RecursionError):
        document = None
    if not _is_object(document):
        raise refuse("body", f"must be a JSON object to carry {field}", (body or b"")[:_SHOWN])
    if field not in document:
        return None
    value = document[field]
    if not isinstance(value, str) or not value:
        raise refuse(field, "must be a string that is not empty", value)
    return value


def with_key(body: bytes, field: str, key: str) -> bytes:
    """The JSON object in ``body`` with the key as its first member; nothing else in it changes.

    It is put in as text: reading and writing the document would change large and precise numbers.
    """
    import json

    start = body.index(b"{") + 1
    rest = body[start:]
    member = f"{json.dumps(field)}:{json.dumps(key)}".encode()
    return body[:start] + member + (b"" if rest.lstrip().startswith(b"}") else b",") + rest


def _is_object(document: object) -> TypeGuard[dict[str, object]]:
    return isinstance(document, dict)

"""How an idempotency key is written: the quoted String of structured fields (RFC 8941), or bare.

``"abc"`` and ``abc`` are the same key. Most servers document the bare form, the draft standard the quoted one.
"""

from __future__ import annotations

import re

__all__ = ["quote", "read_key"]

_QUOTED = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
# Visible ASCII without what makes a list, a parameter or a string of it.
_BARE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")
_KEY = re.compile(r"[\x20-\x7e]+")


def read_key(field: str) -> str | None:
    """The key that a header field holds, quoted or bare; None where it is malformed or empty.

    Linear in the length of the field. Reads only; safe from any thread or task.
    """
    text = field.strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted[1]) or None
    return text if _BARE.fullmatch(text) else None


def quote(key: str) -> str:
    """The key as a quoted String."""
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_bare(key: str) -> bool:
    """Whether the key can be sent without quotes."""
    return _BARE.fullmatch(key) is not None


def is_printable(key: str) -> bool:
    """Whether it consists of one or more printable ASCII characters, which is all that a quoted key may hold."""
    return _KEY.fullmatch(key) is not None

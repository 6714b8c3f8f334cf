"""URLs as they may be shown: without the password in front of the host and without secrets in the query."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

__all__ = ["host_of", "shown"]

_SECRET = re.compile(
    r"auth|credential|key|passw|pwd|secret|session|sig$|signature|token|^code$", re.IGNORECASE
)
_HIDDEN = "***"


def shown(url: str) -> str:
    """The URL for people, logs and files: ``https://***@host/path?token=***``. Never raises.

    Whatever looks like a secret is hidden, the fragment is left out, and control characters are escaped.
    """
    try:
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")
        netloc = f"{_HIDDEN}@{place[2]}" if place[1] else parts.netloc
        query = "&".join(_value_hidden(one) for one in parts.query.split("&")) if parts.query else ""
        text = urlunsplit((parts.scheme, netloc, parts.path, query, ""))
    except ValueError:
        return "a URL that cannot be read"
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def host_of(url: str) -> str:
    """The host and the port of a URL."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _value_hidden(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}={_HIDDEN}" if equals and _SECRET.search(name) else pair

"""Which host a call goes to, where its arguments show it: to warn of one state that serves several hosts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOKED_AT = 3
"""So many arguments are looked at: the address comes first in every client."""


def host_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The host and port of the first URL among the arguments; None where there is none."""
    for value in (*args[:LOOKED_AT], kwargs.get("url")):
        if type(value) is str:
            host = _host_in(value)
        elif _is_url(type(value)):  # pyright: ignore[reportUnknownArgumentType] # of anything
            host = _host_of_object(value)
        else:
            continue
        if host is not None:
            return host
    return None


def _is_url(kind: type) -> bool:
    """Whether it is the URL class of a client library; an argument itself might do anything when it is asked."""
    return hasattr(kind, "host") and hasattr(kind, "scheme")


def _host_in(text: str) -> str | None:
    if not text[:8].lower().startswith(("http://", "https://")):
        return None
    rest = text.partition("://")[2]
    for end in "/?#":
        rest = rest.partition(end)[0]
    return rest.rpartition("@")[2].lower() or None


def _host_of_object(url: Any) -> str | None:
    try:
        return _host_in(str(url))
    except Exception:  # noqa: BLE001 - anybody's class
        return None

"""Keys that follow from the business: the same order gives the same key, in every process and for ever."""

from __future__ import annotations

from perdure.checks import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["derive"]

_VERSION_8 = 8


def derive(*parts: str | int | UUID, namespace: str, secret: bytes | None = None) -> str:
    """A key made of business identities, for example ``derive("order-17", "charge", namespace="shop")``.

    The same parts give the same key; ``namespace`` keeps two systems apart. Without ``secret`` it is a UUID of
    version 5, which whoever knows the parts can compute; with one (at least 16 bytes) an HMAC-SHA256 in the form
    of a UUID of version 8. Always 36 characters.

    Raises ConfigError for no parts, and for what changes from one attempt to the next: a time, a float, None.
    (Neither may an attempt number be a part, which looks like any other number.) Safe from any thread or task.
    """
    import uuid

    if not isinstance(namespace, str) or not namespace:
        raise refuse("namespace", "must be a string that is not empty", namespace)
    if not parts:
        raise refuse("parts", "must be one or more identities", parts)
    text = _joined(namespace, parts)
    if secret is None:
        return str(uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_OID, "perdure"), text))
    if not isinstance(secret, bytes) or len(secret) < 16:
        raise refuse("secret", "must be at least 16 bytes", type(secret).__name__)
    import hmac

    digest = bytearray(hmac.digest(secret, text.encode(), "sha256")[:16])
    digest[6] = digest[6] & 0x0F | _VERSION_8 << 4
    digest[8] = digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


def _joined(namespace: str, parts: tuple[object, ...]) -> str:
    """One text for all parts; each has its length in front, so that ("ab", "c") is not ("a", "bc")."""
    from uuid import UUID

    texts = [namespace]
    for part in parts:
        whole = isinstance(part, (str, int, UUID)) and not isinstance(part, bool)
        if not whole or part == "":
            raise refuse("parts", "must be strings, whole numbers or UUIDs, and no times", part)
        texts.append(str(part))
    try:
        joined = "".join(f"{len(text)}:{text}" for text in texts)
        joined.encode()
    except UnicodeEncodeError:
        raise refuse("parts", "must be text that UTF-8 can hold", texts) from None
    return joined

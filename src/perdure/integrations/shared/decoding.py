"""A bounded look into a compressed body, without a byte more than asked for: bodies may unpack to gigabytes."""

from __future__ import annotations

import zlib

__all__ = ["unpacked"]

_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def unpacked(raw: bytes, encoding: str | None, limit: int) -> bytes:
    """The first ``limit`` bytes of what was packed; empty where that cannot be told. Never raises."""
    encoding = (encoding or "").strip().lower()
    if encoding in {"", "identity"}:
        return raw[:limit]
    wbits = _WBITS.get(encoding)
    if wbits is None:  # br and zstd need libraries; then the status alone decides
        return b""
    for bits in (
        (wbits, -15) if encoding == "deflate" else (wbits,)
    ):  # some servers send deflate without its header
        try:
            return zlib.decompressobj(bits).decompress(raw, limit)
        except zlib.error:
            continue
    return b""

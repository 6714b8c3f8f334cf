"""A look at the short body of a response of urllib3 (and of requests) that is streamed: read, and put back."""

from __future__ import annotations

from http.client import HTTPResponse
from io import BytesIO

from perdure.integrations.decoding import unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["look"]


def look(response: Any, limit: int) -> bytes | None:
    """What the body says, unpacked as far as the limit; the response still has all of it, packed as it came.

    None for a body that does not say how long it is, is longer than the limit, or is not on top of http.client.
    Raises what urllib3 does where less comes than was announced.
    """
    length = response.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) <= 18 and int(length) <= limit):
        return None
    if response.chunked or not isinstance(getattr(response, "_original_response", None), HTTPResponse):
        return None
    parts, size = list[bytes](), 0
    while size < int(length) and (part := response.read(int(length) - size, decode_content=False)):
        parts.append(part)
        size += len(part)
    body = b"".join(parts)
    response._fp, response.length_remaining = _Again(body), size
    response._fp_bytes_read = response.tell() - size
    response._uncached_read_occurred = False  # else ``data`` would be empty when it is asked for again
    return unpacked(body, response.headers.get("content-encoding"), limit)


class _Again(BytesIO):
    """Bytes that close themselves at their end, as what http.client gives does."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read on."""
        data = super().read(size)
        if self.tell() == self.getbuffer().nbytes:
            self.close()
        return data

    def read1(self, size: int | None = -1, /) -> bytes:
        """Read on."""
        return self.read(size)

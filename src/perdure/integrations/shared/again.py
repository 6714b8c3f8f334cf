"""A look at the short body of a response of urllib3 (and of requests) that is streamed: read, and put back."""

from __future__ import annotations

from http.client import HTTPResponse
from io import BytesIO

from perdure.integrations.shared.decoding import unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["can_put_back", "look"]


def can_put_back(response: Any) -> bool:
    """Whether it is a response of urllib3 on top of http.client, with a body that has a length."""
    original = getattr(response, "_original_response", None)
    return isinstance(original, HTTPResponse) and response.length_remaining is not None


def look(response: Any, limit: int) -> bytes:
    """What a body says, unpacked as far as the limit; the response still has all of it, packed as it came.

    Raises what urllib3 does where less comes than was announced.
    """
    parts, size = list[bytes](), 0
    while part := response.read(limit, decode_content=False):
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

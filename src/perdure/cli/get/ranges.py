"""Whether a response continues what is here already: pure reading of headers (RFC 9110, 13.1.5 and 14).

===========================  ==================================================================================
answer to a request for more
===========================  ==================================================================================
206 with a range that fits   goes on from there
206 with any other range     the server errs: everything is asked for, without a range
200                          the content is another one, or the server knows no ranges: it starts again
416                          complete, if the server's length and entity tag say so; else everything is asked for
===========================  ==================================================================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOTHING", "Known", "Span", "content_range", "fits", "is_complete", "known_of"]

_RANGE = re.compile(r"[ \t]*bytes[ \t]+([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)[ \t]*", re.IGNORECASE)
_UNSATISFIED = re.compile(r"[ \t]*bytes[ \t]+\*/([0-9]{1,18})[ \t]*", re.IGNORECASE)
_STRONG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"')


class Known(NamedTuple):
    """What is known about a content. Immutable.

    ``etag`` is a strong one; ``modified`` a Last-Modified that is as good as one; ``length`` in bytes. None
    where the server did not say.
    """

    etag: str | None = None
    modified: str | None = None
    length: int | None = None

    @property
    def validator(self) -> str | None:
        """What ``If-Range`` may hold: it proves that the content is still the same."""
        return self.etag or self.modified


NOTHING = Known()


class Span(NamedTuple):
    """The bytes that a response carries: the first one, the one after the last, and the length of the whole."""

    start: int
    end: int
    total: int | None


def known_of(headers: Mapping[str, str], length: int | None) -> Known:
    """What a response says about its content; ``length`` is that of the whole."""
    etag = headers.get("etag", "").strip(" \t")
    return Known(etag if _STRONG.fullmatch(etag) else None, _strong_date(headers), length)


def content_range(text: str | None) -> Span | None:
    """The value of a Content-Range header; None where it is missing or makes no sense."""
    match = _RANGE.fullmatch(text or "")
    if match is None:
        return None
    start, last = int(match[1]), int(match[2])
    total = None if match[3] == "*" else int(match[3])
    if last < start or (total is not None and last >= total):
        return None
    return Span(start, last + 1, total)


def fits(span: Span | None, headers: Mapping[str, str], have: int, known: Known) -> str:
    """Why a 206 does not continue ``have`` bytes of a ``known`` content; empty where it does."""
    if span is None:
        return "sent a part without saying which"
    if span.start != have:
        return f"sent the bytes from {span.start} on where those from {have} on were asked for"
    if known.length is not None and span.total is not None and span.total != known.length:
        return f"says that there are {span.total} bytes, and said {known.length} before"
    etag = known_of(headers, None).etag
    if known.etag is not None and etag is not None and etag != known.etag:
        return "sent a part of another content"
    return ""


def is_complete(headers: Mapping[str, str], have: int, known: Known, *, checked: bool) -> bool:
    """Whether a 416 says that nothing is missing; ``checked``: a checksum will prove it."""
    match = _UNSATISFIED.fullmatch(headers.get("content-range", ""))
    if match is None or int(match[1]) != have:
        return False
    return checked or (known.etag is not None and known_of(headers, None).etag == known.etag)


def _strong_date(headers: Mapping[str, str]) -> str | None:
    """A Last-Modified that no second change can share: it is older than the response by a second or more."""
    from email.utils import parsedate_to_datetime

    modified = headers.get("last-modified", "").strip(" \t")
    try:
        age = parsedate_to_datetime(headers.get("date", "")) - parsedate_to_datetime(modified)
    except (TypeError, ValueError, OverflowError):
        return None
    return modified if age.total_seconds() >= 1 and modified.isascii() and modified.isprintable() else None

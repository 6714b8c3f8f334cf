"""The content: from which byte a mirror is asked for it, where a body belongs, and whether it is right."""

from __future__ import annotations

from perdure.cli.get.part import is_of
from perdure.cli.get.ranges import NOTHING, Known, content_range, fits, is_complete, known_of
from perdure.cli.get.record import Failed, Restart
from perdure.faults import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.get.part import Part, Stream
    from perdure.cli.get.record import Mirror, Request
    from perdure.cli.get.wire import Head

__all__ = ["COMPLETE", "Content", "Place"]

COMPLETE = -1


class Place:
    """Where the body of an answer belongs: bytes to pass over (COMPLETE: there is no body), and where it ends."""

    __slots__ = ("end", "skip")

    def __init__(self, skip: int = 0, end: int | None = None) -> None:
        self.skip = skip
        self.end = end


class Content:
    """What is being fetched, in its sink; ``total`` is its length where that is known. One thread uses it."""

    def __init__(self, request: Request, sink: Part | Stream) -> None:
        self.total: int | None = sink.known.length
        self._request = request
        self._sink = sink

    @property
    def have(self) -> int:
        """How many bytes are there."""
        return self._sink.have

    def wanted(self, mirror: Mirror, *, whole: bool) -> tuple[int, dict[str, str]]:
        """From which byte to ask a mirror, and the headers that say so; ``whole``: from the first one.

        Raises Failed where neither the rest nor the whole would be of use.
        """
        sink = self._sink
        plain = {"Accept-Encoding": "identity"}
        if not sink.have:
            return 0, plain
        proof = None if whole or mirror.no_range or not self._request.resumes else self._proof(mirror)
        if proof is None:
            if not sink.keeps:
                raise self._cannot_resume("nothing proves that the content is still the same")
            return 0, plain
        more = {"If-Range": proof} if proof else {}
        return sink.have, plain | {"Range": f"bytes={sink.have}-"} | more

    def place(self, mirror: Mirror, head: Head, offset: int, *, whole: bool) -> Place:
        """Where the body of an answer belongs; ``offset`` is the byte from which it was asked for.

        Raises Restart where what is there cannot be continued, Failed where the answer is of no use.
        """
        sink, headers = self._sink, head.headers
        if head.status == 416:
            if is_complete(headers, sink.have, sink.known, checked=self._request.checksum is not None):
                return Place(COMPLETE)
            raise self._misplaced(mirror, "there is no such range", whole=whole)
        if head.status == 206:
            span = content_range(headers.get("content-range"))
            wrong = fits(span, headers, offset, sink.known if offset else NOTHING)
            if wrong or span is None:
                raise self._misplaced(mirror, f"the server {wrong}", whole=whole or not offset)
            if not offset:
                sink.restart(known_of(headers, span.total), mirror.url)
            self.total = span.total or sink.known.length
            return Place(0, span.end)
        known = known_of(headers, _length(headers) if self._request.method != "HEAD" else None)
        self.total = known.length
        if sink.have and not sink.keeps:
            return Place(self._same_again(known))
        sink.restart(known, mirror.url)
        return Place(0, known.length)

    def add(self, mirror: Mirror, place: Place, data: bytes, *, whole: bool) -> None:
        """Put bytes of a body in their place. Raises Restart or Failed for more than was announced, OSError."""
        passed = min(place.skip, len(data))
        place.skip -= passed
        fresh = data[passed:]
        if place.end is not None and self._sink.have + len(fresh) > place.end:
            raise self._misplaced(mirror, f"more came than the {place.end} bytes announced", whole=whole)
        self._sink.append(fresh)

    def end(self, mirror: Mirror, head: Head, *, whole: bool) -> None:
        """The body is over: raises Failed where something is missing, and what ``check`` raises."""
        if self._request.method == "HEAD":
            self._sink.append(_as_text(head))
        elif self.total is not None and self._sink.have < self.total:
            why = f"the body ended after {self._sink.have} of {self.total} bytes"
            raise Failed(Fault(FaultKind.AMBIGUOUS, None, why))
        self._check(mirror, whole=whole)

    def _check(self, mirror: Mirror, *, whole: bool) -> None:
        """Compare with the checksum; what differs is asked for once more, without what was there before."""
        wanted = self._request.checksum
        if wanted is None:
            return
        found = self._sink.digest()
        if found == wanted.digest:
            return
        why = f"{wanted.algorithm} is {found}, not {wanted.digest}"
        if self._sink.keeps:
            self._sink.restart(NOTHING, "")
            if not whole:
                raise Restart(mirror, why)
        raise Failed(Fault(FaultKind.PERMANENT, None, why), ending="checksum")

    def _proof(self, mirror: Mirror) -> str | None:
        """What proves that a mirror continues what is here: a validator, or (empty) the checksum in the end."""
        known = self._sink.known
        if is_of(self._sink, mirror.url):
            return known.validator or ("" if self._request.checksum else None)
        return "" if self._request.checksum else known.etag  # dates say nothing about another copy

    def _misplaced(self, mirror: Mirror, why: str, *, whole: bool) -> Exception:
        """An answer that is not what was asked for: everything is asked for, unless that was it."""
        mirror.no_range = True
        if self._sink.have and not self._sink.keeps:
            return self._cannot_resume(why)
        return Failed(Fault(FaultKind.TRANSIENT, None, why)) if whole else Restart(mirror, why)

    def _same_again(self, known: Known) -> int:
        """How many bytes to pass over where the whole content comes again, on a stream."""
        if known.etag is None or known.etag != self._sink.known.etag:
            raise self._cannot_resume("the server sends another content, or knows no ranges")
        return self._sink.have

    def _cannot_resume(self, why: str) -> Failed:
        text = f"{self._sink.have} bytes are written to {self._sink.name} and cannot be taken back: {why}"
        return Failed(Fault(FaultKind.PERMANENT, None, text), ending="unreplayable")


def _length(headers: Any) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _as_text(head: Head) -> bytes:
    """The answer to a HEAD, one header on a line."""
    lines = [f"HTTP {head.status}", *(f"{name}: {value}" for name, value in head.headers.multi_items())]
    clean = ("".join(one if one.isprintable() else "?" for one in line) for line in lines)
    return "".join(f"{line}\n" for line in clean).encode("utf-8", "replace")

"""The body of a request, sent again: from where it stood at first, or not at all.

What can be sent only once is marked by a ``OneShot``, which the engine asks before it repeats a call.
"""

from __future__ import annotations

from perdure.colour import OneShot, is_coroutine_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

__all__ = ["PLAIN", "START", "Source", "once_of", "source_of", "start_of"]

START = "_perdure_start"
"""Where a body stood when it was first sent, noted on it: a redirect sends it again in another call."""


class Source:
    """Where the bytes of a body come from. Belongs to one request.

    ``once`` is a OneShot where they can be read once only; ``rewind`` puts files back to where they stood.
    """

    __slots__ = ("_files", "once")

    def __init__(self, files: tuple[tuple[Any, int], ...] = (), once: OneShot | None = None) -> None:
        self._files = files
        self.once = once

    def rewind(self) -> None:
        """Put every file back to where it stood at first."""
        for file, start in self._files:
            file.seek(start)

    @property
    def is_spent(self) -> bool:
        """Whether it was sent already and cannot be sent again."""
        return self.once is not None and self.once.is_begun


PLAIN = Source()
"""Bytes, or none: they can be sent as often as need be."""


def start_of(file: Any) -> int | None:
    """Where a file stands; None for what cannot be put back."""
    seekable = getattr(file, "seekable", None)
    if any(is_coroutine_function(getattr(file, name, None)) for name in ("seekable", "tell", "seek")):
        return None
    try:
        if seekable is not None and not seekable():
            return None
        file.seek(start := file.tell())
    except Exception:  # noqa: BLE001 - anybody's file-like object
        return None
    return start if isinstance(start, int) else None


def source_of(body: Any, holder: Any = None) -> Source:
    """How a body that a user gave can be sent again; ``holder``: what outlives this call and keeps the answer."""
    if body is None or isinstance(body, (bytes, bytearray, str)):
        return PLAIN
    kept = getattr(body if isinstance(body, _Once) else holder, START, None)
    if isinstance(kept, Source):
        return kept
    source = _fresh(body)
    if holder is not None and source is not PLAIN:
        try:
            setattr(holder, START, source)
        except AttributeError:  # a class with slots: a redirect finds the body as it is
            pass
    return source


def _fresh(body: Any) -> Source:
    if hasattr(body, "read"):
        start = start_of(body)
        return Source(once=OneShot()) if start is None else Source(((body, start),))
    if hasattr(body, "__next__") or hasattr(body, "__anext__"):
        return Source(once=OneShot())
    if hasattr(body, "__iter__") or hasattr(body, "__aiter__"):  # a list of chunks, and the like
        return PLAIN
    return Source(once=OneShot())


class _Once:
    """A body that can be sent once, which notes that it was begun."""

    def __init__(self, body: Any, source: Source) -> None:
        self._body = body
        setattr(self, START, source)


class _OnceIterated(_Once):
    def __iter__(self) -> Iterator[bytes]:
        _begin(self)  # at the first byte: clients take the iterator before they connect
        yield from self._body


class _OnceFile(_OnceIterated):
    def read(self, size: int = -1) -> Any:
        """Read from the body."""
        _begin(self)
        return self._body.read(size)


class _AsyncOnce(_Once):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        _begin(self)
        async for part in self._body:
            yield part


class _AsyncOnceFile(_AsyncOnce):
    async def read(self, size: int = -1) -> Any:
        """Read from the body."""
        _begin(self)
        return await self._body.read(size)


def once_of(body: Any, source: Source) -> Any:
    """The same body for a client that reads or iterates it, noting in ``source`` that it was begun."""
    is_file = hasattr(body, "read")
    if hasattr(body, "__aiter__"):
        return (_AsyncOnceFile if is_file else _AsyncOnce)(body, source)
    return (_OnceFile if is_file else _OnceIterated)(body, source)


def _begin(body: _Once) -> None:
    once = getattr(body, START).once
    if once is not None:
        once.is_begun = True

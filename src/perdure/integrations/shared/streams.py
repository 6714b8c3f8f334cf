"""The bodies of httpx and httpx2: what a request sends, and the part of a response that was looked at."""

from __future__ import annotations

from perdure.integrations.shared.answers import LOOKS, Scope, length_of
from perdure.integrations.shared.bodies import PLAIN, START, Source, source_of
from perdure.integrations.shared.decoding import unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

    from perdure.integrations.shared.answers import Judge

__all__ = ["Seen", "achained", "aonce", "bytes_of", "chained", "copy_of", "is_long", "once", "source"]


class Seen:
    """The part of a body that was looked at."""

    def __init__(self, limit: int, judge: Judge, scope: str, response: Any) -> None:
        self.parts: list[bytes] = []
        self.size = 0  # bytes looked at, as they came
        self.looks = 0
        self.broken: Exception | None = None
        self.limit, self.judge, self.scope, self.response = limit, judge, scope, response

    def add(self, part: bytes) -> None:
        """Take what came next."""
        self.parts.append(part)
        self.size += len(part)

    @property
    def body(self) -> bytes:
        """What they say, unpacked as far as the limit."""
        return copy_of(b"".join(self.parts), self.response, self.limit)

    @property
    def wants_more(self) -> bool:
        """Whether the verdict needs more."""
        if self.size > self.limit or self.scope == Scope.WHOLE:
            return self.size <= self.limit
        self.looks += 1
        return self.looks <= LOOKS and not self.judge.is_enough(self.body)


def bytes_of(stream: Any, plain: type[Any]) -> bytes | None:
    """The bytes of a body that is nothing but bytes."""
    return stream._stream if isinstance(stream, plain) else None


def is_long(response: Any, limit: int) -> bool:
    """Whether it is a failure with a body that nobody would look at in part: it is left to the caller unread."""
    if response.status_code < 400:
        return False
    length = length_of(_field(response, b"content-length"))
    return length is not None and length > limit


def copy_of(raw: bytes, response: Any, limit: int) -> bytes:
    """The start of a body as the user would read it."""
    return unpacked(raw, _field(response, b"content-encoding"), limit)


def _field(response: Any, name: bytes) -> str | None:
    """The last field of that name; `headers.get` decodes and joins all of them, at ten times the cost."""
    found = None
    for key, value in response.headers.raw:
        if len(key) == len(name) and key.lower() == name:
            found = value
    return None if found is None else found.decode("latin-1")


def source(stream: Any, plain: type) -> Source:
    """How the body of a request can be sent again, by what httpx made of it."""
    if type(stream) is plain:
        return PLAIN
    fields: Any = getattr(stream, "fields", None)
    if type(fields) is list:  # multipart: its files
        return source_of(_Parts(fields), stream)  # pyright: ignore[reportUnknownArgumentType] # as httpx made it
    return source_of(getattr(stream, "_stream", stream), stream)


class _Parts:
    """The files of a multipart body as one thing that is put back to its start."""

    def __init__(self, fields: list[Any]) -> None:
        self.parts = [field for field in fields if hasattr(field, "file")]
        self.files = [field.file for field in self.parts if hasattr(field.file, "read")]

    def read(self) -> None:
        """There to say that it is a file."""

    def tell(self) -> int:
        self.starts = [file.tell() for file in self.files]
        return 0

    def seek(self, _: int) -> None:
        for file, start in zip(self.files, self.starts, strict=True):
            file.seek(start)
        for part in self.parts:
            part._consumed = False  # httpx would go back to 0, where the file may not have stood


def once(base: type, stream: Any, where: Source) -> Any:
    """The stream of a body that can be sent once, which notes that it was begun."""

    class Once(base):  # type: ignore[misc] # the client's own class, which it looks for
        def __iter__(self) -> Iterator[bytes]:
            _begin(where)
            yield from stream

    made = Once()
    setattr(made, START, where)
    return made


def aonce(base: type, stream: Any, where: Source) -> Any:
    """The same for async code."""

    class Once(base):  # type: ignore[misc] # as above
        async def __aiter__(self) -> AsyncIterator[bytes]:
            _begin(where)
            async for part in stream:
                yield part

    made = Once()
    setattr(made, START, where)
    return made


def chained(base: type, seen: Seen, rest: Any, stream: Any) -> Any:
    """A body of which the first parts were looked at."""

    class Chained(base):  # type: ignore[misc] # as above
        def __iter__(self) -> Iterator[bytes]:
            yield from seen.parts
            if seen.broken is not None:
                raise seen.broken
            yield from rest

        def close(self) -> None:
            if hasattr(rest, "close"):  # a generator: nobody else will end it
                rest.close()
            stream.close()

    return Chained()


def achained(base: type, seen: Seen, rest: Any, stream: Any) -> Any:
    """The same for async code."""

    class Chained(base):  # type: ignore[misc] # as above
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in seen.parts:
                yield part
            if seen.broken is not None:
                raise seen.broken
            async for part in rest:
                yield part

        async def aclose(self) -> None:
            if hasattr(rest, "aclose"):
                await rest.aclose()
            await stream.aclose()

    return Chained()


def _begin(where: Source) -> None:
    if where.once is not None:
        where.once.is_begun = True

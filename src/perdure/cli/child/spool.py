"""Bytes kept for later: in memory while they are few, in an unnamed file when they are not."""

from __future__ import annotations

import os

__all__ = ["MEMORY", "Spool"]

MEMORY = 1 << 20
"""Bytes kept in memory before a spool moves to a file."""


class Spool:
    """An append-only store of bytes, read from any place. Not thread safe; one thread uses it."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.size = 0
        self._memory = memory
        self._bytes = bytearray()
        self._file: int | None = None

    def append(self, data: bytes) -> None:
        """Add to the end. Raises OSError where the disk is full."""
        if self._file is None and self.size + len(data) > self._memory:
            self._move_to_file()
        if self._file is None:
            self._bytes += data
        else:
            _write_all(self._file, data)
        self.size += len(data)

    def read(self, start: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``start``; empty at the end."""
        if self._file is None:
            return bytes(self._bytes[start : start + length])
        return os.pread(self._file, length, start)

    def as_file(self) -> int:
        """A descriptor that reads the whole content from its start, for a command's stdin.

        It is one open file, moved back to the start by each call; the spool closes it.
        """
        if self._file is None:
            self._move_to_file()
        assert self._file is not None  # noqa: S101 - what the line before made
        os.lseek(self._file, 0, os.SEEK_SET)
        return self._file

    def close(self) -> None:
        """Forget everything and free memory and disk."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._bytes.clear()
        self.size = 0

    def _move_to_file(self) -> None:
        from tempfile import TemporaryFile

        with TemporaryFile(prefix="perdure-") as file:  # has no name: gone with the process, whatever ends it
            self._file = os.dup(file.fileno())
        _write_all(self._file, bytes(self._bytes))
        self._bytes.clear()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]

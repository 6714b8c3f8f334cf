"""stdin, given to every attempt from its first byte on.

What stdin is decides how: a regular file is handed over and moved back to where it stood; a pipe or socket
is read once, as fast as the command takes it, and kept for the attempts that may follow; a terminal and a
device are handed over as they are.
"""

from __future__ import annotations

import os
import stat

from perdure.cli.child.spool import Spool

__all__ = ["Replay", "size_words", "stdin_kind"]

CHUNK = 1 << 16


def stdin_kind(fd: int = 0) -> str:
    """``"file"``, ``"stream"`` (must be kept to be given twice) or ``"device"``."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return "file"
    return "stream" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else "device"


class Replay:
    """A stream read once and given several times. One thread uses it.

    Once more than ``limit`` bytes came, ``whole`` is False, ``why_not`` says why, and nothing is
    kept: the attempt that runs goes on reading, but no other can be given the same input.
    """

    def __init__(self, fd: int, *, limit: int) -> None:
        self.fd = fd
        self.limit = limit
        self.whole = True
        self.why_not = ""
        self.ended = False
        self._spool = Spool()

    def read(self, start: int) -> bytes | None:
        """Bytes kept from ``start`` on; empty at the end of input, None where the stream must be read."""
        if not self.whole:
            return b"" if self.ended else None
        if start < self._spool.size:
            return self._spool.read(start, CHUNK)
        return b"" if self.ended else None

    def take(self, *, keep: bool) -> bytes:
        """Read the stream once (it must be ready); the bytes are kept for later attempts if ``keep``."""
        try:
            data = os.read(self.fd, CHUNK)
        except OSError:  # the writer is gone in an unkind way (a reset socket): nothing more comes
            data = b""
        if not data:
            self.ended = True
        elif not keep:
            self._drop("it is not needed any more")
        elif self._spool.size + len(data) > self.limit:
            self._drop(
                f"stdin is larger than --stdin-limit ({size_words(self.limit)}) and cannot be given again"
            )
        elif self.whole:
            self._store(data)
        return data

    def close(self) -> None:
        """Free what was kept."""
        self._spool.close()

    def _store(self, data: bytes) -> None:
        try:
            self._spool.append(data)
        except OSError as error:
            self._drop(f"stdin could not be kept ({error.strerror}) and cannot be given again")

    def _drop(self, why: str) -> None:
        if self.whole:
            self.whole, self.why_not = False, why
            self._spool.close()


def size_words(count: int) -> str:
    """A number of bytes for people: "256 MiB"."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"

"""Where the content goes: a ``.part`` file that becomes the target when it is whole, or a stream.

Beside ``FILE`` stand, while it is not whole, ``FILE.part`` and ``FILE.part.json``, which says what the part is
of: the URL, the validators and the length. The note is written after the part was emptied and before the first
byte comes, so that a part never lies beside the note of another content. ``FILE`` itself changes in one step, by
a rename, after the part is on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
from typing import cast

from perdure.cli.get.ranges import NOTHING, Known
from perdure.cli.get.redact import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.cli.get.reading import Checksum

__all__ = ["Busy", "Part", "Stream", "open_sink"]

SCHEMA = "perdure.part/1"
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_BLOCK = 1 << 20


class Busy(Exception):
    """Another process is writing the same part."""


def open_sink(output: str, *, resume: bool, checksum: Checksum | None = None) -> Part | Stream:
    """The place for the content: ``output`` is a path, or "-" for stdout.

    Raises OSError where it cannot be written, Busy where another process does.
    """
    if output == "-":
        return Stream(os.dup(1), "standard output", checksum)
    path = os.path.realpath(output)  # the file that a link leads to is replaced, not the link
    mode = _mode(path)
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), output)
    if mode is not None and not stat.S_ISREG(mode):  # a device or a pipe is written, not replaced
        return Stream(os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)), output, checksum)
    return Part(output, path, mode, resume=resume, checksum=checksum)


class Part:
    """The part of a file. ``have`` bytes of what is ``known`` are in it. One thread uses it."""

    keeps = True

    def __init__(
        self, name: str, path: str, mode: int | None, *, resume: bool, checksum: Checksum | None
    ) -> None:
        self.name = name
        self.path = path + ".part"
        self._target = path
        self._note = path + ".part.json"
        self._mode = mode
        self._checksum = checksum
        self._fd = _open(self.path)
        try:
            _lock(self._fd, self.path)
            self.have = os.fstat(self._fd).st_size
            self.known, self.of = self._read_note() if self.have else (NOTHING, "")
            if not resume or not self.of or self.have > (self.known.length or self.have):
                self.restart(NOTHING, "")
        except BaseException:  # also an interrupt: nobody else knows the descriptor
            os.close(self._fd)
            raise

    def restart(self, known: Known, url: str) -> None:
        """Forget what is there: a content begins, of which this much is known."""
        self._empty()
        self.known, self.of = known, _identity(url) if url else ""
        if url:
            self._write_note(url)

    def append(self, data: bytes) -> None:
        """Add bytes. Raises OSError where there is no room."""
        self.have += _write(self._fd, data, self.path)

    def digest(self) -> str:
        """The digest of all that is there, by the checksum's algorithm."""
        import hashlib

        found = hashlib.new(self._checksum.algorithm if self._checksum else "sha256")
        os.lseek(self._fd, 0, os.SEEK_SET)
        while block := os.read(self._fd, _BLOCK):
            found.update(block)
        return found.hexdigest()

    def finish(self) -> None:
        """Make it the target, in one step. Raises OSError."""
        with contextlib.suppress(OSError):
            if self._mode is not None and sys.platform != "win32":
                os.fchmod(self._fd, stat.S_IMODE(self._mode))
        os.fsync(self._fd)
        if sys.platform == "win32":  # an open file cannot be renamed there
            os.close(self._fd)
            self._fd = -1
        os.replace(self.path, self._target)  # noqa: PTH105
        _forget(self._note)
        _sync_folder(self._target)
        self._close()

    def leave(self) -> None:
        """Stop: what is there stays for another run, unless it is nothing."""
        if self._fd < 0:
            return
        if not self.have:
            _forget(self._note)
            _forget(self.path)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _empty(self) -> None:
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self.have = 0

    def _read_note(self) -> tuple[Known, str]:
        """What the part is of; nothing where the note is missing or is none of ours."""
        os.lseek(self._fd, 0, os.SEEK_END)
        try:
            with open(self._note, "rb") as file:  # noqa: PTH123
                note: Any = json.loads(file.read(65_536))
        except (OSError, ValueError, RecursionError):
            return NOTHING, ""
        said = cast("dict[str, object]", note) if isinstance(note, dict) else {}
        if said.get("schema") != SCHEMA:
            return NOTHING, ""
        length = said.get("length")
        known = Known(
            _text(said, "etag"),
            _text(said, "modified"),
            length if isinstance(length, int) and length >= 0 else None,
        )
        return known, _text(said, "id") or ""

    def _write_note(self, url: str) -> None:
        note = {"schema": SCHEMA, "url": shown(url), "id": self.of, **self.known._asdict()}
        fresh = self._note + ".new"
        _forget(fresh)  # left by a run that was killed, or a link that somebody put there
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(fresh, flags, 0o666), "w", encoding="ascii") as file:  # noqa: PTH123
            json.dump(note, file)
        os.replace(fresh, self._note)  # noqa: PTH105


class Stream:
    """Standard output, a pipe or a device: what was written stays written. One thread uses it."""

    keeps = False
    path = ""

    def __init__(self, fd: int, name: str, checksum: Checksum | None) -> None:
        import hashlib

        self.name = name
        self.have = 0
        self.known = NOTHING
        self.of = ""
        self._fd = fd
        self._found = hashlib.new(checksum.algorithm) if checksum else None

    def restart(self, known: Known, url: str) -> None:
        """A content begins; nothing of one is written yet."""
        self.known, self.of = known, _identity(url)

    def append(self, data: bytes) -> None:
        """Write bytes. Raises OSError where nobody reads, or there is no room."""
        self.have += _write(self._fd, data, self.name)
        if self._found is not None:
            self._found.update(data)

    def digest(self) -> str:
        """The digest of all that was written, by the checksum's algorithm."""
        return self._found.hexdigest() if self._found is not None else ""

    def finish(self) -> None:
        """Nothing is left to do."""

    def leave(self) -> None:
        """Close it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_of(sink: Part | Stream, url: str) -> bool:
    """Whether what is there came from this very URL."""
    return sink.of == _identity(url)


def _identity(url: str) -> str:
    """Tells URLs apart without telling what they hold."""
    import hashlib

    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode  # noqa: PTH116
    except FileNotFoundError:
        return None


def _open(path: str) -> int:
    """Open a part. What is not a plain file of ours is left alone: a link could lead anywhere."""
    fd = os.open(path, _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileExistsError(errno.EEXIST, "is in the way: not a plain file", path)
    return fd


def _lock(fd: int, path: str) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy(f"another process is writing {path}") from None
    except OSError:
        pass  # a file system without locks


def _write(fd: int, data: bytes, name: str) -> int:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError as error:
            error.filename = name
            raise
    return len(data)


def _sync_folder(path: str) -> None:
    """Let the rename survive a loss of power, where a folder can be asked for that."""
    with contextlib.suppress(OSError):
        fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108


def _text(note: dict[str, object], name: str) -> str | None:
    """A text that a header could hold; None for anything else."""
    value = note.get(name)
    fine = isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) < 1000
    return value if isinstance(value, str) and fine else None

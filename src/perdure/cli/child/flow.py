"""Moving bytes between descriptors without ever waiting on one of them.

All of it hangs on one ``Pump``: a table of what to do when a descriptor is ready. A sink that does not take
its bytes stops the channel that feeds it, so memory stays bounded and signals and timeouts stay prompt.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from perdure.cli.child.replay import Replay
    from perdure.cli.child.spool import Spool

    class Watching(Protocol):
        """What looks at passing output."""

        def feed(self, data: bytes) -> None: ...
        def end(self) -> None: ...


__all__ = ["Channel", "Feeder", "HeldSink", "PassingSink", "Pump", "reader_is_gone"]

CHUNK = 1 << 16
PROMPT = 4096
"""Bytes that a ready pipe takes without blocking (one page; POSIX promises at least 512)."""


class Pump:
    """Which descriptor wakes what. One thread runs it."""

    def __init__(self) -> None:
        # poll, where there is one: the other ways refuse regular files, to which output may well go
        kind = getattr(selectors, "PollSelector", selectors.DefaultSelector)
        self._selector: selectors.BaseSelector = kind()

    def on_readable(self, fd: int, act: Callable[[], None]) -> None:
        """Call ``act`` whenever ``fd`` has something to read."""
        self._selector.register(fd, selectors.EVENT_READ, act)

    def on_writable(self, fd: int, act: Callable[[], None]) -> None:
        """Call ``act`` whenever ``fd`` takes something."""
        self._selector.register(fd, selectors.EVENT_WRITE, act)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; does nothing if it is not watched."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def turn(self, wait: float | None) -> None:
        """Wait up to ``wait`` seconds for something to be ready, and do what hangs on it."""
        for key, _ in self._selector.select(wait):
            key.data()

    def close(self) -> None:
        """Free the selector; descriptors stay open."""
        self._selector.close()


class PassingSink:
    """Writes to one of perdure's own descriptors, as much at a time as it takes at once."""

    def __init__(self, pump: Pump, fd: int, *, before: Callable[[bytes], None] | None = None) -> None:
        self.broken: OSError | None = None
        self.on_drain: Callable[[], None] | None = None
        self._pump = pump
        self._fd = fd
        self._before = before
        self._pending = memoryview(b"")
        self._watched = False
        mode = os.fstat(fd).st_mode
        self._piece = CHUNK if stat.S_ISREG(mode) else PROMPT
        self._takes = _asker(fd)

    @property
    def full(self) -> bool:
        """Whether bytes are still waiting to be taken."""
        return bool(self._pending)

    def write(self, data: bytes) -> None:
        """Pass bytes on; call it only while not ``full``."""
        if self.broken is not None:
            return
        if self._before is not None:
            self._before(data)
        self._pending = memoryview(data)
        self.flush()

    def flush(self) -> None:
        """Write until all is gone or the other side takes no more for now."""
        while self._pending and self._takes():
            try:
                self._pending = self._pending[os.write(self._fd, self._pending[: self._piece]) :]
            except BlockingIOError:  # another program made the shared descriptor non-blocking
                break
            except OSError as error:  # nobody reads, the disk is full, the terminal went away
                self.broken = error
                self._pending = memoryview(b"")
        self._watch()

    def _watch(self) -> None:
        if self._pending and not self._watched:
            self._pump.on_writable(self._fd, self.flush)
        elif self._watched and not self._pending:
            self._pump.forget(self._fd)
        self._watched = bool(self._pending)
        if not self._pending and self.on_drain is not None:
            self.on_drain()


class HeldSink:
    """Keeps output until it is known to be wanted."""

    full = False
    broken: OSError | None = None
    on_drain: Callable[[], None] | None = None

    def __init__(self, spool: Spool) -> None:
        self.spool = spool

    def write(self, data: bytes) -> None:
        """Keep bytes. Raises OSError where the disk is full: a cut output must not pass for a whole one."""
        self.spool.append(data)


class Channel:
    """One output of the command: read, looked at, passed to a sink."""

    def __init__(
        self, pump: Pump, source: int, sink: PassingSink | HeldSink, watching: Sequence[Watching]
    ) -> None:
        self.open = True
        self.sink = sink
        self._pump = pump
        self._source = source
        self._watching = watching
        self._paused = False
        sink.on_drain = self._resume
        pump.on_readable(source, self._read)

    def close(self) -> None:
        """Stop reading; a command that still writes gets a broken pipe."""
        if self.open:
            self.open = False
            if not self._paused:
                self._pump.forget(self._source)
            os.close(self._source)
            for one in self._watching:
                one.end()

    def _read(self) -> None:
        try:
            data = os.read(self._source, CHUNK)
        except OSError:  # a pseudo terminal ends with an error instead of an empty read
            data = b""
        if not data:
            self.close()
            return
        for one in self._watching:
            one.feed(data)
        self.sink.write(data)
        if self.sink.broken is not None:
            self.close()
        elif self.sink.full:
            self._paused = True
            self._pump.forget(self._source)

    def _resume(self) -> None:
        if self._paused and self.open:
            self._paused = False
            if self.sink.broken is not None:
                self._paused = True
                self.close()
            else:
                self._pump.on_readable(self._source, self._read)


class Feeder:
    """The command's stdin: what was kept first, then the stream as it comes."""

    def __init__(self, pump: Pump, target: int, replay: Replay, *, keep: bool) -> None:
        self.open = True
        self._pump = pump
        self._target = target
        self._replay = replay
        self._keep = keep
        self._position = 0
        self._pending = memoryview(b"")
        os.set_blocking(target, False)
        pump.on_writable(target, self._write)

    def close(self) -> None:
        """Close the command's stdin and leave the rest of the stream unread."""
        if self.open:
            self.open = False
            self._pump.forget(self._replay.fd)
            self._pump.forget(self._target)
            os.close(self._target)

    def _write(self) -> None:
        if not self._pending and not self._next():
            return
        try:
            self._pending = self._pending[os.write(self._target, self._pending) :]
        except BlockingIOError:
            return
        except OSError:  # the command reads no more, which is its right
            self.close()

    def _next(self) -> bool:
        data = self._replay.read(self._position)
        if data is None:
            self._pump.forget(self._target)
            self._pump.on_readable(self._replay.fd, self._take)
        elif not data:
            self.close()
        else:
            self._hold(data)
        return bool(self._pending)

    def _take(self) -> None:
        self._pump.forget(self._replay.fd)
        data = self._replay.take(keep=self._keep)
        if data:
            self._hold(data)
            self._pump.on_writable(self._target, self._write)
        else:
            self.close()

    def _hold(self, data: bytes) -> None:
        self._position += len(data)
        self._pending = memoryview(data)


def _asker(fd: int) -> Callable[[], bool]:
    """A function that says whether a write of up to ``PROMPT`` bytes to ``fd`` would not block."""
    asked = _poll(fd, "POLLOUT")
    if asked is None:
        return lambda: True
    return lambda: bool(asked.poll(0))


def reader_is_gone(fd: int) -> bool:
    """Whether ``fd`` is a pipe or socket whose other end was closed."""
    asked = _poll(fd, "POLLERR")  # errors are reported whether asked for or not
    if asked is None:
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in asked.poll(0))


def _poll(fd: int, event: str) -> select.poll | None:
    if not hasattr(select, "poll"):
        return None
    asked = select.poll()
    asked.register(fd, getattr(select, event))
    return asked

"""Where a command's stdin, stdout and stderr go.

``Layout`` is decided once per run from what perdure's own descriptors are and what was asked for; ``wire``
makes the descriptors of one attempt from it. What nobody needs to see is inherited, which costs nothing and
changes nothing. What must be seen goes through a pipe, or through a pseudo terminal where perdure's own
stream is a terminal, so that the command keeps its colours. Where stdout and stderr are the same file, they
stay one stream, so that their lines keep their order.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from perdure.cli.child.flow import Channel, Feeder, HeldSink, PassingSink, Pump
from perdure.cli.child.watching import Matcher, Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from perdure.cli.child.replay import Replay
    from perdure.cli.child.spool import Spool

__all__ = ["Layout", "Wires", "plan", "wire"]


class Layout(NamedTuple):
    """How the streams of every attempt are laid; made by ``plan``. Immutable."""

    stdin: str  # "inherit", "file" (moved back for each attempt), "stream" (replayed), "null"
    capture_out: bool = False
    capture_err: bool = False
    together: bool = False  # stdout and stderr are one captured stream
    hold: bool = False
    patterns: tuple[re.Pattern[bytes], ...] = ()
    stdin_start: int = 0

    @property
    def watched(self) -> bool:
        """Whether all that the command writes to the terminal passes through perdure."""
        return all(
            captured or not os.isatty(fd) for fd, captured in ((1, self.capture_out), (2, self.capture_err))
        )


def plan(
    *, stdin: str, interactive: bool, hold: bool = False, patterns: tuple[re.Pattern[bytes], ...] = ()
) -> Layout:
    """Decide the layout. ``interactive``: stdout and stderr are a terminal from which the command may read.

    Such a command keeps them, untouched, unless its output is needed: full-screen programs set the terminal's
    modes through stdout, and pagers find their keyboard by the name of stderr.
    """
    watch = bool(patterns)
    capture_err = watch or not interactive
    together = capture_err and not hold and _same_file(1, 2)
    return Layout(
        stdin=stdin,
        capture_out=hold or watch or together,
        capture_err=capture_err,
        together=together,
        hold=hold,
        patterns=patterns,
        stdin_start=os.lseek(0, 0, os.SEEK_CUR) if stdin == "file" else 0,
    )


class Wires:
    """The descriptors of one attempt, and what moves bytes through them.

    ``stdin``, ``stdout`` and ``stderr`` are those of the command (None for stdin: an empty one).
    """

    def __init__(self, stdin: int | None, stdout: int = 1, stderr: int = 2) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.theirs: list[int] = []  # the command's ends, closed here once it has them
        self.channels: list[Channel] = []
        self.sinks: list[PassingSink] = []
        self.terminals: list[int] = []  # pseudo terminals, to be kept in size
        self.feeder: Feeder | None = None
        self.tail: Tail | None = None
        self.matchers: list[Matcher] = []

    def started(self) -> None:
        """The command has its ends: close ours, so that the end of its output can be seen."""
        for fd in self.theirs:
            os.close(fd)
        self.theirs.clear()

    def close(self) -> None:
        """Close everything that is still open."""
        self.started()
        if self.feeder is not None:
            self.feeder.close()
        for channel in self.channels:
            channel.close()

    @property
    def drained(self) -> bool:
        """Whether all output was read to its end and passed on."""
        return not any(channel.open for channel in self.channels) and not self.blocked

    @property
    def blocked(self) -> bool:
        """Whether output waits for perdure's own reader to take it."""
        return any(sink.full for sink in self.sinks)

    @property
    def found(self) -> frozenset[re.Pattern[bytes]]:
        """The patterns that occurred in the output."""
        return frozenset(one for matcher in self.matchers for one in matcher.found)


def wire(
    layout: Layout,
    pump: Pump,
    *,
    replay: Replay | None,
    keep: bool,
    held: Spool | None,
    before: Callable[[bytes], None] | None,
) -> Wires:
    """Make the descriptors of one attempt.

    ``keep``: stdin may be needed again. ``held`` takes stdout, if given. ``before`` sees output before it is
    passed on.
    """
    wires = Wires(_stdin(layout))
    if replay is not None:
        _feed(wires, pump, replay, keep=keep)
    if layout.capture_out:
        wires.stdout = _listen(wires, pump, layout, 1, held, before)
    if layout.together:
        wires.stderr = wires.stdout
    elif layout.capture_err:
        wires.stderr = _listen(wires, pump, layout, 2, None, before)
    return wires


def _stdin(layout: Layout) -> int | None:
    if layout.stdin == "file":
        os.lseek(0, layout.stdin_start, os.SEEK_SET)
    return 0 if layout.stdin in ("file", "inherit") else None


def _feed(wires: Wires, pump: Pump, replay: Replay, *, keep: bool) -> None:
    theirs, ours = os.pipe()
    wires.stdin = theirs
    wires.theirs.append(theirs)
    wires.feeder = Feeder(pump, ours, replay, keep=keep)


def _listen(
    wires: Wires,
    pump: Pump,
    layout: Layout,
    fd: int,
    held: Spool | None,
    before: Callable[[bytes], None] | None,
) -> int:
    """Capture what the command writes to ``fd``; returns the command's end."""
    terminal = os.isatty(fd)
    shared = terminal or fd == 2 or layout.together  # with perdure's own sentences
    sink = HeldSink(held) if held is not None else PassingSink(pump, fd, before=before if shared else None)
    if isinstance(sink, PassingSink):
        wires.sinks.append(sink)
    if terminal and held is None:
        from perdure.cli.child.terminal import open_like

        ours, theirs = open_like(fd)
        wires.terminals.append(ours)
    else:
        ours, theirs = os.pipe()
    wires.theirs.append(theirs)
    wires.channels.append(Channel(pump, ours, sink, _watching(wires, layout, fd)))
    return theirs


def _watching(wires: Wires, layout: Layout, fd: int) -> list[Tail | Matcher]:
    watching: list[Tail | Matcher] = []
    if fd == 2 or layout.together:
        wires.tail = Tail()
        watching.append(wires.tail)
    if layout.patterns:
        wires.matchers.append(Matcher(layout.patterns))
        watching.append(wires.matchers[-1])
    return watching


def _same_file(one: int, other: int) -> bool:
    return os.path.sameopenfile(one, other)

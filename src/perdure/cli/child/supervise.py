"""One attempt: start the command in a group of its own, watch it, end it, and bury the whole group.

States of an attempt, in order::

    running    the leader lives; signals are passed on; the timeout counts
    ending     TERM was sent to the group (timeout, a stopping signal); after ``grace`` seconds comes KILL
    drained    the leader is gone; what it wrote is passed on to its end, or for ``DRAIN`` seconds where a
               process it left behind keeps the streams open
    settled    either the group is left alone (the attempt succeeded), or every member of it is dead

A signal that arrives in any state is handled in that state. Nothing else may be started before ``settle``.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from perdure.cli.child.flow import Pump, reader_is_gone
from perdure.cli.child.group import Group
from perdure.cli.child.signals import STOPPING, Signals
from perdure.cli.child.spawn import spawn
from perdure.cli.child.supervised import NOBODY_READS, TIMED_OUT, Ran
from perdure.cli.child.terminal import Loan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perdure.cli.child.terminal import Terminal
    from perdure.cli.child.wiring import Wires

__all__ = ["Stuck", "Supervisor"]

DRAIN = 1.0
"""Seconds to wait for the end of the output of a command that is gone but left something running."""

LAST_WORDS = 0.1
"""The same for a command that was told to stop: what it left running is told so too, and comes to its end."""

SURVIVES_KILL = 10.0
"""Seconds after KILL at which a process that is still there is held to be stuck in the system."""

SAME_PRESS = 0.05
"""A second INT within this many seconds is the same key press, which reached perdure by two ways."""

GROUP_POLL = 0.02
"""Seconds between looks at whether a group is dead: its orphans report to somebody else."""


class Stuck(Exception):
    """Processes survived KILL; another attempt beside them is out of the question."""


class Supervisor:
    """Runs one command once: ``run()`` and then ``settle()``. One thread, one use."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        wires: Wires,
        pump: Pump,
        signals: Signals,
        timeout: float | None = None,
        grace: float = 5.0,
        terminal: Terminal | None = None,
        lend_at_once: bool = False,
        tick: Callable[[], float | None] | None = None,
    ) -> None:
        self._argv = list(argv)
        self._env = env
        self._wires = wires
        self._pump = pump
        self._signals = signals
        self._timeout = timeout
        self._grace = grace
        self._loan = Loan(terminal)
        self._lend_at_once = lend_at_once
        self._tick = tick
        self._group: Group | None = None
        self._killed = False
        self._status: int | None = None
        self._start = 0.0
        self._cut_at: float | None = None
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._timed_out = False
        self._stopped_at: float | None = None  # when a stopping signal was passed on

    # What a run is

    def run(self) -> Ran:
        """Start the command and wait for its leader and its output.

        Raises CannotStart where there was nothing to run.
        """
        self._pump.on_readable(self._signals.wake_fd, self._take_signals)
        pid = self._spawn()
        self._take_signals()  # those that came before there was a group to pass them to
        try:
            while not self._leader_gone(pid):
                self._turn(None)
            ended = time.monotonic()
            self._drain(ended + (DRAIN if self._kill_at is None and self._stopped_at is None else LAST_WORDS))
        finally:
            self._loan.end()
        return self._ran(ended - self._start)

    def settle(self, *, keep: bool) -> bool:
        """Let go of the group, or see it dead; says whether something was left running.

        Raises Stuck if a process survives KILL.
        """
        try:
            if self._group is None:
                return False
            if keep and self._stopped_at is None:
                return self._group.alive()
            self._bury(self._group)
            return False
        finally:
            self._wires.close()
            self._pump.forget(self._signals.wake_fd)

    def abandon(self) -> None:
        """Kill whatever there is, at once: perdure itself failed."""
        self._kill()
        self._loan.end()
        self._wires.close()

    # Starting

    def _spawn(self) -> int:
        wires = self._wires
        self._start = time.monotonic()
        try:
            pid = spawn(self._argv, self._env, wires.stdin, wires.stdout, wires.stderr)
        finally:
            wires.started()
        self._group = Group(pid)
        if self._lend_at_once:
            self._loan.give(pid)
        if self._timeout is not None:
            self._cut_at = self._start + self._timeout
        return pid

    # Turning: one wait for something to happen, and what follows from the time

    def _turn(self, until: float | None) -> None:
        wake = self._tick() if self._tick is not None else None
        points = (until, self._cut_at, self._kill_at, self._give_up_at, wake)
        times = [at for at in points if at is not None]
        self._pump.turn(max(0.0, min(times) - time.monotonic()) if times else None)
        self._on_time(time.monotonic())

    def _on_time(self, now: float) -> None:
        if self._cut_at is not None and now >= self._cut_at:
            self._cut_at = None
            if self._status is None:
                self._timed_out = True
                self._end(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill()
        if self._give_up_at is not None and now >= self._give_up_at and self._any_left():
            raise Stuck(f"processes of {self._argv[0]} are still there {SURVIVES_KILL:g} s after KILL")

    def _any_left(self) -> bool:
        return self._status is None or (self._group is not None and self._group.alive())

    def _send(self, signum: int) -> None:
        if self._group is not None:
            self._group.send(signum)

    def _kill(self) -> None:
        self._kill_at = None
        self._killed = True
        self._give_up_at = self._give_up_at or time.monotonic() + SURVIVES_KILL
        if self._group is not None:
            self._group.kill()

    def _end(self, now: float) -> None:
        """TERM now, KILL after the grace; a second call does not put the KILL off."""
        if self._kill_at is None and not self._killed:
            self._kill_at = now + self._grace
        if self._group is not None:
            self._group.terminate()

    # The leader

    def _leader_gone(self, pid: int) -> bool:
        while self._status is None:
            try:
                changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:  # somebody else took it, and its status with it
                changed, status = pid, 0
            if not changed:
                return False
            if os.WIFSTOPPED(status):
                self._paused(os.WSTOPSIG(status), pid)
            else:
                self._status = status
        self._cut_at = None
        return True

    def _paused(self, signum: int, pid: int) -> None:
        """It was stopped: for asking for the terminal, which it may have, or by Ctrl-Z: stop with it."""
        if signum in (signal.SIGTTIN, signal.SIGTTOU) and self._loan.give(pid):
            self._send(signal.SIGCONT)
        elif signum in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            self._rest(pid)

    def _rest(self, pid: int) -> None:
        """Stop ourselves until we are continued; time that passes meanwhile does not count."""
        rested = self._loan.rest(pid)
        self._send(signal.SIGCONT)
        if self._cut_at is not None:
            self._cut_at += rested

    # Signals

    def _take_signals(self) -> None:
        for signum in self._signals.take():
            if signum in STOPPING:
                self._stop_with(signum, time.monotonic())
            elif signum == signal.SIGTSTP and self._group is not None:
                self._send(signum)
                self._rest(self._group.pgid)
            elif signum == signal.SIGWINCH:
                self._resize()
            else:
                self._send(signum)

    def _stop_with(self, signum: int, now: float) -> None:
        if self._stopped_at is None:
            self._stopped_at = now
            self._signals.stop = signum
            self._send(signum)
            self._send(signal.SIGCONT)
            if signum == signal.SIGTERM:
                self._end(now)
        elif signum != signal.SIGINT:
            self._end(now)
        elif now - self._stopped_at > SAME_PRESS:
            self._kill()

    def _resize(self) -> None:
        from perdure.cli.child.terminal import copy_size

        for ours in self._wires.terminals:
            copy_size(2 if os.isatty(2) else 1, ours)
        self._send(signal.SIGWINCH)

    # The end

    def _drain(self, until: float) -> None:
        if self._wires.feeder is not None:
            self._wires.feeder.close()
        while not self._wires.drained:
            patient = self._wires.blocked and self._stopped_at is None  # its reader may take its time
            if not patient and time.monotonic() >= until:
                break
            self._turn(None if patient else until)

    def _bury(self, group: Group) -> None:
        """See every member of the group dead: TERM, and KILL after the grace."""
        if self._kill_at is None and not self._killed and group.alive():
            self._end(time.monotonic())
        while group.alive():
            self._turn(time.monotonic() + GROUP_POLL)

    def _ran(self, duration: float) -> Ran:
        wires = self._wires
        for channel in wires.channels:
            channel.close()
        code = os.waitstatus_to_exitcode(self._status or 0)
        signum = -code if code < 0 else None
        plain = code if signum is None else 128 + signum
        key = self._loan.key_behind(plain)
        if key is not None and self._stopped_at is None and not self._timed_out:
            self._stopped_at = time.monotonic()
            self._signals.stop, self._signals.from_terminal = key, True
        return Ran(
            code=TIMED_OUT if self._timed_out else plain,
            signal=signum,
            timed_out=self._timed_out,
            timeout=self._timeout,
            duration=duration,
            tail=wires.tail.text() if wires.tail is not None else None,
            found=wires.found,
            unread=_unread(wires, plain),
            asked_to_stop=self._stopped_at is not None,
        )


def _unread(wires: Wires, code: int) -> str:
    """Why what the command writes has nowhere to go, if that is so; it may well be what the command died of."""
    errors = [sink.broken for sink in wires.sinks if sink.broken is not None]
    if errors and errors[0].errno not in (errno.EPIPE, errno.EIO):
        return f"its output could not be written: {errors[0].strerror}"
    if errors or (code == 128 + signal.SIGPIPE and reader_is_gone(1)):
        return NOBODY_READS
    return ""

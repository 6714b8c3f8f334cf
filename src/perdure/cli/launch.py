"""Running one command once, with everything laid for it: the piece between the loop and the supervisor."""

from __future__ import annotations

import os
import time

from perdure.cli.child.flow import Pump
from perdure.cli.child.replay import Replay, stdin_kind
from perdure.cli.child.spawn import CannotStart
from perdure.cli.child.spool import Spool
from perdure.cli.child.supervise import Supervisor
from perdure.cli.child.supervised import Ran
from perdure.cli.child.terminal import Terminal
from perdure.cli.child.wiring import Wires, plan, wire
from perdure.cli.wording import running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from perdure.cli.child.signals import Signals
    from perdure.cli.record import Request
    from perdure.cli.screen import Screen

__all__ = ["Launcher"]

REDRAW = 0.5
"""Seconds between two looks at the status line while a command runs."""

HOOK_TIMEOUT = 60.0
"""Seconds that a hook may take: it must not hold up the retry that it is about."""


class Launcher:
    """Runs attempts, verifications and hooks, one at a time. Not thread safe."""

    def __init__(self, request: Request, signals: Signals, screen: Screen) -> None:
        self._request = request
        self._signals = signals
        self._screen = screen
        self.held = Spool() if request.hold else None
        self._terminal = screen.terminal = Terminal.find()
        interactive = request.stdin and os.isatty(1) and os.isatty(2)
        self._lend_at_once = interactive and os.isatty(0)
        kind = _stdin_layout(request)
        self.replay = Replay(0, limit=request.stdin_limit) if kind == "stream" else None
        rules = request.rules
        self._layout = plan(
            stdin=kind,
            interactive=interactive,
            hold=request.hold,
            patterns=(*rules.retry_match, *rules.stop_match),
        )

    def attempt(
        self, number: int, env: Mapping[str, str], timeout: float | None, *, keep: bool
    ) -> tuple[Ran, Callable[[bool], bool]]:
        """Run the command; the second value settles its group (keep what it left running, or not).

        ``keep``: another attempt may follow, so its stdin is to be kept.
        """
        self._fresh_hold()
        pump = Pump()
        wires = wire(
            self._layout,
            pump,
            replay=self.replay,
            keep=keep,
            held=self.held,
            before=self._screen.saw,
        )
        supervisor = Supervisor(
            self._request.command,
            env=env,
            wires=wires,
            pump=pump,
            signals=self._signals,
            timeout=timeout,
            grace=self._request.grace,
            terminal=self._terminal,
            lend_at_once=self._lend_at_once,
            tick=self._ticker(number, timeout),
        )
        return self._supervise(supervisor, pump, sees_all=self._layout.watched)

    def verify(self, env: Mapping[str, str], timeout: float | None) -> Ran:
        """Run ``--verify``; it reads the held output on its stdin, where there is one."""
        stdin = None if self.held is None else self.held.as_file()
        return self._shell(self._request.verify or "", env, timeout, stdin)

    def hook(self, command: str, env: Mapping[str, str]) -> Ran:
        """Run a hook, with stdin empty and stdout on stderr; a run of more than a minute is cut."""
        return self._shell(command, env, HOOK_TIMEOUT, None)

    def release(self) -> None:
        """Write the held output to stdout. Raises OSError where nobody takes it."""
        if self.held is not None:
            position = 0
            while data := self.held.read(position, 1 << 16):
                position += os.write(1, data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget what was kept of stdin and stdout."""
        for store in (self.replay, self.held):
            if store is not None:
                store.close()

    def _shell(self, command: str, env: Mapping[str, str], timeout: float | None, stdin: int | None) -> Ran:
        pump = Pump()
        self._screen.erase()
        supervisor = Supervisor(
            ("/bin/sh", "-c", command),
            env=env,
            wires=Wires(stdin, stdout=2, stderr=2),
            pump=pump,
            signals=self._signals,
            timeout=timeout,
            grace=self._request.grace,
        )
        ran, settle = self._supervise(supervisor, pump, sees_all=False)
        settle(not ran.timed_out)
        return ran

    def _supervise(
        self, supervisor: Supervisor, pump: Pump, *, sees_all: bool
    ) -> tuple[Ran, Callable[[bool], bool]]:
        try:
            ran = supervisor.run()
        except CannotStart as error:
            self._screen.line(f"perdure: {error}")
            ran = Ran(error.code, started=False)
        except BaseException:
            supervisor.abandon()
            pump.close()
            raise
        finally:
            self._screen.erase()
        if not sees_all:
            self._screen.lost_sight()

        def settle(keep: bool) -> bool:  # noqa: FBT001 - called in one place, right after
            try:
                return supervisor.settle(keep=keep)
            finally:
                pump.close()

        return ran, settle

    def _fresh_hold(self) -> None:
        if self.held is not None:
            self.held.close()

    def _ticker(self, number: int, timeout: float | None) -> Callable[[], float | None] | None:
        """What draws the status line while the command runs; None where it would be in the way."""
        screen = self._screen
        if not screen.live or not self._layout.watched:
            return None
        began = time.monotonic()
        allowed = self._request.allowed
        calm = self._terminal.calm if self._terminal is not None else lambda: True

        def tick() -> float:
            now = time.monotonic()
            if screen.rests(calm):
                screen.draw(running(number, allowed, now - began, timeout))
            return now + REDRAW

        return tick


def _stdin_layout(request: Request) -> str:
    """How the command gets its stdin; see ``Layout``."""
    if not request.stdin:
        return "null"
    kind = stdin_kind()
    return "inherit" if kind == "device" else kind

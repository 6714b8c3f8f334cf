"""The same two parts for Windows, kept simple: no terminal to lend, no signals to pass on, streams inherited.

Untested: the project has no Windows machine. ``--hold``, ``--retry-match``, ``--stop-match`` and a piped
stdin that would have to be replayed are refused there (``settle``), rather than half done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from perdure.cli.child.signals import Interrupted
from perdure.cli.child.supervised import TIMED_OUT, Ran

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Self

    from perdure.cli.record import Request
    from perdure.cli.screen import Screen

__all__ = ["WindowsLauncher", "WindowsSignals"]

HOOK_TIMEOUT = 60.0


class WindowsSignals:
    """Ctrl-C only, as KeyboardInterrupt wherever it comes; see ``Signals``. For the main thread only."""

    def __init__(self) -> None:
        self.stop: int | None = None
        self.from_terminal = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was installed."""

    @contextlib.contextmanager
    def idle(self) -> Generator[None]:
        """Within it Ctrl-C becomes Interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop = int(signal.SIGINT)
            raise Interrupted(self.stop) from None

    attending = idle


class WindowsLauncher:
    """Runs attempts, verifications and hooks, one at a time; see ``Launcher``. Not thread safe."""

    replay = None

    def __init__(self, request: Request, _signals: WindowsSignals, screen: Screen) -> None:
        self._request = request
        self._screen = screen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is kept."""

    def attempt(
        self, _number: int, env: Mapping[str, str], timeout: float | None, *, keep: bool
    ) -> tuple[Ran, Callable[[bool], bool]]:
        """Run the command; there is no group to settle afterwards."""
        del keep  # a stdin that would have to be kept was refused
        stdin = None if self._request.stdin else subprocess.DEVNULL
        return self._run(self._request.command, env, timeout, stdin=stdin, stdout=None), lambda _keep: False

    def verify(self, env: Mapping[str, str], timeout: float | None) -> Ran:
        """Run ``--verify``."""
        return self._shell(self._request.verify or "", env, timeout)

    def hook(self, command: str, env: Mapping[str, str]) -> Ran:
        """Run a hook; a run of more than a minute is cut."""
        return self._shell(command, env, HOOK_TIMEOUT)

    def release(self) -> None:
        """Nothing is held."""

    def _shell(self, command: str, env: Mapping[str, str], timeout: float | None) -> Ran:
        shell = (os.environ.get("COMSPEC", "cmd.exe"), "/c", command)
        return self._run(shell, env, timeout, stdin=subprocess.DEVNULL, stdout=2)

    def _run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        timeout: float | None,
        *,
        stdin: int | None,
        stdout: int | None,
    ) -> Ran:
        start = time.monotonic()
        group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        try:
            process = subprocess.Popen(  # noqa: S603 - running the user's command is the point
                argv, env=env, stdin=stdin, stdout=stdout, creationflags=group
            )
        except OSError as error:
            self._screen.line(f"perdure: {argv[0]}: {error.strerror}")
            return Ran(127 if isinstance(error, FileNotFoundError) else 126, started=False)
        self._screen.lost_sight()
        try:
            code, timed_out = process.wait(timeout), False
        except subprocess.TimeoutExpired:
            _kill_tree(process)
            code, timed_out = TIMED_OUT, True
        except KeyboardInterrupt:
            _kill_tree(process)
            raise
        duration = time.monotonic() - start
        return Ran(code & 0xFF, timed_out=timed_out, timeout=timeout, duration=duration)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    taskkill = ("taskkill", "/T", "/F", "/PID", str(process.pid))
    subprocess.run(taskkill, check=False, capture_output=True)  # noqa: S603 - fixed but for a number
    process.wait()

"""The parent's end of the server process: start it, tell it when, take its ledger, always end it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

# The child gets the parent's import path in words: no current directory slips in before it.
_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from perdure.cli.demo.server import main; main()"
)
_GRACE: Final = 3.0


class Seen(NamedTuple):
    """One request as the server read it: status 0 stands for a line that was cut or hung."""

    call: int
    attempt: int
    at: float
    status: int


class Scene(Protocol):
    """What the process is to play: the script of faults, or the plan of the overload."""

    def settings(self) -> dict[str, object]:
        """Return what the process needs to build the same scene."""
        ...


class ServerDied(RuntimeError):
    """The server process ended before it said what it had to say. Run the demo again."""


class ServerProcess:
    """A context manager that holds the server's process; leaving it ends the process.

    For one thread. It ends only the process it started itself, through its own handle.
    """

    def __init__(self, scene: Scene, arms: Sequence[str]) -> None:
        """Keep the settings; `__enter__` starts the process and waits for its ports."""
        self._settings = {**scene.settings(), "arms": list(arms)}
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        command = [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)]
        pipe = subprocess.PIPE
        # Its own session: Ctrl-C in the terminal reaches the parent only, which then asks for the ledger.
        self._process = subprocess.Popen(  # noqa: S603  (our own interpreter, no shell)
            command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", start_new_session=True
        )
        try:
            self._tell(json.dumps(self._settings))
            self.ports = cast("dict[str, int]", self._hear("ports"))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self) -> None:
        """Begin the script; returns when the server's second 0 is now."""
        self._tell("start")
        self._hear("started")

    def stop(self) -> dict[str, list[Seen]]:
        """End the script and return, for each arm, every request the server read."""
        self._tell("stop")
        ledger = cast("dict[str, list[tuple[int, int, float, int]]]", self._hear("ledger"))
        return {arm: [Seen(*entry) for entry in entries] for arm, entries in ledger.items()}

    def _tell(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None:  # pragma: no cover  (we asked for a pipe)
            raise ServerDied("no pipe to the demo's server")
        try:
            stdin.write(line + "\n")
            stdin.flush()
        except OSError as error:
            raise ServerDied("the demo's server process ended early") from error

    def _hear(self, key: str) -> object:
        stdout = self._process.stdout
        line = "" if stdout is None else stdout.readline()
        if not line:
            raise ServerDied("the demo's server process ended early")
        return cast("dict[str, object]", json.loads(line))[key]

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # what was still to be written has no reader any more
        try:
            self._process.wait(_GRACE)  # it ends when its input closes
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

"""Running perdure as people do, with every wait bounded and on an event: output, an end, a process that is gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

BOUND = 20.0
"""Seconds after which a wait for something that should come has failed."""

POLL = 0.01


class Perdure:
    """Starts ``python -m perdure.cli``."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self.env = env
        self.cwd = cwd
        self._started: list[subprocess.Popen[bytes]] = []

    def __call__(
        self,
        *args: str,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end."""
        process = self.start(*args, env=env, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin, timeout=BOUND)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def run(self, *args: str, **more: object) -> subprocess.CompletedProcess[bytes]:
        """``perdure run`` to its end, without waits between attempts unless the arguments say so."""
        waits = () if any(arg.startswith("--wait") for arg in args) else ("--wait", "const:0")
        return self("run", *waits, *args, **more)  # type: ignore[arg-type] # stdin and env

    def start(
        self, *args: str, env: dict[str, str] | None = None, **streams: object
    ) -> subprocess.Popen[bytes]:
        """Start it; stdout and stderr are pipes and stdin is empty unless told otherwise."""
        return self.start_python("-m", "perdure.cli", *args, env=env, **streams)

    def start_python(
        self, *args: str, env: dict[str, str] | None = None, **streams: object
    ) -> subprocess.Popen[bytes]:
        """Start a Python as ``start`` does."""
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = subprocess.Popen(
            [sys.executable, *args],
            env=self.env | (env or {}),
            cwd=self.cwd,
            **given,  # type: ignore[call-overload] # what Popen takes
        )
        self._started.append(process)
        return process

    def end_all(self) -> None:
        """Kill what a failed test left behind."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait(BOUND)


def read_until(stream: IO[bytes] | int | None, wanted: bytes) -> bytes:
    """Read from a pipe or terminal until the bytes came; fails when they do not come in time."""
    seen = b""
    while wanted not in seen:
        seen += read_some(stream, f"{wanted!r} did not come; {seen!r} did")
    return seen


def read_some(stream: IO[bytes] | int | None, otherwise: str) -> bytes:
    """Read what comes next; fails with these words when nothing does."""
    assert stream is not None
    fd = stream if isinstance(stream, int) else stream.fileno()
    ready, _, _ = select.select([fd], [], [], BOUND)
    assert ready, otherwise
    try:
        data = os.read(fd, 65536)
    except OSError:  # a terminal whose other end is closed
        data = b""
    assert data, f"the stream ended; {otherwise}"
    return data


def wait_for(what: Callable[[], object], why: str) -> None:
    """Wait until something is so."""
    end, never = time.monotonic() + BOUND, select.poll()
    while not what():
        assert time.monotonic() < end, why
        never.poll(POLL * 1000)


def is_running(pid: int) -> bool:
    """Whether a process lives; one that is dead but was never waited for does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def python(program: str) -> tuple[str, str, str]:
    """A command that runs a Python program."""
    return (sys.executable, "-c", program)


def shell(program: str) -> tuple[str, str, str]:
    """A command that runs a shell program."""
    return ("sh", "-c", program)


def kill_quietly(pid: int) -> None:
    """End a process that a test expects to be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

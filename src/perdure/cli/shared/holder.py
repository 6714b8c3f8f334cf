"""Who holds something, and whether that process still lives.

A process is known by its number, by when it started (numbers are used again), and by where both mean something:
this boot of this machine, in this process namespace (containers have their own). Where nothing of it can be
found out, as on Windows, only the expiry of what is held says anything.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_alive", "this_process"]

_SYSTEM: str = sys.platform  # a plain str: type checkers look at the code of all systems


def this_process() -> dict[str, Any]:
    """The running process, ready for JSON, as ``is_alive`` reads it."""
    pid = os.getpid()
    return {"pid": pid, "started": _started(pid), "where": _where()}


def is_alive(holder: dict[str, Any]) -> bool | None:
    """Whether the process lives; None where that cannot be told. Zombies are dead."""
    pid, started, where = holder.get("pid"), holder.get("started"), holder.get("where")
    if where is None or started is None or where != _where() or not isinstance(pid, int) or pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it is another user's
    now = _started(pid)
    if now is None:  # gone a moment ago, or hidden from other users: the next look or the expiry tells
        return None
    return bool(now == started)


@cache
def _where() -> str | None:
    if _SYSTEM == "linux":
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
        except OSError:
            return None
    return None if _SYSTEM == "win32" else os.uname().nodename


def _started(pid: int) -> str | None:
    """When a process started, in whatever unit the system has; "dead" for one that only waits to be buried."""
    if _SYSTEM == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return "dead" if fields[0] in b"ZX" else fields[19].decode()
    return None if _SYSTEM == "win32" else _started_by_ps(pid)


def _started_by_ps(pid: int) -> str | None:
    """The same where there is no /proc: macOS and the BSDs."""
    import subprocess

    command = ("ps", "-o", "stat=,lstart=", "-p", str(pid))
    try:
        done = subprocess.run(  # noqa: S603 - fixed but for a number
            command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = done.stdout.strip().partition(" ")
    if not started:
        return None
    return "dead" if state.startswith("Z") else started.strip()

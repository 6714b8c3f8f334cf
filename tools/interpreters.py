"""Which Pythons there are on this machine: PATH, pyenv, uv, and the one that runs this script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORTED = ("3.11", "3.12", "3.13")

# A pyenv shim exists and fails, and some systems ship Python without what venv needs: so each is asked.
PROBE = "import ensurepip, platform, sys, venv; print(platform.python_version(), sys.executable)"


class Interpreter(NamedTuple):
    """One Python that runs and can make virtual environments."""

    minor: str
    version: str
    path: Path


def find() -> dict[str, Interpreter]:
    """Give one interpreter per supported minor version, oldest first, plus the running one whatever it is."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    found: dict[str, Interpreter] = {}
    for minor in (*SUPPORTED, running):
        candidates = _candidates(minor)
        usable = next(filter(None, (_probe(minor, path) for path in candidates)), None)
        if usable is not None:
            found[minor] = usable
    return dict(sorted(found.items(), key=lambda item: _numeric(item[0])))


def _candidates(minor: str) -> Iterator[Path]:
    if sys.version.startswith(f"{minor}."):
        yield Path(sys.executable)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{minor}.*/bin/python"), reverse=True)
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    yield from sorted(uv.glob(f"cpython-{minor}.*/bin/python3"), reverse=True)


def _probe(minor: str, path: Path) -> Interpreter | None:
    if not path.is_file():
        return None
    try:
        answer = subprocess.run(
            [path, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False
        ).stdout.split(maxsplit=1)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if len(answer) != 2 or not answer[0].startswith(f"{minor}."):
        return None
    return Interpreter(minor, answer[0], Path(answer[1].strip()))


def _numeric(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))

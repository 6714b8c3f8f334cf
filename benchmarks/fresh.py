"""Runs one measurement in a process of its own and reads its answer, one line of JSON."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 300.0


class ChildFailed(Exception):
    """The process ended without an answer; the message is the last line it wrote to its error stream."""


def source_folder() -> str | None:
    """The folder from which this interpreter imports perdure, for the path of a fresh one."""
    spec = importlib.util.find_spec("perdure")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).resolve().parent.parent)


def run_module(module: str, *arguments: str) -> dict[str, Any]:
    """Run ``python -m module arguments`` and give what it printed.

    Raises:
        ChildFailed: it exited with an error, or did not end in good time.
    """
    folders = filter(None, (str(_ROOT), source_folder()))
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"no answer within {_PATIENCE:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ChildFailed(lines[-1] if lines else f"exit code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def pin_to_one_core() -> int | None:
    """Keep this process and its children on one core; its number, or ``None`` where it cannot be chosen."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def log_as_in_production() -> None:
    """Log from WARNING up, to a stream that goes nowhere: the same for everyone, in every process here."""
    stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    logging.basicConfig(level=logging.WARNING, stream=stream)


def resident_bytes() -> int:
    """The memory that the system holds for this process now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:  # not Linux: the highest so far is the best there is
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()

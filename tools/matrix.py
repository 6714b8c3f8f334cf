"""Run the test suite on every supported Python of this machine.

    python tools/matrix.py                    all of them; branch coverage on the newest
    python tools/matrix.py ARGUMENTS...       these pytest arguments, on the newest only, without coverage

The newest one runs in view. The others run one after another beside it, into .build/, so that two cores are
busy; how each ended is shown last. The last line is pytest's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import environment
import interpreters

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

BUILD = environment.ROOT / ".build"
Code = int


def main() -> Code:
    """Test on every Python there is; give the first exit code that is not 0."""
    found = interpreters.find()
    *others, newest = found.values()
    if sys.argv[1:]:
        return _run([environment.ready("test", newest, ".venv") / "python", "-m", "pytest", *sys.argv[1:]])
    BUILD.mkdir(exist_ok=True)
    with ThreadPoolExecutor(max_workers=1) as beside:
        waiting = [beside.submit(_into_log, python) for python in others]
        code = _in_view(newest)
        codes = [future.result() for future in waiting]
    coverage = 0 if code else _run([environment.ROOT / ".venv/bin/coverage", "report"])
    if coverage:
        print("branch coverage: FAILED, below fail_under in pyproject.toml")
    for minor in interpreters.SUPPORTED:
        if minor not in found:
            print(f"Python {minor}: not present on this machine, not tested")
    for python, its_code in zip(others, codes, strict=True):
        _report(python, its_code, lines=100 if its_code else 1)
    _report(newest, code, lines=1)
    return next(filter(None, [code, *codes, coverage]), 0)


def _in_view(python: interpreters.Interpreter) -> Code:
    """Run under coverage, which has to start first: the pytest plugin imports perdure before any test."""
    command: list[str | Path] = [
        environment.ready("test", python, ".venv") / "coverage",
        "run",
        "-m",
        "pytest",
    ]
    if sys.stdout.isatty():
        command.append("--color=yes")
    with subprocess.Popen(command, cwd=environment.ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101
        with _log(python).open("wb") as log:
            while chunk := os.read(process.stdout.fileno(), 4096):
                log.write(chunk)
                sys.stdout.buffer.write(chunk)
                sys.stdout.flush()
    return process.returncode


def _into_log(python: interpreters.Interpreter) -> Code:
    bin_ = environment.ready("test", python, f".venv-{python.minor}")
    with _log(python).open("wb") as log:
        # Without the cache that `pytest --lf` reads: it is that of the run in view.
        command: list[str | Path] = [bin_ / "python", "-m", "pytest", "-p", "no:cacheprovider"]
        return _run(command, stdout=log, stderr=subprocess.STDOUT)


def _report(python: interpreters.Interpreter, code: Code, *, lines: int) -> None:
    """Say how it went in one line, and below it what pytest said last."""
    said = _log(python).read_text(errors="replace").rstrip().splitlines()
    print(f"Python {python.version}: tested, {f'FAILED (exit code {code})' if code else 'passed'}")
    if len(said) > lines > 1:
        print(f"... the last {lines} lines of {_log(python)}:")
    print("\n".join(said[-lines:]), flush=True)


def _log(python: interpreters.Interpreter) -> Path:
    return BUILD / f"test-{python.minor}.log"


def _run(command: list[str | Path], stdout: IO[bytes] | None = None, stderr: int | None = None) -> Code:
    done = subprocess.run(command, cwd=environment.ROOT, stdout=stdout, stderr=stderr, check=False)
    return done.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"could not build an environment: {error}")

"""Run the test suite on every supported Python of this machine.

    python tools/matrix.py                    the newest and the oldest run everything, those between the engine
    python tools/matrix.py --coverage         the newest only, with branch coverage
    python tools/matrix.py ARGUMENTS...       these pytest arguments, on the newest only

The newest one runs in view, with every client library installed; the oldest has those of HTTP. The others run
beside it, one per core, into .build/; how each ended is shown last. The last line is pytest's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import environment
import interpreters

if TYPE_CHECKING:
    from pathlib import Path

BUILD = environment.ROOT / ".build"
LIMIT = 900
"""Seconds for one interpreter: a thread that never ends keeps Python from exiting, also after the last test."""

CORES = threading.Semaphore(max(2, os.cpu_count() or 1))
"""Who tests holds one; two at least, since some tests wait for other processes."""

ENGINE = ("tests/core", "tests/engine", "tests/dependency", "tests/testing")
"""What may differ between Pythons in small things; the tables and the command line do not."""

NIQUESTS = ("tests/niquests", "tests/integration/test_clients.py", "tests/integration/test_clients_keyed.py")

Code = int
Command = list["str | Path"]


def main() -> Code:
    """Test on every Python there is; give the first exit code that is not 0."""
    found = interpreters.find()
    *others, newest = found.values()
    if sys.argv[1:] == ["--coverage"]:
        return _coverage(newest)
    if sys.argv[1:]:
        return _run([environment.ready("test", newest, ".venv") / "python", "-m", "pytest", *sys.argv[1:]])
    BUILD.mkdir(exist_ok=True)
    beside = {python: ENGINE if number else () for number, python in enumerate(others)}
    with ThreadPoolExecutor() as pool:
        with CORES:
            waiting = [pool.submit(_beside, python, tests) for python, tests in beside.items()]
            last = pool.submit(_niquests, newest)
            code = _in_view(newest)
        codes = [future.result() for future in waiting]
        codes.append(last.result())
    for minor in interpreters.SUPPORTED:
        if minor not in found:
            print(f"Python {minor}: not present on this machine, not tested")
    for (python, tests), its_code in zip(beside.items(), codes, strict=False):
        _report(
            python, its_code, lines=100 if its_code else 1, what="its engine tested" if tests else "tested"
        )
    _report(newest, code, lines=1)
    return next(filter(None, [code, *codes]), 0)


def _in_view(python: interpreters.Interpreter) -> Code:
    command: Command = [environment.ready("test", python, ".venv") / "python", "-m", "pytest"]
    if sys.stdout.isatty():
        command.append("--color=yes")
    return _logged(python, command, in_view=True)


def _coverage(python: interpreters.Interpreter) -> Code:
    """Run under coverage, which has to start first: the pytest plugin imports perdure before any test."""
    bin_ = environment.ready("test", python, ".venv")
    code = _run([bin_ / "coverage", "run", "-m", "pytest"])
    return _run([bin_ / "coverage", "report"]) or code


def _beside(python: interpreters.Interpreter, tests: tuple[str, ...]) -> Code:
    """Run without the cache that `pytest --lf` reads: it is that of the run in view."""
    with CORES:
        bin_ = environment.ready("older", python, f".venv-{python.minor}")
        return _logged(
            python, [bin_ / "python", "-m", "pytest", "-p", "no:cacheprovider", *tests], in_view=False
        )


def _niquests(python: interpreters.Interpreter) -> Code:
    """Run what is about niquests: it takes the place of urllib3, so nothing else can be installed beside it."""
    with CORES:
        bin_ = environment.ready("niquests", python, ".venv-niquests")
        command: Command = [bin_ / "python", "-m", "pytest", "-p", "no:cacheprovider", *NIQUESTS]
        with (BUILD / "test-niquests.log").open("wb") as log:
            code = subprocess.run(
                command,
                cwd=environment.ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=LIMIT,
            ).returncode
    said = (BUILD / "test-niquests.log").read_text(errors="replace").rstrip().splitlines()
    print(f"niquests: tested, {f'FAILED (exit code {code})' if code else 'passed'}")
    print("\n".join(said[-100 if code else -1 :]), flush=True)
    return code


def _logged(python: interpreters.Interpreter, command: Command, *, in_view: bool) -> Code:
    """Run into a log file, not a pipe, so that nothing a test left running can hold this up; at most LIMIT."""
    end = time.monotonic() + LIMIT
    with _log(python).open("wb", buffering=0) as log, _log(python).open("rb") as said:
        wanted = {"PERDURE_TEST_CLIENTS": "all"} if in_view else {}
        process = subprocess.Popen(
            command, cwd=environment.ROOT, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **wanted}
        )
        while process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() > end:
                process.kill()
                process.wait()
                log.write(b"\nstopped: still running after %d s\n" % LIMIT)
            if in_view:
                _show(said.read())
        if in_view:
            _show(said.read())
    return process.returncode


def _show(output: bytes) -> None:
    sys.stdout.buffer.write(output)
    sys.stdout.flush()


def _report(python: interpreters.Interpreter, code: Code, *, lines: int, what: str = "tested") -> None:
    """Say how it went in one line, and below it what pytest said last."""
    said = _log(python).read_text(errors="replace").rstrip().splitlines()
    print(f"Python {python.version}: {what}, {f'FAILED (exit code {code})' if code else 'passed'}")
    if len(said) > lines > 1:
        print(f"... the last {lines} lines of {_log(python)}:")
    print("\n".join(said[-lines:]), flush=True)


def _log(python: interpreters.Interpreter) -> Path:
    return BUILD / f"test-{python.minor}.log"


def _run(command: Command) -> Code:
    return subprocess.run(command, cwd=environment.ROOT, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"could not build an environment: {error}")

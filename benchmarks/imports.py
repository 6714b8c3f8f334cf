"""What importing costs, always in a fresh interpreter in isolated mode (``python -I``).

Three figures for each library, in turns, round by round:

- ``fresh``: wall time of a whole process that imports it, less that of one that imports nothing;
- ``loaded``: wall time of the import statement in a process that already has asyncio, dataclasses and
  logging, as most services do;
- ``first-call``: as ``fresh``, but the process also decorates a function and calls it once, so that what a
  library loads only on first use counts too.

Beside each wall time stands the processor time, which other programs on the machine hardly move. Byte code is
compiled beforehand by a discarded round. Every process gets the same path, wherever its
library lies.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from benchmarks.fresh import source_folder

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["fresh", "loaded", "first-call"]
Answer = Literal["process", "process_cpu", "statement", "statement_cpu"]
ANSWERS: tuple[Answer, ...] = ("process", "process_cpu", "statement", "statement_cpu")


@dataclass(frozen=True, slots=True)
class Library:
    """How a library is imported, and how a function is decorated with it (five attempts on ``OSError``)."""

    name: str
    statement: str
    decorator: str


LIBRARIES = (
    Library("perdure", "from perdure import retry", "@retry(on=OSError, attempts=5)"),
    Library(
        "tenacity",
        "import tenacity",
        "@tenacity.retry("
        "retry=tenacity.retry_if_exception_type(OSError), stop=tenacity.stop_after_attempt(5))",
    ),
    Library("stamina", "import stamina", "@stamina.retry(on=OSError, attempts=5)"),
    Library("backoff", "import backoff", "@backoff.on_exception(backoff.expo, OSError, max_tries=5)"),
    Library("opnieuw", "import opnieuw", "@opnieuw.retry(retry_on_exceptions=OSError, max_calls_total=5)"),
    Library("dogged", "import dogged", "@dogged.retry(times=5, exceptions=OSError)"),
    Library("reattempt", "from reattempt import reattempt", "@reattempt(max_retries=5)"),
    Library(
        "pyresilience",
        "import pyresilience",
        "@pyresilience.resilient(retry=pyresilience.RetryConfig(max_attempts=5, retry_on=(OSError,)))",
    ),
    Library("hyx", "from hyx.retry import retry", ""),
)
NOTHING = Library("bare interpreter", "pass", "")

_PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
{preload}
before = len(sys.modules)
from time import perf_counter, process_time
begin, worked = perf_counter(), process_time()
{statement}
elapsed, worked = perf_counter() - begin, process_time() - worked
{use}
print(elapsed, worked, len(sys.modules) - before)
"""
_PRELOAD: dict[Kind, str] = {
    "fresh": "",
    "loaded": "import asyncio, dataclasses, logging",
    "first-call": "",
}


@dataclass(slots=True)
class Arm:
    """One library in one kind of process, and what was measured: milliseconds, and modules newly loaded."""

    library: Library
    kind: Kind
    samples: dict[Answer, list[float]] = field(default_factory=lambda: {answer: [] for answer in ANSWERS})
    modules: int = 0
    absent: str = ""

    def program(self) -> str:
        """The text that the fresh interpreter runs."""
        use = f"{self.library.decorator}\ndef f(x): return x\nf(1)" if self.kind == "first-call" else ""
        return _PROGRAM.format(
            folder=source_folder() or "",
            preload=_PRELOAD[self.kind],
            statement=self.library.statement,
            use=use if self.library.decorator else "",
        )

    def sample(self) -> None:
        """Run one process."""
        command = [sys.executable, "-I", "-c", self.program()]
        begin, worked = perf_counter(), _children_worked()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        process, process_cpu = perf_counter() - begin, _children_worked() - worked
        if done.returncode:
            self.absent = self._reason(done.stderr)
            return
        statement, statement_cpu, modules = map(float, done.stdout.split())
        self.modules = int(modules)
        for answer, seconds in zip(ANSWERS, (process, process_cpu, statement, statement_cpu), strict=True):
            self.samples[answer].append(seconds * 1e3)

    def forget(self) -> None:
        """Drop what was measured while byte code was compiled."""
        for samples in self.samples.values():
            samples.clear()

    def _reason(self, error: str) -> str:
        last = error.strip().splitlines()[-1]
        return "not installed" if last.startswith("ModuleNotFoundError") else f"failed: {last}"


def _children_worked() -> float:
    """The processor time of all child processes that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def arms(kind: Kind) -> list[Arm]:
    """All libraries for one kind of process."""
    made = [Arm(library, kind) for library in LIBRARIES]
    for arm in made:
        if kind == "first-call" and arm.library.name == "hyx":
            arm.absent = "not offered: async only"
    return made


def measure(all_arms: list[Arm], *, rounds: int, progress: Callable[[str], None]) -> None:
    """Run every arm once per round, the order turned by one place each round."""
    for arm in all_arms:
        progress(f"imports, first run of {arm.library.name}")
        if not arm.absent:
            arm.sample()
            arm.forget()
    for number in range(rounds):
        progress(f"imports, round {number + 1} of {rounds}")
        turn = number % len(all_arms)
        for arm in all_arms[turn:] + all_arms[:turn]:
            if not arm.absent:
                arm.sample()

"""Times the rows of the hot path.

All rows and contenders live in one process on one core. In each round every contender of every row runs for
a few milliseconds, the order turned by one place per round, so that a slow spell of the machine hits all of
them. The clock is the processor time of this process: nothing on these rows waits, and what other processes
do with the core meanwhile is not counted. The garbage collector is off while a contender runs and collects
after it, unmeasured, for all alike: cyclic garbage costs its maker nothing here, which favours the
libraries that leave some.
"""

from __future__ import annotations

import gc
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from threading import Thread
from time import process_time
from typing import TYPE_CHECKING, Any

from benchmarks.checks import check
from benchmarks.contenders import NotOffered
from benchmarks.lineups import LINEUPS
from benchmarks.opening import open_breaker
from benchmarks.waits import removed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.contenders import Contender
    from benchmarks.rows import Calls, Row

_SYNC = """
def timed(passes, clock, functions):
    {names}, = functions
    start = clock()
    for _ in repeat(None, passes):
        {calls}
    return clock() - start
"""
_ASYNC = _SYNC.replace("def timed", "async def timed")
_THREADS = """
def timed(passes, clock, functions):
    {names}, = functions
    def work():
        for _ in repeat(None, passes):
            {calls}
    threads = [Thread(target=work) for _ in range({threads})]
    start = clock()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clock() - start
"""
# The refusal is what is measured, whatever class a library gives it; opening.py has checked that it is one.
_REFUSED = """try:
            {call}
        except Exception:
            pass"""


@dataclass(slots=True)
class Lane:
    """One contender on one row: the code that times it and what it measured, in seconds per call."""

    row: Row
    contender: Contender
    timed: Callable[..., Any]
    functions: list[Callable[..., Any]]
    passes: int = 1
    samples: list[float] = field(default_factory=list)
    remark: str = ""

    def run(self, loop: asyncio.AbstractEventLoop) -> float:
        """Run once and give the seconds it took."""
        result = self.timed(self.passes, process_time, self.functions)
        if self.row.plan.colour == "async":
            result = loop.run_until_complete(result)
        return float(result)

    def calibrate(self, loop: asyncio.AbstractEventLoop, budget: float) -> None:
        """Choose the number of passes that takes about ``budget`` seconds; warms the code up on the way.

        Each number is run twice: a hiccup in the first few calls must not make the samples small for good, since
        in a sample of ten calls one that is looked at whole, or stopped by the system, would count for all.
        """
        elapsed = min(self.run(loop), self.run(loop))
        while elapsed < budget / 2:
            self.passes *= 2
            elapsed = min(self.run(loop), self.run(loop))
        self.passes = max(1, round(self.passes * budget / elapsed))

    def sample(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure once."""
        how = self.row.calls
        calls = self.passes * how.functions * how.times * how.threads
        self.samples.append(self.run(loop) / calls)


@dataclass(frozen=True, slots=True)
class Absent:
    """A contender that has no figure on a row, and why."""

    row: Row
    contender: Contender
    reason: str


def prepare(rows: Iterable[Row], loop: asyncio.AbstractEventLoop) -> tuple[list[Lane], list[Absent]]:
    """Build every contender of every row, check that it does what the row says, and make its timing code."""
    lanes: list[Lane] = []
    absent: list[Absent] = []
    for row in rows:
        for name in row.contenders:
            contender = LINEUPS[row.lineup][name]
            try:
                lanes.append(_lane(row, contender, loop))
            except NotOffered as error:
                absent.append(Absent(row, contender, f"not offered: {error}"))
            except ImportError:
                absent.append(Absent(row, contender, "not installed"))
            except Exception as error:  # noqa: BLE001 - one that is broken must not hide the others
                absent.append(Absent(row, contender, f"failed: {type(error).__name__}: {error}"))
    return lanes, absent


def measure(
    lanes: list[Lane],
    loop: asyncio.AbstractEventLoop,
    *,
    rounds: int,
    budget: float,
    progress: Callable[[str], None],
) -> None:
    """Fill the samples of all lanes, ``rounds`` each, every one about ``budget`` seconds long."""
    for lane in lanes:
        progress(f"calibrating {lane.row.id} {lane.contender.name}")
        with _conditions(lane.row):
            lane.calibrate(loop, budget * lane.row.weight)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for number in range(rounds):
            progress(f"hot path, round {number + 1} of {rounds}")
            turn = number % max(1, len(lanes))
            for lane in lanes[turn:] + lanes[:turn]:
                with _conditions(lane.row):
                    lane.sample(loop)
                gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()


def _lane(row: Row, contender: Contender, loop: asyncio.AbstractEventLoop) -> Lane:
    async def build() -> list[Callable[..., Any]]:
        # Inside the loop, since hyx looks for the running one when it decorates.
        return [contender.build(row.plan)(row.target()) for _ in range(row.calls.functions)]

    functions = loop.run_until_complete(build())
    remark = check(contender, row.plan, loop)
    if row.calls.refused:
        for function in functions:
            open_breaker(function, row.plan.colour, loop)
    lane = Lane(row, contender, _timing_code(row.calls, row.plan.colour), functions, remark=remark)
    with _conditions(row):
        lane.run(loop)
    return lane


def _timing_code(calls: Calls, colour: str) -> Callable[..., Any]:
    """Compile the loop round the calls for one lane: a call site in real code sees one function, not thirty.

    CPython specialises each call site on what it has called before; a loop shared by all contenders would
    charge each of them for the one before it.
    """
    names = [f"w{i}" for i in range(calls.functions)]
    call = "await {}{}" if colour == "async" else "{}{}"
    lines = [call.format(name, calls.arguments) for name in names] * calls.times
    if calls.refused:
        lines = [_REFUSED.format(call=line) for line in lines]
    if calls.threads > 1:
        template, indent = _THREADS, "\n            "
    else:
        template, indent = _ASYNC if colour == "async" else _SYNC, "\n        "
    source = template.format(names=", ".join(names), calls=indent.join(lines), threads=calls.threads)
    namespace: dict[str, Any] = {"repeat": repeat, "Thread": Thread, **(calls.given() if calls.given else {})}
    exec(compile(source, "<timing loop>", "exec"), namespace)  # noqa: S102 - our own text, see above
    return namespace["timed"]  # type: ignore[no-any-return]


@contextmanager
def _conditions(row: Row) -> Iterator[None]:
    with removed():
        logging.disable(logging.NOTSET if row.logging else logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)

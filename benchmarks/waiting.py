"""What one task costs that waits in backoff, with a great many of them waiting at once.

One fresh process for each contender. Every task calls a function that fails once; the delay is an hour.
When all of them wait, the growth of resident memory is read; then the loop's clock is set forward and the
time until the last of them has succeeded is taken. Times are processor time per task. The garbage collector
runs as it always does.

Two kinds of failure: ``shared`` raises one exception made beforehand, so that the memory is that of the
waiting machinery alone; ``own`` raises a new exception in each task, as real failures do.

As a module it is the child: ``python -m benchmarks.waiting CONTENDER KIND TASKS``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING, Literal

from benchmarks.contenders import CONTENDERS, HOUR, NotOffered, Plan
from benchmarks.fresh import log_as_in_production, resident_bytes

if TYPE_CHECKING:
    from benchmarks.targets import Function

Kind = Literal["shared", "own"]

PLAN = Plan("async", wait="hour")
LONE_SLEEP = "asyncio.sleep"
"""Not a retry at all: a task that only sleeps, to show what the loop itself asks for."""

_WARM_UP = 200


class JumpingLoop(asyncio.SelectorEventLoop):
    """The usual loop with a clock that can be set forward, so that an hour passes at once."""

    ahead = 0.0

    def time(self) -> float:
        """The loop's time: the real one and what was skipped."""
        return super().time() + self.ahead


@dataclass(slots=True)
class Target:
    """A function that fails on its first call in each task and counts how far they all are."""

    kind: Kind
    failed: int = 0
    succeeded: int = 0

    def function(self) -> Function:
        """Give the function. Its argument, a list that it empties, tells the task's first call."""
        shared = OSError("down")

        async def call(first: list[bool]) -> None:
            if not first:
                self.succeeded += 1
                return
            first.clear()
            self.failed += 1
            if self.kind == "shared":
                raise shared.with_traceback(None)
            raise OSError("down", self.failed)

        return call

    def lone_sleep(self) -> Function:
        """Give the function that does not fail but sleeps for the same hour."""

        async def call(first: list[bool]) -> None:
            self.failed += 1
            await asyncio.sleep(HOUR)
            self.succeeded += 1

        return call


async def _wave(loop: JumpingLoop, function: Function, target: Target, tasks: int) -> dict[str, float]:
    """Start this many tasks, catch them waiting, let them finish; bytes and microseconds per task."""
    target.failed = target.succeeded = 0
    running: list[asyncio.Task[None]] = []
    firsts = [[True] for _ in range(tasks)]
    gc.collect()
    memory, begin = resident_bytes(), process_time()
    running.extend(loop.create_task(function(first)) for first in firsts)
    while target.failed < tasks:  # noqa: ASYNC110 - an event would be one more thing that is measured
        await asyncio.sleep(0)
    started, held = process_time(), resident_bytes()
    loop.ahead += 2 * HOUR
    resumed = process_time()
    while target.succeeded < tasks:  # noqa: ASYNC110
        await asyncio.sleep(0)
    ended = process_time()
    await asyncio.gather(*running)
    return {
        "bytes": (held - memory) / tasks,
        "start_us": (started - begin) / tasks * 1e6,
        "finish_us": (ended - resumed) / tasks * 1e6,
    }


async def _measure(loop: JumpingLoop, name: str, kind: Kind, tasks: int) -> dict[str, float]:
    target = Target(kind)
    alone = name == LONE_SLEEP
    function = target.lone_sleep() if alone else CONTENDERS[name].build(PLAN)(target.function())
    await _wave(loop, function, target, _WARM_UP)  # loads what is imported on first use
    return await _wave(loop, function, target, tasks)


def child(name: str, kind: Kind, tasks: int) -> dict[str, object]:
    """Measure one contender in this process."""
    log_as_in_production()
    loop = JumpingLoop()
    try:
        return {**loop.run_until_complete(_measure(loop, name, kind, tasks))}
    except NotOffered as error:
        return {"absent": f"not offered: {error}"}
    except ImportError:
        return {"absent": "not installed"}


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], sys.argv[2], int(sys.argv[3]))))  # type: ignore[arg-type]

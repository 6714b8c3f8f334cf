"""What a breaker does with many callers at once, and with a great many refusals; real time passes here.

One fresh process for each contender and kind:

- ``tasks``, ``threads``: the breaker opened and its time is over; all call at once a function that does not
  return until the last of them has had its turn. How many of them reached the function?
- ``blocking``: eight threads make 25 calls each of a function that sleeps for a millisecond. Best of five.
- ``refusals``: an open breaker refuses this many calls in a row. How many entries below the caller's own has the
  traceback of one, by how many did it grow from the first to the last, by how many bytes per refusal did the
  memory of the process, and how many objects of cyclic garbage did each leave?

As a module it is the child: ``python -m benchmarks.outage CONTENDER KIND REFUSALS``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from contextlib import suppress
from threading import Barrier, Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from benchmarks import targets
from benchmarks.breakers import BREAKERS, BreakerPlan
from benchmarks.contenders import HOUR, NotOffered
from benchmarks.fresh import log_as_in_production, resident_bytes
from benchmarks.opening import NeverOpened, open_breaker

if TYPE_CHECKING:
    from benchmarks.targets import Function

TASKS, THREADS = 50, 20
BLOCKING_THREADS, BLOCKING_CALLS, BLOCKING_RUNS = 8, 25, 5
_COOLDOWN = 0.2
_SETTLED = 0.3
"""Seconds after which every thread that will ever reach the function has reached it."""

_BATCH = 1000


class Backend:
    """Down at first; then up, and slow: whoever reaches it stays until it lets all go."""

    def __init__(self) -> None:
        self.is_up = False
        self.reached = 0
        self.go = Event()

    def function(self) -> Function:
        """A function that fails while the backend is down, and else waits with all others."""

        def call(x: int) -> int:
            self._arrive()
            self.go.wait()
            return x

        return call

    def async_function(self) -> Function:
        """See ``function``."""

        async def call(x: int) -> int:
            self._arrive()
            while not self.go.is_set():  # noqa: ASYNC110 - a turn of the loop for each of the others is meant
                await asyncio.sleep(0)
            return x

        return call

    def _arrive(self) -> None:
        if not self.is_up:
            raise ConnectionResetError(104, "Connection reset by peer")
        self.reached += 1


def tasks(name: str, loop: asyncio.AbstractEventLoop) -> dict[str, object]:
    """How many of the tasks reach the function when the time of the open breaker is over."""
    backend = Backend()
    function = _built(name, _plan(name, "async", _COOLDOWN), backend.async_function(), loop)

    async def stampede() -> None:
        callers = [asyncio.ensure_future(_quiet(function)) for _ in range(TASKS)]
        for _ in range(20):  # turns of the loop: enough for all to come as far as they ever do
            await asyncio.sleep(0)
        backend.go.set()
        await asyncio.gather(*callers)

    _open_and_outwait(function, backend, "async", loop)
    reached = backend.reached
    loop.run_until_complete(stampede())
    return {"admitted": backend.reached - reached}


def threads(name: str, loop: asyncio.AbstractEventLoop) -> dict[str, object]:
    """How many of the threads reach the function when the time of the open breaker is over."""
    backend, barrier = Backend(), Barrier(THREADS)
    function = _built(name, _plan(name, "sync", _COOLDOWN), backend.function(), loop)

    def caller() -> None:
        barrier.wait()
        with suppress(Exception):  # a refusal
            function(1)

    _open_and_outwait(function, backend, "sync", loop)
    running = [Thread(target=caller) for _ in range(THREADS)]
    for thread in running:
        thread.start()
    time.sleep(_SETTLED)
    admitted = backend.reached
    backend.go.set()
    for thread in running:
        thread.join()
    return {"admitted": admitted}


def blocking(name: str, loop: asyncio.AbstractEventLoop) -> dict[str, object]:
    """Milliseconds for all calls of all threads, the best of a few runs."""

    def sleeps(x: int) -> int:
        time.sleep(0.001)
        return x

    function = _built(name, _plan(name, "sync", HOUR), sleeps, loop)

    def work() -> None:
        for _ in range(BLOCKING_CALLS):
            function(1)

    def run() -> float:
        running = [Thread(target=work) for _ in range(BLOCKING_THREADS)]
        begin = perf_counter()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return (perf_counter() - begin) * 1e3

    for _ in range(BLOCKING_CALLS * 8):  # perdure looks at the first results of a function
        function(1)
    return {"ms": min(run() for _ in range(BLOCKING_RUNS))}


def refusals(name: str, loop: asyncio.AbstractEventLoop, count: int) -> dict[str, object]:
    """What so many refusals leave behind."""
    colour = "async" if name == "hyx" else "sync"
    target = targets.down_sync() if colour == "sync" else targets.down_async()
    function = _built(name, _plan(name, colour, HOUR), target, loop)
    open_breaker(function, colour, loop)
    batch: Any = _refused_async if colour == "async" else _refused

    def refused(times: int) -> BaseException | None:
        result = batch(function, times)
        if colour == "async":
            result = loop.run_until_complete(result)
        return cast("BaseException | None", result)

    first = _entries(refused(1))
    refused(_BATCH)
    gc.collect()
    gc.disable()
    refused(_BATCH)
    garbage = gc.collect()
    gc.enable()
    memory = resident_bytes()
    last = _entries(refused(count))
    gc.collect()
    grown = resident_bytes() - memory
    return {
        "depth": first - 1,
        "entries": last - first,
        "bytes": grown / count,
        "garbage": garbage / _BATCH,
    }


def _refused(function: Function, times: int) -> BaseException | None:
    last: BaseException | None = None
    for _ in range(times):
        last = None
        try:
            function(1)
        except Exception as error:  # noqa: BLE001 - each library has its own
            last = error
    return last


async def _refused_async(function: Function, times: int) -> BaseException | None:
    last: BaseException | None = None
    for _ in range(times):
        last = None
        try:
            await function(1)
        except Exception as error:  # noqa: BLE001
            last = error
    return last


def _entries(error: BaseException | None) -> int:
    """How long the traceback is."""
    length, at = 0, None if error is None else error.__traceback__
    while at is not None:
        length, at = length + 1, at.tb_next
    return length


def _plan(name: str, colour: Any, cooldown: float) -> BreakerPlan:
    """What the breaker can do: these kinds are not about what it counts."""
    return BreakerPlan(colour, window=name in {"interlock", "nopanic"}, ramp=True, cooldown=cooldown)


def _built(name: str, plan: BreakerPlan, function: Any, loop: asyncio.AbstractEventLoop) -> Any:
    async def build() -> Any:
        return BREAKERS[name].build(plan)(function)

    return loop.run_until_complete(build())


def _open_and_outwait(function: Any, backend: Backend, colour: str, loop: asyncio.AbstractEventLoop) -> None:
    open_breaker(function, colour, loop)
    backend.is_up = True
    time.sleep(_COOLDOWN * 1.5)


async def _quiet(function: Any) -> None:
    with suppress(Exception):  # a refusal
        await function(1)


def child(name: str, kind: str, count: int) -> dict[str, object]:
    """Measure one contender in this process."""
    log_as_in_production()
    loop = asyncio.new_event_loop()
    try:
        if kind == "refusals":
            return refusals(name, loop, count)
        return {"tasks": tasks, "threads": threads, "blocking": blocking}[kind](name, loop)
    except NotOffered as error:
        return {"absent": f"not offered: {error}"}
    except ImportError:
        return {"absent": "not installed"}
    except NeverOpened as error:
        return {"absent": str(error)}


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], sys.argv[2], int(sys.argv[3]))))

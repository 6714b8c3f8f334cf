"""Checks that contenders are configured equally, before any of them is timed.

What differs is not corrected and not hidden: it becomes a remark beside the contender's figure.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from benchmarks import http_checks
from benchmarks.aiohttp_contenders import SessionPlan
from benchmarks.breakers import BreakerPlan
from benchmarks.http_contenders import HttpPlan
from benchmarks.opening import NeverOpened, error_of, open_breaker
from benchmarks.waits import removed

if TYPE_CHECKING:
    from benchmarks.contenders import Contender, Plan
    from benchmarks.stacks import StackPlan

_CUT_AFTER = 0.01
_PATIENCE = 5.0
_NO_RETRY = {"bare", "try only"}
_NO_TIMEOUT = {"hand loop", "hand loop + deadline", "hand retry + breaker"}


def check(contender: Contender, plan: Any, loop: asyncio.AbstractEventLoop) -> str:
    """Give what this contender does differently from what the plan says, or an empty text."""
    if contender.name in _NO_RETRY:
        return ""
    if isinstance(plan, HttpPlan):
        return http_checks.httpx(contender, plan, loop)
    if isinstance(plan, SessionPlan):
        return http_checks.aiohttp(contender, plan, loop)
    if isinstance(plan, BreakerPlan):
        return _opens(contender, plan, loop)
    return "; ".join(filter(None, (_attempts(contender, plan, loop), _timeout(contender, plan, loop))))


@cache
def _attempts(contender: Contender, plan: Plan | StackPlan, loop: asyncio.AbstractEventLoop) -> str:
    """A function that always fails has to be called five times, and its own exception has to come out."""
    failures: list[OSError] = []

    def fail(x: int) -> None:
        failures.append(OSError("down"))
        raise failures[-1]

    async def fail_async(x: int) -> None:
        fail(x)

    with removed():
        function = _built(contender, plan, fail if plan.colour == "sync" else fail_async, loop)
        error = error_of(function, plan.colour, loop)
    remarks = []
    if len(failures) != 5:
        remarks.append(f"made {len(failures)} attempts instead of 5")
    if error is not failures[-1]:
        remarks.append(f"ended in {type(error).__name__} instead of the function's own exception")
    return "; ".join(remarks)


@cache
def _opens(contender: Contender, plan: BreakerPlan, loop: asyncio.AbstractEventLoop) -> str:
    """Failures in a row open it: the fifth, or with a window the twentieth call."""
    failures = 0

    def fail(x: int) -> None:
        nonlocal failures
        failures += 1
        raise ConnectionResetError(104, "Connection reset by peer")

    async def fail_async(x: int) -> None:
        fail(x)

    function = _built(contender, plan, fail if plan.colour == "sync" else fail_async, loop)
    try:
        told = open_breaker(function, plan.colour, loop)
    except NeverOpened as error:
        return str(error)
    remarks = [] if told == failures else ["the failure that opens it ends in its own exception"]
    if failures not in (
        {5, 20} if plan.window else {5}
    ):  # with a window, failures in a row may count as well
        remarks.append(f"opened after {failures} failures")
    return "; ".join(remarks)


@cache
def _timeout(contender: Contender, plan: Plan | StackPlan, loop: asyncio.AbstractEventLoop) -> str:
    """Where the plan bounds an attempt, an attempt that never returns has to be cut."""
    if plan.attempt_timeout is None or contender.name in _NO_TIMEOUT:
        return ""

    async def never_returns(x: int) -> None:
        await loop.create_future()

    async def bounded() -> str:
        call = contender.build(replace(plan, attempt_timeout=_CUT_AFTER))(never_returns)(1)
        done, pending = await asyncio.wait([asyncio.ensure_future(call)], timeout=_PATIENCE)
        for task in pending:
            task.cancel()
        for task in done:
            task.exception()
        return "" if done else f"did not cut an attempt within {_PATIENCE:g} s"

    with removed():
        return loop.run_until_complete(bounded())


def _built(contender: Contender, plan: Any, function: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """Decorated inside the loop, since hyx looks for the running one."""

    async def build() -> Any:
        return contender.build(plan)(function)

    return loop.run_until_complete(build())

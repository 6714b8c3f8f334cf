"""Checks that contenders are configured equally, before any of them is timed.

What differs is not corrected and not hidden: it becomes a remark beside the contender's figure.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from benchmarks.waits import removed

if TYPE_CHECKING:
    from benchmarks.contenders import Contender, Plan

_CUT_AFTER = 0.01
_PATIENCE = 5.0


def check(contender: Contender, plan: Plan, loop: asyncio.AbstractEventLoop) -> str:
    """Give what this contender does differently from what the plan says, or an empty text."""
    if contender.name in {"bare", "try only"}:
        return ""
    return "; ".join(filter(None, (_attempts(contender, plan, loop), _timeout(contender, plan, loop))))


@cache
def _attempts(contender: Contender, plan: Plan, loop: asyncio.AbstractEventLoop) -> str:
    """A function that always fails has to be called five times, and its own exception has to come out."""
    failures: list[OSError] = []

    def fail(x: int) -> None:
        failures.append(OSError("down"))
        raise failures[-1]

    async def fail_async(x: int) -> None:
        fail(x)

    with removed():
        error = _error_of(contender, plan, fail if plan.colour == "sync" else fail_async, loop)
    remarks = []
    if len(failures) != 5:
        remarks.append(f"made {len(failures)} attempts instead of 5")
    if error is not failures[-1]:
        remarks.append(f"ended in {type(error).__name__} instead of the function's own exception")
    return "; ".join(remarks)


@cache
def _timeout(contender: Contender, plan: Plan, loop: asyncio.AbstractEventLoop) -> str:
    """Where the plan bounds an attempt, an attempt that never returns has to be cut."""
    if plan.attempt_timeout is None or contender.name.startswith("hand loop"):
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


def _error_of(
    contender: Contender, plan: Plan, function: Any, loop: asyncio.AbstractEventLoop
) -> Exception | None:
    async def run() -> None:
        result = contender.build(plan)(function)(1)
        if plan.colour == "async":
            await result

    try:
        loop.run_until_complete(run())
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        return error
    return None

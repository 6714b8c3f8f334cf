"""What is timed of retries on the hot path, as one table: ``ROWS``. The goals are ratios to the row's baseline.

Breakers and whole stacks have their own, ``breaker_rows``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import targets
from benchmarks.contenders import PEERS, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.aiohttp_contenders import SessionPlan
    from benchmarks.breakers import BreakerPlan
    from benchmarks.http_contenders import HttpPlan
    from benchmarks.lineups import Lineup
    from benchmarks.stacks import StackPlan


@dataclass(frozen=True, slots=True)
class Calls:
    """How the timed code calls: with which arguments, how many functions in turn, how often per pass.

    Ten calls stand in the loop's body, so that the loop itself does not blur what a call costs. ``threads`` run
    that loop at once; ``refused`` calls raise, and the loop catches it. ``given`` makes what the arguments name.
    """

    arguments: str
    functions: int = 1
    times: int = 10
    threads: int = 1
    refused: bool = False
    given: Callable[[], dict[str, Any]] | None = None


POSITIONAL = Calls("(1)")
KEYWORD = Calls("(1, y=2)")
IN_TURN = Calls("(1)", functions=32, times=1)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table. ``goal`` is the ratio perdure has to reach; ``None``: nothing was promised.

    ``weight``: so many times as long as on other rows a contender runs in each round. ``above``: the contender
    whose time is taken off that of all others, round by round; the figures, and the goal, are what is left, in us.
    """

    id: str
    title: str
    plan: Plan | BreakerPlan | StackPlan | HttpPlan | SessionPlan
    target: Callable[[], Any]
    baseline: str
    contenders: tuple[str, ...]
    goal: float | None = None
    calls: Calls = POSITIONAL
    logging: bool = True
    lineup: Lineup = "retry"
    weight: float = 1.0
    above: str | None = None


_LOOPS = ("hand loop", "bare", "try only", "perdure")
_DEADLINE = 30.0
SYNC, ASYNC = Plan("sync"), Plan("async")
SYNC_DEADLINE, ASYNC_DEADLINE = Plan("sync", deadline=_DEADLINE), Plan("async", deadline=_DEADLINE)
TIMED, TIMED_DEADLINE = Plan("async", attempt_timeout=30.0), Plan("async", _DEADLINE, attempt_timeout=30.0)


def _success(
    row_id: str,
    plan: Plan,
    target: Callable[[], targets.Function],
    goal: float | None,
    calls: Calls = POSITIONAL,
) -> Row:
    """A row whose target succeeds at once, so that only the wrapper is measured."""
    signature = "*args/**kwargs" if "generic" in target.__name__ else "own signature"
    deadline = "no deadline" if plan.deadline is None else "default deadline"
    suspends = ", target suspends once" if "suspending" in target.__name__ else ""
    title = f"{plan.colour} success, {signature}, {deadline}, w{calls.arguments}{suspends}"
    loops = _LOOPS if plan.deadline is None else (*_LOOPS, "hand loop + deadline")
    return Row(row_id, title, plan, target, "hand loop", (*loops, *PEERS), goal, calls)


def _failing(
    row_id: str, plan: Plan, target: Callable[[], targets.Function], goal: float, *, logging: bool = True
) -> Row:
    """A row whose target fails twice and then succeeds; logging is on from WARNING up, or off."""
    deadline = "no deadline" if plan.deadline is None else "default deadline"
    lines = "" if logging else ", all logging off"
    title = f"{plan.colour} fail, fail, ok, {deadline}, waits removed{lines}"
    contenders = ("hand + sleep", "perdure", *PEERS)
    return Row(row_id, title, plan, target, "hand + sleep", contenders, goal, logging=logging)


def _timed(row_id: str, plan: Plan, target: Callable[[], targets.Function], goal: float | None) -> Row:
    deadline = "no deadline" if plan.deadline is None else "default deadline"
    suspends = "suspends once" if "suspending" in target.__name__ else "does not suspend"
    title = f"async success, attempt timeout 30 s, {deadline}, target {suspends}"
    baseline = "hand + asyncio.timeout"
    return Row(
        row_id, title, plan, target, baseline, (baseline, "hand loop", "bare", "perdure", *PEERS), goal
    )


ROWS = (
    _success("1.own.plain.pos", SYNC, targets.own_sync, 0.3),
    _success("1.own.plain.kw", SYNC, targets.own_sync, 0.3, KEYWORD),
    _success("1.own.deadline.pos", SYNC_DEADLINE, targets.own_sync, 0.5),
    _success("1.own.deadline.kw", SYNC_DEADLINE, targets.own_sync, 0.5, KEYWORD),
    _success("1.generic.plain.pos", SYNC, targets.generic_sync, 0.7),
    _success("1.generic.plain.kw", SYNC, targets.generic_sync, 0.7, KEYWORD),
    _success("1.generic.deadline.pos", SYNC_DEADLINE, targets.generic_sync, 0.9),
    _success("1.generic.deadline.kw", SYNC_DEADLINE, targets.generic_sync, 0.9, KEYWORD),
    Row(
        "1.own.plain.in-turn",
        "sync success, own signature, no deadline, 32 decorated functions called in turn",
        SYNC,
        targets.own_sync,
        "hand loop",
        (*_LOOPS, "dogged", "tenacity"),
        None,
        IN_TURN,
    ),
    _success("2.own.plain.pos", ASYNC, targets.own_async, 0.6),
    _success("2.own.plain.kw", ASYNC, targets.own_async, 0.6, KEYWORD),
    _success("2.own.deadline.pos", ASYNC_DEADLINE, targets.own_async, 0.8),
    _success("2.own.deadline.kw", ASYNC_DEADLINE, targets.own_async, 0.8, KEYWORD),
    _success("2.generic.plain.pos", ASYNC, targets.generic_async, 0.8),
    _success("2.generic.plain.kw", ASYNC, targets.generic_async, 0.8, KEYWORD),
    _success("2.generic.deadline.pos", ASYNC_DEADLINE, targets.generic_async, 1.0),
    _success("2.generic.deadline.kw", ASYNC_DEADLINE, targets.generic_async, 1.0, KEYWORD),
    _success("2.suspends.plain", ASYNC, targets.own_async_suspending, None),
    _success("2.suspends.deadline", ASYNC_DEADLINE, targets.own_async_suspending, None),
    _failing("3.sync.plain", SYNC, targets.fails_twice_sync, 1.0),
    _failing("3.sync.deadline", SYNC_DEADLINE, targets.fails_twice_sync, 1.0),
    _failing("3.sync.silent", SYNC, targets.fails_twice_sync, 1.0, logging=False),
    _failing("3.async.plain", ASYNC, targets.fails_twice_async, 1.1),
    _failing("3.async.deadline", ASYNC_DEADLINE, targets.fails_twice_async, 1.1),
    _failing("3.async.silent", ASYNC, targets.fails_twice_async, 1.1, logging=False),
    _timed("4.timeout.plain", TIMED, targets.own_async, 0.4),
    _timed("4.timeout.deadline", TIMED_DEADLINE, targets.own_async, 0.4),
    _timed("4.timeout.suspends", TIMED, targets.own_async_suspending, None),
)

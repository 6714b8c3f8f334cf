"""What is measured in fresh processes, as tables. The goals are bounds in the row's unit, or on the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks import imports, outage, waiting
from benchmarks.breakers import BREAKER_PEERS
from benchmarks.contenders import PEERS


@dataclass(frozen=True, slots=True)
class FreshRow:
    """A row, the kind of process it asks for, and which of that process's answers it shows."""

    id: str
    title: str
    kind: str
    answer: str
    unit: str
    contenders: tuple[str, ...]
    baseline: str | None = None
    goal: float | None = None
    goal_of: Literal["ratio", "value"] = "value"


_FEW_WAITERS = (waiting.LONE_SLEEP, "hand + sleep", "perdure")
_WAITERS = (*_FEW_WAITERS, "tenacity", "stamina", "backoff", "hyx", "reattempt", "pyresilience")
SLOW_WAITERS = frozenset({"tenacity", "stamina", "reattempt"})
"""Measured once only: each of them takes longer than all the others together."""


def _waiting(row_id: str, what: str, kind: waiting.Kind, answer: str, goal: float) -> FreshRow:
    failure = {"shared": "one exception made beforehand", "own": "each task with an exception of its own"}[
        kind
    ]
    contenders = _FEW_WAITERS if kind == "shared" else _WAITERS
    unit = "B" if answer == "bytes" else "us"
    return FreshRow(row_id, f"{what}, {failure}", kind, answer, unit, contenders, waiting.LONE_SLEEP, goal)


WAITING_ROWS = (
    _waiting("5.bytes.shared", "memory per task that waits", "shared", "bytes", 2_000),
    _waiting("5.bytes.own", "memory per task that waits", "own", "bytes", 2_600),
    _waiting("5.start", "start of a task up to its wait", "own", "start_us", 18),
    _waiting("5.finish", "end of the wait to the end of the task", "own", "finish_us", 7),
)

_LIBRARIES = tuple(library.name for library in imports.LIBRARIES)


def _import(row_id: str, title: str, kind: imports.Kind, answer: str, goal: float | None) -> FreshRow:
    return FreshRow(row_id, title, kind, answer, "ms", _LIBRARIES, "tenacity", goal)


IMPORT_ROWS = (
    _import("6.fresh", "import in a fresh process, above a bare interpreter", "fresh", "process", 35),
    _import("6.fresh.cpu", "the same in processor time", "fresh", "process_cpu", None),
    _import("6.loaded", "import where asyncio, dataclasses, logging are loaded", "loaded", "statement", 4),
    _import("6.loaded.cpu", "the same in processor time", "loaded", "statement_cpu", None),
    _import(
        "6.first-call",
        "import, decorate and call once in a fresh process, above a bare interpreter",
        "first-call",
        "process",
        None,
    ),
)

_ALL = ("hand loop", "perdure", *(peer for peer in PEERS if peer != "hyx"))
_TWO = ("hand loop", "perdure")


def _footprint(
    row_id: str, title: str, kind: str, answer: str, contenders: tuple[str, ...], goal: float | None = None
) -> FreshRow:
    unit = "B" if answer == "bytes" else "us"
    return FreshRow(row_id, title, kind, answer, unit, contenders, "hand loop", goal)


_BREAKERS = (
    "hand breaker",
    "perdure",
    *(peer for peer in BREAKER_PEERS if peer not in {"hyx", "interlock", "nopanic"}),
)
_MEMORY, _TIME = "memory per decorated function", "time to decorate a function"
FOOTPRINT_ROWS = (
    _footprint("7.alike.bytes", f"{_MEMORY}, each with its own retry(...)", "alike", "bytes", _ALL, 750),
    _footprint("7.alike.time", f"{_TIME}, each with its own retry(...)", "alike", "decorate_us", _ALL),
    _footprint("7.one-policy.bytes", f"{_MEMORY}, one policy for all", "one-policy", "bytes", _ALL),
    _footprint("7.different.bytes", f"{_MEMORY}, no parameter lists alike", "different", "bytes", _TWO),
    _footprint("7.different.time", f"{_TIME}, no parameter lists alike", "different", "decorate_us", _TWO),
    _footprint(
        "7.breaker-one.bytes", f"{_MEMORY}, one breaker for all", "breaker-one", "bytes", _BREAKERS, 850
    ),
    _footprint(
        "7.breaker-own.bytes",
        f"{_MEMORY}, each with a breaker of its own",
        "breaker-own",
        "bytes",
        _BREAKERS,
        850,
    ),
    _footprint(
        "7.breaker-own.time",
        f"{_TIME}, each with a breaker of its own",
        "breaker-own",
        "decorate_us",
        _BREAKERS,
    ),
)

_OUTAGE = ("hand breaker", "perdure", *BREAKER_PEERS)


def _half_open(row_id: str, kind: Literal["tasks", "threads"], callers: int) -> FreshRow:
    title = f"callers that reach the function when the open time is over, {callers} {kind} at once"
    return FreshRow(row_id, title, kind, "admitted", "callers", _OUTAGE, None, 1)


def _refusals(row_id: str, what: str, answer: str, unit: str, goal: float) -> FreshRow:
    title = f"refusals of an open breaker: {what}"
    return FreshRow(f"8.refusals.{row_id}", title, "refusals", answer, unit, _OUTAGE, None, goal)


OUTAGE_ROWS = (
    _half_open("8.half-open.tasks", "tasks", outage.TASKS),
    _half_open("8.half-open.threads", "threads", outage.THREADS),
    FreshRow(
        "8.threads.blocking",
        f"{outage.BLOCKING_THREADS} threads x {outage.BLOCKING_CALLS} calls of 1 ms through one closed breaker",
        "blocking",
        "ms",
        "ms",
        ("bare", *_OUTAGE),
        "bare",
        1.1,
        "ratio",
    ),
    _refusals("depth", "entries of the traceback below the caller's own", "depth", "entries", 4),
    _refusals("traceback", "entries by which the traceback grew", "entries", "entries", 0),
    _refusals("bytes", "memory by which the process grew, per refusal", "bytes", "B", 1),
    _refusals("garbage", "cyclic garbage, per refusal", "garbage", "objects", 0),
)

ROWS = (*WAITING_ROWS, *IMPORT_ROWS, *FOOTPRINT_ROWS, *OUTAGE_ROWS)
"""All of them."""

"""What is measured in fresh processes, as tables. The goals are bounds in the row's unit."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import imports, waiting
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


_MEMORY, _TIME = "memory per decorated function", "time to decorate a function"
FOOTPRINT_ROWS = (
    _footprint("7.alike.bytes", f"{_MEMORY}, each with its own retry(...)", "alike", "bytes", _ALL, 750),
    _footprint("7.alike.time", f"{_TIME}, each with its own retry(...)", "alike", "decorate_us", _ALL),
    _footprint("7.one-policy.bytes", f"{_MEMORY}, one policy for all", "one-policy", "bytes", _ALL),
    _footprint("7.different.bytes", f"{_MEMORY}, no parameter lists alike", "different", "bytes", _TWO),
    _footprint("7.different.time", f"{_TIME}, no parameter lists alike", "different", "decorate_us", _TWO),
)

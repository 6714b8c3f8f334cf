"""From a choice of rows to their tables: runs what is needed, in turns, and puts the samples together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from benchmarks import aiohttp_contenders, breaker_rows, hot, http_rows, http_server, imports, rows
from benchmarks.fresh import ChildFailed, run_module
from benchmarks.fresh_rows import FOOTPRINT_ROWS, IMPORT_ROWS, OUTAGE_ROWS, SLOW_WAITERS, WAITING_ROWS
from benchmarks.results import Figure, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.fresh_rows import FreshRow
    from benchmarks.hot import Lane
    from benchmarks.rows import Row


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured. ``budget`` is in seconds per contender and round on the hot path."""

    rounds: int
    budget: float
    import_rounds: int
    tasks: int
    waiting_passes: int
    functions: int
    footprint_passes: int
    refusals: int
    outage_passes: int


FULL = Settings(41, 0.003, 21, 100_000, 3, 5_000, 3, 100_000, 3)
QUICK = Settings(11, 0.001, 5, 10_000, 1, 2_000, 1, 50_000, 1)
HOT_ROWS = (*rows.ROWS, *breaker_rows.ROWS)
TIMED_ROWS = (*HOT_ROWS, *http_rows.ROWS)


def hot_tables(
    wanted: Callable[[str], bool], settings: Settings, progress: Callable[[str], None]
) -> list[Table]:
    """Rows 1 to 4, and most of 8 and 9."""
    return _timed_tables([row for row in HOT_ROWS if wanted(row.id)], settings, progress)


def http_tables(
    wanted: Callable[[str], bool], settings: Settings, progress: Callable[[str], None]
) -> list[Table]:
    """Row 10: by themselves, so that what the clients load and leave open is not there while others are timed."""
    try:
        return _timed_tables([row for row in http_rows.ROWS if wanted(row.id)], settings, progress)
    finally:
        http_server.stop()


def _timed_tables(due: list[Row], settings: Settings, progress: Callable[[str], None]) -> list[Table]:
    """Run these rows in turns and give their tables."""
    loop = asyncio.new_event_loop()
    try:
        progress("checking that all contenders do the same")
        lanes, absent = hot.prepare(due, loop)
        hot.measure(lanes, loop, rounds=settings.rounds, budget=settings.budget, progress=progress)
        loop.run_until_complete(aiohttp_contenders.close())
    finally:
        loop.close()
    timed = {(lane.row.id, lane.contender.name): lane for lane in lanes}
    figures = {at: _timed_figure(lane, timed) for at, lane in timed.items()}
    for gone in absent:
        figures[gone.row.id, gone.contender.name] = Figure(gone.contender.name, absent=gone.reason)
    return [
        Table(
            row.id,
            row.title,
            "us" if row.above else "ns",
            tuple(figures[row.id, name] for name in row.contenders),
            row.baseline,
            row.goal,
            "value" if row.above else "ratio",
        )
        for row in due
    ]


def _timed_figure(lane: Lane, timed: dict[tuple[str, str], Lane]) -> Figure:
    """The samples in ns; or in us and above the bare call, each set against the bare one of its own round."""
    row, name = lane.row, lane.contender.name
    if row.above is None:
        return Figure(name, tuple(sample * 1e9 for sample in lane.samples), lane.remark)
    bare = timed.get((row.id, row.above))
    if bare is None:
        return Figure(name, absent=f"nothing to take off: {row.above} was not measured")
    if bare is lane:
        return Figure(name, absent=f"{median(lane.samples) * 1e6:.3g} us, taken off all others")
    samples = tuple((own - other) * 1e6 for own, other in zip(lane.samples, bare.samples, strict=True))
    return Figure(name, samples, lane.remark)


def waiting_tables(
    wanted: Callable[[str], bool], settings: Settings, progress: Callable[[str], None]
) -> list[Table]:
    """Row 5."""
    rows = [row for row in WAITING_ROWS if wanted(row.id)]
    answers = _children(
        "benchmarks.waiting", rows, settings.tasks, settings.waiting_passes, progress, once=SLOW_WAITERS
    )
    return [_fresh_table(row, answers, f"; {settings.tasks:,} tasks wait at once") for row in rows]


def footprint_tables(
    wanted: Callable[[str], bool], settings: Settings, progress: Callable[[str], None]
) -> list[Table]:
    """Row 7."""
    rows = [row for row in FOOTPRINT_ROWS if wanted(row.id)]
    answers = _children("benchmarks.footprint", rows, settings.functions, settings.footprint_passes, progress)
    return [_fresh_table(row, answers, f"; {settings.functions:,} functions") for row in rows]


def outage_tables(
    wanted: Callable[[str], bool], settings: Settings, progress: Callable[[str], None]
) -> list[Table]:
    """The rest of row 8."""
    rows = [row for row in OUTAGE_ROWS if wanted(row.id)]
    answers = _children("benchmarks.outage", rows, settings.refusals, settings.outage_passes, progress)
    sizes = {"refusals": f"; {settings.refusals:,} refusals"}
    return [_fresh_table(row, answers, sizes.get(row.kind, "")) for row in rows]


def import_tables(
    wanted: Callable[[str], bool], settings: Settings, progress: Callable[[str], None]
) -> list[Table]:
    """Row 6."""
    rows = [row for row in IMPORT_ROWS if wanted(row.id)]
    if not rows:
        return []
    nothing = imports.Arm(imports.NOTHING, "fresh")
    arms = {row.kind: imports.arms(row.kind) for row in rows}  # type: ignore[arg-type]
    imports.measure(
        [nothing, *(arm for group in arms.values() for arm in group)],
        rounds=settings.import_rounds,
        progress=progress,
    )
    return [_import_table(row, arms[row.kind], nothing) for row in rows]


def _import_table(row: FreshRow, arms: list[imports.Arm], nothing: imports.Arm) -> Table:
    """Each process is set against the empty one of its own round, in which the machine was equally fast."""
    figures, answer = [], cast("imports.Answer", row.answer)
    for arm in arms:
        samples = tuple(arm.samples[answer])
        if answer.startswith("process"):
            samples = tuple(a - b for a, b in zip(samples, nothing.samples[answer], strict=False))
        remark = f"{arm.modules} modules" if samples else ""
        figures.append(Figure(arm.library.name, samples, remark, arm.absent))
    return Table(row.id, row.title, row.unit, tuple(figures), row.baseline, row.goal, "value")


def _children(
    module: str,
    rows: list[FreshRow],
    size: int,
    passes: int,
    progress: Callable[[str], None],
    once: frozenset[str] = frozenset(),
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Run each contender of each kind in fresh processes, in turns; answers by kind and contender."""
    pairs = list(dict.fromkeys((row.kind, name) for row in rows for name in row.contenders))
    answers: dict[tuple[str, str], list[dict[str, Any]]] = {pair: [] for pair in pairs}
    for number in range(passes):
        for kind, name in _still_due(pairs, answers, number, once):
            progress(f"{module}, {kind}, pass {number + 1} of {passes}: {name}")
            try:
                answers[kind, name].append(run_module(module, name, kind, str(size)))
            except ChildFailed as error:
                answers[kind, name].append({"absent": f"failed: {error}"})
    return answers


def _still_due(
    pairs: list[tuple[str, str]],
    answers: dict[tuple[str, str], list[dict[str, Any]]],
    number: int,
    once: frozenset[str],
) -> Iterable[tuple[str, str]]:
    for pair in pairs:
        gone = any("absent" in answer for answer in answers[pair])
        if not gone and (number == 0 or pair[1] not in once):
            yield pair


def _fresh_table(row: FreshRow, answers: dict[tuple[str, str], list[dict[str, Any]]], size: str) -> Table:
    figures = []
    for name in row.contenders:
        given = answers[row.kind, name]
        absent = next((answer["absent"] for answer in given if "absent" in answer), "")
        samples = () if absent else tuple(float(answer[row.answer]) for answer in given)
        figures.append(Figure(name, samples, absent=absent))
    title = f"{row.title}{size}"
    return Table(row.id, title, row.unit, tuple(figures), row.baseline, row.goal, row.goal_of)


SUITES = (hot_tables, waiting_tables, import_tables, footprint_tables, outage_tables, http_tables)

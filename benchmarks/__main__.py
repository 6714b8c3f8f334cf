"""``python -m benchmarks``: measure, print the table, write the figures.

The exit code says whether the benchmark ran, never whether a goal was met.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks import fresh, fresh_rows, lineups, machine, page, report, suites
from benchmarks.results import chapter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.fresh_rows import FreshRow
    from benchmarks.rows import Row

_RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    options = _parser().parse_args(arguments)
    if options.page:
        page.fill(options.page, [json.loads(file.read_text(encoding="utf-8")) for file in options.figures])
        return
    wanted = _chooser(options.only)
    if options.list:
        _list(wanted)
        return
    settings = suites.QUICK if options.quick else suites.FULL
    if options.rounds:
        settings = replace(settings, rounds=options.rounds)
    result = measure(wanted, settings)
    print(report.text(result))
    _write(result, options.json)


def measure(wanted: Callable[[str], bool], settings: suites.Settings) -> dict[str, Any]:
    """Run every wanted row and give the result as plain data."""
    begin = monotonic()
    core = fresh.pin_to_one_core()
    fresh.log_as_in_production()
    about = machine.describe(core)
    tables = [table for suite in suites.SUITES for table in suite(wanted, settings, _progress)]
    _progress("")
    return {
        "machine": {**about, "load_after": machine.load()},
        "settings": asdict(settings),
        "seconds": round(monotonic() - begin, 1),
        "versions": lineups.versions(),
        "notes": lineups.notes(),
        "rows": [table.as_dict() for table in sorted(tables, key=lambda table: chapter_of(table.id))],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description="perdure beside its peers, on this machine."
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds on the hot path, 41 unless given")
    parser.add_argument("--quick", action="store_true", help="under a minute, and less exact")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="rows by id, as 3.async.*"
    )
    parser.add_argument("--list", action="store_true", help="say what would be measured")
    parser.add_argument("--page", type=Path, metavar="PAGE", help="put the figures of FILEs into a page")
    parser.add_argument("figures", type=Path, nargs="*", metavar="FILE", help="figures measured before")
    return parser


def _chooser(patterns: list[str]) -> Callable[[str], bool]:
    """A pattern is a glob over the row's id, or its beginning; of 1 that is not 10."""

    def wanted(row_id: str) -> bool:
        return not patterns or any(_begins(row_id, one) or fnmatchcase(row_id, one) for one in patterns)

    return wanted


def _begins(row_id: str, pattern: str) -> bool:
    return row_id.startswith(pattern) and not (pattern.isdigit() and row_id[len(pattern)].isdigit())


def _list(wanted: Callable[[str], bool]) -> None:
    every: tuple[Row | FreshRow, ...] = (*suites.TIMED_ROWS, *fresh_rows.ROWS)
    for row in sorted(every, key=lambda one: chapter_of(one.id)):
        if not wanted(row.id):
            continue
        goal = "" if row.goal is None else f"  (goal {row.goal:g})"
        print(f"{row.id:24}{row.title}{goal}")
        print(f"{'':24}{', '.join(row.contenders)}")


def _progress(step: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)


def _write(result: dict[str, Any], chosen: Path | None) -> None:
    path = chosen or _RESULTS / f"latest-{platform.python_version()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\nfigures: {path.name}")


if __name__ == "__main__":
    main()

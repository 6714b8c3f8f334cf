"""Writes measured figures into the documentation, so that no number on that page was typed by hand."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from benchmarks.report import goals, machine_line, number, versions_line
from benchmarks.results import chapter_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

_CHAPTERS = {
    1: "Sync, success",
    2: "Async, success",
    3: "Failing twice, then succeeding",
    4: "Async with an attempt timeout of 30 s",
    5: "Waiting tasks",
    6: "Imports",
    7: "Decorated functions",
    8: "A breaker",
    9: "Whole stacks",
    10: "HTTP requests",
}


def fill(path: Path, results: list[dict[str, Any]]) -> None:
    """Replace what stands between the page's two marks by the tables of these results.

    Raises:
        SystemExit: the page does not have the marks.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path.name}: no {BEGIN} and {END}")
    figures = "\n\n".join(markdown(result) for result in results)
    path.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")


def markdown(result: dict[str, Any]) -> str:
    """One run: the machine, the goals, and a table for each chapter."""
    heading = f"## {result['machine']['implementation']} {result['machine']['python']}"
    headings = ("row", "target", "measured", "best peer", "verdict")
    parts = [
        heading,
        machine_line(result),
        versions_line(result),
        "### Goals",
        _pipes([headings, *goals(result)]),
        _not_met(result),
    ]
    for number_of, tables in groupby(result["rows"], key=lambda table: chapter_of(table["id"])):
        parts += [f"### {number_of}. {_CHAPTERS[number_of]}", *_chapter(list(tables))]
    remarks = [f"- {name}: {text}" for name, text in _remarks(result)]
    if remarks:
        parts += ["### Found while checking that all do the same", "\n".join(remarks)]
    return "\n\n".join(parts)


def _not_met(result: dict[str, Any]) -> str:
    missed = [table["id"] for table in result["rows"] if table["verdict"] not in {None, "met"}]
    return f"Not met: {', '.join(missed)}." if missed else "All goals are met."


def _chapter(tables: list[dict[str, Any]]) -> Iterator[str]:
    """What each row is, then medians by row and contender, with the ratio to the row's baseline."""
    yield "\n".join(f"- {table['id']}: {table['title']}".replace("*", "\\*") for table in tables)
    names = list(dict.fromkeys(figure["contender"] for table in tables for figure in table["figures"]))
    yield _pipes([("row", *names, "unit"), *(_line(table, names) for table in tables)])


def _line(table: dict[str, Any], names: list[str]) -> tuple[str, ...]:
    figures = {figure["contender"]: figure for figure in table["figures"]}
    return table["id"], *(_cell(figures.get(name, {})) for name in names), table["unit"]


def _cell(figure: dict[str, Any]) -> str:
    if "median" not in figure:
        return ""
    extra = "" if figure["ratio"] is None else f" ({figure['ratio']:.2f})"
    modules = figure.get("remark", "")
    if modules.endswith("modules"):
        extra += f", {modules}"
    return number(figure["median"]) + extra


def _remarks(result: dict[str, Any]) -> Iterable[tuple[str, str]]:
    found = {
        (figure["contender"], figure["remark"]): None
        for table in result["rows"]
        for figure in table["figures"]
        if "remark" in figure and not figure["remark"].endswith("modules")
    }
    return list(found)


def _pipes(rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, ("---",) + ("--:",) * (len(head) - 2) + ("---",), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

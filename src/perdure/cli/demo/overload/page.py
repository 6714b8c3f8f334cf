"""The overload scene on the page of a run."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from perdure.cli.demo.arms import place_of
from perdure.cli.demo.chart import Chart, axis_top, drawings
from perdure.cli.demo.markup import alarms, bullets, table
from perdure.cli.demo.overload import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.cli.demo.measure import Curve
    from perdure.cli.demo.overload.report import Result


def render(result: Result) -> str:
    """Return the part of the page that tells of this scene."""
    names = [figures.arm for figures in result.figures]
    parts = (
        '<section class="scene">',
        "<h1>The same load on a server that slows down, three ways</h1>",
        f"<p>{escape(report.setting(result.plan))}</p>",
        alarms(report.doubts(result)),
        _chart(result, result.good, "Goodput", "Calls that succeeded, in each second."),
        _chart(result, result.sent, "Load on the server", "Attempts sent in each second."),
        f"<h2>After the fault, and in all</h2><p>{escape(report.NOTE)}</p>",
        table(names, [(cells, "") for cells in report.rows(result)]),
        _seconds(result),
        bullets("What this run of it shows", report.findings(result)),
        bullets("What it does not show", report.LIMITS),
        _checked(result),
        "</section>",
    )
    return "\n".join(part for part in parts if part)


def _checked(result: Result) -> str:
    lines = (report.agreement_line(result), report.open_line(result) or "")
    return f"<p>Checked against the server's own ledger: {escape(' '.join(lines))}</p>"


def _chart(result: Result, curves: Sequence[Curve], title: str, caption: str) -> str:
    names = [figures.arm for figures in result.figures]
    top = axis_top([value for curve in curves for _, value in curve if value is not None])
    chart = Chart(
        title, result.plan.seconds, top, "", result.plan.incidents, curves, names, tuple(map(place_of, names))
    )
    return drawings(chart, caption)


def _seconds(result: Result) -> str:
    """Write every second, folded away: successes, attempts sent and calls refused of each arm."""
    names = [figures.arm for figures in result.figures]
    body = [
        (
            (
                f"{place + 1} s",
                *(
                    f"{of_arm[place].good} / {of_arm[place].sent} / {of_arm[place].shed}"
                    for of_arm in result.seconds
                ),
            ),
            result.plan.at(place + 0.5),
        )
        for place in range(min((len(of_arm) for of_arm in result.seconds), default=0))
    ]
    return (
        "<details><summary>Second by second: succeeded / sent / refused unsent</summary>"
        f"{table(names, body)}</details>"
    )

"""The page of a run: one HTML file that needs nothing from anywhere else, not even a script."""

from __future__ import annotations

import platform
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from perdure.cli.demo import report
from perdure.cli.demo.arms import ARMS
from perdure.cli.demo.chart import Chart, axis_top, drawings
from perdure.cli.demo.markup import alarms, bullets, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.cli.demo.measure import Curve, Figures
    from perdure.cli.demo.overload.report import Result as Overload
    from perdure.cli.demo.report import Result


def render(result: Result, overload: Overload | None = None) -> str:
    """Return the whole page as text; the second scene follows the first where it was played."""
    style = resources.files("perdure.cli.demo").joinpath("page.css").read_text(encoding="utf-8")
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>perdure demo, seed {result.script.seed}</title>\n<style>\n{style}</style>\n</head>\n"
    )
    parts = (
        _header(result),
        alarms(_doubts(result)),
        _cards(result.figures),
        _charts(result),
        _phases(result),
        _numbers(result),
        bullets("What this run shows", report.findings(result)),
        bullets("What it does not show", report.LIMITS),
        _overload(overload),
        _footer(result),
    )
    body = "\n".join(part for part in parts if part)
    return f"{head}<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"


def _header(result: Result) -> str:
    calls = max((figures.calls for figures in result.figures), default=0)
    return (
        '<header><p><span class="brand">perdure</span> demo</p>'
        "<h1>Same calls, same failing server, four ways</h1>"
        f"<p>{result.script.seconds:g} s, {calls:,} calls each way, over HTTP on 127.0.0.1. The server "
        "errs, slows down, restarts and goes away by a script; each way meets the same script.</p></header>"
    )


def _overload(result: Overload | None) -> str:
    if result is None:
        return ""
    from perdure.cli.demo.overload.page import render as render_overload

    return render_overload(result)


def _doubts(result: Result) -> list[str]:
    lines = [] if result.agrees else [report.agreement_line(result)]
    interruption = report.interruption_line(result)
    return lines if interruption is None else [*lines, interruption]


def _cards(figures: Sequence[Figures]) -> str:
    cards = [_card(place, of_arm, ARMS[place].code) for place, of_arm in enumerate(figures)]
    return '<section class="arms">' + "".join(cards) + "</section>"


def _card(place: int, figures: Figures, code: str) -> str:
    facts = (
        ("attempts per call", report.ratio(figures.amplification)),
        ("404, 422 sent again", str(figures.wrong_repeated)),
        ("refused unsent", f"{figures.shed:,}"),
        ("p50 / p99", f"{report.milliseconds(figures.p50)} / {report.milliseconds(figures.p99)} ms"),
    )
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return (
        f'<article class="arm arm{place}"><h3>{escape(figures.arm)}</h3>'
        f'<p class="big">{escape(report.percent(figures.success))}</p><p class="of">of calls succeeded</p>'
        f"<dl>{pairs}</dl><pre>{escape(code)}</pre></article>"
    )


def _charts(result: Result) -> str:
    percents: list[Curve] = [
        [(at, None if value is None else value * 100) for at, value in curve] for curve in result.success
    ]
    busiest = axis_top([value for curve in result.sent for _, value in curve if value is not None])
    caption = f"Share of the calls started in each {result.script.seconds / 40:g} s that succeeded."
    success = _chart(result, percents, 100.0, "%", "Success", caption)
    caption = "First attempts and retries together."
    return success + _chart(result, result.sent, busiest, "", "Attempts sent per second", caption)


def _chart(result: Result, curves: Sequence[Curve], top: float, unit: str, title: str, caption: str) -> str:
    chart = Chart(title, result.script.seconds, top, unit, result.script.incidents, curves, _names(result))
    return drawings(chart, caption)


def _phases(result: Result) -> str:
    lines = zip(report.phase_rows(result), result.script.incidents, strict=True)
    written = table(_names(result), [(cells, phase.what) for cells, phase in lines])
    return f"<h2>Phase by phase</h2><p>Success of the calls started in each.</p>{written}"


def _numbers(result: Result) -> str:
    written = table(_names(result), [(cells, "") for cells in report.rows(result)])
    return f"<h2>All figures</h2><p>{escape(report.NOTE)}</p>{written}"


def _names(result: Result) -> list[str]:
    return [figures.arm for figures in result.figures]


def _footer(result: Result) -> str:
    machine = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"
    again = f"perdure demo --seconds {result.script.seconds:g} --seed {result.script.seed}"
    return (
        f"<footer><p>Checked against the server's own ledger: {escape(report.agreement_line(result))}</p>"
        f"<p>{escape(machine)}. Again: <code>{escape(again)}</code></p></footer>"
    )

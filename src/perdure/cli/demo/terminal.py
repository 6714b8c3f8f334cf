"""The three screens: a terminal (rich), plain lines, and silence for JSON."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Final, Protocol

import click

from perdure.cli.demo import report
from perdure.cli.demo.live import STYLES, Lines, LiveTable, Silent, new_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.cli.demo.live import Display
    from perdure.cli.demo.overload.plan import Plan
    from perdure.cli.demo.overload.report import Result as Overload
    from perdure.cli.demo.report import Result
    from perdure.cli.demo.script import Script

_WIDEST: Final = 88

Head = tuple[str, ...]
Body = list[tuple[str, ...]]


class Screen(Protocol):
    """How a run is announced, shown and summed up. For one thread."""

    def begin(self, script: Script) -> None:
        """Say what is about to happen."""

    def display(self, script: Script) -> Display:
        """Return what shows the progress."""
        ...

    def end(self, result: Result) -> None:
        """Print the tables and what they mean."""

    def overload_display(self, plan: Plan) -> Display:
        """Say what the second scene is, and return what shows its progress."""
        ...

    def end_overload(self, result: Overload) -> None:
        """Print the table of the second scene and what it means."""


def choose(*, as_json: bool) -> Screen:
    """Pick the screen for this output."""
    if as_json:
        return Quiet()
    on_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return Rich() if on_terminal else Plain()


class Quiet:
    """Says nothing; what a program reads is printed by the command."""

    def begin(self, script: Script) -> None:
        """Say nothing."""

    def display(self, script: Script) -> Display:  # noqa: ARG002
        """Show nothing."""
        return Silent()

    def end(self, result: Result) -> None:
        """Say nothing."""

    def overload_display(self, plan: Plan) -> Display:  # noqa: ARG002
        """Show nothing."""
        return Silent()

    def end_overload(self, result: Overload) -> None:
        """Say nothing."""


class Plain:
    """Text without colour or movement."""

    _width = _WIDEST

    def begin(self, script: Script) -> None:
        """Say what is about to happen."""
        click.echo(_announcement(script))

    def display(self, script: Script) -> Display:
        """Return one line a second."""
        return Lines(script)

    def end(self, result: Result) -> None:
        """Print the table and what it means."""
        self._sum_up(*_table(result), _words(result))

    def overload_display(self, plan: Plan) -> Display:
        """Say what the second scene is, and return one line a second: each stays to be read."""
        from perdure.cli.demo.arms import OVERLOAD_ARMS
        from perdure.cli.demo.overload.live import Seconds
        from perdure.cli.demo.overload.report import setting

        lines = [f"perdure demo: overload ({plan.seconds:g} s, seed {plan.seed})", setting(plan)]
        click.echo("\n" + "\n".join(_filled(lines, self._width)) + "\n")
        return Seconds(plan, [arm.name for arm in OVERLOAD_ARMS])

    def end_overload(self, result: Overload) -> None:
        """Print the table of the second scene and what it means."""
        from perdure.cli.demo.overload.report import rows

        head = ("", *(figures.arm for figures in result.figures))
        self._sum_up(head, rows(result), _overload_words(result))

    def _sum_up(self, head: Head, body: Body, words: Iterable[str]) -> None:
        click.echo("\n" + "\n".join(_aligned([head, *body])) + "\n")
        for line in _filled(words, self._width):
            click.echo(line)


class Rich(Plain):
    """A live table for the faults, and the same tables and words in colour."""

    def __init__(self) -> None:
        """Make the console; `rich` is loaded here and nowhere without a terminal."""
        from rich.console import Console

        self._console = Console(highlight=False)
        self._width = min(self._console.width, _WIDEST)

    def begin(self, script: Script) -> None:
        """Say what is about to happen."""
        self._console.print(_announcement(script))
        self._console.print()

    def display(self, script: Script) -> Display:
        """Return the live table."""
        return LiveTable(script, self._console)

    def _sum_up(self, head: Head, body: Body, words: Iterable[str]) -> None:
        table = new_table(head)
        for column, name in zip(table.columns[1:], head[1:], strict=True):
            column.style = STYLES[name]
        for cells in body:
            table.add_row(*cells)
        self._console.print()
        self._console.print(table)
        self._console.print()
        for line in _filled(words, self._width):
            self._console.print(line, markup=False, soft_wrap=True)


def _announcement(script: Script) -> str:
    return (
        "perdure demo: the same calls to a failing server, four ways "
        f"({script.seconds:g} s, seed {script.seed})"
    )


def _table(result: Result) -> tuple[Head, Body]:
    head = ("", *(figures.arm for figures in result.figures))
    phases = [(f"success: {name}", *cells) for name, *cells in report.phase_rows(result)]
    return head, report.rows(result) + phases


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cells[place]) for cells in rows) for place in range(len(rows[0]))]
    lines: list[str] = []
    for name, *cells in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *padded]))
    return lines


def _words(result: Result) -> list[str]:
    interruption = report.interruption_line(result)
    lines = [report.NOTE, ""]
    lines += [] if interruption is None else [interruption, ""]
    lines += _shown(report.findings(result), report.LIMITS)
    return [*lines, "", f"Server's own count: {report.agreement_line(result)}"]


def _overload_words(result: Overload) -> list[str]:
    from perdure.cli.demo.overload.report import LIMITS, NOTE, agreement_line, doubts, findings, open_line

    lines = [NOTE, ""]
    for doubt in doubts(result):
        lines += [doubt, ""]
    lines += _shown(findings(result), LIMITS)
    lines += ["", f"Server's own count: {agreement_line(result)}"]
    unended = open_line(result)
    return lines if unended is None else [*lines, unended]


def _shown(findings: Iterable[str], limits: Iterable[str]) -> list[str]:
    lines = ["What this run shows", *(f"- {line}" for line in findings)]
    return [*lines, "What it does not show", *(f"- {line}" for line in limits)]


def _filled(lines: Iterable[str], width: int) -> list[str]:
    return [
        textwrap.fill(line, width, subsequent_indent="  " if line.startswith("- ") else "") for line in lines
    ]

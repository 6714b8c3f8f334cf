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
    from collections.abc import Sequence

    from perdure.cli.demo.live import Display
    from perdure.cli.demo.report import Result
    from perdure.cli.demo.script import Script

_WIDEST: Final = 88


class Screen(Protocol):
    """How a run is announced, shown and summed up. For one thread."""

    def begin(self, script: Script) -> None:
        """Say what is about to happen."""

    def display(self, script: Script) -> Display:
        """Return what shows the progress."""
        ...

    def end(self, result: Result) -> None:
        """Print the tables and what they mean."""


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


class Plain:
    """Text without colour or movement."""

    def begin(self, script: Script) -> None:
        """Say what is about to happen."""
        click.echo(_announcement(script))

    def display(self, script: Script) -> Display:
        """Return one line a second."""
        return Lines(script)

    def end(self, result: Result) -> None:
        """Print the table as aligned text."""
        head, body = _table(result)
        click.echo("\n" + "\n".join(_aligned([head, *body])) + "\n")
        for line in _words(result, _WIDEST):
            click.echo(line)


class Rich:
    """A live table, then the same tables in colour."""

    def __init__(self) -> None:
        """Make the console; `rich` is loaded here and nowhere without a terminal."""
        from rich.console import Console

        self._console = Console(highlight=False)

    def begin(self, script: Script) -> None:
        """Say what is about to happen."""
        self._console.print(_announcement(script))
        self._console.print()

    def display(self, script: Script) -> Display:
        """Return the live table."""
        return LiveTable(script, self._console)

    def end(self, result: Result) -> None:
        """Print the table."""
        head, body = _table(result)
        table = new_table(head)
        for column, style in zip(table.columns[1:], STYLES, strict=True):
            column.style = style
        for cells in body:
            table.add_row(*cells)
        self._console.print(table)
        self._console.print()
        for line in _words(result, min(self._console.width, _WIDEST)):
            self._console.print(line, markup=False, soft_wrap=True)


def _announcement(script: Script) -> str:
    return (
        "perdure demo: the same calls to a failing server, three ways "
        f"({script.seconds:g} s, seed {script.seed})"
    )


def _table(result: Result) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
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


def _words(result: Result, width: int) -> list[str]:
    interruption = report.interruption_line(result)
    lines = [report.NOTE, ""]
    lines += [] if interruption is None else [interruption, ""]
    lines += ["What this run shows", *(f"- {line}" for line in report.findings(result))]
    lines += ["What it does not show", *(f"- {line}" for line in report.LIMITS)]
    lines += ["", f"Server's own count: {report.agreement_line(result)}"]
    return [
        textwrap.fill(line, width, subsequent_indent="  " if line.startswith("- ") else "") for line in lines
    ]

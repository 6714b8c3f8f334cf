"""What is shown while it runs: a table that redraws itself on a terminal, else a line a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import click

from perdure.cli.demo import measure, report

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from perdure.cli.demo.script import Script
    from perdure.cli.demo.traffic import Call, Traffic

_BARS: Final = "▁▂▃▄▅▆▇█"
_POINTS: Final = 20
STYLES: Final = {
    "no retry": "dim",
    "naive loop": "yellow",
    "@perdure.retry": "cyan",
    "Dependency": "bold magenta",
}


class Display(Protocol):
    """Where a run shows its progress; used as a context manager by one thread."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, traffic: Traffic, now: float) -> None:
        """Show the state at `now` seconds."""


class Silent:
    """Shows nothing: for output that a program reads."""

    def __enter__(self) -> object:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(self, traffic: Traffic, now: float) -> None:
        """Show nothing."""


class Lines(Silent):
    """One plain line each second: for pipes, logs and dumb terminals."""

    def __init__(self, script: Script) -> None:
        """Begin with second 1."""
        self._script = script
        self._next = 1

    def __enter__(self) -> object:
        click.echo(f"{'second':>6}  {'server':<9}  success in that second")
        return self

    def update(self, traffic: Traffic, now: float) -> None:
        """Print a line when a second is full."""
        if now < self._next or self._next > self._script.seconds:
            return
        arms = "  ".join(f"{name} {_latest(calls, now):>4}" for name, calls in traffic.calls.items())
        phase = self._script.at(now - 0.5).label
        click.echo(f"{self._next:>4} s  {phase:<9}  {arms}")
        self._next = int(now) + 1


def _latest(calls: list[Call], now: float) -> str:
    rate = measure.success_rate(call for call in calls[-400:] if (call.ended or 0) >= now - 1)
    return "-" if rate is None else f"{rate:.0%}"


class LiveTable:
    """A table in place on a terminal, with the success so far as a small curve for each arm."""

    def __init__(self, script: Script, console: Console) -> None:
        """Keep what is needed to draw; nothing is shown before `__enter__`."""
        from rich.live import Live

        self._script = script
        self._due = 0.0
        self._live: Live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> object:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def update(self, traffic: Traffic, now: float) -> None:
        """Redraw, a hundred times in a run: each costs more the longer it runs, and the calls are timed."""
        if now < self._due:
            return
        self._due = now + self._script.seconds / 100
        self._live.update(self._draw(traffic, now), refresh=True)

    def _draw(self, traffic: Traffic, now: float) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        phase = self._script.at(now)
        shown = min(now, self._script.seconds)
        head = Text.assemble(
            (f" {shown:4.1f} / {self._script.seconds:g} s  ", "bold"),
            (f"{phase.label}: " if phase in self._script.incidents else "", "bold red"),
            phase.what if now <= self._script.seconds else "waiting for the last calls to end",
            no_wrap=True,
            overflow="ellipsis",
        )
        return Group(head, self._table(traffic, shown))

    def _table(self, traffic: Traffic, now: float) -> Table:
        table = new_table(("arm", "success", "over time", "p50 ms", "p99 ms", "sent", "4xx again"))
        table.columns[2].justify = "left"
        for name, calls in traffic.calls.items():
            table.add_row(*_live_row(name, list(calls), now, self._script.seconds), style=STYLES[name])
        return table


def _live_row(name: str, calls: list[Call], now: float, seconds: float) -> tuple[str, ...]:
    latencies = [call.latency for call in calls if call.latency is not None]
    return (
        name,
        report.percent(measure.success_rate(calls)),
        sparkline(measure.success_curve(calls, now, seconds / _POINTS)).ljust(_POINTS),
        report.milliseconds(measure.percentile(latencies, 0.50)),
        report.milliseconds(measure.percentile(latencies, 0.99)),
        f"{sum(len(call.attempts) for call in calls):,}",
        str(measure.repeated_so_far(calls)),
    )


def sparkline(curve: measure.Curve) -> str:
    """Draw shares between 0 and 1 as one character each; a space where there is none."""
    return "".join(" " if value is None else _BARS[round(value * (len(_BARS) - 1))] for _, value in curve)


def new_table(columns: tuple[str, ...]) -> Table:
    """Make an empty table: names to the left, figures to the right."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True, header_style="bold"
    )
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table

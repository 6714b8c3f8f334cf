"""What the overload scene shows while it runs: a line each second, on a terminal too, for it stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from perdure.cli.demo.live import Silent
from perdure.cli.demo.overload.measure import second

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.cli.demo.overload.measure import Second
    from perdure.cli.demo.overload.plan import Plan
    from perdure.cli.demo.traffic import Traffic

_COLUMNS: Final = "good sent shed"


class Seconds(Silent):
    """For each full second: calls that came, and for each arm successes, attempts sent and calls refused."""

    def __init__(self, plan: Plan, names: Iterable[str]) -> None:
        """Begin with second 1."""
        self._plan = plan
        self._names = tuple(names)
        self._next = 1

    def __enter__(self) -> object:
        for line in heading(self._names):
            click.echo(line)
        return self

    def update(self, traffic: Traffic, now: float) -> None:
        """Print the lines of the seconds that are full."""
        while self._next <= min(now, self._plan.seconds):
            counts = [second(list(traffic.calls[name]), self._next - 1) for name in self._names]
            click.echo(line_of(self._next, self._plan.at(self._next - 0.5), counts))
            self._next += 1


def heading(names: Iterable[str]) -> tuple[str, str]:
    """Return the two lines over the seconds: the arms, and what stands under each."""
    names = list(names)
    arms = " | ".join(name.center(len(_COLUMNS)) for name in names)
    columns = " | ".join(_COLUMNS for _ in names)
    return f"{'':<25} | {arms}", f"{'time':>5} {'server':<13} {'calls':>5} | {columns}"


def line_of(number: int, stage: str, counts: Iterable[Second]) -> str:
    """Return one line; the arms get the same calls, so these stand there once."""
    counts = list(counts)
    due = max((one.due for one in counts), default=0)
    cells = " | ".join(f"{one.good:>4} {one.sent:>4} {one.shed:>4}" for one in counts)
    return f"{number:>3} s {stage:<13} {due:>5} | {cells}"

"""A line chart as SVG text: curves over time, with the incidents shaded and named.

Colours are CSS classes that the page defines, so one picture serves light and dark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.cli.demo.measure import Curve
    from perdure.cli.demo.script import Phase

_LEFT: Final = 44.0
_RIGHT: Final = 12.0
_BOTTOM: Final = 26.0
_ROW: Final = 16.0
_LETTER: Final = 6.6
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Chart:
    """What to draw. `top` is the value at the upper edge, `unit` follows the numbers of the axis.

    `tints`: for each curve the place of its arm, whose colour it has.
    """

    title: str
    seconds: float
    top: float
    unit: str
    phases: Sequence[Phase]
    curves: Sequence[Curve]
    names: Sequence[str]
    tints: Sequence[int] = (0, 1, 2, 3)

    def svg(self, width: float, height: float) -> str:
        """Draw it; the text keeps its size, so a narrow screen gets a narrow drawing, not a small one."""
        return "\n".join(_Drawing(self, width, height).parts())


# Drawn twice, so that text is never scaled: the style sheet shows the one that fits the screen.
_SIZES: Final = (("wide", 1000.0, 270.0), ("narrow", 350.0, 240.0))


def drawings(chart: Chart, caption: str) -> str:
    """Return the picture with title, caption and key, drawn for wide and for narrow screens."""
    key = "".join(
        f'<li class="arm{tint}">{escape(name)}</li>'
        for tint, name in zip(chart.tints, chart.names, strict=False)
    )
    drawn = "".join(
        chart.svg(width, height).replace("<svg ", f'<svg class="{name}" ', 1)
        for name, width, height in _SIZES
    )
    return f'<h2>{escape(chart.title)}</h2><p>{escape(caption)}</p><ul class="key">{key}</ul>{drawn}'


def axis_step(span: float, at_most: int) -> float:
    """Return the least of ..., 1, 2, 2.5, 5, 10, 20, ... that cuts `span` into at most so many parts."""
    rough = span / max(1, at_most)
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def axis_top(values: Sequence[float]) -> float:
    """Return a round number at or above every value, for the upper edge of an axis."""
    highest = max(values, default=0.0) or 1.0
    step = axis_step(highest, 4)
    return step * math.ceil(highest / step - 1e-9)


class _Drawing:
    def __init__(self, chart: Chart, width: float, height: float) -> None:
        self.chart, self.width, self.height = chart, width, height
        self.labels = place_labels(chart.phases, self.x, width)
        self.above = _ROW * (1 + max((line for _, _, line in self.labels), default=0)) + 4

    def x(self, at: float) -> float:
        return _LEFT + at / self.chart.seconds * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.above + (1 - value / self.chart.top) * (self.height - self.above - _BOTTOM)

    def parts(self) -> list[str]:
        title = escape(self.chart.title)
        return [
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{title}">',
            *self._incidents(),
            *self._grid(),
            *self._times(),
            *self._curves(),
            "</svg>",
        ]

    def _incidents(self) -> list[str]:
        foot, drawn = self.height - _BOTTOM, list[str]()
        for phase in self.chart.phases:
            left = self.x(phase.start)
            wide = max(2.0, self.x(phase.end) - left)
            drawn.append(
                f'<rect class="incident {phase.kind}" x="{left:.1f}" y="{self.above:.1f}" '
                f'width="{wide:.1f}" height="{foot - self.above:.1f}">'
                f"<title>{escape(phase.label)}: {escape(phase.what)}</title></rect>"
            )
        for name, middle, line in self.labels:
            base = self.above - 6 - line * _ROW
            drawn.append(
                f'<text class="label" x="{middle:.1f}" y="{base:.1f}" text-anchor="middle">'
                f"{escape(name)}</text>"
            )
        return drawn

    def _grid(self) -> list[str]:
        step, drawn = axis_step(self.chart.top, 4), list[str]()
        for place in range(round(self.chart.top / step) + 1):
            height = self.y(place * step)
            drawn.append(
                f'<path class="grid" d="M{_LEFT:g} {height:.1f}H{self.width - _RIGHT:g}"/>'
                f'<text class="axis" x="{_LEFT - 7:g}" y="{height + 4:.1f}" text-anchor="end">'
                f"{place * step:g}{self.chart.unit}</text>"
            )
        return drawn

    def _times(self) -> list[str]:
        step = axis_step(self.chart.seconds, int((self.width - _LEFT) / 64))
        return [
            f'<text class="axis" x="{self.x(place * step):.1f}" y="{self.height - 8:g}" '
            f'text-anchor="middle">{place * step:g} s</text>'
            for place in range(int(self.chart.seconds / step - 0.2) + 1)
        ]

    def _curves(self) -> list[str]:
        chart = self.chart
        # The last arm lies on top, and the first, which is dashed, over the others: it often hides in one.
        order = sorted(
            range(len(chart.curves)),
            key=lambda place: (place == len(chart.curves) - 1, chart.tints[place] == 0),
        )
        return [
            f'<path class="curve arm{chart.tints[place]}" d="{self._path(chart.curves[place])}">'
            f"<title>{escape(chart.names[place])}</title></path>"
            for place in order
        ]

    def _path(self, curve: Curve) -> str:
        pen, steps = "M", list[str]()
        for at, value in curve:
            if value is None:
                pen = "M"  # nothing was measured here: a gap, not a line across it
                continue
            steps.append(f"{pen}{self.x(at):.1f} {self.y(value):.1f}")
            pen = "L"
        return "".join(steps)


def place_labels(
    phases: Sequence[Phase], x: Callable[[float], float], width: float
) -> list[tuple[str, float, int]]:
    """Give each name the lowest line on which it touches no other: (name, middle, line)."""
    ends: list[float] = []
    placed: list[tuple[str, float, int]] = []
    for phase in phases:
        half = len(phase.label) * _LETTER / 2
        middle = min(max(x((phase.start + phase.end) / 2), half), width - half)
        line = next((line for line, end in enumerate(ends) if middle - half > end), len(ends))
        ends[line : line + 1] = [middle + half + 4]
        placed.append((phase.label, middle, line))
    return placed

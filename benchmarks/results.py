"""What was measured: one ``Table`` for each row, one ``Figure`` for each contender on it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

SUBJECT = "perdure"


def chapter_of(row_id: str) -> int:
    """The number of a row's chapter, which its id begins with."""
    return int(row_id.partition(".")[0])


@dataclass(frozen=True, slots=True)
class Figure:
    """The samples of one contender, in the table's unit; or why there are none."""

    contender: str
    samples: tuple[float, ...] = ()
    remark: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One row with everyone's figures. A goal is a bound on perdure's ratio or on its median."""

    id: str
    title: str
    unit: str
    figures: tuple[Figure, ...]
    baseline: str | None = None
    goal: float | None = None
    goal_of: Literal["ratio", "value"] = "ratio"

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, medians, ratios and verdict worked out."""
        base = self._samples_of(self.baseline)
        figures = [self._figure_as_dict(figure, base) for figure in self.figures]
        return {
            "id": self.id,
            "title": self.title,
            "unit": self.unit,
            "baseline": self.baseline,
            "goal": self.goal,
            "goal_of": self.goal_of if self.goal is not None else None,
            "verdict": self._verdict(figures),
            "figures": figures,
        }

    def _samples_of(self, contender: str | None) -> tuple[float, ...]:
        return next((figure.samples for figure in self.figures if figure.contender == contender), ())

    def _figure_as_dict(self, figure: Figure, base: tuple[float, ...]) -> dict[str, Any]:
        """The ratio is that of medians; beside it that of the best samples, which busy spells touch least."""
        answer: dict[str, Any] = {"contender": figure.contender}
        if figure.samples:
            middle = median(figure.samples)
            answer |= {
                "median": round(middle, 3),
                "min": round(min(figure.samples), 3),
                "max": round(max(figure.samples), 3),
                "samples": len(figure.samples),
                "ratio": round(middle / median(base), 4) if base and median(base) > 0 else None,
                "ratio_of_best": round(min(figure.samples) / min(base), 4)
                if base and min(base) > 0
                else None,
            }
        if figure.absent:
            answer["absent"] = figure.absent
        if figure.remark:
            answer["remark"] = figure.remark
        return answer

    def _verdict(self, figures: list[dict[str, Any]]) -> str | None:
        """``met``, ``NOT MET``, ``not measured``, or nothing where there is no goal."""
        if self.goal is None:
            return None
        for figure in figures:
            reached = figure.get("ratio" if self.goal_of == "ratio" else "median")
            if figure["contender"] == SUBJECT and reached is not None:
                return "met" if reached <= self.goal else "NOT MET"
        return "not measured"

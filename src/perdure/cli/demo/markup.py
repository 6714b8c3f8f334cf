"""Pieces of HTML that both scenes of the page are made of."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from perdure.cli.demo.arms import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def alarms(lines: Iterable[str]) -> str:
    """Write what a reader must not miss."""
    return "".join(f'<p class="alarm">{escape(line)}</p>' for line in lines)


def bullets(title: str, lines: Iterable[str]) -> str:
    """Write sentences under a title."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<h2>{escape(title)}</h2><ul class="plain">{items}</ul>'


def table(arms: Sequence[str], body: Iterable[tuple[Sequence[str], str]]) -> str:
    """Write a line for each (name and cells, remark), with a column for each arm."""
    tints = [place_of(arm) for arm in arms]
    head = _line(("", *arms), "", "th", tints)
    lines = [_line(cells, remark, "td", tints) for cells, remark in body]
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def _line(cells: Sequence[str], remark: str, tag: str, tints: Sequence[int]) -> str:
    name, *rest = (escape(cell) for cell in cells)
    small = f"<small>{escape(remark)}</small>" if remark else ""
    # A narrow screen may break "@perdure.retry" after the dot.
    shown = "".join(
        f'<{tag} class="arm{tint}">{cell.replace("e.r", "e.<wbr>r")}</{tag}>'
        for tint, cell in zip(tints, rest, strict=True)
    )
    return f"<tr><th>{name}{small}</th>{shown}</tr>"

"""Renders a result, which is plain data, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.lineups import is_library
from benchmarks.results import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEADINGS = ("contender", "median", "min", "max", "ratio", "of best", "")


def text(result: dict[str, Any]) -> str:
    """The whole result for a terminal."""
    parts = [machine_line(result), versions_line(result)]
    for table in result["rows"]:
        parts.append(f"\n{table['id']}  {table['title']}  [{table['unit']}]{_goal_note(table)}")
        parts.append(_columns([_HEADINGS, *_lines(table)]))
    parts.append("\nGoals of perdure")
    parts.append(_columns([("row", "target", "measured", "best peer", "verdict"), *goals(result)]))
    parts.append("\nHow the contenders differ from what was asked of all")
    parts.extend(f"  {name}: {note}" for name, note in result["notes"].items())
    return "\n".join(parts)


def machine_line(result: dict[str, Any]) -> str:
    """One sentence on what this was measured on."""
    machine, build = result["machine"], result["machine"]["optimised_build"]
    kind = "profile-guided build" if build["pgo"] else "built without profile-guided optimisation"
    before, after = machine["load_before"][0], machine["load_after"][0]
    parts = (
        f"{machine['implementation']} {machine['python']} ({kind}, {machine['compiler']})",
        f"{machine['system']}, {machine['cpu']}, {machine['cores']} cores",
        f"pinned to core {machine['pinned_to_core']}",
        f"load {before} before and {after} after",
        machine["date"],
        f"{result['settings']['rounds']} rounds, {result['seconds']:.0f} s",
    )
    return ", ".join(parts) + "."


def versions_line(result: dict[str, Any]) -> str:
    """The versions of everything compared."""
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + "."


def _goal_note(table: dict[str, Any]) -> str:
    if table["goal"] is None:
        return ""
    return f"  goal of perdure: {_bound(table)}"


def _bound(table: dict[str, Any]) -> str:
    if table["goal_of"] == "ratio":
        return f"<= {table['goal']:g} x {table['baseline']}"
    return f"<= {table['goal']:,g} {table['unit']}"


def _lines(table: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for figure in table["figures"]:
        name, remark = figure["contender"], figure.get("remark", "")
        if "median" not in figure:
            yield name, "", "", "", "", "", figure["absent"]
            continue
        ratios = ("" if figure[key] is None else f"{figure[key]:.2f}" for key in ("ratio", "ratio_of_best"))
        verdict = table["verdict"] if name == SUBJECT and table["verdict"] else ""
        numbers = (number(figure[key]) for key in ("median", "min", "max"))
        yield name, *numbers, *ratios, "; ".join(filter(None, (verdict, remark)))


def goals(result: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """For each row with a goal: its id, the goal, what perdure and the best peer reached, the verdict."""
    for table in result["rows"]:
        if table["goal"] is None:
            continue
        key = "ratio" if table["goal_of"] == "ratio" else "median"
        measured = {
            figure["contender"]: figure[key] for figure in table["figures"] if figure.get(key) is not None
        }
        own = measured.get(SUBJECT)
        reached = "" if own is None else _measured(table, own)
        yield table["id"], _bound(table), reached, _best_peer(table, measured), table["verdict"]


def _best_peer(table: dict[str, Any], measured: dict[str, float]) -> str:
    peers = {name: value for name, value in measured.items() if name != SUBJECT and is_library(name)}
    if not peers:
        return ""
    best = min(peers, key=lambda name: peers[name])
    return f"{best} {_measured(table, peers[best])}"


def _measured(table: dict[str, Any], value: float) -> str:
    return f"{value:.3g} x" if table["goal_of"] == "ratio" else f"{number(value)} {table['unit']}"


def number(value: float) -> str:
    """About three figures, which is all that such measurements have."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{1 if abs(value) >= 10 else 2}f}"


def _columns(rows: Iterable[tuple[str, ...]]) -> str:
    """Aligned columns, the first to the left, numbers to the right, the last as it is."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        inner = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join(["  " + row[0].ljust(widths[0]), *inner, row[-1]]).rstrip())
    return "\n".join(lines)

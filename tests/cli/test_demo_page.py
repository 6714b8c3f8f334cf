"""What the demo shows: the curves, the page, the table, the lines."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.demo import live, measure, page, report, terminal
from perdure.cli.demo.chart import Chart, axis_step, axis_top, place_labels
from perdure.cli.demo.report import Result
from perdure.cli.demo.script import Script
from perdure.cli.demo.traffic import Attempt, Call

NAMES = ("no retry", "naive loop", "@perdure.retry", "Dependency")
VOID = {"meta", "wbr"}


def calls_of(script: Script, ok_from: int) -> list[Call]:
    return [
        Call(number, due, None, [Attempt(due, 200)], ended=due + 0.01, ok=number % 5 >= ok_from)
        for number, due in enumerate(script.arrivals())
    ]


def result_of(*, interrupted: bool = False, elapsed: float = 20.0, agrees: bool = True) -> Result:
    script = Script.build(1, 20)
    calls = [[call for call in calls_of(script, bad) if call.due < elapsed] for bad in (3, 2, 1, 1)]
    figures = [
        measure.figures(name, of_arm, [], script, elapsed) for name, of_arm in zip(NAMES, calls, strict=True)
    ]
    right = [dataclasses.replace(of, server=dataclasses.replace(of.server, ok=agrees)) for of in figures]
    return Result.of(script, elapsed, interrupted, right, calls)


def chart_of(*curves: measure.Curve) -> ET.Element:
    script = Script.build(1, 20)
    chart = Chart("t", 20, 100, "%", script.incidents, curves, NAMES[: len(curves)])
    return ET.fromstring(chart.svg(1000, 270))  # noqa: S314 - our own text


def test_a_curve_stays_inside_its_frame() -> None:
    corners = chart_of([(0.0, 0.0), (20.0, 100.0)]).find("path[@class='curve arm0']").get("d")
    numbers = [float(number) for number in re.findall(r"[\d.]+", corners)]
    frame = chart_of().find("rect")
    top, foot = float(frame.get("y")), float(frame.get("y")) + float(frame.get("height"))
    assert numbers == pytest.approx([44, foot, 988, top], abs=0.11)


def test_where_nothing_was_measured_the_curve_has_a_gap() -> None:
    drawn = chart_of([(0, 1), (1, 2), (2, None), (3, 4), (4, 5)]).find("path[@class='curve arm0']").get("d")
    assert re.sub(r"[\d. ]", "", drawn) == "MLML"


def test_the_last_arm_is_drawn_on_top() -> None:
    curve: measure.Curve = [(0, 1), (1, 2)]
    drawn = [path.get("class") for path in chart_of(*[curve] * 4) if "curve" in path.get("class", "")]
    assert drawn == ["curve arm1", "curve arm2", "curve arm0", "curve arm3"]


@pytest.mark.parametrize("width", [350.0, 1000.0])
@pytest.mark.parametrize("seconds", [6, 20, 300])
def test_no_two_names_of_incidents_overlap(width: float, seconds: float) -> None:
    incidents = Script.build(1, seconds).incidents
    placed = place_labels(incidents, lambda at: at / seconds * width, width)
    assert {name for name, _, _ in placed} == {phase.label for phase in incidents}
    for (one, left, line), (other, right, other_line) in itertools.combinations(placed, 2):
        apart = abs(left - right) >= (len(one) + len(other)) * 3.3
        assert apart or line != other_line


@given(st.floats(1e-6, 1e9), st.integers(1, 20))
def test_an_axis_has_few_enough_steps_of_round_size(span: float, at_most: int) -> None:
    step = axis_step(span, at_most)
    assert span / step <= at_most * (1 + 1e-6)
    assert f"{step:e}"[:3] in {"1.0", "2.0", "2.5", "5.0"}


@given(st.lists(st.just(0.0) | st.floats(1e-3, 1e9)))
def test_the_top_of_an_axis_is_at_or_above_every_value(values: list[float]) -> None:
    assert axis_top(values) >= max(values, default=0) * (1 - 1e-9)
    assert axis_top(values) > 0


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of turn or left open."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def parsed(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.stack == []
    return parser


def test_the_page_is_whole_and_needs_nothing_from_elsewhere() -> None:
    text = page.render(result_of())
    tags = parsed(text).seen
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in tags}
    assert not {"src", "href", "style", "xlink:href"} & {name for _, attrs in tags for name in attrs}
    assert "://" not in text
    assert "@import" not in text
    assert not re.search(r"\burl\(", text.replace("urlopen(url", ""))


def test_the_page_draws_both_pictures_for_wide_and_narrow_screens_with_a_curve_for_each_arm() -> None:
    tags = parsed(page.render(result_of())).seen
    assert [attrs["class"] for tag, attrs in tags if tag == "svg"] == ["wide", "narrow"] * 2
    curves = [attrs for tag, attrs in tags if tag == "path" and attrs["class"].startswith("curve")]
    assert len(curves) == 2 * 2 * 4
    assert all(attrs["d"].count("L") > 10 for attrs in curves)


def test_the_page_says_where_the_records_disagree_and_where_a_run_was_cut_short() -> None:
    assert "alarm" not in re.sub(r"<style>.*</style>", "", page.render(result_of()), flags=re.DOTALL)
    assert "DO NOT AGREE" in page.render(result_of(agrees=False))
    cut = page.render(result_of(interrupted=True, elapsed=5.0))
    assert "interrupted after 5.0 s of 20 s" in cut
    parsed(cut)


def test_a_page_of_a_run_with_nothing_in_it_can_be_drawn() -> None:
    parsed(page.render(result_of(interrupted=True, elapsed=0.0)))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (1.0, "100.0%"), (0.9996, ">99.9%"), (0.5, "50.0%"), (0.0, "0.0%")],
)
def test_a_share_short_of_one_never_reads_as_all(value: float | None, text: str) -> None:
    assert report.percent(value) == text


def test_the_findings_are_the_numbers_of_the_run_whoever_is_ahead() -> None:
    result = result_of()
    none, naive, ours, guarded = result.figures
    behind = dataclasses.replace(
        result, figures=(none, naive, dataclasses.replace(ours, success=0.123, p99=9.0), guarded)
    )
    text = "\n".join(report.findings(behind))
    assert "12.3% of calls succeeded with @perdure.retry" in text
    assert "p99 is 9,000 ms" in text
    assert "does worse" not in text
    assert "p99" not in "\n".join(report.findings(result))
    behind = dataclasses.replace(guarded, success=0.1, shed=77)
    text = "\n".join(report.findings(dataclasses.replace(result, figures=(none, naive, ours, behind))))
    assert "refused 77 of 8" in text
    assert "does worse" in text
    assert "Herd" not in "\n".join(report.findings(result_of(interrupted=True, elapsed=5.0)))


def test_the_run_as_json_holds_plain_values_only() -> None:
    read = json.loads(json.dumps(report.as_dict(result_of(), "page.html"), allow_nan=False))
    assert list(read["arms"]) == list(NAMES)
    assert read["arms"]["naive loop"]["by_phase"].keys() == {
        "errors",
        "slow",
        "restart",
        "throttle",
        "outage",
    }
    assert len(read["arms"]["naive loop"]["success_curve"]) == 40
    assert len(read["arms"]["naive loop"]["sent_curve"]) == 80


class Traffic:
    """Stands for the load: only what a display reads."""

    def __init__(self, script: Script) -> None:
        self.calls = {name: calls_of(script, bad) for name, bad in zip(NAMES, (3, 2, 0, 1), strict=True)}


def test_without_a_terminal_each_second_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script.build(1, 20)
    lines = live.Lines(script)
    with lines:
        for tenth in range(35):
            lines.update(Traffic(script), tenth / 10)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [
        ["1", "s", "clean"],
        ["2", "s", "clean"],
        ["3", "s", "errors"],
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_table_fits_the_terminal_with_every_name_whole(width: int) -> None:
    console = pytest.importorskip("rich.console").Console(width=width, file=io.StringIO())
    script = Script.build(1, 20)
    console.print(live.LiveTable(script, console)._draw(Traffic(script), 11.2))
    shown = console.file.getvalue()
    assert all(name in shown for name in NAMES)
    assert "restart: hangs, drops" in shown
    assert max(map(len, shown.splitlines())) <= width


@given(st.lists(st.none() | st.floats(0, 1)))
def test_a_small_curve_has_one_character_for_each_point(values: list[float | None]) -> None:
    assert len(live.sparkline([(0.0, value) for value in values])) == len(values)


def test_the_plain_table_and_the_rich_one_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    result = result_of()
    figures = []
    for screen in (terminal.Plain(), terminal.Rich()):
        screen.begin(result.script)
        screen.end(result)
        words = capsys.readouterr().out.replace("─", "").split()
        figures.append(words)
    assert figures[0] == figures[1]


def test_output_for_programs_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    screen = terminal.choose(as_json=True)
    result = result_of()
    screen.begin(result.script)
    with screen.display(result.script) as display:
        display.update(Traffic(result.script), 3.0)
    screen.end(result)
    assert capsys.readouterr().out == ""

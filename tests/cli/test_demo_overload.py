"""The overload scene of the demo: its plan, its arithmetic, and the arms against it on virtual time."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import math
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.demo import page, terminal
from perdure.cli.demo.arms import OVERLOAD_ARMS, place_of
from perdure.cli.demo.live import Silent
from perdure.cli.demo.overload import live, measure, report, run
from perdure.cli.demo.overload.page import render
from perdure.cli.demo.overload.plan import SLOWER, WORKERS, Plan, Workers
from perdure.cli.demo.process import Seen
from perdure.cli.demo.traffic import TIMEOUT, Attempt, Call
from perdure.testing import VirtualClock
from tests.cli.test_demo_page import parsed
from tests.cli.test_demo_page import result_of as first_scene

if TYPE_CHECKING:
    from perdure.cli.demo.arms import Arm

NAMES = [arm.name for arm in OVERLOAD_ARMS]
PLAN = Plan(1)


# The plan


@given(st.floats(0.1, 1))
def test_the_load_is_four_fifths_of_the_capacity_at_any_pace(pace: float) -> None:
    plan = PLAN.slower(pace)
    assert plan.rate / plan.capacity == pytest.approx(0.8)
    assert plan.rate == pytest.approx(PLAN.rate * pace)


def test_the_scene_takes_at_most_25_seconds_with_its_probe_and_its_last_answers() -> None:
    assert PLAN.seconds + PLAN.timeout + run._LAST_ANSWERS + run._PROBE + run._LAST_ANSWERS < 25


def test_the_server_can_build_the_same_plan_from_what_it_is_told() -> None:
    told = json.loads(json.dumps(PLAN.slower(0.7).settings()))
    assert told["scene"] == "overload"
    assert Plan(**told["values"]) == PLAN.slower(0.7)


def test_calls_arrive_in_order_at_about_the_rate_and_another_seed_has_others() -> None:
    plan = Plan(1, after=293.5)
    times = list(plan.arrivals())
    assert all(before < after for before, after in pairwise(times))
    assert times[-1] < plan.seconds
    assert len(times) == pytest.approx(plan.rate * plan.seconds, rel=0.05)
    assert list(Plan(2).arrivals()) != list(PLAN.arrivals())


@given(st.integers(1, 1000), st.integers(1, 4), st.floats(0, 21))
def test_work_is_ten_times_as_long_in_the_brownout_and_the_same_for_all_arms(
    call: int, attempt: int, now: float
) -> None:
    usual = PLAN.work(call, attempt, 0.0)
    assert PLAN.service / 2 <= usual <= PLAN.service * 1.5
    slow = PLAN.calm <= now < PLAN.healed
    assert PLAN.work(call, attempt, now) == usual * (SLOWER if slow else 1)
    assert (PLAN.at(now) == "brownout") is slow


@given(st.lists(st.floats(0, 3), min_size=1, max_size=80))
def test_the_workers_overtake_nobody_and_are_never_more_than_there_are(gaps: list[float]) -> None:
    workers, now, spans = Workers(PLAN), 0.0, list[tuple[float, float]]()
    for call, gap in enumerate(gaps):
        now += gap / 10
        done = workers.take(call, 1, now)
        begin = max(now, sorted([0.0] * WORKERS + [end for _, end in spans])[-WORKERS])
        assert done == pytest.approx(begin + PLAN.work(call, 1, begin))
        spans.append((begin, done))
    assert all(before[0] <= after[0] for before, after in pairwise(spans))
    assert all(sum(one <= begin < end for one, end in spans) <= WORKERS for begin, _ in spans)


# Its arithmetic


def call(number: int, due: float, *results: object, ok: bool = False, ended: float | None = -1) -> Call:
    attempts = [Attempt(due + place / 100, result) for place, result in enumerate(results)]
    return Call(number, due, None, attempts, ended=due + 0.05 if ended == -1 else ended, ok=ok)


@given(st.lists(st.tuples(st.integers(0, 83), st.booleans()), min_size=1, max_size=200))
def test_recovery_is_the_first_moment_from_which_every_window_is_well(calls: list[tuple[int, bool]]) -> None:
    made = [call(number, at / 4, 200, ok=ok) for number, (at, ok) in enumerate(calls)]
    good = []
    for place in range(51):
        due = [ok for at, ok in calls if 26 + place <= at < 26 + place + 8]
        good.append(bool(due) and sum(due) / len(due) >= 0.9)
    expected = next((place / 4 for place in range(51) if all(good[place:])), None)
    assert measure.recovery(made, PLAN) == expected


def test_who_fails_once_more_at_the_end_has_not_recovered() -> None:
    made = [call(number, number / 10, 200, ok=number < 205) for number in range(210)]
    assert measure.recovery(made, PLAN) is None
    assert measure.longest_measured(PLAN) == 12.5


def test_a_call_without_an_end_has_not_succeeded() -> None:
    assert measure.succeeded([call(1, 0, ended=None), call(2, 0, 200, ok=True)], 0, 1) == 0.5
    assert measure.succeeded([], 0, 1) is None


def test_what_ended_only_with_the_server_has_no_end() -> None:
    made = [call(1, 4.9, 200, ok=True, ended=5.0), call(2, 4.9, "reset", ended=5.1), call(3, 4.9, ended=None)]
    ended = [(one.ended, one.ok) for one in measure.as_of(made, 5.0)]
    assert ended == [(5.0, True), (None, False), (None, False)]
    assert made[1].ended == 5.1


@given(st.lists(st.tuples(st.floats(0, 9.5, allow_subnormal=False), st.integers(0, 4), st.booleans())))
def test_the_seconds_lose_no_call_and_no_attempt(made: list[tuple[float, int, bool]]) -> None:
    calls = [
        call(number, due, *[TIMEOUT] * sent, ok=ok and sent > 0)
        for number, (due, sent, ok) in enumerate(made)
    ]
    seconds = [measure.second(calls, begin) for begin in range(11)]
    assert sum(one.due for one in seconds) == len(calls)
    assert sum(one.sent for one in seconds) == sum(sent for _, sent, _ in made)
    assert sum(one.good for one in seconds) == sum(one.ok for one in calls)
    assert sum(one.shed for one in seconds) == sum(sent == 0 for _, sent, _ in made)
    assert sum(value for _, value in measure.good_curve(calls, 11)) == sum(one.ok for one in calls)


def test_work_for_nobody_is_what_was_done_and_not_read() -> None:
    calls = [call(1, 0, TIMEOUT, 200, ok=True), call(2, 0, TIMEOUT), call(3, 0)]
    seen = [Seen(1, 1, 0, 200), Seen(1, 2, 0, 200), Seen(2, 1, 0, 0)]
    figures = measure.figures("x", calls, seen, PLAN, 21.0)
    assert (figures.done, figures.wasted, figures.server.read, figures.server.ok) == (2, 1, 3, True)
    assert (figures.attempts, figures.shed, figures.success) == (3, 1, 1 / 3)
    assert measure.figures("x", calls, [*seen, Seen(3, 1, 0, 200)], PLAN, 21.0).server.ok is False


# The arms against it, on virtual time: what a machine with nothing else to do would see


async def play(arm: Arm, plan: Plan) -> list[Call]:
    """Send the calls of the plan through one arm to a server that is arithmetic, and stop as the demo."""
    loop, workers = asyncio.get_running_loop(), Workers(plan)
    began = loop.time()

    async def send(what: Call) -> None:
        now = loop.time() - began
        what.attempts.append(Attempt(now))
        done = workers.take(what.number, len(what.attempts), now)
        await asyncio.sleep(min(plan.timeout, done - now))
        if done - now > plan.timeout:
            raise TimeoutError
        what.attempts[-1].result = 200

    guarded: Any = arm.wrap(send)

    async def make(what: Call) -> None:
        try:
            await guarded(what)
            what.ok = True
        except Exception:  # noqa: BLE001 - a failed call is a figure here
            what.ok = False
        what.ended = loop.time() - began

    calls, tasks = list[Call](), list[asyncio.Task[None]]()
    for number, due in enumerate(plan.arrivals(), 1):
        await asyncio.sleep(max(0.0, began + due - loop.time()))
        calls.append(Call(number, due, None))
        tasks.append(asyncio.create_task(make(calls[-1])))
    await asyncio.sleep(began + plan.seconds + plan.timeout + 0.2 - loop.time())
    for task in tasks:
        task.cancel()
    return [dataclasses.replace(what, attempts=list(what.attempts)) for what in calls]


def figures_on_virtual_time(plan: Plan) -> dict[str, measure.Figures]:
    found: dict[str, measure.Figures] = {}
    for arm in OVERLOAD_ARMS:
        with VirtualClock(seed=plan.seed):
            calls = asyncio.run(play(arm, plan))
        found[arm.name] = measure.figures(arm.name, calls, [], plan, plan.seconds)
    return found


@pytest.mark.parametrize("pace", [1.0, run._SLOW_PACE])
@pytest.mark.parametrize("seed", [1, 2])
def test_retries_alone_keep_a_healthy_server_dead_and_the_dependency_recovers(seed: int, pace: float) -> None:
    figures = figures_on_virtual_time(Plan(seed).slower(pace))
    none, retry, ours = (figures[name] for name in NAMES)
    assert min(one.before or 0 for one in figures.values()) > 0.9
    assert retry.recovery is None
    assert (retry.after or 0) < 0.05
    assert ours.recovery is not None
    assert ours.recovery < min(6.0, math.inf if none.recovery is None else none.recovery)
    assert (ours.after or 0) > (none.after or 0)
    assert ours.shed > 20  # and it says so
    assert retry.shed == none.shed == 0
    assert (ours.amplification or 9) < 1
    assert (retry.amplification or 0) > 3


# What is shown


def result_of(*, interrupted: bool = False, elapsed: float = 22.2, agrees: bool = True) -> report.Result:
    calls: list[list[Call]] = []
    for well_from in (12.0, 99.0, 9.0):
        of_arm = list[Call]()
        for number, due in enumerate(PLAN.arrivals(), 1):
            if due < elapsed:
                ok = due < PLAN.calm or due >= well_from
                of_arm.append(call(number, due, 200 if ok else TIMEOUT, ok=ok))
        calls.append(of_arm)
    calls[2][150:151] = [call(refused.number, refused.due) for refused in calls[2][150:151]]
    summed = []
    for name, of_arm in zip(NAMES, calls, strict=True):
        seen = [Seen(one.number, 1, one.due, 200) for one in of_arm if one.attempts and agrees]
        summed.append(measure.figures(name, of_arm, seen, PLAN, elapsed))
    return report.Result.of(PLAN, elapsed, interrupted, summed, calls)


def test_who_did_not_recover_is_said_not_to_have_in_the_time_there_was() -> None:
    result = result_of()
    (recovered, *_) = report.rows(result)
    assert recovered == ("recovered after the fault", "5.5 s", "not within 12.5 s", "2.5 s")
    text = "\n".join(report.findings(result))
    assert "2.5 s by the Dependency, 5.5 s with no retry, not within 12.5 s with @perdure.retry" in text
    assert f"refused 1 of {len(list(PLAN.arrivals()))} calls" in text
    assert "did worse" not in text


def test_the_findings_say_where_the_dependency_did_worse() -> None:
    result = result_of()
    none, retry, ours = result.figures
    behind = dataclasses.replace(result, figures=(none, retry, dataclasses.replace(ours, after=0.111)))
    text = "\n".join(report.findings(behind))
    assert "did worse than no retry: 11.1% of calls succeeded against" in text
    assert "did worse than @perdure.retry" not in text


def test_what_makes_the_figures_worth_less_is_said() -> None:
    assert report.doubts(result_of()) == []
    assert "DO NOT AGREE" in report.doubts(result_of(agrees=False))[0]
    cut = result_of(interrupted=True, elapsed=5.0)
    assert report.doubts(cut) == ["interrupted after 5.0 s of 21 s."]
    assert report.rows(cut)[0][1:] == ("-", "-", "-")
    busy = dataclasses.replace(cut.figures[0], before=0.5)
    assert "too busy" in report.doubts(dataclasses.replace(cut, figures=(busy, *cut.figures[1:])))[0]
    unfinished = dataclasses.replace(cut.figures[1], unfinished=75)
    said = report.open_line(dataclasses.replace(cut, figures=(cut.figures[0], unfinished, cut.figures[2])))
    assert said is not None
    assert "75 (@perdure.retry)." in said
    assert report.open_line(cut) is None


def test_the_scene_as_json_holds_plain_values_only() -> None:
    read = json.loads(json.dumps(report.as_dict(result_of()), allow_nan=False))
    assert list(read["arms"]) == NAMES
    assert read["arms"]["@perdure.retry"]["recovery"] is None
    assert read["arms"]["Dependency"]["recovery"] == 2.5
    assert read["longest_recovery_measured"] == 12.5
    assert len(read["arms"]["no retry"]["by_second"]) == 21


def test_the_page_has_two_pictures_of_it_in_the_colours_of_the_arms_with_the_fault_shaded() -> None:
    part = parsed(render(result_of()))
    curves = [
        attrs["class"] for tag, attrs in part.seen if tag == "path" and "curve" in (attrs["class"] or "")
    ]
    assert sorted(curves) == sorted(f"curve arm{place_of(name)}" for name in NAMES * 4)
    faults = [attrs for tag, attrs in part.seen if tag == "rect"]
    assert [attrs["class"] for attrs in faults] == ["incident brownout"] * 4
    whole = page.render(first_scene(), result_of())
    assert parsed(whole).seen[-1] is not None
    assert whole.count("<svg ") == 8
    assert "://" not in whole
    for picture in whole.split("<svg ")[1:]:
        ET.fromstring("<svg " + picture.partition("</svg>")[0] + "</svg>")  # noqa: S314 - our own text


@pytest.mark.parametrize("elapsed", [0.0, 0.4, 5.0])
def test_a_scene_cut_short_can_be_drawn(elapsed: float) -> None:
    parsed(render(result_of(interrupted=True, elapsed=elapsed)))


class Traffic:
    """Stands for the load: only what a display reads."""

    def __init__(self) -> None:
        self.calls = {name: [call(1, 0.5, 200, ok=True), call(2, 1.5)] for name in NAMES}


def test_each_second_gets_one_line_also_when_the_machine_is_late(capsys: pytest.CaptureFixture[str]) -> None:
    lines = live.Seconds(PLAN, NAMES)
    with lines:
        for now in (0.5, 1.1, 1.2, 4.3):
            lines.update(Traffic(), now)  # type: ignore[arg-type]
    arms, columns, *seconds = capsys.readouterr().out.splitlines()
    assert all(name in arms for name in NAMES)
    assert columns.count("shed") == 3
    assert [line.split()[:4] for line in seconds] == [
        ["1", "s", "healthy", "1"],
        ["2", "s", "healthy", "1"],
        ["3", "s", "healthy", "0"],
        ["4", "s", "brownout", "0"],
    ]
    assert seconds[1].split("|")[1].split() == ["0", "0", "1"]
    assert {len(line) for line in seconds} == {len(columns)} == {len(arms)}
    assert len(columns) <= 80


def test_the_plain_words_and_the_rich_ones_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    result, shown = result_of(), []
    for screen in (terminal.Plain(), terminal.Rich()):
        screen.overload_display(PLAN)
        screen.end_overload(result)
        shown.append(capsys.readouterr().out.replace("─", "").split())
    assert shown[0] == shown[1]


@pytest.mark.parametrize("kind", ["faults", "overload"])
def test_the_tables_fit_eighty_columns(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    console = pytest.importorskip("rich.console").Console(width=80, file=io.StringIO())
    screen = terminal.Rich()
    monkeypatch.setattr(screen, "_console", console)
    if kind == "faults":
        screen.end(first_scene())
    else:
        screen.end_overload(result_of())
    shown = console.file.getvalue()
    assert "…" not in shown
    tables = [line for line in shown.splitlines() if "  " in line.strip()]
    assert max(map(len, tables)) <= 80


def test_output_for_programs_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    screen = terminal.choose(as_json=True)
    with screen.overload_display(PLAN) as display:
        display.update(Traffic(), 3.0)  # type: ignore[union-attr]
    screen.end_overload(result_of())
    assert capsys.readouterr().out == ""


class Interrupting(Silent):
    """Stands for Ctrl-C at the first refresh."""

    def update(self, traffic: object, now: float) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_ends_the_scene_with_what_was_measured_so_far() -> None:
    result = run.run(Plan(1, rate=100.0), lambda _: Interrupting())
    assert result.interrupted
    assert result.agrees
    assert 0 < result.elapsed < Plan(1).seconds
    assert all(figures.recovery is None for figures in result.figures)


@pytest.mark.parametrize(("quick", "rate"), [(math.inf, 32.0), (-1.0, 32.0 * 0.7)])
def test_a_slow_machine_gets_fewer_calls(monkeypatch: pytest.MonkeyPatch, quick: float, rate: float) -> None:
    monkeypatch.setattr(run, "_QUICK", quick)
    monkeypatch.setattr(run, "_PROBE", 0.2)
    plan = run.fitting_plan(7)
    assert (plan.seed, plan.rate) == (7, pytest.approx(rate))

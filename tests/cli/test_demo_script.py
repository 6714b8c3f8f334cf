"""The script of the demo and the arithmetic over what was recorded."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.demo import measure
from perdure.cli.demo.process import Seen
from perdure.cli.demo.script import RATE, RETRY_AFTER, Phase, Script
from perdure.cli.demo.traffic import REFUSED, RESET, Attempt, Call

lengths = st.floats(6, 300)
moments = st.lists(st.floats(0, 20, allow_subnormal=False), max_size=60)


@given(lengths, st.integers())
def test_the_phases_cover_the_run_without_gap_or_overlap(seconds: float, seed: int) -> None:
    phases = Script.build(seed, seconds).phases
    assert phases[0].start == 0
    assert phases[-1].end == pytest.approx(seconds)
    assert all(before.end == after.start for before, after in pairwise(phases))
    assert all(phase.start < phase.end for phase in phases)


@given(lengths)
def test_a_longer_run_has_no_longer_restart_or_outage(seconds: float) -> None:
    phases = {phase.kind: phase.end - phase.start for phase in Script.build(1, seconds).phases}
    assert phases["restart"] <= 0.65 + 1e-9
    assert phases["outage"] <= 2.0 + 1e-9
    assert phases["throttle"] <= 1.5 + 1e-9


def test_a_restart_hangs_before_it_closes_the_port() -> None:
    restart, outage = (phase for phase in Script.build(1, 20).phases if phase.down)
    assert restart.start < restart.down[0] < restart.down[1] == restart.end
    assert outage.down == (outage.start, outage.end)


def test_the_script_of_a_seed_is_always_the_same_and_of_another_seed_another() -> None:
    one, again, other = (Script.build(seed, 20) for seed in (1, 1, 2))
    assert list(one.arrivals()) == list(again.arrivals()) != list(other.arrivals())
    assert [one.wrong(call) for call in range(500)] == [again.wrong(call) for call in range(500)]
    assert [one.answer(call, 1, 3.0) for call in range(50)] == [
        again.answer(call, 1, 3.0) for call in range(50)
    ]


def test_calls_arrive_in_order_at_about_the_rate_and_before_the_end() -> None:
    times = list(Script.build(1, 300).arrivals())
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 300
    assert len(times) == pytest.approx(RATE * 300, rel=0.05)


def middle(script: Script, kind: str) -> float:
    phase = next(phase for phase in script.phases if phase.kind == kind)
    return (phase.start + phase.end) / 2


def statuses(script: Script, kind: str, calls: int = 2000) -> list[int]:
    answers = [script.answer(call, 1, middle(script, kind)) for call in range(calls)]
    return [answer.status for answer in answers if answer is not None]


def test_each_phase_answers_as_its_name_says() -> None:
    script = Script.build(1, 20)
    right = [call for call in range(2000) if script.wrong(call) is None]
    assert {script.answer(call, 1, middle(script, "clean")).status for call in right} == {200}
    assert {200, 500, 503, 0} <= set(statuses(script, "errors"))
    assert {
        answer.delay > 1 for call in right if (answer := script.answer(call, 1, middle(script, "slow")))
    } == {
        True,
        False,
    }
    assert statuses(script, "outage") == statuses(script, "restart") == []
    throttled = script.answer(1, 1, middle(script, "throttle"))
    assert (throttled.status, throttled.retry_after) == (503, RETRY_AFTER)


@pytest.mark.parametrize("kind", ["clean", "errors", "slow", "recovery"])
def test_a_wrong_request_is_wrong_on_every_attempt(kind: str) -> None:
    script = Script.build(1, 20)
    wrong = [call for call in range(2000) if script.wrong(call)]
    assert 50 < len(wrong) < 150
    for call in wrong:
        answers = {script.answer(call, attempt, middle(script, kind)).status for attempt in range(1, 5)}
        assert answers == {script.wrong(call)}


def test_every_phase_can_say_what_the_server_does() -> None:
    assert all(len(phase.what) > 10 for phase in Script.build(1, 20).phases)
    assert "0.3 s" in Phase("restart", 11.0, 11.65).what


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(
    values: list[float], share: float
) -> None:
    found = measure.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    smaller = [value for value in values if value < found]
    assert not smaller or sum(value <= max(smaller) for value in values) < share * len(values)


def test_there_is_no_percentile_of_nothing() -> None:
    assert measure.percentile([], 0.99) is None


@given(moments, st.floats(0, 20), st.floats(0, 20))
def test_the_peak_is_the_fullest_window_that_starts_at_an_event(
    times: list[float], begin: float, end: float
) -> None:
    inside = [at for at in times if begin <= at <= end]
    fullest = max((sum(start <= at < start + 0.1 for at in inside) for start in inside), default=0)
    assert measure.peak(times, begin, end) == fullest


def call(number: int, due: float, *results: object, ok: bool = False, wrong: int | None = None) -> Call:
    attempts = [Attempt(due + place / 100, result) for place, result in enumerate(results)]
    return Call(number, due, wrong, attempts, ended=due + 0.5, ok=ok)


@given(moments, st.sampled_from([0.25, 0.5, 1.0, 0.3]))
def test_the_curve_of_attempts_loses_none(times: list[float], width: float) -> None:
    inside = [at for at in times if at < 20]
    curve = measure.sent_curve([call(1, at, 200) for at in inside], 20, width)
    assert len(curve) == math.ceil(20 / width - 1e-9)
    assert sum(rate * width for _, rate in curve) == pytest.approx(len(inside))


def test_the_curve_of_success_has_gaps_where_nothing_was_due_or_nothing_has_ended() -> None:
    calls = [call(1, 0.1, 200, ok=True), call(2, 0.2, 500), call(3, 2.5, 200, ok=True), Call(4, 1.5, None)]
    assert measure.success_curve(calls, 3, 1) == [(0.5, 0.5), (1.5, None), (2.5, 1.0)]


def test_success_leaves_out_what_cannot_succeed_and_what_has_not_ended() -> None:
    calls = [call(1, 0, 200, ok=True), call(2, 0, 500), call(3, 0, 404, wrong=404), Call(4, 0, None)]
    assert measure.success_rate(calls) == 0.5
    assert measure.success_rate([]) is None


def test_only_what_follows_a_404_or_422_counts_as_sent_again() -> None:
    seen = [
        Seen(1, 1, 0, 503),
        Seen(1, 2, 0, 404),
        Seen(1, 3, 0, 404),
        Seen(1, 4, 0, 503),
        Seen(2, 1, 0, 422),
    ]
    assert measure.wrong_repeated(seen) == 2
    client = [call(1, 0, 503, 404, 404, 503, wrong=404), call(2, 0, 422, wrong=422)]
    assert measure.repeated_so_far(client) == 2


@pytest.mark.parametrize(
    ("results", "seen", "ok"),
    [
        ((503, 200), [Seen(1, 1, 0, 503), Seen(1, 2, 0, 200)], True),
        ((REFUSED, 200), [Seen(1, 2, 0, 200)], True),
        ((RESET, 200), [Seen(1, 2, 0, 200)], True),
        ((RESET, 200), [Seen(1, 1, 0, 0), Seen(1, 2, 0, 200)], True),
        ((200,), [], False),
        ((200,), [Seen(1, 1, 0, 500)], False),
        ((200,), [Seen(1, 1, 0, 200), Seen(1, 2, 0, 200)], False),
        ((200,), [Seen(1, 1, 0, 200), Seen(1, 1, 0, 200)], False),
        ((REFUSED,), [Seen(1, 1, 0, 0)], False),
    ],
)
def test_the_two_records_agree_only_where_neither_contradicts_the_other(
    results: tuple[object, ...], seen: list[Seen], *, ok: bool
) -> None:
    assert measure.agreement([call(1, 0, *results)], seen).ok is ok


def test_figures_of_a_run_cut_short_leave_open_what_was_not_reached() -> None:
    script = Script.build(1, 20)
    figures = measure.figures("x", [call(1, 3.0, 200, ok=True)], [Seen(1, 1, 3.0, 200)], script, elapsed=5.0)
    assert (figures.peak_down, figures.peak_back) == (None, None)
    assert figures.by_phase == (1.0, None, None, None, None)
    whole = measure.figures("x", [call(1, 3.0, 200, ok=True)], [Seen(1, 1, 3.0, 200)], script, elapsed=20.0)
    assert (whole.peak_down, whole.peak_back) == (0, 0)

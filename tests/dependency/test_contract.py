"""The success path exists twice: the fused wrapper and the general path give the same results, calls and state."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Breaker, Budget, Constant, Gate, Retry
from perdure.engine.guarded import GuardedRun
from perdure.engine.run import Run
from tests.dependency.both_paths import ENDS, FINE, QUARTER, Arm, Call, at_work, driven

if TYPE_CHECKING:
    from collections.abc import Iterator

ALONE = {"gate": None, "budget": None}
FORMS = ("sync", "async", "catch-all")
KITS: dict[str, dict[str, Any]] = {
    "default": {},
    "breaker by failures": {**ALONE, "breaker": Breaker(failures=3, failure_rate=None)},
    "breaker by share": {**ALONE, "breaker": Breaker(failures=None, min_calls=4)},
    "breaker by both, no ramp": {**ALONE, "breaker": Breaker(failures=3, min_calls=6, ramp=False)},
    "breaker in the shadow": {**ALONE, "breaker": Breaker(failures=2, mode="shadow")},
    "all three": {"breaker": Breaker(failures=3, min_calls=6)},
    "share": {"gate": None, "budget": Budget(max_ratio=0.2)},
    "share, gate and breaker": {"budget": Budget(max_ratio=0.5, window=15), "breaker": Breaker(failures=4)},
    "small gate": {"gate": Gate(ceiling=2, floor=0.25)},
    "no deadline": {
        "retry": Retry(attempts=2, deadline=None, backoff=Constant(1)),
        "breaker": Breaker(failures=3),
    },
}
OVERLAPPING: dict[str, dict[str, Any]] = {
    "by failures": {**ALONE, "breaker": Breaker(failures=3, failure_rate=None, ramp=False)},
    "by both": {**ALONE, "breaker": Breaker(failures=3, min_calls=6, ramp=False, probes=3, successes=4)},
    "with gate": {"breaker": Breaker(failures=3, ramp=False)},
    "with budget": {"gate": None, "breaker": Breaker(failures=3, ramp=False, cooldown=5)},
}


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Thousands of calls fail here; what is logged of them is tested elsewhere."""
    logger = logging.getLogger("perdure")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


ends = st.lists(st.sampled_from(["fine", *ENDS]), min_size=1, max_size=3).map(tuple)
# Mostly short: half of what matters happens within a window, a cooldown or a ramp, and half after it.
pauses = st.sampled_from([1, 1, 2, 4, 12, 40, 130, 250, 1300]).map(lambda quarters: quarters * QUARTER)
calls = st.builds(Call, ends, st.just(()))
runs = st.lists(calls | st.just(FINE), min_size=1, max_size=6)
failing = st.integers(1, 5).map(lambda times: [Call(("refused",))] * times)
scripts = st.lists(pauses.map(lambda pause: [pause]) | runs | failing, max_size=12).map(
    lambda parts: tuple(step for part in parts for step in part)
)
# No congestion here: how far the gate is cut depends on the most in flight, which is a sample.
calm = ends.filter(lambda some: "timeout" not in some)
steps = st.recursive(
    st.builds(Call, calm, st.just(())) | pauses,
    lambda inner: st.builds(Call, calm, st.lists(inner, max_size=5).map(tuple)),
)
overlapping = st.lists(steps, max_size=12).map(tuple)


def check_both(form: str, parts: dict[str, Any], script: tuple[Call | float, ...]) -> None:
    fused, general = (driven(form, parts, script, general=one) for one in (False, True))
    assert len(fused.log) == len(general.log)
    for one, other in zip(fused.log, general.log, strict=True):
        assert one == other
    assert not fused.state.flight
    assert not general.state.flight


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("form", FORMS)
@given(script=scripts)
def test_both_paths_give_the_same_results_calls_waits_and_state(
    form: str, kit: str, script: tuple[Call | float, ...]
) -> None:
    check_both(form, KITS[kit], script)


@pytest.mark.parametrize("kit", OVERLAPPING)
@pytest.mark.parametrize("form", FORMS)
@given(script=overlapping)
def test_both_paths_agree_where_calls_overlap_and_results_come_late(
    form: str, kit: str, script: tuple[Call | float, ...]
) -> None:
    check_both(form, OVERLAPPING[kit], script)


def general_calls(monkeypatch: pytest.MonkeyPatch, arm: Arm, *, general: bool) -> int:
    """How many of 50 good calls at one moment took the general path."""
    begun: list[object] = []
    monkeypatch.setattr(GuardedRun, "begin", lambda run: (begun.append(run), Run.begin(run)))
    with at_work(arm, general=general):
        arm.follow((FINE,) * 50)
    return len(begun)


@pytest.mark.parametrize("kit", KITS)
@pytest.mark.parametrize("form", FORMS)
def test_the_two_paths_are_two(monkeypatch: pytest.MonkeyPatch, form: str, kit: str) -> None:
    """At most one call of a moment, the tick, leaves the fused path: the tests above compare two things."""
    assert general_calls(monkeypatch, Arm(form, KITS[kit]), general=False) <= 1
    assert general_calls(monkeypatch, Arm(form, KITS[kit]), general=True) == 50

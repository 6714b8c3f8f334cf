"""``explain()``: the numbers are those a call keeps to, the warnings are those the policy deserves."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import FaultKind, Retry, faults, presets
from perdure.testing import took
from tests.core import draws
from tests.engine.model import Failure, fault_of
from tests.engine.scripts import policies, scripts
from tests.harness import play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.model import Step

JITTERED = perdure.Exponential(1, 2, 30)
CALM = Retry(backoff=JITTERED)
"""A policy with no fault but the one that every bare Retry has."""


def plan(policy: Retry) -> dict[str, Any]:
    return policy.explain().as_dict()


def codes(policy: Retry) -> set[str]:
    return {warning["code"] for warning in plan(policy)["warnings"]}


# -- the numbers ---------------------------------------------------------------------------------------


def test_the_delays_before_each_attempt() -> None:
    delays = plan(Retry(attempts=4, backoff=perdure.Exponential(1, 2, 3, "full")))["delays"]
    assert [
        (one["attempt"], one["lowest"], one["expected"], one["median"], one["worst"]) for one in delays
    ] == [
        (2, 0, 0.5, 0.5, 1),
        (3, 0, 1, 1, 2),
        (4, 0, 1.5, 1.5, 3),
    ]


@pytest.mark.parametrize(("attempts", "listed"), [(1, 0), (2, 1), (11, 10), (50, 10), (None, 10)])
def test_at_most_ten_delays_are_listed(attempts: int | None, listed: int) -> None:
    assert len(plan(Retry(attempts=attempts))["delays"]) == listed


@pytest.mark.parametrize("jitter", ["full", "equal", "coherent", "none", 0.25, 1.0])
@pytest.mark.parametrize("cap", [4, 1000], ids=["at the cap", "below the cap"])
def test_the_expected_delay_is_the_mean_of_many_calls(jitter: Any, cap: float) -> None:
    policy = Retry(attempts=4, backoff=perdure.Exponential(1, 2, cap, jitter))
    rng = Random(1)
    calls = [policy.delays(seed=rng.getrandbits(32)) for _ in range(4000)]
    for number, one in enumerate(plan(policy)["delays"]):
        drawn = sorted(call[number] for call in calls)
        assert one["expected"] == pytest.approx(sum(drawn) / len(drawn), rel=0.02)
        assert one["median"] == pytest.approx(drawn[len(drawn) // 2], rel=0.03)


@given(draws.every, st.integers(0, 100))
def test_no_call_draws_a_delay_outside_of_the_listed_bounds(backoff: perdure.Backoff, seed: int) -> None:
    policy = Retry(attempts=11, backoff=backoff)
    for delay, one in zip(policy.delays(seed=seed), plan(policy)["delays"], strict=True):
        assert one["lowest"] <= delay <= one["worst"]


@pytest.fixture
def own_kinds() -> Iterator[None]:
    remove = faults.register(Failure, fault_of)
    yield
    remove()


@pytest.mark.usefixtures("own_kinds")
@given(policy=policies(), steps=scripts, seed=st.integers(0, 100))
def test_no_call_takes_longer_than_the_worst_case(policy: Retry, steps: list[Step], seed: int) -> None:
    worst = plan(policy)["worst_case_elapsed"]
    played = play("sync", policy, *[took(step.took, step.outcome) for step in steps], seed=seed)
    at_work = sum(step.took for step in steps[: played.calls])
    assert worst is None or played.elapsed <= worst + at_work + 1e-9


@pytest.mark.parametrize(
    ("policy", "worst"),
    [
        (Retry(attempts=1, deadline=None), 0),
        (Retry(attempts=1, attempt_timeout=2), 2),
        (Retry(attempts=3, deadline=None, hint_cap=0, backoff=JITTERED), 1 + 2),
        (Retry(attempts=3, deadline=None, hint_cap=0, backoff=JITTERED, attempt_timeout=5), 1 + 2 + 3 * 5),
        (Retry(attempts=3, deadline=None, hint_cap=0), 1 + 2),  # throttled faults start at 1 s
        (Retry(attempts=3, deadline=None, hint_cap=60, backoff=JITTERED), 2 * (60 + 10)),
        (Retry(attempts=3, deadline=None, hint_cap=10, backoff=JITTERED), 2 * (10 + 5)),
        (Retry(attempts=3, deadline=10), 10),
        (Retry(attempts=None, deadline=10, attempt_timeout=2), 12),
        (Retry(attempts=None, deadline=perdure.FOREVER), None),
        (Retry(attempts=10**9, deadline=None, hint_cap=0, backoff=perdure.Constant(1)), 10**9 - 1),
    ],
    ids=repr,
)
def test_the_worst_case_is_every_wait_and_attempt_at_its_longest(policy: Retry, worst: float | None) -> None:
    assert plan(policy)["worst_case_elapsed"] == (None if worst is None else pytest.approx(worst))


@pytest.mark.parametrize(("attempts", "worst"), [(1, 1), (4, 4), (None, None)])
def test_the_amplification_is_the_number_of_attempts(attempts: int | None, worst: int | None) -> None:
    assert plan(Retry(attempts=attempts))["amplification"] == {"worst": worst, "budgeted": None}


# -- the words -----------------------------------------------------------------------------------------


def test_the_plan_names_everything_that_the_design_asks_for() -> None:
    text = str(Retry(name="stock.fetch", attempt_timeout=2, reject=lambda value: value is None).explain())
    for word in (
        *(
            "stock.fetch",
            "exponential backoff",
            "min(5 s, 0.1 s x 2^(retry - 1))",
            "jitter full",
            "before attempt 4",
        ),
        *(
            "429",
            "503",
            "connect and read",
            "attempt: 2 s",
            "30 s",
            "last error is raised",
            "worst case",
            "4 x",
        ),
    ):
        assert word in text


@pytest.mark.parametrize(
    ("backoff", "formula"),
    [
        (perdure.Exponential(1, 3, 30), "min(30 s, 1 s x 3^(retry - 1))"),
        (perdure.Linear(2, 10), "min(10 s, 2 s x retry)"),
        (perdure.Incremental(3, 4), "min(60 s, 3 s + 4 s x (retry - 1))"),
        (perdure.Constant(0.5), "0.5 s"),
        (perdure.Fibonacci(1, 30), "min(30 s, 1 s x Fibonacci(retry))"),
        (perdure.Schedule([1, 2, 5]), "1, 2, 5 s, then the last"),
        (perdure.Decorrelated(0.1, 5), "uniform(0.1 s, min(5 s, 3 x previous))"),
        (perdure.Constant(2).after_immediate(), "0 s once, then 2 s"),
    ],
    ids=repr,
)
def test_every_backoff_has_its_formula(backoff: perdure.Backoff, formula: str) -> None:
    assert plan(Retry(backoff=backoff))["backoff"]["formula"] == formula


def test_what_is_retried_is_named() -> None:
    retried = plan(Retry(on=(OSError, FaultKind.STALE), never=ConnectionError))["retried"]
    assert retried["exceptions"] == "OSError, stale"
    assert retried["never"] == "ConnectionError"


@given(policy=policies())
def test_the_json_is_json_and_the_same_plan(policy: Retry) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    explanation = policy.explain()
    assert json.loads(explanation.to_json(), parse_constant=refuse) == json.loads(
        json.dumps(explanation.as_dict())
    )


@given(policy=policies())
def test_the_text_has_a_line_for_every_warning(policy: Retry) -> None:
    explanation = policy.explain()
    text = str(explanation)
    assert all(f"{one.code}: {one.message}" in text for one in explanation.warnings)
    assert max(map(len, text.splitlines())) < 200


# -- the warnings --------------------------------------------------------------------------------------


def test_a_calm_policy_has_the_one_warning_of_a_bare_retry() -> None:
    assert codes(CALM) == {"no-budget"}
    assert "overload" in str(CALM.explain())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"backoff": perdure.Exponential(jitter="none")}, "no-jitter"),
        ({"backoff": perdure.Constant(1)}, "no-jitter"),
        ({"backoff": perdure.Schedule([1, 2])}, "no-jitter"),
        ({"backoff": perdure.Constant(1).after_immediate()}, "no-jitter"),
        ({"attempts": None, "deadline": perdure.FOREVER}, "unbounded"),
        ({"deadline": None}, "no-deadline"),
        ({"on": Exception}, "retries-everything"),
        ({"on": (OSError, Exception)}, "retries-everything"),
        ({"on": ValueError}, "retries-client-errors"),
        ({"on": (OSError, PermissionError)}, "retries-client-errors"),
        ({"on": FaultKind.PERMANENT}, "retries-client-errors"),
        ({"on": (FaultKind.TRANSIENT, FaultKind.PERMANENT)}, "retries-client-errors"),
        ({"attempt_timeout": 2}, "same-timeout"),
        ({"nested": "both"}, "retry-in-retry"),
        ({"on_exhausted": "return", "reject": lambda value: value is None}, "silent-exhaustion"),
        ({"hint_cap": 0}, "hint-ignored"),
    ],
    ids=repr,
)
def test_each_anti_pattern_has_its_warning_and_no_other(changes: dict[str, Any], code: str) -> None:
    assert codes(CALM.replace(**changes)) - codes(CALM) == {code}


@pytest.mark.parametrize(
    "changes",
    [
        {"backoff": perdure.Constant(1, jitter=0.1)},
        {"backoff": perdure.Constant(0)},
        {"backoff": perdure.Decorrelated()},
        {"backoff": perdure.Exponential(jitter="coherent")},
        {"attempts": None},
        {"attempt_timeout": 2, "shrink": 0.8},
        {"on": (OSError, FaultKind.TRANSIENT)},
        {"nested": "outer"},
        {"on_exhausted": print},
    ],
    ids=repr,
)
def test_what_is_no_anti_pattern_has_no_warning(changes: dict[str, Any]) -> None:
    assert codes(CALM.replace(**changes)) == codes(CALM)


@pytest.mark.parametrize(
    "changes",
    [{}, {"deadline": None}, {"backoff": perdure.Constant(1)}, {"attempt_timeout": 2}, {"nested": "both"}],
    ids=repr,
)
def test_a_single_attempt_has_none_of_the_faults_of_retries(changes: dict[str, Any]) -> None:
    assert codes(Retry(attempts=1, **changes)) == set()


@pytest.mark.parametrize("preset", presets.RETRIES.values(), ids=presets.RETRIES)
def test_the_presets_can_be_recommended(preset: Retry) -> None:
    assert codes(preset) <= {"no-budget", "same-timeout"}

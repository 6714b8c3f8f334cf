"""``Dependency.explain()``: what it says of each part, its worst cases, and the warnings it gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import (
    Breaker,
    Budget,
    Bulkhead,
    Dependency,
    Exponential,
    Fallback,
    Gate,
    Hedge,
    RateLimit,
    Retry,
    Safety,
    Timeouts,
    registry,
)
from perdure.testing import Script, VirtualClock, took

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    before = registry.known()
    registry.restore({})
    yield
    registry.restore(before)


def made(**parts: Any) -> Dependency:
    return Dependency("payments", replace=True, **parts)


def plan(dependency: Any) -> dict[str, Any]:
    shown: dict[str, Any] = dependency.explain().as_dict()
    return shown


def codes(**parts: Any) -> set[str]:
    return {warning["code"] for warning in plan(made(**parts))["warnings"]}


def key_of(host: str) -> str:
    return host


def lookup(*_: object) -> str:
    return "none"


# -- the parts -----------------------------------------------------------------------------------------


def test_the_plan_has_all_that_the_plan_of_its_retry_has() -> None:
    policy = Retry(attempts=3, backoff=Exponential(1, 2, 3), on=OSError)
    shown, bare = plan(made(retry=policy)), policy.explain().as_dict()
    assert shown.keys() > bare.keys()
    for name in ("strategy", "attempts", "backoff", "delays", "retried", "deadline", "hint_cap"):
        assert shown[name] == bare[name]
    assert shown["target"] == "payments"


def test_every_part_is_there_with_the_values_that_calls_go_by() -> None:
    shown = plan(
        made(
            retry=Retry(attempts=3),
            timeouts=Timeouts(connect=1, read=19, total=50),
            breaker=Breaker(failures=7),
            rate_limit=RateLimit(5, per=2),
            bulkhead=Bulkhead(4, queue=2),
            hedge=Hedge(delay=1),
            fallback=Fallback(value=[]),
            safety=Safety.KEYED,
            key=key_of,
        )
    )
    assert shown["timeouts"] == {"connect": 1, "read": 19, "attempt": 20, "total": 50, "adaptive": False}
    assert shown["deadline"] == 50
    assert (shown["breaker"]["failures"], shown["breaker"]["window"]) == (7, 40)
    assert shown["rate_limit"] == {"limit": 5, "per": 2, "burst": 5, "max_wait": 0}
    assert shown["bulkhead"] == {"limit": 4, "queue": 2, "max_wait": None}
    assert shown["hedge"]["delay"] == 1
    assert shown["budget"] == {"form": "tokens", "per_success": 0.5, "cap": 5, "start": 2}
    assert shown["gate"] == {"form": "adaptive", "ceiling": 1000, "floor": 0.1}
    assert shown["safety"] == "keyed"
    assert shown["keys"].startswith("by ")
    assert "key_of" in shown["keys"]


def test_what_is_off_is_none() -> None:
    shown = plan(made(retry=None, budget=None, gate=None))
    for name in ("budget", "gate", "breaker", "rate_limit", "bulkhead", "hedge", "fallback"):
        assert shown[name] is None
    assert shown["attempts"] == 1


@pytest.mark.parametrize(
    ("parts", "name", "shown"),
    [
        (
            {"budget": Budget(max_ratio=0.2)},
            "budget",
            {"form": "share", "max_ratio": 0.2, "window": 60, "start": 3},
        ),
        ({"gate": None}, "budget", {"form": "tokens", "per_success": 0.1, "cap": 5, "start": 3}),
        ({"gate": Gate.throttle(k=3)}, "gate", {"form": "throttle", "k": 3, "window": 5}),
        ({"fallback": Fallback(lookup)}, "fallback", {"form": "function", "function": f"{__name__}.lookup"}),
        ({"fallback": Fallback(last_good=60)}, "fallback", {"form": "last good value", "oldest": 60}),
        ({"fallback": Fallback(value=None)}, "fallback", {"form": "value", "value": "None"}),
    ],
    ids=repr,
)  # fmt: skip
def test_each_form_of_a_part_is_shown(parts: dict[str, Any], name: str, shown: dict[str, Any]) -> None:
    assert plan(made(**parts))[name] == shown


def test_a_fallback_to_another_dependency_names_it() -> None:
    shown = plan(made(fallback=Fallback(to=Dependency("other"))))
    assert shown["fallback"] == {"form": "dependency", "to": "other"}
    assert shown["on_exhaustion"] == "the fallback answers: dependency other"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "the function's own last error is raised"),
        ({"on_exhausted": lookup}, "last error is raised, after on_exhausted was told"),
        ({"fallback": Fallback(value=3)}, "the fallback answers: value 3"),
        ({"fallback": Fallback(last_good=90)}, "at most 1 min 30 s old; else the function's own last error"),
    ],
    ids=repr,
)
def test_it_says_what_happens_on_exhaustion(parts: dict[str, Any], words: str) -> None:
    assert words in plan(made(**parts))["on_exhaustion"]


def test_a_view_explains_what_it_does_itself() -> None:
    payments = made(key=key_of)
    shown = plan(payments.using(retry=Retry(attempts=2), safety=Safety.SAFE).at("eu"))
    assert (shown["attempts"], shown["safety"]) == (2, "safe")
    assert shown["keys"] == "this one: 'eu'"


# -- the numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "worst"),
    [
        ({"timeouts": Timeouts(total=20)}, 20),
        ({"retry": None, "timeouts": Timeouts(connect=1, read=2)}, 3),
        ({"retry": None, "timeouts": Timeouts(connect=1, read=2), "rate_limit": RateLimit(1)}, 33),
        ({"retry": Retry(deadline=10, attempt_timeout=2)}, 12),  # the gate may lengthen waits
        ({"retry": Retry(attempts=2, hint_cap=0, attempt_timeout=2), "gate": None}, 1 + 4),
        ({"retry": Retry(attempts=2, hint_cap=0, attempt_timeout=2), "gate": None, "bulkhead": Bulkhead(3)}, 32),
        ({"retry": Retry(deadline=None)}, None),
    ],
    ids=repr,
)  # fmt: skip
def test_the_worst_case_has_the_waits_for_the_parts(parts: dict[str, Any], worst: float | None) -> None:
    assert plan(made(**parts))["worst_case_elapsed"] == worst


@pytest.mark.parametrize(
    ("parts", "worst", "budgeted"),
    [
        ({}, 4, 1.5),
        ({"gate": None}, 4, 1.1),
        ({"budget": None}, 4, None),
        ({"budget": Budget(max_ratio=0.2)}, 4, 1.2),
        ({"budget": Budget(per_success=7)}, 4, 4),
        ({"hedge": Hedge(max_hedges=2)}, 12, 1.5),
        ({"retry": None}, 1, 1),
        ({"retry": Retry(attempts=None)}, None, 1.5),
    ],
    ids=repr,
)
def test_the_amplification_at_worst_and_under_the_budget(
    parts: dict[str, Any], worst: int | None, budgeted: float | None
) -> None:
    assert plan(made(**parts))["amplification"] == {"worst": worst, "budgeted": budgeted}


@given(
    st.integers(1, 5),
    st.floats(0, 20),
    st.sampled_from(
        [{}, {"gate": None}, {"timeouts": Timeouts(total=25)}, {"rate_limit": RateLimit(1, max_wait=9)}]
    ),
    st.lists(st.sampled_from([ConnectionError("x"), TimeoutError("x"), 1]), min_size=6, max_size=6),
    st.floats(0, 4),
)  # fmt: skip
def test_no_call_takes_longer_than_the_worst_case(
    attempts: int, deadline: float, parts: dict[str, Any], outcomes: list[Any], each: float
) -> None:
    payments = made(retry=Retry(attempts=attempts, deadline=deadline), **parts)
    worst = plan(payments)["worst_case_elapsed"]
    with VirtualClock(seed=1) as clock:
        script = Script(*[took(each, one) for one in outcomes])
        start = clock.now
        payments.outcome(script)
        took_in_all = clock.now - start
    assert worst is None or took_in_all <= worst + each * len(script.calls) + 1e-9


# -- the warnings --------------------------------------------------------------------------------------


def test_a_dependency_with_its_defaults_has_no_warning() -> None:
    assert codes() == set()


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"budget": None}, "no-budget"),
        ({"budget": None, "retry": None, "hedge": Hedge(), "safety": Safety.SAFE}, "no-budget"),
        ({"breaker": Breaker()}, "one-breaker"),
        ({"breaker": Breaker(failures=3), "key": key_of}, "low-breaker"),
        ({"breaker": Breaker(), "key": key_of, "retry": Retry(attempts=None)}, "low-breaker"),
        ({"hedge": Hedge()}, "hedge-safety"),
        ({"fallback": Fallback(value=None)}, "silent-exhaustion"),
        ({"retry": Retry(nested="both")}, "retry-in-retry"),
        ({"retry": Retry(attempt_timeout=2)}, "same-timeout"),
        ({"timeouts": Timeouts(connect=1, read=1)}, "same-timeout"),
        ({"retry": Retry(backoff=perdure.Constant(1))}, "no-jitter"),
        ({"retry": Retry(deadline=None)}, "no-deadline"),
        ({"retry": Retry(attempts=None, deadline=perdure.FOREVER)}, "unbounded"),
        ({"retry": Retry(on=Exception)}, "retries-everything"),
        ({"retry": Retry(on=ValueError)}, "retries-client-errors"),
        ({"retry": Retry(hint_cap=0)}, "hint-ignored"),
        ({"retry": Retry(on_exhausted="return", reject=bool)}, "silent-exhaustion"),
    ],
    ids=repr,
)
def test_each_anti_pattern_has_its_warning_and_no_other(parts: dict[str, Any], code: str) -> None:
    assert codes(**parts) == {code}


@pytest.mark.parametrize(
    "parts",
    [
        {"budget": None, "retry": None},
        {"breaker": Breaker(failures=4), "key": key_of},
        {"breaker": Breaker(failures=None), "key": key_of},
        {"breaker": Breaker(failures=1), "key": key_of, "retry": None},
        {"hedge": Hedge(), "safety": Safety.KEYED},
        {"hedge": Hedge(), "retry": Retry(safety=Safety.SAFE)},
        {"fallback": Fallback(value=None), "on_exhausted": lookup},
        {"fallback": Fallback(value=None), "retry": Retry(on_exhausted=lookup)},
        {"timeouts": Timeouts(connect=1, read=1), "retry": Retry(shrink=0.8)},
        {"timeouts": Timeouts(connect=1, read=1), "retry": None},
    ],
    ids=repr,
)
def test_what_is_no_anti_pattern_has_no_warning(parts: dict[str, Any]) -> None:
    assert codes(**parts) == set()


def test_the_view_of_a_key_has_a_breaker_of_its_own() -> None:
    assert not plan(made(breaker=Breaker()).at("eu"))["warnings"]


def test_the_hosts_that_were_seen_are_named() -> None:
    payments = made(breaker=Breaker())
    for host in ("b.example", "a.example"):
        payments._guard.core.saw_host(host)
    (warning,) = plan(payments)["warnings"]
    assert "(a.example, b.example so far)" in warning["message"]


# -- the words -----------------------------------------------------------------------------------------

SOME: dict[str, list[Any]] = {
    "retry": [None, Retry(), Retry(attempts=None), Retry(attempt_timeout=2, nested="both")],
    "timeouts": [None, Timeouts(), Timeouts(connect=None), Timeouts(total=20, adaptive=True)],
    "budget": [None, Budget(), Budget(max_ratio=0.1)],
    "gate": [None, Gate(), Gate.throttle()],
    "breaker": [None, Breaker(), Breaker(failures=None, slow=1, slow_rate=0.5, mode="shadow")],
    "rate_limit": [None, RateLimit(2.5), RateLimit(5, burst=7, max_wait=3)],
    "bulkhead": [None, Bulkhead(), Bulkhead(3, 4, 5)],
    "hedge": [None, Hedge(), Hedge(delay=0)],
    "fallback": [None, Fallback(value={"a": [1] * 100}), Fallback(lookup), Fallback(last_good=1)],
    "safety": [None, Safety.SAFE],
    "on_exhausted": [None, lookup],
    "key": [None, key_of],
}


@given(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in SOME.items()}))
def test_every_plan_is_json_and_text(parts: dict[str, Any]) -> None:
    explanation = made(**parts).explain()
    assert json.loads(explanation.to_json()) == json.loads(json.dumps(explanation.as_dict()))
    text = str(explanation)
    assert max(map(len, text.splitlines())) < 200
    for name in ("budget", "gate", "breaker", "rate_limit", "bulkhead", "hedge", "fallback"):
        (line,) = (row for row in text.splitlines() if row.startswith(f"{name.replace('_', ' '):<14} "))
        assert line.endswith(" off") is (parts[name] is None)
    assert all(f"{one.code}: {one.message}" in text for one in explanation.warnings)


def test_the_text_names_what_the_design_asks_for() -> None:
    text = str(made(timeouts=Timeouts(total=20), breaker=Breaker()).explain())
    for words in (
        *(
            "payments",
            "exponential backoff",
            "before attempt 4",
            "429",
            "connect 5 s, read 10 s, attempt 15 s",
        ),
        *("total 20 s", "failures 5", "last error is raised", "worst case     20 s", "4 x in the worst case"),
        *("the budget holds it at 1.5 x", "one-breaker"),
    ):
        assert words in text


def test_a_fallback_value_that_cannot_be_printed_is_shown_by_its_type() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert plan(made(fallback=Fallback(value=Odd())))["fallback"]["value"] == "a Odd"

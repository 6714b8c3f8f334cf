"""Values that cannot work, or contradict each other, are refused when built; views share the state they show."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import (
    Breaker,
    Budget,
    Bulkhead,
    ConfigError,
    Constant,
    Dependency,
    Fallback,
    Gate,
    Hedge,
    RateLimit,
    Retry,
    Safety,
    Timeouts,
)
from perdure.testing import Script, VirtualClock, took
from tests.dependency.made import assert_at_rest, called, made, state_of
from tests.engine.tasks import LOOPS, together
from tests.harness import COLOURS, run_async

if TYPE_CHECKING:
    from collections.abc import Callable

HOOK = print
OF_THE_BUDGET = "more to start with than there can be"

CONTRADICTIONS: dict[str, tuple[dict[str, Any], str, object]] = {
    "window below twice the attempt timeout": (
        {"retry": Retry(attempt_timeout=10), "breaker": Breaker(window=19)},
        r"window must be at least twice the attempt timeout \(10 s\)",
        19,
    ),
    "window below twice connect and read": (
        {"timeouts": Timeouts(connect=5, read=10), "breaker": Breaker(window=29)},
        r"window must be at least twice the attempt timeout \(15 s\)",
        29,
    ),
    "hedge after the attempt timeout": (
        {"retry": Retry(attempt_timeout=2), "hedge": Hedge(delay=2)},
        r"hedge: delay must be less than the attempt timeout \(2 s\)",
        2,
    ),
    "attempt longer than the call": (
        {"retry": Retry(attempt_timeout=6), "timeouts": Timeouts(total=5)},
        r"attempt_timeout must be at most Timeouts.total \(5\)",
        6,
    ),
    "deadline after the end": (
        {"retry": Retry(deadline=6), "timeouts": Timeouts(total=5)},
        r"deadline must be at most Timeouts.total \(5\)",
        6,
    ),
    "connect longer than the call": (
        {"timeouts": Timeouts(connect=6, total=5)},
        r"connect must be at most Timeouts.total \(5\)",
        6,
    ),
    "read longer than the call": (
        {"timeouts": Timeouts(read=6, total=5)},
        r"read must be at most Timeouts.total \(5\)",
        6,
    ),
    "wait for the rate longer than the call": (
        {"timeouts": Timeouts(total=5), "rate_limit": RateLimit(1, max_wait=6)},
        r"rate_limit: max_wait must be at most Timeouts.total \(5\)",
        6,
    ),
    "wait for a place longer than the call": (
        {"timeouts": Timeouts(total=5), "bulkhead": Bulkhead(1, queue=1, max_wait=6)},
        r"bulkhead: max_wait must be at most Timeouts.total \(5\)",
        6,
    ),
    "adaptive without a bound": (
        {"timeouts": Timeouts(read=None, adaptive=True)},
        "adaptive needs connect and read, or Retry.attempt_timeout, as a bound",
        True,
    ),
    "two safeties": (
        {"retry": Retry(safety=Safety.KEYED), "safety": Safety.UNSAFE},
        r"safety contradicts Retry.safety \(.*KEYED.*\)",
        Safety.UNSAFE,
    ),
    "hedge of what may not be sent twice": (
        {"safety": Safety.UNSAFE, "hedge": Hedge(delay=1)},
        "hedge sends an operation twice, which safety=UNSAFE forbids",
        Hedge(delay=1),
    ),
    "hedge of what the policy says may not be": (
        {"retry": Retry(safety=Safety.UNSAFE), "hedge": Hedge(delay=1)},
        "hedge sends an operation twice, which safety=UNSAFE forbids",
        Hedge(delay=1),
    ),
    "two hooks": (
        {"retry": Retry(on_exhausted=HOOK), "on_exhausted": HOOK},
        "on_exhausted is given by the Retry as well; give one",
        HOOK,
    ),
    OF_THE_BUDGET: (
        {"budget": Budget(start=5, cap=3), "retry": Retry(attempts=2)},
        r"start must be at most cap \(3\)",
        5,
    ),
}

KINDS = (
    "retry",
    "timeouts",
    "budget",
    "gate",
    "breaker",
    "rate_limit",
    "bulkhead",
    "hedge",
    "fallback",
    "safety",
)

PARTS: list[tuple[Callable[[], object], str]] = [
    (lambda: Breaker(failures=0), "failures must be a whole number >= 1, or None, got 0"),
    (lambda: Breaker(failure_rate=1.5), "failure_rate must be a share in (0, 1], or None, got 1.5"),
    (lambda: Breaker(cooldown=0), "cooldown must be a finite number of seconds > 0, got 0"),
    (lambda: Breaker(cooldown=60, max_cooldown=30), "max_cooldown must be at least cooldown (60), got 30"),
    (lambda: Breaker(slow=1), "slow_rate and slow go together (slow=1), got None"),
    (lambda: Breaker(slow_rate=0.5), "slow_rate and slow go together (slow=None), got 0.5"),
    (
        lambda: Breaker(failures=None, failure_rate=None),
        "failures or failure_rate or slow_rate must be given, else it never opens, got None",
    ),
    (lambda: Breaker(mode="off"), 'mode must be "on" or "shadow", got \'off\''),  # type: ignore[arg-type]
    (lambda: Breaker(ramp=1), "ramp must be True or False, got 1"),  # type: ignore[arg-type]
    (lambda: Breaker(probes=True), "probes must be a whole number >= 1, got True"),
    (lambda: Budget(max_ratio=0.1, per_success=0.5), "max_ratio and per_success are two forms of budget"),
    (lambda: Budget(window=0.5), "window must be at least 1 second, got 0.5"),
    (lambda: Dependency("x", budget=Budget(start=9, cap=7)), "start must be at most cap (7), got 9"),
    (lambda: Budget(cap=float("inf")), "cap must be a finite number of tokens > 0, got inf"),
    (lambda: Gate(ceiling=0.5), "ceiling must be at least 1, got 0.5"),
    (lambda: Gate(ceiling=5, floor=6), "floor must be at most ceiling (5), got 6"),
    (lambda: Gate.throttle(k=0.9), "throttle_k must be at least 1, got 0.9"),
    (lambda: RateLimit(0), "limit must be a finite number of attempts > 0, got 0"),
    (lambda: RateLimit(5, burst=0.5), "burst must be a whole number >= 1, or None, got 0.5"),
    (lambda: RateLimit(5, max_wait=-1), "max_wait must be a finite number of seconds >= 0, got -1"),
    (
        lambda: RateLimit(5, max_wait=float("nan")),
        "max_wait must be a finite number of seconds >= 0, got nan",
    ),
    (lambda: Bulkhead(0), "limit must be a whole number >= 1, got 0"),
    (lambda: Bulkhead(1, queue=-1), "queue must be a whole number >= 0, got -1"),
    (lambda: Hedge(quantile=0), "quantile must be a share in (0, 1], got 0"),
    (lambda: Hedge(max_hedges=0), "max_hedges must be a whole number >= 1, got 0"),
    (lambda: Timeouts(total=0), "total must be a finite number of seconds > 0"),
]


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_values_that_contradict_each_other_are_refused(what: str) -> None:
    given, says, value = CONTRADICTIONS[what]
    with pytest.raises(ConfigError, match=f"^{says}") as caught:
        made(**given)
    assert str(caught.value).endswith(f", got {value!r}")
    assert isinstance(caught.value, ValueError)
    assert "payments" not in perdure.dependencies(), "nothing was declared"


@pytest.mark.parametrize("what", [what for what in CONTRADICTIONS if what != OF_THE_BUDGET])
def test_a_view_with_such_values_is_refused_as_well(what: str) -> None:
    given, says, _ = CONTRADICTIONS[what]
    viewed = {"retry", "timeouts", "safety", "hedge", "fallback", "on_exhausted"}
    changes = {name: value for name, value in given.items() if name in viewed}
    dependency = made(**{name: value for name, value in given.items() if name not in viewed})
    with pytest.raises(ConfigError, match=f"^{says}"):
        dependency.using(**changes)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("value", [5, "on", Ellipsis, {}])
def test_a_part_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} must be a \w+, or None, got") as caught:
        made(**{name: value})
    assert str(caught.value).endswith(repr(value))


@pytest.mark.parametrize(("build", "says"), PARTS)
def test_a_part_that_cannot_work_is_refused(build: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(("name", "value"), [("on_exhausted", 5), ("key", "host")])
def test_a_hook_that_cannot_be_called_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} must be a callable, got {value!r}"):
        made(**{name: value})


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_dependency_needs_a_name(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"^name must be a string that is not empty"):
        Dependency(name)


def test_what_nobody_wrote_contradicts_nothing() -> None:
    dependency = made(timeouts=Timeouts(total=2), breaker=Breaker(), hedge=Hedge(), bulkhead=Bulkhead())
    guard = dependency._guard
    assert (guard.retry.deadline, guard.retry.attempt_timeout) == (2, 2)
    assert made(timeouts=Timeouts(connect=60, read=60), breaker=Breaker())._guard.core.kit.window == 240


# -- what is shared ------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
class TestViews:
    def test_failures_of_a_view_open_the_breaker_for_all(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(breaker=Breaker(failures=2), retry=None)
        views = [dependency.using(retry=Retry(attempts=1)), dependency.using(safety=Safety.SAFE)]
        for view in views:
            called(colour, view, ConnectionError())
        for one in (dependency, *views, dependency.using(timeouts=Timeouts())):
            assert isinstance(called(colour, one, "never").error, perdure.BreakerOpen)

    def test_they_pay_from_one_budget(self, colour: str, clock: VirtualClock) -> None:
        policy = Retry(attempts=4, backoff=Constant(0))
        dependency = made(retry=policy)
        view = dependency.using(retry=policy.replace(attempts=9))
        assert called(colour, view, *[ConnectionRefusedError()] * 4).calls == 4
        assert called(colour, dependency, ConnectionRefusedError()).calls == 1

    def test_they_share_the_rate(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(rate_limit=RateLimit(1, per=60, burst=1))
        called(colour, dependency.using(fallback=None), "ok")
        assert isinstance(called(colour, dependency, "never").error, perdure.RateLimited)

    def test_isolating_a_view_isolates_all(self, colour: str, clock: VirtualClock) -> None:
        dependency = made()
        dependency.using(retry=None).isolate("maintenance")
        assert isinstance(called(colour, dependency, "never").error, perdure.Isolated)

    def test_a_view_of_a_key_with_other_options_is_of_that_key(
        self, colour: str, clock: VirtualClock
    ) -> None:
        dependency = made(breaker=Breaker(failures=1), retry=None)
        view = dependency.at("eu").using(fallback=Fallback(value="instead"))
        assert view.key == "eu"
        assert called(colour, view, ConnectionError()).calls == 1
        assert isinstance(called(colour, dependency.at("eu"), "never").error, perdure.BreakerOpen)
        assert called(colour, dependency.at("us"), "ok").calls == 1
        assert called(colour, dependency, "ok").calls == 1
        assert_at_rest(dependency)

    def test_the_options_of_a_view_are_its_own(self, colour: str, clock: VirtualClock) -> None:
        dependency = made(retry=Retry(attempts=3, backoff=Constant(0)))
        view = dependency.using(retry=Retry(attempts=2, backoff=Constant(0)))
        assert called(colour, view, *[ConnectionRefusedError()] * 2).calls == 2
        assert called(colour, dependency, *[ConnectionRefusedError()] * 2).calls == 2, "the budget is one"
        assert (
            called(colour, made(retry=Retry(attempts=3, backoff=Constant(0))), *[OSError(110, "")] * 3).calls
            == 3
        )


@pytest.mark.parametrize("loop", LOOPS)
def test_views_share_the_bulkhead(loop: str, clock: VirtualClock) -> None:
    dependency = made(bulkhead=Bulkhead(2))
    views = [dependency, dependency.using(retry=None), dependency.using(timeouts=Timeouts())]
    works = [partial(view.outcome, Script(took(5, "ok")).asynchronous) for view in views]
    outcomes = run_async(loop, lambda: together(loop, *works))
    assert sorted(type(one.error).__name__ for one in outcomes) == ["BulkheadFull", "NoneType", "NoneType"]
    assert_at_rest(dependency)


def test_the_same_name_and_values_share_the_state() -> None:
    one = Dependency("shared", breaker=Breaker(failures=1), retry=None)
    other = Dependency("shared", breaker=Breaker(failures=1), retry=None)
    assert one.outcome(Script(ConnectionError())).ok is False
    assert isinstance(other.outcome(str).error, perdure.BreakerOpen)
    assert state_of(one) is state_of(other)


def test_the_same_name_with_other_values_is_refused_and_says_where_the_first_is() -> None:
    Dependency("shared", retry=None)
    line = sys._getframe().f_lineno - 1
    with pytest.raises(ConfigError) as caught:
        Dependency("shared", retry=None, breaker=Breaker())
    assert f"{__file__}:{line} declares it with another breaker, got 'shared'" in str(caught.value)
    assert str(caught.value).startswith("name must be one that is not taken")


def test_replacing_one_begins_anew() -> None:
    one = Dependency("shared", breaker=Breaker(failures=1), retry=None)
    one.outcome(Script(ConnectionError()))
    other = Dependency("shared", breaker=Breaker(failures=1), retry=None, replace=True)
    assert other.outcome(Script("ok")).ok
    assert isinstance(one.outcome(str).error, perdure.BreakerOpen), "the old one keeps its own state"
    assert perdure.dependencies()["shared"] is other

"""Presets: the figures that are promised, and that they work together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Breaker, Budget, Dependency, Exponential, Retry, Timeouts, presets, registry
from perdure.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    before = registry.known()
    registry.restore({})
    yield
    registry.restore(before)


def settings(dependency: Any) -> Any:
    return dependency._guard.settings


def test_the_policies_have_the_figures_that_are_promised() -> None:
    assert presets.interactive == Retry(
        attempts=3, backoff=Exponential(base=0.1, cap=1), deadline=5, attempt_timeout=2, name="interactive"
    )
    assert presets.background == Retry(
        attempts=10, backoff=Exponential(base=1, cap=60), deadline=900, name="background"
    )
    assert presets.patient == Retry(
        attempts=5,
        backoff=Exponential(base=1, factor=2, cap=30),
        deadline=120,
        attempt_timeout=30,
        name="patient",
    )
    assert {
        "interactive": presets.interactive,
        "background": presets.background,
        "patient": presets.patient,
    } == presets.RETRIES


def test_a_patient_dependency_has_the_figures_of_many_specifications() -> None:
    given = settings(Dependency("payments", **presets.options("patient")))
    assert given.retry == presets.patient.replace(name=None)
    assert given.timeouts == Timeouts(connect=5, read=30, total=120)
    assert given.breaker == Breaker(failures=5, cooldown=60, successes=2)
    assert given.budget == Budget(max_ratio=0.1, window=60)
    assert given.gate == perdure.Gate()


@pytest.mark.parametrize(
    ("service", "times"),
    [
        ("ollama", (5, 120, 300)),
        ("anthropic", (10, 60, 120)),
        ("openai", (10, 60, 120)),
        ("model", (10, 60, 120)),
        ("postgresql", (5, 30, 60)),
        ("redis", (2, 5, 10)),
        ("external", (10, 30, 60)),
    ],
)
def test_the_timeouts_of_services(service: str, times: tuple[float, float, float]) -> None:
    timeouts = presets.TIMEOUTS[service]
    assert (timeouts.connect, timeouts.read, timeouts.total) == times
    assert len(presets.TIMEOUTS) == 7


@pytest.mark.parametrize("preset", presets.RETRIES)
@pytest.mark.parametrize("service", presets.TIMEOUTS)
def test_every_preset_goes_with_the_timeouts_of_every_service(preset: str, service: str) -> None:
    timeouts = presets.TIMEOUTS[service]
    given = Dependency(preset, **presets.options(preset, timeouts=timeouts))._guard
    assert given.timeouts == timeouts
    assert given.retry.deadline == timeouts.total
    assert given.retry.attempt_timeout == timeouts.attempt
    assert given.retry.attempts == presets.RETRIES[preset].attempts


@pytest.mark.parametrize("preset", presets.RETRIES)
def test_timeouts_without_a_total_leave_the_deadline_of_the_preset(preset: str) -> None:
    given = Dependency(preset, **presets.options(preset, timeouts=Timeouts(connect=1, read=1)))._guard
    assert given.retry.deadline == presets.RETRIES[preset].deadline
    assert given.retry.attempt_timeout == 2


@pytest.mark.parametrize("preset", presets.RETRIES)
def test_a_preset_keeps_its_own_times_where_no_others_are_given(preset: str) -> None:
    retry = Dependency(preset, **presets.options(preset))._guard.retry
    assert retry == presets.RETRIES[preset].replace(name=None)


def test_what_is_given_goes_before_the_preset() -> None:
    given = settings(
        Dependency("payments", **presets.options("patient", breaker=None, retry=Retry(attempts=2)))
    )
    assert given.breaker is None
    assert given.retry == Retry(attempts=2)
    assert given.budget == Budget(max_ratio=0.1, window=60)


def test_changing_the_options_of_one_changes_no_other() -> None:
    presets.options("patient")["breaker"] = None
    assert presets.options("patient")["breaker"] == Breaker()


@pytest.mark.parametrize("name", ["pateint", "", None, 3, ["patient"]])
def test_a_preset_that_does_not_exist_is_refused(name: Any) -> None:
    with pytest.raises(
        perdure.ConfigError, match=r"^preset must be one of interactive, background, patient, got "
    ):
        presets.options(name)


def test_the_nearest_preset_is_named() -> None:
    with pytest.raises(perdure.ConfigError, match=r"got 'pateint': did you mean patient\?$"):
        presets.options("pateint")


@pytest.mark.parametrize("preset", presets.RETRIES)
def test_a_dependency_of_a_preset_can_be_recommended(preset: str) -> None:
    warnings = Dependency(preset, **presets.options(preset)).explain().as_dict()["warnings"]
    assert {one["code"] for one in warnings} <= {"same-timeout", "one-breaker"}


@pytest.mark.parametrize("preset", presets.RETRIES)
def test_a_call_by_a_preset_gets_all_its_attempts(preset: str) -> None:
    dependency, made = Dependency(preset, **presets.options(preset)), list[int]()

    def function() -> None:
        made.append(1)
        raise ConnectionError("down")

    with VirtualClock(seed=0), pytest.raises(ConnectionError):
        dependency.call(function)
    assert len(made) == presets.RETRIES[preset].attempts

"""Dependencies in files: what ``load`` makes of them, what ``reload`` keeps, and what an error says."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import Dependency, Retry, Safety, config, presets, registry
from perdure.settings import Settings
from perdure.testing import VirtualClock, no_waits, record_events
from perdure.toml_places import Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE = "perdure.toml"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, and nothing declared by one test is there in the next."""
    monkeypatch.chdir(tmp_path)
    before = registry.known()
    registry.restore({})
    yield
    registry.restore(before)


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock(seed=0) as clock:
        yield clock


def write(text: str, name: str = FILE) -> None:
    Path(name).write_text(text, encoding="utf-8")


def loaded(text: str) -> Dependency:
    """The payments of a file with these tables."""
    write(text)
    return perdure.load()["payments"]


def settings(dependency: Any) -> Settings:
    given: Settings = dependency._guard.settings
    return given


def refused(text: str, act: Callable[[], object] = perdure.load) -> str:
    write(text)
    with pytest.raises(perdure.ConfigError) as caught:
        act()
    message = str(caught.value)
    assert "\n" not in message
    return message


def broken(*_: object) -> None:
    raise ConnectionError("down")


def fail(dependency: Any, calls: int = 1) -> None:
    for _ in range(calls):
        with no_waits(), pytest.raises((ConnectionError, perdure.Refused)):
            dependency.call(broken)


async def turns() -> None:
    """Let all tasks go as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


def attempts_of(dependency: Any) -> int:
    """How many attempts a call makes that always fails."""
    made: list[None] = []

    def function() -> None:
        made.append(None)
        broken()

    with no_waits(), pytest.raises(ConnectionError):
        dependency.call(function)
    return len(made)


# -- what is in a file ---------------------------------------------------------------------------------


def test_a_file_declares_a_dependency_with_all_its_parts() -> None:
    payments = loaded("""
        [dependencies.payments]
        safety = "keyed"
        bulkhead = { limit = 7, queue = 3, max_wait = "2s" }
        rate_limit = { limit = 50, per = "1m", burst = 10, max_wait = 0.5 }
        hedge = { delay = "250ms", max_hedges = 2 }
        fallback = { last_good = "5m" }
        [dependencies.payments.retry]
        attempts = 3
        backoff = { kind = "linear", step = "100ms", cap = "2s" }
        on = ["ConnectionError", "throttled"]
        [dependencies.payments.timeouts]
        connect = 1
        read = "4s"
        total = "1m30s"
        [dependencies.payments.budget]
        max_ratio = 0.2
        window = "2m"
        [dependencies.payments.gate]
        ceiling = 100
        [dependencies.payments.breaker]
        failures = 8
        cooldown = "30s"
        mode = "shadow"
    """)
    assert perdure.dependencies() == {"payments": payments}
    assert settings(payments) == Settings(
        retry=Retry(
            attempts=3, backoff=perdure.Linear(0.1, cap=2), on=(ConnectionError, perdure.FaultKind.THROTTLED)
        ),
        timeouts=perdure.Timeouts(connect=1, read=4, total=90),
        budget=perdure.Budget(max_ratio=0.2, window=120),
        gate=perdure.Gate(ceiling=100),
        breaker=perdure.Breaker(failures=8, cooldown=30, mode="shadow"),
        rate_limit=perdure.RateLimit(50, per=60, burst=10, max_wait=0.5),
        bulkhead=perdure.Bulkhead(7, queue=3, max_wait=2),
        hedge=perdure.Hedge(delay=0.25, max_hedges=2),
        fallback=perdure.Fallback(last_good=300),
        safety=Safety.KEYED,
        on_exhausted=None,
        key=None,
    )


def test_an_empty_table_declares_a_dependency_with_the_defaults() -> None:
    assert settings(loaded("[dependencies.payments]")) == settings(Dependency("other"))


@pytest.mark.parametrize("name", ["retry", "budget", "gate"])
@pytest.mark.parametrize("off", ["false", '"off"'])
def test_a_part_can_be_switched_off(name: str, off: str) -> None:
    assert getattr(settings(loaded(f"[dependencies.payments]\n{name} = {off}")), name) is None


def test_true_switches_a_part_on_with_its_defaults() -> None:
    assert settings(loaded("[dependencies.payments]\nbreaker = true")).breaker == perdure.Breaker()


def test_the_throttle_form_of_a_gate() -> None:
    gate = settings(loaded('[dependencies.payments.gate]\nthrottle = {k = 3, window = "4s"}')).gate
    assert gate == perdure.Gate.throttle(k=3, window=4)


@pytest.mark.parametrize(
    ("text", "given"),
    [("value = [1, 2]", [1, 2]), ('value = "none"', "none"), ("value = {a = 1}", {"a": 1})],
)
def test_a_fallback_has_the_value_as_it_stands_there(text: str, given: object) -> None:
    payments = loaded(f"[dependencies.payments.fallback]\n{text}")
    assert payments.using(retry=None).call(broken) == given


def test_a_service_names_its_timeouts() -> None:
    write('[dependencies.a]\ntimeouts = "redis"\n[dependencies.b.timeouts]\npreset = "redis"\nread = 3\n')
    found = perdure.load()
    assert settings(found["a"]).timeouts == presets.TIMEOUTS["redis"]
    assert settings(found["b"]).timeouts == presets.TIMEOUTS["redis"].replace(read=3)


def test_a_preset_is_the_base_and_the_tables_go_over_it() -> None:
    given = settings(
        loaded('[dependencies.payments]\npreset = "patient"\n[dependencies.payments.breaker]\nfailures = 9\n')
    )
    usual = presets.options("patient")
    assert given.breaker == usual["breaker"].replace(failures=9)
    assert (given.retry, given.timeouts, given.budget) == tuple(
        usual[name] for name in ("retry", "timeouts", "budget")
    )


def test_timeouts_go_before_the_times_of_a_preset() -> None:
    given = settings(loaded('[dependencies.payments]\npreset = "background"\ntimeouts = "postgresql"'))
    assert given.timeouts == presets.TIMEOUTS["postgresql"]
    assert given.retry is not None
    assert (given.retry.attempts, given.retry.deadline, given.attempt_timeout) == (10, 60, 35)


def test_pyproject_has_the_tables_under_tool_perdure() -> None:
    write("[tool.perdure.dependencies.payments.retry]\nattempts = 7\n", "pyproject.toml")
    retry = settings(perdure.load()["payments"]).retry
    assert retry is not None
    assert retry.attempts == 7


def test_without_a_file_nothing_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "find_file", lambda: None)
    assert perdure.load() == {}
    write("[dependencies.payments]")
    assert perdure.load(discover=False) == {}
    assert perdure.dependencies() == {}


def test_the_file_of_a_folder_above_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[dependencies.payments]")
    Path("a/b").mkdir(parents=True)
    monkeypatch.chdir("a/b")
    assert list(perdure.load()) == ["payments"]


def test_policies_of_the_same_file_are_loaded_as_before() -> None:
    write(
        '[policies.orders]\npreset = "patient"\nattempts = 2\n[dependencies.pay.retry]\nattempts = 3\n'
        '[dependencies.jobs]\npreset = "background"\n[dependencies.none]\nretry = false\n'
    )
    found = config.load_policies()
    assert {name: policy.attempts for name, policy in found.items()} == {"orders": 2, "pay": 3, "jobs": 10}
    assert found["orders"] == presets.patient.replace(attempts=2, name="orders")
    assert perdure.dependencies() == {}


# -- files and code ------------------------------------------------------------------------------------


def of_code() -> Dependency:
    return Dependency(
        "payments",
        retry=Retry(attempts=6, never=TimeoutError, reject=lambda value: value is None),
        breaker=perdure.Breaker(failures=7, cooldown=10),
        key=None,
    )


TEXT = """
    [dependencies.payments.retry]
    attempts = 2
    [dependencies.payments.breaker]
    cooldown = "20s"
"""


def of_both(dependency: Dependency) -> None:
    given = settings(dependency)
    assert given.retry is not None
    assert given.breaker == perdure.Breaker(failures=7, cooldown=20)
    assert (given.retry.attempts, given.retry.never) == (2, TimeoutError)
    assert given.retry.reject is not None


def test_a_file_goes_over_what_code_declared_field_by_field() -> None:
    payments = of_code()
    assert loaded(TEXT) is payments
    of_both(payments)


def test_a_file_goes_over_what_code_declares_later() -> None:
    first = loaded(TEXT)
    payments = of_code()
    of_both(payments)
    of_both(first)
    assert payments._guard is first._guard
    assert perdure.dependencies() == {"payments": first}


def test_declaring_the_same_again_after_a_load_shares_the_state() -> None:
    policy = Retry(attempts=6)
    one = Dependency("payments", retry=policy)
    loaded(TEXT)
    two = Dependency("payments", retry=policy)
    assert two._guard is one._guard
    with pytest.raises(perdure.ConfigError, match="another retry"):
        Dependency("payments", retry=Retry(attempts=2))  # what the file says is not what code says


def test_a_file_goes_over_what_replaces_a_dependency() -> None:
    Dependency("payments")
    loaded(TEXT)
    retry = settings(Dependency("payments", retry=Retry(attempts=9), replace=True)).retry
    assert retry is not None
    assert retry.attempts == 2


def test_code_that_contradicts_the_file_is_refused_with_the_place_in_the_file() -> None:
    write("[dependencies.payments.timeouts]\ntotal = 3\n")
    perdure.load(FILE)
    with pytest.raises(perdure.ConfigError, match=r"^perdure.toml:1: dependencies.payments: attempt_timeout"):
        Dependency("payments", retry=Retry(attempt_timeout=4))
    assert settings(perdure.dependencies()["payments"]).retry == Retry()


def test_a_later_file_goes_over_an_earlier_one() -> None:
    write("[dependencies.payments.retry]\nattempts = 2\nhint_cap = 7\n", "one.toml")
    write("[dependencies.payments.retry]\nattempts = 3\n", "two.toml")
    perdure.load("one.toml")
    retry = settings(perdure.load("two.toml")["payments"]).retry
    assert retry is not None
    assert (retry.attempts, retry.hint_cap) == (3, 7)
    assert perdure.reload() == []


# -- reload --------------------------------------------------------------------------------------------


def test_a_reload_gives_the_names_that_changed_and_tells() -> None:
    write("[dependencies.a.retry]\nattempts = 2\n[dependencies.b]\n")
    perdure.load()
    write("[dependencies.a.retry]\nattempts = 3\n[dependencies.b]\n[dependencies.c]\n")
    with record_events() as events:
        assert perdure.reload() == ["a", "c"]
        assert perdure.reload() == []
    assert [(event.name, event.dependency) for event in events] == [
        ("config.reloaded", "a"),
        ("config.reloaded", "c"),
    ]
    assert "c" in perdure.dependencies()


def test_a_reload_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    write("[dependencies.a]\n[dependencies.b]\n")
    perdure.load()
    write("[dependencies.a.retry]\nattempts = 3\n[dependencies.b.retry]\nattempts = 3\n")
    with caplog.at_level(logging.INFO, "perdure"):
        perdure.reload()
        perdure.reload()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "configuration reloaded: a, b")
    ]


def test_a_reload_without_a_loaded_file_does_nothing() -> None:
    write("[dependencies.a]")
    assert perdure.reload() == []
    assert perdure.dependencies() == {}


@pytest.mark.parametrize(
    "text",
    [
        "[dependencies.a.retry]\nattempts = 9\n[dependencies.b.retry]\nattempts = 0\n",
        "[dependencies.a.retry]\nattempts = 9\n[dependencies.b.timeouts]\ntotal = 1\n",  # b of code needs 2 s
        "[dependencies.a.retry]\nattempts = 9\n[dependencies.b",
        None,
    ],
    ids=["a bad value", "a contradiction", "no TOML", "no file"],
)
def test_a_reload_that_fails_changes_nothing(text: str | None) -> None:
    Dependency("b", retry=Retry(attempt_timeout=2))
    write("[dependencies.a.retry]\nattempts = 2\n[dependencies.b.retry]\nattempts = 2\n")
    perdure.load()
    before = {name: settings(one) for name, one in perdure.dependencies().items()}
    if text is None:
        Path(FILE).unlink()
    else:
        write(text)
    with record_events() as events, pytest.raises(perdure.ConfigError, match=r"perdure\.toml"):
        perdure.reload()
    assert {name: settings(one) for name, one in perdure.dependencies().items()} == before
    assert not events
    write("[dependencies.a.retry]\nattempts = 3\n[dependencies.b.retry]\nattempts = 2\n")
    assert perdure.reload() == ["a"]


def test_what_a_file_no_longer_names_is_as_code_declared_it() -> None:
    payments = Dependency("payments", retry=Retry(attempts=6))
    loaded("[dependencies.payments.retry]\nattempts = 2\n[dependencies.alone.retry]\nattempts = 3\n")
    write("")
    assert perdure.reload() == ["payments"]
    assert settings(payments).retry == Retry(attempts=6)
    alone = settings(perdure.dependencies()["alone"]).retry  # nothing else says what it should be
    assert alone is not None
    assert alone.attempts == 3


def test_a_field_that_a_file_no_longer_names_is_as_code_declared_it() -> None:
    payments = Dependency("payments", retry=Retry(attempts=6, hint_cap=5))
    loaded("[dependencies.payments.retry]\nattempts = 2\nhint_cap = 7\n")
    write("[dependencies.payments.retry]\nattempts = 2\n")
    perdure.reload()
    assert settings(payments).retry == Retry(attempts=2, hint_cap=5)


def test_two_reloads_at_a_time_give_one_change() -> None:
    loaded("[dependencies.payments.retry]\nattempts = 2\n")
    write("[dependencies.payments.retry]\nattempts = 3\n")
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(perdure.reload())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[]] * 7 + [["payments"]]


# -- what a reload keeps -------------------------------------------------------------------------------


def reloaded(text: str) -> None:
    write(text)
    assert perdure.reload() == ["payments"]


@pytest.mark.parametrize(
    "change",
    ["retry]\nattempts = 2", "retry]\nattempt_timeout = 40", "breaker]\nfailures = 50\ncooldown = 5"],
)
@pytest.mark.usefixtures("clock")
def test_an_open_breaker_stays_open(change: str) -> None:
    payments = loaded("[dependencies.payments]\nbreaker = {failures = 3}\nretry = false\n")
    fail(payments, 3)
    before = payments.snapshot()
    assert before["state"] == "open"
    reloaded(f"[dependencies.payments]\nbreaker = true\n[dependencies.payments.{change}\n".replace(
        "breaker = true\n" if "breaker]" in change else "\0", ""
    ))  # fmt: skip
    after = payments.snapshot()
    assert (after["state"], after["retry_after"]) == ("open", before["retry_after"])
    with pytest.raises(perdure.BreakerOpen):
        payments.call(len, ())


def test_failures_in_a_row_count_on_across_a_reload(clock: VirtualClock) -> None:
    payments = loaded("[dependencies.payments]\nbreaker = {failures = 3}\nretry = false\n")
    fail(payments, 2)
    clock.advance(1)
    reloaded("[dependencies.payments]\nbreaker = {failures = 3, cooldown = 5}\nretry = false\n")
    fail(payments)
    assert payments.snapshot()["state"] == "open"
    assert payments.snapshot()["retry_after"] <= 5


def test_a_breaker_of_fewer_failures_opens_with_the_next_one() -> None:
    payments = loaded("[dependencies.payments]\nbreaker = {failures = 5}\nretry = false\n")
    fail(payments, 3)
    reloaded("[dependencies.payments]\nbreaker = {failures = 2}\nretry = false\n")
    assert payments.snapshot()["state"] == "closed"
    fail(payments)
    assert payments.snapshot()["state"] == "open"


def test_a_breaker_that_is_switched_off_and_on_begins_closed() -> None:
    payments = loaded("[dependencies.payments]\nbreaker = {failures = 1}\nretry = false\n")
    fail(payments)
    reloaded("[dependencies.payments]\nretry = false\n")
    assert payments.call(len, ()) == 0
    reloaded("[dependencies.payments]\nbreaker = {failures = 2}\nretry = false\n")
    fail(payments)
    assert payments.snapshot()["state"] == "closed"
    assert payments.snapshot()["counters"]["succeeded"] == 1


def probing(clock: VirtualClock, breaker: str) -> Dependency:
    """A breaker that opened, and is ready for a probe."""
    payments = loaded(f"[dependencies.payments]\nretry = false\nbreaker = {{failures = 1, {breaker}}}\n")
    fail(payments)
    clock.advance(60)
    assert payments.snapshot()["state"] == "half_open"
    return payments


def test_where_fewer_probes_are_asked_for_one_more_decides(clock: VirtualClock) -> None:
    payments = probing(clock, "successes = 3, ramp = false")
    for _ in range(2):
        payments.call(len, ())
    reloaded(
        "[dependencies.payments]\nretry = false\nbreaker = {failures = 1, successes = 1, ramp = false}\n"
    )
    assert payments.snapshot()["state"] == "half_open"
    payments.call(len, ())
    assert payments.snapshot()["state"] == "closed"


def test_a_ramp_that_is_switched_off_is_over(clock: VirtualClock) -> None:
    payments = probing(clock, "successes = 1")
    payments.call(len, ())
    assert payments.snapshot()["state"] == "ramping"
    reloaded("[dependencies.payments]\nretry = false\nbreaker = {failures = 1, ramp = false}\n")
    assert payments.snapshot()["state"] == "closed"
    assert payments._guard.core.root.fast is not None


def test_a_probe_whose_breaker_is_switched_off_is_counted(clock: VirtualClock) -> None:
    payments = probing(clock, "successes = 1")
    assert payments.call(lambda: reloaded("[dependencies.payments]\nretry = false")) is None
    assert payments.snapshot()["counters"]["succeeded"] == 1


def test_a_budget_that_comes_later_pays_for_what_succeeds_from_then_on() -> None:
    payments = loaded("[dependencies.payments]\nbudget = false\n")
    for _ in range(20):
        payments.call(len, ())
    reloaded("[dependencies.payments.budget]\nstart = 0\n")
    assert payments.snapshot()["budget"]["tokens"] == 0
    payments.call(len, ())
    assert payments.snapshot()["budget"]["tokens"] == 0.5


def test_a_share_of_a_window_that_comes_later_counts_from_then_on(clock: VirtualClock) -> None:
    payments = loaded("[dependencies.payments]\nbudget = false\n")
    for _ in range(20):
        payments.call(len, ())
    reloaded("[dependencies.payments.budget]\nmax_ratio = 1.0\nstart = 0\n")
    clock.advance(1)
    payments.call(len, ())
    assert payments.snapshot()["budget"]["left"] == 1


@pytest.mark.usefixtures("clock")
def test_a_share_over_another_window_counts_anew() -> None:
    payments = loaded("[dependencies.payments.budget]\nmax_ratio = 0.1\nstart = 2\n")
    assert attempts_of(payments) == 3
    reloaded("[dependencies.payments.budget]\nmax_ratio = 0.1\nstart = 2\nwindow = 30\n")
    assert payments.snapshot()["budget"]["left"] == 2
    assert attempts_of(payments) == 3


def test_an_adaptive_timeout_can_be_switched_on_and_off(clock: VirtualClock) -> None:
    times = "timeouts = {connect = 1, read = 1, adaptive = "
    payments = loaded(f"[dependencies.payments]\n{times}false}}\n")
    for _ in range(200):
        clock.advance(0.1)
        payments.call(len, ())

    def left() -> float | None:
        return perdure.time_left()

    assert payments.call(left) == 2
    reloaded(f"[dependencies.payments]\n{times}true}}\n")
    assert payments.call(left) == pytest.approx(0.01)
    reloaded(f"[dependencies.payments]\n{times}false}}\n")
    assert payments.call(left) == 2


def test_a_budget_keeps_its_tokens_when_attempts_change() -> None:
    payments = loaded("[dependencies.payments.retry]\nattempts = 4\n")
    fail(payments)
    assert payments.snapshot()["budget"] == {"tokens": 0, "cap": 5}
    reloaded("[dependencies.payments.retry]\nattempts = 9\n")
    assert payments.snapshot()["budget"] == {"tokens": 0, "cap": 8}
    assert attempts_of(payments) == 1


def test_a_budget_that_nothing_was_taken_from_starts_as_the_new_attempts_need() -> None:
    payments = Dependency("payments", retry=Retry(attempts=2))
    loaded("[dependencies.payments.retry]\nattempts = 6\n")
    assert attempts_of(payments) == 6


def test_what_was_earned_before_a_reload_is_paid_at_the_old_rate() -> None:
    payments = loaded("[dependencies.payments.budget]\nstart = 0\nper_success = 0.5\n")
    for _ in range(4):
        payments.call(len, ())
    reloaded("[dependencies.payments.budget]\nstart = 0\nper_success = 0.1\n")
    assert payments.snapshot()["budget"]["tokens"] == 2
    payments.call(len, ())
    assert payments.snapshot()["budget"]["tokens"] == pytest.approx(2.1)


@pytest.mark.usefixtures("clock")
def test_a_share_keeps_its_counts() -> None:
    payments = loaded("[dependencies.payments.budget]\nmax_ratio = 0.5\nstart = 2\n")
    assert attempts_of(payments) == 3
    reloaded("[dependencies.payments.budget]\nmax_ratio = 0.1\nstart = 2\n")
    assert payments.snapshot()["budget"] == {"left": 0, "max_ratio": 0.1}
    assert attempts_of(payments) == 1


@pytest.mark.usefixtures("clock")
def test_one_form_of_budget_takes_the_place_of_the_other() -> None:
    payments = Dependency("payments", budget=perdure.Budget(per_success=0.2))
    loaded("[dependencies.payments.budget]\nmax_ratio = 0.1\n")
    assert settings(payments).budget == perdure.Budget(max_ratio=0.1)
    assert "left" in payments.snapshot()["budget"]


def test_a_gate_that_is_cut_stays_cut(clock: VirtualClock) -> None:
    def slow() -> None:
        raise TimeoutError("timed out")

    payments = loaded("[dependencies.payments]\nretry = false\n")
    for _ in range(20):
        clock.advance(0.1)
        with pytest.raises((TimeoutError, perdure.Overloaded)):
            payments.call(slow)
    limit = payments.snapshot()["gate"]["limit"]
    assert limit < 1000
    reloaded("[dependencies.payments]\nretry = false\ngate = {ceiling = 50}\n")
    assert payments.snapshot()["gate"] == {"limit": limit, "ceiling": 50}


def test_a_gate_that_comes_later_judges_by_what_comes_later(clock: VirtualClock) -> None:
    def slow() -> None:
        raise TimeoutError("timed out")

    payments = loaded("[dependencies.payments]\nretry = false\ngate = false\n")
    for _ in range(1000):
        payments.call(len, ())
    reloaded("[dependencies.payments]\nretry = false\n")
    for _ in range(20):
        clock.advance(0.1)
        with pytest.raises((TimeoutError, perdure.Overloaded)):
            payments.call(slow)
    assert payments.snapshot()["gate"]["limit"] < 10


def test_an_open_gate_takes_the_new_ceiling() -> None:
    payments = loaded("[dependencies.payments]")
    reloaded("[dependencies.payments.gate]\nceiling = 5000\n")
    assert payments.snapshot()["gate"] == {"limit": 5000, "ceiling": 5000}


def test_a_rate_limit_gives_no_burst_anew_and_keeps_a_pause(clock: VirtualClock) -> None:
    payments = loaded("[dependencies.payments.rate_limit]\nlimit = 2\nper = 10\n")
    for _ in range(2):
        payments.call(len, ())
    reloaded("[dependencies.payments.rate_limit]\nlimit = 4\nper = 10\n")
    with pytest.raises(perdure.RateLimited):
        payments.call(len, ())
    clock.advance(2.6)  # one place at the new rate
    payments.call(len, ())
    rate = payments._guard.core.root.rate
    assert rate is not None
    rate.pause(clock.now + 100)
    reloaded("[dependencies.payments.rate_limit]\nlimit = 1000\nper = 10\n")
    assert payments.snapshot()["rate_limit"]["wait"] == pytest.approx(100)


def test_a_bulkhead_is_resized_with_calls_inside() -> None:
    payments = loaded("[dependencies.payments]\nbulkhead = {limit = 3}\n")

    async def main() -> None:
        door = asyncio.Event()
        inside = [asyncio.create_task(payments.call(door.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        reloaded("[dependencies.payments]\nbulkhead = {limit = 2}\n")
        assert payments.snapshot()["bulkhead"] == {"taken": 3, "waiting": 0, "limit": 2}
        with pytest.raises(perdure.BulkheadFull):
            await payments.call(door.wait)
        reloaded("[dependencies.payments]\nbulkhead = {limit = 4}\n")
        inside.append(asyncio.create_task(payments.call(door.wait)))
        await asyncio.sleep(0)
        assert payments.snapshot()["bulkhead"]["taken"] == 4
        door.set()
        await asyncio.gather(*inside)

    asyncio.run(main())
    assert payments.snapshot()["bulkhead"]["taken"] == payments.snapshot()["in_flight"] == 0


@pytest.mark.parametrize("change", ["bulkhead = {limit = 3, queue = 5}", "", "bulkhead = false"])
def test_those_in_line_come_in_when_a_bulkhead_grows_or_goes(change: str) -> None:
    payments = loaded("[dependencies.payments]\nbulkhead = {limit = 1, queue = 5}\n")
    began: list[int] = []

    async def main() -> None:
        door = asyncio.Event()

        async def work(number: int) -> None:
            began.append(number)
            await door.wait()

        tasks = [asyncio.create_task(payments.call(work, number)) for number in range(3)]
        await turns()
        assert began == [0]
        reloaded(f"[dependencies.payments]\n{change}\n")
        await turns()
        assert began == [0, 1, 2]
        door.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert payments.snapshot()["in_flight"] == 0


def test_a_smaller_bulkhead_shrinks_before_anybody_in_line_comes_in() -> None:
    payments = loaded("[dependencies.payments]\nbulkhead = {limit = 3, queue = 5}\n")
    began: list[int] = []

    async def main() -> None:
        doors = [asyncio.Event() for _ in range(5)]

        async def work(number: int) -> None:
            began.append(number)
            await doors[number].wait()

        tasks = [asyncio.create_task(payments.call(work, number)) for number in range(5)]
        await turns()
        reloaded("[dependencies.payments]\nbulkhead = {limit = 1, queue = 5}\n")
        for number, inside in enumerate((3, 3, 4, 5, 5)):
            doors[number].set()
            await turns()
            assert began == list(range(inside))
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert payments.snapshot()["bulkhead"] == {"taken": 0, "waiting": 0, "limit": 1}


def test_calls_in_flight_come_back_to_the_same_state() -> None:
    payments = loaded("[dependencies.payments]\nbreaker = true\n")

    async def main() -> None:
        door = asyncio.Event()
        tasks = [asyncio.create_task(payments.call(door.wait)) for _ in range(4)]
        await asyncio.sleep(0)
        reloaded("[dependencies.payments]\nretry = {attempts = 2}\nbreaker = {cooldown = 1}\n")
        assert payments.snapshot()["in_flight"] == 4
        door.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    shown = payments.snapshot()
    assert shown["in_flight"] == 0
    assert shown["counters"]["succeeded"] == 4


def test_a_failure_in_flight_still_counts_for_the_breaker() -> None:
    payments = loaded("[dependencies.payments]\nretry = false\nbreaker = {failures = 1}\n")

    def function() -> None:
        reloaded("[dependencies.payments]\nretry = false\nbreaker = {failures = 1, cooldown = 7}\n")
        broken()

    with pytest.raises(ConnectionError):
        payments.call(function)
    assert payments.snapshot()["state"] == "open"


def test_a_waiting_retry_ends_by_the_policy_it_began_with(clock: VirtualClock) -> None:
    payments = loaded("[dependencies.payments.retry]\nattempts = 3\n")
    made: list[float] = []

    def function() -> None:
        made.append(clock.now)
        if len(made) == 1:
            reloaded("[dependencies.payments.retry]\nattempts = 1\n")
        broken()

    with pytest.raises(ConnectionError):
        payments.call(function)
    assert len(made) == 3
    assert attempts_of(payments) == 1


def test_isolations_keys_and_counters_stay() -> None:
    payments = loaded("[dependencies.payments]")
    payments.isolate("maintenance")
    payments.restore()
    payments.at("eu").call(len, ())
    payments.at("eu").isolate("maintenance")
    reloaded("[dependencies.payments.retry]\nattempts = 2\n")
    shown = payments.snapshot()["keys"]["eu"]
    assert shown["state"] == "isolated"
    assert shown["counters"]["attempts"] == 1


# -- who follows ---------------------------------------------------------------------------------------

FORMS = [
    "",
    "breaker = true",
    "gate = false",
    "gate = false\nbudget = false",
    "timeouts = {connect = 1, read = 1}",
    "timeouts = {total = 20}",
    "timeouts = {total = 20, adaptive = true}",
    "bulkhead = {limit = 3}",
    "budget = {max_ratio = 0.5}",
    "gate = {throttle = {k = 2}}",
    "hedge = {delay = 1}",
    "fallback = {last_good = 5}",
    'retry = {deadline = "none"}',
    "retry = {attempt_timeout = 2}",
    'retry = {nested = "outer"}',
    "retry = false",
]


@given(st.lists(st.sampled_from(FORMS), min_size=1, max_size=6), st.booleans(), st.integers(0, 120))
def test_decorated_functions_take_every_form_there_is(forms: list[str], is_slow: bool, calls: int) -> None:
    registry.restore({})
    payments = Dependency("payments")
    failing = [False]

    @payments
    def sync(value: int, *, double: bool = False) -> int:
        if failing[0]:
            broken()
        return 2 * value if double else value

    @payments
    async def coroutine(value: int) -> int:
        if failing[0]:
            broken()
        return value

    stop = perdure.listen(lambda _: None) if is_slow else None
    try:
        done = 0
        for form in forms:
            write(f"[dependencies.payments]\n{form}\n")
            perdure.load(FILE)
            for _ in range(calls):
                assert sync(3, double=True) == 6
            assert asyncio.run(coroutine(4)) == 4
            done += calls + 1
            failing[0] = True
            functions: list[Callable[[], object]] = [lambda: sync(1), lambda: asyncio.run(coroutine(1))]
            for function in functions:
                with no_waits(), pytest.raises((ConnectionError, perdure.Refused)):
                    function()
            failing[0] = False
            payments._guard.core.root.breaker = None  # it may have opened; here only the forms matter
            payments._guard.core.change(payments._guard.settings.kit())
            assert payments._guard.core.root.flight == []
    finally:
        if stop is not None:
            stop()


def test_a_decorated_function_takes_a_new_retry() -> None:
    payments = loaded("[dependencies.payments.retry]\nattempts = 2\n")
    made: list[None] = []

    @payments
    def function() -> None:
        made.append(None)
        broken()

    for attempts in (3, 1, 4):
        reloaded(f"[dependencies.payments]\nbudget = false\nretry = {{attempts = {attempts}}}\n")
        made.clear()
        with no_waits(), pytest.raises(ConnectionError):
            function()
        assert len(made) == attempts


def test_a_decorated_function_takes_an_attempt_timeout(clock: VirtualClock) -> None:
    payments = loaded("[dependencies.payments]\nretry = {attempts = 1}")

    @payments
    async def function() -> str:
        await asyncio.sleep(3)
        return "value"

    async def main() -> None:
        assert await function() == "value"
        reloaded("[dependencies.payments]\nretry = {attempts = 1, attempt_timeout = 2}")
        with pytest.raises(perdure.AttemptTimeout):
            await function()
        reloaded("[dependencies.payments]\nretry = {attempts = 1, attempt_timeout = 4}")
        assert await function() == "value"
        reloaded("[dependencies.payments]\nretry = {attempts = 1, attempt_timeout = 1}")
        with pytest.raises(perdure.AttemptTimeout):
            await function()

    start = clock.now
    asyncio.run(main())
    assert clock.now - start == pytest.approx(3 + 2 + 3 + 1)


@pytest.mark.parametrize("calls", [0, 300])
def test_fused_functions_take_an_end_and_lose_it_again(calls: int) -> None:
    payments = loaded("[dependencies.payments]")

    @payments
    def sync() -> float | None:
        return perdure.time_left()

    @payments
    async def coroutine() -> float | None:
        return perdure.time_left()

    for _ in range(2):
        for _ in range(calls):
            sync()
        assert sync() is None
        assert asyncio.run(coroutine()) is None
        reloaded("[dependencies.payments.timeouts]\ntotal = 12\n")
        for _ in range(calls):
            sync()
        assert 10 < (sync() or 0) <= 12
        assert 10 < (asyncio.run(coroutine()) or 0) <= 12
        reloaded("[dependencies.payments.timeouts]\nconnect = 1\nread = 7\n")
        assert 7 < (asyncio.run(coroutine()) or 0) <= 8
        reloaded("[dependencies.payments]")


def test_fused_functions_take_the_end_of_a_call_alone() -> None:
    payments = loaded("[dependencies.payments]")

    @payments
    def function() -> float | None:
        return perdure.time_left()

    for total in (12, 30, 5):
        reloaded(f"[dependencies.payments.timeouts]\nconnect = 'none'\ntotal = {total}\n")
        assert total - 1 < (function() or 0) <= total


def test_fused_functions_take_another_attempt_timeout_on_the_same_loop() -> None:
    payments = loaded("[dependencies.payments]")

    @payments
    async def function() -> float | None:
        return perdure.time_left()

    async def main() -> None:
        for limit in (2, 8, 4):
            reloaded(f"[dependencies.payments.retry]\nattempt_timeout = {limit}\n")
            for _ in range(3):
                assert limit - 1 < (await function() or 0) <= limit

    asyncio.run(main())


def test_fused_functions_remember_their_last_good_values_from_a_reload_on() -> None:
    payments = loaded("[dependencies.payments]\nretry = false\n")
    down = [False]

    @payments
    def function() -> str:
        if down[0]:
            broken()
        return "value"

    function()
    reloaded("[dependencies.payments]\nretry = false\nfallback = {last_good = 60}\n")
    function()
    down[0] = True
    assert function() == "value"


def test_a_function_that_returns_awaitables_takes_new_values(clock: VirtualClock) -> None:
    payments = loaded("[dependencies.payments]\nretry = {attempts = 1}")
    del clock

    async def work() -> str:
        await asyncio.sleep(3)
        return "value"

    @payments
    def function() -> Any:
        return work()

    async def main() -> None:
        assert await function() == "value"
        reloaded("[dependencies.payments]\nretry = {attempts = 1}\ntimeouts = {total = 2}")
        with pytest.raises(perdure.DeadlineExceeded):
            await function()

    asyncio.run(main())


def test_a_decorated_generator_takes_a_new_retry() -> None:
    payments = loaded("[dependencies.payments.retry]\nattempts = 2\n")
    made: list[None] = []

    @payments
    def items() -> Iterator[int]:
        made.append(None)
        broken()
        yield 1

    reloaded("[dependencies.payments.retry]\nattempts = 3\n")
    with no_waits(), pytest.raises(ConnectionError):
        list(items())
    assert len(made) == 3


def test_views_follow_but_for_what_they_have_otherwise() -> None:
    payments = loaded("[dependencies.payments]\nbudget = false\nretry = {attempts = 2}\n")
    safe = payments.using(safety=Safety.SAFE)
    own = payments.using(retry=Retry(attempts=5)).at("eu")
    keyed = safe.at("eu")
    nested = own.using(timeouts=perdure.Timeouts(total=9))
    reloaded("[dependencies.payments]\nbudget = false\nretry = {attempts = 3}\nhedge = {delay = 2}\n")
    assert [attempts_of(one) for one in (payments, safe, own, keyed, nested)] == [3, 3, 5, 3, 5]
    assert settings(keyed).safety is Safety.SAFE
    assert settings(nested).timeouts == perdure.Timeouts(total=9)
    assert settings(nested).hedge == perdure.Hedge(delay=2)
    assert nested.key == "eu"


def test_a_view_that_cannot_work_with_the_new_values_keeps_all_as_it_was() -> None:
    payments = loaded("[dependencies.payments]")
    view = payments.using(retry=Retry(attempt_timeout=5))
    message = refused("[dependencies.payments.timeouts]\ntotal = 3\n", perdure.reload)
    assert f"{FILE}: dependencies.payments, as seen by using(retry): attempt_timeout must be" in message
    assert settings(payments).timeouts is settings(view).timeouts is None
    del view
    gc.collect()  # the traceback had it too
    assert perdure.reload() == ["payments"]


def test_a_dropped_view_is_forgotten() -> None:
    payments = loaded("[dependencies.payments]")
    for _ in range(100):
        payments.using(safety=Safety.SAFE).at("x").call(len, ())
    assert len(payments._guard.core.views) == 1


def test_what_a_test_loads_is_taken_back_after_it() -> None:
    payments = Dependency("payments", retry=Retry(attempts=6))
    before = registry.known()
    loaded("[dependencies.payments.retry]\nattempts = 2\n[dependencies.other]\n")
    registry.restore(before)
    assert perdure.dependencies() == {"payments": payments}
    assert settings(payments).retry == Retry(attempts=6)
    assert perdure.reload() == []


def test_swapping_equal_values_changes_nothing() -> None:
    payments = loaded("[dependencies.payments]")
    assert registry.swap("payments", settings(payments)) is False


# -- errors --------------------------------------------------------------------------------------------

HEADER = "# comment\n[dependencies.payments]\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            HEADER + "[dependencies.payments.breaker]\nfailures = 3\ncooldown = -1",
            5,
            "dependencies.payments.breaker.cooldown must be a finite number of seconds > 0, got -1",
        ),
        (
            HEADER + 'breaker = { cooldown = "soon" }',
            3,
            "dependencies.payments.breaker.cooldown must be a duration of 0 or more",
        ),
        (
            HEADER + 'retry.attempts = 0\nretry.on = "ConnectionError"',
            3,
            "dependencies.payments.retry.attempts must be a whole number >= 1, or None, got 0",
        ),
        (
            HEADER + "[dependencies.payments.retry.backoff]\nkind = 'exponential'\nbase = 7",
            5,
            "dependencies.payments.retry.backoff.base must be <= cap (5 s), got 7",
        ),
        (
            HEADER + "[dependencies.payments.gate]\nthrottle = { k = 0.5 }",
            4,
            "dependencies.payments.gate.throttle.k must be at least 1, got 0.5",
        ),
        (HEADER + "safety = 'sure'", 3, "dependencies.payments.safety must be one of safe, keyed, unsafe, got"),
        (HEADER + "hedge = 3", 3, "dependencies.payments.hedge must be a table, or false, got 3"),
        (HEADER + "retry = 3", 3, "dependencies.payments.retry must be a table, or false, got 3"),
        (HEADER + "rate_limit = { per = 3 }", 3, "dependencies.payments.rate_limit needs limit, got"),
        (HEADER + "[dependencies.payments.fallback]", 3, "dependencies.payments.fallback: Fallback takes one of"),
        (HEADER + "timeouts = 'redos'", 3, "dependencies.payments.timeouts must be one of ollama, "),
        (HEADER + "preset = 'patience'", 3, "dependencies.payments.preset must be one of interactive, "),
        (
            HEADER + "retry = {attempt_timeout = 4}\n[dependencies.payments.timeouts]\ntotal = 3\n",
            3,
            "dependencies.payments.retry.attempt_timeout must be at most Timeouts.total (3), got 4",
        ),
        (
            HEADER + "timeouts = {connect = 1, read = 1}\n[dependencies.payments.hedge]\ndelay = 3\n",
            5,
            "dependencies.payments.hedge.delay must be less than the attempt timeout (2 s), got 3",
        ),
        ("dependencies = 3", 1, "dependencies must be a table, got 3"),
        ("[dependencies]\na = 3", 2, "dependencies.a must be a table, got 3"),
        ('text = """\n[dependencies.x]\n"""\n', 1, "text is not a table of perdure (dependencies, policies)"),
        (
            'dependencies."pay.ments".x = """\na = [\n"""\ndependencies.b.retry.attempts = [\n 1,\n]\n[policies]\n',
            1,
            "dependencies.'pay.ments'.x is not a part of a dependency in a file",
        ),
    ],
)  # fmt: skip
def test_an_error_names_file_line_path_range_and_value(text: str, line: int, message: str) -> None:
    said = refused(text, lambda: perdure.load(FILE))
    assert said.startswith(f"{FILE}:{line}: {message}"), said
    assert perdure.dependencies() == {}


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("[dependancies.payments]", "dependancies is not a table of perdure", "dependencies"),
        ("[dependencies.payments.braker]", "dependencies.payments.braker is not a part", "breaker"),
        ("[dependencies.payments]\nrate_limits = 3", "payments.rate_limits is not a part", "rate_limit"),
        ("[dependencies.payments.retry]\natempts = 3", "retry.atempts is not a field of a policy", "attempts"),
        ("[dependencies.payments.breaker]\nfailure = 3", "breaker.failure is not a field of breaker", "failures"),
        ("[dependencies.payments.timeouts]\nraed = 3", "timeouts.raed is not a field of timeouts", "read"),
        ("[policies.orders]\ndeadlines = 3", "policies.orders.deadlines is not a field", "deadline"),
        ("[dependencies.payments]\npreset = 'patiens'", "preset must be one of", "patient"),
    ],
)  # fmt: skip
def test_what_nobody_knows_is_refused_and_the_nearest_is_named(text: str, wrong: str, meant: str) -> None:
    act = config.load_policies if "policies" in text else perdure.load
    message = refused(text, act)
    assert wrong in message
    assert message.endswith(f": did you mean {meant}?")


@pytest.mark.parametrize("field", ["key", "on_exhausted", "function", "name", "zzz"])
def test_code_cannot_stand_in_a_file(field: str) -> None:
    assert "is not a part of a dependency in a file" in refused(f"[dependencies.payments]\n{field} = 'len'")


@pytest.mark.parametrize(("table", "field"), [("retry", "reject"), ("retry", "refresh"), ("fallback", "to")])
def test_functions_of_parts_cannot_stand_in_a_file(table: str, field: str) -> None:
    assert f"payments.{table}.{field} is not a field" in refused(
        f"[dependencies.payments.{table}]\n{field} = 'x'"
    )


def test_an_error_of_a_policy_names_the_line_of_the_key() -> None:
    message = refused("[policies.orders]\non = []\n\nattempts = 0\n", lambda: config.load_policies(FILE))
    assert message == f"{FILE}:4: policies.orders.attempts must be a whole number >= 1, or None, got 0"


def test_a_file_that_is_not_there_or_not_text_is_named() -> None:
    with pytest.raises(perdure.ConfigError, match=r"^none\.toml: cannot be read"):
        perdure.load("none.toml")
    Path("bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(perdure.ConfigError, match=r"^bad\.toml: cannot be read"):
        perdure.load("bad.toml")
    assert refused("[dependencies.a\n").startswith(str(Path.cwd() / FILE) + ": not valid TOML")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
)
PARTS = [
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
    "x",
]
FIELDS = [
    "attempts",
    "backoff",
    "on",
    "read",
    "cap",
    "window",
    "ceiling",
    "throttle",
    "failures",
    "limit",
    "delay",
]


@given(
    st.sampled_from(PARTS), st.one_of(VALUES, st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
)
def test_whatever_stands_in_a_file_is_loaded_or_refused_with_its_place(name: str, value: Any) -> None:
    from perdure.overlays import Overlay

    where = Where.of(FILE, "") / "dependencies" / "payments"
    if value is None:
        return
    try:
        Overlay({name: value}, where)(None)
    except perdure.ConfigError as error:
        assert str(error).startswith(f"{FILE}:1: dependencies.payments")  # noqa: PT017 - it need not be raised


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b-c", '"d.e"', "'f'"]), st.integers(0, 3)), min_size=1, max_size=6
    )
)
def test_every_key_has_the_line_it_stands_on(rows: list[tuple[str, int]]) -> None:
    fillers = ["", "# [x]\n", 'z{0} = """\nq = 1\n[w]\n"""\n', "y{0} = [\n  {{a = 1}}, # ]\n  '[',\n]\n"]
    text, expected = "", {}
    for number, (key, filler) in enumerate(rows):
        text += fillers[filler].format(number)
        expected[key.strip("\"'"), str(number)] = text.count("\n") + 1
        text += f"{key}.{number} = '#['\n"
    top = Where.of(FILE, text)
    assert {path: (top / path[0] / path[1]).line for path in expected} == expected


def test_calls_of_threads_go_on_and_are_all_counted_while_values_are_swapped() -> None:
    payments = Dependency("payments")
    usual = settings(payments)
    forms = [
        usual,
        replace(usual, gate=None),
        replace(usual, breaker=perdure.Breaker()),
        replace(usual, timeouts=perdure.Timeouts(total=5)),
        replace(usual, bulkhead=perdure.Bulkhead(100)),
        replace(usual, budget=perdure.Budget(max_ratio=0.5)),
        replace(usual, gate=None, fallback=perdure.Fallback(last_good=5)),
    ]
    made, wrong, over = [0] * 4, list[BaseException](), threading.Event()

    @payments
    def function(number: int) -> int:
        if number % 50 == 7:
            raise ValueError("not to be repeated")
        return number

    def work(index: int) -> None:
        while not over.is_set():
            made[index] += 1
            try:
                assert function(made[index]) == made[index]
            except ValueError:
                pass
            except BaseException as error:  # noqa: BLE001 - any other one is a fault
                wrong.append(error)
                return

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for number in range(400):
        registry.swap("payments", forms[number % len(forms)])
    over.set()
    for thread in threads:
        thread.join()
    registry.swap("payments", usual)
    assert not wrong
    assert payments.snapshot()["in_flight"] == 0
    assert payments.snapshot()["counters"]["attempts"] == sum(made)

"""Dependencies under misuse and bad luck: what must not be lost, whatever comes out of a call."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

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
    Refused,
    Retry,
    Timeouts,
    bypass,
)
from perdure.engine import ambient, hedging, waiting
from tests.dependency.made import assert_at_rest, made, until
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY = Retry(attempts=2, backoff=Exponential(base=0.001, jitter="none"))


class Passing(BaseException):
    """What no policy looks at."""


class Falsy(ConnectionError):
    """An error that is false, as one with a length of 0 is."""

    def __len__(self) -> int:
        return 0


class Hostile:
    """A key or argument that cannot be hashed or compared, and not because of a TypeError."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __hash__(self) -> int:
        if self.how == "hash":
            raise ValueError("cannot be hashed")
        return 1

    def __eq__(self, other: object) -> bool:
        raise ValueError("cannot be compared")


def down(*_: object) -> None:
    raise ConnectionError("down")


def fine(*_: object) -> str:
    return "fine"


def test_an_error_that_is_false_comes_out_and_reaches_the_fallback(clock: Any) -> None:
    async def later() -> None:
        raise Falsy("down")

    payments = made(retry=RETRY, fallback=Fallback(lambda error: error))
    assert isinstance(run_async("asyncio", payments(later)), Falsy)


@pytest.mark.parametrize("error", [ConnectionError("down"), ValueError("a bug")])
@pytest.mark.parametrize("timeouts", [None, Timeouts(total=5)])
def test_a_hook_that_raises_what_passes_leaves_no_end_and_no_place(
    clock: Any, error: Exception, timeouts: Timeouts | None
) -> None:
    def hook(_: object) -> None:
        raise Passing

    def fails() -> None:
        raise error

    payments = made(retry=None, gate=None, timeouts=timeouts, on_exhausted=hook)
    guarded = payments(fails)
    for _ in range(3):
        with pytest.raises(Passing):
            guarded()
    assert ambient.ENDS.get() is None
    assert not bypass.OPEN_ENDS
    assert payments.snapshot()["in_flight"] in {0, None}
    assert_at_rest(payments)


@pytest.mark.parametrize(
    "parts",
    [{}, {"timeouts": Timeouts(total=5)}, {"breaker": Breaker()}, {"bulkhead": Bulkhead(2000)}],
    ids=["plain", "total", "breaker", "bulkhead"],
)
def test_the_end_of_the_stack_costs_no_place(parts: dict[str, Any]) -> None:
    payments = made(retry=None, gate=Gate(ceiling=100_000), **parts)
    guarded: Callable[[int], object] = payments(lambda depth: guarded(depth + 1))
    for _ in range(3):
        with pytest.raises(RecursionError):
            guarded(0)

    def deep(depth: int, what: Callable[[], object]) -> object:
        return deep(depth - 1, what) if depth else what()

    failing = payments(down)
    limit = sys.getrecursionlimit()
    for depth in range(limit - 120, limit):
        try:
            deep(depth, failing)
        except (RecursionError, ConnectionError, Refused):
            pass
    payments.snapshot()  # collects
    assert ambient.ENDS.get() is None
    assert not bypass.OPEN_ENDS
    assert_at_rest(payments)


@pytest.mark.parametrize("how", ["hash", "eq"])
def test_a_key_that_cannot_be_hashed_or_compared_means_the_dependency_itself(how: str) -> None:
    payments = made(key=lambda key: key)
    assert [payments(fine)(Hostile(how)) for _ in range(3)] == ["fine"] * 3


@pytest.mark.parametrize("how", ["hash", "eq"])
def test_arguments_that_cannot_be_compared_have_no_last_good_value_and_break_nothing(how: str) -> None:
    payments = made(retry=None, fallback=Fallback(last_good=60))
    assert [payments(fine)(Hostile(how)) for _ in range(3)] == ["fine"] * 3
    with pytest.raises(ConnectionError):
        payments(down)(Hostile(how))


def test_the_end_of_items_is_no_failure_to_fall_back_from() -> None:
    payments = made(fallback=Fallback(value="more"))

    class Items:
        def __iter__(self) -> Items:
            return self

        @payments
        def __next__(self) -> str:
            raise StopIteration

    assert next(iter(Items()), "none") == "none"


def refused_and_failed() -> dict[str, Callable[[], Dependency]]:
    def isolated() -> Dependency:
        payments = made()
        payments.isolate("maintenance")
        return payments

    def limited() -> Dependency:
        payments = made(rate_limit=RateLimit(0.001))
        payments.call(fine)
        return payments

    return {
        "isolated": isolated,
        "rate limit": limited,
        "last good": lambda: made(retry=None, fallback=Fallback(last_good=60)),
    }


@pytest.mark.parametrize("kind", refused_and_failed())
@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_call_that_is_refused_or_has_no_fallback_leaves_no_cycle(clock: Any, kind: str, form: str) -> None:
    payments = refused_and_failed()[kind]()

    async def later() -> None:
        raise ConnectionError("down")

    async def many() -> int:
        guarded = payments(down if form == "sync" else later)
        found = 0
        for turn in range(2):
            gc.collect()
            gc.disable()
            for _ in range(20):
                try:
                    got = guarded()
                    if form == "async":
                        await got
                except Exception:  # noqa: BLE001, S110 - either
                    pass
            found = gc.collect() if turn else 0
        gc.enable()
        return found

    assert asyncio.run(many()) < 20


def test_a_copy_without_a_thread_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    payments = made(budget=Budget(start=5), hedge=Hedge(delay=0), bulkhead=Bulkhead(5))
    started, goes_on, start = [0], threading.Event(), hedging.start_new_thread

    def scarce(run: Any, args: tuple[()]) -> int:
        started[0] += 1
        if started[0] > 1:
            goes_on.set()
            raise RuntimeError("can't start new thread")
        return start(run, args)

    monkeypatch.setattr(hedging, "start_new_thread", scarce)

    def slow() -> str:
        assert goes_on.wait(30)
        return "fine"

    assert payments(slow)() == "fine"
    assert_at_rest(payments)
    assert payments.snapshot()["counters"]["hedges"] == 0
    assert payments(slow)() == "fine"  # no thread for the first either: it runs here
    assert_at_rest(payments)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("retried", [False, True])
def test_a_forked_child_has_its_own_attempt_in_flight_and_no_other(retried: bool) -> None:
    payments = made(retry=RETRY, bulkhead=Bulkhead(10))
    ends, inside = threading.Event(), threading.Semaphore(0)

    def slow() -> None:
        inside.release()
        ends.wait(30)

    others = [threading.Thread(target=payments(slow)) for _ in range(3)]
    for one in others:
        one.start()
        assert inside.acquire(timeout=30)
    attempts: list[int] = []

    @payments
    def forks() -> int:
        attempts.append(1)
        if retried and len(attempts) == 1:
            raise ConnectionError("down")
        return os.fork()

    child = forks()
    if not child:
        state = payments._guard.core.root
        os._exit(len(state.flight) + 10 * (state.places.taken if state.places else 0))
    _, status = os.waitpid(child, 0)
    ends.set()
    for one in others:
        one.join(30)
    assert os.waitstatus_to_exitcode(status) == 0
    until(lambda: not payments._guard.core.root.flight)
    assert_at_rest(payments)


@pytest.mark.parametrize("module", ["trio", "asyncio"])
def test_calls_work_while_another_thread_imports_an_async_library(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, ModuleType(module))  # as far as the import has come
    payments = made(retry=RETRY, timeouts=Timeouts(total=5), bulkhead=Bulkhead(1))
    assert payments(fine)() == "fine"
    for attempt in payments:
        with attempt:
            assert not waiting.in_trio()


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")


def test_a_key_that_cannot_be_printed_has_the_name_of_its_class() -> None:
    payments = Dependency("payments", breaker=perdure.Breaker(failures=1), retry=None).at(Unprintable())
    with perdure.testing.record_events() as seen:
        for kind in (ConnectionResetError, perdure.BreakerOpen):
            with pytest.raises(kind):
                payments.call(raising(ConnectionResetError()))
    assert {event.key for event in seen} == {"<Unprintable>"}
    assert payments.snapshot()["key"] == "<Unprintable>"


def test_keys_with_the_same_text_are_told_apart_in_the_snapshot() -> None:
    payments = Dependency("payments")
    for key in (1, "1", 2):
        payments.at(key).call(int)
    assert set(payments.snapshot()["keys"]) == {"1 (int)", "1 (str)", "2"}
    assert payments.snapshot()["all"]["counters"]["succeeded"] == 3


def raising(error: Exception) -> Any:
    def fails() -> None:
        raise error

    return fails

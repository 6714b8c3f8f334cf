"""Hedged attempts of plain functions, which run in threads: who wins, and what runs on."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Budget, Hedge, Retry, Safety, Timeouts
from perdure import clock as clocks
from perdure.testing import VirtualClock, record_events
from tests.dependency.made import assert_at_rest, made, state_of, until
from tests.engine.held import PATIENCE
from tests.engine.model import Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure import Dependency


def hedged(**parts: Any) -> Dependency:
    """A dependency that sends a copy after a second."""
    return made(**({"hedge": Hedge(delay=1)} | parts))


class Copies:
    """A function whose calls end when the test lets them, each with its own result."""

    def __init__(self, *results: object, after: dict[int, int] | None = None) -> None:
        self.results = results
        self.after = after or {}  # number of a call: the call before which it may not end
        self.began = [threading.Event() for _ in results]
        self.may_go = [threading.Event() for _ in results]
        self.ended = [threading.Event() for _ in results]
        self.left: list[float | None] = []
        self._lock = threading.Lock()
        self._number = 0

    def __call__(self) -> object:
        with self._lock:
            number, self._number = self._number, self._number + 1
        self.left.append(perdure.time_left())
        self.began[number].set()
        assert self.may_go[number].wait(PATIENCE)
        if number in self.after:
            assert self.ended[self.after[number]].wait(PATIENCE)
        self.ended[number].set()
        result = self.results[number]
        if isinstance(result, BaseException):
            raise result
        return result

    def release(self, *numbers: int) -> Copies:
        for number in numbers:
            self.may_go[number].set()
        return self


@pytest.fixture
def copies() -> Iterator[Callable[..., Copies]]:
    """Makes functions whose calls all end with the test."""
    made_here: list[Copies] = []

    def make(*results: object, **options: Any) -> Copies:
        made_here.append(Copies(*results, **options))
        return made_here[-1]

    yield make
    for one in made_here:
        one.release(*range(len(one.results)))
        until(lambda one=one: sum(done.is_set() for done in one.ended) == one._number)


@pytest.fixture(autouse=True)
def virtual(clock: VirtualClock) -> VirtualClock:
    """All of these are on virtual time."""
    return clock


def test_the_copy_wins_while_the_first_runs_on(copies: Any, virtual: VirtualClock) -> None:
    dependency = hedged()
    work = copies("late", "copy").release(1)
    with record_events() as seen:
        assert dependency.call(work) == "copy"
    assert [event.name for event in seen if "hedge" in event.name] == ["hedge.launched", "hedge.won"]
    assert virtual.now >= 1
    assert not work.ended[0].is_set()
    assert len(state_of(dependency).flight) == 1, "nothing can stop it, so it counts as long as it runs"
    work.release(0)
    until(lambda: not state_of(dependency).flight)
    assert_at_rest(dependency)


def test_the_result_of_the_loser_is_dropped_but_its_latency_counts(
    copies: Any, virtual: VirtualClock
) -> None:
    dependency = hedged()
    work = copies("late", "copy").release(1)
    dependency.call(work)
    latencies = state_of(dependency).latencies
    assert latencies.count == 1
    virtual.advance(10)
    work.release(0)
    until(lambda: latencies.count == 2)
    longest = latencies.quantile(1.0)
    assert longest is not None
    assert longest >= 11
    assert dependency.snapshot()["counters"]["succeeded"] == 2


def test_a_fast_call_needs_no_copy(copies: Any) -> None:
    dependency = hedged(hedge=Hedge(delay=1000), retry=Retry(deadline=None))
    assert dependency.call(copies("fast").release(0)) == "fast"
    assert dependency.snapshot()["counters"]["hedges"] == 0
    assert_at_rest(dependency)


def test_the_first_success_wins_although_another_failed_before(copies: Any) -> None:
    dependency = hedged()
    work = copies(ConnectionError(), "copy", after={1: 0})
    caller = threading.Thread(target=lambda: values.append(dependency.call(work)))
    values: list[object] = []
    caller.start()
    assert work.began[1].wait(PATIENCE)
    work.release(0)
    until(lambda: state_of(dependency).kit is not None and work.ended[0].is_set())
    work.release(1)
    caller.join(PATIENCE)
    assert values == ["copy"]
    until(lambda: dependency.snapshot()["counters"]["failed"] == 1)
    assert_at_rest(dependency)


def test_when_all_fail_the_error_is_that_of_the_first(copies: Any) -> None:
    dependency = hedged(retry=Retry(attempts=1), budget=None)
    error = ConnectionError("first")
    work = copies(error, ConnectionError("second"), after={0: 1}).release(0, 1)
    with pytest.raises(ConnectionError) as caught:
        dependency.call(work)
    assert caught.value is error
    assert dependency.snapshot()["counters"]["failed"] == 2
    assert_at_rest(dependency)


@pytest.mark.parametrize("who", [0, 1])
def test_what_is_no_failure_passes_at_once(copies: Any, who: int) -> None:
    dependency = hedged()
    results: list[object] = ["late", "late"]
    results[who] = leave = Leave()
    work = copies(*results, after={0: 1} if who == 1 else {}).release(who)
    if who == 0:
        work.may_go[0].clear()
        threading.Thread(target=lambda: work.began[1].wait(PATIENCE) and work.release(0)).start()
    with record_events() as seen, pytest.raises(Leave) as caught:
        dependency.call(work)
    assert caught.value is leave
    assert "hedge.won" not in [event.name for event in seen]
    work.release(0, 1)
    until(lambda: not state_of(dependency).flight)
    assert_at_rest(dependency)


def test_a_caller_that_is_interrupted_leaves_the_copies_to_report_themselves(
    copies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dependency = hedged()
    work = copies("late", "late")

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(clocks, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            dependency.call(work)
    assert len(state_of(dependency).flight) == 1
    work.release(0)
    until(lambda: not state_of(dependency).flight)
    assert_at_rest(dependency)


def test_no_more_than_max_hedges_are_sent(copies: Any) -> None:
    dependency = hedged(hedge=Hedge(delay=1, max_hedges=2), budget=Budget(start=5))
    work = copies("late", "late", "third").release(2)
    assert dependency.call(work) == "third"
    assert dependency.snapshot()["counters"]["hedges"] == 2
    assert dependency.snapshot()["budget"]["tokens"] == pytest.approx(3.5)
    assert len(state_of(dependency).flight) == 2
    work.release(0, 1)
    until(lambda: not state_of(dependency).flight)
    assert_at_rest(dependency)


def test_copies_see_the_ends_of_their_caller(copies: Any) -> None:
    dependency = hedged(retry=Retry(attempt_timeout=5), timeouts=Timeouts(total=20))
    work = copies("late", "copy").release(1)
    with perdure.deadline(3):
        assert dependency.call(work) == "copy"
    assert work.left == [3, 2]


def test_copies_see_the_attempt_timeout(copies: Any) -> None:
    dependency = hedged(retry=Retry(attempt_timeout=5))
    work = copies("late", "copy").release(1)
    assert dependency.call(work) == "copy"
    assert work.left == [5, 5]


def test_without_room_for_a_copy_the_first_goes_on(copies: Any) -> None:
    dependency = hedged(budget=Budget(start=0))
    work = copies("first")
    with record_events() as seen:
        told = perdure.listen(lambda event: event.name == "hedge.suppressed" and work.release(0))
        assert dependency.call(work) == "first"
        told()
    assert [event.name for event in seen if "hedge" in event.name] == ["hedge.suppressed"]


def test_an_operation_that_may_not_be_sent_twice_runs_in_the_thread_of_its_caller() -> None:
    dependency = hedged().using(safety=Safety.UNSAFE, hedge=None)
    assert dependency.call(threading.get_ident) == threading.get_ident()


def test_closing_waits_for_a_copy_that_runs_on(copies: Any) -> None:
    dependency = hedged()
    work = copies("late", "copy").release(1)
    assert dependency.call(work) == "copy"
    assert perdure.close(grace=0.05) is False
    work.release(0)
    assert perdure.close(grace=PATIENCE) is True


def test_leftovers_need_no_collector(virtual: VirtualClock) -> None:
    class Failed(ConnectionError):
        pass

    left: list[weakref.ref[Failed]] = []
    both = threading.Barrier(2)

    def work() -> None:
        error = Failed()
        left.append(weakref.ref(error))
        both.wait(PATIENCE)
        try:
            raise error
        finally:
            del error

    dependency = hedged(retry=Retry(attempts=1), budget=None)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(Failed):
            dependency.call(work)
        until(lambda: all(ref() is None for ref in left))
        assert len(left) == 2
    finally:
        gc.enable()
    assert_at_rest(dependency)

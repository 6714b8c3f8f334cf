"""The parts of the shared state, each by itself, with a clock that is set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import clock
from perdure.cli.shared import breaker as breakers
from perdure.cli.shared import budget as budgets
from perdure.cli.shared import lock as locks
from perdure.cli.shared.breaker import SharedBreaker
from perdure.cli.shared.budget import SharedBudget
from perdure.cli.shared.holder import is_alive, this_process
from perdure.cli.shared.lock import Heartbeat, Lock, who_holds
from perdure.cli.shared.store import FORGOTTEN, Store, Trouble
from tests.cli.processes import BOUND, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

YEAR = 365 * 86400.0


class Wall:
    """A wall clock that stands still until it is set; chance is 1, so open times are whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 2_000_000_000.0
        monkeypatch.setattr(clock, "wall", lambda: self.now)
        monkeypatch.setattr(clock, "random", lambda: 1.0)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "file", patience=0.1) as one:
        yield one


def breaker(failures: int = 2, cooldown: float = 60.0, timeout: float | None = None) -> SharedBreaker:
    return SharedBreaker("b", failures, cooldown, timeout)


def ask(store: Store, one: SharedBreaker) -> tuple[str, float] | None:
    with store.changing() as tx:
        return one.ask(tx)


def report(store: Store, one: SharedBreaker, meaning: str) -> list[str]:
    one.changes.clear()
    with store.changing() as tx:
        one.report(tx, meaning)
    return names(one)


def names(one: SharedBreaker) -> list[str]:
    return [name for name, _ in one.changes]


def attempt(store: Store, meaning: str, **options: Any) -> list[str]:
    """One attempt of a process of its own."""
    one = breaker(**options)
    assert ask(store, one) is None
    return report(store, one, meaning)


def trip(store: Store) -> None:
    attempt(store, "failure")
    assert attempt(store, "failure") == ["breaker.opened"]


# The file


def test_what_fails_in_a_transaction_leaves_nothing_behind(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.changing() as tx:
        tx.put("lock", "l", {"a": 1})
        raise ZeroDivisionError
    with store.changing() as tx:
        assert tx.get("lock", "l") is None


def test_looking_makes_no_file(store: Store) -> None:
    with pytest.raises(Trouble, match="there is no shared state yet"), store.looking():
        pass
    assert not store.path.exists()
    store.path.touch()
    with pytest.raises(Trouble, match="there is no shared state yet"), store.looking():
        pass
    assert store.path.stat().st_size == 0


def test_a_file_that_is_there_but_empty_is_filled(store: Store) -> None:
    store.path.touch()
    with store.changing() as tx:
        tx.put("lock", "l", {})
        assert tx.names("lock") == ["l"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_made_whole_and_what_somebody_made_before_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Also where the file system has no hard links; and no draft is left beside it."""
    from perdure.cli.shared import store as module

    def no_link(*_: object) -> None:
        raise PermissionError

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_link)
    with store.changing() as tx:
        tx.put("lock", "l", {})
    draft = store.path.with_name("draft")
    draft.write_bytes(b"somebody was faster")
    module._place(draft, store.path)
    draft.unlink()
    with Store(store.path) as other, other.looking() as tx:
        assert tx.names("lock") == ["l"]
    assert all(one.name.startswith("file") for one in store.path.parent.iterdir())


def test_a_database_of_another_program_is_left_as_it_was(store: Store) -> None:
    import sqlite3

    db = sqlite3.connect(store.path)
    db.execute("CREATE TABLE theirs (id)")
    db.close()
    before = store.path.read_bytes()
    with pytest.raises(Trouble, match="another program"), store.changing():
        pass
    assert store.path.read_bytes() == before


def test_a_name_that_nobody_used_for_long_is_forgotten_when_a_new_one_comes(store: Store, wall: Wall) -> None:
    with store.changing() as tx:
        SharedBudget("old", 4).deposit(tx)
        tx.put("lock", "stays", {})
    wall.now += FORGOTTEN + 1
    with store.changing() as tx:
        SharedBudget("new", 4).deposit(tx)
        assert tx.names("budget") == ["new"]
        assert tx.names("lock") == ["stays"]


def test_the_folder_of_the_user_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.cli.shared.store import default_path

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a" / "b"))
    with Store(default_path()) as one, one.changing():
        pass
    assert default_path().parent.stat().st_mode & 0o777 == 0o700


# The breaker


def test_failures_of_different_processes_open_it_and_the_refusal_says_for_how_long(
    store: Store, wall: Wall
) -> None:
    trip(store)
    wall.now += 20
    assert ask(store, breaker()) == ("open", pytest.approx(40))


def test_a_success_between_two_failures_parts_them(store: Store, wall: Wall) -> None:
    assert attempt(store, "failure") == attempt(store, "success") == attempt(store, "failure") == []
    assert ask(store, breaker()) is None


def test_failures_that_are_far_apart_do_not_count_together(store: Store, wall: Wall) -> None:
    """B146: the window is ten minutes, or five cooldowns where those are longer."""
    attempt(store, "failure")
    wall.now += 601
    assert attempt(store, "failure") == []
    wall.now += 599
    assert attempt(store, "failure") == ["breaker.opened"]
    assert breaker(cooldown=3600).window == 5 * 3600


def test_it_goes_half_open_with_one_probe_and_closes_after_two_successes(store: Store, wall: Wall) -> None:
    """B150: what is open goes half open, never straight to closed, however long nobody looked."""
    trip(store)
    wall.now += YEAR
    first, second = breaker(), breaker()
    assert ask(store, first) is None
    assert ask(store, second) == ("half_open", pytest.approx(breakers.PROBE))
    assert report(store, first, "success") == []
    assert attempt(store, "success") == ["breaker.closed"]
    assert attempt(store, "failure") == []


def test_a_failed_probe_opens_it_again_for_twice_as_long_up_to_five_times(store: Store, wall: Wall) -> None:
    trip(store)
    rests = []
    for _ in range(5):
        refused = ask(store, breaker())
        assert refused is not None
        rests.append(refused[1])
        wall.now += refused[1] + 1
        assert attempt(store, "failure") == ["breaker.opened"]
    assert rests == pytest.approx([60, 120, 240, 300, 300])


def test_a_result_of_another_period_changes_nothing(store: Store, wall: Wall) -> None:
    """B144: the slow one began while it was closed."""
    slow, slower = breaker(), breaker()
    assert ask(store, slow) is None
    assert ask(store, slower) is None
    trip(store)
    assert report(store, slow, "success") == ["breaker.late_result"]
    assert ask(store, breaker()) is not None
    wall.now += 61
    assert attempt(store, "success") == []
    assert report(store, slower, "failure") == ["breaker.late_result"]
    assert attempt(store, "success") == ["breaker.closed"]


def test_a_result_that_says_nothing_gives_the_place_back(store: Store, wall: Wall) -> None:
    """B140: it does not use up the probe."""
    trip(store)
    wall.now += 61
    assert attempt(store, "nothing") == []
    assert attempt(store, "success") == []
    assert attempt(store, "nothing") == []
    assert attempt(store, "success") == ["breaker.closed"]


@pytest.mark.parametrize(("timeout", "lease"), [(None, 3600.0), (10.0, 70.0), (7200.0, 7260.0)])
def test_a_probe_that_hangs_gives_its_place_back_in_time(
    store: Store, wall: Wall, timeout: float | None, lease: float
) -> None:
    """B136: its process lives, but its time is over; what it reports then is late."""
    trip(store)
    wall.now += 61
    hung, other = breaker(timeout=timeout), breaker()
    assert ask(store, hung) is None
    wall.now += lease - 1
    assert ask(store, other) == ("half_open", pytest.approx(1))
    wall.now += 1
    other.changes.clear()
    assert ask(store, other) is None
    assert names(other) == ["breaker.lease_expired"]
    assert report(store, hung, "failure") == ["breaker.late_result"]
    assert report(store, other, "success") == []


def test_a_clock_that_is_set_back_does_not_keep_it_open(store: Store, wall: Wall) -> None:
    """B063: no time has passed at the step, and then it goes on from there."""
    trip(store)
    wall.now -= YEAR
    assert ask(store, breaker()) == ("open", pytest.approx(60))
    wall.now += 59
    assert ask(store, breaker()) == ("open", pytest.approx(1))
    wall.now += 2
    assert ask(store, breaker()) is None


def test_a_clock_that_is_set_back_does_not_keep_a_probes_place(store: Store, wall: Wall) -> None:
    trip(store)
    wall.now += 61
    assert ask(store, breaker(timeout=10)) is None
    wall.now -= YEAR
    assert ask(store, breaker()) == ("half_open", pytest.approx(70))
    wall.now += 71
    assert ask(store, breaker()) is None


def test_healthy_runs_write_once_a_day(store: Store, wall: Wall) -> None:
    def written() -> float:
        with store.changing() as tx:
            kept = tx.get("breaker", "b")
        assert kept is not None
        return kept.at

    attempt(store, "success")
    first = written()
    wall.now += 3600
    attempt(store, "success")
    assert written() == first
    wall.now += 86400
    attempt(store, "success")
    assert written() == wall.now


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"machine": 5},
        {"machine": {"state": "ajar"}},
        {"machine": {}, "period": "x", "probes": 7, "rule": []},
        {"probes": [1, {"id": 1}, {"id": "a", "until": "b", "term": None}]},
    ],
)
def test_a_row_that_makes_no_sense_is_a_closed_breaker(store: Store, data: dict[str, Any]) -> None:
    with store.changing() as tx:
        tx.put("breaker", "b", data)
        loaded = breakers.load(tx, "b")
    assert loaded is not None
    assert (loaded.machine.state(0), loaded.probes) == ("closed", {})
    assert attempt(store, "failure") == []


@given(st.lists(st.tuples(st.sampled_from(["success", "failure", "nothing", "killed"]), st.floats(-90, 90))))
@settings(max_examples=30)
def test_never_more_than_one_probe_is_out(steps: list[tuple[str, float]]) -> None:
    """Whatever processes do, and whichever way the clock is set: and it is never wedged (property)."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        wall = Wall(patch)
        with Store(Path(folder) / "file") as store:
            out: list[SharedBreaker] = []
            for meaning, passed in steps:
                one = breaker(failures=1, timeout=1.0)
                if ask(store, one) is None:
                    out.append(one)
                with store.changing() as tx:
                    loaded = breakers.load(tx, "b")
                assert loaded is None or len(loaded.probes) <= 1
                if out and meaning != "killed":
                    report(store, out.pop(0), meaning)
                wall.now += passed
            wall.now += 301 + 62  # the longest open time, and then the lease of whoever never reported
            assert ask(store, breaker(failures=1)) is None


# The budget


@given(st.lists(st.booleans(), max_size=60), st.sampled_from([1, 2, 4, 9, None]))
@settings(max_examples=30)
def test_retries_never_exceed_what_was_there_and_what_successes_paid_in(
    steps: list[bool], attempts: int | None
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "file") as store:
        retries = successes = 0
        start = budgets.CAP if attempts is None else attempts - 1
        for succeeds in steps:
            one = SharedBudget("b", attempts)  # each a process of its own
            with store.changing() as tx:
                if succeeds:
                    one.deposit(tx)
                    successes += 1
                else:
                    retries += one.withdraw(tx)
            assert retries <= start + budgets.PER_SUCCESS * successes + 1e-6


def test_what_was_paid_for_a_retry_that_was_not_made_comes_back(store: Store) -> None:
    one = SharedBudget("b", 2)
    with store.changing() as tx:
        assert one.withdraw(tx)
        assert not one.withdraw(tx)
        one.refund(tx)
        assert one.withdraw(tx)


def test_a_run_with_more_attempts_raises_the_cap_for_all(store: Store) -> None:
    with store.changing() as tx:
        SharedBudget("b", 2).deposit(tx)
        SharedBudget("b", 9).deposit(tx)
        SharedBudget("b", 2).deposit(tx)
        assert budgets.level(tx.get("budget", "b")) == (pytest.approx(1.3), 8)


@pytest.mark.parametrize(
    "data", [{}, {"tokens": -1, "cap": 5}, {"tokens": 9, "cap": 5}, {"tokens": "2", "cap": 5}]
)
def test_a_row_that_makes_no_sense_is_a_fresh_budget(store: Store, data: dict[str, Any]) -> None:
    with store.changing() as tx:
        tx.put("budget", "b", data)
        assert [SharedBudget("b", 3).withdraw(tx) for _ in range(3)] == [True, True, False]


# The lock and its holder


def elsewhere(**more: Any) -> dict[str, Any]:
    """A holder of which nothing can be found out."""
    return {
        "pid": 1,
        "started": "1",
        "where": "another machine",
        "token": "x",
        "since": 0,
        "lease": 30.0,
    } | more


def test_a_process_is_known_to_live_by_its_number_its_start_and_its_place() -> None:
    here = this_process()
    assert is_alive(here) is True
    assert is_alive(here | {"started": "1"}) is False  # the number is used again
    assert is_alive(here | {"pid": 2**22 + 1}) is False
    assert is_alive(here | {"pid": 2**80}) is False
    assert is_alive(here | {"where": "another boot"}) is None
    for nonsense in ({}, here | {"pid": "1"}, here | {"pid": -1}, here | {"started": None}):
        assert is_alive(nonsense) is None


def test_a_process_that_is_dead_but_not_buried_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    holder = this_process() | {"pid": child.pid, "started": started}
    assert is_alive(holder) is True
    child.kill()
    wait_for(lambda: is_alive(holder) is False, "a zombie counts as alive")
    child.communicate()


def test_a_lock_is_held_once_and_given_back_by_its_holder_only(store: Store) -> None:
    mine, other = Lock("l", "mine"), Lock("l", "other")
    with store.changing() as tx:
        assert mine.take(tx) is None
        held = other.take(tx)
        assert held is not None
        assert (held.pid, held.program, held.alive) == (os.getpid(), "mine", True)
        other.release(tx)
        assert not other.renew(tx)
        assert mine.renew(tx)
        mine.release(tx)
        assert other.take(tx) is None


def test_a_holder_that_cannot_be_looked_at_keeps_its_lock_for_a_lease_after_each_beat(
    store: Store, wall: Wall
) -> None:
    with store.changing() as tx:
        tx.put("lock", "l", elsewhere())
    wall.now += 29
    with store.changing() as tx:
        held = who_holds(tx, "l")
        assert held is not None
        assert held.alive is None
    wall.now += 1
    with store.changing() as tx:
        assert Lock("l", "mine").take(tx) is None


def test_a_clock_that_is_set_back_does_not_keep_a_lock(store: Store, wall: Wall) -> None:
    with store.changing() as tx:
        tx.put("lock", "l", elsewhere())
    wall.now -= YEAR
    with store.changing() as tx:
        assert Lock("l", "mine").take(tx) is not None
    wall.now += 30
    with store.changing() as tx:
        assert Lock("l", "mine").take(tx) is None


def test_a_living_holder_keeps_its_lock_however_the_clock_is_set(store: Store, wall: Wall) -> None:
    with store.changing() as tx:
        assert Lock("l", "mine").take(tx) is None
    for step in (YEAR, -2 * YEAR):
        wall.now += step
        with store.changing() as tx:
            assert Lock("l", "other").take(tx) is not None


def test_a_heartbeat_renews_the_lock_until_it_is_lost(store: Store) -> None:
    lock = Lock("l", "mine", lease=0.03)
    with store.changing() as tx:
        assert lock.take(tx) is None
    heartbeat = Heartbeat(store.path, lock)
    heartbeat.start()

    def written() -> float:
        with store.looking() as tx:
            kept = tx.get(locks.KIND, "l")
        return 0.0 if kept is None else kept.at

    first = written()
    wait_for(lambda: written() > first, "no beat came")
    with store.changing() as tx:
        tx.drop(locks.KIND, "l")
    wait_for(lambda: heartbeat.lost, "the loss was not seen")
    heartbeat.stop()


def test_a_heartbeat_lives_through_a_file_that_is_locked(store: Store) -> None:
    lock = Lock("l", "mine", lease=0.03)
    with store.changing() as tx:
        assert lock.take(tx) is None
    heartbeat = Heartbeat(store.path, lock)
    heartbeat.start()
    with store.changing() as tx:
        before = tx.now
        tx.put("budget", "other", {})
    wait_for(lambda: _written(store) > before, "no beat came")
    heartbeat.stop()
    assert not heartbeat.lost


def _written(store: Store) -> float:
    with store.looking() as tx:
        kept = tx.get(locks.KIND, "l")
    assert kept is not None
    return kept.at


def test_a_heartbeat_leaves_signals_to_the_thread_that_waits_for_them(store: Store) -> None:
    import signal
    import threading

    lock = Lock("l", "mine")
    heartbeat = Heartbeat(store.path, lock)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    heartbeat.start()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    status = Path(f"/proc/self/task/{_native(threading.enumerate())}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    heartbeat.stop()
    assert blocked & (1 << (signal.SIGTERM - 1))


def _native(threads: list[Any]) -> int:
    return int(next(one.native_id for one in threads if one.name == "perdure lock"))


assert BOUND  # the bound of wait_for

"""For how long a key may be sent, and what clocks that jump do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perdure.idempotency import AlreadyDone, ClientStore, Keys, OutcomeUnknown
from perdure.testing import VirtualClock
from tests.idempotency.claims import claimed, rows

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3600.0


@pytest.mark.parametrize(("after", "refused"), [(22.9 * HOUR, False), (23 * HOUR, True), (1000 * HOUR, True)])
def test_i74_an_unfinished_key_is_not_sent_an_hour_before_the_server_forgets(
    store: ClientStore, after: float, *, refused: bool
) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        first = claimed(keys, operation="order-17")
        first.unknown()
        clock.advance(after)
        if not refused:
            assert claimed(keys, operation="order-17").key == first.key
            return
        with pytest.raises(OutcomeUnknown, match="then forget the key"):
            claimed(keys, operation="order-17")
        assert [one.key for one in store.pending()] == [first.key]


def test_i74_margin_and_retention_can_be_set(store: ClientStore) -> None:
    with VirtualClock() as clock:
        claimed(Keys(store=store), operation="order-17").unknown()
        clock.advance(100)
        claimed(Keys(store=store, retention=111, margin=10), operation="order-17").unknown()
        with pytest.raises(OutcomeUnknown):
            claimed(Keys(store=store, retention=110, margin=10), operation="order-17")


def test_i74_a_server_that_never_forgets_has_no_such_end(store: ClientStore) -> None:
    keys = Keys("amazon-pay", store=store)
    with VirtualClock() as clock:
        first = claimed(keys, operation="order-17")
        first.unknown()
        clock.advance(10_000 * HOUR)
        assert claimed(keys, operation="order-17").key == first.key


def test_i74_the_age_counts_from_the_first_time(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        for _ in range(2):
            claimed(keys, operation="order-17").unknown()
            clock.advance(12 * HOUR)
        with pytest.raises(OutcomeUnknown):
            claimed(keys, operation="order-17")


def test_what_was_done_is_not_sent_again_once_the_server_may_have_forgotten(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        first = claimed(keys, operation="order-17")
        first.done(201)
        clock.advance(23 * HOUR)
        with pytest.raises(AlreadyDone) as caught:
            claimed(keys, operation="order-17")
        assert (caught.value.key, caught.value.status) == (first.key, 201)


def test_what_was_done_is_purged_after_keep_and_what_is_unfinished_stays(tmp_path: Path) -> None:
    with VirtualClock() as clock, ClientStore(tmp_path / "keys.sqlite", keep=100) as store:
        keys = Keys(store=store)
        for number in range(5):
            claimed(keys, operation=f"done-{number}").done(200)
        claimed(keys, operation="unfinished").unknown()
        clock.advance(101)
        claimed(keys, operation="new").done(200)
        assert [operation for _, operation, _ in rows(store)] == ["unfinished", "new"]


def test_a_purge_takes_a_batch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.idempotency.client_store._BATCH", 2)
    with VirtualClock() as clock, ClientStore(tmp_path / "keys.sqlite", keep=100) as store:
        keys = Keys(store=store)
        for number in range(5):
            claimed(keys, operation=f"done-{number}").done(200)
        clock.advance(101)
        left = []
        for _ in range(3):
            claimed(keys).done(200)
            left.append(len(rows(store)))
        assert left == [3, 1, 0]


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the wall clock, and it alone."""
    from perdure import clock

    before = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: before() + seconds)


def test_a_clock_set_far_ahead_purges_nothing_and_holds_keys_back(
    store: ClientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(store=store)
    with VirtualClock():
        first = claimed(keys, operation="a")
        first.unknown()
        claimed(keys, operation="b").done(200)
        with monkeypatch.context() as patch:
            jump(patch, 1e6)
            with pytest.raises(OutcomeUnknown):
                claimed(keys, operation="a")
            assert len(rows(store)) == 2
        assert claimed(keys, operation="a").key == first.key


def test_a_clock_set_back_does_not_make_a_key_young(
    store: ClientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        claimed(keys, operation="a").unknown()
        with monkeypatch.context() as patch:
            jump(patch, -1e6)
            claimed(keys, operation="a").unknown()
            clock.advance(23 * HOUR)
            with pytest.raises(OutcomeUnknown):
                claimed(keys, operation="a")


def test_after_a_start_of_the_machine_a_key_from_the_future_has_no_known_age(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        clock.advance(10 * HOUR)
        claimed(keys, operation="a").unknown()
    with VirtualClock(), pytest.raises(OutcomeUnknown):  # ten hours earlier, and another start
        claimed(keys, operation="a")

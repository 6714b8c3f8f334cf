"""The file of keys: what is on the disk, and who finds it there."""

from __future__ import annotations

import pytest

from perdure.idempotency import ClientStore, InProgress, KeyReused, Keys
from perdure.testing import VirtualClock
from tests.idempotency.claims import claimed, rows


def test_i71_the_key_is_in_the_file_before_the_claim_is_given(store: ClientStore) -> None:
    claim = claimed(Keys(store=store), operation="order-17")
    assert rows(store) == [(claim.key, "order-17", "open")]


def test_i71_every_commit_is_on_the_disk(store: ClientStore) -> None:
    with store._database.changing() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_another_store_on_the_file_finds_the_operation(store: ClientStore) -> None:
    first = claimed(Keys(store=store), operation="order-17")
    first.unknown()
    with ClientStore(store.path) as other:
        second = claimed(Keys(store=other), operation="order-17")
        assert (second.key, second.resumed) == (first.key, True)
        second.done(201)
    third = claimed(Keys(store=store), operation="order-17")
    assert third.key == first.key


def test_i73_another_payload_is_refused_across_stores(store: ClientStore) -> None:
    claimed(Keys(store=store), operation="order-17").done(200)
    with ClientStore(store.path) as other, pytest.raises(KeyReused):
        claimed(Keys(store=other), b"other", operation="order-17")


def test_b107_two_stores_on_one_file_have_one_call(store: ClientStore) -> None:
    first = claimed(Keys(store=store), operation="order-17")
    with ClientStore(store.path) as other, pytest.raises(InProgress) as caught:
        claimed(Keys(store=other), operation="order-17")
    assert caught.value.key == first.key


def test_a_drawn_key_leaves_no_row_once_it_is_done(store: ClientStore) -> None:
    keys = Keys(store=store)
    claimed(keys).done(201)
    claimed(keys).failed()
    assert rows(store) == []
    claimed(keys).unknown()
    assert [state for _, _, state in rows(store)] == ["unknown"]


def test_pending_lists_what_is_unfinished_and_forget_drops_it(store: ClientStore) -> None:
    keys = Keys(store=store)
    with VirtualClock() as clock:
        going_on = claimed(keys, operation="a")
        clock.advance(1)
        claimed(keys, operation="b").done(503)
        claimed(keys, operation="c").done(200)
        found = store.pending()
        assert [(one.operation, one.status, one.in_progress) for one in found] == [
            ("a", None, True),
            ("b", 503, False),
        ]
        assert (found[0].key, found[0].host, found[1].first - found[0].first) == (
            going_on.key,
            "api.example.com",
            1,
        )
        assert store.pending(limit=1) == found[:1]
        assert store.forget(found[1].key)
        assert not store.forget(found[1].key)
        assert claimed(keys, operation="b").key != found[1].key


def test_a_row_that_was_forgotten_can_still_be_ended(store: ClientStore) -> None:
    claim = claimed(Keys(store=store), operation="a")
    store.forget(claim.key)
    assert claim.done(200)
    assert rows(store) == []

"""Idempotency keys under every HTTP integration: one key for one logical call (I-70 to I-78; B105, B107)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Dependency
from perdure.idempotency import ClientStore, Keys
from perdure.testing import no_waits
from tests.integration import wire
from tests.integration.clients import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.clients import Client


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


def dependency(**given: Any) -> Dependency:
    return Dependency("payments", replace=True, gate=None, **{"retry": perdure.Retry(attempts=6), **given})


def keys_of(server: Any, field: str = "idempotency-key") -> list[str | None]:
    return [request.headers.get(field) for request in server.requests]


@each()
def test_one_key_over_every_attempt(client: Client) -> None:
    failing = [wire.answer(500), wire.close(), wire.answer(503), wire.reset(), wire.answer(201)]
    with wire.serve(*failing) as server, client.open(dependency(), idempotency=Keys()) as session:
        assert session.send("POST", server.url, b"order").status == 201
    assert len(server.requests) == 5
    assert len(set(keys_of(server))) == 1
    assert None not in keys_of(server)


@each()
def test_another_call_has_another_key(client: Client) -> None:
    with wire.serve(wire.answer(201)) as server, client.open(dependency(), idempotency=Keys()) as session:
        for _ in range(2):
            session.send("POST", server.url, b"order")
    assert len(set(keys_of(server))) == 2


@each(only=lambda client: client.follows_redirects)
def test_one_key_over_redirects(client: Client) -> None:
    steps = [wire.redirect("/there", 307), wire.answer(503), wire.answer(201)]
    with wire.serve(*steps) as server, client.open(dependency(), idempotency=Keys()) as session:
        assert session.send("POST", server.url, b"order").status == 201
    assert len(server.requests) == 3
    assert len(set(keys_of(server))) == 1


@each()
def test_reads_get_no_key(client: Client) -> None:
    with wire.serve(wire.answer(200)) as server, client.open(dependency(), idempotency=Keys()) as session:
        session.send("GET", server.url)
    assert keys_of(server) == [None]


@each()
def test_a_conflict_in_progress_is_asked_again(client: Client) -> None:
    steps = [wire.answer(409, {"Retry-After": "1"}), wire.answer(201, {"Idempotent-Replayed": "true"})]
    with wire.serve(*steps) as server, client.open(dependency(), idempotency=Keys()) as session:
        answer = session.send("POST", server.url, b"order")
    assert answer.status == 201
    assert perdure.idempotency.replayed(answer.response)


@each()
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_asked_again(client: Client, status: int) -> None:
    with wire.serve(wire.answer(status)) as server, client.open(dependency(), idempotency=Keys()) as session:
        assert session.send("POST", server.url, b"order").status == status
    assert len(server.requests) == 1


@each()
def test_the_users_own_key_is_kept(client: Client) -> None:
    with wire.serve(wire.answer(500), wire.answer(201)) as server:
        with client.open(dependency(), idempotency=Keys()) as session:
            session.send("POST", server.url, b"order", override={"idempotency_key": "order-17"})
    assert {key.strip('"') for key in keys_of(server) if key} == {"order-17"}


@each()
def test_another_payload_under_the_same_key_is_not_sent(client: Client) -> None:
    with wire.serve(wire.answer(201)) as server, client.open(dependency(), idempotency=Keys()) as session:
        session.send("POST", server.url, b"order 17", override={"idempotency_key": "k17"})
        with pytest.raises(perdure.idempotency.KeyReused):
            session.send("POST", server.url, b"order 18", override={"idempotency_key": "k17"})
    assert len(server.requests) == 1


@each()
def test_a_key_in_the_body(client: Client) -> None:
    with wire.serve(wire.answer(500), wire.answer(201)) as server:
        with client.open(dependency(), idempotency=Keys("square")) as session:
            session.send("POST", server.url, b'{"amount": 7}', {"Content-Type": "application/json"})
    sent = [json.loads(request.body) for request in server.requests]
    assert sent[0] == sent[1]
    assert sent[0]["amount"] == 7
    assert sent[0]["idempotency_key"]


@each()
def test_an_operation_whose_outcome_is_unknown_finds_its_key_again(client: Client, tmp_path: Path) -> None:
    with ClientStore(tmp_path / "keys.sqlite") as store:
        keys = Keys(store=store)
        said = {"operation": "order-17"}
        with wire.serve(wire.close(), wire.answer(201)) as server:
            single = dependency(retry=None)
            with client.open(single, idempotency=keys) as session:
                with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
                    session.send("POST", server.url, b"order", override=said)
                assert [one.operation for one in store.pending()] == ["order-17"]
                assert session.send("POST", server.url, b"order", override=said).status == 201
        assert len(set(keys_of(server))) == 1
        assert store.pending() == []

"""The HTTP integrations against an ASGI application under uvicorn, over TLS, and with hedges."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

import perdure
from perdure import Dependency, FaultKind, Hedge, Retry
from perdure.idempotency import Keys
from perdure.testing import no_waits
from tests.integration import wire
from tests.integration.clients import each

if TYPE_CHECKING:
    from tests.integration.clients import Client

assert uvicorn  # the file is left out where it is not installed


class Shop:
    """An application that is overloaded, then loses a stream, then sells; it keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        status = {1: 503, 2: 502}.get(len(self.bodies), 200)
        headers = [(b"retry-after", b"1")] if status == 503 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number in range(3):
            part = b"part %d " % number if status == 200 else b"sorry "
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@each()
def test_an_application_under_uvicorn(client: Client) -> None:
    shop = Shop()
    with (
        wire.asgi(shop) as running,
        client.open(Dependency("shop", replace=True, gate=None)) as session,
        no_waits(),
    ):
        answer = session.send("PUT", running.url, b"order")
    assert (answer.status, answer.body) == (200, b"part 0 part 1 part 2 ")
    assert shop.bodies == [b"order"] * 3
    assert [record.source for record in answer.attempts] == ["hint", "computed"]


@each()
def test_a_certificate_that_is_not_trusted_is_not_tried_again(client: Client) -> None:
    with wire.serve(wire.answer(200), tls="untrusted") as server, client.open(Retry()) as session:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own
            session.send("GET", server.url)
    records = perdure.attempts_of(caught.value)
    assert [record.fault.kind for record in records] == [FaultKind.PERMANENT]


@each(only=lambda client: "trio" not in client.name)
def test_hedges_of_a_keyed_request_carry_one_key(client: Client) -> None:
    release = threading.Event()

    def first_hangs(_: wire.Request) -> wire.Step:
        if len(server.requests) == 1:
            release.wait(20)  # until its hedge has won
        else:
            release.set()
        return wire.answer(201, body=b"done")

    policy = Dependency("hedged", replace=True, hedge=Hedge(delay=0.05), safety=None)
    with wire.serve(wire.call(first_hangs)) as server:
        with client.open(policy, idempotency=Keys(), timeout=20) as session:
            assert session.send("POST", server.url, b"order").body == b"done"
        server.wait_for(requests=2)
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1

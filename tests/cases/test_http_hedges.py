"""Hedged requests: one answer is given, the other lets go of its connection, and both carry one key: B105, B114.

What can be sent once is not hedged: a copy would take part of the body.
"""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from perdure import Hedge, Retry, Safety
from perdure.idempotency import Keys
from tests.cases.http_sessions import ASYNC, SYNC, Ask, aopened, clients, dependency, opened, run
from tests.dependency.made import until
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator 'httpcore:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning"),
]


def hedged(**given: Any) -> Any:
    return dependency(hedge=Hedge(delay=0.02), retry=Retry(attempts=3, **given))


class Slow:
    """A server of which the first answer comes when the test lets it, and all others at once."""

    def __init__(self, status: int = 200) -> None:
        self.may_go = threading.Event()
        self.first = wire.answer(status, body=b"first" + b"x" * 100_000)

    def steps(self) -> tuple[wire.Step, ...]:
        return wire.call(self._held), wire.answer(body=b"second"), wire.answer(body=b"third")

    def _held(self, _: wire.Request) -> wire.Step:
        assert self.may_go.wait(10)
        return self.first


@clients(*SYNC)
@pytest.mark.parametrize("status", [200, 503, 404])
def test_b114_a_thread_that_lost_lets_go_of_its_answer(client: str, status: int) -> None:
    slow = Slow(status)
    with wire.serve(*slow.steps()) as server, ExitStack() as stack:
        session = opened(stack, client, hedged(), pool=2)
        try:
            got = session.send(Ask(server.url))
            assert (got.status, got.body) == (200, b"second")
        finally:
            slow.may_go.set()
        until(lambda: session.taken() == 0)
        assert session.send(Ask(server.url)).body == b"third"


@clients(*ASYNC)
def test_b114_a_task_that_lost_lets_go_of_its_connection(client: str) -> None:
    slow = Slow()

    async def main(url: str) -> None:
        async with AsyncExitStack() as stack:
            session = await aopened(stack, client, hedged(), pool=2)
            got = await session.send(Ask(url))
            assert (got.status, got.body) == (200, b"second")
            assert session.taken() == 0
            assert (await session.send(Ask(url))).body == b"third"

    with wire.serve(*slow.steps()) as server:
        try:
            run(client, lambda: main(server.url))
        finally:
            slow.may_go.set()


@clients()
def test_b105_both_carry_the_key_of_the_call(client: str) -> None:
    slow = Slow()
    ask = {"method": "POST", "body": b"order"}

    async def main(url: str) -> None:
        async with AsyncExitStack() as stack:
            session = await aopened(stack, client, hedged(), pool=2, idempotency=Keys())
            assert (await session.send(Ask(url, **ask))).status == 200

    with wire.serve(*slow.steps()) as server, ExitStack() as stack:
        try:
            if client in ASYNC:
                run(client, lambda: main(server.url))
            else:
                session = opened(stack, client, hedged(), pool=2, idempotency=Keys())
                assert session.send(Ask(server.url, **ask)).status == 200
        finally:
            slow.may_go.set()
        if client in SYNC:
            until(lambda: session.taken() == 0)
        assert len(server.requests) == 2
        assert len({request.headers["idempotency-key"] for request in server.requests}) == 1


@clients(*SYNC)
@pytest.mark.parametrize("kind", ["unsafe", "one-shot body"])
def test_b109_what_may_not_be_copied_is_not_hedged(client: str, kind: str) -> None:
    """The answer comes a good while after the delay of the hedge; there is one request all the same."""
    bell = threading.Event()

    def late(_: wire.Request) -> wire.Step:
        bell.wait(0.06)
        return wire.answer(body=b"ok")

    body: Iterator[bytes] | bytes = iter([b"all ", b"of it"]) if kind == "one-shot body" else b"all of it"
    with wire.serve(wire.call(late)) as server, ExitStack() as stack:
        safety = Safety.SAFE if kind == "one-shot body" else None
        session = opened(stack, client, hedged(safety=safety), pool=2)
        assert session.send(Ask(server.url, "POST", body)).body == b"ok"
        assert [request.body for request in server.requests] == [b"all of it"]

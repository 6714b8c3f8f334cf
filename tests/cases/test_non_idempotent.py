"""What may not happen twice does not: B102, B103, B104, B105, B107."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Retry, Safety, Timeouts
from perdure.idempotency import ClientStore, InProgress, Keys
from perdure.testing import no_waits
from tests.cases.http_sessions import (
    ASYNC,
    SYNC,
    Ask,
    Got,
    aopened,
    clients,
    dependency,
    opened,
    play,
    run,
)
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _waits() -> Iterator[None]:
    with no_waits():
        yield


OK = wire.answer(201, body=b"ok")
QUICK = {"timeouts": Timeouts(connect=0.2, read=0.05)}
MAKES = {
    "retry": lambda **given: Retry(attempts=2, attempt_timeout=0.05, **given),
    "dependency": lambda **given: dependency(retry=Retry(attempts=2, **given), **QUICK),
}


class Counter:
    """Counts, and takes its time to say so: the effect is there when the client gives up."""

    def __init__(self) -> None:
        self.value = 0

    def step(self) -> wire.Step:
        return wire.call(self._counted)

    def _counted(self, _: wire.Request) -> wire.Step:
        self.value += 1
        return wire.hang()


@clients()
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_b102_a_read_timeout_of_a_post_ends_the_call(client: str, make: Any) -> None:
    """urllib3#1059: the server was slow, and the order came twice."""
    counter = Counter()
    with wire.serve(counter.step()) as server:
        played = play(client, make(), Ask(server.url, "POST", b"order"))
    assert counter.value == 1
    error = played.ends[0]
    assert len(perdure.attempts_of(error)) == 1
    assert "repeating it is not safe" in " ".join(error.__notes__)


@clients()
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_b102_what_is_idempotent_or_keyed_is_sent_again(client: str, make: Any) -> None:
    keyed = {"Idempotency-Key": "k"}
    for method, headers in (("PUT", None), ("POST", keyed)):
        with wire.serve(wire.hang(), OK) as server:
            played = play(client, make(), Ask(server.url, method, None, headers))
        assert played.statuses == [201], method


@clients()
def test_b103_an_operation_says_for_itself_whether_it_may_be_repeated(client: str) -> None:
    """INCR under GET is still no safe operation, and a search under POST is one."""
    for safety, method, times in ((Safety.UNSAFE, "GET", 1), (Safety.SAFE, "POST", 2), (None, "POST", 1)):
        counter = Counter()
        with wire.serve(counter.step()) as server:
            play(client, MAKES["retry"](safety=safety), Ask(server.url, method))
        assert counter.value == times, (safety, method)


@clients()
def test_b103_at_most_once(client: str) -> None:
    """A single attempt sends once, whatever becomes of it."""
    for step in (wire.hang(), wire.close(), wire.answer(503), wire.answer(429, {"Retry-After": "1"})):
        with wire.serve(step) as server:
            play(client, Retry(attempts=1, attempt_timeout=0.05), Ask(server.url, "POST", b"incr"))
        assert len(server.requests) == 1


BROKEN = {
    "silent": wire.close(),
    "reset": wire.reset(),
    "incomplete": wire.short_body(),
    "garbage": wire.garbage(),
}


@clients()
@pytest.mark.parametrize("broken", BROKEN)
def test_b104_a_kept_connection_that_is_lost(client: str, broken: str) -> None:
    """No client says that not one byte came over a connection used before, so it is as any lost answer is."""
    for method in ("GET", "POST"):
        with wire.serve(OK, BROKEN[broken], OK) as server:
            asks = [Ask(server.url, "POST", b"first"), Ask(server.url, method)]
            played = play(client, Retry(), *asks, whole=True)
            connections = [request.connection for request in server.requests]
        if method == "GET":
            assert played.statuses == [201, 201]
            assert connections == [1, 1, 2]
        else:
            assert isinstance(played.ends[1], Exception)
            assert connections == [1, 1]


@clients()
def test_b104_a_connection_that_ended_while_idle_costs_no_attempt(client: str) -> None:
    """The client sees that it was closed before it sends, so a POST goes over another one."""
    seen: list[int] = []

    def then(_: wire.Request) -> wire.Step:
        seen.append(1)
        return wire.answer(201, keep=False)

    with wire.serve(wire.call(then)) as server:
        played = play(client, Retry(), *[Ask(server.url, "POST", b"order")] * 3)
    assert played.statuses == [201, 201, 201]
    assert [end.attempts for end in played.ends] == [(), (), ()]
    assert len(seen) == 3


@clients()
def test_b105_a_key_is_made_once_for_a_call(client: str) -> None:
    """gocardless-pro-python#12: made in the function that is repeated, each attempt had another one."""
    made: list[str] = []

    def make() -> str:
        made.append(f"key-{len(made)}")
        return made[-1]

    failing = [wire.answer(500), wire.close(), wire.answer(503), wire.redirect("/there", 307), wire.reset()]
    with wire.serve(*failing, OK) as server:
        played = play(
            client,
            dependency(retry=Retry(attempts=6)),
            *[Ask(server.url, "POST", b"order")] * 2,
            idempotency=Keys(make=make),
        )
    assert played.statuses == [201, 201]
    assert made == ["key-0", "key-1"]
    sent = [request.headers["idempotency-key"].strip('"') for request in server.requests]
    assert sent == ["key-0"] * 6 + ["key-1"]


@clients()
def test_b105_a_call_that_goes_on_in_another_process_has_its_key(client: str, tmp_path: Path) -> None:
    """Another store on the same file is what another process would have."""
    with wire.serve(wire.close(), OK) as server:
        for _ in range(2):
            with ClientStore(tmp_path / "keys") as store, perdure.integrations.override(operation="order-17"):
                play(
                    client,
                    Retry(attempts=1),
                    Ask(server.url, "POST", b"order"),
                    idempotency=Keys(store=store),
                )
    first, second = [request.headers["idempotency-key"] for request in server.requests]
    assert first == second


@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "on disk"])
@clients(*SYNC)
def test_b107_two_threads_with_one_operation_have_one_effect(
    client: str, durable: bool, tmp_path: Path
) -> None:
    """The claim comes before the effect: the other one hears that it is in progress, and sends nothing."""
    reached, may_go = threading.Event(), threading.Event()

    def slow(_: wire.Request) -> wire.Step:
        reached.set()
        assert may_go.wait(10)
        return OK

    with wire.serve(wire.call(slow)) as server, ExitStack() as stack:
        keys = Keys(store=stack.enter_context(ClientStore(tmp_path / "keys")) if durable else None)
        session = opened(stack, client, Retry(), pool=2, idempotency=keys)

        def ask() -> Got:
            with perdure.integrations.override(operation="order-17"):
                got: Got = session.send(Ask(server.url, "POST", b"order"))
                return got

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(ask)
            assert reached.wait(10)
            try:
                with pytest.raises(InProgress):
                    ask()
            finally:
                may_go.set()
            assert first.result(10).status == 201
        assert len(server.requests) == 1


@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "on disk"])
@clients(*ASYNC)
def test_b107_two_tasks_with_one_operation_have_one_effect(
    client: str, durable: bool, tmp_path: Path
) -> None:
    """The answer waits until the others have heard that it is in progress."""
    is_trio, ends, may_go = client.endswith("trio"), list[Any](), threading.Event()

    def slow(_: wire.Request) -> wire.Step:
        assert may_go.wait(10)
        return OK

    async def main() -> None:
        async with AsyncExitStack() as stack:
            keys = Keys(store=stack.enter_context(ClientStore(tmp_path / "keys")) if durable else None)
            session = await aopened(stack, client, Retry(), pool=5, idempotency=keys)

            async def ask() -> None:
                with perdure.integrations.override(operation="order-17"):
                    try:
                        ends.append((await session.send(Ask(server.url, "POST", b"order"))).status)
                    except InProgress:
                        ends.append(InProgress)
                        if len(ends) == 4:
                            may_go.set()

            if is_trio:
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(ask)
            else:
                await asyncio.gather(*(ask() for _ in range(5)))

    with wire.serve(wire.call(slow)) as server:
        run(client, main)
        assert len(server.requests) == 1
    assert ends == [InProgress] * 4 + [201]

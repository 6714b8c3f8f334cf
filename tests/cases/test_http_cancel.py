"""A cancelled request gives its connection back, in an attempt as in a wait between two: B114, B115.

Whoever is cancelled learns of it as its loop says: perdure neither hides the cancellation nor repeats the request.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
import trio

import perdure
from perdure import Retry
from tests.cases.http_sessions import ASYNC, Ask, aopened, clients, dependency, run
from tests.integration import wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAKES = {"retry": Retry, "dependency": dependency}
LONG = perdure.Constant(1000)
# httpx leaves a generator of its own behind when a body is given up half read, which trio remarks on.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator 'httpcore:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*PoolByteStream:pytest.PytestUnraisableExceptionWarning"),
]


async def cancelled(
    client: str, work: Callable[[], Awaitable[Any]], when: Callable[[], Awaitable[Any]]
) -> None:
    """Begin the work and cancel it when the time has come; it must end as cancelled."""
    if client.endswith("trio"):
        ends: list[Any] = []
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_then, when, scope.cancel)
                ends.append(await work())
        assert scope.cancelled_caught
        assert ends == []
        return
    task = asyncio.ensure_future(work())
    await when()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _then(when: Callable[[], Awaitable[Any]], action: Callable[[], None]) -> None:
    await when()
    action()


async def in_thread(client: str, function: Callable[[], Any]) -> None:
    """Run a function that blocks."""
    await (trio.to_thread.run_sync(function) if client.endswith("trio") else asyncio.to_thread(function))


@clients(*ASYNC)
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("step", [wire.hang(), wire.hang_in_body()], ids=["before the answer", "in the body"])
def test_b115_a_request_cancelled_in_an_attempt(client: str, make: Any, step: wire.Step) -> None:
    with wire.serve(step, wire.answer(body=b"ok")) as server:

        async def main() -> None:
            async with AsyncExitStack() as stack:
                session = await aopened(stack, client, make(), whole=True)
                await cancelled(
                    client,
                    lambda: session.send(Ask(server.url)),
                    lambda: in_thread(client, lambda: server.wait_for(requests=1)),
                )
                assert session.taken() == 0
                assert (await session.send(Ask(server.url))).body == b"ok"

        run(client, main)
        assert len(server.requests) == 2


@clients(*ASYNC)
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize(
    "step",
    [wire.answer(503, body=b"x" * 300_000), wire.answer(429, body=b"x"), wire.close()],
    ids=["long answer", "short answer", "no answer"],
)
def test_b114_a_request_cancelled_in_a_wait(client: str, make: Any, step: wire.Step) -> None:
    """The connection is back before the wait begins, and so for others while it lasts."""
    with wire.serve(step, wire.answer(body=b"other"), wire.answer(body=b"ok")) as server:

        async def main() -> None:
            async with AsyncExitStack() as stack:
                waits = Waits(client)
                stack.callback(perdure.listen(waits.note))
                session = await aopened(stack, client, make(**POLICY[make]))

                async def others() -> None:
                    await waits.begun()
                    assert session.taken() == 0
                    assert (await session.send(Ask(server.url))).body == b"other"

                await cancelled(client, lambda: session.send(Ask(server.url)), others)
                assert session.taken() == 0
                assert (await session.send(Ask(server.url))).body == b"ok"

        run(client, main)
        assert len(server.requests) == 3


PATIENT = {"backoff": LONG, "deadline": None}
POLICY: dict[Any, dict[str, Any]] = {Retry: PATIENT, dependency: {"retry": Retry(**PATIENT)}}


class Waits:
    """Says when a wait was decided on, and the task has gone to sleep."""

    def __init__(self, client: str) -> None:
        self._is_trio = client.endswith("trio")
        self._event: Any = trio.Event() if self._is_trio else asyncio.Event()

    def note(self, event: perdure.Event) -> None:
        if event.name == "retry.scheduled":
            self._event.set()

    async def begun(self) -> None:
        """Wait for it; the decision is told in the same step as the task goes on to close and to sleep."""
        await self._event.wait()
        for _ in range(20):
            if self._is_trio:
                await trio.lowlevel.checkpoint()
            else:
                await asyncio.sleep(0)


@clients(*ASYNC)
def test_b115_a_callers_timeout_around_it(client: str) -> None:
    """As `asyncio.timeout` and `trio.move_on_after` do: in the attempt, over and over."""
    with wire.serve(wire.hang(), wire.hang(), wire.hang(), wire.answer(body=b"ok")) as server:

        async def main() -> None:
            async with AsyncExitStack() as stack:
                session = await aopened(stack, client, dependency())
                for _ in range(3):
                    if client.endswith("trio"):
                        with trio.move_on_after(0.05) as scope:
                            await session.send(Ask(server.url))
                        assert scope.cancelled_caught
                    else:
                        with pytest.raises(TimeoutError):
                            async with asyncio.timeout(0.05):
                                await session.send(Ask(server.url))
                    assert session.taken() == 0
                assert (await session.send(Ask(server.url))).body == b"ok"

        run(client, main)


TIMEOUTS = (TimeoutError, httpx.TimeoutException, httpx2.TimeoutException)


@clients(*ASYNC)
def test_b115_perdures_own_end_around_it(client: str) -> None:
    with wire.serve(wire.hang(), wire.answer(body=b"ok")) as server:

        async def main() -> None:
            async with AsyncExitStack() as stack:
                session = await aopened(stack, client, Retry())
                with pytest.raises(TIMEOUTS), perdure.deadline(0.05):
                    await session.send(Ask(server.url))
                assert session.taken() == 0
                assert (await session.send(Ask(server.url))).body == b"ok"

        run(client, main)

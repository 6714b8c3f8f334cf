"""Claims of async callers: the disk work is done in a thread, on asyncio and trio."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from perdure.idempotency import Claim, ClientStore, InProgress, Keys

trio = pytest.importorskip("trio")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

URL = "https://api.example.com/charges"

RUNNERS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "asyncio": lambda fn: asyncio.run(fn()),
    "trio": trio.run,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClientStore]:
    with ClientStore(tmp_path / "keys.sqlite") as opened:
        yield opened


@pytest.mark.parametrize("colour", RUNNERS)
def test_a_claim_is_made_and_ended_in_a_thread(
    colour: str, store: ClientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    for name in ("take", "settle"):
        real = getattr(store, name)
        monkeypatch.setattr(
            store, name, lambda *args, real=real: threads.append(threading.get_ident()) or real(*args)
        )
    keys = Keys(store=store)

    async def call() -> None:
        for end in (lambda one: one.aunknown(), lambda one: one.adone(503), lambda one: one.adone(201)):
            claim = await keys.aclaim("POST", URL, {}, b"{}", operation="order-17")
            assert claim is not None
            assert await end(claim)
        first = await keys.aclaim("POST", URL)
        assert first is not None
        assert await first.afailed()
        assert await first.afailed()

    RUNNERS[colour](call)
    assert len(threads) == 8
    assert threading.get_ident() not in threads
    assert store.pending() == []


@pytest.mark.parametrize("colour", RUNNERS)
def test_without_a_store_no_thread_is_needed(colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.idempotency.keys.in_thread", None)
    keys = Keys()

    async def call() -> None:
        claim = await keys.aclaim("POST", URL, {}, b"{}", operation="order-17")
        assert claim is not None
        with pytest.raises(InProgress):
            await keys.aclaim("POST", URL, {}, b"{}", operation="order-17")
        assert await claim.adone(200)
        assert await keys.aclaim("GET", URL) is None

    RUNNERS[colour](call)


@pytest.mark.parametrize("colour", RUNNERS)
def test_b107_of_many_tasks_with_one_operation_one_gets_it(colour: str, store: ClientStore) -> None:
    keys = Keys(store=store)
    got: list[Claim | InProgress | None] = []

    async def call() -> None:
        try:
            got.append(await keys.aclaim("POST", URL, {}, b"{}", operation="order-17"))
        except InProgress as refused:
            got.append(refused)

    async def in_asyncio() -> None:
        await asyncio.gather(*(call() for _ in range(8)))

    async def in_trio() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(call)

    RUNNERS[colour](in_asyncio if colour == "asyncio" else in_trio)
    assert sum(isinstance(one, Claim) for one in got) == 1
    assert sum(isinstance(one, InProgress) for one in got) == 7


def test_a_claim_that_comes_after_its_caller_was_cancelled_is_given_back(
    store: ClientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(store=store)
    inside, go_on, given_back = threading.Event(), threading.Event(), threading.Event()
    take, settle = store.take, store.settle

    def slow(*args: Any) -> Any:
        inside.set()
        assert go_on.wait(30)
        return take(*args)

    def last(*args: Any) -> None:
        settle(*args)
        given_back.set()

    monkeypatch.setattr(store, "take", slow)
    monkeypatch.setattr(store, "settle", last)

    async def call() -> None:
        task = asyncio.ensure_future(keys.aclaim("POST", URL, {}, b"{}", operation="order-17"))
        await asyncio.to_thread(inside.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.to_thread(given_back.wait, 30)

    asyncio.run(call())
    assert given_back.is_set()
    assert store.pending() == []

"""Arguments that a failed attempt has begun to consume are not handed to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure import Retry
from perdure.testing import VirtualClock
from tests.engine.tasks import LOOPS
from tests.harness import run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

POLICY = Retry(attempts=3, backoff=perdure.Constant(0))


def lines() -> Iterator[str]:
    yield "one"
    yield "two"


async def async_lines() -> AsyncIterator[str]:
    yield "one"
    yield "two"


async def work() -> str:
    return "done"


class Upload:
    """Reads ``items`` items of its body, then fails."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.calls = 0
        self.error = ConnectionError("cut")

    def __call__(self, body: Any, **_options: object) -> None:
        self.calls += 1
        for _, _item in zip(range(self.items), body, strict=False):
            pass
        raise self.error

    async def asynchronous(self, body: Any, **_options: object) -> None:
        self.calls += 1
        for _ in range(self.items):
            await anext(body, None)
        raise self.error


def outcome_of(upload: Upload, *args: object, **kwargs: object) -> perdure.Outcome[None]:
    with VirtualClock():
        return POLICY.outcome(upload, *args, **kwargs)


@pytest.mark.parametrize("items", [1, 2, 5], ids=["begun", "at its last item", "used up"])
@pytest.mark.parametrize("place", ["by position", "by name"])
def test_a_generator_that_an_attempt_began_is_not_replayed(items: int, place: str) -> None:
    upload = Upload(items)
    body = lines()
    outcome = outcome_of(upload, body) if place == "by position" else outcome_of(upload, body=body)
    assert outcome.error is upload.error, "the original error comes out"
    assert (outcome.stop, outcome.attempts, upload.calls) == ("unreplayable", 1, 1)
    assert "can be used only once" in upload.error.__notes__[0]


def test_a_generator_that_no_attempt_touched_is_handed_on() -> None:
    upload = Upload(0)
    outcome = outcome_of(upload, lines())
    assert (outcome.stop, upload.calls) == ("attempts", 3)


@pytest.mark.parametrize("body", [["one", "two"], ("one",), "text", range(3)], ids=repr)
def test_what_can_be_read_again_is_handed_on(body: object) -> None:
    upload = Upload(1)
    assert outcome_of(upload, body).attempts == 3


def test_a_generator_that_is_not_needed_any_more_changes_no_stop_reason() -> None:
    upload = Upload(1)
    with VirtualClock():
        assert POLICY.replace(attempts=1).outcome(upload, lines()).stop == "attempts"
        assert POLICY.replace(never=ConnectionError).outcome(upload, lines()).stop == "permanent"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("items", "stop", "calls"), [(0, "attempts", 3), (1, "unreplayable", 1), (5, "unreplayable", 1)]
)
def test_an_async_generator_counts_as_well(loop: str, items: int, stop: str, calls: int) -> None:
    upload = Upload(items)

    async def main() -> perdure.Outcome[None]:
        body = async_lines()
        try:
            return await POLICY.outcome(upload.asynchronous, body)
        finally:
            await body.aclose()  # type: ignore[attr-defined]

    with VirtualClock():
        outcome = run_async(loop, main)
    assert (outcome.stop, upload.calls) == (stop, calls)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_coroutine_that_was_awaited_once_is_not_awaited_again(loop: str) -> None:
    calls = 0

    async def gather(part: Any) -> None:
        nonlocal calls
        calls += 1
        await part
        raise ConnectionError

    with VirtualClock():
        outcome = run_async(loop, lambda: POLICY.outcome(gather, work()))
    assert (outcome.stop, calls) == ("unreplayable", 1)


def test_the_decorated_form_stops_as_well() -> None:
    upload = Upload(1)
    guarded: Callable[..., None] = POLICY(upload)
    with pytest.raises(ConnectionError) as caught:
        guarded(lines())
    assert caught.value is upload.error
    assert upload.calls == 1

"""Tracebacks stay short and whole, and peculiar exception classes come out as they are; B127, rule 17."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

import perdure
from perdure import Constant, Retry
from perdure.testing import VirtualClock, no_waits
from tests.harness import COLOURS, play, run_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

POLICY = Retry(attempts=3, backoff=Constant(0))
OURS = str(Path(perdure.__file__).parent)


class MyError(ConnectionRefusedError):
    """What the user expects to catch."""


def frames(error: BaseException) -> list[str]:
    """The file names in the traceback, outermost first."""
    return [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]


def library_frames(error: BaseException) -> int:
    """How many of them are perdure's; its virtual clock is the test's own."""
    ours = [name for name in frames(error) if name == "<perdure>" or name.startswith(OURS)]
    return sum("testing" not in name for name in ours)


ERR = MyError("shared")


@pytest.fixture
def _fresh_err() -> None:
    """The shared error as if it had never been raised."""
    ERR.__traceback__ = None
    vars(ERR).clear()


def raise_shared() -> None:
    raise ERR


async def raise_shared_later() -> None:
    raise ERR


def through_block() -> None:
    for attempt in POLICY:
        with attempt:
            raise ERR


def through_generator() -> None:
    def items() -> Iterator[int]:
        raise ERR
        yield 1

    list(POLICY(items)())


def in_outer_block(call: Callable[[], Any]) -> None:
    for attempt in POLICY:
        with attempt:
            call()


async def in_task(call: Callable[[], Any]) -> None:
    if trio.lowlevel.in_trio_task():
        await call()
    else:
        await asyncio.ensure_future(call())


async def through_async_block() -> None:
    async for attempt in POLICY:
        with attempt:
            raise ERR


async def through_async_generator() -> None:
    async def items() -> AsyncIterator[int]:
        raise ERR
        yield 1

    async for _ in POLICY(items)():
        pass


async def through_async_outcome() -> None:
    (await POLICY.outcome(raise_shared_later)).unwrap()


SHARED: dict[str, Callable[[], Any]] = {
    "function": POLICY(raise_shared),
    "call": lambda: POLICY.call(raise_shared),
    "outcome": lambda: POLICY.outcome(raise_shared).unwrap(),
    "single": Retry(attempts=1)(raise_shared),
    "special": POLICY.replace(attempt_timeout=5, nested="outer")(raise_shared),
    "permanent": Retry(never=MyError)(raise_shared),
    "nested": POLICY(lambda: SHARED["function"]()),
    "nested-in-block": lambda: in_outer_block(SHARED["function"]),
    "both": POLICY.replace(nested="both")(lambda: SHARED["function"]()),
    "block": through_block,
    "generator": through_generator,
}
SHARED_LATER: dict[str, Callable[[], Any]] = {
    "function": POLICY(raise_shared_later),
    "call": lambda: POLICY.call(raise_shared_later),
    "outcome": through_async_outcome,
    "lambda": POLICY(lambda: raise_shared_later()),
    "special": POLICY.replace(attempt_timeout=5, nested="outer")(raise_shared_later),
    "permanent": Retry(never=MyError)(raise_shared_later),
    "nested": POLICY(lambda: SHARED_LATER["function"]()),
    "task": POLICY(lambda: in_task(SHARED_LATER["function"])),
    "block": through_async_block,
    "generator": through_async_generator,
}
LAYERED = ("nested", "nested-in-block", "task")
"""The ways with two layers, each of which has a word to say."""

ALL_SHARED = [*SHARED, *(f"{loop} {name}" for loop in ("asyncio", "trio") for name in SHARED_LATER)]


def sizes(way: str, count: int) -> list[tuple[int, int]]:
    """The length of the traceback, and the number of notes, after each of so many failing calls."""
    loop, _, name = way.rpartition(" ")
    measured = []

    def measure(error: MyError) -> None:
        assert error is ERR
        measured.append((len(frames(error)), len(error.__notes__)))

    async def main() -> None:
        for _ in range(count):
            try:
                await SHARED_LATER[name]()
            except MyError as error:
                measure(error)

    if loop:
        run_async(loop, main)
    else:
        for _ in range(count):
            try:
                SHARED[name]()
            except MyError as error:
                measure(error)
    assert len(measured) == count
    return measured


@pytest.mark.parametrize("path", ["fused", "general"])
@pytest.mark.parametrize("way", ALL_SHARED)
@pytest.mark.usefixtures("_fresh_err")
def test_an_error_object_that_is_raised_again_and_again_does_not_grow(way: str, path: str) -> None:
    """B127, B128: within one call and from call to call, by no more than the user's own raise adds."""
    with no_waits() if path == "fused" else VirtualClock():
        measured = sizes(way, 30)
    assert measured[-1] == measured[2]
    assert measured[-1][1] == (2 if way.endswith(LAYERED) else 1)


@pytest.mark.parametrize("attempts", [3, 40])
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.usefixtures("_fresh_err")
def test_an_error_object_does_not_grow_with_the_attempts_of_one_call(colour: str, attempts: int) -> None:
    """B127: forty attempts leave as long a traceback as three."""
    played = play(colour, Retry(attempts=attempts, backoff=Constant(0)), *[ERR] * attempts)
    assert (played.error, played.calls) == (ERR, attempts)
    mine = [name for name in frames(ERR) if "site-packages" not in name and "asyncio" not in name]
    assert len(mine) <= 14


@pytest.mark.parametrize("path", ["fused", "general"])
@pytest.mark.parametrize("way", ALL_SHARED)
@pytest.mark.usefixtures("_fresh_err")
def test_at_most_four_frames_in_a_traceback_are_ours(way: str, path: str) -> None:
    """Rule 17."""
    loop, _, name = way.rpartition(" ")

    async def main() -> None:
        await SHARED_LATER[name]()

    with no_waits() if path == "fused" else VirtualClock(), pytest.raises(MyError):
        run_async(loop, main) if loop else SHARED[name]()
    assert library_frames(ERR) <= (8 if way.endswith((*LAYERED, "both")) else 4)


def test_at_most_four_frames_are_ours_where_the_error_is_ours() -> None:
    """Rule 17: refusals, timeouts and rejections."""

    async def slow() -> None:
        async with perdure.deadline(1):
            await clock.asleep(5)

    calls: list[Callable[[], object]] = [
        lambda: Retry(attempts=1, reject=bool).call(lambda: 1),
        lambda: run_async("asyncio", Retry(attempts=1, attempt_timeout=1)(lambda: clock.asleep(5))),
        lambda: run_async("trio", Retry(attempts=1, attempt_timeout=1)(lambda: clock.asleep(5))),
        lambda: run_async("asyncio", slow),
    ]
    with VirtualClock() as clock:
        for call in calls:
            with pytest.raises(perdure.PerdureError) as caught:
                call()
            assert library_frames(caught.value) <= 4
        with perdure.deadline(0), pytest.raises(perdure.DeadlineExceeded) as caught_late:
            Retry().call(lambda: 1)
        assert library_frames(caught_late.value) <= 4


@pytest.mark.parametrize("path", ["fused", "general"])
@pytest.mark.parametrize("attempts", [1, 2, 3, 10])
def test_the_users_own_frames_are_all_there(attempts: int, path: str) -> None:
    """B127: from the caller down to the line that raised, also where each attempt raises a new error."""

    def deep(number: int) -> None:
        if number:
            deep(number - 1)
        raise MyError("here")

    with no_waits() if path == "fused" else VirtualClock(), pytest.raises(MyError) as caught:
        Retry(attempts=attempts, backoff=Constant(0))(deep)(5)
    trace = traceback.extract_tb(caught.value.__traceback__)
    mine = [entry.name for entry in trace if entry.filename == __file__]
    assert mine == ["test_the_users_own_frames_are_all_there", *["deep"] * 6]
    assert trace[-1].line == 'raise MyError("here")'
    assert f"perdure: gave up after {attempts} attempt" in "".join(traceback.format_exception(caught.value))


class NoNotes(ConnectionRefusedError):
    def add_note(self, note: str) -> None:
        raise RuntimeError(note)


class NoText(ConnectionRefusedError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NeverEqual(ConnectionRefusedError):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never compare me")

    __hash__ = None  # type: ignore[assignment] # as a class with __eq__ has it


class Frozen(ConnectionRefusedError):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class OddNotes(ConnectionRefusedError):
    __notes__ = ("a tuple",)  # type: ignore[assignment] # what somebody put there


class Slotted(ConnectionRefusedError):
    __slots__ = ("request",)


class Nosy(ConnectionRefusedError):
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name}")


class Liar(ConnectionRefusedError):
    @property
    def __class__(self) -> type:  # type: ignore[override] # a lie
        return KeyError


class Hiding(ConnectionRefusedError):
    __dict__ = {}  # type: ignore[assignment]


ODD = [NoNotes, NoText, NeverEqual, Frozen, OddNotes, Slotted, Nosy, Liar, Hiding]


@pytest.mark.parametrize("kind", ODD, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("colour", COLOURS)
def test_an_error_of_a_peculiar_class_comes_out_as_it_is(colour: str, kind: type[Exception]) -> None:
    """B127: whatever its class refuses, the user's error is not lost."""
    error = kind("odd")
    for _ in range(2):
        played = play(colour, POLICY, error, error, error)
        assert played.error is error
        assert played.calls == 3

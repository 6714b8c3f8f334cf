"""One case, every colour: sync, asyncio, trio, and blocks, all on virtual time.

``play(colour, policy, *outcomes)`` runs a scripted function under a policy and reports what happened; a case
written with it holds for every colour or fails by name.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from perdure.testing import Script, VirtualClock, record_events

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from perdure import Event, Retry

COLOURS = ("sync", "asyncio", "trio", "block", "asyncio-block", "trio-block")
ASYNC_COLOURS = ("asyncio", "trio", "asyncio-block", "trio-block")


@dataclass
class Played:
    """What a run of a script came to."""

    value: Any = None
    error: BaseException | None = None
    calls: int = 0
    waits: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    events: list[Event] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the events, in order."""
        return [event.name for event in self.events]


def play(colour: str, policy: Retry, *outcomes: object, seed: int = 0, listen: bool = True) -> Played:
    """Run the script under the policy in one colour; errors are reported, not raised."""
    script = Script(*outcomes)
    played = Played()
    with VirtualClock(seed=seed) as clock:
        if listen:
            with record_events() as seen:
                _run(colour, policy, script, played)
            played.events = seen
            played.waits = [
                event.delay for event in seen if event.name == "retry.scheduled" and event.delay is not None
            ]
        else:
            _run(colour, policy, script, played)
        played.elapsed = clock.now
    played.calls = len(script.calls)
    return played


def run_async(colour: str, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine function on the loop of the colour."""
    return trio.run(main) if colour.startswith("trio") else asyncio.run(main())


def _run(colour: str, policy: Retry, script: Script, played: Played) -> None:
    try:
        if colour == "sync":
            played.value = policy(script)()
        elif colour == "block":
            played.value = _block(policy, script)
        elif colour.endswith("-block"):
            played.value = run_async(colour, lambda: _async_block(policy, script))
        else:
            guarded = policy(script.asynchronous)
            played.value = run_async(colour, guarded)
    except BaseException as error:  # noqa: BLE001 - the report holds it
        played.error = error


def _block(policy: Retry, script: Script) -> Any:
    value = None
    for attempt in policy:
        with attempt:
            value = attempt.result(script())
    return value


async def _async_block(policy: Retry, script: Script) -> Any:
    value = None
    async for attempt in policy:
        with attempt:
            value = attempt.result(await script.asynchronous())
    return value

"""What tests of breakers share: dependencies of one attempt per call, failures, and calls in every colour."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from perdure import Breaker, BreakerOpen, Dependency, Event
from perdure.testing import Script
from tests import harness
from tests.harness import Played, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.dependency import View
    from perdure.testing import VirtualClock

PATIENCE = 30.0  # seconds until a test of real threads counts as stuck; none of them takes so long
OPEN = 61.0  # seconds after which every first open time, a minute shortened by up to a fifth, is over


class Answered(Exception):
    """An HTTP error as client libraries raise it."""

    def __init__(self, status: int, after: float | None = None) -> None:
        super().__init__(f"HTTP {status}")
        headers = {} if after is None else {"Retry-After": str(after)}
        self.response = SimpleNamespace(status_code=status, headers=headers)


def down() -> ConnectionError:
    """A failure of the dependency, new each time."""
    return ConnectionError("down")


def single(**breaker: Any) -> Dependency:
    """A dependency whose calls are single attempts, and with nothing but a breaker."""
    fields = {"failures": 3, "failure_rate": None, "ramp": False, **breaker}
    return Dependency("payments", retry=None, budget=None, gate=None, breaker=Breaker(**fields))


def state_of(dependency: Dependency | View) -> str:
    """The state of its breaker."""
    word: str = dependency.snapshot()["breaker"]["state"]
    return word


def in_flight(dependency: Dependency | View) -> int:
    """How many attempts the state holds places for."""
    return len(dependency._guard.fixed_state().flight)


def call(colour: str, dependency: Dependency | View, *outcomes: object) -> Played:
    """A call that ends so, in one colour, on the clock in force; its error is reported, not raised."""
    played, script = Played(), Script(*outcomes)
    harness._run(colour, dependency, script, played)  # type: ignore[arg-type] # a Dependency is used as a Retry
    played.calls = len(script.calls)
    return played


def refused(colour: str, dependency: Dependency | View) -> bool:
    """Whether the breaker refuses a call."""
    played = call(colour, dependency, "fine")
    return isinstance(played.error, BreakerOpen)


def trip(dependency: Dependency | View, colour: str = "sync", failures: int = 3) -> None:
    """Fail until the breaker is open."""
    for _ in range(failures):
        assert isinstance(call(colour, dependency, down()).error, ConnectionError)
    assert state_of(dependency) == "open"


def half_open(dependency: Dependency | View, clock: VirtualClock, colour: str = "sync") -> None:
    """Trip the breaker, and let the open time go by."""
    trip(dependency, colour)
    clock.advance(OPEN)
    assert state_of(dependency) == "half_open"


def during(colour: str, dependency: Dependency | View, inside: Callable[[], object]) -> object:
    """Make a call whose attempt does ``inside()``, in one colour; gives or raises what it comes to."""
    if colour == "block":
        for attempt in dependency:
            with attempt:
                return attempt.result(inside())
    if colour == "sync":
        return dependency(lambda: inside())()

    async def within() -> object:
        return inside()

    async def block() -> object:
        async for attempt in dependency:
            with attempt:
                return attempt.result(inside())
        return None

    return run_async(colour, block if colour.endswith("-block") else dependency(within))


def named(events: Sequence[Event], name: str) -> list[Event]:
    """The events of that name."""
    return [event for event in events if event.name == name]

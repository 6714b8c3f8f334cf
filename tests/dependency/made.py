"""Dependencies made for one test each, ways to call them, and what must hold once all calls have ended."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from perdure import Dependency
from perdure import clock as clocks
from perdure.engine import waiting
from perdure.testing import Script, record_events
from tests.engine.held import PATIENCE
from tests.harness import Played, _run

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.engine.state import State


def made(**parts: Any) -> Dependency:
    """A dependency with a state of its own."""
    return Dependency("payments", replace=True, **parts)


def state_of(dependency: Any) -> State:
    """The state behind a dependency or a view of it."""
    state: State = dependency._guard.fixed_state()
    return state


def called(colour: str, dependency: Any, *outcomes: object) -> Played:
    """``play`` on the clock in force, so that several calls share it."""
    script, played, start = Script(*outcomes), Played(), clocks.monotonic()
    with record_events() as played.events:
        _run(colour, dependency, script, played)
    played.waits = [
        event.delay for event in played.events if event.name == "retry.scheduled" and event.delay is not None
    ]
    played.calls = len(script.calls)
    played.elapsed = clocks.monotonic() - start
    return played


def assert_at_rest(dependency: Any) -> None:
    """Nothing is in flight, no place is taken, nobody waits."""
    for state in dependency._guard.core.states():
        assert state.flight == []
        if state.places is not None:
            assert (state.places.taken, state.places.waiting) == (0, 0)
        if state.breaker is not None:
            assert len(state.breaker._places) == 0
    assert not waiting.QUEUED


def until(holds: Callable[[], object]) -> None:
    """Let the other threads run until something holds."""
    bell = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if holds():
            return
        bell.wait(0.001)
    raise AssertionError("it never came to hold")

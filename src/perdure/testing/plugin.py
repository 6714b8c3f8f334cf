"""The pytest plugin: fixtures, and a clean state after each test.

Listeners, registered faults and a shutdown that a test leaves behind are taken back after it; what the program
set up when it was imported stays. Nothing is loaded before a test uses perdure.
"""

from __future__ import annotations

import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perdure.events import Event
    from perdure.faults.custom import Registered
    from perdure.testing import VirtualClock


@pytest.fixture(autouse=True)
def _perdure_state() -> Iterator[None]:
    before = _state()
    yield
    if "perdure.engine.run" in sys.modules or "perdure.events" in sys.modules:
        from perdure import events
        from perdure.faults import rules
        from perdure.testing import reset

        reset()
        if before is not None:
            events.restore(before[0])
            rules.restore(before[1])


@pytest.fixture
def perdure_clock() -> Iterator[VirtualClock]:
    """A virtual clock (seed 0) for the test."""
    from perdure.testing import VirtualClock

    with VirtualClock(seed=0) as clock:
        yield clock


@pytest.fixture
def perdure_no_waits() -> Iterator[list[float]]:
    """No waits in the test; the list of those that would have been."""
    from perdure.testing import no_waits

    with no_waits() as waits:
        yield waits


@pytest.fixture
def perdure_events() -> Iterator[list[Event]]:
    """The events of the test, as they happen."""
    from perdure.testing import record_events

    with record_events() as seen:
        yield seen


def _state() -> tuple[tuple[Callable[[Event], object], ...], tuple[Registered, ...]] | None:
    """The listeners and fault rules there are before the test, where the modules are loaded at all."""
    if "perdure.events" not in sys.modules or "perdure.faults.rules" not in sys.modules:
        return None
    from perdure import events
    from perdure.faults import rules

    return events.listeners, rules.registered()

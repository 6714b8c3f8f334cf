"""The pytest plugin: fixtures, and a clean state after each test.

Listeners, registered faults, dependencies and a shutdown that a test leaves behind are taken back after it; what
the program set up when it was imported stays, and its dependencies begin anew. Nothing is loaded before a test uses
perdure.
"""

from __future__ import annotations

import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from perdure.events import Event
    from perdure.faults.custom import Registered
    from perdure.testing import VirtualClock


@pytest.fixture(autouse=True)
def _perdure_state() -> Iterator[None]:
    listeners, rules, declared = _listeners(), _rules(), _declared()
    yield
    if "perdure.events" not in sys.modules and "perdure.faults.rules" not in sys.modules:
        return
    from perdure import events
    from perdure.faults import rules as registry
    from perdure.testing import reset

    reset()
    events.restore(listeners)
    registry.restore(rules)
    if "perdure.registry" in sys.modules:
        sys.modules["perdure.registry"].restore(declared)


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


def _listeners() -> tuple[Callable[[Event], object], ...]:
    """Who listens before the test; nobody where the module is not even loaded."""
    return sys.modules["perdure.events"].listeners if "perdure.events" in sys.modules else ()


def _declared() -> dict[str, Any]:
    """The dependencies that the program declared before the test."""
    name = "perdure.registry"
    return sys.modules[name].known() if name in sys.modules else {}


def _rules() -> tuple[Registered, ...]:
    """The fault rules that the program registered before the test."""
    name = "perdure.faults.rules"
    return sys.modules[name].registered() if name in sys.modules else ()

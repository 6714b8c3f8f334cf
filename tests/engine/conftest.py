"""Fixtures of the tests of the engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from perdure import bypass, time_left
from perdure.engine import shutdown
from perdure.testing import VirtualClock
from tests.engine.held import Held

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """Virtual time for the test."""
    with VirtualClock() as virtual:
        yield virtual


@pytest.fixture
def nothing_left_behind() -> Iterator[None]:
    """After the test there is no end, and calls take the fused path again."""
    yield
    assert time_left() is None
    assert not bypass.OPEN_ENDS
    assert not bypass.is_watched()
    assert bypass.NAMESPACE["_slow"] is False


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that end with the test, whatever it left waiting or held."""
    with ThreadPoolExecutor(8) as pool:
        yield pool
        shutdown.begin()
        for held in Held.all:
            with suppress(RuntimeError):  # a loop that has ended
                held.let_go()
        Held.all.clear()

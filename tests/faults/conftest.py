"""Every test of the classifier begins and ends with the shipped rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perdure import faults

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def shipped_rules() -> Iterator[None]:
    faults.reset()
    yield
    faults.reset()

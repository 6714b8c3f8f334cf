from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perdure.idempotency import ClientStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClientStore]:
    with ClientStore(tmp_path / "keys.sqlite") as opened:
        yield opened

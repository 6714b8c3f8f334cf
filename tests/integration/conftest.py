"""Ends the servers that tests started, and says in one line which services were not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration import services

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _end_of_services() -> Iterator[None]:
    yield
    services.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if services.missing:
        what = "; ".join(f"{name} ({why})" for name, why in sorted(services.missing.items()))
        terminalreporter.write_line(f"services not there, their tests skipped: {what}", yellow=True)

"""Where perdure is run as a process of its own, and what such a test may rely on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perdure import cli
from tests.cli.processes import Perdure

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all child processes, so that each need not compile what it imports."""
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture
def perdure(bytecode: Path, tmp_path: Path) -> Iterator[Perdure]:
    """The command, run in an empty folder without any PERDURE_ variable; ends what it started."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    source = str(Path(cli.__file__).parents[2])  # that of this very test, wherever the command is started
    env |= {"PYTHONPATH": source, "PYTHONPYCACHEPREFIX": str(bytecode), "TMPDIR": str(tmp_path)}
    env["XDG_STATE_HOME"] = str(tmp_path / "state")  # nothing of a test is shared with the user's own runs
    command = Perdure(env, tmp_path)
    yield command
    command.end_all()

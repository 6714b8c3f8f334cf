"""Where files are fetched: a server that errs, an empty folder, and the command in this process."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from perdure.cli.app import invoke
from perdure.testing import no_waits
from tests.cli.get.files import Files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any


@dataclass
class Done:
    """What a command did."""

    code: int
    out: bytes
    err: str
    waits: list[float]

    @property
    def report(self) -> dict[str, Any]:
        """The object that ``--json`` writes."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Get:
    """Runs ``perdure get`` here, without waiting."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes]) -> None:
        self.folder = folder
        self._capture = capture

    def __call__(self, *args: str) -> Done:
        self._capture.readouterr()
        with no_waits() as waits:
            code = invoke(["get", *args])
        out, err = self._capture.readouterr()
        return Done(code, out, err.decode(), waits)

    def file(self, name: str = "file.bin") -> bytes:
        return (self.folder / name).read_bytes()

    def part_size(self, name: str = "file.bin.part") -> int:
        path = self.folder / name
        return path.stat().st_size if path.exists() else 0

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Get:
    for name in [
        name for name in os.environ if name.startswith("PERDURE_") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Get(folder, capfdbinary)


@pytest.fixture
def server() -> Iterator[Files]:
    with Files() as files:
        yield files


@pytest.fixture
def servers() -> Iterator[list[Files]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Files()) for _ in range(3)]

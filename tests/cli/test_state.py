"""``perdure state``: what is shared, as text and as JSON, and how it is forgotten."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from perdure.cli.app import invoke
from perdure.cli.shared.breaker import SharedBreaker
from perdure.cli.shared.budget import SharedBudget
from perdure.cli.shared.lock import Lock
from perdure.cli.shared.store import Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shared"
    monkeypatch.setenv("PERDURE_STATE", str(path))
    return path


def fill(file: Path) -> None:
    one = SharedBreaker("mirror", 1, 3600, None)
    with Store(file) as store, store.changing() as tx:
        one.ask(tx)
        one.report(tx, "failure")
        SharedBudget("mirror", 4).deposit(tx)
        Lock("backup", "backup.sh").take(tx)
        Lock("new\nline", "backup.sh").take(tx)


def shown(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert invoke(["state", *args]) == code
    return capsys.readouterr().out


def test_nothing_is_shared_at_first_and_looking_makes_no_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys) == f"nothing is shared yet ({file})\n"
    assert json.loads(shown(capsys, "--json"))["breakers"] == []
    assert not file.exists()


def test_breakers_budgets_and_locks_are_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(file)
    lines = shown(capsys).splitlines()
    assert lines[0].startswith("breaker  mirror       open, ask again in ")
    assert lines[1] == "budget   mirror       3.1 retries left of 5"
    assert lines[2].startswith(f"lock     backup       held by process {os.getpid()} ('backup.sh') for ")
    assert lines[3].startswith("lock     'new\\nline'  held by process ")


def test_programs_get_one_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(file)
    found: dict[str, Any] = json.loads(shown(capsys, "--json"))
    assert (found["schema"], found["file"]) == ("perdure.state/1", str(file))
    (breaker,), (budget,), locks = found["breakers"], found["budgets"], found["locks"]
    assert 0.8 * 3600 - 60 < breaker.pop("retry_after") <= 3600
    assert breaker == {"name": "mirror", "state": "open", "probes": [], "failures": 1, "cooldown": 3600}
    assert budget == {"name": "mirror", "tokens": 3.1, "cap": 5}
    assert [(one["name"], one["pid"], one["program"], one["alive"]) for one in locks] == [
        ("backup", os.getpid(), "backup.sh", True),
        ("new\nline", os.getpid(), "backup.sh", True),
    ]


def test_the_file_can_be_given(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "other")
    assert "mirror" in shown(capsys, "--state", str(tmp_path / "other"))
    assert not file.exists()


def test_a_reset_forgets_a_breaker_and_a_budget(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(file)
    assert shown(capsys, "reset", "mirror") == "forgot breaker and budget 'mirror'\n"
    assert "mirror" not in shown(capsys)
    shown(capsys, "reset", "mirror", code=1)


def test_a_reset_takes_a_lock_away_only_by_force(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(file)
    assert invoke(["state", "reset", "backup"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"lock 'backup' is held by process {os.getpid()} ('backup.sh') for ")
    assert said.endswith("; --force takes it away\n")
    assert shown(capsys, "reset", "--force", "backup") == "forgot lock 'backup'\n"
    assert "backup " not in shown(capsys)


def test_the_file_of_a_reset_can_be_given_before_and_after_the_word(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path / "no such folder" / "file"))
    fill(file)
    fill(tmp_path / "other")
    assert shown(capsys, "--state", str(file), "reset", "mirror").startswith("forgot")
    assert shown(capsys, "reset", "--state", str(tmp_path / "other"), "mirror").startswith("forgot")


def test_a_reset_before_anything_is_shared_makes_no_file(file: Path) -> None:
    assert invoke(["state", "reset", "x"]) == 1
    assert not file.exists()

"""A file that cannot be used: a lock refuses, a breaker and a budget let pass, and each says so in one line."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from perdure.cli.shared.store import Store, Trouble
from tests.cli.processes import BOUND, Perdure, shell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def garbage(path: Path) -> None:
    path.write_bytes(b"this is not a database, and long enough that nobody takes it for an empty one" * 99)


def folder(path: Path) -> None:
    path.mkdir()


def nowhere(path: Path) -> None:
    """The folder that it is in is not there."""
    path.parent.rmdir()


def another(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (id)")
    db.close()


def newer(path: Path) -> None:
    with Store(path) as store, store.changing():
        pass
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()


def broken(path: Path) -> None:
    """Ours, with its pages overwritten in the middle."""
    with Store(path) as store, store.changing() as tx:
        for number in range(100):
            tx.put("lock", f"{number}", {"x": "y" * 100})
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


WAYS = [
    (garbage, "damaged, or no file of shared state; move it away to start afresh"),
    (folder, "Is a directory"),
    (nowhere, "No such file or directory"),
    (another, "this is the database of another program, no file of shared state"),
    (newer, "written by a newer perdure (version 99 of the file)"),
    (broken, "damaged, or no file of shared state; move it away to start afresh"),
]


@pytest.fixture
def path(perdure: Perdure) -> Path:
    (perdure.cwd / "folder").mkdir()
    return perdure.cwd / "folder" / "file"


@pytest.mark.parametrize(("spoil", "why"), WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_without_its_file_a_lock_is_not_had_and_the_command_not_run(
    perdure: Perdure, path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(path)
    ended = perdure.run("--lock", "l", "--state", "folder/file", "--", "touch", "ran")
    assert ended.returncode == 125
    assert ended.stderr.decode() == f"perdure: {path}: {why}\n"
    assert not (perdure.cwd / "ran").exists()


@pytest.mark.parametrize(("spoil", "why"), WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_without_its_file_a_breaker_and_a_budget_let_pass_with_one_warning(
    perdure: Perdure, path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(path)
    options = ("--breaker", "b", "--breaker-failures", "1", "--budget", "b", "--attempts", "3")
    ended = perdure.run(*options, "--state", "folder/file", "--", *shell("echo x; exit 7"))
    assert (ended.returncode, ended.stdout) == (7, b"x\n" * 3)
    warning, *said = ended.stderr.decode().splitlines()
    assert warning == f"perdure: {path}: {why}; goes on without --breaker and --budget"
    assert all(line.startswith("perdure: attempt ") for line in said)


@pytest.mark.parametrize(("spoil", "why"), [one for one in WAYS if one[0] is not nowhere])
def test_the_state_of_a_file_that_cannot_be_read_is_one_line(
    perdure: Perdure, path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(path)
    ended = perdure("state", "--state", "folder/file")
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert ended.stderr.decode() == f"perdure: {path}: {why}\n"


IMPATIENT = """
import sys
from perdure.cli import main
from perdure.cli.shared.store import Store
Store.__init__.__kwdefaults__["patience"] = 0.2
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("option", "code"), [("--lock", 125), ("--breaker", 0)])
def test_a_file_that_somebody_keeps_locked_is_waited_for_and_then_named(
    perdure: Perdure, path: Path, option: str, code: int
) -> None:
    with Store(path) as store, store.changing():
        pass
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    run = perdure.start_python("-c", IMPATIENT, "run", option, "x", "--state", "folder/file", "--", "true")
    _, said = run.communicate(timeout=BOUND)
    db.close()
    assert run.returncode == code
    (line,) = said.decode().splitlines()
    assert line.startswith(f"perdure: {path}: locked by another process for more than 200 ms")


def test_who_has_no_home_is_told_to_name_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from perdure.cli.shared import store

    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.default_path() == tmp_path / ".local" / "state" / "perdure" / "shared.sqlite"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert store.default_path() == tmp_path / "elsewhere" / "perdure" / "shared.sqlite"

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(store.Path, "home", no_home)
    with pytest.raises(Trouble, match="name a file with --state"):
        store.default_path()

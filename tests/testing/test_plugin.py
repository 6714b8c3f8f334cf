"""The pytest plugin: its fixtures, and that no test sees what another left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import perdure

if TYPE_CHECKING:
    from collections.abc import Callable

    Passes = Callable[[str, int], None]

SOURCE = str(Path(perdure.__file__).parent.parent)
LOADED = ("-p", "no:cacheprovider", "-p", "perdure.testing.plugin", "-W", "error")


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a folder in a process of its own, so that nothing of this one leaks in."""
    command = [sys.executable, "-m", "pytest", "-q", *options, str(folder)]
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    def check(source: str, count: int) -> None:
        (tmp_path / "test_it.py").write_text(source)
        done = run(tmp_path, *LOADED)
        assert f"{count} passed" in done.stdout, done.stdout + done.stderr

    return check


def test_the_fixtures(passes: Passes) -> None:
    passes(
        """
import perdure
from perdure.testing import Script

def script():
    return Script(ConnectionError(), "ok")

def test_clock(perdure_clock):
    assert perdure.Retry(backoff=perdure.Constant(5)).call(script()) == "ok"
    assert perdure_clock.now == 5
    assert perdure_clock.seed == 0

def test_no_waits(perdure_no_waits):
    assert perdure.Retry(backoff=perdure.Constant(5)).call(script()) == "ok"
    assert perdure_no_waits == [5]

def test_events(perdure_events, perdure_no_waits):
    perdure.Retry().call(script())
    assert [event.name for event in perdure_events][-1] == "call.end"

def test_after_them_time_is_real():
    from perdure import bypass, clock
    assert clock.virtual is None
    assert not bypass.NAMESPACE["_slow"]
""",
        4,
    )


def test_what_a_test_leaves_behind_is_gone_in_the_next(passes: Passes) -> None:
    passes(
        """
import perdure
from perdure import events, faults

def test_leaves_everything_behind():
    perdure.listen(print)
    faults.register(LookupError, perdure.FaultKind.TRANSIENT)
    perdure.close(final=True)

def test_sees_nothing_of_it():
    assert not events.listeners
    assert perdure.classify(LookupError()).kind is perdure.FaultKind.PERMANENT
    assert perdure.Retry().call(str) == ""
""",
        2,
    )


def test_what_the_program_set_up_at_import_stays(passes: Passes) -> None:
    passes(
        """
import perdure
from perdure import faults

heard = []
perdure.listen(heard.append)
faults.register(LookupError, perdure.FaultKind.TRANSIENT)

def check():
    heard.clear()
    assert perdure.classify(LookupError()).kind is perdure.FaultKind.TRANSIENT
    perdure.Retry().call(str)
    assert len(heard) == 4

def test_one():
    check()

def test_two():
    check()
""",
        2,
    )


def test_what_a_fixture_of_the_session_set_up_stays(passes: Passes) -> None:
    passes(
        """
import pytest, perdure

heard = []

@pytest.fixture(scope="session", autouse=True)
def listening():
    stop = perdure.listen(heard.append)
    yield
    stop()

def test_one():
    perdure.Retry().call(str)
    assert len(heard) == 4

def test_two():
    perdure.Retry().call(str)
    assert len(heard) == 8
""",
        2,
    )


def test_a_test_that_does_not_use_perdure_loads_nothing_of_its_engine(passes: Passes) -> None:
    passes(
        """
import sys

def test_plain():
    assert "perdure.engine.run" not in sys.modules

def test_still_plain():
    assert "perdure.engine.run" not in sys.modules
""",
        2,
    )


def test_a_test_that_imports_perdure_itself_is_cleaned_up_after_as_well(passes: Passes) -> None:
    passes(
        """
def test_imports_late():
    import perdure
    perdure.listen(print)
    perdure.close(final=True)

def test_sees_nothing_of_it():
    import perdure
    assert perdure.Retry().call(str) == ""
    assert not perdure.events.listeners
""",
        2,
    )


def test_the_fixtures_are_listed_with_what_they_are_for(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("")
    listed = run(tmp_path, "--fixtures", *LOADED).stdout
    for name in ("perdure_clock", "perdure_no_waits", "perdure_events"):
        line = next(line for line in listed.splitlines() if line.startswith(name))
        assert " -- " in line

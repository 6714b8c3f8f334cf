"""Settings for every test; what a test needs beyond them it takes from perdure.testing."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent

# A slow machine is not a bug: no per-example deadline. A failing example prints what reproduces it.
settings.register_profile("here", deadline=None, max_examples=50, print_blob=True)
# On a fresh machine there is no database of earlier failures, and one that is filled there is thrown away.
settings.register_profile("ci", settings.get_profile("here"), database=None)
# For a long look at one property: HYPOTHESIS_PROFILE=long make test ARGS="tests/... -k name --timeout=0"
settings.register_profile(
    "long", settings.get_profile("here"), max_examples=5000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "here"))

# The newest Python's environment has every client library, the others have those of HTTP. A test file that imports
# one which is not there is left out, in one visible line; where all should be there, that is an error.
IMPORT = re.compile(r"^(?:import|from) ([A-Za-z_][\w.]*)(?: import ([\w, ]+))?", re.MULTILINE)
# It takes the place of urllib3, so what is about it runs in an environment of its own.
ELSEWHERE = {"niquests", "jh2"}
left_out: dict[str, set[str]] = defaultdict(set)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs a library that is not installed."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    missing = missing_for(collection_path)
    for name in missing:
        left_out[name].add(collection_path.name)
    return True if missing else None


@cache
def missing_for(path: Path) -> frozenset[str]:
    """The top-level modules that a file, or what it imports of the tests, needs and that are not there."""
    found: set[str] = set()
    for module, names in IMPORT.findall(path.read_text()):
        top = module.partition(".")[0]
        if top == "tests":
            for name in (module, *(f"{module}.{one.strip()}" for one in names.split(","))):
                below = ROOT / f"{name.replace('.', '/')}.py"
                if below.is_file() and below != path:
                    found |= missing_for(below)
        elif top not in sys.stdlib_module_names and not _is_there(top):
            found.add(top)
    return frozenset(found)


@cache
def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    if left_out:
        files = {name for names in left_out.values() for name in names}
        what = ", ".join(sorted(left_out))
        terminalreporter.write_line(f"not installed, {len(files)} test files left out: {what}", yellow=True)
    if _should_be_there():
        terminalreporter.write_line(f"should be installed here: {', '.join(_should_be_there())}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where the environment should have had every library."""
    if _should_be_there():
        session.exitstatus = 1


def _should_be_there() -> list[str]:
    everything = os.environ.get("PERDURE_TEST_CLIENTS") == "all"
    return sorted(set(left_out) - ELSEWHERE) if everything else []

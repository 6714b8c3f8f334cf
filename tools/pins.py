"""Write requirements/*.txt: the exact versions of everything the project's environments hold.

The names come from pyproject.toml. Each supported Python installs them into a scratch environment, step by
step; what a step added is that step's file. Where the Pythons disagree, a line carries a marker.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path

import interpreters

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    ("build", "test", "http", "clients"),
    ("build", "test", "http", "check"),
    ("build", "test", "niquests"),
    ("build", "bench"),
)
HEADER = "# Written by `make pins` from pyproject.toml. Do not edit.\n"

# file -> package -> version -> the Pythons that chose it
Pins = dict[str, dict[str, dict[str, list[str]]]]


def main() -> None:
    """Resolve every step on every supported Python that is present."""
    names = _names()
    found = [python for python in interpreters.find().values() if python.minor in interpreters.SUPPORTED]
    missing = set(interpreters.SUPPORTED) - {python.minor for python in found}
    if missing:
        sys.exit(f"pins need every supported Python, missing: {', '.join(sorted(missing))}")
    pins: Pins = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for python in found:
        for steps in STEPS:
            _resolve(python, steps, names, pins)
    for part, packages in pins.items():
        lines = [line for package in sorted(packages) for line in _lines(package, packages[package])]
        (ROOT / f"requirements/{part}.txt").write_text(HEADER + "".join(lines))


def _names() -> dict[str, list[str]]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names: dict[str, list[str]] = {
        part: list(group) for part, group in pyproject["dependency-groups"].items()
    }
    names["build"] += pyproject["build-system"]["requires"]
    extras = pyproject["project"]["optional-dependencies"]
    # What the extras ask for, but for the HTTP client of one, which has a group.
    elsewhere = {"perdure", *(_bare(name) for name in names["http"])}
    names["test"] += [name for extra in extras.values() for name in extra if _bare(name) not in elsewhere]
    return names


def _bare(name: str) -> str:
    return re.split(r"[\[<>=!~; ]", name)[0]


def _resolve(
    python: interpreters.Interpreter, steps: tuple[str, ...], names: dict[str, list[str]], pins: Pins
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python.path, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        before: set[str] = set()
        for part in steps:
            subprocess.run([*pip, "install", "-qq", *names[part]], check=True)
            frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
            after = set(frozen.split())
            if not before <= after:
                sys.exit(f"{part} on Python {python.minor} moves pins of an earlier step: {before - after}")
            for line in after - before:
                package, version = line.split("==")
                pythons = pins[part][package.lower()][version]
                if python.minor not in pythons:
                    pythons.append(python.minor)
            before = after


def _lines(package: str, versions: dict[str, list[str]]) -> list[str]:
    if len(versions) == 1 and len(next(iter(versions.values()))) == len(interpreters.SUPPORTED):
        return [f"{package}=={version}\n" for version in versions]
    return [f"{package}=={version} ; {_marker(pythons)}\n" for version, pythons in sorted(versions.items())]


def _marker(pythons: list[str]) -> str:
    return " or ".join(f'python_version == "{minor}"' for minor in pythons)


if __name__ == "__main__":
    main()

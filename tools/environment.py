"""Build the project's virtual environments, and only when their content changed.

    python tools/environment.py NAME          make it ready and print its bin folder

An environment is built from scratch when its interpreter, its pins (requirements/), the packaging part of
pyproject.toml or the place of the checkout changed; a stamp inside it says from what it was built.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import interpreters

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parent.parent
PINS = {
    "test": ("build", "test", "http", "clients"),
    "older": ("build", "test", "http"),
    "niquests": ("build", "test", "niquests"),
    "check": ("build", "test", "http", "check"),
    "bench": ("build", "bench"),
}
# -qq: with less, a mirror that lacks something says so once per package.
PIP_INSTALL = ("-m", "pip", "install", "-qq", "--disable-pip-version-check")


def ready(name: str, python: interpreters.Interpreter, folder: str) -> Path:
    """Give the bin folder of an environment with the pins of `name` and perdure itself, built if need be."""
    home = ROOT / folder
    stamp = home / "perdure.stamp"
    wanted = _fingerprint(name, python)
    with _locked(ROOT / f"{folder}.lock"):
        if not stamp.is_file() or stamp.read_text() != wanted:
            print(f"building {folder}: Python {python.version}, requirements for {name}", file=sys.stderr)
            _build(name, python, home)
            stamp.write_text(wanted)
    return home / "bin"


def _build(name: str, python: interpreters.Interpreter, home: Path) -> None:
    subprocess.run([python.path, "-m", "venv", "--clear", home], check=True)
    install: list[str | Path] = [home / "bin/python", *PIP_INSTALL]
    pins = [f"--requirement={ROOT}/requirements/{part}.txt" for part in PINS[name]]
    subprocess.run([*install, *pins], check=True)
    # The build backend is pinned too, so it comes from the environment instead of a hidden download.
    subprocess.run([*install, "--no-deps", "--no-build-isolation", "--editable", ROOT], check=True)


def _fingerprint(name: str, python: interpreters.Interpreter) -> str:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [str(ROOT), str(python.path), python.version]
    parts += [repr(pyproject["build-system"]), repr(pyproject["project"])]
    parts += [(ROOT / f"requirements/{part}.txt").read_text() for part in PINS[name]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Let two `make` in one checkout take turns instead of building over each other."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Make the named environment ready on the newest Python and print where its programs are."""
    name = sys.argv[1]
    newest = list(interpreters.find().values())[-1]
    print(ready(name, newest, ".venv" if name == "test" else f".venv-{name}"))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"could not build the environment: {error}")

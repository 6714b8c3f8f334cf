"""The house keeps its shape: who may import whom, what `import perdure` costs, what no file may say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "perdure"

# Lowest first. A module may import from its own layer and from those below; what is not named here is on top.
LAYERS = (
    ("bypass", "checks", "clock", "colour", "durations", "errors", "events", "faults", "outcome"),
    ("adapt", "core", "parts"),
    ("engine",),
    ("policies",),
    ("plans", "registry", "settings"),
    ("dependency",),
)
TOP = len(LAYERS)

# Imports inside a function that point up, each with the reason it has to.
ALLOWED_UP: dict[tuple[str, str], str] = {}

# What a decider may not touch: it is given the time and the randomness, and it does not act.
IMPURE = {"time", "asyncio", "threading", "random", "logging"}

# `import perdure` stays out of these: slow to load, or a client library that is the user's choice.
HEAVY = {
    *("asyncio", "concurrent", "logging", "multiprocessing", "socket", "ssl", "subprocess", "threading"),
    *("click", "httpx", "requests", "rich", "trio", "urllib3"),
}

# Tests of real processes and sockets may wait in real time, each with the reason.
ALLOWED_SLEEPS: dict[str, str] = {}


class Import(NamedTuple):
    """One import as written: who, what, and where it stands."""

    module: str
    target: str
    line: int
    in_function: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(path: Path) -> Iterator[Import]:
    name = name_of(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node, in_function in run_time_nodes(ast.parse(path.read_text())):
        for target in targets_of(node, package):
            yield Import(name, target, node.lineno, in_function)


def run_time_nodes(tree: ast.AST, *, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from run_time_nodes(ast.Module(node.orelse, []), in_function=in_function)
            continue
        if isinstance(node, ast.stmt):
            yield node, in_function
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from run_time_nodes(node, in_function=inside)


def targets_of(node: ast.stmt, package: str) -> Iterable[str]:
    """The modules an import statement loads: `from perdure import core` means perdure.core."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, *filter(None, [node.module])])
    return [full if (full := f"{base}.{alias.name}") in modules() else base for alias in node.names]


def layer_of(module: str) -> int:
    part = (*module.split("."), "")[1]
    return next((rank for rank, names in enumerate(LAYERS) if part in names), TOP)


@cache
def all_imports() -> list[Import]:
    return list(dict.fromkeys(found for path in modules().values() for found in imports_of(path)))


def arrows_up(imports: Iterable[Import]) -> list[Import]:
    within = [found for found in imports if found.target.split(".")[0] == "perdure"]
    return [found for found in within if layer_of(found.target) > layer_of(found.module)]


def test_arrows_between_layers_point_down_only() -> None:
    back = [
        found
        for found in arrows_up(all_imports())
        if not (found.in_function and (found.module, found.target) in ALLOWED_UP)
    ]
    assert not back, "back arrows:\n" + "\n".join(map(str, back))


def test_every_allowed_arrow_up_is_still_there() -> None:
    drawn = {(found.module, found.target) for found in arrows_up(all_imports()) if found.in_function}
    assert set(ALLOWED_UP) <= drawn


@pytest.mark.parametrize(
    ("module", "statement", "up"),
    [
        ("core/window.py", "from perdure.engine import sync", True),
        ("core/window.py", "from perdure import policies", True),
        ("core/window.py", "from ..engine.sync import run", True),
        ("core/window.py", "def f():\n    import perdure.dependency", True),
        ("core/window.py", "from ..errors import PerdureError", False),
        ("core/window.py", "from .shapes import Shape", False),
        (
            "core/window.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import perdure.policies",
            False,
        ),
        ("core/window.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import perdure.policies", True),
        ("events.py", "from . import core", True),
        ("dependency.py", "from . import config", True),
        ("dependency.py", "from . import registry", False),
        ("config.py", "from .dependency import Dependency", False),
        ("cli/main.py", "from perdure.testing import VirtualClock", False),
    ],
)
def test_the_arrow_rule_sees_every_way_to_write_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, statement: str, *, up: bool
) -> None:
    known = (
        "core",
        "core/window",
        "core/shapes",
        "engine/sync",
        "policies",
        "registry",
        "config",
        "dependency",
        "errors",
    )
    for name in known:
        path = tmp_path / "perdure" / (f"{name}.py" if name != "core" else "core/__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    written = tmp_path / "perdure" / module
    written.parent.mkdir(exist_ok=True)
    written.write_text(statement)
    monkeypatch.setitem(globals(), "SRC", tmp_path)
    monkeypatch.setitem(
        globals(), "modules", lambda: {name_of(path): path for path in tmp_path.rglob("*.py")}
    )
    assert bool(arrows_up(imports_of(written))) is up


def test_core_decides_without_time_randomness_threads_or_logs() -> None:
    core = [found for found in all_imports() if found.module.startswith("perdure.core")]
    assert core
    impure = [found for found in core if found.target.split(".")[0] in IMPURE]
    assert not impure, "\n".join(map(str, impure))


def loaded_by(statement: str) -> set[str]:
    """What one statement adds to a bare interpreter, one that sees no installed package and no settings."""
    program = f"""
import sys
before = set(sys.modules)
sys.path.insert(0, {str(SRC)!r})
{statement}
print(*sorted(set(sys.modules) - before))
"""
    bare = [sys.executable, "-I", "-S", "-B", "-c", program]
    return set(subprocess.run(bare, check=True, capture_output=True, text=True, timeout=60).stdout.split())


def test_importing_perdure_loads_no_event_loop_no_logging_and_no_client_library() -> None:
    loaded = {module.split(".")[0] for module in loaded_by("import perdure")}
    assert "perdure" in loaded
    assert not loaded & HEAVY


def test_every_public_name_loads_on_a_python_without_any_installed_package() -> None:
    loaded = loaded_by("import perdure\nfor name in perdure.__all__: getattr(perdure, name)")
    foreign = {module.split(".")[0] for module in loaded} - set(sys.stdlib_module_names) - {"perdure"}
    assert not foreign


@cache
def text_files() -> dict[str, str]:
    """Every file that git tracks or would add, as text; pictures and other binary files are left out."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    texts: dict[str, str] = {}
    for name in filter(None, names):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" not in content:
            texts[name] = content.decode()
    return texts


def forbidden() -> dict[str, re.Pattern[str]]:
    """Each pattern is put together here, so that this file does not contain what it looks for."""
    dot = re.escape(".")
    hosts = [
        "py" + "pi",
        "python" + "hosted",
        "npm" + "js",
        "yarn" + "pkg",
        "deb" + "ian",
        "crates",
        "golang",
    ]
    folders = ["wor" + "k", "tm" + "p", "roo" + "t", "hom" + "e", "User" + "s"]
    words = ["sub" + "agent", "before" + "-stop", "farm" + "-(?:bench|studio)", dot + "library/"]
    return {
        "names a package registry's host": re.compile(rf"\b(?:{'|'.join(hosts)}){dot}(?:org|com|io|net)\b"),
        "names a folder of one machine": re.compile(
            rf"""(?:^|[\s"'`(=:])/(?:{"|".join(folders)})/""", re.MULTILINE
        ),
        "names something of one workplace": re.compile("|".join(words), re.IGNORECASE),
    }


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the list of files is git's")
@pytest.mark.parametrize("what", forbidden())
def test_no_file_names_a_registry_a_machine_or_a_workplace(what: str) -> None:
    pattern = forbidden()[what]
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()!r}"
        for name, text in text_files().items()
        for match in pattern.finditer(text)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("names a package registry's host", "index = https://{}.org/simple".format("py" + "pi")),
        ("names a folder of one machine", 'open("/{}/x")'.format("tm" + "p")),
        ("names something of one workplace", "ask a Sub{}".format("agent")),
    ],
)
def test_the_word_rule_sees_what_it_looks_for(what: str, line: str) -> None:
    assert forbidden()[what].search(line)


def real_sleeps(path: Path) -> Iterator[int]:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "time.sleep":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (node.lineno for alias in node.names if alias.name == "sleep")


def test_no_test_sleeps_in_real_time_but_those_of_real_processes() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in real_sleeps(path)
        if str(path.relative_to(ROOT)) not in ALLOWED_SLEEPS
    }
    assert not found


def test_every_file_that_may_sleep_still_does() -> None:
    assert all(list(real_sleeps(ROOT / name)) for name in ALLOWED_SLEEPS)


def direct_names(part: str) -> set[str]:
    """What pyproject.toml asks for in one part, without versions and the project's own extras."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = list(pyproject["dependency-groups"][part])
    if part == "build":
        asked += pyproject["build-system"]["requires"]
    if part == "test":
        asked += [name for extra in pyproject["project"]["optional-dependencies"].values() for name in extra]
    names = {re.split(r"[\[<>=!~; ]", name)[0] for name in asked} - {"perdure"}
    if part == "test":
        names -= direct_names("http")  # an extra asks for one of these
    return {name.lower().replace("_", "-") for name in names}


@pytest.mark.parametrize("part", ["build", "test", "http", "clients", "niquests", "check", "bench"])
def test_every_dependency_asked_for_has_one_pinned_version(part: str) -> None:
    pinned = (ROOT / f"requirements/{part}.txt").read_text().replace("_", "-")
    missing = {name for name in direct_names(part) if not re.search(rf"^{name}==\S+", pinned, re.MULTILINE)}
    assert not missing, f"run `make pins`: {missing}"


def test_perdure_itself_depends_on_nothing() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] == []

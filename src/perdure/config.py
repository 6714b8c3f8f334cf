"""Dependencies and policies from TOML: ``perdure.toml``, or ``[tool.perdure]`` in ``pyproject.toml``.

::

    [policies.orders]                 # Retry fields by their names
    attempts = 5
    deadline = "20s"                  # seconds, or a duration such as "250ms", "1m30s"
    on = ["ConnectionError", "throttled"]
    backoff = { kind = "exponential", base = 0.2, cap = "5s", jitter = "full" }

    [dependencies.payments]           # goes over what code declares under that name, field by field
    preset = "patient"
    safety = "keyed"
    hedge = false                     # a part that is off

    [dependencies.payments.breaker]
    cooldown = "30s"

Errors name the file, the line, the path in it, the range and the value.
"""

from __future__ import annotations

from _thread import RLock
from pathlib import Path

from perdure import bypass, events, registry
from perdure import toml_values as values
from perdure.dependency import empty
from perdure.engine import logs
from perdure.errors import ConfigError
from perdure.overlays import Overlay
from perdure.parts import PARTS
from perdure.policies import Retry
from perdure.toml_places import Where, table_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.dependency import Dependency

__all__ = ["find_file", "load", "load_policies", "reload", "retry_from"]

FILES = ("perdure.toml", "pyproject.toml")
_lock = RLock()


def load(path: str | Path | None = None, *, discover: bool = True) -> dict[str, Dependency]:
    """Declare the dependencies of a TOML file, or change those that code declared; gives them by name.

    Each is a table ``dependencies.NAME`` with the parts of a Dependency as tables in it. What code declared under
    the same name, before or after, keeps the fields that the file does not name. State, calls in flight and
    decorated functions stay. Files loaded later go over earlier ones. Without a path, ``perdure.toml`` or a
    ``pyproject.toml`` with ``[tool.perdure]`` is looked for in the current directory and those above it; none found
    gives {}. ``discover=False`` with no path gives {} at once.

    Raises ConfigError for a file that cannot be read or says something that cannot work; then nothing changes.
    Thread and task safe.
    """
    file = _chosen(path, discover=discover)
    if file is None:
        return {}
    with _lock:
        here = str(file.resolve())
        found = _overlays(file)
        layers = registry.layers()
        layers.pop(here, None)  # loaded later means over the others, also the second time
        changed = registry.overlay({**layers, here: found}, empty)
        known = registry.dependencies()
    registry.tell(changed)
    return {name: known[name] for name in found}


def reload() -> list[str]:
    """Read the loaded files again and go by what they say now; gives the names of the dependencies that changed.

    Breakers stay open, budgets keep their tokens, calls in flight end as they began. All or nothing: raises
    ConfigError where a file cannot be read or cannot work, and then nothing changes. An event ``config.reloaded``
    of each dependency that changed and one log line tell. What a file no longer names is again as code declared it.
    Thread and task safe.
    """
    with _lock:
        changed = registry.overlay({file: _overlays(Path(file)) for file in registry.layers()}, empty)
    registry.tell(changed)
    for name in changed:
        if events.listeners:
            events.emit(events.Event(name="config.reloaded", dependency=name))
    if changed:
        logs.warn(f"configuration reloaded: {', '.join(changed)}", logs.INFO, event="config.reloaded")
    return changed


def load_policies(path: str | Path | None = None, *, discover: bool = True) -> dict[str, Retry]:
    """The policies of a TOML file by name: tables ``policies.NAME`` and ``dependencies.NAME.retry``.

    Looks for a file as ``load`` does, and declares nothing.

    Raises ConfigError for a file that cannot be read or says something that cannot work. Thread and task safe.
    """
    file = _chosen(path, discover=discover)
    if file is None:
        return {}
    found: dict[str, Retry] = {}
    root, where = _root(file)
    for name, table, here in _named(root, "policies", where):
        found[name] = _retry(name, table, here)
    for name, table, here in _named(root, "dependencies", where):
        given: Any = table.get("retry", {})
        if values.is_off(given) or not table.keys() & {"retry", "preset"}:
            continue
        retry = table_of(given)
        if retry is None:
            raise here.error(f"retry must be a table, or false, got {given!r}", table)
        preset = {"preset": table["preset"]} if "preset" in table else {}
        found[name] = _retry(name, {**preset, **retry}, here / "retry")
    return found


def find_file() -> Path | None:
    """The nearest ``perdure.toml``, or ``pyproject.toml`` with a ``[tool.perdure]`` table, from here upwards."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in FILES:
            file = folder / name
            if file.is_file() and (name == FILES[0] or "[tool.perdure" in _read(file)):
                return file
    return None


def retry_from(table: dict[str, Any], *, name: str | None = None) -> Retry:
    """A Retry from plain values, as a TOML table has them; raises ConfigError as Retry does."""
    named: dict[str, Any] = {} if name is None else {"name": name}
    return Retry(**{**named, **values.retry_fields(table)})


def _retry(name: str, table: dict[str, Any], where: Where) -> Retry:
    try:
        return retry_from(table, name=name)
    except ConfigError as error:
        raise where.error(error, table) from None


# Dependencies


def _overlays(file: Path) -> dict[str, registry.Override]:
    root, where = _root(file)
    found: dict[str, registry.Override] = {}
    for name, table, here in _named(root, "dependencies", where):
        try:
            values.check_names(
                table, {"preset", "safety", "retry", *PARTS}, "a part of a dependency in a file"
            )
        except ConfigError as error:
            raise here.error(error, table) from None
        found[name] = Overlay(table, here)
    return found


# Files


def _chosen(path: str | Path | None, *, discover: bool) -> Path | None:
    if path is not None:
        return Path(path)
    return find_file() if discover else None


def _root(file: Path) -> tuple[dict[str, Any], Where]:
    """The table that holds ``policies`` and ``dependencies``."""
    text = _read(file)
    root, where = _parse(text, file), Where.of(file, text)
    if file.name == "pyproject.toml":
        for key in ("tool", "perdure"):
            root, where = _table(root, key, where), where / key
    try:
        values.check_names(root, ("policies", "dependencies"), "a table of perdure")
    except ConfigError as error:
        raise where.error(error, root) from None
    return root, where


def _named(root: dict[str, Any], section: str, where: Where) -> Iterator[tuple[str, dict[str, Any], Where]]:
    """Name, table and place of each policy or dependency."""
    tables = _table(root, section, where)
    for name in tables:
        yield name, _table(tables, name, where / section), where / section / name


def _table(parent: dict[str, Any], name: str, where: Where) -> dict[str, Any]:
    found: Any = parent.get(name, {})
    table = table_of(found)
    if table is None:
        raise where.error(f"{name} must be a table, got {found!r}", parent)
    return table


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None


def _parse(text: str, file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 - a thread that held it is not in the child
    _lock = RLock()


bypass.after_fork(_new_lock)

"""Policies from TOML: ``perdure.toml``, or ``[tool.perdure]`` in ``pyproject.toml``.

::

    [policies.orders]                 # Retry fields by their names
    attempts = 5
    deadline = "20s"                  # seconds, or a duration such as "250ms", "1m30s"
    on = ["ConnectionError", "throttled"]
    backoff = { kind = "exponential", base = 0.2, cap = "5s", jitter = "full" }

    [dependencies.payments.retry]     # the same fields
    attempts = 3

Errors name the file, the line where the table begins, the path in it, the range and the value.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from perdure.durations import seconds
from perdure.errors import ConfigError
from perdure.policies import FOREVER, Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from perdure.core.backoff import Backoff

__all__ = ["find_file", "load_policies", "retry_from"]

FILES = ("perdure.toml", "pyproject.toml")
_DURATIONS = {"deadline", "attempt_timeout", "hint_cap"}
_NOT_IN_FILES = {"reject", "refresh"}


def load_policies(path: str | Path | None = None, *, discover: bool = True) -> dict[str, Retry]:
    """The policies of a TOML file by name: tables ``policies.NAME`` and ``dependencies.NAME.retry``.

    Without a path, ``perdure.toml`` or a ``pyproject.toml`` with ``[tool.perdure]`` is looked for in the current
    directory and those above it; none found gives {}. ``discover=False`` with no path gives {} at once.

    Raises ConfigError for a file that cannot be read or says something that cannot work. Thread and task safe.
    """
    if path is None:
        file = find_file() if discover else None
        if file is None:
            return {}
    else:
        file = Path(path)
    text = _read(file)
    found: dict[str, Retry] = {}
    for where, name, table in _tables(_parse(text, file), file):
        try:
            found[name] = retry_from(table, name=name)
        except ConfigError as error:
            raise ConfigError(f"{file}:{_line_of(text, where)}: {where}: {error}") from None
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
    known = {one.name for one in fields(Retry) if one.init} - _NOT_IN_FILES
    given: dict[str, Any] = {} if name is None else {"name": name}
    for field, value in table.items():
        if field not in known:
            raise ConfigError(
                f"{field} is not a field of a policy ({', '.join(sorted(known))}), got {value!r}"
            )
        given[field] = _value(field, value)
    return Retry(**given)


def _value(field: str, value: Any) -> Any:
    if field == "deadline" and value == "forever":
        return FOREVER
    if field in {"deadline", "attempt_timeout", "attempts"} and value == "none":
        return None
    if field in _DURATIONS:
        return seconds(value, field=field)
    if field in {"on", "never"}:
        return _wanted(field, value)
    readers = {"backoff": _backoff, "safety": _safety}
    return readers[field](value) if field in readers else value


def _backoff(value: Any) -> Backoff:
    from perdure.core import backoff, shapes

    kinds: dict[str, type[Backoff]] = {
        "exponential": backoff.Exponential,
        **{name.lower(): getattr(shapes, name) for name in shapes.__all__ if name != "AfterImmediate"},
    }
    table: dict[str, Any] = value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    if not isinstance(table.get("kind"), str) or table["kind"] not in kinds:
        raise ConfigError(f"backoff must be a table with kind = one of {', '.join(kinds)}, got {value!r}")
    amounts = {"base", "cap", "step", "first", "unit", "delay"}
    given: dict[str, Any] = {
        key: seconds(one, field=f"backoff.{key}") if key in amounts else one
        for key, one in table.items()
        if key not in {"kind", "after_immediate"}
    }
    if "delays" in given:
        given["delays"] = [
            seconds(one, field=f"backoff.delays[{i}]") for i, one in enumerate(_listed(given["delays"]))
        ]
    try:
        made = kinds[table["kind"]](**given)
    except TypeError as error:
        raise ConfigError(f"backoff of kind {table['kind']}: {error}") from None
    return made.after_immediate() if table.get("after_immediate") else made


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"backoff.delays must be a list of durations, got {value!r}")
    delays: list[Any] = value  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    return delays


def _wanted(field: str, value: Any) -> tuple[Any, ...]:
    """Builtin exception names and fault kinds; what needs an import is set in code."""
    import builtins

    from perdure.faults import FaultKind

    kinds = {kind.value: kind for kind in FaultKind}
    wanted: list[Any] = []
    several: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    for one in several:
        found = (kinds.get(one) or getattr(builtins, one, None)) if isinstance(one, str) else None
        if found is None:
            raise ConfigError(
                f"{field} takes names of builtin exceptions and of fault kinds ({', '.join(kinds)}), got {one!r}"
            )
        wanted.append(found)
    return tuple(wanted)


def _safety(value: Any) -> Any:
    from perdure.faults import Safety

    for one in Safety:
        if one.value == value:
            return one
    raise ConfigError(f"safety must be one of {', '.join(Safety)}, got {value!r}")


def _tables(data: dict[str, Any], file: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, name and table of each policy in the file."""
    root, prefix = data, ""
    if file.name == "pyproject.toml":
        root, prefix = _table(_table(data, "tool", file), "perdure", file), "tool.perdure."
    for name, table in _named(root, "policies", file, prefix):
        yield f"{prefix}policies.{name}", name, table
    for name, table in _named(root, "dependencies", file, prefix):
        if "retry" in table:
            yield f"{prefix}dependencies.{name}.retry", name, _table(table, "retry", file)


def _table(parent: dict[str, Any], name: str, file: Path) -> dict[str, Any]:
    found: Any = parent.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: {name} must be a table, got {found!r}")
    table: dict[str, Any] = found  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    return table


def _named(
    root: dict[str, Any], section: str, file: Path, prefix: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    given: Any = root.get(section, {})
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: {prefix}{section} must be a table of tables, got {given!r}")
    tables: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: {prefix}{section}.{name} must be a table, got {table!r}")
        yield name, table


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


def _line_of(text: str, where: str) -> int:
    """The line of the table's header, or of the nearest one that contains it; 1 where it has none."""
    path = where
    while path:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip().replace('"', "").startswith(f"[{path}]"):
                return number
        path = path.rpartition(".")[0]
    return 1

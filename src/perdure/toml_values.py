"""The values of TOML tables as those of policies and parts: durations in words, names of exceptions, tables.

What is read here is checked by the classes themselves, so a file has their fields, ranges and errors.
"""

from __future__ import annotations

from dataclasses import fields

from perdure.durations import seconds
from perdure.errors import ConfigError
from perdure.parts import PARTS, Gate
from perdure.policies import FOREVER, Retry
from perdure.presets import CHOSEN, RETRIES, TIMEOUTS, named, nearest
from perdure.toml_places import table_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from perdure.core.backoff import Backoff

_DURATIONS = {
    *("deadline", "attempt_timeout", "hint_cap", "connect", "read", "total", "window", "throttle_window"),
    *("slow", "cooldown", "max_cooldown", "lease", "per", "max_wait", "delay", "last_good"),
}
_AMOUNTS = {"base", "cap", "step", "first", "unit", "delay"}
_CODE = {
    "retry": {"reject", "refresh"},
    "fallback": {"function", "to"},
}
"""Fields that are functions or objects: a file keeps what code gave them."""


def retry_fields(table: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Retry that a table gives; of a preset, those that it is about."""
    check_names(table, {"preset", *field_names("retry", Retry)}, "a field of a policy")
    given: dict[str, Any] = {}
    if "preset" in table:
        preset = named("preset", table["preset"], RETRIES)
        given = {name: getattr(preset, name) for name in CHOSEN}
    given.update((field, retry_value(field, value)) for field, value in table.items() if field != "preset")
    return given


def retry(before: Retry | None, value: Any) -> Retry | None:
    """The Retry of a dependency, from that of the code or a preset and what a table says; None: switched off."""
    table = table_of(value)
    if table is not None:
        return (before or Retry()).replace(**retry_fields(table))
    if is_off(value):
        return None
    raise ConfigError(f"retry must be a table, or false, got {value!r}")


def retry_value(field: str, value: Any) -> Any:
    """One field of a Retry."""
    if field == "deadline" and value == "forever":
        return FOREVER
    if field in {"on", "never"}:
        return _wanted(field, value)
    readers = {"backoff": _backoff, "safety": safety}
    return readers[field](value) if field in readers else _value(field, value)


def part(name: str, before: Any, table: Any) -> Any:
    """A part of a dependency, from that of the code or a preset and what a table says; None: switched off."""
    kind = PARTS[name]
    if is_off(table):
        return None
    if name == "timeouts" and isinstance(table, str):
        return named("timeouts", table, TIMEOUTS)
    given = {} if table is True else _part_fields(name, kind, table)
    if name == "timeouts" and "preset" in given:
        before = named("preset", given.pop("preset"), TIMEOUTS)
    if before is not None and name != "fallback":
        return before.replace(**given)
    try:
        return kind(**given)
    except TypeError:
        raise ConfigError(f"{name} needs limit, got {table!r}") from None


def is_off(value: Any) -> bool:
    """Whether a value switches a part off."""
    return value is False or value == "off"


def safety(value: Any) -> Any:
    """A Safety by its name."""
    from perdure.faults import Safety

    if value == "none":
        return None
    for one in Safety:
        if one.value == value:
            return one
    raise ConfigError(f"safety must be one of {', '.join(Safety)}, got {value!r}")


def check_names(table: dict[str, Any], known: Iterable[str], what: str) -> None:
    """Refuse a key that nobody knows, and name the nearest that somebody does."""
    names = sorted(known)
    for name, value in table.items():
        if name not in names:
            raise ConfigError(
                f"{name} is not {what} ({', '.join(names)}), got {value!r}{nearest(name, names)}"
            )


def field_names(name: str, kind: type) -> set[str]:
    """The fields of a part that may stand in a file."""
    return {one.name for one in fields(kind) if one.init} - _CODE.get(name, set())


def _part_fields(name: str, kind: type, value: Any) -> dict[str, Any]:
    table = table_of(value)
    if table is None:
        raise ConfigError(f"{name} must be a table, or false, got {value!r}")
    also = {"gate": {"throttle"}, "timeouts": {"preset"}}.get(name, set())
    check_names(table, field_names(name, kind) | also, f"a field of {name}")
    given = {field: one if field == "value" else _value(field, one) for field, one in table.items()}
    if name == "gate" and "throttle" in given:
        given.update(_throttle(given.pop("throttle")))
    if name == "budget":  # one form takes the place of the other
        for form, other in (("max_ratio", "per_success"), ("per_success", "max_ratio")):
            if given.get(form) is not None and other not in given:
                given[other] = None
    return given


def _throttle(value: Any) -> dict[str, Any]:
    if is_off(value) or value is None:
        return {"throttle_k": None}
    table = table_of(value)
    if table is None or not table.keys() <= {"k", "window"}:
        raise ConfigError(f"throttle must be a table with k and window, or false, got {value!r}")
    try:
        given = Gate.throttle(**{field: _value(field, one) for field, one in table.items()})
    except ConfigError as error:
        raise ConfigError(str(error).replace("throttle_", "throttle.", 1)) from None
    return {"throttle_k": given.throttle_k, "throttle_window": given.throttle_window}


def _value(field: str, value: Any) -> Any:
    """A number, flag or word as it is; a duration in words as seconds; "none" as None."""
    if value == "none":
        return None
    return seconds(value, field=field) if field in _DURATIONS and isinstance(value, str) else value


def _backoff(value: Any) -> Backoff:
    from perdure.core import backoff, shapes

    kinds: dict[str, type[Backoff]] = {
        "exponential": backoff.Exponential,
        **{name.lower(): getattr(shapes, name) for name in shapes.__all__ if name != "AfterImmediate"},
    }
    table = table_of(value) or {}
    if not isinstance(table.get("kind"), str) or table["kind"] not in kinds:
        raise ConfigError(f"backoff must be a table with kind = one of {', '.join(kinds)}, got {value!r}")
    given = {
        key: _amount(f"backoff.{key}", one) if key in _AMOUNTS else one
        for key, one in table.items()
        if key not in {"kind", "after_immediate"}
    }
    if "delays" in given:
        given["delays"] = [
            _amount(f"backoff.delays[{i}]", one) for i, one in enumerate(_listed(given["delays"]))
        ]
    try:
        made = kinds[table["kind"]](**given)
    except TypeError as error:
        raise ConfigError(f"backoff of kind {table['kind']}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"backoff.{error}") from None
    return made.after_immediate() if table.get("after_immediate") else made


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"backoff.delays must be a list of durations, got {value!r}")
    delays: list[Any] = value  # pyright: ignore[reportUnknownVariableType] # narrowed from Any
    return delays


def _amount(field: str, value: Any) -> Any:
    return seconds(value, field=field) if isinstance(value, str) else value


def _wanted(field: str, value: Any) -> tuple[Any, ...] | None:
    """Builtin exception names and fault kinds; what needs an import is set in code."""
    import builtins

    from perdure.faults import FaultKind

    if value == "none":
        return None
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

"""What a table of a file makes of the values that code wrote for a dependency: it goes over them, field by field.

What a file cannot say, functions and objects, stays as code gave it: the predicates of a Retry, the key, fallbacks.
"""

from __future__ import annotations

from dataclasses import replace

from perdure import toml_values as values
from perdure.dependency import DEFAULT_BUDGET, DEFAULT_GATE, DEFAULT_RETRY
from perdure.errors import ConfigError
from perdure.parts import PARTS
from perdure.policies import Retry
from perdure.presets import CHOSEN, options
from perdure.settings import Settings
from perdure.toml_places import table_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.toml_places import Where


class Overlay:
    """What a file says about a dependency; called with the values of code, gives those that calls go by."""

    __slots__ = ("table", "where")

    def __init__(self, table: dict[str, Any], where: Where) -> None:
        self.table = table
        self.where = where

    def __call__(self, written: Settings | None) -> Settings:
        """The values with the file's over them; None: no code wrote any. Raises ConfigError with file and line."""
        table, where, base = self.table, self.where, written or _defaults()
        changes = self._preset(base)
        try:
            if "safety" in table:
                changes["safety"] = values.safety(table["safety"])
        except ConfigError as error:
            raise where.error(error, table) from None
        for name in (name for name in table if name == "retry" or name in PARTS):
            changes[name] = self._part(name, changes.get(name, getattr(base, name)))
        made = replace(base, **changes)
        try:
            made.check()
        except ConfigError as error:
            raise where.error(error, table) from None
        return made

    def _preset(self, base: Settings) -> dict[str, Any]:
        """The parts of a preset; of the Retry that code wrote it leaves what a preset is not about."""
        table = self.table
        if "preset" not in table:
            return {}
        try:
            given = options(table["preset"])
            timeouts = table.get("timeouts")
            if timeouts is not None and not values.is_off(timeouts):
                given = options(
                    table["preset"], timeouts=values.part("timeouts", given.get("timeouts"), timeouts)
                )
        except ConfigError as error:
            raise self.where.error(error, table) from None
        retry = given["retry"]
        chosen = {name: getattr(retry, name) for name in CHOSEN}
        return {**given, "retry": (base.retry or Retry()).replace(**chosen)}

    def _part(self, name: str, before: Any) -> Any:
        table: Any = self.table[name]
        try:
            return values.retry(before, table) if name == "retry" else values.part(name, before, table)
        except ConfigError as error:
            if table_of(table) is not None and not str(error).startswith(f"{name} "):
                raise (self.where / name).error(error, table) from None
            raise self.where.error(error, self.table) from None


def _defaults() -> Settings:
    return Settings(
        retry=DEFAULT_RETRY,
        timeouts=None,
        budget=DEFAULT_BUDGET,
        gate=DEFAULT_GATE,
        breaker=None,
        rate_limit=None,
        bulkhead=None,
        hedge=None,
        fallback=None,
        safety=None,
        on_exhausted=None,
        key=None,
    )
